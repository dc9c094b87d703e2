"""`SizeCallback`: stops the training of a LightGBM random forest at T* trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException
from numpy.typing import ArrayLike, NDArray

from rfsize._util import give, how_many, in_percent, refuse_unused, share, warn, whole
from rfsize.api.report import Report, completed, make_report, with_warnings
from rfsize.counting.cross_validation import outputs_of_folds
from rfsize.counting.groups import NO_GROUPS, Groups, check_groups, resolve_groups, warning_of_copies
from rfsize.exceptions import (
    FewVotesError,
    InbagError,
    NotAForestError,
    NotConvergedWarning,
    RfsizeError,
)
from rfsize.integrations.lightgbm.training_votes import (
    PredictedVotes,
    Voters,
    VotesInTraining,
    WalkedVotes,
    dataset_of,
    rows_of,
)
from rfsize.models.model import dependence_of
from rfsize.showing.text import headline
from rfsize.showing.warnings import warnings_of_size
from rfsize.statistics.criterion import make_criterion
from rfsize.statistics.default import with_defaults
from rfsize.statistics.named_metrics import MetricLike
from rfsize.training.grow import checked_criterion
from rfsize.training.stopping_rule import StoppingRule

# With voting="hard", votes that rounding hides may be this share of the labels that may differ from an unlimited
# forest's.
_FEW_UNSURE = 0.1


class SizeCallback:
    """Stops the training of a LightGBM random forest at T* trees.

    Pass it to ``lgb.train(params, dtrain, 5000, callbacks=[SizeCallback()])``, to ``lgb.cv`` or to
    ``LGBMClassifier.fit``. T* is the smallest number of trees that gives a share ``alpha`` of the rows the label of an
    unlimited forest, on average. The callback needs no data: it reads the votes of each tree from the training
    predictions, and counts on each row only the trees that did not see the row. With ``data`` it walks down the new
    trees, and its votes are exactly those of `rfsize.size`. After ``min_trees`` trees it estimates T*. It estimates
    again at min(T*, twice the trees), as in figure 3 of Hernández-Lobato et al. 2013, until it is 80 %
    sure (``confidence``) that the forest has T* trees. ``lgb.train`` then returns a booster of ``report_.n_kept``
    trees. These give the labels of all trees trained so far on a share ``alpha`` of the rows, as the changes since the
    last estimate show.

    In ``lgb.cv`` the forest of each fold votes on the rows that the fold holds out, so no bags are rebuilt.
    ``cvbooster.best_iteration`` is the T* of all folds together.

    Parameters
    ----------
    alpha : float, default 0.99
        Share of the rows whose labels equal those of an unlimited forest; only for labels. Without it, and without
        ``metric``, a forest whose labels say too little of a rare class is sized by its probabilities, as in
        `rfsize.size`.
    data : array_like, DataFrame or sparse matrix, shape (n_rows, n_features), optional
        The training rows, in their order. Not needed if the Dataset keeps its rows (``free_raw_data=False``), as it
        must in ``lgb.cv`` if these are to be read. Without the rows, votes are read from LightGBM's rounded
        probabilities, which hide some of them where a class is rare.
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
        Print a line such as ``[200] T*(0.99) = 613 (480 to 790)`` after every ``log_every`` trees; 0 prints nothing.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `rfsize.tree_outputs`; for out-of-bag votes only. By default rfsize
        looks for copies if it has the rows (``data``, ``free_raw_data=False``). In ``lgb.cv`` the folds decide which
        rows belong together, and rfsize does not look for copies.

    Attributes
    ----------
    report_ : Report or None
        The estimate from all votes read so far; None before the first votes. If the rounds ended before T* trees, its
        interval and other losses are computed when you first read it.

    Raises
    ------
    NotAForestError
        At the first tree, if the booster is not a random forest, or predicts no labels although you size labels.
    InbagError
        At the first tree, if the bags cannot be rebuilt and proven (GOSS, a GPU), or ``data`` are other rows.
    ValueError
        At the first tree, if several machines train the forest together, as in ``lightgbm.dask``: a machine that stops
        would leave the others waiting. Use `rfsize.dask.grow`. Also if ``data``, ``threshold`` or the metric do not fit
        the training, if the validation set is unknown, or if a metric meets labels between 0 and 1.

    Warns
    -----
    NotConvergedWarning
        If training ends before T* trees, or before it is sure, or if the callback could not tell. After the first tree
        no error ends a training: the callback looks again at twice the trees, and at the end warns of what it met.
    LabelsOnlyWarning
        If labels take so few trees that the ranking or the probabilities would suffer.
    ForestWarning
        As in `rfsize.size`.
    ForestWarning
        If ``bagging_freq`` > 1.
    ForestWarning
        If LightGBM samples features so that forests of other seeds predict differently.

    See Also
    --------
    grow : Train a forest to its size.
    size : See how many trees are enough.

    Notes
    -----
    Without the rows, the score of a tree is the difference of t · (mean score of t trees) between iterations. LightGBM
    gives a callback only probabilities. If a class is rare, a probability can round to 1: the row is settled, and a
    bound stands for its mean score (log-odds of 30; 690 between classes of a softmax). ``report_.notes_on_rows`` says
    on how many rows. If ``voting="hard"`` and rounding hides votes that may decide T*, the callback cannot tell.
    A ``multiclass`` iteration in which the trees of only some classes have splits is left out, and the bag of a tree is
    compared with LightGBM's by its size; with the rows it is proven leaf by leaf.

    Without the rows, it reads at most 20,000 rows, drawn at random. For labels, probabilities and scores on more than
    10,000 rows it reads the first 104 trees and then 8 of every 32; for a metric it reads every tree.

    It adds some 2 % to the processor time of a long training (1000 trees of 255 leaves on 100,000 rows), and 13 % to
    that of a short one (300 trees of 31 leaves on 20,000 rows), by ``benchmarks/growing.py --cost``.

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
        data: Any = None,
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
        of_labels: dict[str, Any] = {"alpha": alpha, "average": average, "voting": voting}
        self.criterion = make_criterion(metric, tolerance, confidence=confidence, threshold=threshold, **of_labels)
        self.threshold = share("threshold", 0.5 if threshold is None else threshold)
        if data is not None and not hasattr(data, "shape"):
            raise ValueError(f"data must be the training rows, an array or a table, found a {type(data).__name__}")
        if validation is not None:
            reason = f"training rows have no part in it with validation={validation!r}"
            refuse_unused(reason, ", or leave validation out", data=data, groups=groups)
        check_groups(groups if isinstance(groups, str) else None, 0)
        self.data, self.validation, self.groups = data, validation, groups
        self.min_trees = whole("min_trees", min_trees, at_least=1)
        self.log_every = whole("log_every", log_every, at_least=0)
        self._report: Report | None = None
        self._forests: _ForestsInTraining | None = None
        self._error: Exception | None = None

    @property
    def report_(self) -> Report | None:
        """The estimate from all votes read so far; None before the first votes."""
        forests, report = self._forests, self._report
        n_sized = 0 if report is None or not report.estimate.has_interval else report.available
        with suppress(ValueError):  # too few votes, for example; training warns of it at its end
            if forests is None:
                self._report = report if report is None or n_sized else completed(report)
            elif forests.n_trees > 1 and n_sized != forests.n_trees:
                self._report = forests.report(interval=True)
        return self._report

    def __getstate__(self) -> dict[str, Any]:
        # The forests hold a booster in training, which cannot be pickled.
        return {**self.__dict__, "_report": self.report_, "_forests": None}

    def __call__(self, env: CallbackEnv) -> None:
        """LightGBM calls this after each iteration."""
        trees = env.iteration + 1
        if env.iteration == env.begin_iteration:
            self._rule = StoppingRule(self.min_trees, env.end_iteration)
            self._report = self._error = None
            self._forests = _ForestsInTraining(env, self)
        forests, report = self._forests, None
        if forests is not None:
            try:
                report = self._look(forests, env)
            except Exception as error:  # no error of an estimate may end a training: the model would be lost
                self._error = error
                if isinstance(error, InbagError) or not isinstance(error, ValueError):
                    self._forests = None  # bags are wrong, or rfsize has a fault: another look would not help
                self._rule.postpone(trees)
        if forests is not None and report is not None:
            # The warnings about dependent trees were given at the first tree.
            self._forests, self._report = None, with_warnings(report, *forests.dependence)
            unsaid = () if _is_complete(report) else warnings_of_size(report)
            give((*report.warnings, *unsaid), through="lightgbm")
            if report.enough:
                raise EarlyStopException(report.n_kept - 1, env.evaluation_result_list or [])
        elif trees == env.end_iteration and (last := self._error) is not None:
            what = str(last) if isinstance(last, ValueError) else f"{type(last).__name__}: {last}"
            text = f"SizeCallback could not tell how many of the {how_many(trees, 'tree')} are enough. {what}"
            warn(text, NotConvergedWarning, through="lightgbm")

    def _look(self, forests: _ForestsInTraining, env: CallbackEnv) -> Report | None:
        """Read the newest tree; the final report if training ends with it, and None if it goes on."""
        trees, rule = env.iteration + 1, self._rule
        forests.read(env)
        logs = self.log_every > 0 and trees % self.log_every == 0 and trees > 1
        if trees < rule.next_size and not logs:
            return None
        report = rule.update(trees, partial(forests.report, interval=logs))
        self._error = None
        if report is None:
            return None
        self._report = report
        if logs:
            print(f"[{trees}] {headline(report)}", flush=True)
        report = completed(report) if rule.done and _is_complete(report) else report
        return with_warnings(report, *warning_of_copies(forests.groups)) if rule.done else None


