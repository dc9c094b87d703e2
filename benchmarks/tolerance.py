"""Are predictions within the tolerance that a forest was cut for, compared with 5000 other trees?

    python benchmarks/tolerance.py spam.csv.gz Satellite.csv.gz
    python benchmarks/tolerance.py --regression friedman Satellite.csv.gz
    python benchmarks/tolerance.py --frameworks "5-NN, bagged" "logistic regression, bagged" -- Ionosphere.csv.gz

Each file is a table with the features first and the class in its last column, named target; for regression, its first
column is predicted from the other features. `friedman` is scikit-learn's make_friedman1, with 1500 training rows and
3000 fresh ones. Regression targets are scaled to a standard deviation of 1. In each split, two thirds of the rows train
a forest. From the out-of-bag scores of its first 100 trees, `size` says how many trees keep the root mean square of the
deviation within the tolerance, and how many keep its 95th percentile. The forest is cut to each size, and compared with
5000 other trees, trained with another seed, on the held-out rows. Because of their own noise, √(1 + T/5000) of the
tolerance is expected.

Finally, the estimate from 100 trees is compared with T* from the scores of 1000 of the other trees on the held-out
rows: mean and root mean square of the logarithm of their ratio, and how often the 95 % interval contains it (with few
held-out rows, their own noise adds to the misses).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from forests import forest
from lightgbm import LGBMRegressor
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

import rfsize

FIRST = 100


def regressor(framework: str, n_trees: int, seed: int) -> Any:
    """An untrained regression forest with the settings of `agreement.forest`."""
    like = forest(framework, n_trees, seed, 0.5)
    kind = {"LightGBM": LGBMRegressor, "random forest": RandomForestRegressor}.get(framework, XGBRegressor)
    settings = {name: value for name, value in like.get_params().items() if name in kind().get_params()}
    settings.pop("objective", None)
    settings |= {"LightGBM": {"verbose": -1}, "random forest": {"metric": "squared_error"}}.get(framework, {})
    return kind(**settings)


def parts(name: str, split: int, regression: bool) -> tuple[Any, Any, NDArray[Any]]:
    """Training rows, held-out rows and training targets."""
    if name == "friedman":
        X, y = make_friedman1(4500, noise=1.0, random_state=split)
        return X[:1500], X[1500:], y[:1500] / y.std()
    table = pd.read_csv(name)
    X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes.to_numpy()
    if regression:
        y = X.iloc[:, 0].to_numpy()
        X, y = X.iloc[:, 1:], y / y.std()
    X, X_held, y, _ = train_test_split(X, y, test_size=1 / 3, random_state=split, stratify=None if regression else y)
    return X, X_held, y


def predictions(model: Any, X: Any) -> NDArray[np.float64]:
    """What the framework predicts, shape (n_rows, n_outputs)."""
    found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(found, dtype=np.float64).reshape(len(found), -1)


def one_split(name: str, framework: str, split: int, options: argparse.Namespace) -> tuple[float, ...]:
    """Sizes, true deviations at these sizes, the size by the other trees, and whether the interval contains it."""
    X, X_held, y = parts(name, split, options.regression)

    def trained(n_trees: int, seed: int) -> Any:
        if options.regression:
            return regressor(framework, n_trees, seed).fit(X, y)
        return forest(framework, n_trees, seed, 0.5).fit(X, y)

    wanted = {"metric": "scores" if options.regression else "probabilities", "tolerance": options.tolerance}
    other = trained(options.others, 1000 + split)
    limit = predictions(other, X_held)
    report = rfsize.size(trained(FIRST, split), X, oob=True, **wanted)
    sizes = report._answer._deviations.sizes(options.tolerance)
    # The first trees of a longer training are the same, in LightGBM and in XGBoost.
    whole = trained(int(min(max(sizes), options.most)), split)
    off = []
    for size in sizes:
        small = rfsize.truncate(whole, n_trees=int(min(size, options.most)))
        off.append(np.abs(predictions(small, X_held) - limit).max(axis=1))
    truth = rfsize.size(rfsize.truncate(other, n_trees=1000), X_held, **wanted).n_trees
    low, high = report.interval
    return (
        *sizes,
        np.mean(off[0] ** 2),
        np.quantile(off[1], 0.95),
        np.log(report.n_trees / truth),
        low <= truth <= high,
        np.log(high / low) / 3.92,
    )


def main() -> None:
    """Print one line per problem and framework."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--regression", action="store_true")
    parser.add_argument("--frameworks", nargs="+", default=["LightGBM", "XGBoost"])
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--others", type=int, default=5000, help="trees that a forest is compared with")
    parser.add_argument("--most", type=int, default=2000, help="trees that a forest is not grown beyond")
    options = parser.parse_args()
    print(
        f"{'problem':14} {'framework':14} {'T* (rms)':>8} {'real rms':>16} {'expected':>8} {'T* (p95)':>8} "
        f"{'real p95':>16} {'expected':>8} {'log ratio':>15} {'claimed':>7} {'covered':>8}"
    )
    for name in options.problems:
        for framework in options.frameworks:
            splits = np.array([one_split(name, framework, split, options) for split in range(options.splits)])
            by_rms, by_p95, square, p95, ratio, covered, claimed = splits.T
            n = len(splits)
            rms = np.sqrt(square.mean())
            rms_error = square.std(ddof=1) / np.sqrt(n) / (2.0 * rms)
            expected = [
                options.tolerance * np.sqrt(1.0 + np.mean(sizes) / options.others) for sizes in (by_rms, by_p95)
            ]
            print(
                f"{name.rpartition('/')[2].split('.')[0]:14} {framework:14} {np.median(by_rms):>8.0f} "
                f"{rms:>7.4f} ± {rms_error:.4f} {expected[0]:>8.4f} {np.median(by_p95):>8.0f} "
                f"{p95.mean():>7.4f} ± {p95.std(ddof=1) / np.sqrt(n):.4f} {expected[1]:>8.4f} "
                f"{ratio.mean():>+6.2f} ({np.sqrt(np.mean(ratio**2)):.2f}) {claimed.mean():>7.2f} "
                f"{covered.sum():>3.0f} of {n:>2}",
                flush=True,
            )


if __name__ == "__main__":
    main()
