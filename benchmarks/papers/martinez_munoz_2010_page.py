"""The page of the 2010 paper: its tables 2 to 4 and figures 1 and 4, compared with ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.comparing import Compared, Table, compared_table, means, printed, signed, table
from benchmarks.papers.martinez_munoz_2010 import GRID, RATIOS, STANDARD, WITH, WITHOUT
from benchmarks.papers.page import (
    Finding,
    Records,
    chosen,
    found_by,
    known,
    lines,
    nested,
    percent,
    write_paper,
)

NAME = "martinez_munoz_2010"
FINDINGS = (
    "the ratio of least out-of-bag error is no worse than the standard one",
    "the best ratio differs from problem to problem",
    "small bags fit the training rows less well, and often generalise better",
)
CURVES = ("ionosphere", "glass", "vowel", "twonorm")


def write(records: Records, folder: Path) -> list[Finding]:
    """The page with its pictures, and the findings."""
    ours = chosen(records, framework="scikit-learn")
    tables = {n: table_of_ratios(chosen(ours, sampling=s), n) for n, s in (("2", WITH), ("3", WITHOUT))}
    tables["4"] = table_4(ours)
    tied = sum(list(run["oob"].values()).count(min(run["oob"].values())) > 1 for run in ours)
    more = {"tied": f"{tied} of {len(ours)}", "seen": percent_seen(ours), "apart": apart(ours)}
    more["by_framework"] = by_framework(chosen(records, sampling=WITHOUT))
    write_paper(folder, NAME, ours, tables, {"figures_1_4": figures_1_and_4(ours)}, **more)
    return found_by(records, FINDINGS, told, sampling=WITHOUT)


def table_of_ratios(records: Records, number: str) -> Table:
    """Test errors by ratio."""
    rows = printed(f"martinez_munoz_2010_table{number}")
    names = list(dict.fromkeys(row["sampling_ratio"] for row in rows))
    figures = {(row["dataset"], row["sampling_ratio"]): row for row in rows}
    differences: list[float | None] = []

    def cells(runs: Records) -> Iterator[str]:
        for name, ratio in zip(names, RATIOS, strict=True):
            ours = np.array([100.0 * run["test"][str(ratio)] for run in runs])
            compared = means(ours, figures[runs[0]["problem"], name], "test_error", 1)
            differences.append(compared.standard_errors)
            yield f"{compared.ours} ({compared.paper.split(' ')[0]}; {signed(compared.standard_errors)})"

    return table(["ours (paper; differ)", "runs", *names], lines(records, ["problem"], cells)), differences


def table_4(records: Records) -> Table:
    """Test error of the standard ratio and of the chosen ratio, and the chosen ratio."""
    figures = {
        (row["dataset"], row["sampling"], row["sample_size_rule"] == "oob-selected"): row
        for row in printed("martinez_munoz_2010_table4")
    }
    text: list[list[str | Compared]] = []
    for runs in nested(records, "problem", "sampling"):
        problem, sampling = runs[0]["problem"], runs[0]["sampling"]
        standard, selected = (figures[problem, sampling, by_votes] for by_votes in (False, True))
        ours = [(run["standard"], run["selected"], share_of(run["chosen"], sampling)) for run in runs]
        papers = (standard, "test_error"), (selected, "test_error"), (selected, "selected_ratio")
        compared = [means(100.0 * of, row, name, 1) for of, (row, name) in zip(np.array(ours).T, papers, strict=True)]
        text.append([f"{problem}, {sampling}", *compared])
    headings = (name for what in ("standard", "chosen", "ratio") for name in (what, "paper", "differ"))
    return compared_table(["problem", *headings], text)


def share_of(ratio: float, sampling: str) -> float:
    """Draws over rows: the ratio with replacement, or the equivalent fraction without."""
    return ratio if sampling == WITH else ratio / (1.0 + ratio)


def percent_seen(records: Records) -> str:
    """Percentage of the rows in a bag that is drawn with replacement, with one draw per row."""
    return percent([run["seen"][str(STANDARD)] for run in chosen(records, sampling=WITH)], 1)


def curve(runs: Records, name: str) -> np.ndarray:
    """By the ratio, in per cent, the mean over runs."""
    return 100.0 * np.mean([[run[name][str(ratio)] for ratio in GRID] for run in runs], axis=0)


def apart(records: Records) -> str:
    """Mean difference between the test errors with and without replacement."""
    distances = [
        np.abs(curve(chosen(runs, sampling=WITH), "test") - curve(chosen(runs, sampling=WITHOUT), "test"))
        for problem in known(records, "problem")
        if len(known(runs := chosen(records, problem=problem), "sampling")) == 2
    ]
    return f"{np.mean(distances):.2f}"


def figures_1_and_4(records: Records) -> Figure:
    """What a bag holds, and errors by ratio."""
    problems = [problem for problem in CURVES if chosen(records, problem=problem)]
    figure = Figure((3.6 * (1 + len(problems)), 3.6))
    first, *others = figure.subplots(1, 1 + len(problems))
    first.plot(GRID, 1.0 - np.exp(-np.array(GRID)), "k--", label="1 − exp(−m/n)")
    first.plot(GRID, curve(chosen(records, sampling=WITH), "seen") / 100.0, "o", label="bags", markersize=3)
    first.set(xlabel="m/n with replacement", ylabel="share of the rows in a bag")
    first.legend(fontsize=7)
    for axes, problem in zip(others, problems, strict=True):
        for sampling, line in ((WITH, "-"), (WITHOUT, "--")):
            runs = chosen(records, problem=problem, sampling=sampling)
            for number, name in enumerate(("test", "oob", "train") if runs else ()):
                axes.plot(GRID, curve(runs, name), line, color=f"C{number}", label=f"{name}, {sampling}")
        axes.set(title=problem, xlabel="m/n, or what is worth it", ylabel="error, %")
        axes.legend(fontsize=6)
    return figure


def by_framework(records: Records) -> str:
    """Standard and chosen errors by framework."""

    def cells(runs: Records) -> list[str]:
        errors = (percent([run[name] for run in runs], 1) for name in ("standard", "selected"))
        return [*errors, f"{np.mean([share_of(run['chosen'], WITHOUT) for run in runs]):.2f}"]

    headings = ["problem, framework", "runs", "standard", "chosen", "fraction"]
    return table(headings, lines(records, ("problem", "framework"), cells))


def told(runs: Records) -> list[str]:
    """The results of our runs with one framework, without replacement, for each of `FINDINGS`."""
    groups = list(nested(runs, "problem"))
    gains = [100.0 * np.mean([run["standard"] - run["selected"] for run in group]) for group in groups]
    gain = np.mean(gains)
    ratios = [np.mean([share_of(run["chosen"], WITHOUT) for run in group]) for group in groups]
    smaller = sum(curve(group, "test")[1] < curve(group, "test")[GRID.index(STANDARD)] for group in groups)
    return [
        f"{abs(gain):.2f} points {'lower' if gain > 0.0 else 'higher'} on average; no higher in "
        f"{sum(gain >= 0.0 for gain in gains)} of {len(gains)}",
        f"fractions from {min(ratios):.2f} to {max(ratios):.2f}",
        f"a sixth of the rows better than half in {smaller} of {len(groups)}",
    ]
