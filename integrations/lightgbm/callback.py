"""`SizeCallback`: stops the training of a LightGBM random forest at T* trees."""

from __future__ import annotations

import math
import time
from copy import deepcopy
from functools import cached_property, partial
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.copies import resolved
from rfsize.counting.evidence import Evidence
from rfsize.exceptions import FewVotesError, NotAForestError, NotConvergedWarning, TrainingRowsWarning
from rfsize.integrations.lightgbm.bags import cautions
from rfsize.integrations.lightgbm.forest import LightGbmForest
from rfsize.integrations.lightgbm.training_votes import TrainingVoteReader, rows_of
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.report import Report, noting_copies, report_by, report_of
from rfsize.sizing.sentences import headline
from rfsize.training.until_enough import UntilEnough
from rfsize.utils.validation import share, whole
from rfsize.utils.warn import Caution, give, warn
from rfsize.voting.groups import ALONE, Groups


class SizeCallback:
    """Stops the training of a LightGBM random forest at T* trees.

    Pass it to ``lgb.train(params, dtrain, 5000, callbacks=[SizeCallback()])``, to ``lgb.cv`` or to
    ``LGBMClassifier.fit``. T* is the smallest number of trees that gives a share ``alpha`` of the rows the label of an
    unlimited forest, on average. The callback needs no other data: it reads the votes of each tree from the training
    predictions, and counts on each row only the trees that did not see the row. After ``min_trees`` trees it estimates
    T* and the time to go. It estimates again at min(T*, twice the trees), as in figure 3 of Hernández-Lobato et al.
    2013, until it is 80 % sure (``confidence``) that the forest has T* trees. ``lgb.train`` then returns a booster of
    ``report_.n_kept`` trees. These give the labels of all trees trained so far on a share ``alpha`` of the rows, as the
    changes since the last estimate show.

    In ``lgb.cv`` the forest of each fold votes on the rows that the fold holds out, so no bags are rebuilt.
    ``cvbooster.best_iteration`` is the T* of all folds together.

    Parameters
    ----------
    alpha : float, default 0.99
        Share of the rows whose labels equal those of an unlimited forest; only for labels.
    validation : str, optional
        Name of a validation set of the training. T* is then estimated from the votes of all trees on its rows, and not
        from out-of-bag votes. Not needed in ``lgb.cv``, which has held-out rows.
    metric, tolerance, average, voting
        What must stay the same as in an unlimited forest, as in `rfsize.size`.
    threshold : float, default 0.5
        Probability above which the label is class 1, for each tree and for the averaged scores. Only for labels of two
        classes.
    confidence : float, default 0.8
        As in `rfsize.grow`: how sure it must be that the forest has T* trees before training ends. At least 0.5.
    min_trees : int, default 100
        Number of trees before the first estimate.
    log_every : int, default 0
        Print a line such as ``[200] T*(0.99) = 613 (480 to 790), about 12 s to go`` after every ``log_every`` trees; 0
        prints nothing.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `rfsize.tree_outputs`; for out-of-bag votes only. By default rfsize
        looks for copies if the Dataset has kept its rows (``free_raw_data=False``); if not, ``report_`` says so. In
        ``lgb.cv`` the folds decide which rows belong together, and rfsize does not look for copies.

    Attributes
    ----------
    report_ : Report or None
        The estimate from all votes read so far; None before the first votes.
    seconds_to_go_ : float or None
        Remaining seconds of training at the last estimate, from the time per tree so far; None before the first
        estimate.

    Raises
    ------
    NotAForestError
        While training, if the booster is not a random forest, or predicts no labels although you size labels.
    InbagError
        While training, if the bags cannot be rebuilt and proven (GOSS, a GPU).
    ValueError
        At the first tree, if several machines train the forest together, as in ``lightgbm.dask``: a machine that stops
        would leave the others waiting. Use `rfsize.dask.grow`.
    ValueError
        While training, if votes are lost in rounding and the Dataset has not kept its rows.
    ValueError
        While training, if the validation set is unknown, or ``threshold`` is given for more than two classes.

    Warns
    -----
    NotConvergedWarning
        If training ends before T* trees, or before it is sure.
    LabelsOnlyWarning
        If labels take so few trees that the ranking or the probabilities would suffer.
    CopiesWarning
        As in `rfsize.size`.
    SharedBagsWarning
        If ``bagging_freq`` > 1.
    SeedDependenceWarning
        If LightGBM samples features so that forests of other seeds predict differently.

    See Also
    --------
    grow : Train a forest to its size.
    size : See how many trees are enough.

    Notes
    -----
    The score of a tree is the difference of t · (mean score of t trees) between iterations. LightGBM gives a callback
    only probabilities. If a class is rare, a probability can round to 1, and the score is lost. The tree itself then
    predicts the score, if the Dataset has kept its rows (``free_raw_data=False``). If it has not, two kinds of output
    are left out: the votes of a ``multiclass`` iteration in which only the tree of one class has splits, and scores
    with a rounding error of more than a hundredth although the vote is clear.

    To bound the cost with more than 10,000 rows, only the first 52 trees are read, and then 8 of every 256. The
    estimate then has fewer votes per row than in `rfsize.size`. With more than 50,000 rows, averaged scores are sized
    on part of the rows.

    You can combine it with early stopping: whichever stops first ends the training. If early stopping ends it, this
    callback cannot warn, so look at ``report_.enough``.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}
    >>> callback = rfsize.SizeCallback(alpha=0.95)
    >>> booster = lgb.train(params, lgb.Dataset(X, y), 1000, callbacks=[callback])
    >>> callback.report_.n_trees <= booster.num_trees() == callback.report_.n_kept
    True
    """

    order = 25  # before early stopping, so that no tree's votes are missed
    before_iteration = False

    def __init__(
        self,
        alpha: float | None = None,
        *,
        validation: str | None = None,
        metric: MetricLike = "auto",
        tolerance: float | None = None,
        average: str | None = None,
        voting: str | None = None,
        threshold: float | None = None,
        confidence: float = 0.8,
        min_trees: int = 100,
        log_every: int = 0,
        groups: ArrayLike | str | None = None,
    ) -> None:
        of_labels = {"alpha": alpha, "average": average, "voting": voting}
        self.goal = goal_of(metric, tolerance, confidence=confidence, threshold=threshold, **of_labels)
        self.threshold = share("threshold", 0.5 if threshold is None else threshold)
        self.validation, self.groups = validation, groups
        if groups is not None and validation is not None:
            raise ValueError(
                f"groups say on which training rows a tree may not vote, and all trees vote on the rows of "
                f"validation={validation!r}: leave out one of the two"
            )
        self.min_trees = whole("min_trees", min_trees, at_least=1)
        self.log_every = whole("log_every", log_every, at_least=0)
        self._report: Report | None = None
        self._forests: _ForestsInTraining | None = None
        self._until: UntilEnough
        self._began: float
        self.seconds_to_go_: float | None = None

    @property
    def report_(self) -> Report | None:
        """The estimate from all votes read so far; None before the first votes."""
        forests = self._forests
        if forests is None or not forests.can_tell or (self._report and self._report.available == forests.trees):
            return self._report
        try:
            self._report = forests.report(self.goal, lasting=True)
        except FewVotesError as too_few:
            if too_few.enough is None:
                raise
            return None
        return self._report

    def __getstate__(self) -> dict[str, Any]:
        # The readers hold a booster in training, which cannot be pickled.
        return {**self.__dict__, "_report": self.report_, "_forests": None}

    def __call__(self, env: CallbackEnv) -> None:
        """LightGBM calls this after each iteration."""
        trees = env.iteration + 1
        if env.iteration == env.begin_iteration:
            self._until = UntilEnough(self.min_trees, env.end_iteration)
            self._report, self.seconds_to_go_, self._began = None, None, time.perf_counter()
            self._forests = _ForestsInTraining(env, self.validation, self.goal, self.threshold, self.groups)
        forests, until = self._forests, self._until
        assert forests is not None
        forests.read(env)
        logs = self.log_every > 0 and trees % self.log_every == 0 and forests.can_tell
        if trees < until.next_look and not logs:
            return
        forests.prove_newest()
        self._report = None
        try:
            report = until.look(trees, partial(forests.report, self.goal))
        except FewVotesError as too_few:
            if too_few.enough is None:
                raise
            if trees == env.end_iteration:
                self._forests = None
                warn(str(too_few), NotConvergedWarning, through="lightgbm")
            return
        if report is None:
            return
        # Since the next look was set, the estimate can have fallen below the current number of trees.
        to_grow = 0 if until.is_over else min(max(report._wanted, until.next_look), env.end_iteration) - trees
        if trees > 1:  # the time that the first tree took is not known
            self.seconds_to_go_ = to_grow * (time.perf_counter() - self._began) / (trees - 1)
        if logs:
            print(f"[{trees}] {headline(report)}{self._outlook(report, env.end_iteration)}", flush=True)
        if until.is_over:
            report = forests.noting_rows(report, self.goal)
            give(report.warnings, through="lightgbm")
            self._report, self._forests = report._noting(*forests.dependence), None
            if report.enough:
                raise EarlyStopException(report.n_kept - 1, env.evaluation_result_list or [])

    def _outlook(self, report: Report, at_most: int) -> str:
        """The words of the log about the time to go."""
        beyond = f", more than the {at_most:,} trees allowed" if report._wanted > at_most else ""
        if self.seconds_to_go_ is None:
            return beyond
        return f"{beyond}, {_duration(self.seconds_to_go_)} to go" if self.seconds_to_go_ > 0 else f"{beyond}, done"


