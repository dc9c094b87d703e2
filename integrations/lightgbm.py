"""LightGBM random forests: their votes, their bags, truncation, and `SizeCallback` for training."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException
from numpy.typing import NDArray
from scipy.special import expit, logit

from rfsize.adapter import Adapter, Bags, Leaves
from rfsize.checks import class_indices, share
from rfsize.errors import InbagError, NotAForestError, NotConvergedWarning, SharedBagsWarning
from rfsize.report import SizeReport
from rfsize.votes import Votes

# ---------------------------------------------------------------------------------------------------------
# The model text


@dataclass(frozen=True)
class _ForestText:
    """What LightGBM's own text says of a forest."""

    header: dict[str, str]
    parameters: dict[str, str]
    leaf_value: tuple[NDArray[np.float64], ...]
    leaf_count: tuple[NDArray[np.float64], ...]
    n_outputs: int

    @classmethod
    def read(cls, text: str) -> _ForestText:
        """Parse ``Booster.model_to_string()``; refuses what is not a classification forest."""
        head, *trees = text.split("\nTree=")
        header = dict(line.partition("=")[::2] for line in head.splitlines())
        tail = text.rpartition("\nparameters:")[2].partition("end of parameters")[0]
        pairs = (line.strip("[]").partition(": ") for line in tail.splitlines())
        parameters = {name: value for name, _, value in pairs if name}
        if "average_output" not in header:
            raise NotAForestError(
                f"the LightGBM model was trained with boosting='{parameters.get('boosting', 'gbdt')}', where each tree "
                "corrects the ones before it; T*(α) needs independent trees: train with boosting='rf'"
            )
        if header.get("objective", "").partition(" ")[0] not in _OBJECTIVES:
            raise NotAForestError(
                f"the forest's objective is '{header.get('objective', 'custom')}', whose trees cast no votes; rfsize "
                f"sizes classification forests ({', '.join(sorted(_OBJECTIVES))})"
            )
        if not trees:
            raise NotAForestError("the LightGBM model has no trees: train it first")
        if any("\nis_linear=1" in tree for tree in trees):
            raise NotAForestError(
                "the forest has linear trees, whose votes depend on more than the leaf; train with linear_tree=False"
            )
        values, counts = zip(*map(_leaves, trees), strict=True)
        return cls(header, parameters, values, counts, int(header["num_tree_per_iteration"]))

    @property
    def sigmoid(self) -> float:
        """Slope of the link from score to probability of class 1."""
        return float(self.header["objective"].partition("sigmoid:")[2].split(" ")[0] or 1.0)

    def number(self, name: str) -> float:
        """A numeric training parameter; raises `InbagError` where the text has none."""
        try:
            return float(self.parameters[name])
        except (KeyError, ValueError):
            raise InbagError(
                f"the model text does not say {name}, so the bags cannot be rebuilt; give validation rows and leave "
                "oob=False"
            ) from None


_OBJECTIVES = {"binary", "cross_entropy", "multiclass", "multiclassova"}


