"""Can a lucky block of trees end the growth of a forest too early? Stopping rules, tried on one forest's own trees.

    python benchmarks/sure_growth.py
    python benchmarks/sure_growth.py --rows 20000
    python benchmarks/sure_growth.py --rows 20000 --problem clusters
    python benchmarks/sure_growth.py --seeds 3 --trees 1000 --alpha 0.98 --tables DNA.csv.gz Vehicle.csv.gz

LightGBM forests with 31 leaves and half of the features for each tree have correlated errors: blocks of 100 trees
scatter far more than the rows alone suggest. Such a forest grows to T*(0.97) of the majority vote, by out-of-bag rows,
from a first look at 30 trees. With tables, forests have the usual settings.

Each rule looks at the first trees of one large forest, as `rfsize.grow` looks at a forest in training, and says how
many of them to keep. "Alone": the upper end of T* at a confidence of 0.8. "Surer": the same at 0.9 from the second
look, 0.95 from the third, and so on. "Twice": as many as the last two looks both require. "Alike", the rule of
`rfsize.grow`: like "alone", but at least as many as agree with all trees so far, by the change since the last look.

Printed: the trees grown and kept, and the share of labels on other rows that differ from those of the large forest. The
large forest also gives T*, because with another seed LightGBM's way of sampling features would make a difference. Below
are the means, the median and largest share that differs, and how many of the forests have T* trees.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import problems
from forests import forest
from problems import Rows, split

import rfsize

SETTINGS = {
    "boosting": "rf",
    "bagging_fraction": 0.632,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "num_leaves": 31,
    "verbose": -1,
}
FRESH, FIRST_LOOK, CONFIDENCE = 20_000, 30, 0.8

Looks = list[rfsize.Report]


def wanted(report: rfsize.Report, confidence: float) -> float:
    """Trees that the forest must have by this look; T* itself if the forest has fewer."""
    return report.n_trees if report.n_trees > report.available else max(report.n_trees, report.upper(confidence))


def alone(looks: Looks) -> float:
    return wanted(looks[-1], CONFIDENCE)


def surer(looks: Looks) -> float:
    return wanted(looks[-1], 1.0 - (1.0 - CONFIDENCE) / 2.0 ** (len(looks) - 1))


def twice(looks: Looks) -> float:
    return max(wanted(look, CONFIDENCE) for look in looks[-2:])


def alike(looks: Looks) -> float:
    now = looks[-1]
    if len(looks) == 1 or alone(looks) > now.available:
        return alone(looks)
    return max(alone(looks), now._answer.fewest_alike(looks[-2]._answer.seen, now.available))


RULES: dict[str, Callable[[Looks], float]] = {"alone": alone, "surer": surer, "twice": twice, "alike": alike}


def grown(look: Callable[[int], rfsize.Report], largest: int, rule: Callable[[Looks], float]) -> Any:
    """Trees grown and kept."""
    looks, n_trees = [], FIRST_LOOK
    while True:
        looks.append(look(n_trees))
        keep = rule(looks)
        if keep <= n_trees or n_trees == largest:
            return n_trees, int(min(keep, n_trees))
        n_trees = int(min(keep, 2 * n_trees, largest))


def by_rules(model: Any, training: Rows, fresh: np.ndarray, alpha: float) -> dict[str, list[float]]:
    """For each rule: trees grown and kept, labels that differ, and whether there are T* trees; printed on a line."""
    outputs = rfsize.tree_outputs(model, fresh)
    votes, by_tree = outputs.votes, outputs.by_tree()
    truth, labels = rfsize.size(votes, alpha=alpha).n_trees, votes.counts.argmax(axis=1)

    @cache
    def look(n_trees: int) -> rfsize.Report:
        return rfsize.size(rfsize.truncate(model, n_trees=n_trees), *training, oob=True, alpha=alpha, voting="hard")

    found, line = {}, f"T* = {truth}"
    for name, rule in RULES.items():
        n_trees, kept = grown(look, votes.n_trees, rule)
        counts = np.stack(
            [np.count_nonzero(by_tree[:, :kept] == each, axis=1) for each in range(votes.counts.shape[1])]
        )
        differ = float(np.mean(counts.argmax(axis=0) != labels))
        found[name] = [n_trees, kept, differ, kept >= truth]
        line += f"; {name}: {kept} of {n_trees}, {100.0 * differ:.1f} %"
    print(line, flush=True)
    return found


def print_means(title: str, forests: list[dict[str, list[float]]]) -> None:
    """A line for each rule."""
    print(f"{title:28}{'rule':>6}{'grown':>8}{'kept':>8}{'differ: mean':>14}{'median':>9}{'most':>9}{'T* trees':>12}")
    for name in RULES:
        n_trees, kept, differ, enough = np.array([one[name] for one in forests]).T
        shares = "".join(f"{100.0 * of(differ):>7.1f} %" for of in (np.median, np.max))
        print(
            f"{'':28}{name:>6}{n_trees.mean():>8.0f}{kept.mean():>8.0f}{100.0 * differ.mean():>12.1f} %{shares}"
            f"{enough.sum():>6.0f} of {len(enough)}",
            flush=True,
        )


def main() -> None:
    """Print a line for each forest, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--problem", default="interactions", choices=["interactions", "clusters", "bits", "few_of_many"]
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=0.97)
    parser.add_argument("--trees", type=int, default=2000, help="of the large forest")
    parser.add_argument("--tables", nargs="+", type=Path, help="ordinary forests on these in place of drawn rows")
    options = parser.parse_args()
    if options.tables is None:
        generator = np.random.default_rng(0)
        X, y = getattr(problems, options.problem)(options.rows, generator)
        fresh, _ = getattr(problems, options.problem)(FRESH, generator)
        forests = []
        for seed in range(options.seeds):
            settings = {**SETTINGS, "objective": "binary", "seed": seed}
            model = lgb.train(settings, lgb.Dataset(X, y), options.trees)
            forests.append(by_rules(model, (X, y), fresh, options.alpha))
        print_means(f"{options.problem}, {options.rows:,} rows", forests)
        return
    for path in options.tables:
        table = pd.read_csv(path)
        X, y = table.drop(columns="target").to_numpy(), table["target"].astype("category").cat.codes.to_numpy()
        for framework in ("LightGBM", "XGBoost", "random forest"):
            forests = []
            for seed in range(options.seeds):
                training, (fresh, _) = split(X, y, seed)
                model = forest(framework, options.trees, seed, columns=0.5).fit(*training)
                forests.append(by_rules(model, training, fresh, options.alpha))
            print_means(f"{path.name.split('.')[0]}, {framework}", forests)


if __name__ == "__main__":
    main()
