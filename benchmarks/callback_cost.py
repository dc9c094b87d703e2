"""How much time SizeCallback adds to a long training and to a short one.

    python benchmarks/callback_cost.py                                          # 1000 trees of 255 leaves, 100,000 rows
    python benchmarks/callback_cost.py --rows 20000 --trees 300 --leaves 31     # each also with --data

Trainings with and without the callback alternate, so that changes in the machine's speed affect both. Alpha is out of
reach, so no training stops early. CPU time is printed as well as wall time, since other processes hardly lengthen it;
it is a valid measure with OMP_NUM_THREADS=1. Two equal trainings differ by several per cent, as much as the callback
takes. Therefore the CPU time inside the callback is also measured, as a share of the training around it.
"""

from __future__ import annotations

import argparse
import time
import warnings

import lightgbm as lgb
import numpy as np

import rfsize

FEATURES = 20
SETTINGS = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "verbose": -1,
}


class Timed(rfsize.SizeCallback):
    """A callback that knows the CPU time it has taken."""

    seconds = 0.0

    def __call__(self, env: lgb.callback.CallbackEnv) -> None:
        start = time.process_time()
        try:
            super().__call__(env)
        finally:
            self.seconds += time.process_time() - start


def seconds(leaves: int, dataset: lgb.Dataset, trees: int, callbacks: list[object]) -> np.ndarray:
    """Wall and CPU time of one training."""
    start = np.array([time.perf_counter(), time.process_time()])
    lgb.train({**SETTINGS, "num_leaves": leaves}, dataset, trees, callbacks=callbacks)
    return np.array([time.perf_counter(), time.process_time()]) - start


def main() -> None:
    """Print the seconds of each pair and the median of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("repetitions", 9), ("rows", 100_000), ("trees", 1000), ("leaves", 255)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--data", action="store_true", help="give the callback the rows")
    options = parser.parse_args()
    repetitions = options.repetitions
    warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(options.rows, FEATURES))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=options.rows) > 0
    dataset = lgb.Dataset(X, y.astype(int)).construct()
    seconds(options.leaves, dataset, 10, [])
    ratios, within = [], []
    for _ in range(repetitions):
        plain = seconds(options.leaves, dataset, options.trees, [])
        callback = Timed(alpha=0.999999, data=X if options.data else None)
        sized = seconds(options.leaves, dataset, options.trees, [callback])
        ratios.append(sized / plain)
        within.append(callback.seconds / (sized[1] - callback.seconds))
        for clock, one, other in zip(("wall", "CPU"), plain, sized, strict=True):
            print(f"{clock:4}  without {one:6.2f} s   with {other:6.2f} s   {other / one - 1:+.1%}", flush=True)
        print(f"CPU   within the callback {callback.seconds:.3f} s   {within[-1]:+.1%}", flush=True)
    wall, cpu = np.median(ratios, axis=0) - 1.0
    print(f"SizeCallback adds {wall:.1%} of wall time, {cpu:.1%} of CPU time (medians of {repetitions} pairs)")
    print(f"The callback itself takes {np.median(within):.1%} of CPU time (median of {repetitions} trainings)")


if __name__ == "__main__":
    main()
