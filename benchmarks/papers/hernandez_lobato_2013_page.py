"""The page of the 2013 paper: its tables 2 to 4 and figures 1, 2, 4 and 6, compared with ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.comparing import Compared, Table, compared_table, means, medians, printed, slope, table
from benchmarks.papers.hernandez_lobato_2013 import ALPHAS, BINS, ENSEMBLES, INFINITE, SIZES, TAIL
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
from rfsize.theory import HALF_NORMAL, agreement

RULES = ("test", "oob", "banfield")
NAME = "hernandez_lobato_2013"
TREES, ERROR, DISAGREEMENT = range(3)  # of a rule's record
FINDINGS = (
    "T\\*(0.99) of out-of-bag votes disagrees with the infinite ensemble on 1 % of fresh rows",
    "from test rows or out of bag, the sizes are the same",
    "Banfield's rule takes fewer trees than T\\* where votes are close, and disagrees more",
    "disagreement falls as T to the −1/2",
    "the error is within 1 point of the infinite ensemble's",
)


def write(records: Records, folder: Path) -> list[Finding]:
    """The page with its pictures, and the findings."""
    ours = chosen(records, framework="scikit-learn")
    twonorm = chosen(ours, problem="twonorm", ensemble="RF")
    tables = {"2": table_2(ours)} | {n: table_3_or_4(ours, e) for n, e in zip("34", ENSEMBLES, strict=True)}
    pictures = {"figures_1_2": figures_1_and_2(twonorm), "figure_4": figure_4(ours), "figure_6": figure_6(ours)}
    more = {"exponents": table_of_exponents(ours), "by_framework": by_framework(records)}
    write_paper(folder, NAME, ours, tables, pictures, tail=exponent(exponent_of_tail(twonorm)), **more)
    return found_by(records, FINDINGS, told)


def table_2(records: Records) -> Table:
    """Disagreement with the infinite ensemble, by the rule that chose the size."""
    figures = {
        (row["dataset"].lower(), row["ensemble"], row["size_estimated_with"]): row
        for row in printed("hernandez_lobato_2013_table2")
    }

    def cells(runs: Records) -> Iterator[Compared]:
        for rule in RULES:
            ours = np.array([100.0 * run["rules"][rule][DISAGREEMENT] for run in runs])
            yield means(ours, figures.get((runs[0]["problem"], runs[0]["ensemble"], rule)), "disagreement", 1)

    headings = ["problem", "runs", *(name for rule in RULES for name in (rule, "paper", "differ"))]
    return compared_table(headings, lines(records, ("problem", "ensemble"), cells))


def table_3_or_4(records: Records, ensemble: str) -> Table:
    """Test error, and the median number of trees, by rule."""
    name = "hernandez_lobato_2013_table3" if ensemble == "RF" else "hernandez_lobato_2013_table4"
    figures = {(row["dataset"].lower(), row["size_estimated_with"]): row for row in printed(name)}
    text: list[list[str | Compared]] = []
    for runs in nested(chosen(records, ensemble=ensemble), "problem"):
        problem = runs[0]["problem"]
        for rule in ("infinite", *RULES):
            row = figures[problem, rule]
            errors = [run["infinite"] if rule == "infinite" else run["rules"][rule][ERROR] for run in runs]
            error = means(100.0 * np.array(errors), row, "test_error", 2)
            # The noise of spiral was chosen for the paper's error, so that errors do not count.
            cells = [f"{problem}, {rule}", *(error.cells if problem == "spiral" else [error])]
            if rule == "infinite":
                text.append([*cells, "", "", ""])
            else:
                text.append([*cells, medians(np.array([run["rules"][rule][TREES] for run in runs]), row, "trees")])
    headings = ["problem, size by", "error, %", "paper", "differ", "trees", "paper", "differ"]
    return compared_table(headings, text)


def mean_curve(runs: Records, name: str) -> np.ndarray:
    """A curve, the mean over runs."""
    return np.mean([run[name] for run in runs], axis=0)


def slope_of_disagreement(runs: Records) -> float:
    """Exponent of disagreement in T from 100 trees on, corrected for the trees that T and infinite share."""
    sizes = np.array(SIZES)
    told = mean_curve(runs, "disagreement") / np.sqrt(1.0 - sizes / INFINITE)
    kept = (sizes > 100) & (told > 0.0)
    return slope(sizes[kept], told[kept])


def exponent_of_tail(runs: Records) -> float:
    """Exponent in T of the share of rows that need more than T trees, from 100 to 10,000."""
    kept = [k for k, size in enumerate(TAIL) if 100 <= size <= 10_000]
    return slope([TAIL[k] for k in kept], mean_curve(runs, "tail")[kept])


def table_of_exponents(records: Records) -> str:
    """The exponents of figure 4, by problem and of the mean over all runs."""
    rows = []
    for problem in (*known(records, "problem"), "all"):
        of_problem = records if problem == "all" else chosen(records, problem=problem)
        groups = [chosen(of_problem, ensemble=ensemble) for ensemble in ENSEMBLES]
        rows.append([problem, *(exponent(slope_of_disagreement(runs)) if runs else "" for runs in groups)])
    return table(["exponent", *ENSEMBLES], [*rows, ["paper", *[exponent(-0.5)] * len(ENSEMBLES)]])


def exponent(value: float) -> str:
    """With two digits; a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:.2f}".replace("-", "−")


