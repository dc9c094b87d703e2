"""Our figures compared with a paper's: differences in standard errors, and Markdown tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
Table = tuple[str, list[float | None]]  # its text, and differences in standard errors
REPETITIONS = 100  # each figure in the papers of 2010, 2013 and 2016 is a mean over these
FAR = 2.0  # standard errors; larger differences get an explanation


def printed(name: str) -> list[dict[str, str]]:
    """The rows of a paper's table."""
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Compared(NamedTuple):
    """Our figure and a paper's, in words, and their difference in standard errors; None if that is not known."""

    ours: str
    paper: str
    standard_errors: float | None

    @property
    def cells(self) -> list[str]:
        """What a table says of it."""
        return [self.ours, self.paper, signed(self.standard_errors)]


def means(ours: np.ndarray, row: dict[str, str] | None, name: str, digits: int) -> Compared:
    """Our mean beside the mean ``name`` in a row of a paper's table; both get the paper's scatter over repetitions."""
    row = row or {}
    mean, sd = (row.get(f"{name}_{part}_pct", row.get(f"{name}_{part}")) for part in ("mean", "sd"))
    if not mean or not sd:
        return Compared(f"{ours.mean():.{digits}f}", "", None)
    error = float(sd) * np.sqrt(1.0 / len(ours) + 1.0 / REPETITIONS)
    difference = float((ours.mean() - float(mean)) / error) if error > 0.0 else None
    return Compared(f"{ours.mean():.{digits}f}", f"{float(mean):.{digits}f} ± {float(sd):.{digits}f}", difference)


def medians(ours: np.ndarray, row: dict[str, str], name: str) -> Compared:
    """Our median and quartiles beside those in a row of a paper's table, as if the logarithms were normal."""
    own = np.percentile(ours, [25, 50, 75])
    papers = np.array([float(row[f"{name}_{part}"]) for part in ("q1", "median", "q3")])
    words = (f"{median:.0f} ({q1:.0f}–{q3:.0f})" for q1, median, q3 in (own, papers))
    if papers[2] <= papers[0]:
        return Compared(*words, None)
    error = 1.2533 * np.log(papers[2] / papers[0]) / 1.349 * np.sqrt(1.0 / len(ours) + 1.0 / REPETITIONS)
    return Compared(*words, float(np.log(own[1] / papers[1]) / error))


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


def compared_table(headings: Sequence[str], rows: Iterable[Sequence[str | Compared]]) -> Table:
    """A table of which some cells are compared with a paper's; each of these takes three columns."""
    rows = list(rows)
    figures = [cell for row in rows for cell in row if isinstance(cell, Compared)]
    words = [[word for cell in row for word in (cell.cells if isinstance(cell, Compared) else [cell])] for row in rows]
    return table(headings, words), [figure.standard_errors for figure in figures]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the least-squares line through log x and log y; NaN with fewer than two points."""
    if len(x) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
