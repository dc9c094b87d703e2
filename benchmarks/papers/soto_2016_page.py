"""The page of the 2016 paper: its tables 1 and 2 and figure 1, compared with ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.comparing import Compared, Table, compared_table, means, printed, table
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
from benchmarks.papers.soto_2016 import ALPHAS, TREES

NAME = "soto_2016"
RULES = ("SIBA", "HYPER", "authors' ends", "certified")
USED, DISAGREEMENT, ERROR = range(3)  # of a rule's record
FINDINGS = (
    "HYPER disagrees with all trees on about 1 % (α = 0.99)",
    "HYPER uses fewer trees than SIBA in most problems",
    "SIBA disagrees less than it is allowed to",
    "the same number of trees for every row (FIXED) disagrees more than HYPER",
)


def write(records: Records, folder: Path) -> list[Finding]:
    """The page with its pictures, and the findings."""
    ours = chosen(records, framework="scikit-learn")
    more = {"ends": by_smoothing(ours), "beyond": beyond_the_paper(ours), "errors": errors_of_drawn(ours)}
    more["by_framework"] = by_framework(records)
    tables = {"1": table_1(ours), "2": table_2(ours)}
    write_paper(folder, NAME, ours, tables, {"figure_1": figure_1(ours)}, **more)
    return found_by(records, FINDINGS, told)


def of_rule(runs: Records, rule: str, what: int) -> np.ndarray:
    """One figure of a rule, by run."""
    return np.array([run["rules"][rule][what] for run in runs])


def table_1(records: Records) -> Table:
    """Error of all trees, of SIBA and of HYPER, and the disagreement of both."""
    figures = {(row["dataset"].lower(), row["method"]): row for row in printed("soto_2016_table1")}
    text: list[list[str | Compared]] = []
    for runs in nested(records, "problem"):
        problem = runs[0]["problem"]
        for rule in ("RF", "SIBA", "HYPER"):
            row = figures[problem, rule]
            errors = np.array([run["error"] for run in runs]) if rule == "RF" else of_rule(runs, rule, ERROR)
            cells: list[str | Compared] = ["", "", ""]
            if rule != "RF":
                cells = [means(100.0 * of_rule(runs, rule, DISAGREEMENT), row, "disagreement", 1)]
            text.append([f"{problem}, {rule}", str(len(runs)), means(100.0 * errors, row, "test_error", 2), *cells])
    headings = ["problem, rule", "runs", "error", "paper", "differ", "disagreement", "paper", "differ"]
    return compared_table(headings, text)


def table_2(records: Records) -> Table:
    """Trees used by rule, with the paper's Monte Carlo estimate and HYPER's exact expectation."""
    figures = {(row["dataset"].lower(), row["method"]): row for row in printed("soto_2016_table2")}

    def cells(runs: Records) -> Iterator[str | Compared]:
        for rule, name in (("RF*", "RF_star"), ("SIBA", "SIBA"), ("HYPER", "HYPER"), ("expected", "MC_estimate")):
            if rule == "expected" and runs[0]["expected"] is None:
                yield from ("–", "–", "–")
                continue
            ours = np.array([run["expected"] for run in runs]) if rule == "expected" else of_rule(runs, rule, USED)
            yield means(ours, figures[runs[0]["problem"], name], "trees_queried", 1)

    headings = ["problem", "runs"]
    headings += [name for rule in ("RF\\*", "SIBA", "HYPER", "expected of HYPER") for name in (rule, "paper", "differ")]
    return compared_table(headings, lines(records, ["problem"], cells))


def by_smoothing(records: Records) -> str:
    """Trees used and disagreement of HYPER with both smoothings of its prior, on problems of two classes."""
    two_classes = [run for run in records if "authors' ends" in run["rules"]]
    return rules_by_problem(two_classes, ("HYPER", "authors' ends"))


def beyond_the_paper(records: Records) -> str:
    """Trees used and disagreement of the rules where a table was certified."""
    return rules_by_problem([run for run in records if "certified" in run["rules"]], ("SIBA", "HYPER", "certified"))


def rules_by_problem(records: Records, rules: tuple[str, ...]) -> str:
    """Trees used and disagreement, a line for each problem."""
    text = [[runs[0]["problem"], *cells_of_rules(runs, rules)] for runs in nested(records, "problem")]
    headings = ["problem", *(name for rule in rules for name in (f"{rule}: trees", "differ"))]
    return table(headings, text)


def cells_of_rules(runs: Records, rules: tuple[str, ...] = RULES) -> list[str]:
    """Trees used and disagreement, by rule."""
    told = {rule: [of_rule(runs, rule, what) for what in (USED, DISAGREEMENT)] for rule in runs[0]["rules"]}
    pairs = [[f"{told[rule][0].mean():.1f}", percent(told[rule][1])] if rule in told else ["–", "–"] for rule in rules]
    return [cell for pair in pairs for cell in pair]


def errors_of_drawn(records: Records) -> str:
    """Errors of all trees on drawn problems, compared with the paper's."""
    figures = {row["dataset"].lower(): row for row in printed("soto_2016_table1") if row["method"] == "RF"}
    drawn = [run for run in records if "certified" in run["rules"]]
    return ", ".join(
        f"{problem} {percent([run['error'] for run in chosen(drawn, problem=problem)], 1)} % "
        f"({float(figures[problem]['test_error_mean_pct']):.1f} %)"
        for problem in known(drawn, "problem")
    )


