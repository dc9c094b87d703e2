"""shrink: make a forest smaller than its first trees could be, by choosing trees and refitting their leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rfsize.certifying.promise import Promise, check_classes
from rfsize.certifying.smaller_forests import Likeness, sizes_tried
from rfsize.counting.task import Task
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.exceptions import NotAForestError
from rfsize.models.framework import read_forest
from rfsize.models.model import Forest, first_trees, learning_rate_of
from rfsize.shrinking.candidates import STEP, Candidates
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.shrinking.tested import Tested, Tester, tested_down
from rfsize.sizing.goals.base import Answer
from rfsize.sizing.goals.labels import unlabelled_classes
from rfsize.sizing.goals.shrunk import PairedAnswer, ShrunkAnswer, ShrunkGoal, ShrunkSizes
from rfsize.sizing.report import Report
from rfsize.statistics.other_losses import PairedLoss, harms_of_cut, paired_metrics
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import one_per_row, refuse_option_as_labels, refuse_unused, whole
from rfsize.utils.warn import Caution, give
from rfsize.utils.words import how_many, printable

_Model = TypeVar("_Model")

# If you name a size, the report also covers these multiples of it.
_BESIDE = (0.25, 0.5, 1.0, 2.0)

# Without ``rows``, this share of X chooses trees and refits leaves, and the others certify.
_TO_REFIT = 0.5


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
    target="forest")``.

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
        What must stay the same, as in `size` with ``target="forest"``: by default the labels of a share ``alpha=0.99``
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
    NotCertifiedWarning
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
    of_goal: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "average": average, "confidence": confidence}
    refuse_option_as_labels(y)
    if n_trees is not None:
        refuse_unused(
            "n_trees sets the size, and the report says on what share of rows it agrees with all trees. Leave it out",
            alpha=alpha,
        )
    goal = ShrunkGoal.named(metric, **{name: value for name, value in of_goal.items() if value is not None})
    forest = read_forest(model)
    _check_averages(forest)
    goal = goal.checked(forest.classes.size, y)
    check_classes(forest.classes.size, goal.metric, goal.average)
    given = Task.of(forest, X)
    refuse_training_rows(given)
    truth = None if y is None else one_per_row(y, given.n_rows)
    if n_trees is not None:
        whole("n_trees", n_trees, at_least=1, at_most=forest.n_trees - 1)
    certify, refit = _split(LeavesOfRows.of(given), None if rows is None else Task.of(forest, rows))
    search = _Search.of(goal, given, certify, refit)
    if n_trees is not None:
        found = search.of_size(n_trees)
    else:
        search.check_rows("" if rows is not None else "; without rows, half of X certifies")
        found = search.certified()
    report = found.report(None if truth is None else truth[certify.number])
    give((*learning_rate_of(forest), *report.warnings))
    return found.model(report.n_kept), report


def _check_averages(forest: Forest) -> None:
    """Raise `NotAForestError` if the model does not average the scores of trees, or has a single tree."""
    if forest.ensemble is None or forest.voting != "soft":
        found = "predicts by votes" if forest.ensemble is not None else "has members that are no trees"
        raise NotAForestError(
            f"shrink refits the mean score of trees, and this {forest.framework} ensemble {found}: cut it with "
            "rfsize.truncate"
        )
    if forest.n_trees < 2:
        raise NotAForestError("the forest has 1 tree, and no smaller one: give a larger forest")


def _split(given: LeavesOfRows, more: Task | None) -> tuple[LeavesOfRows, LeavesOfRows]:
    """Rows to certify on, and rows to choose trees and refit leaves on; no row is in both."""
    if more is None:
        if len(given) < 2:
            raise ValueError(
                "X has 1 row, and shrink splits X: half of the rows choose trees and refit leaves, the others certify. "
                "Give a few thousand rows"
            )
        in_turn = np.random.default_rng(0).permutation(len(given))
        first = round(_TO_REFIT * len(given))
        refit, certify = np.sort(in_turn[:first]), np.sort(in_turn[first:])
        return given.some(certify), given.some(refit)
    refit_on = LeavesOfRows.of(more)
    others = np.flatnonzero(~np.isin(_signatures(refit_on), _signatures(given)))
    if not others.size:
        raise ValueError(
            "all rows= are in X too, and rows that certify must not also choose trees or refit leaves: give other "
            "rows, such as the training rows, or leave rows out, and X is split"
        )
    return given, refit_on.some(others)


def _signatures(rows: LeavesOfRows) -> Int64s:
    """A hash of the leaves that each row reaches in all trees."""
    leaf = rows.leaf.reshape(len(rows), -1)
    factors = np.random.default_rng(0).integers(-(2**62), 2**62, leaf.shape[1])
    return leaf.astype(np.int64) @ factors


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for the smallest forest, and the sizes that it has tried."""

    goal: ShrunkGoal
    promise: Promise
    tester: Tester
    candidates: Candidates
    tried: tuple[Tested, ...] = ()

    @classmethod
    def of(cls, goal: ShrunkGoal, given: Task, certify: LeavesOfRows, refit: LeavesOfRows) -> _Search:
        """A search that has tried no size yet."""
        digest, tolerance = given.forest.digest, goal.tolerance or 0.0
        promise = Promise(goal.alpha, goal.certainty, goal.average, digest, goal.metric, tolerance)
        likeness = Likeness.of(given, promise)
        tester = Tester.of(certify, likeness)
        return cls(goal, promise, tester, Candidates.of(refit, likeness, goal.level))

    @property
    def forest(self) -> Forest:
        """The whole forest."""
        return self.tester.rows.forest

    def check_rows(self, which: str) -> None:
        """Raise ``ValueError`` if the rows are too few to certify anything."""
        try:
            self.promise.check_rows(self.tester.in_class, self.forest.classes.tolist() or [""])
        except ValueError as error:
            raise ValueError(f"{error}{which}") from None

    def certified(self) -> _Search:
        """Try fewer and fewer trees, as `tested_down` does."""
        sizes = sizes_tried(self.forest.n_trees, STEP).tolist()
        return replace(self, tried=tuple(tested_down(sizes, self.candidates.of_size, self.tester, self.promise)))

    def of_size(self, n_trees: int) -> _Search:
        """Try one size and multiples of it, and certify the largest ``alpha`` that this size reaches.

        Raises
        ------
        ValueError
            If each class is to be certified, and a class has no rows.
        """
        if self.promise.average == "macro" and not self.tester.in_class.all():
            label = printable(self.forest.classes[int(self.tester.in_class.argmin())])
            raise ValueError(
                f"average='macro' certifies each class, and the forest gives class {label} to none of the "
                f"{how_many(len(self.tester.rows), 'row')} that certify: give more such rows, or leave average out"
            )
        most = self.forest.n_trees - 1
        sizes = sorted({round(min(max(1.0, n_trees * factor), most)) for factor in _BESIDE}, reverse=True)
        tried = tuple(self.tester.test(self.candidates.of_size(size)) for size in sizes)
        bound = self._sizes(tried).certificate(n_trees, self.promise).exact_bound
        alpha = max(1.0 - bound, math.ulp(0.0))
        goal = replace(self.goal, alpha=alpha, n_trees=n_trees)
        return replace(self, goal=goal, promise=replace(self.promise, alpha=alpha), tried=tried)

    def model(self, n_trees: int) -> Any:
        """The shrunken model of a size that was tried, else the first trees of the whole forest."""
        for tried in self.tried:
            if tried.n_trees == n_trees:
                return self.forest.wrapped(self.forest.select(tried.candidate.members, tried.candidate.raw))
        return first_trees(self.forest, n_trees)

    def report(self, y: Any) -> Report:
        """Report on the sizes that were tried; ``y`` are the labels of the rows that certify, or None."""
        sizes = self._sizes(self.tried)
        beside: dict[Any, Answer] = {} if y is None else dict(self._losses(y))
        classes, labels_by = self.forest.classes.tolist(), self.forest.voting
        harms, refits_below = self._harms(y, sizes, classes), self.candidates.refits_below
        answer = ShrunkAnswer(self.goal, self.promise, sizes, classes, labels_by, harms, refits_below)
        of_rows = (self.forest.n_trees, "rows given", None, "rows")
        return Report(self.goal, *of_rows, answer.cautions, answer, None, beside)

    def _harms(self, y: Any, sizes: ShrunkSizes, classes: list[Any]) -> list[Caution]:
        """What the kept forest loses beside labels, if labels choose its size."""
        n_kept = self.goal.n_trees or sizes.fewest(self.promise)
        kept = next((tried for tried in self.tried if tried.n_trees == n_kept), None)
        if not self.goal.of_labels or kept is None:
            return []
        predictor, rows, shares = self.tester.likeness.predictor, self.tester.rows, sizes.label_shares(classes)
        means = predictor.predictions(rows.whole).mean(axis=0)
        metrics = None if y is None else paired_metrics(predictor, len(rows), y)
        return [
            *unlabelled_classes(shares, means.tolist()),
            *harms_of_cut(predictor, kept.mean, rows.whole, shares, self.goal.keeping, metrics),
        ]

    def _losses(self, y: Any) -> Iterator[tuple[str, Answer]]:
        """What metrics lose at each size that was tried."""
        predictor, rows = self.tester.likeness.predictor, self.tester.rows
        by_all, sizes = predictor.predictions(rows.whole), self._sizes(self.tried)
        for metric in paired_metrics(predictor, len(rows), y):
            lost = [PairedLoss.of(metric, predictor.predictions(tried.mean), by_all) for tried in self.tried]
            yield metric.name, PairedAnswer(metric, sizes, lost)

    def _sizes(self, tried: tuple[Tested, ...]) -> ShrunkSizes:
        differing = [one.differing for one in tried]
        return ShrunkSizes.of(self.tester.in_class, differing, [one.n_trees for one in tried], self.forest.n_trees)
