"""How much time SizeCallback adds to the training of 1000 trees: 100,000 rows × 20 features, 255 leaves.

    python benchmarks/callback_cost.py

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

ROWS, FEATURES, TREES = 100_000, 20, 1000
SETTINGS = {
    "objective": "binary",
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "num_leaves": 255,
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


def seconds(dataset: lgb.Dataset, callbacks: list[object]) -> np.ndarray:
    """Wall and CPU time of one training."""
    start = np.array([time.perf_counter(), time.process_time()])
    lgb.train(SETTINGS, dataset, TREES, callbacks=callbacks)
    return np.array([time.perf_counter(), time.process_time()]) - start


def main() -> None:
    """Print the seconds of each pair and the median of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=9)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore", rfsize.exceptions.NotConvergedWarning)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=ROWS) > 0
    dataset = lgb.Dataset(X, y.astype(int)).construct()
    lgb.train(SETTINGS, dataset, 10)
    ratios, within = [], []
    for _ in range(repetitions):
        plain = seconds(dataset, [])
        callback = Timed(alpha=0.999999)
        sized = seconds(dataset, [callback])
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
