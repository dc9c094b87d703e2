"""Older rules for the number of trees: McNemar's test, and the smoothed out-of-bag accuracy.

Both say when more trees stop improving the accuracy on labelled rows. T*(α) says when they stop changing the
predictions, and needs no labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, chdtrc

from rfsize._util import MAX_CLASSES, Bools, Floats, Int64s, blocks, class_indices, how_many, share, whole
from rfsize.counting.votes import running_majority

# The χ² approximation holds from this many discordant rows on.
_ENOUGH_DISCORDANT = 20
# With more sizes, the matrices of all pairs would take hundreds of megabytes.
_MOST_SIZES = 3000
# Equal mean accuracies may differ in their last bits, which is no improvement.
_ROUNDING = 1e-12


def _in_words(answer: Any) -> str:
    return f"{how_many(answer.n_trees, 'tree')}: {answer.reason}"


@dataclass(frozen=True, eq=False)
class McNemarSize:
    """The answer of `mcnemar_size`.

    Attributes
    ----------
    n_trees : int
        m*, the smallest size that no larger size beats.
    converged : bool
        Whether a larger size was compared.
    reason : str
        Why this size was chosen, in one sentence.
    sizes : ndarray of int64, shape (n_sizes,)
        The sizes that were compared, in trees.
    accuracy : ndarray of float, shape (n_sizes,)
        Share of the rows on which the majority vote is right, for each size.
    p_values : ndarray of float, shape (n_sizes, n_sizes)
        p-values of McNemar's two-sided test for each pair of sizes, 1 for sizes that are taken as equal because too few
        rows tell them apart. The matrix is symmetric, with 1 on the diagonal.
    level : float
        Level of significance.
    beaten : ndarray of bool, shape (n_sizes, n_sizes)
        Whether size ``n`` beats the smaller size ``m``, at ``[m, n]``; False on and below the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> answer = rfsize.baselines.mcnemar_size(tree_votes, y, step=10)
    >>> answer.n_trees, answer.converged
    (40, True)
    >>> answer.p_values.shape
    (20, 20)
    """

    n_trees: int
    converged: bool
    reason: str
    sizes: Int64s
    accuracy: Floats
    p_values: Floats
    level: float
    beaten: Bools

    __str__ = __repr__ = _in_words


def mcnemar_size(
    tree_votes: ArrayLike,
    y: ArrayLike,
    *,
    step: int = 1,
    level: float = 0.05,
    exact: bool = False,
    classes: ArrayLike | None = None,
) -> McNemarSize:
    """Find the smallest number of trees that no larger number beats, by McNemar's test.

    The rule compares the forests of the first ``step``, ``2 step``, … trees pair by pair. Take two sizes m < n. Let b
    be the number of rows that only the m trees get right, and c the number that only the n trees get right. If
    b + c ≥ 20, the statistic is (abs(b − c) − 1)² / (b + c), or 0 if b = c, and follows the χ² distribution with one
    degree of freedom (equation 1 of [1]_). If b + c is smaller, the sizes are taken as equal, as in the paper.
    The size n *beats* m if p < ``level`` and c > b. The level holds for each pair; nothing corrects for the number of
    pairs. A few rows cannot distinguish close sizes, so the answer m* grows with the number of rows.

    Parameters
    ----------
    tree_votes : array_like of int or bool, shape (n_rows, T)
        Class index that each tree votes for, as `TreeOutputs.by_tree` returns it, on rows that no tree was trained on.
        Trees are in order of training. The first m trees decide by majority vote; ties go to the lowest class index.
    y : array_like, shape (n_rows,)
        Class index of each row, or its label if you give ``classes``.
    step : int, default 1
        Trees between two sizes.
    level : float, default 0.05
        Level of significance of each test.
    exact : bool, default False
        Test pairs with b + c < 20 as well, exactly: p is twice the binomial tail P(B(b + c, ½) ≤ min(b, c)), at most 1.
        This is not in the paper. It tells more sizes apart, so it finds more trees.
    classes : array_like, shape (n_classes,), optional
        Labels of the class indices.

    Returns
    -------
    McNemarSize
        The size, why it was chosen, and the tests of all pairs.

    Raises
    ------
    ValueError
        If the votes are not class indices, if ``y`` does not fit the votes, or if there are fewer than two sizes to
        compare or more than 3000.

    References
    ----------
    .. [1] P. Latinne, O. Debeir, C. Decaestecker (2001). "Limiting the number of trees in random forests." MCS 2001.

    Examples
    --------
    200 independent trees, each right on 70 % of the rows:

    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> rfsize.baselines.mcnemar_size(tree_votes, y, step=10)
    40 trees: none of 16 larger sizes up to 200 trees beats it at level 0.05
    """
    votes, truth, n_classes = _checked(tree_votes, y, classes)
    step, level = whole("step", step, at_least=1), share("level", level)
    sizes = np.arange(step, votes.shape[1] + 1, step)
    if not 2 <= len(sizes) <= _MOST_SIZES:
        fault = f"{votes.shape[1]:,} trees at a step of {step:,} make {len(sizes):,} sizes"
        raise ValueError(f"{fault}, and 2 to {_MOST_SIZES:,} are compared: give another step, or more trees")
    both = np.zeros((len(sizes), len(sizes)))
    for right, _ in _right_by_size(votes, truth, n_classes, step):
        # A float32 product of zeros and ones is exact up to 2^24 rows, and a block has fewer.
        block = right.astype(np.float32)
        both += block.T @ block
    alone = np.diag(both)[:, None] - both
    p_values, accuracy = _p_values(alone, alone.T, exact=exact), np.diag(both) / len(votes)
    beaten = np.triu((p_values < level) & (accuracy > accuracy[:, None]), 1)
    chosen = int((~beaten.any(axis=1)).argmax())
    n_larger = len(sizes) - 1 - chosen
    reason = f"none of {n_larger:,} larger sizes up to {sizes[-1]:,} trees beats it at level {level!r}"
    if n_larger == 0:
        reason = "every smaller size is beaten by a larger one: give more trees"
    return McNemarSize(int(sizes[chosen]), n_larger > 0, reason, sizes, accuracy, p_values, level, beaten)


def _p_values(only_m: Floats, only_n: Floats, *, exact: bool) -> Floats:
    """Two-sided p-values of McNemar's test, from the numbers of rows that only one of the two sizes gets right."""
    discordant = only_m + only_n
    few = discordant < _ENOUGH_DISCORDANT
    statistic = np.maximum(np.abs(only_m - only_n) - 1.0, 0.0) ** 2 / np.maximum(discordant, 1.0)
    p_values = np.where(few, 1.0, chdtrc(1.0, statistic))
    if exact:
        tails = bdtr(np.minimum(only_m, only_n)[few], discordant[few].astype(np.intp), 0.5)
        p_values[few] = np.minimum(2.0 * tails, 1.0)
    return p_values


