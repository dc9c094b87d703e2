"""A forest shrunk further than its first trees allow."""

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

# A report on a size of your own knows so many times as many trees too.
_BESIDE = (0.25, 0.5, 1.0, 2.0)

# Of rows given for both, the share that chooses trees and refits leaves.
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
    """A smaller forest that predicts as yours does: its trees are chosen, and their leaves refitted.

    `truncate` keeps the first trees of a forest, which are a random choice. ``shrink`` chooses trees one after another,
    so that their mean comes nearest to the mean of all trees [1]_. It then refits the scores of their leaves by least
    squares to the predictions of the whole forest [2]_, if that helps on rows held out. It needs rows, but no labels.
    Other rows then certify how few trees give the same labels on a share ``alpha`` of rows, as in ``size(...,
    target="forest")``.

    Parameters
    ----------
    model
        A forest of LightGBM, XGBoost or scikit-learn, as in `size`; it is not changed.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows that the forest was not trained on. If you also give ``rows``, all rows of ``X`` certify. Otherwise a
        random half of ``X`` certifies, and the other half chooses trees and refits leaves.
    y : array_like, shape (n_rows,), optional
        Truth of ``X``; the report then says what the area under the ROC curve and log loss, or the RMSE, lose.
    rows : array_like, DataFrame, …, shape (n, n_features), optional
        Rows to choose trees and refit leaves on, as many as you have: training rows, rows without labels, yesterday's
        requests. Those that reach the same leaves as a row of ``X`` are left out, so that no row that certifies takes
        part. With more rows fewer trees are enough.
    n_trees : int, optional
        How many trees to keep, in place of ``alpha``; the report says what share of rows is certified.
    max_bytes : int, optional
        The same by the bytes of the model's file: LightGBM's text, XGBoost's UBJSON, the pickle of a scikit-learn
        forest.
    metric, alpha, tolerance, average, confidence
        What must stay the same, as in `size` with ``target="forest"``: labels on a share ``alpha`` of rows, by default
        0.99, or probabilities or scores within ``tolerance`` on it.

    Returns
    -------
    small : model of the caller's type
        Its framework saves, loads and predicts it. All of its trees are kept where the rows certify no fewer.
    report : Report
        Its ``certificate``, what shrunken forests of other sizes were seen to lose (``loss_at``), and with ``y`` what
        the metrics lose, with a standard error over the rows. ``plot`` sets what first trees, chosen trees and
        refitted ones lose beside the bytes of their files and the time of a row.

    Raises
    ------
    NotAForestError
        If the model is no forest of trees whose scores are averaged, or is shrunk already.
    ValueError
        If ``X`` are training rows or too few rows, or hold all of ``rows``; if an option does not fit; or if no forest,
        or the whole forest, has as few bytes.

    Warns
    -----
    NotCertifiedWarning
        If the rows certify no fewer trees than the forest has.
    LabelsOnlyWarning
        If labels of a rare class change far more often than those of all rows.

    See Also
    --------
    truncate : Cut a forest down.
    compile : Predict faster, and without the framework.

    Notes
    -----
    With the leaves Z that the rows reach in K trees (ones and zeros), the mean score f of all trees and the mean p of
    these K, the changes d of the leaves' scores minimise ‖K (f − p) − Z d‖² + K/3 ‖d‖². Leaves of scikit-learn's
    classifiers hold shares of classes and are left as they are; there only the choice of trees helps.

    The trees of a shrunken forest belong together: none is an independent draw. `size`, `truncate`, out-of-bag
    predictions and stop tables that take trees for draws refuse it; `compile` and `StopTable.calibrate` take it.

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
    """What is asked for; ``ValueError`` where the options do not go together."""
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
    """Raise `NotAForestError` where predictions are not the mean of trees' scores, or there is but one tree."""
    if not adapter.are_trees or adapter.predict_obeys != "soft":
        found = "predicts by votes" if adapter.are_trees else "has members that are no trees"
        raise NotAForestError(
            f"shrink refits the mean score of trees, and this {adapter.framework} ensemble {found}: cut it with "
            "rfsize.truncate"
        )
    if adapter.n_trees < 2:
        raise NotAForestError("the forest has 1 tree, and no smaller one: give a larger forest")


def _split(given: LeavesOfRows, more: ForestOnRows | None) -> tuple[LeavesOfRows, LeavesOfRows]:
    """Rows to certify on, and rows to choose and refit on, of which none is among the others."""
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
    """A number for each row by the leaves that it reaches in all trees."""
    leaf = rows.leaf.reshape(len(rows), -1)
    factors = np.random.default_rng(0).integers(-(2**62), 2**62, leaf.shape[1])
    return leaf.astype(np.int64) @ factors


