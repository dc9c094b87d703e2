"""Seconds to predict with a forest: the framework, rfsize, ONNX Runtime, treelite, and tools in other environments.

    python benchmarks/inference.py --environments FOLDER ... --plot docs/inference.png
    python benchmarks/inference.py --trees 101 501 2001 --leaves 31 255 --classes 2 7 26 --regression --threads 1 2

Without any of --trees, --leaves, --classes and --regression, these forests are measured, each by LightGBM and XGBoost:
two classes with 501 trees of 255 leaves and with 101 trees of 31; seven classes with 200 trees of 127; and a regression
with 501 trees of 255. This takes ten minutes, and with lleaves three more for each large LightGBM forest.

One process calls all contenders in turn, several times; a contender that has taken 15 s is not called again. Times are
medians of all calls; for single rows also the 99th percentile. Each call gets other rows, and one thread predicts a
single row. × is the speed relative to the framework's own predict in the same run. Rows are in double precision, or in
the type that a tool takes or prefers. This conversion is not timed; the checks of rfsize are.

"Trees" is the number asked per row. "Other labels" counts labels that differ from the framework's. "Off by" is the
largest difference from its probabilities or numbers. rfsize is compared on all rows, other tools on 10,000. With all
trees, rfsize must give equal predictions however it is called, or the script fails. Stop tables are for α = 0.99, from
10,000 rows of their own. Tables of votes give the majority vote, whose labels differ from those of averaged scores.
lleaves, oneDAL and nvForest are looked for in the virtual environments --environments; each runs in its own process, in
turn with the others. Needs rfsize[bench].
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from forests import train_lightgbm, train_xgboost
from inference_contenders import CHECKED_ROWS, Answer, Shape, Task, contenders, tools_in
from inference_report import Cell, Outcome, print_goals, print_outcomes
from inference_report import plot as plot_outcomes
from problems import FEATURES, signals

TRAINED, FOR_TABLES = 100_000, 10_000
TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}
USUAL = ((2, 501, 255), (2, 101, 31), (7, 200, 127), (0, 501, 255))

# After ENOUGH seconds of calls on one number of rows, a contender is not called again. REST before each call lets the
# threads of the previous contender go to sleep.
ENOUGH, REST = 15.0, 0.02

# Single-row calls in one turn of a contender; which number of rows counts as few; how much more often few are timed.
CALLS, FEW, MORE_OFTEN = 200, 1000, 4

# Rows that are also predicted one by one, a few at a time, and from a DataFrame, to compare the results.
ASKED_OTHERWISE = 500

# Largest error of rfsize's probabilities and numbers, relative to the largest of them: rounding in single precision.
ROUNDING = 1e-6


def objective(framework: str, n_classes: int) -> dict[str, Any]:
    """The parameters that say what a forest predicts."""
    names = {"LightGBM": ("regression", "binary", "multiclass")}
    numbers, two, many = names.get(framework, ("reg:squarederror", "binary:logistic", "multi:softprob"))
    if n_classes <= 2:
        return {"objective": two if n_classes else numbers}
    return {"objective": many, "num_class": n_classes}


def target(signal: np.ndarray, n_classes: int) -> np.ndarray:
    """The number itself, whether it is above 0, or which of many equally frequent classes it falls in."""
    if n_classes == 0:
        return signal
    if n_classes == 2:
        return (signal > 0).astype(int)
    return np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)


def measure(task: Task, cells: list[Cell], elsewhere: dict[str, Path], repetitions: int) -> dict[str, Outcome]:
    """Seconds and predictions of every contender, for each number of rows and threads."""
    outcomes: dict[str, Outcome] = {}
    left_out: dict[str, str] = {}
    for threads in sorted({cell.threads for cell in cells}):
        with ExitStack() as closing:
            found = list(contenders(task, threads, elsewhere, closing, left_out))
            for one in found:
                if one.name not in outcomes:
                    outcomes[one.name] = compared(one, task, [cell.n_rows for cell in cells])
            for cell in cells:
                if cell.threads == threads:
                    for name, taken in in_turn(found, cell.n_rows, len(task.X), repetitions).items():
                        outcomes[name].seconds[cell] = taken
    for name, reason in left_out.items():
        print(f"- left out: {name} ({reason})", flush=True)
    return outcomes


def in_turn(found: list[Any], n_rows: int, of_rows: int, repetitions: int) -> dict[str, list[float]]:
    """Seconds of every call on ``n_rows`` rows."""
    calls = max(1, CALLS // int(np.sqrt(n_rows)))
    taken: dict[str, list[float]] = {one.name: [] for one in found if n_rows == 1 or not one.only_one_row}
    for turn in range(repetitions * (MORE_OFTEN if n_rows < FEW else 1)):
        starts = [(turn * calls + call) * n_rows % (of_rows - n_rows + 1) for call in range(calls)]
        for one in found:
            if one.name in taken and sum(taken[one.name]) < ENOUGH:
                time.sleep(REST)
                taken[one.name] += one.seconds(n_rows, starts)
    return taken


def compared(one: Any, task: Task, numbers_of_rows: list[int]) -> Outcome:
    """How the predictions differ from the framework's; for rfsize on all rows, and by every way to call it."""
    mine = one.name.startswith("rfsize")
    n_rows = ASKED_OTHERWISE if one.only_one_row else len(task.X) if mine else min(CHECKED_ROWS, len(task.X))
    answer: Answer = one.answer(n_rows)
    outcome = Outcome(asked=answer.asked)
    if answer.labels is not None and task.labels is not None:
        outcome.other_labels = float(np.mean(answer.labels != task.labels[:n_rows]))
    if answer.scores is not None:
        outcome.off_by = float(np.abs(answer.scores - task.scores[:n_rows]).max())
    if one.equals:
        outcome.equal = all(is_equal(one, task, rows) for rows in {1, len(task.X), *numbers_of_rows})
    return outcome


