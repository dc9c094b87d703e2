"""How often do 95 % intervals of T*(0.95) and T*(0.99), from 100 trees, contain the truth?

    python benchmarks/intervals.py
    python benchmarks/intervals.py --models forests --store cases.jsonl --rows 100000 --frameworks LightGBM

There are 13 problems. Eight of them are in no other benchmark and in no test, so nothing was tuned to them; three have
five to ten classes. Intervals come from 400 training rows out of bag, and from 100,000 given rows, for majority vote
and averaged scores.

With 400 rows, every case draws new rows and trains a forest on them. With 100,000 rows, all forests of a problem are
trained on the same 4000 rows, each with its own seed. The truth is T* by the plug-in estimate from 1111 other trees on
the same training rows, and from fresh rows: 8000 for each case of 400 rows, 100,000 for all cases of 100,000 rows. Half
of the given rows are among these fresh rows; the estimate then differs from this truth by as much as it would from the
truth of infinitely many rows. The truth has little other noise: a twentieth of the variance due to 400 rows, and an
eleventh of the variance due to 100 trees (a thirtieth out of bag). Correct intervals would therefore contain the truth
in 94 % of the cases.

The first table is by rows, framework, voting and number of classes; the second by problem; the last over all. "Held" is
the share of cases whose interval contains the truth. "Above, below" are the cases with the truth above or below the
interval. "Upper(0.8)" is the share of cases with the truth at most that. "Ends" is the geometric mean of the ratio of
the interval's ends; intervals without an upper end are left out and counted in brackets. "Needed" is the ratio that
unbiased, log-normal estimates with the same error would need. "Estimate" is the geometric mean of the estimate divided
by the truth.

With --models, forests and truths are stored in a folder and read from it. With --store, the result of each case is
stored in a file, and cases in this file are not sized again: give another file after the estimates change.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import forests
import joblib
import numpy as np
import problems
from problems import Rows

import rfsize
from rfsize.counting.outputs import TreeOutputs, outputs_of
from rfsize.counting.task import Task
from rfsize.estimation import soft
from rfsize.estimation.plugin import plug_in

KNOWN = ("twonorm", "ringnorm", "threenorm", "first_wave", "interactions")  # from other benchmarks, all of two classes
NEW_OF_TWO_CLASSES = ("bits", "flipped", "rare", "clusters", "few_of_many")
OF_MANY_CLASSES = ("five_clouds", "seven_regions", "ten_pictures")
PROBLEMS = (*KNOWN, *NEW_OF_TWO_CLASSES, *OF_MANY_CLASSES)
FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
FEW, MANY = 400, 100_000
TRAINING_ROWS = {FEW: FEW, MANY: 4000}
TREES, ALPHAS = 100, (0.95, 0.99)
TRUTH_FORESTS, TRUTH_TREES = 11, 101  # number of forests, and of trees in each; odd in total
TRUTH_ROWS = {FEW: 8000, MANY: MANY}

# The purposes that seeds are drawn for.
_TRAINING, _GIVEN, _TRUTH = range(3)


class Case(NamedTuple):
    """A forest of a problem, and how many rows it is sized on."""

    problem: str
    framework: str
    rows: int
    forest: int

    def draw(self, n_rows: int, purpose: int) -> Rows:
        """Rows of the problem; forests sized on many rows share training rows and truth."""
        number = 0 if self.rows == MANY and purpose != _GIVEN else self.forest
        return getattr(problems, self.problem)(n_rows, np.random.default_rng((purpose, self.rows, number)))

    def training_rows(self) -> Rows:
        """The training rows of the forest."""
        return self.draw(TRAINING_ROWS[self.rows], _TRAINING)

    def rows_given(self) -> np.ndarray:
        """Features of many rows; half of them are rows of the truth."""
        half = self.rows // 2
        of_truth, own = self.draw(TRUTH_ROWS[self.rows], _TRUTH), self.draw(self.rows - half, _GIVEN)
        return np.concatenate([of_truth[0][:half], own[0]])

    def with_common_truth(self) -> Case:
        """The case that names the file of the truth."""
        return self._replace(forest=0) if self.rows == MANY else self

    def path(self, folder: Path, suffix: str) -> Path:
        """The path of a file of the case."""
        return folder / f"{self.framework.replace(' ', '_')}-{self.problem}-{self.rows}-{self.forest}{suffix}"


def untrained(framework: str, n_trees: int, seed: int) -> Any:
    """A forest with usual settings, and trees so small that rows share leaves."""
    small = {
        "LightGBM": {"num_leaves": 31},
        "XGBoost": {"max_depth": 6, "colsample_bynode": 0.5},
        "random forest": {"max_leaf_nodes": 64},
    }
    return forests.forest(framework, n_trees, seed, columns=0.5).set_params(**small[framework])


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """The content of a file, which is made first if it is missing."""
    if not path.exists():
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        joblib.dump(make(), unfinished, compress=1)
        unfinished.rename(path)
    return joblib.load(path)


def forest(case: Case, folder: Path) -> Any:
    """The forest of 100 trees that is sized."""
    return kept(
        case.path(folder, ".forest"), lambda: untrained(case.framework, TREES, case.forest).fit(*case.training_rows())
    )


def truth(case: Case, folder: Path) -> dict[tuple[str, float], int | float]:
    """T* by voting and confidence."""
    case = case.with_common_truth()

    def sizes() -> dict[tuple[str, float], int | float]:
        whole = kept(case.path(folder, ".outputs"), lambda: outputs_of_many_trees(case))
        estimates = {"hard": plug_in(whole.votes), "soft": soft.plug_in(whole.scores, whole.predictor.raw_threshold)}
        return {(voting, alpha): found.size(alpha) for voting, found in estimates.items() for alpha in ALPHAS}

    return kept(case.path(folder, ".truth"), sizes)


def outputs_of_many_trees(case: Case) -> rfsize.TreeOutputs:
    """Joint outputs of other forests, trained on the same rows, on fresh rows."""
    training_rows, (fresh, _) = case.training_rows(), case.draw(TRUTH_ROWS[case.rows], _TRUTH)
    # A large forest would take longer than several small ones.
    forests = (
        untrained(case.framework, TRUTH_TREES, 1000 + number).fit(*training_rows) for number in range(TRUTH_FORESTS)
    )
    return reduce(together, (outputs_of(Task.of(model, fresh)) for model in forests))


def together(one: TreeOutputs, other: TreeOutputs) -> TreeOutputs:
    """The joint outputs of both forests' trees on the same rows."""
    sums = one.sums.plus(other.sums)
    return replace(one, voted=rfsize.Votes(sums.counts, one.classes), sums=sums)


