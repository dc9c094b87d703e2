"""How long sizing takes once the votes are counted, and how long `import rfsize` takes.

python benchmarks/size_speed.py
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

import rfsize

ROWS, TREES, REPETITIONS = 1_000_000, 1000, 7
ROWS_OF_CLASSES, CLASSES = 100_000, 26


def main() -> None:
    """Print medians."""
    rng = np.random.default_rng(0)
    asked = rng.binomial(TREES, 0.368, size=ROWS)
    for_class_1 = rng.binomial(asked, rng.beta(0.4, 0.4, size=ROWS))
    votes = rfsize.Votes(np.stack([asked - for_class_1, for_class_1], axis=1), n_trees=TREES)
    shares = rng.dirichlet(np.full(CLASSES, 0.3), size=ROWS_OF_CLASSES)
    several = rfsize.Votes(rng.multinomial(TREES, shares))
    size, interval, imported, of_classes = [], [], [], []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        report = rfsize.size(votes)
        size.append(time.perf_counter() - start)
        start = time.perf_counter()
        _ = report.interval
        interval.append(time.perf_counter() - start)
        start = time.perf_counter()
        rfsize.size(several)
        of_classes.append(time.perf_counter() - start)
        code = "import time; t = time.perf_counter(); import rfsize; print(time.perf_counter() - t)"
        imported.append(float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))
    print(report)
    print(f"rfsize.size on {ROWS:,} rows of counted votes: {np.median(size):.3f} s")
    print(f"its 95 % interval, 200 replicates:             {np.median(interval):.3f} s")
    print(f"rfsize.size on {ROWS_OF_CLASSES:,} rows of {CLASSES} classes:     {np.median(of_classes):.3f} s")
    print(f"import rfsize:                                 {np.median(imported):.3f} s")


if __name__ == "__main__":
    main()
