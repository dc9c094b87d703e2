"""The contenders of `inference.py`: the framework, rfsize, and other tools in this environment and in others."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pandas as pd
from inference_timing import seconds_of
from problems import FEATURES

import rfsize

ALPHA = 0.99
MOST_LEAVES_IN_C = 20_000

# Other tools are compared with the framework on this number of rows, rfsize on all.
CHECKED_ROWS = 10_000

# Seconds that a tool of another environment may take to convert a model, or to answer one question.
PATIENCE = 180


class Shape(NamedTuple):
    """The shape of a forest; ``n_classes`` is 0 for regression."""

    framework: str
    n_classes: int
    trees: int
    leaves: int

    def __str__(self) -> str:
        kind = f"{self.n_classes} classes" if self.n_classes else "regression"
        return f"{self.framework}, {kind}, {self.trees:,} trees of {self.leaves} leaves"


@dataclass(frozen=True)
class Task:
    """A forest, rows to predict, and other rows to make tables from."""

    shape: Shape
    model: Any
    X: np.ndarray
    table_rows: np.ndarray
    folder: Path

    @cached_property
    def is_lightgbm(self) -> bool:
        return isinstance(self.model, lgb.Booster)

    @cached_property
    def own_kind(self) -> np.ndarray:
        """The rows in the precision of the framework, for tools that take any."""
        return self.X if self.is_lightgbm else self.X.astype(np.float32)

    @cached_property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.X, columns=[f"Column_{column}" for column in range(FEATURES)])

    @cached_property
    def scores(self) -> np.ndarray:
        """The framework's predictions of all rows."""
        return np.asarray((self.model.predict if self.is_lightgbm else self.model.inplace_predict)(self.X))

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The labels of these predictions."""
        return self.labels_of(self.scores)

    def labels_of(self, scores: np.ndarray) -> np.ndarray | None:
        """Labels by the highest probability, as in the frameworks' classifiers."""
        if not self.shape.n_classes:
            return None
        return scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.5).astype(np.int64)

    @cached_property
    def tables(self) -> dict[str, rfsize.StopTable]:
        """Stop tables by voting rule."""
        votes = rfsize.tree_outputs(self.model, self.table_rows).votes
        return {
            "certified table": rfsize.StopTable.calibrate(self.model, self.table_rows, alpha=ALPHA),
            "table of votes": rfsize.StopTable.build(votes.n_trees, alpha=ALPHA, prior=votes),
        }

    @cached_property
    def file(self) -> Path:
        """The model, as its framework writes it."""
        path = self.folder / f"model.{'txt' if self.is_lightgbm else 'ubj'}"
        self.model.save_model(path)
        return path

    @cached_property
    def rows_file(self) -> Path:
        path = self.folder / "rows.npy"
        np.save(path, self.X)
        return path


class Answer(NamedTuple):
    """Labels, and numbers or probabilities (of class 1, or of each class); None if the contender does not give them."""

    labels: np.ndarray | None
    scores: np.ndarray | None
    asked: float | None = None


@dataclass(frozen=True)
class Contender:
    """Predicts in this process: calls of ``predict``, which `read` turns into an answer."""

    name: str
    predict: Callable[[Any], Any]
    X: Any
    read: Callable[[Any], Answer]
    equals: bool = False  # whether it promises the framework's labels, or numbers
    only_one_row: bool = False
    asked: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None = None

    def seconds(self, n_rows: int, starts: Sequence[int]) -> list[float]:
        return seconds_of(self.predict, self.X, n_rows, starts)

    def answer(self, n_rows: int) -> Answer:
        found = self.read(self.predict(self.X[:n_rows]))
        return found if self.asked is None else found._replace(asked=float(self.asked(self.X[:n_rows])[1].mean()))


