"""Check a new integration: call `check_framework` if you write an `Framework` for another framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.inference.api import compile
from rfsize.models.framework import Framework, framework_of
from rfsize.models.leaves import Answers
from rfsize.models.model import Forest
from rfsize.utils.matrix import n_rows, take
from rfsize.utils.typing import Floats

_SINGLE, _DOUBLE = 1e-6, 1e-12  # rounding noise of predictions in single precision (XGBoost) and in double precision
_TOLERANCE = 1e-5  # rounding noise of a sum over a few dozen trees in single precision
_MOST_TREES = 25  # only the votes of the first trees are checked: each needs the predictions of a smaller forest
_REFUSALS = (NotAForestError, InbagError, ValueError)


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
    """Check an integration against the framework's own predictions.

    - Entry point: rfsize finds the framework for the model.
    - Votes: each tree votes for the class with its highest score. The score of tree t follows from the framework's own
      predictions: it is t times the mean score of the first t trees, minus t − 1 times that of the first t − 1 trees.
    - Truncation: a truncated forest predicts the mean of its trees, and your model does not change.
    - Compiled: a compiled forest gives the framework's probabilities and rfsize's votes, and its ``predict`` returns
      what the model's ``predict`` returns.
    - Bags (the training rows of each tree): rfsize proves them on the training rows and refuses the same rows in
      another order. The out-of-bag votes of a row come from the trees that were not trained on the row.
    - More trees: an estimator's forest takes more trees, and keeps the trees that it has.
    - Refusals: wrong models and wrong rows raise an error.

    If the integration refuses one of these, the result says so and why, and that check is left out.

    Parameters
    ----------
    framework : Framework
        The object that its entry point names.
    model : booster or estimator
        A small trained forest of 10 to 100 trees, trained with a bagging fraction if the framework has one.
    X : array_like, DataFrame or SciPy sparse matrix, shape (n_rows, n_features)
        The training rows.
    y : array_like, shape (n_rows,)
        Labels of the training rows, or numbers for a regression.
    sample_weight, seed, subsample
        As in `rfsize.inbag`, if this model needs them.

    Returns
    -------
    dict of str
        For each of "entry point", "votes", "truncation", "compiled", "bags", "more trees" and "refusals": "right", or
        "refused: " and the reason.

    Raises
    ------
    AssertionError
        If a check fails. The message says what was found and what was expected.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from rfsize.integrations.sklearn import framework
    >>> from rfsize.testing import check_framework
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> check_framework(framework, RandomForestClassifier(10, random_state=0).fit(X, y), X, y)["votes"]
    'right'
    """
    _check(
        framework_of(model) is framework,
        f"rfsize finds {framework_of(model)!r} for a {type(model).__module__}.{type(model).__qualname__}, not this "
        "framework: name its entry point (group rfsize.integrations) like the top-level package of the model",
    )
    adapter = framework.adapt(model, casts_votes=False)
    X = adapter.check(X)
    bags = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    before = _predicted(framework, adapter, model, X)
    found = {
        "entry point": "right",
        "votes": _or_refused(_check_votes, framework, adapter, X),
        "truncation": _or_refused(_check_truncation, framework, adapter, X),
        "compiled": _or_refused(_check_compiled, framework, adapter, model, X),
        "bags": _or_refused(_check_bags, adapter, X, y, bags),
        "more trees": _or_refused(_check_more_trees, framework, adapter, model, X, y, bags),
        "refusals": _check_refusals(framework, adapter, X),
    }
    _check(
        np.array_equal(before, _predicted(framework, adapter, model, X)),
        "the caller's model predicts otherwise than before: return new models, and change none",
    )
    return found


def _or_refused(check: Any, *arguments: Any) -> str:
    try:
        check(*arguments)
    except _REFUSALS as refusal:
        return f"refused: {refusal}"
    return "right"


def _check(fits: Any, otherwise: str) -> None:
    if not fits:
        raise AssertionError(otherwise)


def _predicted(framework: Framework, adapter: Forest, model: Any, X: Any) -> Floats:
    """The framework's predictions, shape (n_rows, n_classes), or (n_rows, 1) for a regression."""
    found = np.asarray(framework.predictions(model, X), dtype=np.float64)
    if found.ndim == 1 and len(adapter.classes) == 2:
        found = np.stack([1.0 - found, found], axis=1)
    found = found.reshape(n_rows(X), -1)
    expected = len(adapter.classes) or 1
    _check(
        found.shape[1] == expected,
        f"Framework.predictions has {found.shape[1]} columns, but the model {expected} classes",
    )
    return found