@dataclass(frozen=True, eq=False)
class BanfieldSize:
    """The answer of `banfield_size`.

    Attributes
    ----------
    n_trees : int
        The size with the highest accuracy in the last batch that brought an improvement.
    converged : bool
        Whether some batch brought no improvement. If not, the trees ran out first.
    reason : str
        Why this size was chosen, in one sentence.
    accuracy, smoothed : ndarray of float, shape (T,)
        Accuracy of the first 1, 2, … T trees, and its mean over the last ``window`` sizes.
    grown : int
        Trees that you would have trained before the rule stopped.

    Examples
    --------
    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> answer = rfsize.baselines.banfield_size(tree_votes, y)
    >>> answer.n_trees, answer.grown, answer.converged
    (65, 100, True)
    >>> answer.smoothed.shape
    (200,)
    """

    n_trees: int
    converged: bool
    reason: str
    accuracy: Floats
    smoothed: Floats
    grown: int

    __str__ = __repr__ = _in_words


def banfield_size(
    tree_votes: ArrayLike,
    y: ArrayLike,
    *,
    window: int = 5,
    batch: int = 20,
    classes: ArrayLike | None = None,
) -> BanfieldSize:
    """Find the number of trees at which the smoothed out-of-bag accuracy stops rising from batch to batch.

    The rule smooths the accuracy of the first n trees: it takes the mean over the sizes n − ``window`` + 1, …, n, or
    over fewer sizes at the start. After each ``batch`` of trees, it compares the highest smoothed accuracy in this
    batch with that in the batch before. If it is not higher, the rule stops. The answer is the size with the highest
    accuracy, not smoothed, in the batch before; if several sizes tie, the smallest.

    Here the accuracy after n trees is the accuracy of their majority vote, on all rows that at least one of the n
    trees may vote on. Ties go to the lowest class index. (Avatar, a program from the authors' groups, counts only the
    rows that the newest tree may vote on.)

    Parameters
    ----------
    tree_votes : array_like of int or bool, shape (n_rows, T)
        Class index that each tree votes for, as `TreeOutputs.by_tree` returns it: −1 where a tree was trained on the
        row, so that it does not vote. Trees are in order of training.
    y : array_like, shape (n_rows,)
        Class index of each row, or its label if you give ``classes``.
    window : int, default 5
        Number of sizes to smooth over.
    batch : int, default 20
        Trees per batch. A last batch that is not full is ignored.
    classes : array_like, shape (n_classes,), optional
        Labels of the class indices.

    Returns
    -------
    BanfieldSize
        The size, why it was chosen, and both curves.

    Raises
    ------
    ValueError
        If the votes are not class indices or −1, if ``y`` does not fit the votes, if the first tree votes on no row, or
        if there are fewer trees than in one batch.

    References
    ----------
    Banfield, Hall, Bowyer, Kegelmeyer 2007, "A comparison of decision tree ensemble creation techniques".

    Examples
    --------
    200 independent trees, each right on 70 % of the rows:

    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> rfsize.baselines.banfield_size(tree_votes, y)
    65 trees: its accuracy is the highest within trees 61 to 80, and the next 20 brought no improvement
    """
    votes, truth, n_classes = _checked(tree_votes, y, classes, lowest=-1)
    n_trees = votes.shape[1]
    window, batch = whole("window", window, at_least=1), whole("batch", batch, at_least=1)
    if n_trees < batch:
        raise ValueError(f"{n_trees} trees are fewer than a batch of {batch}: give more trees, or a smaller batch")
    correct, voted = np.zeros((2, n_trees))
    for right, has_vote in _right_by_size(votes, truth, n_classes):
        correct += right.sum(axis=0)
        voted += has_vote.sum(axis=0)
    if voted[0] == 0:
        raise ValueError("every row is in the bag of the first tree, so that it has no out-of-bag accuracy")
    accuracy = correct / voted
    smoothed = np.array([accuracy[max(0, n - window) : n].mean() for n in range(1, n_trees + 1)])
    best = smoothed[: n_trees // batch * batch].reshape(-1, batch).max(axis=1)
    idle = np.flatnonzero(best[1:] <= best[:-1] + _ROUNDING)
    converged, last = len(idle) > 0, int(idle[0]) if len(idle) else len(best) - 1
    n_trees = last * batch + int(accuracy[last * batch : (last + 1) * batch].argmax()) + 1
    rest = f"and the next {batch:,} brought no improvement" if converged else "the last full batch: give more trees"
    reason = f"its accuracy is the highest within trees {last * batch + 1:,} to {(last + 1) * batch:,}, {rest}"
    return BanfieldSize(n_trees, converged, reason, accuracy, smoothed, (last + 1 + converged) * batch)


def _checked(
    tree_votes: ArrayLike, y: ArrayLike, classes: ArrayLike | None, lowest: int = 0
) -> tuple[NDArray[Any], Int64s, int]:
    """Votes, class index of each row, and number of classes; ``ValueError`` if they do not fit."""
    votes = np.asarray(tree_votes)
    if votes.ndim != 2 or votes.size == 0 or votes.dtype.kind not in "iub":
        raise ValueError(f"tree_votes must be class indices, shape (n_rows, T), found {votes.dtype} {votes.shape}")
    known = np.arange(np.clip(int(votes.max()) + 1, 1, MAX_CLASSES)) if classes is None else np.asarray(classes)
    if known.ndim != 1 or len(set(known.tolist())) < len(known):
        raise ValueError(f"classes must name each class index once, found {classes!r}")
    low, high = votes.min(), votes.max()
    if low < lowest or high >= len(known):
        raise ValueError(f"tree_votes must be class indices from {lowest} to {len(known) - 1}, found {low} to {high}")
    try:
        return votes, class_indices(known, y, len(votes)), len(known)
    except ValueError as error:
        advice = "" if classes is not None else ". For labels, give classes=[...], the label of each class index"
        raise ValueError(f"{error}{advice}") from None


def _right_by_size(votes: NDArray[Any], truth: Int64s, n_classes: int, step: int = 1) -> Iterator[tuple[Bools, Bools]]:
    """For each row and size: whether the majority vote is right, and whether any tree voted. Yields blocks of rows."""
    for start, stop in blocks(*votes.shape, what="Counting the votes of all sizes"):
        label, most = running_majority(votes[start:stop], n_classes, slice(step - 1, None, step))
        yield (label == truth[start:stop, None]) & (most > 0), most > 0
