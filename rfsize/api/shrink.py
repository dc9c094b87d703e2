"""shrink: make a forest smaller than its first trees could be, by choosing trees and refitting their leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from rfsize._util import (
    Caution,
    Floats,
    Int64s,
    give,
    how_many,
    one_per_row,
    printable,
    refuse_option_as_labels,
    refuse_unused,
    whole,
)
from rfsize.api.report import Report, report_on
from rfsize.counting.task import Task
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.exceptions import NotAForestError
from rfsize.models.ensemble import TreeEnsemble
from rfsize.models.framework import read_forest
from rfsize.models.model import Forest, first_trees, learning_rate_of
from rfsize.models.rows import DistributedRows
from rfsize.showing.warnings import harms_of_cut, unlabelled_classes, warnings_of_size
from rfsize.statistics.certify import AgreementCounts, RiskTarget, counts_to_bound
from rfsize.statistics.criterion import Criterion, check_classes, make_certificate_criterion, resolve
from rfsize.statistics.curve import Estimate
from rfsize.statistics.first_trees import Comparison, certified_estimate, risk_target, sizes_tried
from rfsize.statistics.paired import PairedCurve, PairedLoss, paired_metrics

_Model = TypeVar("_Model")

# The expected loss grows by this factor from one size that is tried to the next; see `sizes_tried`. If you name a size,
# these multiples of it are tried.
_STEP, _MULTIPLES = 1.1, (0.25, 0.5, 1.0, 2.0)

# Without ``rows``, this share of X chooses trees and refits leaves, and the others certify.
_SHARE_TO_REFIT = 0.5

# Leaves are refitted if a forest changes more than this part of the labels that may change. Larger forests change fewer
# labels and need no refitting. One row in so many is held out, to see whether refitting helps.
_WORTH_REFITTING, _HELD_OUT = 0.25, 5

# Ridge penalty for each tree. It is multiplied by K, because the noise in the K-fold difference grows with the number K
# of trees, while the expected change of each tree stays the same. Then where conjugate gradients stop.
_RIDGE, _PRECISION, _MOST_STEPS = 1.0 / 3.0, 5e-2, 200

# Most rows × trees whose leaves are kept, at four bytes each: from more rows a random part is drawn. Then most scores
# that are held at a time.
_MOST_CELLS, _CELLS_TOGETHER = 50_000_000, 1 << 22


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
    """Make a smaller forest that predicts as yours does: choose trees and refit their leaves.

    `truncate` keeps the first trees of a forest, which are a random choice. ``shrink`` chooses trees one after another,
    so that their mean comes nearest to the mean of all trees [1]_. It then refits the scores of their leaves by least
    squares to the predictions of the whole forest [2]_, if that helps on held-out rows. Both steps need rows, but no
    labels. Other rows then certify how few trees give the same labels on a share ``alpha`` of rows, as in ``size(...,
    target="model")``.

    Parameters
    ----------
    model
        A forest of LightGBM, XGBoost or scikit-learn, as in `size`. rfsize does not change it.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows that the forest was not trained on. If you also give ``rows``, all rows of ``X`` certify. Otherwise a
        random half of ``X`` certifies, and the other half chooses trees and refits leaves.
    y : array_like, shape (n_rows,), optional
        Labels of ``X``, or numbers for a regression. The report then says how much worse AUC and log loss, or RMSE,
        become.
    rows : array_like, DataFrame, …, shape (n, n_features), optional
        Rows to choose trees and refit leaves on, as many as you have: training rows, rows without labels, yesterday's
        requests. rfsize leaves out each of these rows that reaches the same leaves as a row of ``X``, so that no row
        that certifies also chooses. With more rows, fewer trees are enough.
    n_trees : int, optional
        How many trees to keep, instead of ``alpha``. The report says on what share of rows the result is certified.
    metric, alpha, tolerance, average, confidence
        What must stay the same, as in `size` with ``target="model"``: by default the labels of a share ``alpha=0.99``
        of rows. With ``metric="probabilities"`` or ``"scores"``, these must stay within ``tolerance`` on that share.

    Returns
    -------
    small : model of the same type
        The shrunken forest. Its framework saves it, loads it and predicts with it. It has all trees of your forest if
        the rows certify no smaller size.
    report : Report
        Has the ``certificate``, and the loss that was measured at each size (``loss_at``). With ``y``, also what the
        metrics lose, with a standard error over the rows.

    Raises
    ------
    NotAForestError
        If the model is not a forest that averages the scores of trees, has a single tree, or is shrunk already.
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
    refit them and only chooses trees.

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
    """
    refuse_option_as_labels(y)
    if n_trees is not None:
        reason = (
            "n_trees sets the size, and the report says on what share of rows it agrees with all trees. Leave it out"
        )
        refuse_unused(reason, alpha=alpha)
    options: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "average": average, "confidence": confidence}
    criterion = make_certificate_criterion(metric, **options)
    forest = read_forest(model)
    _check_forest(forest)
    criterion = resolve(criterion, forest.classes.size, y)
    check_classes(forest.classes.size, criterion.name, criterion.average)
    task = Task.of(forest, X)
    refuse_training_rows(task)
    truth = None if y is None else one_per_row(y, task.n_rows)
    if n_trees is not None:
        whole("n_trees", n_trees, at_least=1, at_most=forest.n_trees - 1)
    certify, refit = _split(_leaves_of(task), None if rows is None else _leaves_of(Task.of(forest, rows)))
    target = risk_target(criterion, forest.digest)
    comparison = Comparison(task.predictor, target.metric, target.tolerance)
    shrinking = _Shrinking.of(certify, refit, comparison, criterion.level)
    if n_trees is None:
        _check_rows(shrinking, target, "" if rows is not None else "; without rows, half of X certifies")
        tried = list(_tried_down(shrinking, target))
    else:
        _check_classes_have_rows(shrinking, target)
        sizes = {round(min(max(1.0, n_trees * factor), forest.n_trees - 1)) for factor in _MULTIPLES}
        tried = [shrinking.forest_of(size) for size in sorted(sizes, reverse=True)]
    counts = shrinking.counts(tried)
    if n_trees is not None:  # the largest alpha that this size reaches
        alpha = max(1.0 - counts.certificate(n_trees, target).exact_bound, math.ulp(0.0))
        criterion, target = replace(criterion, alpha=alpha, n_trees=n_trees), replace(target, alpha=alpha)
    n_kept = n_trees or counts.fewest(target)
    kept = next((small for small in tried if len(small.members) == n_kept), None)
    truth = None if truth is None else truth[certify.number]
    estimate = certified_estimate(
        counts,
        target,
        forest.classes.tolist(),
        voting=None,
        predict_voting=forest.voting,
        n_trees=n_trees,
        n_refitted=shrinking.n_refitted,
    )
    others = {} if truth is None else dict(_metric_losses(shrinking, counts, tried, truth))
    report = report_on(criterion, estimate, forest.n_trees, "rows given", others=others)
    harms = [] if kept is None or not criterion.of_labels else _harms(shrinking, counts, kept, truth)
    report = replace(report, warnings=(*report.warnings, *warnings_of_size(report, harms)))
    give((*learning_rate_of(forest), *report.warnings))
    if kept is None or report.n_kept != n_kept:
        return first_trees(forest, report.n_kept), report
    return forest.wrapped(forest.select(kept.members, kept.leaf_scores)), report


def _harms(shrinking: _Shrinking, counts: AgreementCounts, kept: _SmallForest, truth: Any) -> list[Caution]:
    """What the kept forest loses beside labels, if labels choose its size."""
    predictor, rows = shrinking.comparison.predictor, shrinking.certify
    shares = counts.label_shares(rows.forest.classes.tolist())
    means = predictor.predictions(rows.whole).mean(axis=0)
    metrics = None if truth is None else paired_metrics(predictor, len(rows), truth)
    return [
        *unlabelled_classes(shares, means.tolist()),
        *harms_of_cut(predictor, kept.mean, rows.whole, shares, _keeping, metrics),
    ]


def _keeping(metric: str, tolerance: float) -> dict[str, Any]:
    """The arguments that keep the probabilities, and with them what metrics measure."""
    return {"metric": "probabilities", "tolerance": tolerance}


def _metric_losses(
    shrinking: _Shrinking, counts: AgreementCounts, tried: list[_SmallForest], truth: Any
) -> Iterator[tuple[str, tuple[Criterion, Estimate]]]:
    """What metrics lose at each size that was tried."""
    predictor = shrinking.comparison.predictor
    by_all = predictor.predictions(shrinking.certify.whole)
    for metric in paired_metrics(predictor, len(shrinking.certify), truth):
        losses = [PairedLoss.of(metric, predictor.predictions(small.mean), by_all) for small in reversed(tried)]
        curve, n_rows = PairedCurve(counts.sizes, losses, counts.n_trees), len(shrinking.certify)
        estimate = Estimate(curve, counts.n_trees, n_rows, n_dropped=0, votes_per_row=float(counts.n_trees))
        yield metric.name, (Criterion(metric.name, target="chosen"), estimate)


def _check_forest(forest: Forest) -> None:
    """Raise `NotAForestError` if the model does not average the scores of trees, or has a single tree."""
    if forest.ensemble is None or forest.voting != "soft":
        fault = "predicts by votes" if forest.ensemble is not None else "has members that are no trees"
        raise NotAForestError(
            f"shrink refits the mean score of trees, and this {forest.framework} ensemble {fault}: cut it with "
            "rfsize.truncate"
        )
    if forest.n_trees < 2:
        raise NotAForestError("the forest has 1 tree, and no smaller one: give a larger forest")


# Leaves of rows


@dataclass(frozen=True, eq=False)
class _Leaves:
    """The leaves that rows reach in every tree, so that any trees can predict them with other scores of the leaves.

    Attributes
    ----------
    forest : Forest
        The whole forest.
    leaf : ndarray of int32, shape (n_rows, n_members, n_outputs)
        Indices into the table of all leaves.
    number : ndarray of int64, shape (n_rows,)
        Index of each row among the rows that the user gave.
    """

    forest: Forest
    leaf: NDArray[np.int32]
    number: Int64s

    def __len__(self) -> int:
        return len(self.leaf)

    @property
    def trees(self) -> TreeEnsemble:
        """The trees of the whole forest."""
        assert self.forest.ensemble is not None
        return self.forest.ensemble

    def take(self, rows: Int64s) -> _Leaves:
        """Select rows by their index here."""
        return _Leaves(self.forest, self.leaf[rows], self.number[rows])

    @cached_property
    def whole(self) -> Floats:
        """Mean scores of all trees, shape (n_rows, n_scores)."""
        return self.mean(np.arange(self.forest.n_trees))

    def mean(self, members: Int64s, leaf_scores: NDArray[Any] | None = None) -> Floats:
        """Mean scores of some trees, shape (n_rows, n_scores); with other scores of all leaves, if they are given."""
        mean = np.empty((len(self), self.trees.n_scores))
        for rows in self.blocks(len(members)):
            mean[rows] = self.scores(rows, members, leaf_scores).mean(axis=1)
        return mean

    def scores(self, rows: slice, members: Int64s, leaf_scores: NDArray[Any] | None = None) -> Floats:
        """Scores of each of some trees on some of the rows, shape (n, n_members, n_scores)."""
        leaf_scores = self.trees.tree_scores if leaf_scores is None else leaf_scores
        leaf = self.leaf[rows][:, members]
        return np.asarray(leaf_scores[leaf[:, :, 0]] if leaf_scores.ndim > 1 else leaf_scores[leaf], dtype=np.float64)

    def blocks(self, n_members: int) -> list[slice]:
        """Ranges of rows whose scores are held at a time."""
        step = max(1, _CELLS_TOGETHER // (n_members * self.trees.n_scores))
        return [slice(start, start + step) for start in range(0, len(self), step)]


def _leaves_of(task: Task) -> _Leaves:
    """The leaves of all rows, or of a random part if there are too many rows to keep."""
    if isinstance(task.X, DistributedRows):
        raise ValueError(
            "shrink takes rows in memory or in a folder, found rows on workers: give a part of them in memory"
        )
    assert task.forest.ensemble is not None
    shape = task.forest.ensemble.tree_start.shape
    most, drawn = max(1, _MOST_CELLS // math.prod(shape)), np.arange(task.n_rows)
    if task.n_rows > most:
        drawn = np.sort(np.random.default_rng(0).choice(task.n_rows, most, replace=False))
    leaf = np.empty((len(drawn), *shape), dtype=np.int32)
    for batch in task.walk.batches("leaves of rows"):
        first, last = np.searchsorted(drawn, (batch.rows.start, batch.rows.stop))
        leaf[first:last] = batch.leaves.leaf[drawn[first:last] - batch.rows.start]
    return _Leaves(task.forest, leaf, drawn)


def _split(given: _Leaves, more: _Leaves | None) -> tuple[_Leaves, _Leaves]:
    """Rows to certify on, and rows to choose trees and refit leaves on; no row is in both."""
    if more is None:
        if len(given) < 2:
            raise ValueError("X has 1 row, and shrink needs two parts of X, to refit and to certify: give more rows")
        shuffled = np.random.default_rng(0).permutation(len(given))
        first = round(_SHARE_TO_REFIT * len(given))
        return given.take(np.sort(shuffled[first:])), given.take(np.sort(shuffled[:first]))
    others = np.flatnonzero(~np.isin(_hashes(more), _hashes(given)))
    if not others.size:
        raise ValueError(
            "all rows= are in X too, and rows that certify must not also choose trees or refit leaves: give other "
            "rows, such as the training rows, or leave rows out, and X is split"
        )
    return given, more.take(others)


def _hashes(rows: _Leaves) -> Int64s:
    """A hash of the leaves that each row reaches in all trees."""
    leaf = rows.leaf.reshape(len(rows), -1)
    factors = np.random.default_rng(0).integers(-(2**62), 2**62, leaf.shape[1])
    return leaf.astype(np.int64) @ factors


# Choosing trees and refitting leaves


def _order_of_trees(rows: _Leaves) -> Int64s:
    """Choose trees one after another, so that their mean score comes nearest to the mean score of all trees.

    The distance is the sum of squares over the rows. This is ordered bagging (Martínez-Muñoz and Suárez 2006) with the
    predictions of the whole forest in place of the labels.
    """
    n_trees = rows.forest.n_trees
    products = np.zeros((n_trees, n_trees))  # of the deviations of two trees from the mean, over all rows
    for block in rows.blocks(n_trees):
        deviation = rows.scores(block, np.arange(n_trees)) - rows.whole[block][:, None]
        for of_score in np.moveaxis(deviation, 2, 0):
            products += of_score.T @ of_score
    own, with_chosen = np.diagonal(products), np.zeros(n_trees)
    is_left, order = np.ones(n_trees, dtype=np.bool_), np.empty(n_trees, dtype=np.int64)
    for place in range(n_trees):
        order[place] = np.argmin(np.where(is_left, own + 2.0 * with_chosen, np.inf))
        is_left[order[place]] = False
        with_chosen += products[order[place]]
    return order


def _refitted(rows: _Leaves, members: Int64s) -> NDArray[Any]:
    """Scores of all leaves as a model stores them, where those of some trees are refitted to the mean of all trees.

    Let Z be the matrix of ones and zeros that marks which leaves the rows reach in the K trees. Let f be the mean score
    of all trees, and p the mean score of the K trees. The changes d of the leaves' scores minimise

        ‖K (f − p) − Z d‖² + K/3 ‖d‖².

    Conjugate gradients solve this for each score. Leaves that no row reaches keep their scores. This is the leaf
    refinement of Buschjäger and Morik (2021), but by least squares, and to the forest's predictions instead of labels.
    """
    scores = rows.trees.tree_scores.astype(np.float64)
    missing = len(members) * (rows.whole - rows.mean(members))
    has_own_trees = scores.ndim == 1 and rows.trees.trees_per_iteration > 1  # each score
    for score, of_score in enumerate(missing.T):
        leaf = np.ascontiguousarray(rows.leaf[:, members, score if has_own_trees else 0])
        change = _least_squares(leaf, len(scores), of_score, _RIDGE * len(members))
        if scores.ndim > 1:
            scores[:, score] += change
        else:
            scores += change
    return rows.trees.as_stored(scores, len(members))


def _least_squares(leaf: NDArray[np.int32], n_leaves: int, missing: Floats, ridge: float) -> Floats:
    """Changes of the leaves' scores that bring the sums over the leaves of each row near to what is missing."""
    starts = np.arange(0, leaf.size + 1, leaf.shape[1])
    marks = sparse.csr_array((np.ones(leaf.size, dtype=np.float32), leaf.ravel(), starts), shape=(len(leaf), n_leaves))
    by_leaf, penalty = marks.T, np.float32(ridge)
    diagonal = marks.sum(axis=0) + penalty

    def normal(change: NDArray[np.float32]) -> NDArray[np.float32]:
        change = change.astype(np.float32, copy=False)
        return np.asarray(by_leaf @ (marks @ change) + penalty * change)

    operator = LinearOperator((n_leaves, n_leaves), matvec=normal, dtype=np.float32)
    inverse = LinearOperator((n_leaves, n_leaves), matvec=lambda change: change / diagonal, dtype=np.float32)
    # It is safe to stop early: `_refit_helps` and the certificate measure the result on other rows.
    change, _ = cg(operator, by_leaf @ missing.astype(np.float32), rtol=_PRECISION, maxiter=_MOST_STEPS, M=inverse)
    return np.asarray(change, dtype=np.float64)


