"""Seconds to predict with a forest or a boosted model: the framework, rfsize, and the tools that serve such models.

    python benchmarks/inference.py --plot docs/inference.png
    python benchmarks/inference.py --shapes 2x501x255 7x200x127 0x501x255 --threads 1 2
    python benchmarks/inference.py --frameworks "random forest" --shapes 2x500x0
    python benchmarks/inference.py --boosted --shapes 2x500x31 2x1000x63 7x100x31 2x100x255 --rows 1 100 10000 100000

A shape is classes × trees × leaves; 0 classes are a regression, 0 leaves trees that are grown out. --plot draws a
picture of the first shape, and --threads predict more than one row.

One process calls all contenders in turn, several times; a contender that has taken 15 s is not called again. Times are
medians of all calls but the first of a turn, or the first five of more than ten. Calls get other rows as far as there
are, and one thread predicts a single row. × is the speed relative to the framework's own predict in the same run. Rows
are in double precision, or in the type that a tool takes or prefers. This conversion is not timed; the checks of rfsize
are.

"Trees" is the number that predicted a row. "Other labels" counts labels that differ from the framework's on 10,000
rows, and "off by" is the largest difference from its probabilities or numbers. With all trees, rfsize must give equal
labels, or the script fails. The stop table is certified for α = 0.99, on 10,000 rows of its own. "Ready in" is the
time to compile or convert. Needs rfsize[bench], and tl2cgen, lleaves and pylignum beside it; what is not installed is
left out.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from problems import Array, boosted, forest, parser, print_head, print_line, signals

import rfsize

CHECKED, CALIBRATED, COLUMNS = 10_000, 10_000, 20
# After ENOUGH seconds of calls on one number of rows, a contender is not called again. REST before each turn lets the
# threads of the previous contender go to sleep, for which OpenMP's wait a fifth of a second.
ENOUGH, REST = 15.0, 0.3
CALLS = 200  # on single rows in one turn of a contender


class Contender(NamedTuple):
    """A way to predict, and what its predictions are made of."""

    name: str
    predict: Callable[[Any], Any]
    X: Any
    labels: Callable[[Any], Array] | None = None  # of what `predict` returns
    scores: Callable[[Any], Array] | None = None
    n_used: float | None = None


def contenders(model: Any, X: Array, n_classes: int, threads: int, notes: dict[str, str]) -> Iterator[Contender]:
    """The framework first; ``notes`` say how long tools took to be ready, and why they cannot predict the model."""
    frame = pd.DataFrame(X, columns=[f"Column_{column}" for column in range(COLUMNS)])
    own, all_trees = frameworks_own(model, threads), timed("rfsize", notes, rfsize.compile, model, n_jobs=threads)
    same = np.asarray
    if not n_classes:
        yield Contender("its own `predict`", own, X, scores=same)
        yield Contender("rfsize, numbers", all_trees.predict, X, scores=same)
        yield Contender("rfsize, numbers of a DataFrame", all_trees.predict, frame, scores=same)
    else:
        yield Contender("its own `predict`", own, X, lambda p: p.argmax(axis=1), same)
        calibration = signals(CALIBRATED, np.random.default_rng(1))[0]
        table = rfsize.StopTable.calibrate(model, calibration, alpha=0.99)
        stopped = rfsize.compile(model, table, n_jobs=threads)
        trees = float(stopped.predict_labels(X[:CHECKED], return_trees=True)[1].mean())
        yield Contender("rfsize, labels", all_trees.predict_labels, X, same)
        yield Contender("rfsize, labels of a DataFrame", all_trees.predict_labels, frame, same)
        yield Contender("rfsize, labels, certified table", stopped.predict_labels, X, same, n_used=trees)
        yield Contender("rfsize, probabilities", all_trees.predict_proba, X, scores=same)
    for name, make in TOOLS.items():
        try:
            tool = timed(name, notes, make, model, X, n_classes, threads)
            tool.predict(tool.X[:2])
            yield tool
        except Exception as error:  # whatever a tool raises for a model that it does not take
            notes[name] = f"left out, {(str(error).splitlines() or [type(error).__name__])[0]}"


def timed(name: str, notes: dict[str, str], make: Callable[..., Any], *of: Any, **more: Any) -> Any:
    """What ``make`` returns, with a note of the seconds that it took."""
    began = time.perf_counter()
    made = make(*of, **more)
    notes.setdefault(name, f"ready in {time.perf_counter() - began:.2g} s")  # a second one may be cached
    return made


def frameworks_own(model: Any, threads: int) -> Callable[[Array], Array]:
    """The framework's fastest prediction of probabilities (of every class) or numbers."""
    if isinstance(model, lgb.LGBMModel):
        predict: Callable[[Array], Array] = lambda X: model.booster_.predict(X, num_threads=threads)  # noqa: E731
    elif isinstance(model, xgb.XGBModel):
        predict = model.get_booster().inplace_predict
        model.get_booster().set_param({"nthread": threads})
    else:
        model.set_params(n_jobs=threads)
        return model.predict_proba if hasattr(model, "classes_") else model.predict
    if getattr(model, "n_classes_", 0) != 2:
        return predict
    return lambda X: np.stack([1.0 - (p := predict(X)), p], axis=1)