def _check_votes(framework: Framework, adapter: Forest, X: Any) -> None:
    if not adapter.classes.size:
        raise ValueError("a regression forest casts no votes")
    _check_answers(adapter, X)
    votes = ForestOnRows.of(adapter, X).tree_votes()
    _check(
        votes.shape == (n_rows(X), adapter.n_trees),
        f"the votes have the shape {votes.shape}, expected {(n_rows(X), adapter.n_trees)}",
    )
    mean, noise = np.zeros((n_rows(X), len(adapter.classes))), np.zeros(n_rows(X))
    compared = 0
    for n_trees in range(1, min(adapter.n_trees, _MOST_TREES) + 1):
        now, noise_now = _mean_score(framework, adapter, n_trees, X)
        score = n_trees * now - (n_trees - 1) * mean
        uncertain = n_trees * noise_now + (n_trees - 1) * noise
        mean, noise = now, noise_now
        two = np.sort(score, axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > 2.0 * uncertain
        wrong = clear & (score.argmax(axis=1) != votes[:, n_trees - 1])
        compared += int(clear.sum())
        _check(
            not wrong.any(),
            f"tree {n_trees - 1} alone predicts {_shown(score.argmax(axis=1)[wrong])} on {wrong.sum()} rows where the "
            f"adapter has it vote {_shown(votes[:, n_trees - 1][wrong])}: compare leaf_index, leaves and truncated",
        )
    _check(compared > 0, "no vote could be compared: all predictions are level, or rounded to certainty")


def _check_answers(adapter: Forest, X: Any) -> None:
    answers = adapter.answers(X)
    leaf, offset = np.asarray(answers.leaf), adapter.leaves.offset
    expected = (n_rows(X), *offset.shape)
    _check(
        leaf.shape == expected and leaf.dtype.kind in "iu",
        f"leaf_index gives {leaf.dtype} of shape {leaf.shape}, expected whole numbers of shape {expected}",
    )
    if not adapter.are_trees:
        return
    ends = np.append(np.sort(offset, axis=None)[1:], len(adapter.leaves.score))
    last = ends[np.searchsorted(ends, offset, side="right")]
    beyond = int(np.any((leaf < offset) | (leaf >= last), axis=(1, 2)).sum())
    _check(beyond == 0, f"leaf_index names leaves that trees do not have, on {beyond} rows")


def _mean_score(framework: Framework, adapter: Forest, n_trees: int, X: Any) -> tuple[Floats, Floats]:
    """Mean scores of the first trees by class, up to a constant for each row, and their rounding noise.

    They are computed from the framework's predictions by the inverse of the link.
    """
    model = adapter.first(n_trees)
    predicted = framework.predictions(model, X)
    unit = _SINGLE if np.asarray(predicted).dtype == np.float32 else _DOUBLE
    share = _predicted(framework, adapter, model, X)
    with np.errstate(divide="ignore"):
        if adapter.link.kind == "identity":
            return share, np.full(len(share), unit)
        if adapter.link.kind == "softmax":
            return _finite(np.log(share)), unit / share.min(axis=1)
        score = _finite(np.log(share) - np.log1p(-share))
        if len(adapter.classes) == 2:
            score[:, 0] = 0.0
        return score, unit / (share * (1.0 - share)).min(axis=1)


def _finite(score: Floats) -> Floats:
    """Replace infinite scores, which belong to probabilities of 0 and 1, by large numbers."""
    return np.asarray(np.clip(score, -1e6, 1e6))


def _check_truncation(framework: Framework, adapter: Forest, X: Any) -> None:
    for n_trees in sorted({1, (adapter.n_trees + 1) // 2, adapter.n_trees}):
        small = adapter.first(n_trees)
        again = framework.adapt(small, casts_votes=False)
        _check(again.n_trees == n_trees, f"truncated({n_trees}) has {again.n_trees} trees")
        expected = _mean_of_trees(adapter, n_trees, X)
        off = float(np.abs(_predicted(framework, adapter, small, X) - expected).max())
        _check(
            off <= _TOLERANCE * max(1.0, float(np.abs(expected).max())),
            f"the first {n_trees} trees predict up to {off:.3g} off the mean of their scores through the link "
            f"{adapter.link.kind!r}: compare truncated, leaves.raw and link",
        )


def _mean_of_trees(adapter: Forest, n_trees: int, X: Any) -> Floats:
    mean = np.zeros((n_rows(X), adapter.leaves.n_scores))

    def add(rows: slice, answers: Answers, _: NDArray[np.bool_] | None) -> None:
        mean[rows] = answers.raw[:, :n_trees].astype(np.float64).mean(axis=1)

    ForestOnRows(adapter, X).visit(add, what="scores")
    return adapter.link.probabilities(mean) if adapter.classes.size else adapter.link.predicted(mean)


def _check_compiled(framework: Framework, adapter: Forest, model: Any, X: Any) -> None:
    fast = compile(model)
    off = float(np.abs(fast.predict_proba(X) - _predicted(framework, adapter, model, X)).max())
    _check(off <= _TOLERANCE, f"the compiled forest's probabilities are up to {off:.3g} off: compare tree_table")
    _check(
        fast.votes(X) == ForestOnRows.of(model, X).votes(),
        "the compiled forest counts other votes: compare tree_table.vote and conventions",
    )
    if hasattr(model, "fit") and not hasattr(model, "predict"):
        return
    own = np.asarray(model.predict(X) if hasattr(model, "fit") else framework.predictions(model, X))
    found = fast.predict(X)
    _check(
        found.shape == own.shape and found.dtype.kind == own.dtype.kind,
        f"the model predicts {own.dtype} of shape {own.shape}, the compiled forest {found.dtype} of shape "
        f"{found.shape}: compare output",
    )


def _check_bags(adapter: Forest, X: Any, y: Any, bags: dict[str, Any]) -> None:
    forest = ForestOnRows.of(adapter, X, y, oob=True, groups="rows", **bags)
    try:
        inbag = forest.inbag()
    except InbagError as error:
        raise AssertionError(f"the bags are not those of training, or X is not what the model saw: {error}") from error
    _check(
        inbag.any(axis=1).all() and not inbag.all(),
        "the bags hold no row, or all of them: refuse with InbagError where none is out of bag",
    )
    if adapter.classes.size and adapter.leaves.offset.shape[1] == 1:
        cast = ForestOnRows.of(adapter, X).tree_votes()
        outside = [np.sum((cast == index) & ~inbag.T, axis=1) for index in range(len(adapter.classes))]
        _check(
            np.array_equal(forest.votes().counts, np.stack(outside, axis=1)),
            "out-of-bag votes are not those of the trees that left the row out",
        )
    order = np.random.default_rng(0).permutation(n_rows(X))
    shuffled = X.iloc[order] if hasattr(X, "iloc") else X[order]
    if not forest.bags or not forest.bags.need_proof:
        return
    try:
        in_another_order = ForestOnRows.of(adapter, shuffled, y, oob=True, groups="rows", **bags)
        assert in_another_order.bags is not None
        in_another_order.bags.labels = None  # the labels would show the other order too; the bags must do so alone
        in_another_order.inbag()
    except InbagError:
        return
    raise AssertionError("the bags were proven on rows in another order than that of training: compare contradicted")


def _check_more_trees(framework: Framework, adapter: Forest, model: Any, X: Any, y: Any, bags: dict[str, Any]) -> None:
    if not hasattr(model, "fit") or not adapter.classes.size:
        raise ValueError("only an estimator of classes is grown")
    forest = framework.trainer_of(adapter, X, y, bags.get("sample_weight")).resume(adapter.booster)
    forest.add(3)
    grown = framework.adapt(adapter.with_booster(forest.booster()))
    _check(
        grown.n_trees == adapter.n_trees + 3,
        f"a forest of {adapter.n_trees} trees that took 3 more has {grown.n_trees}",
    )
    before, after = (one.answers(X).raw for one in (adapter, grown))
    _check(
        np.allclose(before, after[:, : adapter.n_trees], rtol=_TOLERANCE, atol=_TOLERANCE),
        "a forest that took more trees lost those it had",
    )


def _check_refusals(framework: Framework, adapter: Forest, X: Any) -> str:
    one_row = take(X, 0, 1)
    wrong = np.zeros((3, adapter.n_features + 1))
    calls: dict[str, Callable[[], Any]] = {
        "an object that is no model": lambda: framework.adapt(object()),
        "rows with a column too many": lambda: ForestOnRows.of(adapter, wrong),
        "no rows": lambda: ForestOnRows.of(adapter, np.zeros((0, adapter.n_features))),
        "a row that is no matrix": lambda: ForestOnRows.of(adapter, np.zeros(adapter.n_features)),
        "one row as the training rows": lambda: ForestOnRows.of(adapter, one_row, oob=True).inbag(),
    }
    for what, call in calls.items():
        try:
            call()
        except ValueError as refusal:
            _check(str(refusal), f"{what} is refused without a word: say what was found and what to do")
        else:
            raise AssertionError(f"{what} is taken: refuse with a ValueError that says what was found and what to do")
    _check(not framework.recognises(b""), "an empty file is recognised as a model")
    return "right"


def _shown(values: NDArray[Any]) -> str:
    return ", ".join(map(str, values[:5].tolist())) + (", …" if len(values) > 5 else "")