def _most_trees_to_refit(rows: _Leaves, order: Int64s, comparison: Comparison, level: float) -> int:
    """The largest size at which leaves are refitted; 0 if that does not help.

    ``level`` is the share of the answers that may change.
    """
    is_held_out = np.arange(len(rows)) % _HELD_OUT == 0
    held_out, others = rows.take(np.flatnonzero(is_held_out)), rows.take(np.flatnonzero(~is_held_out))
    for size in sizes_tried(len(order), _STEP).tolist():
        plain = held_out.mean(order[:size])
        if comparison.differ(plain, held_out.whole).mean() > _WORTH_REFITTING * level:
            if not (rows.forest.refits and len(others)):
                return 0
            fitted = held_out.mean(order[:size], _refitted(others, order[:size]))
            errors = [np.square(mean - held_out.whole).sum() for mean in (fitted, plain)]
            return size if errors[0] < errors[1] else 0
    return 0


# The search


class _SmallForest(NamedTuple):
    """Chosen trees, and how the rows that certify compare them with all trees."""

    members: Int64s
    leaf_scores: NDArray[Any] | None  # of all leaves, as a model stores them; None if none is refitted
    mean: Floats  # scores of the rows that certify
    differing: Int64s  # rows of each class that it answers differently


@dataclass(frozen=True, eq=False)
class _Shrinking:
    """Makes smaller forests, and compares them with the whole forest on rows that took no part in making them.

    Attributes
    ----------
    certify, refit : _Leaves
        Rows that certify, and rows to choose trees and refit leaves on.
    comparison : Comparison
        Says when two forests answer a row alike.
    order : ndarray of int64
        The trees of the whole forest, in the order in which they are chosen.
    n_refitted : int
        Largest size at which leaves are refitted; 0 if refitting does not help.
    labels : ndarray of int64, shape (n_rows,)
        The class that the whole forest gives each row that certifies.
    in_class : ndarray of int64, shape (n_classes,)
        Number of rows that certify in each class.
    """

    certify: _Leaves
    refit: _Leaves
    comparison: Comparison
    order: Int64s
    n_refitted: int
    labels: Int64s
    in_class: Int64s

    @classmethod
    def of(cls, certify: _Leaves, refit: _Leaves, comparison: Comparison, level: float) -> _Shrinking:
        """Choose the order of the trees, and find out whether to refit leaves."""
        order, labels = _order_of_trees(refit), comparison.labels(certify.whole)
        n_refitted = _most_trees_to_refit(refit, order, comparison, level)
        in_class = np.bincount(labels, minlength=max(1, len(comparison.predictor.classes)))
        return cls(certify, refit, comparison, order, n_refitted, labels, in_class)

    def forest_of(self, n_trees: int) -> _SmallForest:
        """The smaller forest of ``n_trees`` trees."""
        members = self.order[:n_trees]
        leaf_scores = None if n_trees > self.n_refitted else _refitted(self.refit, members)
        mean = self.certify.mean(members, leaf_scores)
        differs = self.comparison.differ(mean, self.certify.whole)
        return _SmallForest(members, leaf_scores, mean, np.bincount(self.labels[differs], minlength=len(self.in_class)))

    def counts(self, tried: list[_SmallForest]) -> AgreementCounts:
        """How many rows the forests, from large to small, answer differently."""
        sizes = np.array([len(small.members) for small in tried], dtype=np.int64)
        differing = np.stack([small.differing for small in reversed(tried)], axis=1)
        return AgreementCounts(sizes[::-1], self.in_class, differing, self.certify.forest.n_trees, tested=sizes)


