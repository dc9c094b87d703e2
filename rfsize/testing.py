"""Check a new framework: call `check_framework` if you write a `Framework` for models that rfsize does not read yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Floats
from rfsize.counting.api import inbag, tree_outputs
from rfsize.exceptions import InbagError
from rfsize.inference.api import compile
from rfsize.models.framework import Framework, framework_of
from rfsize.models.model import Forest, Model, first_trees
from rfsize.models.rows import n_rows_of

_TOLERANCE = 1e-5  # rounding noise of a sum over a few dozen trees in single precision


def check_framework(
    framework: Framework,
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
) -> dict[str, str]:
    """Check what a framework reads against the framework's own predictions.

    - Entry point: rfsize finds the framework for the model.
    - Leaves: ``apply`` names leaves of each tree, and their values give the model's own predictions.
    - Truncation: the first trees predict what their leaves give, and your model does not change.
    - Compiled: a compiled model gives the model's own predictions.
    - Bags (the training rows of each tree): rfsize proves them on the training rows and refuses the same rows in
      another order. The out-of-bag votes of a row come from the trees that were not trained on the row.
    - Refusals: wrong models and wrong rows raise an error.

    If rfsize refuses one of these, the result says so and why, and that check is left out.

    Parameters
    ----------
    framework : Framework
        The object that its entry point names.
    model : booster or estimator
        A small trained model of 10 to 100 trees; a forest trained with a bagging fraction if the framework has one.
    X : array_like, DataFrame or SciPy sparse matrix, shape (n_rows, n_features)
        The training rows.
    y : array_like, shape (n_rows,)
        Labels of the training rows, or numbers for a regression.
    sample_weight, seed, subsample
        As in `rfsize.inbag`, if this model needs them.

    Returns
    -------
    dict of str
        For each of "entry point", "leaves", "truncation", "compiled", "bags" and "refusals": "right", or "refused: "
        and the reason.

    Raises
    ------
    AssertionError
        If a check fails. The message says what is wrong.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from rfsize.integrations.sklearn import framework
    >>> from rfsize.testing import check_framework
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> check_framework(framework, RandomForestClassifier(10, random_state=0).fit(X, y), X, y)["leaves"]
    'right'
    """
    _check(
        framework_of(model) is framework,
        f"rfsize finds {framework_of(model)!r} for a {type(model).__module__}.{type(model).__qualname__}, not this "
        "framework: name its entry point (group rfsize.frameworks) like the top-level package of the model",
    )
    read = framework.read(model)
    read.open(X)
    before = _predicted(read, model, X)
    of_bags = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    checks: dict[str, Callable[[], None]] = {
        "leaves": lambda: _check_close(before, _by_leaves(read, X, read.n_trees), "predictions by all trees"),
        "truncation": lambda: _check_truncation(framework, read, X),
        "compiled": lambda: _check_compiled(read, model, X),
        "bags": lambda: _check_bags(read, model, X, y, of_bags),
    }
    results = {"entry point": "right"}
    for name, check in checks.items():
        try:
            check()
            results[name] = "right"
        except ValueError as refusal:
            results[name] = f"refused: {refusal}"
        except (AttributeError, IndexError, TypeError) as error:
            what = f"the check of {name} ends in a {type(error).__name__} ({error})"
            raise AssertionError(f"{what}: compare types and shapes with the docstrings of Model and Bags") from error
    _check_refusals(framework, model, read, X)
    _check(np.array_equal(before, _predicted(read, model, X)), "the caller's model was changed: return new models")
    return results | {"refusals": "right"}


def _check(fits: Any, otherwise: str) -> None:
    if not fits:
        raise AssertionError(otherwise)


def _check_close(own: NDArray[Any], expected: NDArray[Any], what: str) -> None:
    """Compare labels, numbers, or probabilities: of class 1 or of all classes."""
    if own.ndim < expected.ndim:
        expected = expected[:, -1]
    kinds = f"{own.dtype} of shape {own.shape}, not {expected.dtype} of shape {expected.shape}"
    _check(own.shape == expected.shape and (own.dtype.kind == expected.dtype.kind), f"{what} are {kinds}")
    if own.dtype.kind != "f":
        _check(np.array_equal(own, expected), f"{what} are other labels: compare conventions")
        return
    apart, most = float(np.abs(own - expected).max()), max(1.0, float(np.abs(expected).max()))
    _check(apart <= _TOLERANCE * most, f"{what} are up to {apart:.3g} off: compare value, base, link and output")


def _predicted(read: Model, model: Any, X: Any) -> NDArray[Any]:
    """The model's own probabilities or numbers."""
    rows = read.native_rows(X)
    predicted = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    predicted = np.asarray(predicted)
    _check(
        predicted.dtype.kind == "f" or not read.classes.size,
        f"the model predicts {predicted.dtype}: give it a predict_proba, to compare the values of its leaves with",
    )
    return predicted.astype(np.float64)


