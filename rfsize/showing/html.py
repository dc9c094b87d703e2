"""The page of every result: a record without HTML, the templates that write it, and its pictures as SVG.

The templates escape all text, because names of classes may come from strangers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rfsize._files import written_whole
from rfsize._util import how_many, in_percent, printable
from rfsize.exceptions import LabelsOnlyWarning, NotConvergedWarning
from rfsize.showing.plots import draw_size
from rfsize.showing.text import axis_label, in_words, others_compared_with, report_lines
from rfsize.showing.text_of_results import (
    comparison_text,
    fraction_cells,
    fraction_lines,
    importance_cells,
    importances_lines,
    score_text,
)
from rfsize.statistics.certify import CertifiedCurve
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.labels import LabelDetails
from rfsize.statistics.metrics import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.api.compare import Comparison
    from rfsize.api.importance import Importances
    from rfsize.api.oob_score import OobScore
    from rfsize.api.report import Report
    from rfsize.training.bagging_fraction import FractionSearch

# Other levels that a report lists: values of alpha, and factors of the tolerance.
_ALPHAS, _TOLERANCES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999), (4.0, 2.0, 1.0, 0.5, 0.25)

_SIZES = 10  # about as many sizes of chosen trees as a table lists
_CLASSES, _COLUMNS = 12, 40  # most classes in the table of labels, and columns in that of importances


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
        with written_whole(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str | None:
        """What notebooks show. None makes them show the text, if the packages that make pages are missing."""
        with suppress(ImportError):
            return _rendered("fragment.html", (self,))
        return None


# The page of each result


def report_page(report: Report) -> Page:
    """The page of a report: its lines, its curve, and what other sizes lose and other levels take."""
    alt = f"{axis_label(report.criterion)}, over the number of trees"
    tables = [_losses(report), *_changed_labels(report), *_levels(report)]
    return Page("Size", report_lines(report), [Picture(alt, partial(draw_size, report))], tables, _code(report))


def _losses(report: Report) -> Table:
    """What the forest to keep, the forest at hand and some sizes around them lose."""
    kept, available, curve = report.n_kept, report.available, report.estimate.curve
    sizes = {max(1, kept // 4), kept, available} | ({4 * available} if report.certificate is None else set())
    if report.criterion.is_shrunk and isinstance(curve, CertifiedCurve):
        tried = curve.sizes.tolist()
        sizes = {*tried[:: 1 + len(tried) // _SIZES], kept, available}
    losses = [(report.criterion, report.estimate), *report.others.values()]
    own = "rows unlike all trees" if report.certificate is not None else label_of(report.criterion.name)
    heads = ("trees", own, *(label_of(criterion.name) for criterion, _ in report.others.values()))
    rows = [
        (f"{size:,}", *(_loss(criterion, estimate.curve.at(size)) for criterion, estimate in losses))
        for size in sorted(sizes)
    ]
    title = f"What is lost against {others_compared_with(report)}"
    return Table(heads, rows, sorted(sizes).index(kept), title)


def _loss(criterion: Criterion, loss: float) -> str:
    return in_percent(loss) if criterion.is_share else f"{loss:.2g}"


def _changed_labels(report: Report) -> list[Table]:
    """The labels that still change, by class."""
    estimates = [report.estimate, *(estimate for _, estimate in report.others.values())]
    details = next((of.details for of in estimates if isinstance(of.details, LabelDetails)), None)
    if details is None or len(details.by_class) < 2:
        return []
    changed = {label: curve.at(report.n_kept) for label, curve in details.by_class.items()}
    most = sorted(changed, key=changed.__getitem__, reverse=True)[:_CLASSES]
    heads = ("class", "share of the rows", f"labels that still change with {how_many(report.n_kept, 'tree')}")
    rows = [(printable(label), in_percent(details.label_shares[label]), in_percent(changed[label])) for label in most]
    of_many = f", the {len(most)} of {len(changed)} that change most" if len(most) < len(changed) else ""
    return [Table(heads, rows, title=f"By class{of_many}")]


def _levels(report: Report) -> list[Table]:
    """How many trees other levels take."""
    criterion = report.criterion
    if report.estimate.problem is not None or criterion.n_trees is not None:
        return []
    head, own, levels = "tolerance", criterion.level, tuple(factor * criterion.level for factor in _TOLERANCES)
    if criterion.takes_alpha:
        head, own, levels = "alpha", criterion.alpha, _ALPHAS
    rows: list[tuple[str, str]] = []
    marked = None
    for level in sorted({*levels, own}, reverse=not criterion.takes_alpha):
        with suppress(ValueError):  # a level that too few rows cannot certify is left out
            rows.append((f"{level:.6g}", in_words(report.size_at(level))))
            marked = len(rows) - 1 if level == own else marked
    return [Table((head, "trees"), rows, marked, "Trees that other levels take")]


def _code(report: Report) -> str:
    """Python that cuts and compiles; empty if nothing is cut, or a warning says what to do instead."""
    criterion = report.criterion
    is_warned = any(warning.category in (LabelsOnlyWarning, NotConvergedWarning) for warning in report.warnings)
    if is_warned or criterion.is_training or criterion.kind == "importance" or report.n_kept == report.available:
        return ""
    cut = "" if criterion.is_shrunk else "small = rfsize.truncate(model, n_trees=report)\n"
    return f"{cut}fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"


def score_page(score: OobScore) -> Page:
    """The page of a score."""
    picture = Picture(f"{label_of(score.metric)} over the number of trees", score.plot)
    return Page("Out-of-bag score", score_text(score).splitlines(), [picture], [])


def comparison_page(comparison: Comparison) -> Page:
    """The page of a comparison."""
    return Page("Two settings compared", comparison_text(comparison).splitlines(), [], [])


def importances_page(importances: Importances) -> Page:
    """The page of importances."""
    heads = ("rank", "column", f"loss of {label_of(importances.metric)}", "95 % interval")
    rows = [(str(column.rank), *importance_cells(column)) for column in importances.columns[:_COLUMNS]]
    picture = Picture("Importances, from the largest on", importances.plot)
    return Page("Importances of columns, out of bag", importances_lines(importances), [picture], [Table(heads, rows)])


def fraction_page(search: FractionSearch) -> Page:
    """The page of a search for the bagging fraction."""
    heads, *rows = fraction_cells(search)
    picture = Picture(f"Out-of-bag {search.metric} over the bagging fraction", search.plot)
    table = Table(heads, rows, search.curve["fraction"].tolist().index(search.best))
    code = "forest, report = rfsize.grow(search.params, data)  # with this fraction, and as many trees as needed"
    return Page("Bagging fraction", fraction_lines(search), [picture], [table], code)


# From records to HTML


def _rendered(template: str, results: Sequence[Result]) -> str:
    """A page on the first result, followed by the others; as a fragment, it fits into another page."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
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
