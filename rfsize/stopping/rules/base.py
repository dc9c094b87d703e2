"""The base classes of all stopping rules.

A rule is one class in a file of this folder, and one class in rfsize/_native/stop_*.cpp, which a compiled forest runs.
The class here holds everything about the rule: which forests it fits, when rows stop and with which answer, how to
build or calibrate it, its figures, words and picture, its part of a table's file, and its C code. There is no list of
rules: each class registers itself by its ``kind``.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize import _core
from rfsize._util import Floats, Int64s
from rfsize.counting.training_rows import TreesOnRows
from rfsize.statistics.certify import Certificate, ClassCounts, ClassOutcome, RiskTarget
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.terms import Terms
from rfsize.walking.layout import PackedForest

TREES_BETWEEN_LOOKS = 8
"""A row is checked after this many trees, if a check after each tree would take longer than the tree itself."""

# The most votes or scores in one block.
_TOGETHER = 2_000_000


@dataclass(frozen=True, eq=False)
class Drawing:
    """When rows stop, as curves over the number of trees or of votes.

    Attributes
    ----------
    over : ndarray, shape (n,)
        Horizontal axis.
    going : (ndarray, ndarray), each of shape (n,)
        Between these two curves, a row asks the next tree.
    stops : dict of ndarray, shape (n,)
        Curves at which rows stop, by their names in the legend; NaN where no row stops.
    xlabel, ylabel : str
    aside : (str, ndarray of shape (n,)), optional
        A curve to compare the others with, and its name.
    highest : float, optional
        End of the vertical axis.
    of_trees : bool, default True
        Whether ``over`` counts trees asked, and not votes.
    is_logarithmic : bool, default False
        Whether the vertical axis is logarithmic.
    """

    over: Int64s
    going: tuple[NDArray[Any], NDArray[Any]]
    stops: dict[str, NDArray[Any]]
    xlabel: str
    ylabel: str
    aside: tuple[str, NDArray[Any]] | None = None
    highest: float | None = None
    of_trees: bool = True
    is_logarithmic: bool = False


class Stops(ABC):
    """When rows stop asking trees, and which answer they get.

    Attributes
    ----------
    kind : str
        Name of the class in files.
    stored : tuple of str
        The keys of `to_dict`.
    voting : {"hard", "soft"}
        Whether the rule reads the votes of the trees ("hard") or their scores.
    metric : {"labels", "probabilities", "scores"}
        What a row gets as answer.
    calibrates : tuple of str
        The metrics for which `rfsize.StopTable.calibrate` makes stops of this class.
    counts_alike : bool
        Whether all members have equal weights.
    """

    kind: ClassVar[str]
    stored: ClassVar[tuple[str, ...]]
    voting: ClassVar[str]
    metric: str
    calibrates: ClassVar[tuple[str, ...]] = ()
    counts_alike: ClassVar[bool] = True

    _by_kind: ClassVar[dict[str, type[Stops]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" not in vars(cls):
            return
        other = Stops._by_kind.get(cls.kind, cls)
        if not _is_the_same(cls, other):
            raise TypeError(
                f"two rules of stopping are of the kind {cls.kind!r}, by which files know them: {_where(other)} and "
                f"{_where(cls)}. Give one of them another kind"
            )
        Stops._by_kind[cls.kind] = cls

    @classmethod
    def kinds(cls, n_trees: int, n_classes: int) -> dict[str, type[Self]]:
        """The subclasses of this class that fit a forest, by kind. A regression has ``n_classes`` 1."""
        kinds = Stops._by_kind.items()
        return {name: kind for name, kind in kinds if issubclass(kind, cls) and kind.fits(n_trees, n_classes)}

    @classmethod
    def calibrating(cls, metric: str, voting: str, n_trees: int, n_classes: int) -> type[Stops]:
        """The rule that keeps a metric for this size of forest, by votes ("hard") or by scores ("soft")."""
        kinds = [kind for kind in Stops._by_kind.values() if kind.voting == voting and metric in kind.calibrates]
        (rule,) = (kind for kind in kinds if kind.fits(n_trees, n_classes))
        return rule

    @classmethod
    def fits(cls, n_trees: int, n_classes: int) -> bool:
        """Whether the rule fits a forest of this size."""
        return n_classes > 1

    @classmethod
    def calibrated(cls, trees: TreesOnRows, promise: RiskTarget) -> tuple[Terms, Stops, Certificate]:
        """The terms, the boldest stops (those that ask fewest trees) that the rows certify, and their certificate."""
        raise NotImplementedError

    @abstractmethod
    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        """Check the outputs of trees that `answers` takes; ``ValueError`` if they are invalid."""

    @abstractmethod
    def answers_of_block(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """The answers and the numbers of trees asked for one block of rows; see `answers`."""

    def answers(self, outputs: NDArray[Any], n_classes: int) -> tuple[NDArray[Any], Int64s]:
        """The answer of each row and the number of trees that it asks, computed block by block.

        Parameters
        ----------
        outputs : ndarray, shape (n, T) of votes, (n, T, n_scores) of scores
            Outputs of all trees, in the order of the model.
        n_classes : int
        """
        step = max(1, _TOGETHER // max(math.prod(outputs.shape[1:]), n_classes))
        starts = range(0, max(1, len(outputs)), step)
        blocks = [self.answers_of_block(outputs[start : start + step], n_classes) for start in starts]
        answers, n_used = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return answers, n_used

    @abstractmethod
    def on(self, forest: PackedForest) -> Settling:
        """The rule in the form that runs on rows of a compiled forest."""

    def check_forest(self, forest: PackedForest) -> None:  # noqa: B027
        """``ValueError`` if the rule does not fit a forest, beyond the number of its trees and classes."""

    def by_class(self, terms: Terms, seen: ClassCounts | None) -> list[ClassOutcome]:
        """Disagreement and trees asked, for each class that all trees predict."""
        assert seen is not None
        return seen.by_class(terms.class_labels)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Arrays and numbers as plain Python values."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Fields, n_trees: int, n_classes: int) -> Stops:
        """Read the output of `to_dict`, and check it."""

    @classmethod
    def prior_of(cls, fields: Fields, n_trees: int) -> Floats | None:
        """Read the prior that the stops were built with, and check it."""
        if fields["prior"] is not None:
            refuse(f"a table of kind {cls.kind!r} has no prior")
        return None

    @property
    def goes_by(self) -> str:
        """Words for a table's ``repr`` that say what agrees, if it is not labels."""
        return ""

    @abstractmethod
    def drawing(self, n_trees: int, classes: list[str]) -> Drawing:
        """When rows stop, as curves; ``classes`` are the names of the classes."""


def _is_the_same(first: type, second: type) -> bool:
    """Whether two classes come from the same code, reloaded or imported under another module name."""
    same_module = first.__module__ == second.__module__ or _file(first) == _file(second) is not None
    return same_module and first.__qualname__ == second.__qualname__


def _file(cls: type) -> str | None:
    """The file that defines a class; None if its module has no file."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _where(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__} ({_file(cls) or 'of no file'})"


class Settling(ABC):
    """A rule that runs on rows of one compiled forest."""

    @property
    def native(self) -> _core.ScoreStop | _core.VoteStop | None:
        """The compiled rule, if it alone settles all rows."""
        return None

    @abstractmethod
    def settle(self, rows: _core.Rows, answer: NDArray[Any], n_used: Int64s) -> None:
        """Ask trees about rows until each is settled, and write into the two arrays.

        Parameters
        ----------
        rows : _core.Rows
            Rows in the form that the trees compare.
        answer : ndarray
            The index of each label; filled with -1 before the call. For numbers: the sums of scores, without the start
            score.
        asked : ndarray of int64, shape (n,)
            Number of trees asked; filled with T before the call.
        """

    def label_in_c(self) -> str:
        """The C function ``label_of``, for rules that answer with labels."""
        raise NotImplementedError
