"""Draw pictures as SVG inside a page, in the colours of the page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from rfsize.reporting.account import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholders that no picture uses. The SVG gets the page's colours instead: text, background, and curves in order.
_INK, _PAPER = "#010203", "#010204"
_CURVES = ("#0102f0", "#0102f1", "#0102f2", "#0102f3")
_OF_PAGE = {_INK: "currentColor", _PAPER: "none", **{of: f"var(--c{n})" for n, of in enumerate(_CURVES)}}

_WRITTEN = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_BEHIND = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
_STYLE = {
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
_WIDTH, _HEIGHT = 4.7, 3.7


def as_svg(picture: Picture) -> str:
    """Draw a picture in the style of the page, whatever Matplotlib style the user has set."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    style: Any = dict.fromkeys(_WRITTEN, _INK) | dict.fromkeys(_BEHIND, _PAPER) | _STYLE
    style["axes.prop_cycle"] = cycler(color=_CURVES)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(style)
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        picture.draw(figure.subplots())
        return _inline(_saved(figure), picture.says)


def _saved(figure: Figure) -> str:
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return written.getvalue()


def _inline(svg: str, says: str) -> str:
    """The <svg> element without the header of a file and without a fixed width."""
    from markupsafe import escape

    opening, _, rest = svg[svg.index("<svg") :].partition(">")
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None
    rest = re.sub(r"<style.*?</style>", "", rest, flags=re.DOTALL)  # it would style the whole page
    rest = re.sub(r"<[^>]*>", lambda tag: _of_page(tag[0]), rest)
    return f'<svg {box[0]} role="img" aria-label="{escape(says)}">{rest}'


def _of_page(tag: str) -> str:
    """A tag in the colours and font of the page, without ids that every picture would repeat."""
    tag = re.sub(r'^<g id="[^"]*"', "<g", tag)
    tag = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
    tag = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), tag)
    for colour, of_page in _OF_PAGE.items():
        tag = tag.replace(colour, of_page)
    return tag