def figure_1(records: Records) -> Figure:
    """Votes and disagreement of the problems of the flattest and the steepest votes, of two classes."""
    two_classes = [problem for problem in known(records, "problem") if problem not in ("waveform", "wine")]
    ends = sorted(two_classes, key=lambda problem: _at_the_ends(chosen(records, problem=problem)))
    figure = Figure((12, 6))
    for (left, right), problem in zip(figure.subplots(2, 2), (ends[0], ends[-1]), strict=True):
        runs = chosen(records, problem=problem)
        votes = np.sum([run["histogram"] for run in runs], axis=0)
        left.bar((np.arange(len(votes)) + 0.5) / len(votes), votes / votes.sum(), width=1.0 / len(votes))
        left.set(title=problem, xlabel=f"share of the {TREES} votes for class 1", ylabel="share of rows")
        allowed = 1.0 - np.array(ALPHAS)
        right.plot(allowed, allowed, "k--", linewidth=0.8)
        curves = np.mean([run["alphas"] for run in runs], axis=0)
        right.plot(allowed, curves, "o-", label=("HYPER", "SIBA", "FIXED"), markersize=3)
        right.set(title=problem, xlabel="1 − α", ylabel="disagreement")
        right.legend(fontsize=8)
    return figure


def _at_the_ends(runs: Records) -> float:
    votes = np.sum([run["histogram"] for run in runs], axis=0)
    return float((votes[0] + votes[-1]) / votes.sum())


def by_framework(records: Records) -> str:
    """Trees used and disagreement by rule and framework."""

    def cells(runs: Records) -> list[str]:
        return [percent([run["error"] for run in runs]), *cells_of_rules(runs)]

    of_rules = (name for rule in RULES for name in (f"{rule}: trees", "differ"))
    headings = ["problem, framework", "runs", "error, %", *of_rules]
    return table(headings, lines(records, ("problem", "framework"), cells))


def told(runs: Records) -> list[str]:
    """The results of our runs with one framework, for each of `FINDINGS`."""
    groups, at = list(nested(runs, "problem")), ALPHAS.index(0.99)
    curves = [np.mean([run["alphas"][at] for run in group], axis=0) for group in groups]
    fixed = sum(curve[2] > curve[0] for curve in curves)
    mean = {rule: [of_rule(group, rule, DISAGREEMENT).mean() for group in groups] for rule in ("SIBA", "HYPER")}
    return [
        f"{percent(mean['HYPER'])} % on average",
        _fewer(groups, "HYPER", "SIBA"),
        f"{percent(mean['SIBA'])} % on average",
        f"in {fixed} of {len(groups)}",
    ]


def _fewer(groups: list[Records], rule: str, other: str) -> str:
    less = sum(of_rule(group, rule, USED).mean() < of_rule(group, other, USED).mean() for group in groups)
    return f"in {less} of {len(groups)}"
