"""Votes and scores of the trees of a LightGBM booster in training, as they are trained.

`WalkedVotes` sends the rows down the new trees. Where LightGBM has binned the rows and dropped them, `PredictedVotes`
reads what each tree scores from the change of LightGBM's predictions: the score of tree t is the change of t · (mean
score of t trees). The leaf of that value gives the score without rounding, unless a probability has rounded to 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rfsize._util import Bools, Floats, Int64s
from rfsize.counting.collect import outputs_of_sums
from rfsize.counting.count import count, sums_of_scores
from rfsize.counting.groups import Groups
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.sums import Sums
from rfsize.counting.task import Task
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.bags import Draws, rebuilt_bags
from rfsize.integrations.lightgbm.model import LightGbmForest, ModelText, forest_of, leaves_of, tree_lines
from rfsize.models.bags import Layout
from rfsize.models.link import Link, Predictor
from rfsize.models.training import trained_on

# What to do if bags cannot be rebuilt, for messages.
_OTHER_ROWS = "name a validation set, as in SizeCallback(validation='valid_0')"

# The most rows to read of many, and the most cells of (rows × pairs of classes).
_MOST_ROWS, _MOST_CELLS = 20_000, 1 << 22

# Reading a tree takes a third of its training or more. Where rows are many and labels are sized, only the first trees
# are read, and then a few of each run. These few are consecutive, because the score of a tree is the difference of the
# predictions before and after it.
_FEW_ROWS, _FIRST_TREES, _READ_AT_ONCE, _RUN = 10_000, 104, 8, 32

# The mean scores, times the slope, that a prediction can hold. A probability near 1 is known to 1e-16, so from log-odds
# of 36 on it rounds to 1, and before that a single tree among a thousand is no longer seen. Small probabilities are
# known to full precision down to the smallest double.
_LARGEST, _LARGEST_LOG_ODDS = 690.0, 30.0

_EPSILON = float(np.finfo(float).eps)
_CELLS_AT_ONCE = 1 << 20  # scores to keep before they are added up


def dataset_of(booster: lgb.Booster, validation: str | None) -> lgb.Dataset:
    """The training data of a booster in training, or its validation set of that name.

    Raises
    ------
    ValueError
        If the validation set is unknown.
    """
    if validation is None:
        return booster.train_set
    names = list(booster.name_valid_sets)
    if validation not in names:
        raise ValueError(f"the training has no validation set '{validation}', but {names}: name one, or none")
    return booster.valid_sets[names.index(validation)]


def rows_of(dataset: lgb.Dataset) -> Any:
    """The rows of a Dataset; None if it never had them, or dropped them when it was binned."""
    rows = dataset.data
    if rows is None:
        try:
            rows = dataset.get_data()
        except Exception:  # LightGBM raises this for a subset that is not binned yet
            return None
    if isinstance(rows, (str, Path)):  # a file that only LightGBM can read
        return None
    return rows


class Voters(NamedTuple):
    """The trees of a booster in training, and the rows on which they vote.

    Attributes
    ----------
    booster : lightgbm.Booster
        It has just got its first tree.
    threshold : float
        Probability above which a tree votes for class 1; two classes only.
    groups : Groups
        Training rows that belong together.
    validation : str, optional
        Name of the validation set on whose rows all trees vote. By default these are the training rows, on which only
        trees vote that did not see them.
    """

    booster: lgb.Booster
    threshold: float
    groups: Groups
    validation: str | None = None


class VotesInTraining(ABC):
    """Votes and scores of the trees of a booster in training on rows.

    Parameters
    ----------
    voters : Voters
        The trees, and which rows they vote on.

    Attributes
    ----------
    forest : LightGbmForest
        The first tree.
    dataset : lightgbm.Dataset
        The rows.
    bags : LightGbmBags or None
        Bags of the training rows; None for a validation set.
    n_rows : int
        Number of rows.
    n_trees : int
        Number of trees trained.
    rows : slice or ndarray of int64
        The rows that are counted.
    n_read : int
        Their number.
    n_unsure, n_bounded : int
        Number of votes that rounding may turn to another class, and of rows on which a bound stands for a score.
    is_proven : bool
        Whether the bag of some tree was proven. Trees of one leaf prove nothing.

    Raises
    ------
    NotAForestError
        If the booster is not a random forest.
    InbagError
        If the bags of the training rows cannot be rebuilt.
    ValueError
        If several machines train it, or the validation set is unknown, or the threshold does not fit.
    """

    rows: slice | Int64s = slice(None)
    n_trees = n_unsure = n_bounded = 0
    is_proven = False
    _sums: Sums

    def __init__(self, voters: Voters) -> None:
        booster, threshold, self.groups, validation = voters
        self.booster, self.validation = booster, validation
        self.forest, self.dataset = forest_of(booster, num_iteration=1), dataset_of(booster, validation)
        machines = self.forest.text.parameters.get("num_machines", "1")
        if machines != "1":
            # The error keeps the booster alive, and later trainings in this process would wait for its network.
            booster.free_network()
            raise ValueError(f"{machines} machines train this forest, and none stops by itself: take rfsize.dask.grow")
        self.threshold, self.n_rows = self.forest.checked_threshold(threshold), int(self.dataset.num_data())
        self.n_read, self.bags = self.n_rows, None
        if validation is None:
            is_positive = np.asarray(self.dataset.get_label()) > 0
            self.bags = rebuilt_bags(self.forest.sampling, Layout.alone(self.n_rows), is_positive)

    @property
    def task(self) -> Task | None:
        """All trees so far, with the rows and their bags; None if the rows are not known."""
        return None

    @property
    def truth(self) -> NDArray[Any] | None:
        """The class indices or numbers of the rows; None if the Dataset has none, or labels between classes."""
        label = self.dataset.get_label()
        if label is None:
            return None
        try:
            return trained_on(self.forest.text.truth(np.asarray(label)), len(self.forest.classes))
        except ValueError:  # T* by labels, probabilities and scores needs none
            return None

    def nothing(self) -> Sums:
        """Sums of no trees yet."""
        return Sums.nothing(self.n_read, len(self.forest.classes), self.forest.n_scores)

    @abstractmethod
    def read(self) -> None:
        """Note that one more tree was trained; `InbagError` if its bag is wrong and is proven at once."""

    @abstractmethod
    def sums(self) -> Sums:
        """Votes and scores of all trees so far.

        Raises
        ------
        InbagError
            If a bag is wrong.
        """

    def outputs(self, source: str) -> TreeOutputs:
        """Votes and scores of all trees, with where they come from."""
        forest, groups = self.forest, self.groups.take(self.rows)
        predictor = Predictor(forest.classes, forest.link, self.threshold, forest.voting)
        return outputs_of_sums(self.sums(), self.n_trees, predictor, source=source, groups=groups)


class WalkedVotes(VotesInTraining):
    """Votes and scores of the rows that are sent down the new trees, exactly as `rfsize.size` counts them.

    The trees are counted in blocks: all trees since the last count. The bag of every tree is proven.

    Parameters
    ----------
    voters : Voters
        The trees, and which rows they vote on.
    rows : array_like, DataFrame or sparse matrix
        The rows of the Dataset, in its order.

    Raises
    ------
    InbagError
        If the rows are not those of the training, in its order.
    ValueError
        If there are more or fewer, or with other columns.
    """

    def __init__(self, voters: Voters, rows: Any) -> None:
        super().__init__(voters)
        self._sums, self._n_counted, self._X = self.nothing(), 0, self.forest.open(rows)
        if self._X.n_rows != self.n_rows:
            raise ValueError(f"data must be the {self.n_rows:,} rows of the Dataset, found {self._X.n_rows:,}")
        self.read()
        self.sums()

    @property
    def task(self) -> Task:
        forest = forest_of(lgb.Booster(model_str=self.booster.model_to_string(num_iteration=self.n_trees)))
        bags = None if self.bags is None else self.bags.select(0, self.n_trees)
        return Task(forest, self._X, bags, self.threshold, self.groups)

    def read(self) -> None:
        self.n_trees += 1

    def sums(self) -> Sums:
        # A finished training may have dropped the trees beyond the best iteration.
        start, stop = self._n_counted, min(self.n_trees, self.booster.current_iteration())
        if stop > start:
            text, bags = self.booster.model_to_string(start_iteration=start, num_iteration=stop - start), None
            forest = LightGbmForest(lgb.Booster(model_str=text), ModelText.read(text))
            if self.bags is not None:
                bags = self.bags.select(start, stop)
                bags.need_proof = bool(forest.ensemble.has_cover.any())
                self.is_proven |= bags.need_proof
            try:
                more = count(Task(forest, self._X, bags, self.threshold, self.groups))
            except InbagError as error:
                raise InbagError(
                    f"trees {start} to {stop - 1} saw other rows: give those of the training as data, or {_OTHER_ROWS}"
                ) from error
            self._sums, self._n_counted = self._sums.plus(more), stop
        return self._sums


class PredictedVotes(VotesInTraining):
    """Votes and scores from the predictions of a booster in training.

    A mean score beyond what a prediction can hold is lost in rounding. Such a row is settled: its mean counts as the
    bound. Bags must hold as many rows as LightGBM counted in each tree that is read.

    Parameters
    ----------
    voters : Voters
        The trees, and which rows they vote on.
    share : float
        Read a share of at most 20,000 rows, drawn at random.
    every_tree : bool
        Whether to read every tree, even of many rows.
    """

    def __init__(self, voters: Voters, *, share: float, every_tree: bool) -> None:
        super().__init__(voters)
        n_rows, n_outputs = self.n_rows, self.forest.n_scores
        most = max(1, int(share * min(_MOST_ROWS, 2 * _MOST_CELLS // (n_outputs * (n_outputs + 1)))))
        if n_rows > most:
            self.rows = np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False)).astype(np.int64)
            self.n_read = most
        self._sums, self._every_tree = self.nothing(), every_tree or n_rows <= _FEW_ROWS
        self._draws = None if self.bags is None else Draws(self.bags, 0, n_rows)
        self._is_full, self._is_bounded = False, np.zeros(self.n_read, dtype=np.bool_)
        self._last = 0, np.zeros((n_outputs, self.n_read))  # number of trees, and their mean scores
        # Trees whose scores are not yet added up, and the mean scores before and after each.
        self._pending: list[tuple[int, Floats, Floats]] = []
        self.read()
        self.sums()

    def read(self) -> None:
        tree, self.n_trees = self.n_trees, self.n_trees + 1
        if not (self._is_read(tree) or self._is_read(tree + 1)):
            return
        (n_before, before), after = self._last, mean_scores(self._predictions(), self.forest.link)
        self._last = tree + 1, after
        if self._is_read(tree) and n_before == tree:
            self._pending.append((tree, before, after))
            if len(self._pending) * after.size >= _CELLS_AT_ONCE:
                self.sums()

    def _predictions(self) -> Floats:
        """What all trees so far predict on the rows that are read, shape (n_outputs, n_rows)."""
        taken: list[Floats] = []

        def take(predicted: Floats, _: lgb.Dataset) -> tuple[str, float, bool]:
            taken.append(np.atleast_2d(predicted.T)[:, self.rows].copy())
            return "rfsize", 0.0, True

        if hasattr(self.booster, "_Booster__inner_predict"):
            number = 0 if self.validation is None else 1 + self.booster.name_valid_sets.index(self.validation)
            take(self.booster._Booster__inner_predict(data_idx=number), self.dataset)
        else:  # evaluates the metrics of the training too, which takes as long again or longer
            self.booster.eval(self.dataset, "rfsize", take)
        return taken[0]

    def _is_read(self, tree: int) -> bool:
        return self._every_tree or tree < _FIRST_TREES or tree % _RUN < _READ_AT_ONCE

    def sums(self) -> Sums:
        # A finished training may have dropped the trees beyond the best iteration.
        pending = [of for of in self._pending if of[0] < self.booster.current_iteration()]
        self._pending.clear()
        runs = groupby(enumerate(pending), lambda numbered: numbered[1][0] - numbered[0])
        read = [of_tree for _, run in runs for of_tree in self._scores([of for _, of in run])]
        if read:
            scores, hidden = (np.stack(of, axis=-1) for of in zip(*read, strict=True))
            cut = self.forest.raw_threshold(self.threshold)
            more = sums_of_scores(scores.transpose(1, 2, 0), hidden, len(self.forest.classes), cut)
            self._sums = self._sums.plus(more)
        return self._sums

    def _scores(self, run: Sequence[tuple[int, Floats, Floats]]) -> Iterator[tuple[Floats, Bools]]:
        """What consecutive trees score on the rows, if that is known, and which rows they saw."""
        first, n_outputs, link = run[0][0], self.forest.n_scores, self.forest.link
        texts = tree_lines(self.booster.model_to_string(start_iteration=first, num_iteration=len(run)))
        drawn = np.zeros((self.n_rows, len(run)), dtype=np.bool_)
        if self._draws is not None:
            drawn = self._draws.of_trees(range(first, first + len(run)))
        for place, (tree, before, after) in enumerate(run):
            leaves = [leaves_of(text) for text in texts[place * n_outputs : (place + 1) * n_outputs]]
            hidden = self._inbag(tree, leaves, np.ascontiguousarray(drawn[:, place]))
            # The finished forest predicts with later trees without splits too, the forest in training without them.
            is_missing = [tree > 0 and value.size == 1 for value, _ in leaves]
            if link.kind == "softmax" and any(is_missing) and not all(is_missing):
                continue  # the other scores are known only up to a constant
            score, noise = tree_scores(link, tree, before, after)
            for output in np.flatnonzero(is_missing):
                score[output], noise[output] = leaves[output][0][0], 0.0
            if len(self.forest.classes):
                is_unsure = settle_ties(score, noise, self.forest.raw_threshold(self.threshold))
                self.n_unsure += int(np.count_nonzero(is_unsure & ~hidden))
            self._is_bounded |= np.isinf(noise).any(axis=0) & ~hidden
            self.n_bounded = int(np.count_nonzero(self._is_bounded))
            yield score, hidden

    def _inbag(self, tree: int, leaves: Sequence[tuple[Floats, Floats]], inbag: Bools) -> Bools:
        """Which of the rows, or of their groups, the tree saw; `InbagError` if LightGBM counted others."""
        if self._draws is not None:
            self._is_full = self._is_full or bool(inbag.all())  # LightGBM then draws no other bag
            inbag |= self._is_full
            sizes = {count.sum() for value, count in leaves if value.size > 1}
            if sizes - {np.count_nonzero(inbag)}:
                raise InbagError(f"the bag of tree {tree} has another size (a GPU, changed parameters): {_OTHER_ROWS}")
        return self.groups.spread(inbag)[self.rows]


def tree_scores(link: Link, n_before: int, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """What the trees of one iteration score on rows, from the mean scores before and after it.

    A probability p is known to about one unit in the last place, and its log-odds to this unit over 1 − p. The noise is
    both, multiplied by the number of trees.

    Parameters
    ----------
    link : Link
        The link of the forest, with its exact slope.
    n_before : int
        Number of iterations before.
    before, after : ndarray of float64, shape (n_outputs, n_rows)
        As `mean_scores` returns them; 0 before the first iteration.

    Returns
    -------
    score, noise : ndarray of float64, shape (n_outputs, n_rows)
        Scores, in a softmax up to a constant for each row, and bounds on their error. The error is infinite where the
        mean score before or after is beyond what a prediction can hold.
    """
    is_logistic = link.kind in ("logistic", "one-vs-all")
    unit, highest, lowest = _EPSILON * (n_before + 1), np.maximum(before, after), np.minimum(before, after)
    noise = np.full(after.shape, 64.0 * unit * max(1.0, highest.max(), -lowest.min()))
    if is_logistic:
        noise += 8.0 * unit * (1.0 + np.exp(highest))
    if link.kind not in ("identity", "square"):
        noise[(lowest <= -_LARGEST) | (highest >= (_LARGEST_LOG_ODDS if is_logistic else _LARGEST))] = np.inf
    return ((n_before + 1) * after - n_before * before) / link.slope, noise / link.slope


def mean_scores(predicted: Floats, link: Link) -> Floats:
    """Mean scores times the slope, from predictions, within the bounds; for a softmax up to a constant for each row."""
    if link.kind in ("identity", "square"):
        return predicted if link.kind == "identity" else np.sign(predicted) * np.sqrt(np.abs(predicted))
    with np.errstate(divide="ignore", over="ignore"):
        if link.kind in ("logistic", "one-vs-all"):
            return np.clip(np.log(predicted / (1.0 - predicted)), -_LARGEST, _LARGEST_LOG_ODDS)
        return np.clip(np.log(np.expm1(predicted) if link.kind == "softplus" else predicted), -_LARGEST, _LARGEST)


def settle_ties(score: Floats, noise: Floats, threshold: float) -> Bools:
    """Give votes that rounding leaves open to the lowest class, by changing scores; return which votes are unsure.

    Parameters
    ----------
    score, noise : ndarray of float64, shape (n_scores, n_rows)
        As `tree_scores` returns them.
    threshold : float
        Score above which a tree votes for class 1, if one score decides between two classes.
    """
    if len(score) > 1:
        second, highest = np.partition(score, -2, axis=0)[-2:]
        ahead = highest - second
        np.copyto(score, highest, where=score >= highest - noise.min())
    else:
        ahead = np.abs(score[0] - threshold)
        np.copyto(score, threshold, where=ahead <= noise.min())
    return (ahead > 0.0) & (ahead <= 2.0 * noise.max(axis=0))
