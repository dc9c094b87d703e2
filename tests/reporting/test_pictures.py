"""Pictures: seen on any background, with legends that cover nothing, on axes that begin where data do."""

from __future__ import annotations

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.text import Text

import rfsize
from rfsize.sizing.oob_score import Curve

DRAWN = [
    *("enough", "too few", "probability", "regression", "metric", "score", "certified", "spread", "two classes"),
    *(
        "certified by class",
        "four classes",
        "weighted",
        "shrunk",
        "fraction",
        "mcnemar",
        "banfield",
    ),
]


def brightness(colour: Any, behind: float, alpha: float | None = None) -> float:
    """Of what is seen where a colour lies on a background."""
    red, green, blue, opacity = to_rgba(colour, alpha)
    return opacity * float(np.dot((red, green, blue), (0.3, 0.6, 0.1))) + (1.0 - opacity) * behind


@pytest.mark.parametrize("kind", DRAWN)
def test_without_matplotlib(kind: str, pictured: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"a picture needs Matplotlib .*: pip install rfsize\[plot\]"):
        pictured[kind].plot()


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("kind", DRAWN)
def test_all_is_seen(kind: str, style: str, pictured: dict[str, Any]) -> None:
    with plt.style.context(style):
        check_seen(pictured[kind].plot().figure)
    plt.close("all")


def check_seen(figure: Any) -> None:
    """Lines and letters differ from what is behind them."""
    for ax in figure.axes:
        inside, outside = (brightness(one.get_facecolor(), 1.0) for one in (ax, figure))
        for line in ax.lines:
            seen = brightness(line.get_color(), inside, line.get_alpha())
            least = 0.35 if line.get_linestyle() in ("--", ":") else 0.2  # less is seen of what is broken
            assert ax.images or abs(seen - inside) > least, line.get_label()
        for text in ax.findobj(Text):
            assert abs(brightness(text.get_color(), outside) - outside) > 0.6, text.get_text()


@pytest.mark.parametrize("kind", DRAWN)
def test_legends_cover_nothing(kind: str, pictured: dict[str, Any]) -> None:
    figure = pictured[kind].plot().figure
    figure.draw_without_rendering()
    legends = [ax.get_legend() for ax in figure.axes if ax.get_legend() is not None]
    assert legends
    for legend in legends:
        room = legend.get_window_extent()
        assert room.width < figure.bbox.width
        assert room.y0 >= figure.bbox.y0 - 1
        for ax in figure.axes:
            drawn = [ax.bbox, ax.xaxis.get_tightbbox(), ax.title.get_window_extent()]
            assert not any(room.overlaps(one) for one in drawn if one is not None)
    plt.close("all")


@pytest.mark.parametrize("kind", ["score", "certified", "spread", "four classes", "banfield", "metric", "enough"])
def test_axes_begin_where_data_do(kind: str, pictured: dict[str, Any]) -> None:
    ax = pictured[kind].plot()
    assert ax.get_xlim()[0] == ax.dataLim.x0
    plt.close("all")


def test_classes_have_their_names() -> None:
    names = ["a $price$ of", "the second of two long names"]
    ax = rfsize.StopTable.build(11, prior=rfsize.Votes([[3, 8], [9, 2]] * 50, names)).plot()
    ax.figure.draw_without_rendering()  # a formula with this name would be refused
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said[1:3] == ["stop: class the second of two long …", "stop: class a $price$ of"]
    assert ax.get_ylabel() == "votes for class the second of two long …"
    assert not ax.yaxis.label.get_parse_math()
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())
    plt.close("all")


def test_a_score_that_is_not_known_from_the_first_tree_on() -> None:
    sizes = np.arange(1, 51)
    values = np.where(sizes < 30, np.nan, 0.9)
    options: dict[str, Any] = {"metric": "log_loss", "value": 0.9, "at_all_trees": 0.9, "interval": (0.8, 1.0)}
    score = rfsize.OobScore(
        **options,
        curve=Curve(sizes, values),
        available=50,
        votes_per_row=18.0,
        source="oob",
        groups="rows",
        n_rows=100,
        n_dropped=0,
    )
    ax = score.plot()
    assert ax.get_xlim()[0] == 30
    assert ax.get_xscale() == "linear"
    plt.close("all")


def test_results_are_drawn_on_axes_of_ones_own(pictured: dict[str, Any]) -> None:
    with plt.style.context("dark_background"):
        _, ax = plt.subplots()
    pictured["two classes"].plot(ax)
    half = next(line for line in ax.lines if line.get_label() == "half of the votes")
    assert to_rgba(half.get_color()) == to_rgba("white")
    plt.close("all")