def four(outputs: rfsize.TreeOutputs) -> Iterator[tuple[rfsize.Report, float]]:
    """Reports by both voting rules, at both alphas."""
    for voting in ("soft", "hard"):
        for alpha in ALPHAS:
            yield rfsize.size(outputs, voting=voting, alpha=alpha), alpha


def prepare(what: Callable[[Case, Path], Any], case: Case, folder: Path) -> None:
    """Make sure that a case's forest or truth is stored."""
    what(case, folder)


def outcomes(case: Case, folder: Path) -> list[dict[str, Any]]:
    """The results of a case: a record for each voting rule and each alpha."""
    model, sizes = forest(case, folder), truth(case, folder)
    if case.rows == FEW:
        outputs = rfsize.tree_outputs(model, *case.training_rows(), oob=True)
    else:
        outputs = rfsize.tree_outputs(model, case.rows_given())
    records = []
    for one, alpha in four(outputs):
        low, high = one.interval
        records.append(
            {
                **case._asdict(),
                "classes": "many" if case.problem in OF_MANY_CLASSES else "two",
                "voting": one.goal.voting,
                "alpha": alpha,
                "truth": finite(sizes[one.goal.voting, alpha]),
                "estimate": finite(one.n_trees),
                "low": finite(low),
                "high": finite(high),
                "upper": finite(one.upper(0.8)),
                "estimator": one._answer.estimate.name,
            }
        )
    return records


def finite(size: int | float) -> int | None:
    """A size as JSON has it."""
    return int(size) if math.isfinite(size) else None


def infinite(size: int | None) -> float:
    """A size as JSON had it."""
    return math.inf if size is None else float(size)


