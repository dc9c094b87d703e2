"""The main job: how many trees are enough, and a forest cut down to them."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast, overload

from numpy.typing import ArrayLike

from rfsize.adapters.base import Adapter
from rfsize.adapters.registry import adapter_for
from rfsize.counting.api import asked
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.memory import MemoryLimit
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.base import Report
from rfsize.sizing.deviation_report import DeviationReport
from rfsize.sizing.enough_rows import sized_on_enough_rows
from rfsize.sizing.goal import Goal, LabelGoal, goal_of
from rfsize.sizing.metric_report import MetricReport
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.reports import sized
from rfsize.sizing.size_report import SizeReport
from rfsize.utils.validation import refuse_unused, whole
from rfsize.utils.warn import give
from rfsize.utils.words import how_many
from rfsize.voting.votes import Votes

_Model = TypeVar("_Model")


@overload
def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    oob: bool = False,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: Literal["label"] = "label",
    tolerance: None = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
    max_memory: float | None = None,
) -> SizeReport: ...
@overload
def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    oob: bool = False,
    criterion: Literal["probability", "score"],
    tolerance: float,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
    max_memory: float | None = None,
) -> DeviationReport: ...
@overload
def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    oob: bool = False,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
    max_memory: float | None = None,
) -> SizeReport | DeviationReport | MetricReport: ...
def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    oob: bool = False,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    max_rows: int | Literal["auto"] | None = None,
    max_memory: float | None = None,
) -> Any:
    """How many trees are enough: T*.

    T*(α) is the smallest odd forest whose labels agree with those of the infinite forest on a share α of the rows, on
    average over rows and forests. With ``criterion="probability"`` or ``"score"`` T* is the smallest forest whose
    predictions are within ``tolerance`` of the infinite forest's. Neither says anything about accuracy, and no labels
    are needed. With a metric for ``criterion`` T* is the smallest forest whose metric is expected to be worse than the
    infinite forest's by no more than ``tolerance``.

    Parameters
    ----------
    model
        A forest, as `tree_outputs` takes it, of regression with ``criterion="score"`` or a metric; or what
        `tree_outputs` returned, or counted `Votes`, for which ``X`` is left out.
    X : array_like, DataFrame, SciPy sparse matrix, Arrow table or Dask collection, shape (n_rows, n_features)
        Rows the forest was not trained on; or, with ``oob``, all training rows in the order of training.
    y : array_like, shape (n_rows,), optional
        Training labels, with ``oob``, see `inbag`; or, for a metric, the truth of the rows.
    alpha : float, default 0.99
        Confidence α, strictly between 0 and 1; only for labels.
    oob : bool, default False
        Use out-of-bag votes on the training rows.
    voting : {"auto", "hard", "soft"}, default "auto"
        Whose labels are sized: "hard", those of the majority of the trees' votes, as in the papers; "soft", those of
        their averaged scores; "auto", those of the model's own ``predict``, which averages scores in LightGBM, XGBoost
        and scikit-learn's forests, and counts votes in bagging without probabilities. Of counted `Votes`, and of
        bagging over other learners than trees, only votes are known. The report has both sizes. Only for labels.
    average : {"micro", "macro"}, default "micro"
        Average agreement over the rows; or over the classes, each of which counts as much as any other: the mean of
        the agreement on the rows that the infinite forest gives each class. Where a class is rare, a few trees agree
        on nearly all rows, and on few of its own. Only for labels.
    estimator : {"auto", "plugin", "smooth"}, default "auto"
        "plugin" takes each row's counted vote fraction for its true one, equation (17) of Hernández-Lobato et al.
        2013; with few votes per row it is noisy. "smooth" fits the density of the vote fractions to the votes of all
        rows at once, which 50 trees are enough for.
        "auto" is "smooth", unless a share of rows at exactly one half, beside the density, makes the majority's votes
        more likely by a log-likelihood ratio of 4: then "plugin", and the report says that T* may be far larger still.
        With less than 10 votes per row no forest is called large enough.
    threshold : float, default 0.5
        As in `tree_outputs`.
    criterion : {"label", "probability", "score"}, metric or scorer, default "label"
        What is to agree with the infinite forest's: labels; probabilities that ``predict`` or ``predict_proba`` gives,
        a row being as far off as the class that is farthest off; or scores: what ``predict`` gives for regression, for
        classification the mean score of the trees before it becomes a probability (``predict(raw_score=True)`` of
        LightGBM over the number of trees, ``predict(output_margin=True)`` of XGBoost). Or a metric of what is
        predicted: "logloss", "brier" or "accuracy", of two classes also "auc" and "average_precision", of a regression
        "rmse", "mae" or "r2"; or a scorer of scikit-learn's, by its name or as `sklearn.metrics.make_scorer` makes it.
    tolerance : float, optional
        How far off probabilities or scores may be, both as root mean square over rows and on 95 % of the rows; or how
        much worse the metric may be. Needed with these criteria.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `tree_outputs`; the report tells the share of copies.
    sample_weight : array_like, shape (n_rows,), optional
        Weights of the rows in metrics, which need ``y``; with ``oob`` also as in `inbag`.
    seed, subsample
        See `inbag`; only with ``oob``.
    missing : float, optional
        As in `tree_outputs`.
    max_rows : int or "auto", optional
        How many of the rows to go by, drawn at random, where there are more; not with ``oob``. "auto" draws as many as
        narrow the interval of T*: of very many rows, the noise of the trees that all share is what is left of it. The
        report says how many it took. All by default.
    max_memory : float, optional
        As in `tree_outputs`.

    Returns
    -------
    SizeReport, DeviationReport or MetricReport
        T*, its 95 % interval, and whether the forest at hand is large enough; for labels a `SizeReport`, for a metric a
        `MetricReport`.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven.
    FewVotesError
        If too few trees may be asked about the rows, or about those of one class, as where bags are drawn by weight.
    ValueError
        If ``X`` or an option does not fit; or ``y`` does not fit the metric; or the rows may take more memory than
        ``max_memory``.

    Warns
    -----
    TrainingRowsWarning
        If ``X`` are the training rows, and not said to be by ``oob``.
    CopiesWarning
        If rows have copies, it is not clear whether by nature or by repetition, and T* depends on it.
    SharedBagsWarning
        If several trees were trained on the same bag.
    SeedDependenceWarning
        If LightGBM's way of sampling features makes forests of other seeds predict otherwise.

    References
    ----------
    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

    B. Efron (2016). "Empirical Bayes deconvolution estimates." Biometrika
    103(1), 1-20.

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

    Votes that were counted elsewhere are sized as they are:

    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
    >>> rfsize.size(votes, alpha=0.95, estimator="plugin").n_trees
    71
    """
    of_labels: dict[str, Any] = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    goal = goal_of(criterion, tolerance, threshold=threshold, **of_labels)
    of_rows: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups, "seed": seed, "subsample": subsample}
    of_rows |= {"missing": missing, "threshold": threshold, "max_memory": max_memory}
    report = _report(model, X, y, goal, oob=oob, max_rows=max_rows, **of_rows)
    give(report.noted)
    return report


def _report(
    model: Any, X: Any, y: Any, goal: Goal, *, max_rows: int | str | None = None, both: bool = True, **of_rows: Any
) -> Report:
    """What `size` returns, before it warns; of labels by ``both`` rules of voting, or that of the goal alone."""
    if isinstance(model, Votes | TreeOutputs):
        outputs = _given(model, X, y, max_rows=max_rows, **of_rows)
        if isinstance(model, Votes) and not isinstance(goal, LabelGoal):
            raise ValueError(
                "counted Votes know nothing of the trees' scores, by which this criterion goes: give the model"
            )
        return sized(outputs, goal, both=both)
    sample_weight, limit = of_rows["sample_weight"], MemoryLimit.of(of_rows.pop("max_memory"), "outputs")
    forest = _forest_on_rows(model, X, y, goal, limit=limit if max_rows is None else None, **of_rows)
    if max_rows is not None:
        return sized_on_enough_rows(goal, forest, y, sample_weight, max_rows, limit)
    return sized(asked(forest, y, sample_weight), goal, both=both)


def _given(model: Votes | TreeOutputs, X: Any, y: Any, *, oob: bool, sample_weight: Any, **options: Any) -> TreeOutputs:
    """Outputs that are given in place of a model and rows; their truth may be told later than the trees are asked."""
    of_rows = {"X": X, "oob": oob or None, **options}
    if isinstance(model, Votes):
        of_rows |= {"y": y, "sample_weight": sample_weight}
    what = "counted Votes" if isinstance(model, Votes) else "tree outputs"
    refuse_unused(f"{what} have their rows, which are sized as they are. Leave it out", **of_rows)
    if isinstance(model, Votes):
        return TreeOutputs.of_votes(model)
    if y is None and sample_weight is None:
        return model
    y = model.y if y is None else y
    return model.with_truth(y, model.sample_weight if sample_weight is None else sample_weight)


def _forest_on_rows(
    model: Any, X: Any, y: Any, goal: Goal, *, oob: bool, sample_weight: Any, **options: Any
) -> ForestOnRows:
    """The forest on rows to size it by; labels and weights say which bags it had, where these are to be proven."""
    adapter = adapter_for(model, casts_votes=isinstance(goal, LabelGoal))
    if X is None:
        raise ValueError("X is missing: give rows the forest was not trained on, or the training rows with oob=True")
    of_bags = {"y": y, "sample_weight": sample_weight} if oob else {}
    if options["threshold"] is None:
        del options["threshold"]
    return ForestOnRows.of(adapter, X, oob=oob, **of_bags, **options)


def truncate(
    model: _Model,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    n_trees: int | Report | None = None,
    alpha: float | None = None,
    oob: bool = False,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
) -> _Model:
    """A forest of the first T* trees, of the same type as ``model``.

    Parameters
    ----------
    model
        As in `size`; it is not changed.
    X, y
        As in `size`; not needed with ``n_trees``.
    n_trees : int or report, optional
        Trees to keep, in place of T*; or the report of `size` on this forest, which says how many, and whose warnings
        are then given.
    alpha, oob, voting, average, estimator, threshold, criterion, tolerance
        As in `size`.
    groups, sample_weight, seed, subsample, missing
        As in `size`.

    Returns
    -------
    model of the caller's type
        Its predictions are the mean of its trees. All trees are kept where the forest has fewer than T*.

    Raises
    ------
    ValueError
        As in `size`; or if ``n_trees`` is not between 1 and the trees of the forest, or the report of another one.

    Warns
    -----
    NotConvergedWarning
        If the forest has fewer than T* trees; it says how many it would take.
    LabelsOnlyWarning
        If labels take so few trees that what they are made from would suffer.
    CopiesWarning
        As in `size`.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> small = rfsize.truncate(forest, X, oob=True, alpha=0.95)
    >>> len(small.estimators_) == rfsize.size(forest, X, oob=True, alpha=0.95).n_trees
    True
    >>> report = rfsize.size(forest, X, oob=True, alpha=0.95)
    >>> len(rfsize.truncate(forest, n_trees=report).estimators_) == report.n_trees
    True
    >>> len(rfsize.truncate(forest, n_trees=25).estimators_)
    25
    """
    if isinstance(model, Votes):
        raise ValueError("truncate cuts a model, found counted Votes; size them, then truncate(model, n_trees=report)")
    of_labels: dict[str, Any] = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    of_rows: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups, "seed": seed, "subsample": subsample}
    of_rows |= {"missing": missing, "threshold": threshold}
    casts_votes = n_trees is None and isinstance(criterion, str) and criterion == "label"
    given: Any = model
    if isinstance(given, TreeOutputs):
        adapter = given.asked_again.adapter
    else:
        given = adapter = adapter_for(model, casts_votes=casts_votes)
    if n_trees is None:
        goal = goal_of(criterion, tolerance, threshold=threshold, **of_labels)
        of_rows["max_memory"] = None
        return cast(_Model, cut_to(_report(given, X, y, goal, oob=oob, both=False, **of_rows), adapter))
    beside = {"X": X, "y": y, "tolerance": tolerance, **of_labels, **of_rows, "oob": oob or None}
    beside["criterion"] = None if isinstance(criterion, str) and criterion == "label" else criterion
    refuse_unused("n_trees says what to keep, without sizing the forest. Leave it out", **beside)
    if isinstance(n_trees, Report):
        return cast(_Model, cut_to(_of_this_forest(n_trees, adapter), adapter))
    return cast(_Model, adapter.model_of_first(whole("n_trees", n_trees, at_least=1, at_most=adapter.n_trees)))


def _of_this_forest(report: Report, adapter: Adapter) -> Report:
    if report.available != adapter.n_trees:
        raise ValueError(
            f"n_trees is the report of a forest of {how_many(report.available, 'tree')}, and the model has "
            f"{adapter.n_trees:,}: give the report that rfsize.size makes of this model, or a number of trees"
        )
    return report


def cut_to(report: Report, adapter: Adapter) -> Any:
    """The first trees of a forest that its report says to keep, with the warnings of the report."""
    give(report.warnings)
    return adapter.model_of_first(report.n_kept)