class _ForestsInTraining:
    """Reads the votes of the forest in training, or of each forest of a cross-validation."""

    def __init__(
        self, env: CallbackEnv, valid: str | None, goal: Goal, threshold: float, groups: ArrayLike | str | None
    ) -> None:
        if env.begin_iteration > 0:
            raise NotAForestError(
                "SizeCallback must see a forest from its first tree; it cannot continue an init_model"
            )
        self._source = "oob" if valid is None else f"validation set '{valid}'"
        boosters: list[Any] = [env.model]
        if isinstance(env.model, lgb.CVBooster):
            boosters, valid = env.model.boosters, valid or "valid"
            self._source = "cross-validation"
        if groups is not None and valid is not None:
            raise ValueError(
                "in lgb.cv the folds say which rows belong together, and groups are for out-of-bag votes: leave out "
                "groups, and give folds=GroupKFold().split(X, y, groups) to lgb.cv"
            )
        self._threshold, self.groups = threshold, ALONE
        if valid is None:
            dataset = boosters[0].train_set
            self.groups = resolved(groups, rows_of(dataset), dataset.num_data())
        self._each = [
            TrainingVoteReader(booster, env.params, valid=valid, threshold=threshold, groups=self.groups)
            for booster in boosters
        ]
        self._checked(goal)
        self.dependence = cautions(self._each[0].forest)
        give(self.dependence, through="lightgbm")

    @cached_property
    def _truth(self) -> tuple[NDArray[Any], NDArray[Any] | None] | None:
        """Labels and weights of all rows that are read."""
        labels = [np.asarray(one.dataset.get_label()) for one in self._each if one.dataset.get_label() is not None]
        weights = [np.asarray(one.dataset.get_weight()) for one in self._each if one.dataset.get_weight() is not None]
        if len(labels) < len(self._each):
            return None
        # For two classes LightGBM reads only the sign of the label.
        if len(self._each[0].counts) == 2 and self._each[0].scores.n_scores == 1:
            labels = [(label > 0).astype(np.int64) for label in labels]
        weight = np.concatenate(weights) if len(weights) == len(self._each) else None
        return np.concatenate(labels), weight

    @property
    def trees(self) -> int:
        """Number of trees of each forest."""
        return self._each[0].trees

    @property
    def can_tell(self) -> bool:
        """Whether an estimate is possible: some row has at least two scores."""
        return any(one.can_tell for one in self._each)

    def read(self, env: CallbackEnv) -> None:
        """Add the votes of the trees just trained."""
        for one in self._each:
            one.read(env.params)

    def prove_newest(self) -> None:
        """Prove the bag of the tree read last."""
        for one in self._each:
            one.prove_newest()

    def _checked(self, goal: Goal) -> Goal:
        """Check the goal for this forest; raises an error if the forest cannot reach it."""
        truth = None if self._truth is None else self._truth[0]
        return goal.checked(len(self._each[0].counts), truth, in_training=True)

    def report(self, goal: Goal, *, lasting: bool = False) -> Report:
        """The estimate from all trees read so far. Further trees change its data, unless it is ``lasting``."""
        each = [one.outputs(self._source) for one in self._each]
        if lasting:
            each = deepcopy(each)
        outputs = each[0]
        if len(each) > 1:  # the rows of the folds lie one after another
            ends = np.cumsum([len(one) for one in each])
            rows = [np.arange(end - len(one), end) for end, one in zip(ends, each, strict=True)]
            outputs = Evidence.of_folds(list(zip(rows, each, strict=True)), outputs.classes, int(ends[-1]))
        return report_of(outputs if self._truth is None else outputs.with_truth(*self._truth), self._checked(goal))

    def noting_rows(self, report: Report, goal: Goal) -> Report:
        """The report, with warnings if copies of rows decide it, or if the validation rows are the training rows."""
        if any(one.reads_training_rows for one in self._each):
            text = (
                f"the {self._source} holds the rows of the training, and trees agree on rows that they have seen: give "
                "no validation, or a validation set of other rows"
            )
            report = report._noting(Caution(TrainingRowsWarning, text))

        def size_by(groups: Groups) -> Report:
            booster, dataset = self._each[0].booster, self._each[0].dataset
            forest = LightGbmForest(lgb.Booster(model_str=booster.model_to_string()), casts_votes=False)
            rows = rows_of(dataset), dataset.get_label(), dataset.get_weight()
            return report_by(groups, forest, *rows, goal=goal, threshold=self._threshold)

        return noting_copies(report, self.groups, size_by)


def _duration(seconds: float) -> str:
    """A rounded duration in seconds, minutes or hours."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"about {seconds / length:.0f} {unit}"
    return f"about {math.ceil(seconds)} s"