def _is_complete(report: Report) -> bool:
    """Whether a training ends with all of its report: where trees are too few, what `report_` adds decides nothing."""
    return report.estimate.has_interval or report.criterion.average == "macro"


class _ForestsInTraining:
    """The forest in training, or the forests of a cross-validation, and the votes of their trees."""

    n_trees = 0  # of each forest

    def __init__(self, env: CallbackEnv, callback: SizeCallback) -> None:
        if env.begin_iteration > 0:
            raise NotAForestError("SizeCallback begins a forest: take rfsize.grow(params, data, init_model=model)")
        boosters: Sequence[Any] = [env.model]
        validation, data, criterion = callback.validation, callback.data, callback.criterion
        self._source = "oob" if validation is None else f"validation set '{validation}'"
        if isinstance(env.model, lgb.CVBooster):
            boosters, validation, self._source = env.model.boosters, validation or "valid", "cross-validation"
        self.groups: Groups = NO_GROUPS
        if validation is None:
            dataset = boosters[0].train_set
            rows = rows_of(dataset) if data is None else data
            self.groups = resolve_groups(callback.groups, rows, dataset.num_data())
        else:
            advice = ", and give lgb.cv folds=GroupKFold().split(X, y, groups), or a Dataset with free_raw_data=False"
            refuse_unused("each fold has its own rows", advice, groups=callback.groups, data=data)
        # The loss of a metric is measured on smaller forests of the trees that are read, so all trees are.
        share, every_tree = 1.0 / len(boosters), criterion.kind == "metric"
        voters = [Voters(booster, callback.threshold, self.groups, validation) for booster in boosters]
        self._votes = [_votes_of(of, data, share=share, every_tree=every_tree) for of in voters]
        first = self._votes[0].forest
        self._has_truth = all(votes.truth is not None for votes in self._votes)
        if criterion.kind == "metric" and not self._has_truth:
            raise ValueError(
                f"metric={criterion.name!r} compares with classes or numbers, and the labels of the Dataset are "
                "missing or soft, between 0 and 1: give alpha, which takes no labels, or a Dataset with labels"
            )
        labels, weights = self._labels([slice(None)] * len(boosters)) if self._has_truth else (None, None)
        self._criterion = checked_criterion(criterion, first.classes, labels, weights)
        self.dependence = dependence_of(first)
        give(self.dependence, through="lightgbm")

    def read(self, env: CallbackEnv) -> None:
        """Read the trees just trained, except the first, which were read at once."""
        self.n_trees = env.iteration + 1
        for votes in self._votes if env.iteration > env.begin_iteration else ():
            votes.read()

    def report(self, *, interval: bool = False) -> Report:
        """The estimate from all trees read so far; without ``interval`` only if they are enough, with one."""
        self._refuse_hidden_votes()
        parts = [votes.outputs(self._source) for votes in self._votes]
        outputs = parts[0]
        if len(parts) > 1:  # the rows of the folds lie one after another
            ends = np.cumsum([len(part) for part in parts])
            rows = [np.arange(end - len(part), end) for end, part in zip(ends, parts, strict=True)]
            outputs = outputs_of_folds(list(zip(rows, parts, strict=True)), outputs.classes, int(ends[-1]))
        if self._has_truth:
            outputs = outputs.with_truth(*self._labels([votes.rows for votes in self._votes]))
        task = (lambda: self._votes[0].task) if len(parts) == 1 else None  # folds have no bags
        report = make_report(outputs, with_defaults(self._criterion, outputs, task), interval=interval)
        return replace(report, notes_on_rows=tuple(self._notes()))

    def _labels(self, rows: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Labels and weights of these rows of each Dataset."""

        def joined(of_votes: Sequence[Any]) -> NDArray[Any]:
            return np.concatenate([np.asarray(of)[of_rows] for of, of_rows in zip(of_votes, rows, strict=True)])

        weights = [votes.dataset.get_weight() for votes in self._votes]
        has_weights = all(weight is not None for weight in weights)
        return joined([votes.truth for votes in self._votes]), joined(weights) if has_weights else None

    def _refuse_hidden_votes(self) -> None:
        """Raise `FewVotesError` if T* goes by single votes, and rounding hides too many of them."""
        n_votes = sum(int(votes.sums().counts.sum()) for votes in self._votes)
        hidden, criterion = sum(votes.n_unsure for votes in self._votes) / max(n_votes, 1), self._criterion
        is_hard = criterion.metric == "labels" and criterion.voting == "hard"
        if is_hard and hidden > _FEW_UNSURE * criterion.level:
            raise FewVotesError(f"rounding hides {in_percent(hidden)} of single votes: give the training rows, data=X")

    def _notes(self) -> Iterator[str]:
        """What was not read, or not exactly."""
        of_each = [(votes.n_rows, votes.n_read, votes.n_bounded) for votes in self._votes]
        n_rows, n_read, n_bounded = map(sum, zip(*of_each, strict=True))
        if n_read < n_rows:
            yield f"{n_read:,} of the {n_rows:,} rows were read, drawn at random"
        if n_bounded:
            yield (
                f"on {how_many(n_bounded, 'row')} ({in_percent(n_bounded / n_read)}) rounded predictions hide single "
                "trees, and a bound stands for their mean: SizeCallback(data=X), with the training rows X, reads them"
            )


def _votes_of(voters: Voters, data: Any, *, share: float, every_tree: bool) -> VotesInTraining:
    """Votes of the rows, if they are at hand; if not, those that LightGBM's predictions tell."""
    if data is not None:
        return WalkedVotes(voters, data)
    try:
        if (kept := rows_of(dataset_of(voters.booster, voters.validation))) is not None:
            return WalkedVotes(voters, kept)
    except RfsizeError:
        raise
    except ValueError:  # rows of a kind, or under names, that rfsize does not take
        pass
    return PredictedVotes(voters, share=share, every_tree=every_tree)
