"""Account: the contents of a result's page, without HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Figure(NamedTuple):
    """A number that the page prints large.

    Attributes
    ----------
    what, value, note : str
        What the number is, the number, and a note on it.
    """

    what: str
    value: str
    note: str = ""


class Grid(NamedTuple):
    """A table.

    Attributes
    ----------
    heads : tuple of str, length n_columns
        Heads of the columns.
    rows : tuple of tuple of str, shape (n_rows, n_columns)
        Cells.
    marked : int or None
        Index of the row to highlight.
    title : str
        Caption.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None
    title: str = ""


class Remark(NamedTuple):
    """A warning on the page.

    Attributes
    ----------
    text : str
        What is lost or wrong.
    call : str
        Python call that fixes it; empty if no single call does.
    """

    text: str
    call: str = ""


class Picture(NamedTuple):
    """A figure with one pair of axes.

    Attributes
    ----------
    says : str
        Text for readers who cannot see the picture.
    draw : callable
        Draws on the axes that it is given.
    """

    says: str
    draw: Callable[[Axes], Any]


class Section(NamedTuple):
    """A section of the page.

    Attributes
    ----------
    title : str
        Heading; empty for none.
    text : tuple of str
        Paragraphs.
    pictures : tuple of Picture
        Figures, before the tables.
    grids : tuple of Grid
        Tables.
    """

    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class Account:
    """The contents of a result's page.

    Attributes
    ----------
    title : str
        What the result is about.
    verdict : str
        The answer, in one sentence.
    is_good : bool or None
        Whether the answer is what the user hopes for, without cautions. None if there is nothing to hope for, or if the
        answer is only probable.
    cautions : tuple of Remark
        Warnings about the answer, and calls that fix them.
    figures : tuple of Figure
        Numbers that the page prints large.
    sections : tuple of Section
        The rest of the page.
    code : str
        Python that applies the result; empty if there is nothing to apply.
    origin : tuple of (str, str)
        What the result was computed from, and how.
    """

    title: str
    verdict: str
    is_good: bool | None = None
    cautions: tuple[Remark, ...] = ()
    figures: tuple[Figure, ...] = ()
    sections: tuple[Section, ...] = ()
    code: str = ""
    origin: tuple[tuple[str, str], ...] = ()
