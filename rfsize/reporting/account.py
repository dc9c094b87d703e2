"""What a result says of itself on a page, in records that know nothing of HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Figure(NamedTuple):
    """A number that is told large.

    Attributes
    ----------
    what, value, note : str
    """

    what: str
    value: str
    note: str = ""


class Grid(NamedTuple):
    """Rows and columns of text.

    Attributes
    ----------
    heads : tuple of str, length n_columns
    rows : tuple of tuple of str, shape (n_rows, n_columns)
    marked : int or None
        Number of the row that counts most.
    title : str
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None
    title: str = ""


class Remark(NamedTuple):
    """Something that is lost, or wrong.

    Attributes
    ----------
    text : str
    call : str
        Python that mends it; empty where no single call does.
    """

    text: str
    call: str = ""


class Picture(NamedTuple):
    """What is drawn on one pair of axes.

    Attributes
    ----------
    says : str
        What it shows, for whoever cannot see it.
    draw : callable
        Takes the axes.
    """

    says: str
    draw: Callable[[Axes], Any]


class Section(NamedTuple):
    """A part of what a result says.

    Attributes
    ----------
    title : str
    text : tuple of str
        One entry a paragraph.
    pictures : tuple of Picture
    grids : tuple of Grid
    """

    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class Account:
    """What a result says of itself.

    Attributes
    ----------
    title : str
        What it is about.
    verdict : str
        The answer, in one sentence.
    is_good : bool or None
        Whether the answer is the one hoped for, with nothing to be said against it; None where none is, or it is only
        probable.
    cautions : tuple of Remark
        What is to be said against it, and what mends it.
    figures : tuple of Figure
    sections : tuple of Section
    code : str
        Python that applies it; empty where there is nothing to apply.
    origin : tuple of (str, str)
        What it was computed from, and how.
    """

    title: str
    verdict: str
    is_good: bool | None = None
    cautions: tuple[Remark, ...] = ()
    figures: tuple[Figure, ...] = ()
    sections: tuple[Section, ...] = ()
    code: str = ""
    origin: tuple[tuple[str, str], ...] = ()
