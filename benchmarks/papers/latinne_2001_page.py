"""The page of the 2001 paper: its table 2 and the border of figure 1, compared with ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.comparing import printed, table
from benchmarks.papers.latinne_2001 import GRID, METHODS, TREES
from benchmarks.papers.page import (
    Finding,
    Records,
    chosen,
    found_by,
    known,
    lines,
    percent,
    write_paper,
)
from benchmarks.papers.store import Record

NAME = "latinne_2001"
FINDINGS = (
    "a limited number of trees, below 200, is not beaten by any larger one",
    "m\\* trees are as accurate as 200",
    "more trees are never significantly worse",
)
PAPERS_NAMES = {"dna": "DNA"}


def write(records: Records, folder: Path) -> list[Finding]:
    """The page with its pictures, and the findings."""
    ours = chosen(records, framework="scikit-learn")
    ensembles = [run for run in ours if run["method"] != "one tree"]
    worse = [share_worse(run) for run in ensembles]
    apart = max(abs(run["size"] - run["size_on_test"]) for run in ensembles)
    loss = [run["accuracy"] - run["accuracy_of_size"] for run in ensembles]
    more = {"apart": str(apart), "loss": percent(loss), "worse": percent(worse), "most_worse": percent([max(worse)])}
    more |= {"table_2": table_2(ours), "by_framework": by_framework(records)}
    write_paper(folder, NAME, ours, {}, {"figure_1": figure_1(ours)}, **more)
    return found_by(records, FINDINGS, told)


def span(values: list[float], digits: int) -> str:
    """The mean, with the range if there are several values."""
    mean, low, high = (f"{value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({low}–{high})"


def table_2(records: Records) -> str:
    """Accuracy and sizes of each method."""
    figures = {(row["dataset"].lower(), row["method"]): row for row in printed("latinne_2001_table2")}

    def cells(runs: Records) -> list[str]:
        problem, method = runs[0]["problem"], runs[0]["method"]
        row = figures[problem, "C4.5" if method == "one tree" else method]
        accuracy = [span([100.0 * run["accuracy"] for run in runs], 1), row["accuracy_pct"]]
        if method == "one tree":
            return [*accuracy, "", "", "", ""]
        sizes = [span([run[name] for run in runs], 0) for name in ("size", "size_on_test", "by_ten")]
        return [*accuracy, sizes[0], row["m_v_star_trees"], *sizes[1:]]

    named = [
        {**run, "problem, method": f"{PAPERS_NAMES.get(run['problem'], run['problem'])}, {run['method']}"}
        for run in records
    ]
    headings = ["problem, method", "runs", "accuracy", "paper", "m\\*", "paper", "on test rows", "by 10"]
    return table(headings, lines(named, ["problem, method"], cells))


def share_worse(run: Record) -> float:
    """Share of the pairs of sizes in which the smaller size is significantly better."""
    return float(run["fewer_beat_more"] / (TREES * (TREES - 1) / 2))


def figure_1(records: Records) -> Figure:
    """The share of larger sizes that beat a size, by method; a panel for each problem."""
    problems = known(records, "problem")
    figure = Figure((4 * len(problems), 3.6))
    for axes, problem in zip(np.atleast_1d(figure.subplots(1, len(problems), sharey=True)), problems, strict=True):
        for method in METHODS[1:]:
            if runs := chosen(records, problem=problem, method=method):
                axes.plot(GRID, np.mean([run["beaten"] for run in runs], axis=0), "o-", label=method, markersize=3)
        axes.set(title=problem, xlabel="trees", ylabel="share of larger sizes that beat it")
        axes.legend(fontsize=7)
    return figure


def by_framework(records: Records) -> str:
    """Accuracy and m* by framework."""

    def cells(runs: Records) -> list[str]:
        shares = (percent([run[name] for run in runs], 1) for name in ("accuracy", "accuracy_of_size"))
        return [*shares, span([run["size"] for run in runs], 0)]

    ensembles = [run for run in records if run["method"] != "one tree"]
    headings = ["problem, method, framework", "runs", "accuracy, %", "of m\\* trees", "m\\*"]
    return table(headings, lines(ensembles, ("problem", "method", "framework"), cells))


def told(runs: Records) -> list[str]:
    """The results of our runs with one framework, for each of `FINDINGS`."""
    ensembles = [run for run in runs if run["method"] != "one tree"]
    sizes = np.array([run["size"] for run in ensembles])
    losses = [run["accuracy"] - run["accuracy_of_size"] for run in ensembles]
    return [
        f"median {np.median(sizes):.0f} trees, {sizes.min()} to {sizes.max()}",
        f"{100.0 * np.mean(losses):.2f} points less on average, {100.0 * max(losses):.2f} at most",
        f"{percent([share_worse(run) for run in ensembles])} % of the pairs of sizes are",
    ]
