"""What sizing and predicting cost as rows grow: in memory, in files, out of bag, and on Dask workers.

    python benchmarks/scale.py
    python benchmarks/scale.py --rows 100000 1000000 --workers 1 2

One LightGBM forest of 200 trees of 31 leaves, rows of 20 columns in single precision. Each line is its own process,
which did the same with a few rows before, so that everything is loaded. "Memory" is the peak above what the process
held before (including the rows, if they are in memory). With Dask, the rows already lie on the workers, and memory is
that of the worker that took the most. Predictions on Dask are added up where they are made. Out of bag, the forest is
trained on all rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from problems import Rows, forest, interactions, parser, print_head, print_line

import rfsize
import rfsize.dask

TREES, LEAVES, TRAINED, COLUMNS = 200, 31, 20_000, 20
ALPHA, BLOCK = 0.99, 100_000

HERE = [f"{what}, {where}" for where in ("rows in memory", "Parquet folder") for what in ("size", "labels")]
HERE += ["size, out of bag"]
ON_DASK = ("size, Dask", "labels, Dask")


def block(number: int) -> Rows:
    """A block of rows, by its number."""
    X, y = interactions(BLOCK, np.random.default_rng(1000 + number))
    return X.astype(np.float32), y


def in_memory(n_rows: int) -> Rows:
    """``n_rows`` rows, made block by block."""
    X, y = np.empty((n_rows, COLUMNS), dtype=np.float32), np.empty(n_rows, dtype=np.int64)
    for start in range(0, n_rows, BLOCK):
        X[start : start + BLOCK], y[start : start + BLOCK] = block(start // BLOCK)
    return X, y


def as_parquet(n_rows: int, folder: Path) -> Path:
    """The rows of `in_memory` in a folder of files."""
    folder.mkdir(exist_ok=True)
    for number in range(n_rows // BLOCK):
        columns = {f"x{place}": values for place, values in enumerate(block(number)[0].T)}
        pa.parquet.write_table(pa.table(columns), folder / f"{number:05}.parquet")
    return folder


def called(what: str, model: Any, X: Any) -> Any:
    """A report, or labels."""
    if what.startswith("size"):
        return rfsize.size(model, X, alpha=ALPHA, oob="out of bag" in what)
    if "Dask" in what:
        return rfsize.dask.predict_labels(rfsize.compile(model), X).sum().compute()
    return rfsize.compile(model).predict_labels(X)


def held() -> tuple[int, int]:
    """Bytes that this process holds, and the most that it ever held."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), getrusage(RUSAGE_SELF).ru_maxrss * 1024


def measured(what: str, n_rows: int, folder: Path, workers: int) -> dict[str, Any]:
    """Seconds and memory, and the size if that is what is called."""
    return measured_on_dask(what, n_rows, folder, workers) if workers else measured_here(what, n_rows, folder)


def measured_here(what: str, n_rows: int, folder: Path) -> dict[str, Any]:
    """Seconds and memory in this process."""
    model = lgb.Booster(model_file=folder / "model.txt")
    few: Any = block(0)[0][:5000]
    if "Parquet" in what:
        X: Any = as_parquet(n_rows, folder / str(n_rows))
    else:
        X, y = in_memory(n_rows)
    called(what.replace("out of bag", ""), model, few)
    if "out of bag" in what:
        model = forest("LightGBM", TREES, 1, leaves=LEAVES, n_jobs=-1).fit(X, y)
    before, start = held()[0], time.perf_counter()
    result = called(what, model, X)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": held()[1] - before, "size": getattr(result, "n_trees", None)}


def measured_on_dask(what: str, n_rows: int, folder: Path, workers: int) -> dict[str, Any]:
    """Seconds and memory of rows that lie on workers."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    model = lgb.Booster(model_file=folder / "model.txt")
    threads = max(1, (os.cpu_count() or 1) // workers)
    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": threads, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:

        def blocks(first: int, last: int) -> Any:
            parts = client.map(lambda number: block(number)[0], range(first, last))
            wait(parts)
            return da.concatenate([da.from_delayed(part, (BLOCK, COLUMNS), np.float32) for part in parts])

        called(what, model, blocks(-workers, 0))
        X = blocks(0, n_rows // BLOCK)
        before, start = client.run(held), time.perf_counter()
        result = called(what, model, X)
        seconds, after = time.perf_counter() - start, client.run(held)
    memory = max(after[worker][1] - before[worker][0] for worker in after)
    return {"seconds": seconds, "memory": memory, "size": getattr(result, "n_trees", None)}


def measure(what: str, n_rows: int, folder: Path, workers: int) -> None:
    """Print a line that is measured in a process of its own."""
    cells: tuple[Any, ...]
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            of = process.submit(measured, what, n_rows, folder, workers).result()
    except Exception as error:  # whatever a process dies of, such as too little memory
        cells = f"{type(error).__name__}: {error}", "", "", ""
    else:
        by_tree = f"{of['seconds'] / n_rows / TREES * 1e9:.2f} ns"
        cells = f"{of['seconds']:.2f} s", by_tree, f"{of['memory'] / 1e6:,.0f} MB", of["size"] or "–"
    print_line(what, workers or "–", f"{n_rows:,}", *cells)


def main() -> None:
    """Print a line for each way, each number of rows and of workers."""
    rows, workers = [100_000, 1_000_000, 10_000_000], [1, 2, 4]
    options = parser(__doc__, frameworks=(), rows=rows, workers=workers).parse_args()
    os.environ["TQDM_DISABLE"] = "1"
    print_head("what", "workers", "rows", "time", "a row and tree", "memory", "T*")
    with tempfile.TemporaryDirectory() as name:
        model = forest("LightGBM", TREES, 1, leaves=LEAVES).fit(*interactions(TRAINED, np.random.default_rng(0)))
        model.booster_.save_model(Path(name) / "model.txt")
        for what, workers in [(what, 0) for what in HERE] + [(what, n) for what in ON_DASK for n in options.workers]:
            for n_rows in options.rows:
                measure(what, n_rows, Path(name), workers)


if __name__ == "__main__":
    main()