def onnx_runtime(model: Any, X: Array, n_classes: int, threads: int) -> Contender:
    """Labels and probabilities in one call; the rows are in single precision, as the tool requires."""
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    kinds = {"lightgbm": onnxmltools.convert_lightgbm, "xgboost": onnxmltools.convert_xgboost}
    convert = kinds.get(type(model).__module__.split(".")[0], onnxmltools.convert_sklearn)
    more: dict[str, Any] = {"zipmap": False} if isinstance(model, lgb.LGBMModel) else {}
    graph = convert(model, initial_types=[("X", FloatTensorType([None, COLUMNS]))], **more)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    of = (lambda out: out[0], lambda out: out[1]) if n_classes else (None, lambda out: out[0][:, 0])
    return Contender("ONNX Runtime", lambda rows: session.run(None, {"X": rows}), X.astype(np.float32), *of)


@cache
def read_by_treelite(model: Any) -> Any:
    """The model as treelite reads it."""
    import treelite

    if isinstance(model, lgb.LGBMModel):
        return treelite.frontend.from_lightgbm(model.booster_)
    if isinstance(model, xgb.XGBModel):
        return treelite.frontend.from_xgboost(model.get_booster())
    return treelite.sklearn.import_model(model)


def both_classes(n_classes: int) -> Callable[[Any], Array]:
    """Makes the probabilities of all classes from what a tool predicts, which of two classes is that of class 1."""

    def scores(predicted: Any) -> Array:
        score = np.asarray(predicted).reshape(len(predicted), -1)
        is_single = n_classes == 2 and score.shape[1] == 1
        return np.hstack([1.0 - score, score]) if is_single else score if n_classes else score[:, 0]

    return scores


def in_its_type(model: Any, X: Array) -> Array:
    """Rows in the precision that the framework reads."""
    return X if isinstance(model, lgb.LGBMModel) else X.astype(np.float32)


def by_treelite(model: Any, X: Array, n_classes: int, threads: int) -> Contender:
    """treelite's reference implementation."""
    import treelite

    read = read_by_treelite(model)
    predict = lambda rows: treelite.gtil.predict(read, rows, nthread=threads)  # noqa: E731
    return Contender("treelite, reference", predict, in_its_type(model, X), None, both_classes(n_classes))


@cache
def library_by_tl2cgen(model: Any) -> Path:
    """The C that treelite's tl2cgen writes, compiled by gcc."""
    import tl2cgen

    library = Path(tempfile.mkdtemp()) / "model.so"
    tl2cgen.export_lib(read_by_treelite(model), "gcc", library, params={"parallel_comp": 32, "quantize": 1}, nthread=2)
    return library


