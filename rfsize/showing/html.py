"""Pages of HTML: a result's page as records without HTML, its pictures as SVG, and the templates.

The templates escape all text, because names of classes may come from strangers.
"""

from __future__ import annotations

import io
import platform
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rfsize._files import written_whole
from rfsize._util import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.axes import Axes


class KeyNumber(NamedTuple):
    """A number that the page prints large.

    Attributes
    ----------
    what, value, note : str
        What the number is, the number, and a note on it.
    """

    what: str
    value: str
    note: str = ""


class Table(NamedTuple):
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


class Alert(NamedTuple):
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
    alt : str
        Text for readers who cannot see the picture.
    draw : callable
        Draws on the axes that it is given.
    """

    alt: str
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
    tables : tuple of Table
        Tables.
    """

    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Page:
    """The contents of a result's page.

    Attributes
    ----------
    title : str
        What the result is about.
    verdict : str
        The answer, in one sentence.
    is_good : bool or None
        Whether the answer is what the user hopes for, without warnings. None if there is nothing to hope for, or if the
        answer is only probable.
    alerts : tuple of Alert
        Warnings about the answer, and calls that fix them.
    numbers : tuple of KeyNumber
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
    alerts: tuple[Alert, ...] = ()
    numbers: tuple[KeyNumber, ...] = ()
    sections: tuple[Section, ...] = ()
    code: str = ""
    origin: tuple[tuple[str, str], ...] = ()


class Result:
    """A result that can be shown as a page."""

    def page(self) -> Page:
        """The contents of the page."""
        raise NotImplementedError

    def to_html(self, path: str | PathLike[str], *others: Result) -> None:
        """Write the result as an HTML page that you can send.

        The page is one file that loads nothing else. Its only script copies code to the clipboard.

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
        for other in others:
            if not isinstance(other, Result):
                raise ValueError(
                    "to_html takes results of rfsize to show on the same page, such as what rfsize.oob_score "
                    f"returns; found a {type(other).__name__}"
                )
        text = _rendered("page.html", (self, *others))
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str | None:
        """What notebooks show. None makes them show the text, if the packages that make pages are missing."""
        return None if _missing() else _rendered("fragment.html", (self,))


# From records to HTML

_NEEDED = {"jinja2": "Jinja2", "matplotlib": "Matplotlib"}
_FRAMEWORKS = "rfsize.frameworks"  # its entry points have the names of the frameworks' packages


def _missing() -> list[str]:
    """The packages that make pages and are not installed."""
    return [name for module, name in _NEEDED.items() if find_spec(module) is None]


def _rendered(template: str, results: Sequence[Result]) -> str:
    """A page on the first result, followed by the others; as a fragment, it fits into another page."""
    if missing := _missing():
        raise ImportError(f"a page of HTML needs {' and '.join(missing)}: pip install rfsize[report]")
    pages = [result.page() for result in results]
    return _environment().get_template(template).render(pages=pages, written=datetime.now(UTC), versions=_versions())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rfsize.showing"),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["as_svg"] = as_svg
    environment.filters["unbroken"] = _unbroken
    return environment


def _plain(value: object) -> object:
    """Remove control characters except line ends from text; leave markup as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(map(printable, value.split("\n")))


def _unbroken(text: str) -> str:
    """Keep a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=%|[kMG]?B\b|[µmn]?s\b)", "\N{NO-BREAK SPACE}", text)


def _versions() -> str:
    """Versions of rfsize, the frameworks in use, NumPy and Python."""
    names = sorted({entry.name for entry in entry_points(group=_FRAMEWORKS)} & sys.modules.keys())
    used = [f"{name} {getattr(sys.modules[name], '__version__', '')}".rstrip() for name in names]
    return ", ".join(
        [f"rfsize {version('rfsize')}", *used, f"NumPy {version('numpy')}", f"Python {platform.python_version()}"]
    )


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
_SIZE = 4.7, 3.7


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
