"""Seconds to predict 100,000 rows, and microseconds for one: rfsize, the frameworks, ONNX Runtime, treelite.

    python benchmarks/inference.py [--trees 101 501 2001] [--leaves 31 255] [--plot inference.png]

Every contender predicts the same rows in turn, several times; the median counts. Conversions that a tool refuses,
and C code that takes long to compile (more than about 20,000 leaves), are left out. The stop table's prior is the
votes on 20,000 other rows; disagreement is with the labels of the whole forest. Needs rfsize[bench].
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from forests import train_lightgbm, train_xgboost
from problems import FEATURES, draw

import rfsize

ROWS, ALPHA = 100_000, 0.99
REPETITIONS, SINGLE_ROWS = 5, 400
MOST_LEAVES_IN_C = 20_000

Predict = Callable[[np.ndarray], Any]


class Outcome(NamedTuple):
    """Of one contender on one forest."""

    seconds: float
    microseconds_for_one: float
    asked: float | None = None
    disagreement: float | None = None
    megabytes: float | None = None


def onnx_runtime(model: Any) -> Predict:
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [("X", FloatTensorType([None, FEATURES]))]
    is_lightgbm = isinstance(model, lgb.Booster)
    convert = onnxmltools.convert_lightgbm if is_lightgbm else onnxmltools.convert_xgboost
    graph = convert(model, initial_types=inputs, **({"zipmap": False} if is_lightgbm else {}))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda X: session.run(None, {"X": X.astype(np.float32)})


def treelite_model(model: Any) -> Any:
    import treelite

    if isinstance(model, lgb.Booster):
        return treelite.frontend.from_lightgbm(model)
    return treelite.frontend.from_xgboost(model)


def treelite_reference(model: Any) -> Predict:
    import treelite

    converted, kind = treelite_model(model), np.float64 if isinstance(model, lgb.Booster) else np.float32
    return lambda X: treelite.gtil.predict(converted, X.astype(kind))


def treelite_c(model: Any, folder: Path) -> Predict:
    import tl2cgen

    library = folder / "forest.so"
    started = time.perf_counter()
    tl2cgen.export_lib(treelite_model(model), toolchain="gcc", libpath=library, params={"parallel_comp": 8})
    print(f"    compiled to C in {time.perf_counter() - started:.0f} s")
    predictor = tl2cgen.Predictor(library)
    kind = np.float64 if isinstance(model, lgb.Booster) else np.float32
    return lambda X: predictor.predict(tl2cgen.DMatrix(X.astype(kind)))


def contenders(model: Any, other_rows: np.ndarray, leaves: int, folder: Path) -> dict[str, Predict]:
    fast = rfsize.compile(model)
    prior = fast.votes(other_rows)
    found: dict[str, Predict] = {}
    if isinstance(model, lgb.Booster):
        found["framework"] = model.predict
    else:
        found["framework"] = model.inplace_predict
    found["rfsize, all trees"] = fast.predict
    for rule in ("threshold", "optimal"):
        table = rfsize.StopTable.build(fast.n_trees, alpha=ALPHA, prior=prior, rule=rule)
        found[f"rfsize, {rule} table"] = rfsize.compile(model, table).predict
    others = {"ONNX Runtime": lambda: onnx_runtime(model), "treelite reference": lambda: treelite_reference(model)}
    if fast.n_trees * leaves <= MOST_LEAVES_IN_C:
        others["treelite C"] = lambda: treelite_c(model, folder)
    for name, make in others.items():
        try:
            found[name] = make()
        except Exception as error:
            reason = str(error).splitlines()[:1]
            print(f"    left out: {name} ({type(error).__name__}: {reason})")
    return found


def measure(model: Any, X: np.ndarray, other_rows: np.ndarray, leaves: int) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        predicts = contenders(model, other_rows, leaves, Path(folder))
        batch: dict[str, list[float]] = {name: [] for name in predicts}
        for predict in predicts.values():
            predict(X[:1000])
        for _ in range(REPETITIONS):
            for name, predict in predicts.items():
                started = time.perf_counter()
                predict(X)
                batch[name].append(time.perf_counter() - started)
        single = {name: one_by_one(predict, X) for name, predict in predicts.items()}
    whole = predicts["rfsize, all trees"](X)
    outcomes = {}
    for name, predict in predicts.items():
        asked = disagreement = megabytes = None
        if name.startswith("rfsize"):
            labels, trees = predict(X, return_trees=True)
            asked, disagreement = float(trees.mean()), float(np.mean(labels != whole))
            forest = predict.__self__.forest
            megabytes = sum(array.nbytes for array in (*forest.trees, *forest.columns)) / 1e6
        elif name == "framework":
            raw = model.model_to_string() if isinstance(model, lgb.Booster) else model.save_raw("ubj")
            megabytes = len(raw) / 1e6
        outcomes[name] = Outcome(float(np.median(batch[name])), single[name], asked, disagreement, megabytes)
    return outcomes


def one_by_one(predict: Predict, X: np.ndarray) -> float:
    """Median microseconds for one row, each time another one."""
    taken = []
    for row in range(SINGLE_ROWS):
        one = X[row : row + 1]
        started = time.perf_counter()
        predict(one)
        taken.append(time.perf_counter() - started)
    return 1e6 * float(np.median(taken))


def report(framework: str, trees: int, leaves: int, outcomes: dict[str, Outcome]) -> None:
    base = outcomes["framework"]
    print(f"\n{framework}, {trees:,} trees of {leaves} leaves")
    print(f"  {'':24}{'batch':>9}{'ratio':>8}{'one row':>11}{'ratio':>8}{'trees':>8}{'differ':>9}{'size':>10}")
    for name, outcome in outcomes.items():
        line = f"  {framework + '.predict' if name == 'framework' else name:24}{outcome.seconds:>7.3f} s"
        line += f"{base.seconds / outcome.seconds:>7.1f}x{outcome.microseconds_for_one:>8,.0f} us"
        line += f"{base.microseconds_for_one / outcome.microseconds_for_one:>7.1f}x"
        if outcome.asked is not None:
            line += f"{outcome.asked:>8.1f}{outcome.disagreement:>9.2%}"
        elif outcome.megabytes is not None:
            line += " " * 17
        if outcome.megabytes is not None:
            line += f"{outcome.megabytes:>7.1f} MB"
        print(line, flush=True)


def plot(results: dict[tuple[str, int, int], dict[str, Outcome]], path: Path) -> None:
    """Batch seconds of every contender on the forests of 501 trees of 255 leaves, or the largest measured."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharex=True)
    for ax, framework in zip(axes, ("LightGBM", "XGBoost"), strict=True):
        sizes = [key for key in results if key[0] == framework]
        key = next((size for size in sizes if size[1:] == (501, 255)), sizes[-1])
        outcomes = results[key]
        names = [f"{framework}.predict" if name == "framework" else name for name in outcomes]
        seconds = [outcome.seconds for outcome in outcomes.values()]
        colours = ["C0" if name.startswith("rfsize") else "0.7" for name in names]
        bars = ax.barh(names[::-1], seconds[::-1], color=colours[::-1])
        ax.bar_label(bars, [f" {second:.2g} s" for second in seconds[::-1]], fontsize="small")
        ax.set_xscale("log")
        ax.set_xlim(min(seconds) / 2, max(seconds) * 4)
        ax.set_title(f"{framework}: {key[1]} trees of {key[2]} leaves", fontsize="medium")
        ax.set_xlabel(f"seconds for {ROWS:,} rows")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, nargs="+", default=[101, 501, 2001])
    parser.add_argument("--leaves", type=int, nargs="+", default=[31, 255])
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"LightGBM {lgb.__version__}, XGBoost {xgb.__version__}; {ROWS:,} rows of {FEATURES} features, alpha = {ALPHA}"
    )
    rng = np.random.default_rng(0)
    train, (X, _), (other_rows, _) = draw(rng, ROWS), draw(rng, ROWS), draw(rng, 20_000)
    results = {}
    for framework, fit in (("LightGBM", train_lightgbm), ("XGBoost", train_xgboost)):
        for leaves in options.leaves:
            for trees in options.trees:
                outcomes = measure(fit(*train, trees, leaves), X, other_rows, leaves)
                results[framework, trees, leaves] = outcomes
                report(framework, trees, leaves, outcomes)
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
