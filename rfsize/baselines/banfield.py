"""The rule of Banfield et al. 2007 for the number of trees, by smoothed out-of-bag accuracy: a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import in_percent, whole
from rfsize.baselines.accuracy import checked_votes, right_by_size
from rfsize.reporting.account import Account, Picture
from rfsize.reporting.result import Result
from rfsize.reporting.words import plain_account
from rfsize.showing.plotting import faint, finish, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Equal mean accuracies may differ in their last bits, which is no improvement.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class BanfieldSize(Result):
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
    batch : int
        Trees per batch.
    grown : int
        Trees that you would have trained before the rule stopped.

    Examples
    --------
    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> found = rfsize.baselines.banfield_size(tree_votes, y)
    >>> found.n_trees, found.grown, found.converged
    (65, 100, True)
    >>> found.smoothed.shape
    (200,)
    """

    n_trees: int
    converged: bool
    reason: str
    accuracy: NDArray[np.float64]
    smoothed: NDArray[np.float64]
    batch: int
    grown: int

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the accuracy, raw and smoothed, with the chosen size and the size at which the rule stopped.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            ax = new_axes()
        from matplotlib.ticker import PercentFormatter

        trees = np.arange(1, len(self.accuracy) + 1)
        ax.plot(trees, self.accuracy, color="C0", alpha=0.5, linewidth=1.0, label="accuracy")
        ax.plot(trees, self.smoothed, color="C0", label="smoothed")
        ax.axvline(self.n_trees, color="C1", linestyle="--", label=f"chosen: {self.n_trees:,} trees")
        ends = "stopped" if self.converged else "ran out"
        ax.axvline(self.grown, **faint(ax, ":"), label=f"{ends} after {self.grown:,} trees")
        ax.set_xlim(1, max(2, len(self.accuracy), self.grown))
        ax.set_xlabel("trees")
        ax.set_ylabel("accuracy")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        ax.set_title(f"Smoothed accuracy in batches of {self.batch:,} trees")
        finish(ax)
        return ax

    def _account(self) -> Account:
        return plain_account(
            self, "Smoothed out-of-bag accuracy", (Picture("Smoothed out-of-bag accuracy", self.plot),)
        )

    def __str__(self) -> str:
        return f"{self.n_trees:,} trees: {self.reason}"

    __repr__ = __str__


def banfield_size(
    tree_votes: ArrayLike,
    y: ArrayLike,
    *,
    inbag: ArrayLike | None = None,
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
        Class index that each tree votes for, as `TreeOutputs.by_tree` returns it. Trees are in order of training.
    y : array_like, shape (n_rows,)
        Class index of each row, or its label if you give ``classes``.
    inbag : array_like of bool, shape (T, n_rows), optional
        The rows that each tree was trained on, as `rfsize.inbag` returns them. Then a tree votes only on the other
        rows. Without ``inbag``, all trees vote on all rows, so the rows must be new to every tree.
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
        If the votes are not class indices, if ``y`` or ``inbag`` do not fit the votes, if the first tree may vote on no
        row, or if there are fewer trees than in one batch.

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
    65 trees: the accuracy of 100 % is the highest within trees 61 to 80, and the next 20 brought no improvement: ...
    """
    votes, truth, n_classes = checked_votes(tree_votes, y, classes)
    n_trees = votes.shape[1]
    window, batch = whole("window", window, at_least=1), whole("batch", batch, at_least=1)
    if n_trees < batch:
        raise ValueError(f"found {n_trees} trees, fewer than a batch of {batch}: give more trees, or a smaller batch")
    bags = None if inbag is None else _checked_bags(inbag, votes)
    correct, voted = np.zeros((2, n_trees))
    for right, has_vote in right_by_size(votes, truth, n_classes, np.arange(1, n_trees + 1), bags):
        correct += right.sum(axis=0)
        voted += has_vote.sum(axis=0)
    if voted[0] == 0:
        raise ValueError("every row is in the bag of the first tree, so that it has no out-of-bag accuracy")
    accuracy = correct / voted
    smoothed = np.array([accuracy[max(0, n - window) : n].mean() for n in range(1, n_trees + 1)])
    best = smoothed[: n_trees // batch * batch].reshape(-1, batch).max(axis=1)
    idle = np.flatnonzero(best[1:] <= best[:-1] + _ROUNDING)
    converged, last = len(idle) > 0, int(idle[0]) if len(idle) else len(best) - 1
    chosen = last * batch + int(accuracy[last * batch : (last + 1) * batch].argmax()) + 1
    return BanfieldSize(
        n_trees=chosen,
        converged=converged,
        reason=_why_stopped(best[: last + 1 + converged], accuracy[chosen - 1], last, batch),
        accuracy=accuracy,
        smoothed=smoothed,
        batch=batch,
        grown=(last + 1 + converged) * batch,
    )


def _checked_bags(inbag: ArrayLike, votes: NDArray[Any]) -> NDArray[np.bool_]:
    bags = np.asarray(inbag)
    if bags.dtype != np.bool_ or bags.shape != votes.T.shape:
        raise ValueError(
            f"inbag must be of bool and shape (T, n_rows) = {votes.T.shape}, as rfsize.inbag returns it; found "
            f"{bags.dtype}, shape {bags.shape}"
        )
    return bags


def _why_stopped(best: NDArray[np.float64], accuracy: float, last: int, batch: int) -> str:
    within = f"{last * batch + 1:,} to {(last + 1) * batch:,}"
    chosen = f"the accuracy of {in_percent(accuracy)} is the highest within trees {within}"
    if len(best) == last + 1:
        return f"{chosen}, the last full batch, but the trees ran out before a batch brought no improvement"
    return (
        f"{chosen}, and the next {batch:,} brought no improvement: the highest smoothed accuracy of a batch went from "
        f"{in_percent(best[last])} to {in_percent(best[last + 1])}"
    )