def _tried_down(shrinking: _Shrinking, target: RiskTarget) -> Iterator[_SmallForest]:
    """Forests of fewer and fewer trees, up to the first that misses the target on these very rows.

    More rows like these could not certify that forest either.
    """
    for size in sizes_tried(len(shrinking.order), _STEP).tolist():
        small = shrinking.forest_of(size)
        yield small
        differing, rows = counts_to_bound(small.differing, shrinking.in_class, target.average)
        is_certified = target.fixed_sequence(small.differing[:, None], shrinking.in_class) >= 0
        if not is_certified and (differing / rows).max() > 1.0 - target.alpha:
            return


def _check_rows(shrinking: _Shrinking, target: RiskTarget, advice: str) -> None:
    """Raise ``ValueError`` if the rows are too few to certify anything."""
    try:
        target.check_rows(shrinking.in_class, shrinking.certify.forest.classes.tolist() or [""])
    except ValueError as error:
        raise ValueError(f"{error}{advice}") from None


def _check_classes_have_rows(shrinking: _Shrinking, target: RiskTarget) -> None:
    """Raise ``ValueError`` if each class is to be certified, and a class has no rows."""
    in_class = shrinking.in_class
    if target.average == "macro" and not in_class.all():
        label = printable(shrinking.certify.forest.classes[int(in_class.argmin())])
        raise ValueError(
            f"average='macro' certifies each class, and the forest gives class {label} to none of the "
            f"{how_many(int(in_class.sum()), 'row')} that certify: give more such rows, or leave average out"
        )
