"""Seconds to predict with YDF and fastforest, compared with rfsize on forests of equal size.

    python benchmarks/inference_own_forests.py

YDF and fastforest do not read models of LightGBM or XGBoost, so each trains its own forest with the same number of
trees on the same rows. YDF's trees have the same depth. fastforest has no parameter for depth; its min_node_size is
chosen so that its trees have about as many leaves as YDF's. All forests differ, so leaves, depth and accuracy on fresh
rows are printed with the times. rfsize compiles the forests of XGBoost and LightGBM. All predict probabilities of two
classes.

YDF gets a dict of columns, and its own data sets; fastforest gets NumPy and Arrow. None of these conversions is timed.
Times are medians of all calls, taken in turn, in one process for each number of threads, because fastforest reads that
number only when it starts. One thread predicts a single row. Needs rfsize[bench].
"""

from __future__ import annotations

import argparse
import importlib.metadata
import multiprocessing
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import fastforest
import lightgbm as lgb
import numpy as np
import pyarrow as pa
import xgboost as xgb
import ydf
from forests import train_lightgbm, train_xgboost
from inference import in_turn
from inference_contenders import Answer, Contender
from inference_report import Cell, duration
from problems import FEATURES, draw

import rfsize

ydf.verbose(0)

# The names that fastforest gives to the columns of an array.
COLUMNS = [f"x{column}" for column in range(FEATURES)]


class Grown(NamedTuple):
    """A forest's size."""

    leaves: float  # of a tree
    deepest: int


class Measured(NamedTuple):
    """The result of one contender with one number of threads."""

    seconds: dict[Cell, list[float]]
    accuracy: float


class Converted:
    """Rows converted for a tool; `seconds_of` takes its blocks before it starts the clock."""

    def __init__(self, X: np.ndarray, convert: Callable[[np.ndarray], Any]) -> None:
        self._X = X
        self._convert = convert

    def __getitem__(self, rows: slice) -> Any:
        return self._convert(self._X[rows])


def as_columns(X: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(column) for name, column in zip(COLUMNS, X.T, strict=True)}


def train(X: np.ndarray, y: np.ndarray, trees: int, depth: int, folder: Path) -> dict[str, Grown]:
    """Train all forests and save them in ``folder``; returns their sizes by tool."""
    by_xgboost = train_xgboost(X, y, trees, 2**depth, max_depth=depth)
    by_xgboost.save_model(folder / "xgboost.ubj")
    by_lightgbm = train_lightgbm(X, y, trees, 2**depth, max_depth=depth)
    by_lightgbm.save_model(folder / "lightgbm.txt")
    by_ydf = train_ydf(X, y, trees, depth)
    by_ydf.save(str(folder / "ydf"))
    size_of_ydf = Grown(np.mean([leaves(tree.root) for tree in by_ydf.iter_trees()]), depth)
    by_fastforest = train_fastforest(X, y, trees, size_of_ydf.leaves)
    by_fastforest.save(folder / "fastforest.ffm")
    return {
        "XGBoost": Grown(sum(tree.count("leaf=") for tree in by_xgboost.get_dump()) / trees, depth),
        "LightGBM": Grown(np.mean([tree["num_leaves"] for tree in by_lightgbm.dump_model()["tree_info"]]), depth),
        "YDF": size_of_ydf,
        "fastforest": Grown(by_fastforest.tree_leaf_counts_.mean(), int(by_fastforest.tree_depths_.max())),
    }


def train_ydf(X: np.ndarray, y: np.ndarray, trees: int, depth: int) -> Any:
    """YDF's default settings, except that trees give probabilities; in YDF a single root has depth 1."""
    learner = ydf.RandomForestLearner(
        "y", num_trees=trees, max_depth=depth + 1, winner_take_all=False, compute_oob_performances=False
    )
    return learner.train({**as_columns(X), "y": y})


def leaves(node: Any) -> int:
    return 1 if node.is_leaf else leaves(node.neg_child) + leaves(node.pos_child)


def train_fastforest(X: np.ndarray, y: np.ndarray, trees: int, leaves: float) -> Any:
    """fastforest's default settings; if nodes below a number of rows are not split, leaves have about half of it."""
    return fastforest.FastForestClassifier(n_trees=trees, min_node_size=round(2 * len(X) / leaves), seed=1).fit(X, y)