def by_tl2cgen(model: Any, X: Array, n_classes: int, threads: int) -> Contender:
    """The compiled C of tl2cgen."""
    import tl2cgen

    predictor = tl2cgen.Predictor(library_by_tl2cgen(model), nthread=threads)
    predict = lambda rows: predictor.predict(tl2cgen.DMatrix(rows))  # noqa: E731
    return Contender("tl2cgen, compiled", predict, in_its_type(model, X), None, both_classes(n_classes))


@cache
def compiled_by_lleaves(model: Any) -> Any:
    """LightGBM's trees compiled by LLVM."""
    import lleaves

    compiled = lleaves.Model(model_file=in_a_file(model))
    compiled.compile()
    return compiled


def by_lleaves(model: Any, X: Array, n_classes: int, threads: int) -> Contender:
    """lleaves, which takes LightGBM's models alone."""
    compiled = compiled_by_lleaves(model)
    return Contender("lleaves", partial(compiled.predict, n_jobs=threads), X, None, both_classes(n_classes))


@cache
def read_by_lignum(model: Any, *, compiles: bool) -> Any:
    """The model as pylignum reads it."""
    import lignum

    read = lignum.load(in_a_file(model))
    if compiles:
        read.compile(library=str(Path(tempfile.mkdtemp()) / "model.so"))
    return read


def by_lignum(model: Any, X: Array, n_classes: int, threads: int, *, compiles: bool = False) -> Contender:
    """pylignum's interpreter, or the trees that it compiled."""
    predict = partial(read_by_lignum(model, compiles=compiles).predict, n_jobs=threads)
    name = "pylignum, compiled" if compiles else "pylignum"
    return Contender(name, predict, in_its_type(model, X), None, both_classes(n_classes))


def in_a_file(model: Any) -> str:
    """The path of a file with the model, in the framework's own format."""
    if isinstance(model, lgb.LGBMModel):
        path = Path(tempfile.mkdtemp()) / "model.txt"
        model.booster_.save_model(path)
    else:
        path = Path(tempfile.mkdtemp()) / "model.json"
        model.get_booster().save_model(path)
    return str(path)


TOOLS: dict[str, Callable[[Any, Array, int, int], Contender]] = {
    "ONNX Runtime": onnx_runtime,
    "treelite, reference": by_treelite,
    "tl2cgen, compiled": by_tl2cgen,
    "lleaves": by_lleaves,
    "pylignum": by_lignum,
    "pylignum, compiled": partial(by_lignum, compiles=True),
}


def seconds(contender: Contender, n_rows: int, starts: list[int]) -> list[float]:
    """Seconds of calls on ``n_rows`` rows, from each of the rows ``starts``; the first call, or five, do not count."""
    rows = getattr(contender.X, "iloc", contender.X)
    taken = []
    for start in starts:
        block = rows[start : start + n_rows]
        began = time.perf_counter()
        contender.predict(block)
        taken.append(time.perf_counter() - began)
    return taken[5:] if len(taken) > 10 else taken[1:]


