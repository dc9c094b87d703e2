"""The rule of Latinne et al. 2001 for the number of trees, by McNemar's test of all pairs of sizes: a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, chdtrc

from rfsize._util import how_many, share, whole
from rfsize.baselines.accuracy import checked_votes, right_by_size
from rfsize.reporting.account import Account, Picture
from rfsize.reporting.result import Result
from rfsize.reporting.words import plain_account
from rfsize.showing.plotting import ink, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The χ² approximation holds from this many discordant rows on.
_ENOUGH_DISCORDANT = 20

# With more sizes than this, the matrices of all pairs would take hundreds of megabytes.
_MOST_SIZES = 3000


@dataclass(frozen=True, eq=False)
class McNemarSize(Result):
    """The answer of `mcnemar_size`.

    Attributes
    ----------
    n_trees : int
        m*, the smallest size that no larger size beats.
    converged : bool
        Whether enough larger sizes were compared: at least one, or ``patience`` sizes.
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
    n_rows : int
        Number of rows on which the sizes were compared.

    Examples
    --------
    >>> import numpy as np
    >>> import rfsize
    >>> tree_votes, y = np.random.default_rng(0).random((1000, 200)) < 0.7, np.ones(1000, dtype=int)
    >>> found = rfsize.baselines.mcnemar_size(tree_votes, y, step=10)
    >>> found.n_trees, found.converged
    (40, True)
    >>> found.p_values.shape
    (20, 20)
    """

    n_trees: int
    converged: bool
    reason: str
    sizes: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    p_values: NDArray[np.float64]
    level: float
    n_rows: int

    @property
    def beaten(self) -> NDArray[np.bool_]:
        """Whether size ``n`` beats the smaller size ``m``, at ``[m, n]``; False on and below the diagonal."""
        return np.triu(_significantly_better(self.p_values, self.accuracy, self.level), 1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all pairs of sizes: dark if the two sizes differ significantly, bright if they do not.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            ax = new_axes(5.6, 5.6)
        from matplotlib.patches import Patch

        step = self.sizes[0]
        edges = (self.sizes[0] - step / 2.0, self.sizes[-1] + step / 2.0)
        ax.imshow(
            self.p_values < self.level,
            cmap="Greys",
            vmin=0.0,
            vmax=1.0,
            origin="lower",
            extent=2 * edges,
            aspect="equal",
        )
        chosen = ax.axvline(self.n_trees, color="C1", linestyle="--", label=f"m* = {how_many(self.n_trees, 'tree')}")
        dark = Patch(facecolor="0.0", edgecolor=ink(ax), label=f"differ significantly, p < {self.level!r}")
        bright = Patch(facecolor="1.0", edgecolor=ink(ax), label="do not differ")
        ax.grid(visible=False)  # a style may draw its grid over the matrix
        ax.set_xlabel("trees, m")
        ax.set_ylabel("trees, n")
        ax.set_title(f"McNemar's test of all pairs of sizes, {self.n_rows:,} rows")
        legend_below(ax, [dark, bright, chosen])
        return ax

    def _account(self) -> Account:
        return plain_account(self, "McNemar's test of sizes", (Picture("McNemar's test of sizes", self.plot),))

    def __str__(self) -> str:
        return f"{how_many(self.n_trees, 'tree')}: {self.reason}"

    __repr__ = __str__


def mcnemar_size(
    tree_votes: ArrayLike,
    y: ArrayLike,
    *,
    step: int = 1,
    level: float = 0.05,
    patience: int | None = None,
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
    patience : int, optional
        Use the incremental variant as rfsize understands it; ``step=10`` goes with it. The forest grows by ``step``
        trees at a time, and is compared with all smaller sizes. It stops growing when the smallest unbeaten size has
        been compared with ``patience`` larger sizes. By default, all pairs of sizes are compared.
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
    40 trees: none of 16 larger sizes up to 200 trees beats it at level 0.05, and 30 trees are beaten by 40
    """
    votes, truth, n_classes = checked_votes(tree_votes, y, classes)
    sizes = _sizes(votes.shape[1], whole("step", step, at_least=1))
    level = share("level", level)
    both = np.zeros((len(sizes), len(sizes)))
    for right, _ in right_by_size(votes, truth, n_classes, sizes, None):
        # A float32 product of zeros and ones is exact up to 2^24 rows, and a block has fewer.
        block = right.astype(np.float32)
        both += block.T @ block
    alone = np.diag(both)[:, None] - both
    p_values, accuracy = _p_values(alone, alone.T, exact=exact), np.diag(both) / len(votes)
    beaten = np.triu(_significantly_better(p_values, accuracy, level), 1)
    chosen, grown = _first_unbeaten(beaten, None if patience is None else whole("patience", patience, at_least=1))
    converged = grown - 1 - chosen >= (patience or 1)
    return McNemarSize(
        n_trees=int(sizes[chosen]),
        converged=converged,
        reason=_why(sizes[:grown], beaten[:grown, :grown], chosen, converged, level),
        sizes=sizes[:grown],
        accuracy=accuracy[:grown],
        p_values=p_values[:grown, :grown],
        level=level,
        n_rows=len(votes),
    )


