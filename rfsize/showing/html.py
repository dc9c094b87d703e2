"""Pages of HTML: a result's page as a record without HTML, its pictures as SVG, and the templates.

The templates escape all text, because names of classes may come from strangers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rfsize._files import written_whole
from rfsize._util import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Table(NamedTuple):
    """A table.

    Attributes
    ----------
    heads : tuple of str, length n_columns
        Heads of the columns.
    rows : sequence of tuple of str, shape (n_rows, n_columns)
        Cells.
    marked : int or None
        Index of the row to highlight.
    title : str
        Caption.
    """

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    marked: int | None = None
    title: str = ""


class Picture(NamedTuple):
    """A figure with one pair of axes.

    Attributes
    ----------
    alt : str
        Text for readers who cannot see the picture.
    draw : callable
        Draws on the axes that it is given.
    """

    alt: str
    draw: Callable[[Axes], Any]


class Page(NamedTuple):
    """The contents of a result's page.

    Attributes
    ----------
    title : str
        What the result is about.
    lines : list of str
        What is printed of it. The first line is the answer; a warning begins with "!".
    pictures : list of Picture
        Figures, before the tables.
    tables : list of Table
        Tables.
    code : str
        Python that applies the result; empty if there is nothing to apply.
    """

    title: str
    lines: list[str]
    pictures: list[Picture]
    tables: list[Table]
    code: str = ""


class Result:
    """A result that can be shown as a page."""

    def page(self) -> Page:
        """The contents of the page."""
        raise NotImplementedError

    def to_html(self, path: str | PathLike[str], *others: Result) -> None:
        """Write the result as an HTML page that you can send.

        The page is one file that loads nothing else, and has no scripts.

        Parameters
        ----------
        path : str or path-like
            The file to write. An existing file is replaced when the page is complete.
        *others : result of rfsize
            More results to show below: an `OobScore`, a `FractionSearch`, or another report.

        Raises
        ------
        ImportError
            If Jinja2 or Matplotlib is missing. The message says what to install.
        ValueError
            If one of ``others`` is not a result of rfsize.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, alpha=0.95)
        >>> report.to_html("report.html", rfsize.oob_score(forest, X, y, metric="auc"))
        """
        if not all(isinstance(other, Result) for other in others):
            raise ValueError("to_html shows other results of rfsize below this one: give what rfsize.oob_score returns")
        text = _rendered("page.html", (self, *others))
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str | None:
        """What notebooks show. None makes them show the text, if the packages that make pages are missing."""
        return None if _missing() else _rendered("fragment.html", (self,))


# From records to HTML


def _missing() -> list[str]:
    """The packages that make pages and are not installed."""
    return [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]


def _rendered(template: str, results: Sequence[Result]) -> str:
    """A page on the first result, followed by the others; as a fragment, it fits into another page."""
    if missing := _missing():
        raise ImportError(f"a page of HTML needs {' and '.join(missing)}: pip install rfsize[report]")
    from jinja2 import Environment, PackageLoader

    options: dict[str, Any] = {"autoescape": True, "finalize": _plain, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("rfsize.showing"), **options)
    pages = [result.page() for result in results]
    of_rfsize = {"version": version("rfsize"), "today": date.today().isoformat(), "as_svg": as_svg}
    return environment.get_template(template).render(pages=pages, **of_rfsize)


def _plain(value: object) -> object:
    """Remove control characters except line ends from text; leave markup as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(map(printable, value.split("\n")))


# Pictures

# Placeholders that no picture uses. The SVG gets the page's colours instead: text, background, and curves in order.
_INK, _PAPER = "#010203", "#010204"
_CURVES = ("#0102f0", "#0102f1", "#0102f2", "#0102f3")
_OF_PAGE = {_INK: "currentColor", _PAPER: "none", **{of: f"var(--c{n})" for n, of in enumerate(_CURVES)}}

_STYLE: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), _PAPER),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9.5,
    # Keep text as text, in the font of the page. Do not parse names of users as formulas.
    "svg.fonttype": "none",
    "text.parse_math": False,
    # Makes the names inside a picture the same each time.
    "svg.hashsalt": "rfsize",
}

# In inches, small enough that a phone shows a picture in full width.
_SIZE = 4.7, 4.0


def as_svg(picture: Picture) -> tuple[str, str]:
    """A picture in the style of the page, whatever Matplotlib style the user has set: the box and its contents."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**_STYLE, "axes.prop_cycle": cycler(color=_CURVES)})
        figure, written = Figure(figsize=_SIZE, layout="constrained"), io.StringIO()
        picture.draw(figure.subplots())
        figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    # Without the header of a file, and without a style that would be one of the whole page.
    opening, _, contents = written.getvalue().partition("<svg")[2].partition(">")
    contents = re.sub(r"<style.*?</style>", "", contents, flags=re.DOTALL)
    box = opening.partition('viewBox="')[2].partition('"')[0]
    return box, re.sub(r"<[^>]*>", lambda tag: _of_page(tag[0]), contents)


def _of_page(tag: str) -> str:
    """A tag in the colours and font of the page, without ids that every picture would repeat."""
    tag = re.sub(r'^<g id="[^"]*"', "<g", tag)
    tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    tag = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), tag)
    for colour, of_page in _OF_PAGE.items():
        tag = tag.replace(colour, of_page)
    return tag