def measure(contending: list[Contender], n_rows: int, repetitions: int) -> dict[str, float]:
    """Median seconds of each contender, which take turns; only single rows are predicted from a DataFrame."""
    calls = max(2, CALLS // int(np.sqrt(n_rows)))
    taken: dict[str, list[float]] = {c.name: [] for c in contending if n_rows == 1 or "DataFrame" not in c.name}
    for _, contender in itertools.product(range(repetitions), contending):
        if contender.name in taken and sum(taken[contender.name]) < ENOUGH:
            time.sleep(REST)
            taken[contender.name] += seconds(
                contender, n_rows, [call * n_rows % max(1, len(contender.X) - n_rows + 1) for call in range(calls)]
            )
    return {name: float(np.median(of)) for name, of in taken.items()}


def in_words(taken: float | None, own: float) -> str:
    """Seconds in a unit that gives a short number, and how many times as fast that is."""
    if taken is None:
        return ""
    unit, factor = next((u, f) for u, f in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if taken * f >= 0.1 or u == "µs")
    return f"{taken * factor:.3g} {unit}, {own / taken:.3g}×"


def print_shape(model: Any, X: Array, n_classes: int, options: argparse.Namespace) -> dict[str, float]:
    """Print a line for each contender; return the seconds for the most rows, and fail if labels of rfsize differ."""
    notes: dict[str, str] = {}
    many, single = (list(contenders(model, X, n_classes, threads, notes)) for threads in (options.threads, 1))
    print("\n".join([*(f"- {name}: {note}" for name, note in notes.items()), ""]))
    times = {n: measure(single if n == 1 else many, n, options.repetitions) for n in options.rows}
    truth = many[0].predict(X[:CHECKED])
    print_head("", *(f"{n:,} rows" for n in options.rows), "trees", "other labels", "off by")
    for contender in many:
        answer = contender.predict(contender.X[:CHECKED])
        others = np.mean(contender.labels(answer) != truth.argmax(axis=1)) if contender.labels else None
        off = np.abs(contender.scores(answer) - truth).max() if contender.scores else None
        cells = [in_words(times[n].get(contender.name), times[n][many[0].name]) for n in options.rows]
        n_used = "" if contender.n_used is None else f"{contender.n_used:.1f}"
        wrong = "" if others is None else f"{others:.2%}"
        print_line(contender.name, *cells, n_used, wrong, "" if off is None else f"{off:.1g}")
        is_exact = contender.name.startswith("rfsize") and contender.n_used is None
        if is_exact and (others or (off or 0.0) > 1e-6 * np.abs(truth).max()):
            sys.exit(f"{contender.name}: other answers than the framework's")
    return times[max(options.rows)]


def plot(results: dict[str, dict[str, float]], n_rows: int, path: Path) -> None:
    """Draw every contender's seconds for the most rows."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(10, 3.8), layout="constrained", sharex=True, squeeze=False)
    for axes, (title, of) in zip(panels[0], results.items(), strict=True):
        own = next(iter(of.values()))
        bars = axes.barh(
            list(of), list(of.values()), color=["C0" if name.startswith("rfsize") else "0.7" for name in of]
        )
        axes.bar_label(bars, [f" {taken:.2g} s ({own / taken:.3g}×)" for taken in of.values()], fontsize="small")
        axes.invert_yaxis()
        axes.set(xscale="log", title=title, xlabel=f"seconds for {n_rows:,} rows")
        axes.set_xlim(min(of.values()) / 2, max(of.values()) * 12)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, facecolor="white")


def main() -> None:
    """Print a table for each framework and shape."""
    lists = {"shapes": ["2x501x255", "2x101x31", "7x200x127", "0x501x255"], "rows": [1, 100, 100_000]}
    numbers = {"threads": 2, "repetitions": 5, "training_rows": 100_000}
    arguments = parser(__doc__, frameworks=("LightGBM", "XGBoost"), boosted=False, plot="", **lists, **numbers)
    options = arguments.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, LightGBM {lgb.__version__}, XGBoost {xgb.__version__}")
    rng = np.random.default_rng(0)
    X, signal = signals(options.training_rows, rng)
    rows, _ = signals(max(CHECKED, CALLS, *options.rows), rng)
    results: dict[str, dict[str, float]] = {}
    for shape, framework in itertools.product(options.shapes, options.frameworks):
        n_classes, trees, leaves = map(int, shape.split("x"))
        name = f"{framework}: {trees} trees of {leaves or 'all'} leaves"
        print(f"\n## {name}, {n_classes or 'no'} classes\n", flush=True)
        y = np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal) if n_classes else signal
        of: dict[str, Any] = {"regression": not n_classes, "n_jobs": -1}
        if options.boosted:
            untrained = boosted(framework, trees, leaves=leaves, random_state=1, **of)
        else:
            untrained = forest(framework, trees, 1, leaves=leaves or None, **of)
        times = print_shape(untrained.fit(X, y), rows, n_classes, options)
        if shape == options.shapes[0]:
            results[name] = times
    if options.plot:
        plot(results, max(options.rows), Path(options.plot))


if __name__ == "__main__":
    main()