@dataclass(frozen=True, eq=False)
class _Search:
    """A forest that is being shrunk."""

    goal: ShrunkGoal
    promise: Promise
    tester: Tester
    candidates: Candidates
    timed: Any
    tried: tuple[Tested, ...] = ()

    @classmethod
    def of(cls, goal: ShrunkGoal, given: ForestOnRows, certify: LeavesOfRows, refit: LeavesOfRows) -> _Search:
        """Before anything is tried."""
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
        """Raise ``ValueError`` where the rows are too few to certify anything."""
        try:
            self.promise.check_rows(self.tester.in_class, self.adapter.classes.tolist() or [""])
        except ValueError as error:
            raise ValueError(f"{error}{which}") from None

    def certified(self) -> _Search:
        """With fewer and fewer trees tried."""
        sizes = sizes_tried(self.adapter.n_trees, STEP).tolist()
        return replace(self, tried=tuple(tested_down(sizes, self.candidates.of_size, self.tester, self.promise)))

    def of_size(self, n_trees: int) -> _Search:
        """With one size tried, of which is certified what can be, and halves and doubles of it beside."""
        most = self.adapter.n_trees - 1
        sizes = sorted({round(min(max(1.0, n_trees * factor), most)) for factor in _BESIDE}, reverse=True)
        tried = tuple(self.tester.test(self.candidates.of_size(size)) for size in sizes)
        bound = self._sizes(tried).certificate(n_trees, self.promise).bound
        alpha = max(1.0 - bound, math.ulp(0.0))
        goal = replace(self.goal, alpha=alpha, n_trees=n_trees)
        return replace(self, goal=goal, promise=replace(self.promise, alpha=alpha), tried=tried)

    def within(self, max_bytes: int) -> _Search:
        """With the largest forest tried whose file has no more bytes; ``ValueError`` where none has, or all have."""
        if bytes_of(self.of_first(self.adapter.n_trees)) <= max_bytes:
            raise ValueError(f"the whole forest already fits into max_bytes={max_bytes:,}: it need not be shrunk")
        low = most_trees_within(max_bytes, self.of_first, self.adapter.n_trees)
        # Refitted scores may have more digits than those that were trained.
        while low > 0:
            candidate = self.candidates.of_size(low)
            if bytes_of(self.adapter.of_members(candidate.members, candidate.raw)) <= max_bytes:
                return self.of_size(low)
            low -= 1 + low // 100
        raise ValueError(f"one tree with refitted leaves is larger than max_bytes={max_bytes:,}: allow more")

    def of_first(self, n_trees: int) -> Any:
        """The trees that are chosen first, as they were trained."""
        return self.adapter.of_members(self.candidates.order[:n_trees], None)

    def model(self, n_trees: int) -> Any:
        """The shrunken model of a size that was tried, or the whole forest again."""
        for tried in self.tried:
            if tried.n_trees == n_trees:
                return self.adapter.shrunk(tried.candidate.members, tried.candidate.raw)
        return self.adapter.model_of_first(n_trees)

    def report(self, y: Any) -> Report:
        """What came of it."""
        sizes = self._sizes(self.tried)
        classes, labels_by = self.adapter.classes.tolist(), self.adapter.predict_obeys
        refits_below = self.candidates.refits_below
        weighing = self._weighing(sizes)
        answer = ShrunkAnswer(self.goal, self.promise, sizes, classes, refits_below, labels_by, weighing)
        beside: dict[Any, Answer] = {} if y is None else dict(self._losses(y, sizes))
        of_rows = (self.adapter.n_trees, "rows given", None, "rows")
        return Report(self.goal, *of_rows, answer.cautions, answer, None, beside)

    def _weighing(self, sizes: ShrunkSizes) -> Weighing | None:
        """Forests made in each way beside the whole one; None where no smaller one is kept."""
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
            with suppress(UndefinedMetricError), np.errstate(invalid="ignore"):  # of log loss where it is infinite
                judge = metric_with_truth(name, predictor, len(rows), y, None)
                lost = [Paired.of(judge, predictor.predictions(tried.mean), by_all) for tried in self.tried]
                if np.isfinite([one.lost for one in lost]).all():
                    yield name, PairedAnswer(judge, sizes, lost)

    def _sizes(self, tried: tuple[Tested, ...]) -> ShrunkSizes:
        differing = [one.differing for one in tried]
        return ShrunkSizes.of(self.tester.in_class, differing, [one.n_trees for one in tried], self.adapter.n_trees)