def cells(records: Sequence[dict[str, Any]]) -> list[str]:
    """Cells for the records of one alpha: held, misses, ends of the intervals, needed ends, estimates."""
    names = ("truth", "estimate", "low", "high", "upper")
    true, estimate, low, high, upper = np.array([[infinite(one[name]) for name in names] for one in records]).T
    with np.errstate(invalid="ignore"):
        ends, off = np.log(high / low), np.log(estimate / true)
    endless = ~np.isfinite(ends)
    off = off[np.isfinite(off)]

    def factor(log: float) -> str:
        return f"{math.exp(min(log, 99.0)):.3g}"

    return [
        f"{np.mean((low <= true) & (true <= high)):.0%}",
        f"{np.sum(true > high)}, {np.sum(true < low)}",
        f"{np.mean(true <= upper):.0%}",
        (factor(ends[~endless].mean()) if not endless.all() else "–")
        + (f" ({endless.sum()})" if endless.any() else ""),
        factor(3.92 * math.sqrt(np.mean(off**2))) if off.size else "–",
        factor(off.mean()) if off.size else "–",
    ]


def print_table(records: Sequence[dict[str, Any]], *by: str) -> None:
    """A Markdown table with a line for each value of some of the records' fields."""
    names = ("held", "above, below", "upper(0.8)", "ends", "needed", "estimate")
    header = [*by, "cases", *(f"{alpha:g}: {name}" for alpha in ALPHAS for name in names)]
    print("\n| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in records:
        groups.setdefault(tuple(one[field] for field in by), []).append(one)
    for values, group in sorted(groups.items()):
        of_alpha = [[one for one in group if one["alpha"] == alpha] for alpha in ALPHAS]
        line = [*(f"{value:,}" if isinstance(value, int) else value for value in values), f"{len(of_alpha[0])}"]
        print("| " + " | ".join(line + [cell for part in of_alpha for cell in cells(part)]) + " |")


def in_parallel(jobs: int, calls: Iterable[Any]) -> Iterator[Any]:
    """What the calls return, in the order in which they end."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)


def read(store: Path | None) -> list[dict[str, Any]]:
    """The records of a file."""
    if store is None or not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def trained(cases: Sequence[Case], folder: Path, jobs: int) -> None:
    """Train the forests, and those of the truths, that are not stored yet."""
    truths = dict.fromkeys(case.with_common_truth() for case in cases)
    calls = [(truth, case) for case in truths] + [(forest, case) for case in cases]
    for _ in in_parallel(jobs, (joblib.delayed(prepare)(what, case, folder) for what, case in calls)):
        pass


def measured(cases: Sequence[Case], folder: Path, store: Path | None, jobs: int) -> list[dict[str, Any]]:
    """The records of all cases; those that the file lacks are made and added to it."""
    stored: dict[Case, list[dict[str, Any]]] = {}
    for one in read(store):
        stored.setdefault(Case(*(one[field] for field in Case._fields)), []).append(one)
    found = [one for case in cases for one in stored.get(case, [])]
    new = [case for case in cases if case not in stored]
    for records in in_parallel(jobs, (joblib.delayed(outcomes)(case, folder) for case in new)):
        found += records
        if store is not None:
            with store.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS)
    parser.add_argument("--rows", nargs="+", type=int, choices=(FEW, MANY), default=(FEW, MANY))
    parser.add_argument("--forests", type=int, default=10, help="of each problem and framework")
    parser.add_argument("--models", type=Path, help="folder to keep forests and truths in, and to take them from")
    parser.add_argument("--store", type=Path, help="file to keep what the cases came to, and to take it from")
    parser.add_argument("--train", action="store_true", help="only train, and know the truths; with --models")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    cases = [
        Case(problem, framework, rows, forest)
        for problem in options.problems
        for rows in options.rows
        for framework in options.frameworks
        for forest in range(options.forests)
    ]
    with TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        trained(cases, folder, options.jobs)
        if options.train:
            return
        records = measured(cases, folder, options.store, options.jobs)
    print_table(records, "rows", "framework", "voting", "classes")
    print_table(records, "rows", "problem")
    print_table(records, "rows", "voting", "classes")


if __name__ == "__main__":
    main()
