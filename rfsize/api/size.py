"""size and truncate: find how many trees are enough, and cut a model down to them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from rfsize._util import Caution, choice, give, how_many, one_per_row, refuse_option_as_labels, refuse_unused, whole
from rfsize.api.report import Report, completed, make_report, with_warnings
from rfsize.counting.collect import collect_outputs, outputs_of_votes
from rfsize.counting.outputs import TreeOutputs, given_outputs, task_of, warnings_for, why_no_forest
from rfsize.counting.task import Task, check_truth
from rfsize.counting.votes import Votes
from rfsize.models.framework import most_trees_within, read_forest, read_to_cut
from rfsize.models.model import Forest, Model, first_trees
from rfsize.showing.warnings import warnings_of_bytes
from rfsize.statistics.criterion import Criterion, check_options, make_criterion, resolve
from rfsize.statistics.first_trees import refuse_to_certify, risk_target
from rfsize.statistics.named_metrics import MetricLike, check_metric

MAX_ROWS = 100_000
"""Number of rows that ``max_rows="auto"`` draws."""

_Model = TypeVar("_Model")


def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    oob: bool = False,
    groups: ArrayLike | str | None = None,
    metric: MetricLike = "auto",
    alpha: float | None = None,
    tolerance: float | None = None,
    average: str | None = None,
    target: Literal["limit", "model"] | None = None,
    confidence: float | None = None,
    voting: str | None = None,
    method: str | None = None,
    max_rows: int | Literal["auto"] | None = None,
) -> Report:
    """Find how many trees are enough.

    You choose what must stay the same: labels on a share ``alpha`` of the rows, probabilities or numbers within a
    ``tolerance``, or a metric within a ``tolerance``. Only metrics need ``y``. You also choose the ``target``, the
    forest to compare with:

    - ``target="limit"`` tells whether your forest is large enough. It estimates T* [1]_, the size of the smallest
      forest that predicts like an unlimited forest, on average over forests. (An unlimited forest is what you would get
      if training never stopped.) The rows may be the training rows, out of bag, or other rows.
    - ``target="model"`` tells how far you can cut your model. It certifies [3]_ how few first trees of *your* model
      predict like all of its trees, on rows like these. The rows must be new to the model. Boosted models have no other
      target, and their iterations count as trees.

    Parameters
    ----------
    model
        A forest, as in `tree_outputs`; boosted trees of LightGBM, XGBoost or scikit-learn; a fitted `Pipeline` that
        ends with one of these, and transforms ``X``; or, without ``X``, the result of `tree_outputs`, or counted
        `Votes`. Weights, seeds and a threshold are arguments of `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix, Arrow table or Dask collection, shape (n_rows, n_features)
        Rows that the forest was not trained on; or, with ``oob``, all training rows in the order of training.
    y : array_like, shape (n_rows,), optional
        True labels or numbers of the rows, for a metric. The report on a boosted model then says what metrics lose in
        the first trees against all trees. With ``oob`` also needed if the bags depend on ``y``, see `inbag`.
    oob : bool, default False
        ``X`` are the training rows; predict each row only by the trees that were not trained on it.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `tree_outputs`. The report says what share of the rows has copies.
    metric : str or scorer, default "auto"
        What must stay the same:

        - ``"labels"``: the predicted classes, on a share ``alpha`` of the rows;
        - ``"probabilities"``: within ``tolerance``, for the class of each row whose probability moves most;
        - ``"scores"``: within ``tolerance``. For a regressor, the predictions. For a classifier, the trees' mean score
          before it becomes a probability (LightGBM's ``predict(raw_score=True)`` divided by the number of trees,
          XGBoost's ``predict(output_margin=True)``);
        - a metric, expected to get worse by at most ``tolerance``: ``"log_loss"``, ``"brier"``, ``"accuracy"``; for
          two classes also ``"auc"`` and ``"average_precision"``; for a regressor ``"rmse"``, ``"mae"``, ``"r2"``; or a
          scikit-learn scorer, by its name or from `sklearn.metrics.make_scorer`.

        ``"auto"`` is ``"scores"`` for a regressor. For a classifier it is ``"labels"`` if you give an option of labels
        (``alpha``, ``average``, ``voting``, ``method``), or if each class with a mean probability of 1 % or more (of
        two classes, 0.1 %) gets at least half of that share of the labels. If a class gets fewer, or one of two
        classes gets less than 5 % of them (at a threshold of 0.5), labels say too little of it: ``"auto"`` is
        ``"probabilities"``, and the first line of the report says why. ``target="model"`` takes labels, probabilities
        and scores only.
    alpha : float, default 0.99
        Share of the rows whose label must stay the same, strictly between 0 and 1. With ``target="model"`` also the
        share of the rows whose probabilities or scores must stay within ``tolerance``.
    tolerance : float, optional
        How far probabilities or scores may move: as root mean square over the rows, and also on 95 % of the rows (with
        ``target="model"``, on a share ``alpha`` of the rows). By default the variance by the trees may be 2 % of that
        which another training set would bring [4]_, as far as bags and trees tell it. Otherwise the default is 5 % of
        the standard deviation of ``y`` for a regressor if you give ``y``, else of what all trees predict. A note in the
        report says which it is. For a metric, how much worse it may get; a metric has no default.
    average : {"micro", "macro"}, default "micro"
        Average agreement over rows ("micro") or over classes ("macro"). If a class is rare, a few trees give the same
        labels on nearly all rows, but not on the rows of that class: take "macro". It takes 10 rows of two classes.
        Only for labels, or with ``target="model"``, where "macro" bounds each class separately.
    target : {"limit", "model"}, optional
        Compare with an unlimited forest, or with all trees of your model. The default is "limit" for a forest, and
        "model" for boosted trees.
    confidence : float, default 0.95
        How sure the certificate of ``target="model"`` is, at least 0.5. A certificate is wrong if more than a share
        1 − α of rows like these would change. Over random choices of rows, the probability of that is at most 1 −
        confidence.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels must stay the same: those of the model's own ``predict`` (``"auto"``), of the averaged scores
        (``"soft"``), or of the majority vote (``"hard"``), as in the papers. ``predict`` averages scores in LightGBM,
        XGBoost and scikit-learn's forests; it counts votes in bagging without probabilities. Counted `Votes` have no
        scores. Only for labels.
    method : {"auto", "plugin", "smooth"}, default "auto"
        How to estimate agreement. ``"smooth"`` fits one density of vote fractions [2]_ to the votes of all rows; 50
        trees are enough for it. ``"plugin"`` takes each row's counted vote fraction as the true one, by equation (17)
        of [1]_, which is noisy with few votes a row. ``"auto"`` is ``"smooth"``, unless exact ties explain the votes
        better, by a log-likelihood ratio of 4. Then ``"auto"`` is ``"plugin"``, and the report warns that T* may be far
        larger. Only for labels.
    max_rows : int or "auto", optional
        Use at most this number of rows, drawn at random; not with ``oob``. ``"auto"`` is 100,000 rows. (All rows share
        the same trees, so more rows hardly narrow the interval of T*.)

    Returns
    -------
    Report
        How many trees are enough, with a 95 % interval; whether your forest has as many; and what forests of any size
        lose. With ``target="model"`` also the ``certificate``.

    Raises
    ------
    NotAForestError
        With ``oob`` or ``target="limit"``, if the model is not a forest of independent trees.
    InbagError
        With ``oob``, if rfsize cannot prove which rows each tree was trained on.
    FewVotesError
        If no tree can vote on any row, or if a class has fewer than ten votes a row (as when bags are drawn by weight).
    ValueError
        If ``X`` or an option does not fit, or ``y`` does not fit the metric. With ``target="model"``, if the rows are
        recognised as training rows or too few for a certificate: α = 0.99 at a confidence of 0.95 takes 299.

    Warns
    -----
    NotConvergedWarning
        If the rows certify no smaller forest.
    TrainingRowsWarning
        If ``X`` are the training rows, or begin with the first of them in the order of training, and ``oob`` is not
        given. Not recognised are training rows in another order, from another place than the beginning, of a small part
        (below a tenth of many rows), or of a forest whose bags cannot be drawn again.
    ForestWarning
        If training rows have copies, and ``groups`` does not say what they are; if several trees were trained on the
        same bag; or if LightGBM samples features in a way that makes forests of other seeds predict differently.

    See Also
    --------
    truncate : Cut a forest down.
    grow : Train a forest to its size.
    tree_outputs : Ask the trees once for several questions.

    References
    ----------
    .. [1] D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
       be?" Pattern Recognition 46(5), 1323-1336.

    .. [2] B. Efron (2016). "Empirical Bayes deconvolution estimates." Biometrika 103(1), 1-20.

    .. [3] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan, L. Lei (2021). "Learn then test: calibrating
       predictive algorithms to achieve risk control." arXiv 2110.01052.

    .. [4] N. S. O'Connell (2026). "Random forests as statistical procedures: design, variance, and dependence." arXiv
       2602.13104.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, oob=True, alpha=0.95)
    >>> report.n_trees <= report.available
    True

    You can also size votes that you counted elsewhere:

    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
    >>> rfsize.size(votes, alpha=0.95, method="plugin").n_trees
    71

    How far can you cut this forest? Rows that it was not trained on certify the answer:

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> forest = RandomForestClassifier(200, random_state=0).fit(X[:1000], y[:1000])
    >>> report = rfsize.size(forest, X[1000:], alpha=0.98, target="model")
    >>> report.n_trees < 200, report.certificate.rows, report.certificate.bound <= 0.02
    (True, 2000, True)

    How far can you cut a boosted model, and what do metrics lose?

    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> boosted = GradientBoostingClassifier(n_estimators=200, random_state=0).fit(X[:1000], y[:1000])
    >>> report = rfsize.size(boosted, X[1000:], y[1000:], alpha=0.98)
    >>> report.n_trees < 200, sorted(report.others)
    (True, ['accuracy', 'auc', 'log_loss'])
    """
    refuse_option_as_labels(y)
    options: dict[str, Any] = {"alpha": alpha, "average": average, "voting": voting, "method": method}
    options |= {"metric": metric, "tolerance": tolerance, "target": target, "confidence": confidence}
    check_options(**options)
    read, options["target"] = with_target(model, target, oob=oob)
    report, about_rows = _sized(read, X, y, options, oob=oob, groups=groups, max_rows=max_rows)
    given_before = model.warnings if isinstance(model, TreeOutputs) else ()  # by rfsize.tree_outputs
    give(warning for warning in about_rows if warning not in given_before)
    return report


def with_target(model: Any, target: str | None, *, oob: bool) -> tuple[Any, str]:
    """A model as rfsize reads it, and the target, by default "limit" of a forest and "model" of boosted trees."""
    read = model if isinstance(model, Votes | TreeOutputs) else read_to_cut(model)
    has_limit = why_no_forest(model) is None if isinstance(model, TreeOutputs) else isinstance(read, Votes | Forest)
    return read, target or ("limit" if has_limit or oob else "model")


def _sized(
    model: Any, X: Any, y: Any, options: dict[str, Any], *, oob: bool, groups: Any, max_rows: Any = None
) -> tuple[Report, tuple[Caution, ...]]:
    """The report of `size` on a model that is read, and those of its warnings that do not depend on the size.

    ``options`` make the criterion. No warning is given yet.
    """
    if options["target"] == "limit":
        advice = ", look at report.upper(confidence), or give target='model'"
        refuse_unused("target='limit' estimates T*, and certifies nothing", advice, confidence=options["confidence"])
    criterion = make_criterion(**options)
    of_rows = {"X": X, "oob": oob or None, "groups": groups, "max_rows": max_rows}
    if isinstance(model, TreeOutputs):
        outputs = given_outputs(model, y, **of_rows)
    elif isinstance(model, Votes):
        refuse_unused("counted Votes hold their rows, and no scores, which metrics need", y=y, **of_rows)
        outputs = outputs_of_votes(model)
    else:
        outputs = _outputs(model, X, y, criterion, oob=oob, groups=groups, max_rows=max_rows)
    report = completed(make_report(outputs, criterion))
    of_forest = warnings_for(outputs, of_labels=report.criterion.of_labels)
    return with_warnings(report, *of_forest), (*of_forest, *report.estimate.warnings)


def _outputs(model: Any, X: Any, y: Any, criterion: Criterion, *, oob: bool, groups: Any, max_rows: Any) -> TreeOutputs:
    """What the trees of a model predict for the rows; what cannot be sized is refused before they predict any."""
    if criterion.target == "model":
        refuse_to_certify("oob" if oob else "rows given")
        refuse_unused("a certificate uses all rows, and fewer would certify no smaller forest", max_rows=max_rows)
    if oob:
        refuse_unused("the proof of the bags needs all rows", ", or give rows that no tree saw", max_rows=max_rows)
    if X is None:
        raise ValueError("X is missing: give rows the forest was not trained on, or the training rows with oob=True")
    forest: Model = model if criterion.target == "model" else read_forest(model)
    criterion = resolve(criterion, forest.classes.size)
    check = partial(check_metric, criterion.metric) if criterion.kind == "metric" else check_truth
    task = Task.checked(forest, X, y, oob=oob, groups=groups, check=check)
    if criterion.target == "model":
        risk_target(criterion, None).check_rows(np.array([task.n_rows]), [""])
    return collect_outputs(_on_drawn_rows(task, max_rows), of_all=task)


def _on_drawn_rows(task: Task, max_rows: int | str | None) -> Task:
    """The task on ``max_rows`` random rows; beyond them, only the noise of the trees makes T* uncertain."""
    if isinstance(max_rows, str):
        choice("max_rows", max_rows, ("auto",), "; or give a number of rows")
        max_rows = MAX_ROWS
    if max_rows is None or whole("max_rows", max_rows, at_least=1) >= task.n_rows:
        return task
    drawn = np.sort(np.random.default_rng(0).choice(task.n_rows, max_rows, replace=False))
    y = None if task.y is None else one_per_row(task.y, task.n_rows)[drawn]
    return replace(task, X=task.X.pick(drawn), y=y)


def truncate(
    model: _Model,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    n_trees: int | Report | None = None,
    max_bytes: int | None = None,
    oob: bool = False,
    groups: ArrayLike | str | None = None,
    metric: MetricLike = "auto",
    alpha: float | None = None,
    tolerance: float | None = None,
    average: str | None = None,
    target: Literal["limit", "model"] | None = None,
    confidence: float | None = None,
    voting: str | None = None,
) -> _Model:
    """Cut a forest or a boosted model down to as many first trees as are enough.

    Parameters
    ----------
    model
        A forest, boosted trees, a pipeline or tree outputs, as in `size`. The model is not changed.
    X, y
        As in `size`; not needed with ``n_trees`` or ``max_bytes``.
    n_trees : int or Report, optional
        Number of first trees to keep, instead of T*. If you give the report of `size` on this forest, its number of
        trees is kept and its warnings are repeated.
    max_bytes : int, optional
        Keep as many first trees as fit into a file of this many bytes, instead of T*. The file is LightGBM's text,
        XGBoost's UBJSON, or the pickle of a scikit-learn forest. If you also give ``X``, the forest is sized too, and
        a warning says what is lost if fewer trees fit than are enough. A compiled forest (`compile`) holds all trees
        in far fewer bytes.
    oob, groups, metric, alpha, tolerance, average, target, confidence, voting
        As in `size`.

    Returns
    -------
    model of the same type as ``model``
        The first trees. It keeps all trees of ``model`` if these are fewer than T*, or if the rows certify no smaller
        model.

    Raises
    ------
    ValueError
        As in `size`; or if ``n_trees`` is not between 1 and the number of trees of ``model``, or is the certified
        report of another forest; or if a single tree takes more than ``max_bytes``.

    Warns
    -----
    NotConvergedWarning
        If the forest has fewer than T* trees, or ``max_bytes`` leaves fewer, or without ``X`` less than half of the
        trees. The message says how many trees it takes. Also if the rows leave T* open (the upper end of its interval
        is more than four times the lower end, or beyond the trees at hand), or certify no smaller forest.
    LabelsOnlyWarning
        If so few trees are enough for the labels that the labels of a rare class change, or that the ranking or the
        probabilities suffer. With ``target="model"`` this is measured against all trees on the rows given: by AUC and
        log loss if ``y`` is given, else by the probabilities of rare classes.
    ForestWarning
        As in `size`.

    See Also
    --------
    size : See how many trees are enough.
    shrink : Make the forest smaller still: choose trees and refit their leaves.
    compile : Predict faster, without the framework.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, oob=True, alpha=0.95)
    >>> small = rfsize.truncate(forest, n_trees=report)
    >>> len(small.estimators_) == report.n_trees
    True
    >>> len(rfsize.truncate(forest, X, oob=True, alpha=0.95).estimators_) == report.n_trees
    True
    >>> len(rfsize.truncate(forest, n_trees=25).estimators_)
    25
    >>> import pickle
    >>> len(pickle.dumps(rfsize.truncate(forest, max_bytes=300_000))) <= 300_000
    True

    Keep as few first trees as are certified to give all trees' labels on 98 % of rows like these:

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> forest = RandomForestClassifier(200, random_state=0).fit(X[:1000], y[:1000])
    >>> small = rfsize.truncate(forest, X[1000:], alpha=0.98, target="model")
    >>> bool((small.predict(X[1000:]) == forest.predict(X[1000:])).mean() > 0.98)
    True

    Of boosted trees that is the default:

    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> boosted = GradientBoostingClassifier(n_estimators=200, random_state=0).fit(X[:1000], y[:1000])
    >>> small = rfsize.truncate(boosted, X[1000:], alpha=0.95)
    >>> bool((small.predict(X[1000:]) == boosted.predict(X[1000:])).mean() > 0.95)
    True
    """
    _refuse_misplaced(model, X, n_trees, max_bytes)
    refuse_option_as_labels(y)
    options: dict[str, Any] = {"alpha": alpha, "average": average, "voting": voting}
    options |= {"metric": metric, "tolerance": tolerance, "target": target, "confidence": confidence}
    check_options(**options)
    read, which = with_target(model, target, oob=oob)
    forest: Model = task_of(read).forest if isinstance(read, TreeOutputs) else read
    kept: Any = n_trees if max_bytes is None else most_trees_within(max_bytes, forest)
    report = n_trees if isinstance(n_trees, Report) else None
    about_rows: tuple[Caution, ...] = ()
    if n_trees is None and (max_bytes is None or X is not None or isinstance(read, TreeOutputs)):
        report, about_rows = _sized(read, X, y, {**options, "target": which}, oob=oob, groups=groups)
    else:
        why = "n_trees sets the size, and the forest is not sized", ""
        if max_bytes is not None:
            why = "max_bytes sets the size, and without X the forest is not sized", ", or give X"
        options["metric"] = None if metric == "auto" else metric
        refuse_unused(*why, X=X, y=y, oob=oob or None, groups=groups, **options)
    if max_bytes is not None:
        give((*about_rows, *warnings_of_bytes(max_bytes, kept, forest.n_trees, report)))
    elif report is None:
        kept = whole("n_trees", kept, at_least=1, at_most=forest.n_trees)
    else:
        _check_report(report, forest)
        give(report.warnings)
        kept = report.n_kept
    return cast(_Model, first_trees(forest, kept))


def _refuse_misplaced(model: Any, X: Any, n_trees: Any, max_bytes: Any) -> None:
    """Raise ``ValueError`` if arguments of `truncate` are meant as others, or say the same."""
    if isinstance(model, Votes):
        raise ValueError("truncate cuts a model, found counted Votes; size them, then truncate(model, n_trees=report)")
    if isinstance(X, Report):
        raise ValueError("X is a report: to cut the model to its size, write truncate(model, n_trees=report)")
    if n_trees is not None and max_bytes is not None:
        raise ValueError("n_trees and max_bytes both say how large the forest may be: give one of them")


def _check_report(report: Report, forest: Model) -> None:
    """Raise ``ValueError`` if a report is not about the first trees of this forest."""
    if report.criterion.is_shrunk:
        fault = "n_trees is the report of rfsize.shrink, whose chosen or refitted trees are not the first of this model"
        raise ValueError(f"{fault}: take the smaller model that rfsize.shrink returned beside the report")
    certified = None if report.certificate is None else report.certificate.forest
    is_other = None not in (certified, forest.digest) and certified != forest.digest
    if is_other or report.available != forest.n_trees:
        fault = f"n_trees is the report of another forest of {how_many(report.available, 'tree')}"
        raise ValueError(f"{fault}: give the report that rfsize.size makes of this model, or a number of trees")
