"""How much memory `max_memory` reserves, compared with the memory that a process really takes.

    python benchmarks/memory.py
    python benchmarks/memory.py --rows 4000000 --classes 2 --frameworks LightGBM

Forests of 30 trees are asked about rows of four columns in single precision, which are in memory. Each line is its own
process, which asked the same of a few rows before. "Taken" is the peak above what the process held before. "Allowed" is
the smallest `max_memory` with which rfsize takes the rows. It needs Linux, which reports the peak since a moment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import rfsize

TREES, LEAVES, COLUMNS, FEW = 30, 7, 4, 20_000
REGRESSION = 0

Ask = Callable[..., Any]
ASKED: dict[str, Ask] = {
    "tree outputs": lambda model, X, y, **more: rfsize.tree_outputs(model, X, y, **more),
    "size, labels": lambda model, X, y, **more: rfsize.size(rfsize.tree_outputs(model, X, y, **more), alpha=0.95),
    "size, log loss": lambda model, X, y, **more: rfsize.size(
        rfsize.tree_outputs(model, X, y, **more), metric="log_loss", tolerance=0.001
    ),
}
ASKED_OF_REGRESSION: dict[str, Ask] = {
    "tree outputs": ASKED["tree outputs"],
    "size, RMSE": lambda model, X, y, **more: rfsize.size(
        rfsize.tree_outputs(model, X, y, **more), metric="rmse", tolerance=0.001
    ),
}
OUT_OF_BAG: dict[str, Ask] = {
    "tree outputs, out of bag": lambda model, X, y, **more: rfsize.tree_outputs(model, X, y, oob=True, **more),
    "oob_score": lambda model, X, y, **more: rfsize.oob_score(rfsize.tree_outputs(model, X, y, oob=True, **more)),
}


def drawn(n_rows: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their classes (equally frequent) or numbers, from two columns and noise."""
    generator = np.random.default_rng(n_rows)
    X = generator.standard_normal((n_rows, COLUMNS), dtype=np.float32)
    told = X[:, 0] + X[:, 1] / 2 + generator.standard_normal(n_rows, dtype=np.float32)
    if n_classes == REGRESSION:
        return X, told.astype(np.float64)
    return X, np.digitize(told, np.quantile(told[:100_000], np.linspace(0, 1, n_classes + 1)[1:-1]))


def trained(framework: str, X: np.ndarray, y: np.ndarray, n_classes: int) -> Any:
    """A small forest."""
    if framework == "scikit-learn":
        forest = RandomForestRegressor if n_classes == REGRESSION else RandomForestClassifier
        return forest(TREES, max_leaf_nodes=LEAVES, n_jobs=-1, random_state=0).fit(X, y)
    if framework == "XGBoost":
        objective = {REGRESSION: "reg:squarederror", 2: "binary:logistic"}.get(n_classes, "multi:softprob")
        params = {"objective": objective, "num_parallel_tree": TREES, "learning_rate": 1, "subsample": 0.632}
        params |= {"max_depth": 3} | ({"num_class": n_classes} if n_classes > 2 else {})
        return xgb.train(params, xgb.DMatrix(X, y), 1)
    objective = {REGRESSION: "regression", 2: "binary"}.get(n_classes, "multiclass")
    params = {"objective": objective, "boosting": "rf", "bagging_fraction": 0.632, "bagging_freq": 1}
    params |= {"num_leaves": LEAVES, "verbose": -1} | ({"num_class": n_classes} if n_classes > 2 else {})
    return lgb.train(params, lgb.Dataset(X, y), TREES)


def held(what: str) -> int:
    """Bytes that this process holds ("VmRSS"), or the most since it was last reset ("VmHWM")."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def allowed(ask: Ask, model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The bytes of memory below which the rows are refused."""
    try:
        ask(model, X, y, max_memory=1)
    except ValueError as error:
        return 1e9 * float(re.search(r"may take ([\d.,]+) GB", str(error))[1].replace(",", ""))  # type: ignore[index]
    raise AssertionError("a limit of one byte was not refused")


def measured(what: str, framework: str, n_classes: int, n_rows: int) -> dict[str, float]:
    """One line, in this process."""
    ask = {**ASKED, **ASKED_OF_REGRESSION, **OUT_OF_BAG}[what]
    X, y = drawn(FEW, n_classes)
    ask(trained(framework, X, y, n_classes), X, y)
    X, y = drawn(n_rows, n_classes)
    model = trained(framework, *((X, y) if what in OUT_OF_BAG else drawn(FEW, n_classes)), n_classes)
    limit = allowed(ask, model, X, y)
    Path("/proc/self/clear_refs").write_text("5")
    before = held("VmRSS")
    found = ask(model, X, y)
    del found
    return {"taken": held("VmHWM") - before, "allowed": limit}


def line(what: str, framework: str, n_classes: int, n_rows: int) -> str:
    """Measured in a process of its own."""
    one = ["--one", what, "--frameworks", framework, "--classes", str(n_classes), "--rows", str(n_rows)]
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    done = subprocess.run([sys.executable, __file__, *one], capture_output=True, text=True, env=environment)
    begins = f"| {what} | {framework} | {n_classes or 'regression'} | {n_rows:,} |"
    if done.returncode:
        return f"{begins} {done.stderr.strip().splitlines()[-1]} |"
    found = json.loads(done.stdout.splitlines()[-1])
    return f"{begins} {found['taken'] / 1e6:,.0f} MB | {found['allowed'] / 1e6:,.0f} MB |"


def cases(frameworks: list[str], classes: list[int]) -> Iterator[tuple[str, str, int]]:
    """The call, the framework, and the number of classes of each line."""
    for framework in frameworks:
        for n_classes in classes:
            given = ASKED_OF_REGRESSION if n_classes == REGRESSION else ASKED
            yield from ((what, framework, n_classes) for what in given)
        yield from ((what, framework, 2) for what in OUT_OF_BAG if 2 in classes)


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 10, REGRESSION], help="0: regression")
    parser.add_argument("--frameworks", nargs="+", default=["LightGBM", "XGBoost", "scikit-learn"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        warnings.simplefilter("ignore")
        print(json.dumps(measured(options.one, options.frameworks[0], options.classes[0], options.rows[0])))
        return
    print("| what | framework | classes | rows | taken | allowed |")
    print("|---|---|---|---|---|---|")
    for case in cases(options.frameworks, options.classes):
        for n_rows in options.rows:
            print(line(*case, n_rows), flush=True)


if __name__ == "__main__":
    main()
