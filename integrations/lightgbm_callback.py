"""`SizeCallback`: stops the training of a LightGBM random forest at T*(α) trees."""

from __future__ import annotations

import re
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException
from numpy.typing import NDArray
from scipy.special import expit, logit

from rfsize.checks import share, whole
from rfsize.errors import InbagError, NotAForestError, NotConvergedWarning, SharedBagsWarning
from rfsize.integrations.lightgbm import Draws, rebuilt_bags, shared_bags
from rfsize.integrations.lightgbm_text import ForestText
from rfsize.report import SizeReport
from rfsize.votes import Votes

# Reading a tree's votes from many rows costs about a quarter of training it, so then only the first trees are
# all read, and after them this many of every 64: the estimate still sharpens as the forest grows, at a bounded cost.
_FEW_ROWS = 10_000
_FIRST_TREES_READ = 100
_READ_EVERY, _READ_OF_THEM = 64, 8

# Bags are proven for the first trees, then for one tree in so many, and for the newest before each estimate.
_TREES_PROVEN_FIRST, _PROVEN_EVERY = 3, 128

# Scores this close to the threshold are ties, which go to class 0; the differences carry rounding noise.
_TIE = 1e-9


class SizeCallback:
    """Stops the training of a LightGBM random forest at T*(α) trees.

    Pass it to ``lgb.train(params, dtrain, 5000, callbacks=[SizeCallback()])`` or to ``LGBMClassifier.fit``.
    No data is given to it: it reads each tree's votes from the training predictions and, for ``"oob"``,
    counts on each row only the trees that did not see it. The estimate is made at ``min_trees`` trees and
    then at min(T*, twice the trees), as in figure 3 of Hernández-Lobato et al. 2013, until the forest has
    T*(α) trees; ``lgb.train`` then returns a booster of exactly T*(α) trees.

    Parameters
    ----------
    alpha : float, default 0.99
        Confidence α: the share of rows on which the forest agrees with the infinite forest.
    votes : str, default "oob"
        ``"oob"``, or the name of a validation set given to the training.
    min_trees : int, default 100
        Trees before the first estimate.
    log_every : int, default 0
        Print a line such as ``[200] T*(0.99) = 613 (480 to 790)`` every so many trees; 0 prints nothing.
    threshold : float, default 0.5
        Probability of class 1 above which a tree votes for it.

    Attributes
    ----------
    report_ : SizeReport or None
        The estimate from all votes read so far; None while there are none.

    Raises
    ------
    NotAForestError
        While training, if the booster is not a two-class random forest.
    InbagError
        While training, if the bags cannot be rebuilt and proven (GOSS, several machines, a GPU).

    Warns
    -----
    NotConvergedWarning
        If training ends before T*(α) trees.
    SharedBagsWarning
        If ``bagging_freq`` > 1.

    Notes
    -----
    A tree's score is the difference of t · (mean score of t trees) between iterations. LightGBM hands out
    probabilities; where those are within rounding of 1 the score is lost, and such a vote is not counted.
    That happens to the rows the forest is surest of.

    Of more than 10,000 rows only the first 100 trees and then 8 of every 64 are read, to bound the cost; the
    estimate then rests on fewer votes per row than `rfsize.size` would count.

    Beside early stopping, whichever comes first ends the training; this callback is then not called again and
    cannot warn, so look at ``report_.converged``.
    """

    order = 25  # before early stopping, so that no tree's votes are missed
    before_iteration = False

    def __init__(
        self,
        alpha: float = 0.99,
        *,
        votes: str = "oob",
        min_trees: int = 100,
        log_every: int = 0,
        threshold: float = 0.5,
    ) -> None:
        self.alpha = share("alpha", alpha)
        self.threshold = share("threshold", threshold)
        self.votes = votes
        self.min_trees = whole("min_trees", min_trees, at_least=1)
        self.log_every = whole("log_every", log_every, at_least=0)
        self._report: SizeReport | None = None
        self._reader: _TrainingVotes | None = None
        self._next_estimate = self.min_trees

    @property
    def report_(self) -> SizeReport | None:
        """The estimate from all votes read so far; None while there are none."""
        stale = self._report is None or (self._reader is not None and self._report.available < self._reader.trees)
        if stale and self._reader is not None and self._reader.any_votes:
            self._report = self._reader.report(self.alpha)
        return self._report

    def __getstate__(self) -> dict[str, Any]:
        # What is being read belongs to a training booster, which cannot be pickled.
        return {**self.__dict__, "_report": self.report_, "_reader": None}

    def __call__(self, env: CallbackEnv) -> None:
        """Called by LightGBM after each iteration."""
        trees = env.iteration + 1
        if env.iteration == env.begin_iteration:
            self._report, self._next_estimate = None, self.min_trees
            self._reader = _TrainingVotes(env, self.votes, self.threshold)
        assert self._reader is not None
        self._reader.read(env)
        last = trees == env.end_iteration
        logs = self.log_every > 0 and trees % self.log_every == 0
        due = last or trees >= self._next_estimate
        if not (due or logs):
            return
        self._reader.prove_newest()
        report = self._report = self._reader.report(self.alpha)
        if logs:
            print(f"[{trees}] {report.headline()}", flush=True)
        if not due:
            return
        if last or report.converged:
            self._reader = None
        if report.converged:
            raise EarlyStopException(report.n_kept - 1, env.evaluation_result_list or [])
        if last:
            warnings.warn(report.not_converged(), NotConvergedWarning, stacklevel=2)
        # T* may lie below the trees at hand where these have too few votes to tell.
        self._next_estimate = int(min(report.n_trees, 2 * trees)) if report.n_trees > trees else 2 * trees


