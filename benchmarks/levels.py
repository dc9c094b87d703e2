"""Processor seconds of predictions with each instruction set that this processor has.

    python benchmarks/levels.py

The instruction set is chosen when a process starts, so each time comes from its own process; the sets take turns in
each repetition. One thread; the second of two equal calls; medians over the repetitions, with the share of the
baseline's time in brackets. A table of votes by `StopTable.build` stops rows early, so that few rows pass a tree
together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from forests import train_lightgbm, train_xgboost
from problems import draw

import rfsize

LEVELS = "baseline", "v3", "v4"
FORESTS = (101, 31), (501, 255)
TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}
CALLS = {
    "probabilities": "fast.predict_proba(X)",
    "labels": "fast.predict_labels(X)",
    "votes": "fast.votes(X)",
    "labels by a table": "stopping.predict_labels(X)",
    "1000 single rows": "for row in rows: fast.predict_proba(row)",
}

TIMED = """
import json, sys, time
import numpy
import rfsize
folder, calls = sys.argv[1], json.loads(sys.argv[2])
fast = rfsize.load(folder + "/fast.npz", n_jobs=1)
stopping = rfsize.load(folder + "/stopping.npz", n_jobs=1)
X = numpy.load(folder + "/X.npy")
rows = [X[i : i + 1] for i in range(1000)]
taken = {}
for name, call in calls.items():
    for _ in range(2):
        before = time.process_time()
        exec(call)
        taken[name] = time.process_time() - before
print(json.dumps(taken))
"""


def timed(folder: Path, level: str) -> dict[str, float] | None:
    """Seconds of each call with an instruction set; ``None`` if this processor lacks it."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TIMED, str(folder), json.dumps(CALLS)],
        env=os.environ | {"RFSIZE_PROCESSOR": level},
        capture_output=True,
        text=True,
    )
    if "RFSIZE_PROCESSOR names the level" in ran.stderr:
        return None
    ran.check_returncode()
    return json.loads(ran.stdout)


def main() -> None:
    """Print a table with a column for each instruction set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--repetitions", type=int, default=7)
    given = parser.parse_args()
    X, y = draw(np.random.default_rng(0), given.rows)
    print(f"| {given.rows:,} rows | | {' | '.join(LEVELS)} |")
    print("|---" * (2 + len(LEVELS)) + "|")
    for framework, train in TRAIN.items():
        for n_trees, n_leaves in FORESTS:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                model = train(X, y, n_trees, n_leaves)
                rfsize.compile(model).save(folder / "fast.npz")
                table = rfsize.StopTable.build(n_trees, alpha=0.99)
                rfsize.compile(model, table).save(folder / "stopping.npz")
                np.save(folder / "X.npy", draw(np.random.default_rng(1), given.rows)[0])
                runs = [[timed(folder, level) for level in LEVELS] for _ in range(given.repetitions)]
            for call in CALLS:
                seconds = [
                    np.median([one[call] for one in each]) if each[0] else np.nan for each in zip(*runs, strict=True)
                ]
                cells = [f"{each:.3f} s ({each / seconds[0]:.2f})" if each == each else "-" for each in seconds]
                print(f"| {framework}, {n_trees} × {n_leaves} | {call} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