def is_equal(one: Any, task: Task, n_rows: int) -> bool:
    """Whether rfsize's predictions equal the framework's, for ``n_rows`` rows at a time."""
    rows, allowed = getattr(one.X, "iloc", one.X), ROUNDING * np.abs(task.scores).max()
    for start in range(0, max(n_rows, ASKED_OTHERWISE) - n_rows + 1, n_rows):
        of = slice(start, start + n_rows)
        answer: Answer = one.read(one.predict(rows[of]))
        if answer.labels is not None and task.labels is not None and (answer.labels != task.labels[of]).any():
            return False
        if answer.scores is not None and np.abs(answer.scores - task.scores[of]).max() > allowed:
            return False
    return True


def shapes(options: argparse.Namespace) -> list[tuple[int, int, int]]:
    """Classes, trees and leaves of the forests that are asked for."""
    if not (options.trees or options.leaves or options.classes or options.regression):
        return list(USUAL)
    classes = options.classes or ([] if options.regression else [2])
    classes = classes + ([0] if options.regression else [])
    return list(itertools.product(classes, options.trees or [501], options.leaves or [255]))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", choices=list(TRAIN), default=list(TRAIN))
    parser.add_argument("--trees", type=int, nargs="+")
    parser.add_argument("--leaves", type=int, nargs="+")
    parser.add_argument("--classes", type=int, nargs="+")
    parser.add_argument("--regression", action="store_true")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100, 100_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--training-rows", type=int, default=TRAINED)
    parser.add_argument("--environments", type=Path, nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"LightGBM {lgb.__version__}, XGBoost {xgb.__version__}; {FEATURES} features"
    )
    elsewhere = tools_in(options.environments)
    cells = sorted({Cell(rows, 1 if rows == 1 else threads) for rows in options.rows for threads in options.threads})
    rng = np.random.default_rng(0)
    X, signal = signals(rng, options.training_rows)
    rows, for_tables = (signals(rng, n)[0] for n in (max(CHECKED_ROWS, *options.rows), FOR_TABLES))
    results: dict[Shape, dict[str, Outcome]] = {}
    for (n_classes, trees, leaves), framework in itertools.product(shapes(options), options.frameworks):
        shape = Shape(framework, n_classes, trees, leaves)
        print(f"\n## {shape}\n", flush=True)
        model = TRAIN[framework](X, target(signal, n_classes), trees, leaves, **objective(framework, n_classes))
        with tempfile.TemporaryDirectory() as folder:
            task = Task(shape, model, rows, for_tables, Path(folder))
            results[shape] = measure(task, cells, elsewhere, options.repetitions)
        print_outcomes(results[shape], cells)
    print_goals(results)
    if options.plot is not None:
        plot_outcomes(results, options.plot)
    different = [f"{shape}: {name}" for shape in results for name, one in results[shape].items() if not one.equal]
    if different:
        sys.exit("\nother answers than the framework's: " + "; ".join(different))


if __name__ == "__main__":
    main()