class _TrainingVotes:
    """Reads votes out of a training booster, tree by tree."""

    def __init__(self, env: CallbackEnv, votes: str, threshold: float) -> None:
        if isinstance(env.model, lgb.CVBooster):
            raise NotAForestError(
                "SizeCallback stops one forest, but lgb.cv trains several; use lgb.train, or size each of "
                "cvbooster.boosters"
            )
        if env.begin_iteration > 0:
            raise NotAForestError(
                "SizeCallback must see a forest from its first tree; it cannot continue an init_model"
            )
        forest = ForestText.read(env.model.model_to_string(num_iteration=1))
        self._bagging = _bagging(env.params)
        forest.parameters.update(_exact_fractions(env.params))
        if forest.n_outputs > 1:
            raise NotAForestError(
                f"SizeCallback sizes two classes, the forest has {forest.n_outputs}: T*(α) for more than two classes "
                "is not available yet"
            )
        self._sigmoid = forest.sigmoid
        self._cut = float(logit(threshold))
        self._draws: Draws | None = None
        self._valid = None if votes == "oob" else _validation_set(env.model, votes)
        self._name = votes
        dataset = env.model.train_set if self._valid is None else self._valid
        n_rows = dataset.num_data()
        if self._valid is None:
            label = np.asarray(dataset.get_label())
            self._draws = Draws(rebuilt_bags(forest, n_rows, label > 0), 0, n_rows)
        shared = shared_bags(forest)
        if shared is not None:
            warnings.warn(shared, SharedBagsWarning, stacklevel=4)
        self._asked = np.zeros(n_rows, dtype=np.int32)
        self._for_class_1 = np.zeros(n_rows, dtype=np.int32)
        # Trees, and the log-odds of their mean score, when the predictions were last looked at.
        self._last = (0, np.zeros(n_rows))
        self._booster = env.model
        self._unproven: tuple[int, Any, Any, Any] | None = None
        self._proven = 0
        self._full_bag = False
        self.trees = 0

    def read(self, env: CallbackEnv) -> None:
        """Add the votes of the tree just trained, if it is one of those that are read."""
        tree = env.iteration
        self.trees = tree + 1
        if self._draws is not None and _bagging(env.params) != self._bagging:
            raise InbagError(
                f"the bagging was changed during training, from {self._bagging} to {_bagging(env.params)}, "
                "and such bags cannot be rebuilt; leave it as it is, or name a validation set: "
                "SizeCallback(votes='valid_0')"
            )
        if not (self._is_read(tree) or self._is_read(tree + 1)):
            return
        log_odds = self._log_odds()
        (trees_before, before), self._last = self._last, (tree + 1, log_odds)
        if not self._is_read(tree) or trees_before != tree:
            return
        inbag = None if self._draws is None else self._draws.drawn(tree)
        if inbag is not None:
            # Once a bag holds all rows, LightGBM draws no others.
            self._full_bag = self._full_bag or bool(inbag.all())
            inbag |= self._full_bag
        with np.errstate(invalid="ignore"):
            score = (tree + 1) * log_odds - tree * before
        noise = _noise(log_odds, before, tree)
        lone_leaf = self._lone_leaf(tree, np.array_equal(before, log_odds))
        if lone_leaf is not None:
            score, noise = np.full(len(score), self._sigmoid * lone_leaf), None
        elif inbag is not None:
            self._unproven = (tree, score, noise, inbag)
            if self._proven < _TREES_PROVEN_FIRST or tree % _PROVEN_EVERY == 0:
                self.prove_newest()
        vote = score - self._cut > _TIE
        may_vote = np.ones(len(vote), dtype=np.bool_) if inbag is None else ~inbag
        if noise is not None:
            may_vote &= (noise <= _TIE) | (np.abs(score - self._cut) > noise)
        self._asked += may_vote
        self._for_class_1 += may_vote & vote

    @property
    def any_votes(self) -> bool:
        """Whether any vote has been read."""
        return bool(self._asked.any())

    def _is_read(self, tree: int) -> bool:
        few_rows = len(self._asked) <= _FEW_ROWS
        return few_rows or tree < _FIRST_TREES_READ or tree % _READ_EVERY < _READ_OF_THEM

    def report(self, alpha: float) -> SizeReport:
        """The estimate from the votes read so far."""
        for_class_1 = self._for_class_1
        votes = Votes(np.stack([self._asked - for_class_1, for_class_1], axis=1), n_trees=self.trees)
        source = "oob" if self._valid is None else f"validation set '{self._name}'"
        return SizeReport.of(votes, alpha=alpha, available=self.trees, source=source)

    def _lone_leaf(self, tree: int, unchanged: bool) -> float | None:
        """Value of a tree without splits, None for any other.

        LightGBM leaves the training predictions as they are when a tree has no splits (the first tree apart),
        so only a tree that changed nothing needs to be looked at.
        """
        if tree == 0 or not unchanged:
            return None
        value = ForestText.read(_tree_text(self._booster, tree)).leaf_value[0]
        return float(value[0]) if value.size == 1 else None

    def _log_odds(self) -> NDArray[np.float64]:
        """Log-odds of class 1 that the mean score of all trees gives, ``inf`` where they are lost."""
        taken: list[NDArray[np.float64]] = []

        def look(probability: NDArray[np.float64], _: lgb.Dataset) -> tuple[str, float, bool]:
            with np.errstate(divide="ignore"):
                taken.append(np.log(probability / (1.0 - probability)))
            return "rfsize", 0.0, True

        if self._valid is None:
            self._booster.eval_train(look)
        else:
            self._booster.eval(self._valid, self._name, look)
        return taken[0]

    def prove_newest(self) -> None:
        """Prove the bag of the tree read last: that as many of its rows reach each leaf as LightGBM counted.

        A row's leaf is found by its value. Rows whose score is lost may be in any leaf.
        """
        if self._unproven is None:
            return
        tree, score, noise, inbag = self._unproven
        self._unproven = None
        text = ForestText.read(_tree_text(self._booster, tree))
        value, count = self._sigmoid * text.leaf_value[0], text.leaf_count[0]
        if value.size < 2:
            return
        tolerance = 1e-7 * (1.0 + np.abs(value).max())
        order = np.argsort(value)
        # Leaves too alike to be told apart count as one.
        group = np.concatenate([[0], np.cumsum(np.diff(value[order]) > 2.0 * tolerance)])
        stored = np.bincount(group, weights=count[order])
        seen = score[inbag if noise is None else inbag & (noise <= tolerance)]
        place = np.searchsorted(value[order], seen - tolerance).clip(max=value.size - 1)
        rebuilt = np.bincount(group[place], minlength=stored.size)
        lost = int(inbag.sum()) - seen.size
        strange = np.abs(value[order][place] - seen) > 2.0 * tolerance
        if strange.any() or (rebuilt > stored).any() or (stored - rebuilt).sum() != lost:
            raise InbagError(
                f"the in-bag rows of tree {tree} do not match the leaf counts that LightGBM stored, so no out-of-bag "
                "vote can be trusted (bags drawn on a GPU, or parameters changed during training); name a validation "
                "set: SizeCallback(votes='valid_0')"
            )
        self._proven += 1


