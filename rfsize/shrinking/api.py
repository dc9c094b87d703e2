"""shrink: make a forest smaller than its first trees could be, by choosing trees and refitting their leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rfsize.adapters.base import Adapter, shrinking_of
from rfsize.adapters.registry import adapter_for
from rfsize.certifying.promise import Promise, check_classes
from rfsize.certifying.smaller_forests import Likeness, sizes_tried
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import refuse_training_rows
from rfsize.exceptions import NotAForestError, UndefinedMetricError
from rfsize.shrinking.candidates import STEP, Candidates
from rfsize.shrinking.leaves_of_rows import LeavesOfRows
from rfsize.shrinking.tested import Tested, Tester, tested_down
from rfsize.shrinking.ways import Ways
from rfsize.sizing.described import to_time
from rfsize.sizing.goals.base import Answer
from rfsize.sizing.goals.shrunk import Paired, PairedAnswer, ShrunkAnswer, ShrunkGoal, ShrunkSizes
from rfsize.sizing.goals.weighed import Smaller, Weighing
from rfsize.sizing.named_metrics import metric_with_truth
from rfsize.sizing.report import Report
from rfsize.sizing.within_bytes import bytes_of, most_trees_within
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import one_per_row, refuse_unused, whole
from rfsize.utils.warn import give

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
    max_bytes: int | None = None,
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
    max_bytes : int, optional
        Size that the model's file must not exceed, instead of ``alpha``: LightGBM's text, XGBoost's UBJSON, or the
        pickle of a scikit-learn forest.
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
        metrics lose, with a standard error over the rows. ``plot`` compares first trees, chosen trees and refitted
        trees: their loss, size of the file, and time per row.

    Raises
    ------
    NotAForestError
        If the model is not a forest that averages the scores of trees, has a single tree, or is shrunk already.
    ValueError
        If ``X`` holds training rows, too few rows, or all of ``rows``; if an option does not fit; or if ``max_bytes``
        is too small for one tree or large enough for the whole forest.

    Warns
    -----
    NotCertifiedWarning
        If the rows certify no smaller size than that of your forest.
    LabelsOnlyWarning
        If the labels of a rare class change far more often than the labels of all rows.

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
    goal = _goal(n_trees, max_bytes, metric, **of_goal)
    adapter = adapter_for(model, casts_votes=False)
    _check_averages(adapter)
    goal = goal.checked(adapter.classes.size, y)
    check_classes(adapter.classes.size, goal.metric, goal.average)
    given = ForestOnRows.of(adapter, X)
    refuse_training_rows(given)
    truth = None if y is None else one_per_row(y, given.n_rows)
    if n_trees is not None:
        whole("n_trees", n_trees, at_least=1, at_most=adapter.n_trees - 1)
    if max_bytes is not None:
        whole("max_bytes", max_bytes, at_least=1)
    certify, refit = _split(LeavesOfRows.of(given), None if rows is None else ForestOnRows.of(adapter, rows))
    search = _Search.of(goal, given, certify, refit)
    if n_trees is not None:
        found = search.of_size(n_trees)
    elif max_bytes is not None:
        found = search.within(max_bytes)
    else:
        search.check_rows("" if rows is not None else "; without rows, half of X certifies")
        found = search.certified()
    report = found.report(None if truth is None else truth[certify.number])
    give((*shrinking_of(adapter), *report.warnings))
    return found.model(report.n_kept), report


def _goal(n_trees: int | None, max_bytes: int | None, metric: str, **options: Any) -> ShrunkGoal:
    """The goal of the call; ``ValueError`` if the options contradict each other."""
    given = {name: value for name, value in options.items() if value is not None}
    if n_trees is not None or max_bytes is not None:
        if n_trees is not None and max_bytes is not None:
            raise ValueError("n_trees and max_bytes both say how large the forest may be: give one of them")
        refuse_unused(
            "n_trees and max_bytes set the size, and the report says on what share of rows it agrees with all "
            "trees. Leave it out",
            alpha=given.get("alpha"),
        )
    return ShrunkGoal.named(metric, **given)


def _check_averages(adapter: Adapter) -> None:
    """Raise `NotAForestError` if the model does not average the scores of trees, or has a single tree."""
    if not adapter.are_trees or adapter.predict_obeys != "soft":
        found = "predicts by votes" if adapter.are_trees else "has members that are no trees"
        raise NotAForestError(
            f"shrink refits the mean score of trees, and this {adapter.framework} ensemble {found}: cut it with "
            "rfsize.truncate"
        )
    if adapter.n_trees < 2:
        raise NotAForestError("the forest has 1 tree, and no smaller one: give a larger forest")


def _split(given: LeavesOfRows, more: ForestOnRows | None) -> tuple[LeavesOfRows, LeavesOfRows]:
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
    timed: Any
    tried: tuple[Tested, ...] = ()

    @classmethod
    def of(cls, goal: ShrunkGoal, given: ForestOnRows, certify: LeavesOfRows, refit: LeavesOfRows) -> _Search:
        """A search that has tried no size yet."""
        digest, tolerance = given.adapter.digest, goal.tolerance or 0.0
        promise = Promise(goal.alpha, goal.certainty, goal.average, digest, goal.metric, tolerance)
        likeness = Likeness.of(given, promise)
        tester = Tester.of(certify, likeness)
        return cls(goal, promise, tester, Candidates.of(refit, likeness, goal.level), to_time(given))

    @property
    def adapter(self) -> Adapter:
        """The whole forest."""
        return self.tester.rows.adapter

    def check_rows(self, which: str) -> None:
        """Raise ``ValueError`` if the rows are too few to certify anything."""
        try:
            self.promise.check_rows(self.tester.in_class, self.adapter.classes.tolist() or [""])
        except ValueError as error:
            raise ValueError(f"{error}{which}") from None

    def certified(self) -> _Search:
        """Try fewer and fewer trees, as `tested_down` does."""
        sizes = sizes_tried(self.adapter.n_trees, STEP).tolist()
        return replace(self, tried=tuple(tested_down(sizes, self.candidates.of_size, self.tester, self.promise)))

    def of_size(self, n_trees: int) -> _Search:
        """Try one size and multiples of it, and certify the largest ``alpha`` that this size reaches."""
        most = self.adapter.n_trees - 1
        sizes = sorted({round(min(max(1.0, n_trees * factor), most)) for factor in _BESIDE}, reverse=True)
        tried = tuple(self.tester.test(self.candidates.of_size(size)) for size in sizes)
        bound = self._sizes(tried).certificate(n_trees, self.promise).bound
        alpha = max(1.0 - bound, math.ulp(0.0))
        goal = replace(self.goal, alpha=alpha, n_trees=n_trees)
        return replace(self, goal=goal, promise=replace(self.promise, alpha=alpha), tried=tried)

    def within(self, max_bytes: int) -> _Search:
        """Try the largest forest that fits into ``max_bytes``; ``ValueError`` if one tree does not, or all trees do."""
        if bytes_of(self.of_first(self.adapter.n_trees)) <= max_bytes:
            raise ValueError(f"the whole forest already fits into max_bytes={max_bytes:,}: it need not be shrunk")
        low = most_trees_within(max_bytes, self.of_first, self.adapter.n_trees)
        # Refitted scores may have more digits than trained scores, so that their file is larger.
        while low > 0:
            candidate = self.candidates.of_size(low)
            if bytes_of(self.adapter.of_members(candidate.members, candidate.raw)) <= max_bytes:
                return self.of_size(low)
            low -= 1 + low // 100
        raise ValueError(f"one tree with refitted leaves is larger than max_bytes={max_bytes:,}: allow more")

    def of_first(self, n_trees: int) -> Any:
        """A forest of the trees that are chosen first, without refitted leaves."""
        return self.adapter.of_members(self.candidates.order[:n_trees], None)

    def model(self, n_trees: int) -> Any:
        """The shrunken model of a size that was tried, else the first trees of the whole forest."""
        for tried in self.tried:
            if tried.n_trees == n_trees:
                return self.adapter.shrunk(tried.candidate.members, tried.candidate.raw)
        return self.adapter.model_of_first(n_trees)

    def report(self, y: Any) -> Report:
        """Report on the sizes that were tried."""
        sizes = self._sizes(self.tried)
        classes, labels_by = self.adapter.classes.tolist(), self.adapter.predict_obeys
        refits_below = self.candidates.refits_below
        weighing = self._weighing(sizes)
        answer = ShrunkAnswer(self.goal, self.promise, sizes, classes, refits_below, labels_by, weighing)
        beside: dict[Any, Answer] = {} if y is None else dict(self._losses(y, sizes))
        of_rows = (self.adapter.n_trees, "rows given", None, "rows")
        return Report(self.goal, *of_rows, answer.cautions, answer, None, beside)

    def _weighing(self, sizes: ShrunkSizes) -> Weighing | None:
        """Compare forests made in each way with the whole forest; None if no smaller forest is kept."""
        kept, whole = self.goal.n_trees or sizes.fewest(self.promise), self.adapter.n_trees
        if kept == whole:
            return None
        forests = Ways(self.tester, self.candidates.order, self.goal.average).of(self.tried, kept)
        all_trees = Smaller("your forest", whole, 0.0, lambda: self.adapter.booster)
        return Weighing(forests, all_trees, kept, self.goal.level, self.goal.agreement_axis, self.timed)

    def _losses(self, y: Any, sizes: ShrunkSizes) -> Iterator[tuple[str, Answer]]:
        predictor, rows = self.tester.likeness.predictor, self.tester.rows
        by_all = predictor.predictions(rows.whole)
        for name in {0: ("rmse",), 2: ("auc", "log_loss")}.get(len(predictor.classes), ("log_loss",)):
            with suppress(UndefinedMetricError), np.errstate(invalid="ignore"):  # log loss may be infinite
                judge = metric_with_truth(name, predictor, len(rows), y, None)
                lost = [Paired.of(judge, predictor.predictions(tried.mean), by_all) for tried in self.tried]
                if np.isfinite([one.lost for one in lost]).all():
                    yield name, PairedAnswer(judge, sizes, lost)

    def _sizes(self, tried: tuple[Tested, ...]) -> ShrunkSizes:
        differing = [one.differing for one in tried]
        return ShrunkSizes.of(self.tester.in_class, differing, [one.n_trees for one in tried], self.adapter.n_trees)