def figures_1_and_2(twonorm: Records) -> Figure:
    """What single trees say, and how many rows need many."""
    tail = mean_curve(twonorm, "tail")
    figure = Figure((12, 3.5))
    left, middle, right = figure.subplots(1, 3)
    fractions = np.linspace(0.0, 1.0, 201)
    for size in (1, 5, 25, 51, 101):
        left.plot(fractions, agreement(size, fractions), label=f"T = {size}")
    left.set(xlabel="vote fraction π", ylabel="P(label of T trees = of infinitely many)")
    left.legend(fontsize=7)
    histogram = mean_curve(twonorm, "histogram")
    middle.bar((np.arange(BINS) + 0.5) / BINS, BINS * histogram / histogram.sum(), width=1.0 / BINS)
    middle.set(xlabel="vote fraction π", ylabel="density f(π)")
    right.loglog(TAIL, tail, "o-", label="share of the rows")
    at = TAIL.index(1000)
    right.loglog(TAIL, tail[at] * np.sqrt(1000.0 / np.array(TAIL)), "k--", label="slope −1/2")
    right.set(xlabel="T", ylabel="P(T* > T)")
    right.legend(fontsize=7)
    return figure


def figure_4(records: Records) -> Figure:
    """Disagreement by size, a panel for each ensemble."""
    figure = Figure((11, 4))
    for axes, ensemble in zip(figure.subplots(1, 2, sharey=True), ENSEMBLES, strict=True):
        for number, problem in enumerate(known(records, "problem")):
            runs = chosen(records, problem=problem, ensemble=ensemble)
            if not runs:
                continue
            told = mean_curve(runs, "disagreement")
            told[told <= 0.0] = np.nan
            axes.loglog(SIZES, told, "o-", color=f"C{number}", label=problem, markersize=3)
            density = np.mean([run["density"] for run in runs])
            if density > 0.0:
                axes.loglog(SIZES, density * HALF_NORMAL / np.sqrt(SIZES), "--", color=f"C{number}", linewidth=0.8)
        axes.set(title=ensemble, xlabel="T", ylabel="disagreement with 10,000 trees")
        axes.legend(fontsize=7)
    return figure


def figure_6(records: Records) -> Figure:
    """T* and test error by α, random forests."""
    figure = Figure((11, 4))
    left, right = figure.subplots(1, 2)
    for problem in known(records, "problem"):
        runs = chosen(records, problem=problem, ensemble="RF")
        trees, errors = mean_curve(runs, "alphas").T if runs else (np.array([]), np.array([]))
        left.semilogy(ALPHAS[: len(trees)], trees, "o-", label=problem, markersize=3)
        right.plot(ALPHAS[: len(errors)], 100.0 * errors, "o-", label=problem, markersize=3)
    left.set(xlabel="α", ylabel="T*(α)")
    right.set(xlabel="α", ylabel="test error, %")
    left.legend(fontsize=7)
    return figure


def by_framework(records: Records) -> str:
    """Error of the infinite ensemble, T* and disagreements, by framework."""

    def cells(runs: Records) -> Iterator[str]:
        yield percent([run["infinite"] for run in runs])
        yield f"{np.median([run['rules']['oob'][TREES] for run in runs]):.0f}"
        yield from (percent([run["rules"][rule][DISAGREEMENT] for run in runs]) for rule in RULES)
        yield exponent(slope_of_disagreement(runs))

    headings = ["problem, ensemble, framework", "runs", "error, %", "T*", *RULES, "exponent"]
    return table(headings, lines(records, ("problem", "ensemble", "framework"), cells))


def told(runs: Records) -> list[str]:
    """The results of our runs with one framework, for each of `FINDINGS`."""
    groups = list(nested(runs, "problem", "ensemble"))
    return [
        f"{percent([run['rules']['oob'][DISAGREEMENT] for run in runs])} % on average",
        f"{np.exp(np.mean([np.log(_ratio(group, 'test')) for group in groups])):.2f} times as many, geometric mean",
        _of_banfield(groups),
        f"{exponent(slope_of_disagreement(runs))}, of the mean over all",
        f"{sum(_rise(group) <= 0.01 for group in groups)} of {len(groups)}",
    ]


def _median(group: Records, rule: str) -> float:
    return float(np.median([run["rules"][rule][TREES] for run in group]))


def _ratio(group: Records, rule: str) -> float:
    return _median(group, rule) / _median(group, "oob")


def _rise(group: Records) -> float:
    return float(np.mean([run["rules"]["oob"][ERROR] - run["infinite"] for run in group]))


def _of_banfield(groups: list[Records]) -> str:
    fewer = [group for group in groups if _ratio(group, "banfield") < 1.0]
    more = sum(
        np.mean([run["rules"]["banfield"][DISAGREEMENT] - run["rules"]["oob"][DISAGREEMENT] for run in group]) > 0.0
        for group in fewer
    )
    return f"fewer in {len(fewer)} of {len(groups)}, and disagrees more in {more} of these"
