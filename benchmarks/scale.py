"""The cost of sizing and predicting as rows grow: in memory, in pieces, and on Dask workers.

    python benchmarks/scale.py
    python benchmarks/scale.py --rows 100000 1000000 --workers 1 2

One LightGBM forest, rows in single precision. Each line is its own process, which did the same with a few rows before,
so that everything is loaded and compiled. "Memory" is the peak above what the process held before (including the rows,
if they are in memory). With Dask, the rows already lie on the workers, and memory is that of the worker that took the
most. "Sent" counts the bytes between all processes of this machine, so run it on an idle machine. Predictions on Dask
are added up where they are made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from forests import train_lightgbm
from problems import FEATURES, draw

import rfsize
import rfsize.dask

TREES, LEAVES, TRAINED = 200, 31, 20_000
ALPHA, BLOCK, FEW = 0.99, 100_000, 5_000
NAMES = [f"x{place}" for place in range(FEATURES)]

HERE = {
    "size, rows in memory": lambda model, X: rfsize.size(model, X, alpha=ALPHA),
    'size, max_rows="auto"': lambda model, X: rfsize.size(model, X, alpha=ALPHA, max_rows="auto"),
    "labels, rows in memory": lambda model, X: rfsize.compile(model).predict_labels(X),
    "size, Parquet folder": lambda model, X: rfsize.size(model, X, alpha=ALPHA),
    "labels, Parquet folder": lambda model, X: rfsize.compile(model).predict_labels(X),
}
ON_DASK = {
    "size, Dask": lambda model, X: rfsize.size(model, X, alpha=ALPHA),
    'size, Dask, max_rows="auto"': lambda model, X: rfsize.size(model, X, alpha=ALPHA, max_rows="auto"),
    "labels, Dask": lambda model, X: rfsize.dask.predict_labels(rfsize.compile(model), X).sum().compute(),
}


def rows_of(number: int) -> np.ndarray:
    """A block of rows, by its number."""
    return draw(np.random.default_rng(1000 + number), BLOCK)[0].astype(np.float32)


def in_memory(n_rows: int) -> np.ndarray:
    """``n_rows`` rows, made block by block."""
    X = np.empty((n_rows, FEATURES), dtype=np.float32)
    for number in range(n_rows // BLOCK):
        X[number * BLOCK : (number + 1) * BLOCK] = rows_of(number)
    return X


def as_parquet(n_rows: int, folder: Path) -> Path:
    """The rows of `in_memory` in a folder of files of ten blocks."""
    if not folder.exists():
        folder.mkdir()
        for first in range(0, n_rows // BLOCK, 10):
            some = np.concatenate([rows_of(number) for number in range(first, min(first + 10, n_rows // BLOCK))])
            table = pa.table(dict(zip(NAMES, some.T, strict=True)))
            pa.parquet.write_table(table, folder / f"{first:05}.parquet", row_group_size=BLOCK)
    return folder


def held() -> tuple[int, int]:
    """Bytes that this process holds, and the most that it ever held."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), getrusage(RUSAGE_SELF).ru_maxrss * 1024


def measured_here(what: str, n_rows: int, folder: Path) -> dict[str, Any]:
    """One line of rows in this process."""
    model, ask = lgb.Booster(model_file=folder / "model.txt"), HERE[what]
    if "Parquet" in what:
        X: Any = as_parquet(n_rows, folder / str(n_rows))
        ask(model, as_parquet(BLOCK, folder / str(BLOCK)))
    else:
        X = in_memory(n_rows)
        ask(model, X[:FEW])
    before, start = held()[0], time.perf_counter()
    said = ask(model, X)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": held()[1] - before, "said": getattr(said, "n_trees", None)}


def measured_on_dask(what: str, n_rows: int, folder: Path, workers: int) -> dict[str, Any]:
    """One line of rows that lie on workers."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    model, ask = lgb.Booster(model_file=folder / "model.txt"), ON_DASK[what]
    threads = max(1, (os.cpu_count() or 1) // workers)
    with (
        LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def blocks(first: int, last: int) -> Any:
            parts = client.map(rows_of, range(first, last))
            wait(parts)
            arrays = [da.from_delayed(part, (BLOCK, FEATURES), np.float32) for part in parts]
            return da.concatenate(arrays)

        ask(model, blocks(-workers, 0)[:, :])
        X = blocks(0, n_rows // BLOCK)
        before, sent_before = client.run(held), sent_here()
        start = time.perf_counter()
        said = ask(model, X)
        seconds, sent = time.perf_counter() - start, sent_here() - sent_before
        after = client.run(held)
    grown = [after[worker][1] - before[worker][0] for worker in after]
    return {"seconds": seconds, "memory": max(grown), "sent": sent, "said": getattr(said, "n_trees", None)}


def sent_here() -> int:
    """Bytes that processes of this machine have sent each other so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith("lo:"))


def line(what: str, n_rows: int, folder: Path, workers: int) -> str:
    """Measured in a process of its own."""
    one = ["--one", what, "--rows", str(n_rows), "--workers", str(workers), "--folder", str(folder)]
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    done = subprocess.run([sys.executable, __file__, *one], capture_output=True, text=True, env=environment)
    if done.returncode:
        return f"| {what} | {workers or '-'} | {n_rows:,} | {done.stderr.strip().splitlines()[-1]} |"
    found = json.loads(done.stdout.splitlines()[-1])
    sent = f"{found['sent'] / 1e6:,.2f} MB" if "sent" in found else "-"
    said = found["said"] if found["said"] is not None else "-"
    return (
        f"| {what} | {workers or '-'} | {n_rows:,} | {found['seconds']:.2f} s | "
        f"{found['seconds'] / n_rows / TREES * 1e9:.2f} ns | {found['memory'] / 1e6:,.0f} MB | {sent} | {said} |"
    )


def main() -> None:
    """Print a line for each way, each number of rows and of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure: Callable[..., dict[str, Any]] = measured_on_dask if options.workers[0] else measured_here
        more = options.workers if options.workers[0] else ()
        print(json.dumps(measure(options.one, options.rows[0], options.folder, *more)))
        return
    print("| what | workers | rows | time | a row and tree | memory | sent | T* |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_lightgbm(*draw(np.random.default_rng(0), TRAINED), TREES, LEAVES).save_model(folder / "model.txt")
        ways = [(what, 0) for what in HERE] + [(what, workers) for what in ON_DASK for workers in options.workers]
        for what, workers in ways:
            for n_rows in options.rows:
                print(line(what, n_rows, folder, workers), flush=True)


if __name__ == "__main__":
    main()