def _sizes(n_trees: int, step: int) -> NDArray[np.int64]:
    sizes = np.arange(step, n_trees + 1, step)
    if len(sizes) < 2:
        raise ValueError(
            f"{n_trees} trees at a step of {step} make {len(sizes)} sizes, and a comparison takes two: give at "
            f"least {2 * step} trees, or a smaller step"
        )
    if len(sizes) > _MOST_SIZES:
        raise ValueError(
            f"a step of {step} makes {len(sizes):,} sizes, too many to compare all pairs: give a step of at least "
            f"{-(-n_trees // _MOST_SIZES)}"
        )
    return sizes


def _p_values(only_m: NDArray[np.float64], only_n: NDArray[np.float64], *, exact: bool) -> NDArray[np.float64]:
    """Two-sided p-values of McNemar's test, from the numbers of rows that only one of the two sizes gets right."""
    discordant = only_m + only_n
    few = discordant < _ENOUGH_DISCORDANT
    statistic = np.maximum(np.abs(only_m - only_n) - 1.0, 0.0) ** 2 / np.maximum(discordant, 1.0)
    p_values = np.where(few, 1.0, chdtrc(1.0, statistic))
    if exact:
        tails = bdtr(np.minimum(only_m, only_n)[few], discordant[few].astype(np.intp), 0.5)
        p_values[few] = np.minimum(2.0 * tails, 1.0)
    return p_values


def _significantly_better(
    p_values: NDArray[np.float64], accuracy: NDArray[np.float64], level: float
) -> NDArray[np.bool_]:
    """Whether the size in the column is significantly better than the size in the row."""
    return (p_values < level) & (accuracy > accuracy[:, None])


def _first_unbeaten(beaten: NDArray[np.bool_], patience: int | None) -> tuple[int, int]:
    """Index of the smallest size that no size beats, and how many sizes were compared to find it."""
    n_sizes = len(beaten)
    first_loss = np.where(beaten.any(axis=1), beaten.argmax(axis=1), n_sizes)
    for newest in range(n_sizes if patience is not None else 0):
        standing = int((first_loss > newest).argmax())
        if newest - standing == patience:
            return standing, newest + 1
    return int((first_loss == n_sizes).argmax()), n_sizes


def _why(sizes: NDArray[np.int64], beaten: NDArray[np.bool_], chosen: int, converged: bool, level: float) -> str:
    larger = len(sizes) - 1 - chosen
    if not converged:
        return (
            f"no larger size up to {sizes[-1]:,} trees beats it at level {level!r}, but only {larger} larger sizes "
            "were compared; give more trees"
        )
    below = "it is the smallest size compared"
    if chosen > 0:
        below = f"{sizes[chosen - 1]:,} trees are beaten by {sizes[beaten[chosen - 1].argmax()]:,}"
    return f"none of {larger:,} larger sizes up to {sizes[-1]:,} trees beats it at level {level!r}, and {below}"