class Elsewhere:
    """Predicts in another environment, by `inference_elsewhere.py`, which gets the model's file and the rows."""

    equals = only_one_row = False

    def __init__(self, tool: str, python: Path, task: Task, threads: int) -> None:
        self._task = task
        arguments = [tool, str(task.file), str(task.rows_file), str(task.shape.n_classes), str(threads)]
        self._process = subprocess.Popen(
            [str(python), str(_script()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        greeting = self._line()
        if "refused" in greeting:
            self.close()
            raise ValueError(greeting["refused"])
        self.name = f"{tool} {greeting['version']}"

    def seconds(self, n_rows: int, starts: Sequence[int]) -> list[float]:
        return self._ask({"n_rows": n_rows, "starts": list(starts)})

    def answer(self, n_rows: int) -> Answer:
        scores = np.load(self._ask({"n_rows": n_rows, "predict": str(self._task.folder / "answer.npy")}))
        return Answer(self._task.labels_of(scores), scores)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._line()

    def _line(self) -> Any:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], PATIENCE)[0]:
            self.close()
            raise TimeoutError(f"no answer within {PATIENCE} s")
        line = out.readline()
        if not line:
            self.close()
            raise RuntimeError(f"its process ended with status {self._process.returncode}")
        return json.loads(line)


def _script() -> Path:
    return Path(__file__).with_name("inference_elsewhere.py")


def tools_in(environments: Sequence[Path]) -> dict[str, Path]:
    """The Python of each tool that is installed in virtual environments."""
    found = {}
    for folder in environments:
        python = folder / "bin" / "python"
        tools = subprocess.run([str(python), str(_script())], capture_output=True, text=True, check=True)
        found.update(dict.fromkeys(json.loads(tools.stdout), python))
    return found


def contenders(
    task: Task, threads: int, elsewhere: dict[str, Path], closing: ExitStack, left_out: dict[str, str]
) -> Iterator[Any]:
    """All contenders, the framework first; ``left_out`` gets tools that cannot predict the forest, with the reason."""
    yield framework(task, threads)
    yield from compiled(task, threads)
    makers: dict[str, Callable[[], Any]] = {
        "ONNX Runtime": lambda: onnx_runtime(task, threads),
        "treelite, reference": lambda: treelite_reference(task, threads),
        "treelite, C": lambda: treelite_c(task, threads),
    }
    for tool in ("lleaves", "oneDAL", "nvForest"):
        makers[tool] = partial(another, tool, elsewhere, task, threads, closing)
    for name, make in makers.items():
        if name in left_out:
            continue
        try:
            yield make()
        except Exception as error:
            left_out[name] = (str(error).splitlines() or [type(error).__name__])[0]


def framework(task: Task, threads: int) -> Contender:
    model = task.model

    def read(predicted: np.ndarray) -> Answer:
        return Answer(task.labels_of(predicted), predicted)

    if task.is_lightgbm:
        return Contender("`Booster.predict`", lambda X: model.predict(X, num_threads=threads), task.X, read)
    model.set_param({"nthread": threads})
    return Contender("`Booster.inplace_predict`", model.inplace_predict, task.X, read)


def compiled(task: Task, threads: int) -> Iterator[Contender]:
    """rfsize's contenders."""
    fast = rfsize.compile(task.model, n_jobs=threads)
    of_frame: dict[str, Any] = {"equals": True, "only_one_row": True}
    if not task.shape.n_classes:
        yield Contender("rfsize, numbers", fast.predict, task.X, _scores_only, equals=True)
        yield Contender("rfsize, numbers of a DataFrame", fast.predict, task.frame, _scores_only, **of_frame)
        return
    yield Contender("rfsize, labels", fast.predict_labels, task.X, _labels_only, equals=True, asked=_asked(fast))
    for name, table in task.tables.items():
        quick = rfsize.compile(task.model, table, n_jobs=threads)
        yield Contender(f"rfsize, labels, {name}", quick.predict_labels, task.X, _labels_only, asked=_asked(quick))
    yield Contender("rfsize, labels of a DataFrame", fast.predict_labels, task.frame, _labels_only, **of_frame)

    def read(probability: np.ndarray) -> Answer:
        scores = probability if task.shape.n_classes > 2 else probability[:, 1]
        return Answer(None, scores)

    yield Contender("rfsize, probabilities", fast.predict_proba, task.X, read, equals=True)
    yield Contender("rfsize, probabilities of a DataFrame", fast.predict_proba, task.frame, read, **of_frame)


def _asked(fast: rfsize.CompiledForest) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    return lambda X: fast.predict_labels(X, return_trees=True)


def _labels_only(labels: np.ndarray) -> Answer:
    return Answer(labels, None)


def _scores_only(scores: np.ndarray) -> Answer:
    return Answer(None, scores)


def onnx_runtime(task: Task, threads: int) -> Contender:
    """Labels and probabilities in one call; the rows are in single precision, as the tool requires."""
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    convert = onnxmltools.convert_lightgbm if task.is_lightgbm else onnxmltools.convert_xgboost
    as_arrays = {"zipmap": False} if task.is_lightgbm else {}
    graph = convert(task.model, initial_types=[("X", FloatTensorType([None, FEATURES]))], **as_arrays)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def read(predicted: list[np.ndarray]) -> Answer:
        if not task.shape.n_classes:
            return Answer(None, predicted[0][:, 0])
        labels, probability = predicted
        return Answer(labels, probability if task.shape.n_classes > 2 else probability[:, 1])

    return Contender("ONNX Runtime", lambda X: session.run(None, {"X": X}), task.X.astype(np.float32), read)


def _treelite(task: Task) -> Any:
    import treelite

    read = treelite.frontend.from_lightgbm if task.is_lightgbm else treelite.frontend.from_xgboost
    return read(task.model)


def _read_treelite(task: Task) -> Callable[[np.ndarray], Answer]:
    def read(predicted: np.ndarray) -> Answer:
        scores = predicted[:, 0] if task.shape.n_classes > 2 else predicted[:, 0, 0]
        return Answer(task.labels_of(scores), scores)

    return read


def treelite_reference(task: Task, threads: int) -> Contender:
    import treelite

    model, read = _treelite(task), _read_treelite(task)
    return Contender(
        "treelite, reference", lambda X: treelite.gtil.predict(model, X, nthread=threads), task.own_kind, read
    )


def treelite_c(task: Task, threads: int) -> Contender:
    import tl2cgen

    shape = task.shape
    leaves = shape.trees * shape.leaves * (shape.n_classes if shape.n_classes > 2 else 1)
    if leaves > MOST_LEAVES_IN_C:
        raise ValueError(f"{leaves:,} leaves take a C compiler minutes, more than {MOST_LEAVES_IN_C:,} are not tried")
    library = task.folder / "forest.so"
    with redirect_stdout(sys.stderr):
        if not library.exists():
            tl2cgen.export_lib(_treelite(task), toolchain="gcc", libpath=library, params={"parallel_comp": 8})
        predictor = tl2cgen.Predictor(library, nthread=threads)
    return Contender(
        "treelite, C", lambda X: predictor.predict(tl2cgen.DMatrix(X)), task.own_kind, _read_treelite(task)
    )


def another(tool: str, elsewhere: dict[str, Path], task: Task, threads: int, closing: ExitStack) -> Elsewhere:
    if tool not in elsewhere:
        raise ValueError("none of the --environments has it")
    found = Elsewhere(tool, elsewhere[tool], task, threads)
    closing.callback(found.close)
    return found
