"""Does a metric move as `report.metric_gap` predicts, from a forest of a few trees to one of 5000?

    python benchmarks/metric_gap.py spam.csv.gz BreastCancer.csv.gz Satellite.csv.gz

Each file is a table with the features first and the class in its last column, named target. In each split two
thirds of the rows train one forest of 5000 trees, and several of other seeds, which are cut to 50, 100 and 200.
The change of a metric of the predicted probabilities on the held-out rows, from the small forest to the large
one, is compared with what `metric_gap` predicts of the small one, from the held-out rows and from out-of-bag
rows. Printed are the intervals (95 %) that cover the real change, the mean of the real changes and of the
predicted ones, the root mean square of the real ones and of what the prediction leaves of them, and the mean
length of the intervals over 3.92, which is the standard error that they claim.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from forests import FRAMEWORKS, forest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import rfsize

Found = dict[tuple[int, str, str], list[tuple[float, float, float, float]]]


def metrics(y: NDArray[Any], model: Any, X: pd.DataFrame) -> dict[str, float]:
    """What the framework's own predictions score."""
    probability = model.predict_proba(X)
    values = {"logloss": log_loss(y, probability), "accuracy": accuracy_score(y, probability.argmax(axis=1))}
    return values | ({"auc": roc_auc_score(y, probability[:, 1])} if probability.shape[1] == 2 else {})


def one_split(framework: str, X: pd.DataFrame, y: pd.Series, split: int, options: argparse.Namespace) -> Found:
    """Real change, predicted change and interval of each forest, by its trees, the source of the rows and metric."""
    X, X_held, y, y_held = train_test_split(X, y, test_size=1 / 3, random_state=split, stratify=y)
    large = metrics(y_held, forest(framework, options.others, 1000 + split, options.columns).fit(X, y), X_held)
    found: Found = defaultdict(list)
    for seed in range(options.forests):
        whole = forest(framework, max(options.trees), 10 * split + seed, options.columns).fit(X, y)
        for n_trees in options.trees:
            small = rfsize.truncate(whole, n_trees=n_trees)
            now = metrics(y_held, small, X_held)
            sources = {
                "out-of-bag": (rfsize.size(small, X, oob=True), y),
                "held-out": (rfsize.size(small, X_held), y_held),
            }
            for source, (report, truth) in sources.items():
                for metric, value in now.items():
                    try:
                        gap = report.metric_gap(metric, truth)
                    except rfsize.FewVotesError:
                        continue
                    found[n_trees, source, metric].append((large[metric] - value, gap.change, *gap.interval))
    return found


def main() -> None:
    """Print one line per table, framework, number of trees, source of the rows and metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS[:2])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--forests", type=int, default=5, help="small ones in each split")
    parser.add_argument("--trees", type=int, nargs="+", default=[50, 100, 200], help="of the small forests")
    parser.add_argument("--others", type=int, default=5000, help="trees of the large forest")
    parser.add_argument("--columns", type=float, default=0.3, help="features LightGBM samples for each tree")
    options = parser.parse_args()
    print(
        f"{'table':14} {'framework':22} {'trees':>5} {'rows':10} {'metric':9} {'covered':>9} {'mean':>9} "
        f"{'predicted':>9} {'rms':>8} {'left':>8} {'claimed':>8}"
    )
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target"), table["target"].astype("category").cat.codes
        for framework in options.frameworks:
            found: Found = defaultdict(list)
            for split in range(options.splits):
                for key, values in one_split(framework, X, y, split, options).items():
                    found[key] += values
            for (n_trees, source, metric), values in sorted(found.items()):
                change, predicted, low, high = np.array(values).T
                covered = int(np.sum((low <= change) & (change <= high)))
                print(
                    f"{path.name.split('.')[0]:14} {framework:22} {n_trees:>5} {source:10} {metric:9} "
                    f"{covered:>3} of {len(change):>2} {change.mean():>+9.5f} {predicted.mean():>+9.5f} "
                    f"{np.sqrt(np.mean(change**2)):>8.5f} {np.sqrt(np.mean((change - predicted) ** 2)):>8.5f} "
                    f"{np.mean(high - low) / 3.92:>8.5f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
