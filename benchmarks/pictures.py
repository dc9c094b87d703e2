"""The pictures of the README and the guide: docs/enough.png, docs/size.png and docs/report.png.

    python benchmarks/pictures.py

All show LightGBM forests that tell handwritten digits of 5 or more from smaller ones. docs/size.png is the plot of a
report, as in docs/guide/size.md, and docs/report.png the top of its page, as in docs/guide/report.md; Chromium draws
the page, if it is installed. docs/enough.png is the README's: how many of 500 trees are enough, and what the smaller
forest saves in bytes of its file and in the time of its own ``predict_proba`` on 50,000 rows with one thread (the
fastest of several runs). The script prints these numbers too.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import timeit
from pathlib import Path

import matplotlib
import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rfsize

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
FOREST = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "colsample_bytree": 0.3, "verbose": -1}
READABLE = {"font.size": 14, "lines.linewidth": 3, "figure.figsize": (8, 5.6)}  # at 400 pixels too
TREES, ROWS, RUNS = 500, 50_000, 7
BLUE, ORANGE, INK, GREY = "#1b6ca8", "#c8500a", "#1d2733", "#5b6875"


def bytes_of(model: LGBMClassifier) -> int:
    """Bytes of the file that LightGBM writes."""
    return len(model.booster_.model_to_string().encode())


def seconds(model: LGBMClassifier, X: np.ndarray) -> float:
    """The least of several runs of the model's own prediction, with one thread."""
    return min(timeit.repeat(lambda: model.predict_proba(X, num_threads=1), number=1, repeat=RUNS))


def curve(axes: plt.Axes, report: rfsize.Report) -> None:
    """The agreement with an unlimited forest over the number of trees, with T* and its interval."""
    sizes = np.unique(np.geomspace(1, TREES, 60).astype(int) | 1)
    agreement = [100 * (1 - report.loss_at(int(n)).value) for n in sizes]
    low, high = report.interval
    axes.axvspan(low, high, color=ORANGE, alpha=0.13, lw=0)
    axes.axhline(99.0, color=GREY, lw=1.2, ls=(0, (4, 3)))
    axes.plot(sizes, agreement, color=BLUE, lw=3.5)
    axes.plot([report.n_trees], [99.0], "o", color=ORANGE, ms=13, zorder=3)
    text, at = f"T* = {report.n_trees} trees are enough\n(95 % interval {low} to {high})", (report.n_trees + 75, 96.3)
    look = {"color": ORANGE, "fontsize": 19, "fontweight": "bold", "va": "center"}
    axes.annotate(text, (report.n_trees, 99.0), at, arrowprops={"arrowstyle": "-", "color": ORANGE, "lw": 2}, **look)
    axes.set(xlim=(0, TREES), ylim=(94, 100.15), xlabel="trees", yticks=[94, 96, 98, 99, 100])
    axes.set_yticklabels([f"{tick} %" for tick in (94, 96, 98, 99, 100)])
    axes.set_title("rows that get the label of an unlimited forest", loc="left", fontsize=19, color=INK, pad=12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=17, colors=INK)
    axes.xaxis.label.set(size=18, color=INK)


def saved(axes: plt.Axes, name: str, before: float, after: float, unit: str, digits: int) -> None:
    """One pair of bars."""
    for height, value, colour in ((1, before, GREY), (0, after, ORANGE)):
        axes.barh(height, value, height=0.72, color=colour)
        axes.text(value + before * 0.06, height, f"{value:.{digits}f}{unit}", va="center", fontsize=17, color=colour)
    axes.set_title(name, loc="left", fontsize=18, color=INK)
    axes.set(xlim=(0, before * 2.3), ylim=(-0.5, 1.5))
    axes.axis("off")


def draw_readme() -> None:
    """Train, size, cut, and draw."""
    X, digit = load_digits(return_X_y=True)
    model = LGBMClassifier(n_estimators=TREES, random_state=0, **FOREST).fit(X, digit >= 5)
    report = rfsize.size(model, X, oob=True, alpha=0.99)
    small = rfsize.truncate(model, n_trees=report)
    print(report)
    many = X[np.random.default_rng(0).integers(0, len(X), ROWS)]
    size, time_ = [bytes_of(m) / 1e6 for m in (model, small)], [seconds(m, many) for m in (model, small)]
    print(f"file {size[0]:.2f} and {size[1]:.2f} MB, {ROWS:,} rows in {time_[0]:.3f} and {time_[1]:.3f} s")

    figure = plt.figure(figsize=(8, 7), facecolor="white")
    grid = figure.add_gridspec(2, 3, height_ratios=[3.2, 1], hspace=0.45, wspace=0.12)
    curve(figure.add_subplot(grid[0, :]), report)
    saved(figure.add_subplot(grid[1, 0]), "trees", TREES, report.n_trees, "", 0)
    saved(figure.add_subplot(grid[1, 1]), "model file", *size, " MB", 2)
    saved(figure.add_subplot(grid[1, 2]), "50,000 rows take", *time_, " s", 2)
    figure.savefig(DOCS / "enough.png", dpi=100, bbox_inches="tight", pad_inches=0.25, metadata={"Software": None})


def draw_guide() -> None:
    """The plot of a report, and its page."""
    X, digit = load_digits(return_X_y=True)
    with matplotlib.rc_context(READABLE):
        model = LGBMClassifier(**FOREST, n_estimators=200, random_state=0).fit(X, digit >= 5)
        report = rfsize.size(model, X, digit >= 5, oob=True, alpha=0.98)
        _, axes = plt.subplots()
        report.plot(ax=axes).figure.savefig(
            DOCS / "size.png", dpi=100, bbox_inches="tight", metadata={"Software": None}
        )
    print(report)
    X, _, y, _ = train_test_split(X, digit >= 5, random_state=0)
    model = LGBMClassifier(**FOREST, n_estimators=100, random_state=0).fit(X, y)
    counted = rfsize.tree_outputs(model, X, y, oob=True)
    report = rfsize.size(counted, alpha=0.98)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("docs/report.png is not drawn: neither chromium nor google-chrome is on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report.to_html(page, rfsize.oob_score(counted, metric="auc"))
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1090"]
        subprocess.run(
            [browser, *options, f"--screenshot={DOCS / 'report.png'}", page.as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    draw_readme()
    draw_guide()
