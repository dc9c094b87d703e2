"""shrink: make a model smaller than its first trees could be, by choosing trees and refitting their leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import (
    Floats,
    Int64s,
    give,
    one_per_row,
    refuse_option_as_labels,
    refuse_unused,
    whole,
)
from rfsize.api.report import Report, report_on_estimate
from rfsize.counting.collect import refuse_training_rows
from rfsize.counting.task import Task, check_truth
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_to_cut
from rfsize.models.model import Forest, Model, first_trees, learning_rate_of
from rfsize.showing.warnings import harms_of_cut, warnings_of_size
from rfsize.statistics.certify import CertifiedCurve, RiskTarget, counts_to_bound
from rfsize.statistics.criterion import Criterion, make_criterion, resolve
from rfsize.statistics.default import with_metric, with_spread
from rfsize.statistics.first_trees import Comparison, certified_estimate, risk_target
from rfsize.statistics.pruning import Leaves, held_out_of, leaves_of, most_trees_to_refit, order_of_trees, refitted
from rfsize.statistics.row_errors import paired_losses, paired_metrics

_Model = TypeVar("_Model")

# Without ``rows``, this share of X chooses trees and refits leaves, and the others certify.
_SHARE_TO_REFIT = 0.5


def shrink(
    model: _Model,
    X: Any,
    y: ArrayLike | None = None,
    *,
    rows: Any = None,
    n_trees: int | None = None,
    metric: str = "auto",
    alpha: float | None = None,
    tolerance: float | None = None,
    average: str | None = None,
    confidence: float | None = None,
) -> tuple[_Model, Report]:
    """Make a smaller model that predicts as yours does: choose trees and refit their leaves.

    `truncate` keeps the first trees of a forest, which are a random choice. ``shrink`` chooses trees one after another,
    so that their mean comes nearest to the mean of all trees [1]_. It then refits the scores of their leaves by least
    squares to the predictions of the whole forest [2]_, if that helps on held-out rows. Both steps need rows, but no
    labels. Other rows then certify how few trees give the same labels on a share ``alpha`` of rows, as in ``size(...,
    target="model")``.

    Trees of a boosted model keep their order, since each corrects those before it: ``shrink`` keeps the first
    iterations, and refits their leaves to the raw score of all iterations.

    Parameters
    ----------
    model
        A forest or a boosted model of LightGBM, XGBoost or scikit-learn, as in `size`. rfsize does not change it.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows that the forest was not trained on. If you also give ``rows``, all rows of ``X`` certify. Otherwise a
        random half of ``X`` certifies, and the other half chooses trees and refits leaves. Of a boosted model, with
        ``rows``, a fifth of ``X`` shows whether refitting helps, and the others certify.
    y : array_like, shape (n_rows,), optional
        Labels of ``X``, or numbers for a regression. The report then says how much worse accuracy, AUC and log loss,
        or RMSE, become.
    rows : array_like, DataFrame, …, shape (n, n_features), optional
        Rows to choose trees and refit leaves on, as many as you have: training rows, rows without labels, yesterday's
        requests. rfsize leaves out each of these rows that reaches the same leaves as a row of ``X``, so that no row
        that certifies also chooses. With more rows, fewer trees are enough.
    n_trees : int, optional
        How many trees to keep, instead of ``alpha``. The report says on what share of rows the result is certified.
    metric, alpha, tolerance, average, confidence
        What must stay the same, as in `size` with ``target="model"``: by default the labels of a share ``alpha=0.99``
        of rows, or where these say too little of a rare class the probabilities. With ``metric="probabilities"`` or
        ``"scores"``, these must stay within ``tolerance`` on that share, by default 5 % of the standard deviation of
        what all trees predict.

    Returns
    -------
    small : model of the same type
        The shrunken model. Its framework saves it, loads it, predicts with it and explains its predictions. It has all
        trees of your model if the rows certify no smaller size.
    report : Report
        Has the ``certificate``, and the loss that was measured at each size (``loss_at``). With ``y``, also what the
        metrics lose, with a standard error over the rows.

    Raises
    ------
    NotAForestError
        If the model adds up or averages no scores of trees (as AdaBoost, whose trees vote), has a single tree, or is a
        forest that is shrunk already.
    ValueError
        If ``X`` holds training rows, too few rows, or all of ``rows``; or if an option does not fit.

    Warns
    -----
    NotConvergedWarning
        If the rows certify no smaller size than that of your forest.
    LabelsOnlyWarning
        If the labels of a rare class change far more often than the labels of all rows; or if the ranking or the
        probabilities suffer: with ``y`` by AUC and log loss, without ``y`` by the probabilities of rare classes.

    See Also
    --------
    truncate : Cut a forest down.
    compile : Predict faster, and without the framework.

    Notes
    -----
    Let Z be the matrix of ones and zeros that marks which leaves the rows reach in the K chosen trees. Let f be the
    mean score of all trees, and p the mean score of the K trees. The changes d of the leaves' scores minimise
    ‖K (f − p) − Z d‖² + K/3 ‖d‖². The leaves of scikit-learn's classifiers hold shares of classes, so rfsize does not
    refit them and only chooses trees. The changes of a boosted model minimise Σ w (f − p − Z d)² + K/3 ‖d‖². There f
    and p are the raw scores of all and of K iterations, and w is the root of the slope of the link at f, at most 1, so
    that rows near a tie count most.

    Refitting helps probabilities and numbers more than labels. It is left out where it does not bring the predictions
    of rows held out nearer to those of all trees.

    The trees of a shrunken forest are not independent draws, because they were chosen together. So rfsize refuses it
    in `size`, `truncate`, out-of-bag predictions, and stop tables that assume independent trees. `compile` and
    `StopTable.calibrate` take it.

    References
    ----------
    .. [1] G. Martínez-Muñoz, A. Suárez (2006). "Pruning in ordered bagging ensembles." ICML.
    .. [2] S. Buschjäger, K. Morik (2021). "Improving the accuracy-memory trade-off of random forests via
       leaf-refinement." arXiv 2110.10075.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(4000, random_state=0)
    >>> forest = RandomForestClassifier(200, max_leaf_nodes=32, random_state=0).fit(X[:1000], y[:1000])
    >>> small, report = rfsize.shrink(forest, X[1000:], y[1000:], rows=X[:1000], alpha=0.98)
    >>> len(small.estimators_) == report.n_trees < 60
    True
    >>> bool((small.predict(X[1000:]) == forest.predict(X[1000:])).mean() > 0.98)
    True

    A boosted model:

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> boosted = HistGradientBoostingClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> small, report = rfsize.shrink(boosted, X[1000:], alpha=0.95)
    >>> small.n_iter_ == report.n_trees < 100
    True
    """
    refuse_option_as_labels(y)
    if n_trees is not None:
        refuse_unused("n_trees sets the size, and the report says on what share of rows it agrees", alpha=alpha)
    options: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "average": average, "confidence": confidence}
    criterion = make_criterion(metric, target="model", **options)
    forest = read_to_cut(model)
    _check_forest(forest)
    criterion = replace(criterion, target="chosen" if isinstance(forest, Forest) else "refitted")
    criterion = resolve(criterion, forest.classes.size)
    if n_trees is not None:
        whole("n_trees", n_trees, at_least=1, at_most=forest.n_trees - 1)
    task = Task.checked(forest, X, y, check=check_truth)
    more = None if rows is None else Task.checked(forest, rows)
    refuse_training_rows(task)
    truth = None if y is None else one_per_row(y, task.n_rows)
    shrinking, criterion = _with_rows(task, more, truth, criterion)
    if n_trees is None:
        tried = list(_tried_down(shrinking, "" if rows is not None else "; without rows, half of X certifies"))
        curve = shrinking.curve(tried)
    else:
        tried = [shrinking.forest_of(n_trees)]
        curve = _with_alpha_reached(shrinking.curve(tried), n_trees)
        criterion = replace(criterion, alpha=curve.target.alpha, n_trees=n_trees)
    report, kept = _report_on_forests(shrinking, criterion, curve, tried, truth)
    give((*learning_rate_of(forest), *report.warnings))
    if kept is None:
        return first_trees(forest, report.n_kept), report  # all of them
    return forest.wrapped(forest.select(kept.members, kept.leaf_values)), report


def _check_forest(forest: Model) -> None:
    """Raise `NotAForestError` if shrinking makes nothing better of the model than its first trees, or it has one."""
    if forest.ensemble is None or forest.voting != "soft" or not (isinstance(forest, Forest) or forest.refits):
        fault = f"the members of this {forest.framework} ensemble vote, or are no trees: cut it with rfsize.truncate"
        raise NotAForestError(f"shrink refits scores of trees that are added up or averaged, and {fault}")
    if forest.n_trees < 2:
        raise NotAForestError("the forest has 1 tree, and no smaller one: give a larger forest")


def _split(given: Leaves, more: Leaves | None) -> tuple[Leaves, Leaves, Leaves | None]:
    """Rows to certify on; to choose trees and refit leaves on; and to see whether refitting helps. None is in two.

    The last are None if some of the second are good for that. Boosted trees fit training rows too closely.
    """
    if len(given) < 2 and (more is None or given.adds_up):
        raise ValueError("X has 1 row, and shrink needs two parts of X, to refit and to certify: give more rows")
    if more is None:
        shuffled = np.random.default_rng(0).permutation(len(given))
        first = round(_SHARE_TO_REFIT * len(given))
        return given.take(np.sort(shuffled[first:])), given.take(np.sort(shuffled[:first])), None
    others = np.flatnonzero(~np.isin(more.hashes, given.hashes))
    if not others.size:
        fault = "all rows= are in X too, and rows that certify must not also choose trees or refit leaves"
        raise ValueError(f"{fault}: give other rows, such as the training rows, or leave rows out, and X is split")
    certify, held_out = held_out_of(given) if given.adds_up else (given, None)
    return certify, more.take(others), held_out


def _with_rows(task: Task, more: Task | None, truth: Any, criterion: Criterion) -> tuple[_Shrinking, Criterion]:
    """What shrinks a forest on the rows of a task and on ``more``; and the criterion, by what all trees predict."""
    certify, refit, held_out = _split(leaves_of(task), None if more is None else leaves_of(more))
    criterion = with_metric(criterion, task.predictor, refit.whole)
    criterion = with_spread(criterion, task.predictor, refit.whole, truth)
    target = risk_target(criterion, task.forest.digest)
    comparison = Comparison(task.predictor, target.metric, target.tolerance)
    return _Shrinking(task.forest, certify, refit, held_out, comparison, target), criterion


class _SmallForest(NamedTuple):
    """Chosen trees, and how the rows that certify compare them with all trees."""

    members: Int64s
    leaf_values: NDArray[Any] | None  # of all leaves, as a model stores them; None if none is refitted
    score: Floats  # raw scores of the rows that certify
    differing: Int64s  # rows of each class that it answers differently


@dataclass(frozen=True, eq=False)
class _Shrinking:
    """Makes smaller forests, and compares them with the whole forest on rows that took no part in making them.

    Attributes
    ----------
    forest : Model
        The whole forest, or boosted model.
    certify, refit : Leaves
        Rows that certify, and rows to choose trees and refit leaves on.
    held_out : Leaves or None
        Rows that show whether refitting helps; if None, a part of those to refit on.
    comparison : Comparison
        Says when two forests answer a row alike.
    target : RiskTarget
        What must stay the same.
    """

    forest: Model
    certify: Leaves
    refit: Leaves
    held_out: Leaves | None
    comparison: Comparison
    target: RiskTarget

    @cached_property
    def order(self) -> Int64s:
        """The trees of the whole forest, in the order in which they are chosen."""
        return order_of_trees(self.refit)

    @cached_property
    def n_refitted(self) -> int:
        """Largest size at which leaves are refitted; 0 if refitting does not help."""
        if not self.forest.refits:
            return 0
        fit, unseen = held_out_of(self.refit) if self.held_out is None else (self.refit, self.held_out)
        return most_trees_to_refit(fit, unseen, self.order, self.comparison, 1.0 - self.target.alpha)

    def in_class(self, rows: Any = slice(None)) -> Int64s:
        """Number of rows that certify, or of some of them, to which the whole forest gives each class."""
        labels = self.comparison.labels(self.certify.whole[rows])
        return np.bincount(labels, minlength=max(1, self.forest.classes.size))

    def forest_of(self, n_trees: int) -> _SmallForest:
        """The smaller forest of ``n_trees`` trees."""
        members = self.order[:n_trees]
        leaf_values = None if n_trees > self.n_refitted else refitted(self.refit, members)
        score = self.certify.raw_scores(members, leaf_values)
        differing = self.in_class(self.comparison.differ(score, self.certify.whole))
        return _SmallForest(members, leaf_values, score, differing)

    def curve(self, tried: list[_SmallForest]) -> CertifiedCurve:
        """How many rows the forests, from large to small, answer differently."""
        tested = np.array([len(small.members) for small in tried], dtype=np.int64)
        differing = np.stack([small.differing for small in reversed(tried)], axis=1)
        of_forest = self.forest.n_trees, tested, self.target, self.forest.classes.tolist()
        return CertifiedCurve(tested[::-1], self.in_class(), differing, *of_forest)


def _with_alpha_reached(curve: CertifiedCurve, n_trees: int) -> CertifiedCurve:
    """The curve with the largest alpha that ``n_trees`` trees reach."""
    if curve.target.average == "macro" and not curve.rows.all():
        fault = "average='macro' certifies each class, and the forest gives some class to none of the rows that certify"
        raise ValueError(f"{fault}: give more rows, or leave it out")
    alpha = max(1.0 - curve.certificate(n_trees).exact_bound, math.ulp(0.0))
    return replace(curve, target=replace(curve.target, alpha=alpha))


def _tried_down(shrinking: _Shrinking, advice: str) -> Iterator[_SmallForest]:
    """Forests of fewer and fewer trees, up to the first that misses the target on these very rows.

    More rows like these could not certify that forest either. ``ValueError``, which ends with the advice, if the rows
    are too few to certify anything.
    """
    target, in_class = shrinking.target, shrinking.in_class()
    try:
        target.check_rows(in_class, shrinking.forest.classes.tolist())
    except ValueError as error:
        raise ValueError(f"{error}{advice}") from None
    for size in shrinking.refit.sizes:
        small = shrinking.forest_of(size)
        yield small
        differing, rows = counts_to_bound(small.differing, in_class, target.average)
        is_certified = target.fixed_sequence(small.differing[:, None], in_class) >= 0
        if not is_certified and (differing / rows).max() > 1.0 - target.alpha:
            return


def _report_on_forests(
    shrinking: _Shrinking, criterion: Criterion, curve: CertifiedCurve, tried: list[_SmallForest], truth: Any
) -> tuple[Report, _SmallForest | None]:
    """The report on the forests that were tried, and the one to keep; None if all trees are kept.

    ``truth`` are the labels of all rows that the user gave, or None.
    """
    forest, predictor, whole = shrinking.forest, shrinking.comparison.predictor, shrinking.certify.whole
    truth = None if truth is None else truth[shrinking.certify.number]
    how: dict[str, Any] = {"predict_voting": forest.voting, "n_refitted": shrinking.n_refitted}
    estimate = certified_estimate(curve, n_trees=criterion.n_trees, voting=None, **how)
    metrics = () if truth is None else paired_metrics(predictor, len(whole), truth)
    by_few = {len(small.members): predictor.predictions(small.score) for small in reversed(tried)}
    others = paired_losses(metrics, by_few, predictor.predictions(whole), forest.n_trees, criterion.target)
    report = report_on_estimate(criterion, estimate, forest.n_trees, "rows given", others=others)
    kept = next((small for small in tried if len(small.members) == report.n_kept), None)
    harms = []
    if kept is not None and criterion.of_labels:
        harms = harms_of_cut(report, predictor, kept.score, whole, truth)
    return replace(report, warnings=(*report.warnings, *warnings_of_size(report, harms))), kept