def _leaves(tree: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a tree's leaves, and the in-bag rows that LightGBM counted in each."""
    values, counts = _numbers(tree, "leaf_value"), _numbers(tree, "leaf_count")
    if values.size == 1:
        # LightGBM writes no count, or a meaningless one.
        return values, np.zeros(1)
    if values.size == 0 or values.size != counts.size:
        raise NotAForestError("the LightGBM model text is damaged: a tree has not as many counts as leaves")
    return values, counts


def _numbers(tree: str, name: str) -> NDArray[np.float64]:
    line = tree.partition(f"\n{name}=")[2].partition("\n")[0]
    return np.array(line.split(), dtype=np.float64)


# ---------------------------------------------------------------------------------------------------------
# Bags

_RNG_BLOCK = 1024  # rows that share one generator
_RNG_MULTIPLIER, _RNG_INCREMENT = 214013, 2531011
_RNG_LEVELS = 32768  # distinct draws


@cache
def _jumps() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Multiplier and increment that advance the generator by 0, 1, …, 1024 steps at once, modulo 2³²."""
    multiplier, increment = [1], [0]
    for _ in range(_RNG_BLOCK):
        multiplier.append(multiplier[-1] * _RNG_MULTIPLIER % 2**32)
        increment.append((increment[-1] * _RNG_MULTIPLIER + _RNG_INCREMENT) % 2**32)
    return np.array(multiplier, dtype=np.uint32), np.array(increment, dtype=np.uint32)


class LightGbmBags(Bags):
    """Bags drawn by LightGBM's bagging strategy.

    Each block of 1024 rows has a linear congruential generator of its own, seeded ``bagging_seed`` + block;
    each new bag draws once for every row in order, and a row is in the bag where its draw is below the
    bagging fraction (with balanced bagging, the fraction of its class).
    """

    def __init__(self, forest: _ForestText, n_rows: int, levels: NDArray[np.int64] | int) -> None:
        self.n_rows = n_rows
        self.n_members = len(forest.leaf_value) // forest.n_outputs
        self._seed = int(forest.number("bagging_seed"))
        self._trees_per_bag = int(forest.number("bagging_freq"))
        self._levels = np.broadcast_to(levels, n_rows)

    def draws(self, start: int, stop: int) -> Iterator[NDArray[np.bool_]]:
        """Mask of rows ``start`` to ``stop`` in the bag of tree 0, 1, …, without end."""
        multiplier, increment = _jumps()
        row = np.arange(start, stop)
        block, place = np.divmod(row, _RNG_BLOCK)
        length = np.minimum(_RNG_BLOCK, self.n_rows - block * _RNG_BLOCK)
        state = ((self._seed + block) % 2**32).astype(np.uint32)
        state = state * multiplier[place + 1] + increment[place + 1]
        next_multiplier, next_increment = multiplier[length], increment[length]
        levels = self._levels[start:stop]
        while True:
            inbag = ((state >> np.uint32(16)) & np.uint32(_RNG_LEVELS - 1)) < levels
            yield from itertools.repeat(inbag, self._trees_per_bag)
            state = state * next_multiplier + next_increment

    def take(self, start: int, stop: int) -> NDArray[np.bool_]:
        bags = itertools.islice(self.draws(start, stop), self.n_members)
        return np.stack(list(bags), axis=1)[:, :, None]

    def row_mass(self, start: int, stop: int) -> NDArray[np.float64]:
        return np.ones(stop - start)

    def contradicted(self, leaves: Leaves, rebuilt: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(rebuilt != leaves.mass)

    @property
    def advice(self) -> str:
        return (
            "Give exactly the training rows, all of them, in the order of training (and y, where the bagging is "
            "balanced); bags drawn on a GPU, by several machines, or with parameters that were changed during training "
            "cannot be rebuilt."
        )


def _rebuilt_bags(forest: _ForestText, n_rows: int, positive: NDArray[np.bool_] | None) -> LightGbmBags:
    """The bags of a forest, their sizes already found to match."""
    _refuse_other_samplers(forest)
    candidates = _candidate_levels(forest, positive)
    # Trees of one leaf store no bag size. One candidate is checked on three bags, so that wrong rows are refused
    # before any tree is walked; several differ by a row here and there, so then all the bags must tell.
    sizes = {tree: count.sum() for tree, count in enumerate(forest.leaf_count[:: forest.n_outputs]) if count.size > 1}
    checked = list(sizes)[: 3 if len(candidates) == 1 else None]
    found = 0
    for levels in candidates:
        bags = LightGbmBags(forest, n_rows, levels)
        drawn = enumerate(itertools.islice(bags.draws(0, n_rows), checked[-1] + 1 if checked else 0))
        wrong = (int(bag.sum()) for tree, bag in drawn if bag.sum() != sizes.get(tree, bag.sum()))
        found = next(wrong, -1)
        if found < 0:
            return bags
    raise InbagError(
        f"X has {n_rows} rows, for which the rebuilt bags do not have the sizes that LightGBM stored (a bag of {found} "
        f"rows has no match). {bags.advice} Otherwise give validation rows and leave oob=False"
    )


def _refuse_other_samplers(forest: _ForestText) -> None:
    parameters = forest.parameters
    other = {
        "data_sample_strategy": ("bagging", "rows were sampled by gradient (GOSS)"),
        "bagging_by_query": ("0", "whole queries were sampled"),
        "tree_learner": ("serial", "the forest was trained by several machines"),
        "num_machines": ("1", "the forest was trained by several machines"),
    }
    for name, (expected, what) in other.items():
        if parameters.get(name, expected) != expected:
            raise InbagError(
                f"{what} ({name}={parameters[name]}), and such bags cannot be rebuilt; give validation rows and leave "
                "oob=False"
            )
    fractions = [forest.number(f"{kind}bagging_fraction") for kind in ("", "pos_", "neg_")]
    if forest.number("bagging_freq") < 1 or min(fractions) >= 1.0:
        raise InbagError(
            "the forest was trained without bagging (bagging_fraction=1 or bagging_freq=0), so no row is out of bag; "
            "give validation rows and leave oob=False"
        )


def _candidate_levels(forest: _ForestText, positive: NDArray[np.bool_] | None) -> list[Any]:
    """Draws below which a row is in the bag, per row or for all; more than one where the text is too coarse."""
    balanced = min(forest.number("pos_bagging_fraction"), forest.number("neg_bagging_fraction")) < 1.0
    if not balanced or not forest.header["objective"].startswith("binary"):
        return _levels(forest, "bagging_fraction")
    if positive is None:
        raise InbagError(
            "the bagging was balanced (pos_/neg_bagging_fraction), so the bags depend on the labels: give y"
        )
    if not positive.any():
        return _levels(forest, "bagging_fraction")
    pairs = itertools.product(_levels(forest, "pos_bagging_fraction"), _levels(forest, "neg_bagging_fraction"))
    return [np.where(positive, of_positive, of_negative) for of_positive, of_negative in pairs]


def _levels(forest: _ForestText, name: str) -> list[int]:
    """Draws that fall below a bagging fraction, of which the model text gives six digits."""
    fraction = forest.number(name)
    exact = math.ceil(fraction * _RNG_LEVELS)
    if len(forest.parameters[name].replace(".", "").lstrip("0")) < 6:
        return [exact]
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(fraction)) - 5)
    low, high = (math.ceil(bound * _RNG_LEVELS) for bound in (fraction - rounding, fraction + rounding))
    return [exact, *(level for level in range(low, high + 1) if level != exact)]


# ---------------------------------------------------------------------------------------------------------
# The adapter


class LightGbmForest(Adapter):
    """A `lightgbm.Booster` in rf mode, alone or inside a fitted `LGBMClassifier`."""

    framework = "LightGBM"

    def __init__(self, model: Any) -> None:
        self._model = model
        self._booster: lgb.Booster = model if isinstance(model, lgb.Booster) else model.booster_
        if self._booster.num_trees() == 0:
            raise NotAForestError("the LightGBM model has no trees: train it first")
        self._forest = _ForestText.read(self._booster.model_to_string())
        n_outputs = self._forest.n_outputs
        self.n_trees = len(self._forest.leaf_value) // n_outputs
        self.n_features = self._booster.num_feature()
        self.classes = np.asarray(getattr(model, "classes_", np.arange(max(2, n_outputs))))
        if len(self.classes) != max(2, n_outputs):
            raise NotAForestError(
                f"the model knows only the class {self.classes.tolist()}; there is nothing to vote on"
            )
        self.leaves = self._leaf_table()
        every = int(float(self._forest.parameters.get("bagging_freq", 1)))
        if every > 1:
            self.shared_bags = f"bagging_freq={every} gives {every} consecutive trees the same bag"

    def _leaf_table(self) -> Leaves:
        forest = self._forest
        sizes = np.array([value.size for value in forest.leaf_value])
        raw = np.concatenate(forest.leaf_value)
        return Leaves(
            offset=(np.cumsum(sizes) - sizes).reshape(self.n_trees, forest.n_outputs),
            score=expit(forest.sigmoid * raw) if forest.n_outputs == 1 else raw,
            mass=np.concatenate(forest.leaf_count),
            provable=np.repeat(sizes > 1, sizes),
        )

    def check(self, X: Any) -> Any:
        X = super().check(X)
        trained = self._booster.feature_name()
        columns = [str(name).replace(" ", "_") for name in getattr(X, "columns", ())]
        named = trained != [f"Column_{index}" for index in range(len(trained))]
        if hasattr(X, "iloc") and named and columns != trained:
            raise ValueError(f"the columns of X are {columns}, but the forest was trained on {trained}, in that order")
        return X

    def leaf_index(self, X: Any) -> NDArray[Any]:
        leaf = np.asarray(self._booster.predict(X, pred_leaf=True, num_iteration=self.n_trees))
        return leaf.reshape(-1, self.n_trees, self._forest.n_outputs).astype(np.int64, copy=False)

    def bags(self, n_rows: int, y: Any, sample_weight: Any, seed: int | None, subsample: float | None) -> LightGbmBags:
        if seed is not None or subsample is not None:
            raise InbagError(
                "a LightGBM model holds its own bagging_seed and bagging_fraction: leave out seed and subsample"
            )
        positive = None
        if y is not None:
            known = hasattr(self._model, "classes_")
            positive = (
                class_indices(self.classes, y, n_rows) > 0 if known else np.asarray(y, dtype=np.float64).ravel() > 0
            )
        if positive is not None and positive.shape != (n_rows,):
            raise InbagError(f"y must hold one label per row of X: {n_rows} expected, {positive.size} found")
        return _rebuilt_bags(self._forest, n_rows, positive)

    def truncated(self, n_trees: int) -> Any:
        booster = lgb.Booster(model_str=self._booster.model_to_string(num_iteration=n_trees))
        if self._model is self._booster:
            return booster
        model = copy.copy(self._model)
        model._other_params = dict(model._other_params)  # set_params writes into it
        model.set_params(n_estimators=n_trees)
        model._Booster = booster
        model._best_iteration = n_trees
        return model


def adapt(model: Any) -> LightGbmForest:
    """The adapter of a LightGBM model; raises `NotAForestError` where there is none."""
    if isinstance(model, lgb.CVBooster):
        raise NotAForestError("a CVBooster holds several forests; size each of cvbooster.boosters alone")
    if not isinstance(model, (lgb.Booster, lgb.LGBMModel)):
        raise NotAForestError(f"a lightgbm.{type(model).__qualname__} is no model; give a Booster or LGBMClassifier")
    return LightGbmForest(model)


# ---------------------------------------------------------------------------------------------------------
# Training to size

# Reading a tree's votes from many rows costs about a quarter of training it, so then only the first trees are
# all read, and after them this many of every 64: the estimate still sharpens as the forest grows, at a bounded cost.
_FEW_ROWS = 10_000
_FIRST_TREES_READ = 100
_READ_EVERY, _READ_OF_THEM = 64, 10

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
        The last estimate; None before the first.

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
    That happens to rows the forest is surest of, so leaving them out can only make T*(α) larger.
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
        if min_trees < 1 or log_every < 0:
            raise ValueError(f"min_trees must be at least 1 and log_every at least 0, found {min_trees}, {log_every}")
        self.min_trees = int(min_trees)
        self.log_every = int(log_every)
        self.report_: SizeReport | None = None
        self._reader: _TrainingVotes | None = None
        self._next_estimate = self.min_trees

    def __call__(self, env: CallbackEnv) -> None:
        """Called by LightGBM after each iteration."""
        trees = env.iteration + 1
        if env.iteration == env.begin_iteration:
            self.report_, self._next_estimate = None, self.min_trees
            self._reader = _TrainingVotes(env, self.votes, self.threshold)
        assert self._reader is not None
        self._reader.read(env)
        last = trees == env.end_iteration
        logs = self.log_every > 0 and trees % self.log_every == 0
        if not (last or logs or trees >= self._next_estimate):
            return
        report = self.report_ = self._reader.report(self.alpha, trees)
        if logs:
            print(f"[{trees}] {report.headline()}", flush=True)
        if trees < self._next_estimate and not last:
            return
        if report.converged:
            raise EarlyStopException(int(report.n_trees) - 1, env.evaluation_result_list or [])
        self._next_estimate = int(min(report.n_trees, 2 * trees))
        if last:
            warnings.warn(report.not_converged(), NotConvergedWarning, stacklevel=2)


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
        forest = _ForestText.read(env.model.model_to_string(num_iteration=1))
        if forest.n_outputs > 1:
            raise NotAForestError(
                f"SizeCallback sizes two classes, the forest has {forest.n_outputs}: T*(α) for more than two classes "
                "is not available yet"
            )
        self._sigmoid = forest.sigmoid
        self._cut = float(logit(threshold))
        self._bags: Iterator[NDArray[np.bool_]] | None = None
        self._valid = None if votes == "oob" else _validation_set(env.model, votes)
        self._name = votes
        dataset = env.model.train_set if self._valid is None else self._valid
        n_rows = dataset.num_data()
        if self._valid is None:
            label = np.asarray(dataset.get_label())
            self._bags = _rebuilt_bags(forest, n_rows, label > 0).draws(0, n_rows)
        every = int(float(forest.parameters.get("bagging_freq", 1)))
        if every > 1:
            warnings.warn(_shared_bags(every), SharedBagsWarning, stacklevel=4)
        self._asked = np.zeros(n_rows, dtype=np.int32)
        self._for_class_1 = np.zeros(n_rows, dtype=np.int32)
        # Trees, and the probability and log-odds of their mean score, when the predictions were last looked at.
        self._last = (0, np.full(n_rows, 0.5), np.zeros(n_rows))
        self._proven = 0

    def read(self, env: CallbackEnv) -> None:
        """Add the votes of the tree just trained, if it is one of those that are read."""
        tree = env.iteration
        inbag = None if self._bags is None else next(self._bags)
        if not (self._is_read(tree) or self._is_read(tree + 1)):
            return
        booster = cast(lgb.Booster, env.model)
        probability = self._probability(booster)
        with np.errstate(divide="ignore"):
            log_odds = np.log(probability / (1.0 - probability))
        (trees_before, probability_before, log_odds_before), self._last = self._last, (tree + 1, probability, log_odds)
        if not self._is_read(tree) or trees_before != tree:
            return
        if tree > 0 and np.array_equal(probability_before, probability):
            # LightGBM leaves the training predictions as they are when a tree has a single leaf.
            value = _ForestText.read(_tree_text(booster, tree)).leaf_value[0][0]
            score, noise = np.full(len(probability), self._sigmoid * value), None
        else:
            with np.errstate(invalid="ignore"):
                score = (tree + 1) * log_odds - tree * log_odds_before
            noise = _noise(probability, probability_before, tree)
            if inbag is not None and (self._proven < 3 or tree % (4 * _READ_EVERY) == 0):
                self._prove(booster, tree, score, noise, inbag)
        vote = score - self._cut > _TIE
        may_vote = np.ones(len(vote), dtype=np.bool_) if inbag is None else ~inbag
        if noise is not None:
            may_vote &= (noise <= _TIE) | (np.abs(score - self._cut) > noise)
        self._asked += may_vote
        self._for_class_1 += may_vote & vote

    def _is_read(self, tree: int) -> bool:
        few_rows = len(self._asked) <= _FEW_ROWS
        return few_rows or tree < _FIRST_TREES_READ or tree % _READ_EVERY < _READ_OF_THEM

    def report(self, alpha: float, trees: int) -> SizeReport:
        """The estimate from the votes read so far; ``trees`` have been trained."""
        source = "oob" if self._valid is None else f"validation set '{self._name}'"
        return SizeReport.of(self.votes(trees), alpha=alpha, available=trees, source=source)

    def votes(self, trees: int) -> Votes:
        """The votes read so far of a forest that has ``trees``."""
        return Votes(np.stack([self._asked - self._for_class_1, self._for_class_1], axis=1), n_trees=trees)

    def _probability(self, booster: lgb.Booster) -> NDArray[np.float64]:
        taken: list[NDArray[np.float64]] = []

        def look(predicted: NDArray[np.float64], _: lgb.Dataset) -> tuple[str, float, bool]:
            taken.append(predicted.copy())
            return "rfsize", 0.0, True

        if self._valid is None:
            booster.eval_train(look)
        else:
            booster.eval(self._valid, self._name, look)
        return taken[0]

    def _prove(self, booster: lgb.Booster, tree: int, score: Any, noise: Any, inbag: Any) -> None:
        """Compare the in-bag rows of each leaf, found by the leaf's value, with the count LightGBM stored."""
        text = _ForestText.read(_tree_text(booster, tree))
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


def _tree_text(booster: lgb.Booster, tree: int) -> str:
    return str(booster.model_to_string(start_iteration=tree, num_iteration=1))


def _noise(probability: NDArray[np.float64], before: NDArray[np.float64], tree: int) -> NDArray[np.float64] | None:
    """Bound on the rounding noise of a tree's log-odds, ``inf`` where they are lost; None if nowhere of note.

    A probability p is known to about one unit in the last place, its log-odds to that over 1 − p; they
    enter multiplied by the number of trees.
    """
    if max(probability.max(), before.max()) < 1.0 - 1e-3:
        return None
    with np.errstate(divide="ignore"):
        return 8.0 * np.finfo(float).eps * (tree + 1) / (1.0 - np.maximum(probability, before))


def _validation_set(booster: lgb.Booster, name: str) -> lgb.Dataset:
    names = list(booster.name_valid_sets)
    if name not in names:
        raise ValueError(
            f"votes names the validation set '{name}', but the training has {names or 'none'}; give votes='oob' or a "
            "name from valid_names"
        )
    return booster.valid_sets[names.index(name)]


def _shared_bags(every: int) -> str:
    return (
        f"bagging_freq={every} gives {every} consecutive trees the same bag, so their votes are not independent and T* "
        "may be too small; train with bagging_freq=1"
    )