def contenders(folder: Path, X: np.ndarray, threads: int) -> Iterator[Contender]:
    """All contenders; each name begins with the tool that trained the forest."""
    single = X.astype(np.float32)
    for framework, model in (
        ("XGBoost", xgb.Booster(model_file=folder / "xgboost.ubj")),
        ("LightGBM", lgb.Booster(model_file=folder / "lightgbm.txt")),
    ):
        compiled = rfsize.compile(model, n_jobs=threads)
        yield Contender(f"{framework}: rfsize", compiled.predict_proba, X, of_two_columns)

    model = ydf.load_model(str(folder / "ydf"))

    def by_ydf(rows: Any) -> np.ndarray:
        return model.predict(rows, num_threads=threads)

    def as_dataset(rows: np.ndarray) -> Any:
        return ydf.create_vertical_dataset(
            as_columns(rows), data_spec=model.data_spec(), required_columns=model.input_feature_names()
        )

    yield Contender("YDF: YDF, columns", by_ydf, Converted(single, as_columns), of_one_column)
    yield Contender("YDF: YDF, its data sets", by_ydf, Converted(single, as_dataset), of_one_column)

    predict = fastforest.load(folder / "fastforest.ffm").predict_proba
    table = pa.RecordBatch.from_pydict(as_columns(X))
    yield Contender("fastforest: fastforest, NumPy", predict, X, of_two_columns)
    yield Contender("fastforest: fastforest, Arrow", predict, table, of_two_columns)


def of_one_column(probability: np.ndarray) -> Answer:
    return Answer((probability > 0.5).astype(int), probability)


def of_two_columns(probability: np.ndarray) -> Answer:
    return of_one_column(probability[:, 1])


def measure(folder: Path, X: np.ndarray, y: np.ndarray, cells: list[Cell], repetitions: int) -> dict[str, Measured]:
    """Seconds of all contenders for ``cells``, which have one number of threads; runs in its own process."""
    found = list(contenders(folder, X, cells[0].threads))
    accuracy = {one.name: float(np.mean(one.answer(len(X)).labels == y)) for one in found}
    taken = {cell: in_turn(found, cell.n_rows, len(X), repetitions) for cell in cells}
    return {name: Measured({cell: taken[cell][name] for cell in cells}, accuracy[name]) for name in accuracy}


def with_threads(threads: int, *arguments: Any) -> dict[str, Measured]:
    """Call `measure` in a new process that has ``threads``."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def print_table(grown: dict[str, Grown], measured: dict[str, Measured], cells: list[Cell]) -> None:
    print(
        "\n| forest of | predicted by | leaves a tree | depth, at most | accuracy | "
        + " | ".join(map(str, cells))
        + " |"
    )
    print("|" + "---|" * (5 + len(cells)))
    for name, one in measured.items():
        trained_by, predicted_by = name.split(": ")
        size = grown[trained_by]
        times = [duration(float(np.median(one.seconds[cell]))) for cell in cells]
        line = [trained_by, predicted_by, f"{size.leaves:.0f}", f"{size.deepest}", f"{one.accuracy:.2%}", *times]
        print("| " + " | ".join(line) + " |")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--depth", type=int, default=9)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100, 100_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--training-rows", type=int, default=100_000)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    versions = [f"{tool} {importlib.metadata.version(tool)}" for tool in ("ydf", "fastforest")]
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"LightGBM {lgb.__version__}, XGBoost {xgb.__version__}, {', '.join(versions)}\n\n"
        f"{options.trees} trees of depth {options.depth}, {options.training_rows:,} rows of {FEATURES} features. "
        "YDF and fastforest read no other tool's model: each predicts with another forest, which it trained itself.",
        flush=True,
    )
    rng = np.random.default_rng(0)
    X, y = draw(rng, options.training_rows)
    fresh, truth = draw(rng, max(10_000, *options.rows))
    cells = sorted({Cell(rows, 1 if rows == 1 else threads) for rows in options.rows for threads in options.threads})
    measured: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        grown = train(X, y, options.trees, options.depth, Path(folder))
        for threads in sorted({cell.threads for cell in cells}):
            of_threads = [cell for cell in cells if cell.threads == threads]
            for name, one in with_threads(threads, Path(folder), fresh, truth, of_threads, options.repetitions).items():
                measured.setdefault(name, one).seconds.update(one.seconds)
    print_table(grown, measured, cells)


if __name__ == "__main__":
    main()