_BAGGING_NAMES = re.compile(r"(pos_|neg_)?(bagging.*|sub_row|subsample|subsample_freq)")


def _bagging(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that decide the bags, under the names the user gave them."""
    return {name: value for name, value in params.items() if _BAGGING_NAMES.fullmatch(name)}


def _exact_fractions(params: dict[str, Any]) -> dict[str, str]:
    """The bagging fractions as the user gave them: the model text rounds them to six digits."""
    return {
        f"{kind}bagging_fraction": repr(float(params[kind + name]))
        for kind in ("", "pos_", "neg_")
        for name in ("bagging", "sub_row", "subsample", "bagging_fraction")
        if params.get(kind + name) is not None
    }


def _tree_text(booster: lgb.Booster, tree: int) -> str:
    return str(booster.model_to_string(start_iteration=tree, num_iteration=1))


def _noise(log_odds: NDArray[np.float64], before: NDArray[np.float64], tree: int) -> NDArray[np.float64] | None:
    """Bound on the rounding noise of a tree's log-odds, ``inf`` where they are lost; None if nowhere of note.

    A probability p is known to about one unit in the last place, its log-odds to that over 1 − p; they
    enter multiplied by the number of trees.
    """
    if max(log_odds.max(), before.max()) < 7.0:
        return None
    with np.errstate(divide="ignore"):
        return 8.0 * np.finfo(float).eps * (tree + 1) / expit(-np.maximum(log_odds, before))


def _validation_set(booster: lgb.Booster, name: str) -> lgb.Dataset:
    names = list(booster.name_valid_sets)
    if name not in names:
        raise ValueError(
            f"votes names the validation set '{name}', but the training has {names or 'none'}; give votes='oob' or a "
            "name from valid_names"
        )
    return booster.valid_sets[names.index(name)]