def _by_leaves(read: Model, X: Any, n_trees: int, small: Model | None = None) -> Floats:
    """What the first trees of a model predict, shape (n_rows, n_classes) or (n_rows, 1); ``small`` has only these."""
    if read.ensemble is None:
        assert isinstance(read, Forest)
        return read.link.predictions(read.tree_scores(X)[:, :n_trees].mean(axis=1), len(read.classes))
    trees, leaf, root = read.ensemble, np.asarray(read.apply(X)), read.ensemble.tree_start
    shape, end = (n_rows_of(X), *root.shape), root + trees.nodes.n_nodes.reshape(root.shape)
    _check(leaf.shape == shape, f"apply gives the shape {leaf.shape}, expected {shape}")
    _check(((leaf >= root) & (leaf < end)).all(), "apply names nodes that are not of their tree")
    _check((trees.nodes.left[leaf] == -1).all(), "apply names nodes that are no leaves")
    value = trees.nodes.value[leaf[:, :n_trees]].astype(np.float64)  # (rows, trees, trees per iteration, scores)
    sums = value.sum(axis=1).reshape(len(leaf), -1)
    if isinstance(read, Forest) and not trees.conventions.averages:  # a sum of trees that were scaled for all of them
        score = trees.raw_score(sums * (read.n_trees / n_trees), n_trees)
    else:
        score = (trees if small is None else small.ensemble or trees).raw_score(sums, n_trees)
    score = score[:, -1:] if score.shape[1] == 2 and len(read.classes) == 2 else score
    return trees.link.predictions(score, len(read.classes))


def _check_truncation(framework: Framework, read: Model, X: Any) -> None:
    for n_trees in sorted({1, (read.n_trees + 1) // 2, read.n_trees}):
        small = first_trees(read, n_trees)
        again = framework.read(small)
        _check(again.n_trees == n_trees, f"first({n_trees}) has {again.n_trees} trees")
        predicted = _predicted(read, small, X)
        _check_close(predicted, _by_leaves(read, X, n_trees, again), f"predictions by the first {n_trees} trees")


def _check_compiled(read: Model, model: Any, X: Any) -> None:
    own = np.asarray(model.predict(read.native_rows(X)))
    _check_close(compile(model).predict(X), own, "predictions of the compiled model")


def _check_bags(read: Model, model: Any, X: Any, y: Any, of_bags: dict[str, Any]) -> None:
    try:
        mask = inbag(model, X, y, **of_bags)
    except InbagError as error:
        if "prove" not in str(error):
            raise
        raise AssertionError(f"the bags are not those of training, or X is not what the model saw: {error}") from error
    _check(mask.any(axis=1).all() and not mask.all(), "the bags hold no row, or all of them: refuse with InbagError")
    outputs = tree_outputs(model, X, y, oob=True, groups="rows", **of_bags)
    # Where each tree of an iteration has a bag of its own, as in XGBoost, trees of several iterations vote together.
    pairs_trees = len(outputs.classes) > 2 and (outputs.votes.counts.sum(axis=1) > (~mask).sum(axis=0)).any()
    if len(outputs.classes) and not pairs_trees:
        votes = outputs.by_tree()
        counts = np.stack([np.sum(votes == index, axis=1) for index in range(len(outputs.classes))], axis=1)
        _check(np.array_equal(outputs.votes.counts, counts), "out-of-bag votes are not those that by_tree tells")
    if read.ensemble is None:  # members that are no trees store nothing that could tell
        return
    order = np.random.default_rng(0).permutation(n_rows_of(X))
    try:
        inbag(model, X.iloc[order] if hasattr(X, "iloc") else X[order], y, **of_bags)
    except InbagError:
        return
    raise AssertionError("the bags were proven on rows in another order than that of training: compare contradicted")


def _check_refusals(framework: Framework, model: Any, read: Model, X: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "an object that is no model": lambda: framework.read(object()),
        "rows with a column too many": lambda: read.open(np.zeros((3, read.n_features + 1))),
        "no rows": lambda: read.open(np.zeros((0, read.n_features))),
        "a row that is no matrix": lambda: read.open(np.zeros(read.n_features)),
        "one row as the training rows": lambda: inbag(model, X[:1]),
    }
    for what, call in calls.items():
        try:
            call()
            outcome = "is taken"
        except ValueError:
            continue
        except Exception as error:
            outcome = f"raises {type(error).__name__}"
        raise AssertionError(f"{what} {outcome}: refuse with a ValueError that says what is wrong and what to do")
    is_any_file = framework.files is not None and framework.files.recognises(b"")
    _check(not is_any_file, "an empty file is recognised as a model")
