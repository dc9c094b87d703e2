"""Our figures compared with a paper's: differences in standard errors, and Markdown tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
REPETITIONS = 100  # each figure in the papers of 2010, 2013 and 2016 is a mean over these
FAR = 2.0  # standard errors; larger differences get an explanation


def printed(name: str) -> list[dict[str, str]]:
    """The rows of a paper's table."""
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Printed(NamedTuple):
    """A figure of a paper, a mean over its repetitions, with their standard deviation."""

    mean: float
    sd: float

    @classmethod
    def of(cls, row: dict[str, str], name: str) -> Printed | None:
        """What a row of a paper's table has of this name; None if that is empty."""
        mean, sd = (row.get(f"{name}_{part}_pct", row.get(f"{name}_{part}")) for part in ("mean", "sd"))
        return cls(float(mean), float(sd)) if mean and sd else None


class Compared(NamedTuple):
    """Our figure and a paper's."""

    ours: np.ndarray
    paper: Printed | None

    @property
    def standard_errors(self) -> float | None:
        """The difference of the means in standard errors; both means get the paper's scatter over 100 repetitions."""
        if self.paper is None or self.paper.sd == 0.0:
            return None
        scatter = self.paper.sd * np.sqrt(1.0 / len(self.ours) + 1.0 / REPETITIONS)
        return float((self.ours.mean() - self.paper.mean) / scatter)

    def cells(self, digits: int) -> list[str]:
        """Our mean, the paper's, and their difference in standard errors."""
        paper = "" if self.paper is None else f"{self.paper.mean:.{digits}f} ± {self.paper.sd:.{digits}f}"
        return [f"{self.ours.mean():.{digits}f}", paper, signed(self.standard_errors)]


def median_compared(ours: np.ndarray, median: float, q1: float, q3: float) -> float | None:
    """The difference of two medians in standard errors, as if the logarithms were normal."""
    if q3 <= q1:
        return None
    sd = (np.log(q3) - np.log(q1)) / 1.349
    error = 1.2533 * sd * np.sqrt(1.0 / len(ours) + 1.0 / REPETITIONS)
    return float((np.log(np.median(ours)) - np.log(median)) / error)


def signed(standard_errors: float | None) -> str:
    """The number with its sign; bold if the difference is large."""
    if standard_errors is None:
        return ""
    text = f"{standard_errors:+.1f}".replace("-", "−")
    return f"**{text}**" if abs(standard_errors) > FAR else text


def share_near(differences: Iterable[float | None]) -> str:
    """How many differences are within two standard errors."""
    known = np.array([difference for difference in differences if difference is not None])
    return f"{np.sum(np.abs(known) <= FAR)} of {len(known)}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, the first column to the left."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the least-squares line through log x and log y; NaN with fewer than two points."""
    if len(x) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
