"""The printed tables and the picture of `inference.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from inference_contenders import Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Cell(NamedTuple):
    """Rows predicted in one call, and threads."""

    n_rows: int
    threads: int

    def __str__(self) -> str:
        if self.n_rows == 1:
            return "1 row"
        return f"{self.n_rows:,} rows, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass
class Outcome:
    """The result of one contender on one forest; `equal` is False if promised equality was broken."""

    asked: float | None = None
    other_labels: float | None = None
    off_by: float | None = None
    equal: bool = True
    seconds: dict[Cell, list[float]] = field(default_factory=dict)

    def median(self, cell: Cell) -> float | None:
        taken = self.seconds.get(cell)
        return float(np.median(taken)) if taken else None


class Goal(NamedTuple):
    """A goal: ``bound`` times as fast as another, or a share of its time; without another, in microseconds."""

    contender: str
    shape: Shape
    n_rows: int
    against: str | None
    bound: float
    is_share: bool = False


OWN = {"LightGBM": "`Booster.predict`", "XGBoost": "`Booster.inplace_predict`"}
LABELS, CERTIFIED, PROBABILITIES = "rfsize, labels", "rfsize, labels, certified table", "rfsize, probabilities"
DATA_FRAME = "rfsize, labels of a DataFrame"

# Speed on 100,000 rows relative to LightGBM and to XGBoost, by classes, trees and leaves.
OF_MANY_ROWS = (
    (LABELS, (2, 501, 255), {"LightGBM": 26.0, "XGBoost": 8.0}),
    (CERTIFIED, (2, 501, 255), {"LightGBM": 100.0, "XGBoost": 39.0}),
    (PROBABILITIES, (2, 501, 255), {"LightGBM": 22.0, "XGBoost": 8.0}),
    (LABELS, (7, 200, 127), {"XGBoost": 20.0}),
    (CERTIFIED, (7, 200, 127), {"XGBoost": 14.6}),
)


def goals() -> list[Goal]:
    """The numbers to reach."""
    found = [
        Goal(contender, Shape(framework, *forest), 100_000, OWN[framework], bound)
        for contender, forest, bounds in OF_MANY_ROWS
        for framework, bound in bounds.items()
    ]
    found.append(Goal(PROBABILITIES, Shape("XGBoost", 2, 501, 255), 100_000, "oneDAL", 2.0))
    for shape in (Shape(framework, 2, *size) for framework in OWN for size in ((101, 31), (501, 255))):
        found.append(Goal(PROBABILITIES, shape, 1, "ONNX Runtime", 0.2, True))
        found.append(Goal(DATA_FRAME, shape, 1, None, 25.0))
    return found


def duration(seconds: float) -> str:
    """A duration in a unit that gives a short number."""
    if seconds >= 0.01:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def times(ratio: float) -> str:
    """A ratio of speeds in words."""
    return f"{ratio:.0f}×" if ratio >= 20 else f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"


def print_outcomes(outcomes: Mapping[str, Outcome], cells: list[Cell]) -> None:
    """A table, one line for each contender; the framework is the first."""
    base = next(iter(outcomes.values()))
    heads = [""]
    for cell in cells:
        heads += [f"{cell}, median", "99 %", "×"] if cell.n_rows == 1 else [str(cell), "×"]
    print("\n| " + " | ".join([*heads, "trees", "other labels", "off by"]) + " |")
    print("|" + "---|" * (len(heads) + 3))
    for name, outcome in outcomes.items():
        line = [name]
        for cell in cells:
            line += _cells(outcome, base, cell)
        line.append("" if outcome.asked is None else f"{outcome.asked:.1f}")
        line.append("" if outcome.other_labels is None else f"{outcome.other_labels:.2%}")
        line.append("" if outcome.off_by is None else f"{outcome.off_by:.1g}")
        print("| " + " | ".join(line) + " |", flush=True)


def _cells(outcome: Outcome, base: Outcome, cell: Cell) -> list[str]:
    median, own = outcome.median(cell), base.median(cell)
    if median is None or own is None:
        return [""] * (3 if cell.n_rows == 1 else 2)
    tail = [duration(float(np.quantile(outcome.seconds[cell], 0.99)))] if cell.n_rows == 1 else []
    return [duration(median), *tail, times(own / median)]


def print_goals(results: Mapping[Shape, Mapping[str, Outcome]]) -> None:
    """Print the goals for the measured forests, with the most threads."""
    asked = [goal for goal in goals() if goal.shape in results]
    if not asked:
        return
    print("\n## Goals\n\n| what | forest | rows | goal | measured |\n|---|---|---|---|---|")
    for goal in asked:
        wanted, measured = _told(goal, results[goal.shape])
        print(f"| {goal.contender} | {goal.shape} | {goal.n_rows:,} | {wanted} | {measured} |", flush=True)


def _told(goal: Goal, outcomes: Mapping[str, Outcome]) -> tuple[str, str]:
    """The bound, and what was measured."""
    mine = _median_of(goal.contender, goal.n_rows, outcomes)
    theirs = _median_of(goal.against, goal.n_rows, outcomes) if goal.against else 1e-6
    if goal.against is None:
        wanted = f"{goal.bound:g} µs at most"
    else:
        wanted = f"{goal.bound:g} of {goal.against}'s time" if goal.is_share else f"{goal.bound:g}× {goal.against}"
    if mine is None or theirs is None:
        return wanted, "not measured"
    if goal.against is None:
        return wanted, duration(mine)
    return wanted, f"{mine / theirs:.2f}" if goal.is_share else times(theirs / mine)


def _median_of(contender: str, n_rows: int, outcomes: Mapping[str, Outcome]) -> float | None:
    """The median with the most threads; the name of a tool of another environment contains its version."""
    for name, outcome in outcomes.items():
        if name == contender or (contender == "oneDAL" and name.startswith("oneDAL")):
            found = [cell for cell in outcome.seconds if cell.n_rows == n_rows]
            return outcome.median(max(found)) if found else None
    return None


def plot(results: Mapping[Shape, Mapping[str, Outcome]], path: Path) -> None:
    """Draw every contender's seconds for the most rows: two classes, 501 trees of 255 leaves, or the first shapes."""
    import matplotlib.pyplot as plt

    drawn = []
    for framework in ("LightGBM", "XGBoost"):
        of = [shape for shape in results if shape.framework == framework and shape.n_classes]
        drawn += [next((shape for shape in of if shape[1:] == (2, 501, 255)), of[0])] if of else []
    figure, axes = plt.subplots(1, len(drawn), figsize=(10, 3.8), layout="constrained", sharex=True, squeeze=False)
    for ax, shape in zip(axes[0], drawn, strict=True):
        _draw_bars(ax, shape, results[shape])
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def _draw_bars(ax: Axes, shape: Shape, outcomes: Mapping[str, Outcome]) -> None:
    """Draw bars, the framework on top; rfsize in colour, on white so that dark pages work too."""
    cell = max(cell for outcome in outcomes.values() for cell in outcome.seconds)
    medians = {name.strip("`"): outcome.median(cell) for name, outcome in outcomes.items()}
    seconds = {name: median for name, median in medians.items() if median is not None}
    own = next(iter(seconds.values()))
    colours = ["C0" if name.startswith("rfsize") else "0.7" for name in seconds]
    bars = ax.barh(list(seconds), list(seconds.values()), color=colours)
    labels = [f" {taken:.2g} s ({times(own / taken)})" for taken in seconds.values()]
    ax.bar_label(bars, labels, fontsize="small")
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(seconds.values()) / 2, max(seconds.values()) * 12)
    ax.set_title(f"{shape.framework}: {shape.trees:,} trees of {shape.leaves} leaves", fontsize="medium")
    ax.set_xlabel(f"seconds for {cell.n_rows:,} rows")
    ax.grid(axis="x", which="major", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
