"""Stop tables on fresh rows: how often a table changes more labels than it may, and how many trees its rows ask.

    python benchmarks/certified.py --forests 102
    python benchmarks/certified.py --forests 0 Satellite.csv.gz spam.csv.gz

Forests have 20 to 500 trees, 15 to 255 leaves and 2 to 26 classes, by LightGBM, XGBoost and scikit-learn, on synthetic
problems and on tables with the features first and the class in their last column, named target. Each forest gets tables
at α = 0.99: tables of votes with a prior from out-of-bag votes, built and certified; and tables of averaged scores,
certified on 2,000 to 10,000 rows (for a table file, on a third of its rows). All of them predict 8,000 fresh rows
(another third).

"Above" is the share of the forests whose table differs from all trees on more than 1 % of the fresh rows. "Surely" is
the share that differs on so many more that chance in the fresh rows does not explain it (one-sided, at 95 %).
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import rfsize
from rfsize import StopTable
from rfsize.counting.training_rows import TreesOnRows

ALPHA = 0.99
FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
TREES, LEAVES, CLASSES, ROWS = (
    (20, 51, 101, 201, 350, 500),
    (15, 31, 63, 127, 255),
    (2, 2, 3, 7, 26),
    (2000, 5000, 10_000),
)
TRAINED, FRESH = 3000, 8_000
MOST_TREES = 1000  # with one tree for each class and iteration
KINDS = ("votes", "votes, certified", "scores, certified")


class Outcome(NamedTuple):
    """One table of one forest on fresh rows."""

    forest: str
    n_classes: int
    kind: str
    trees: float
    disagreement: float
    surely: bool


def made(n_rows: int, n_classes: int, generator: np.random.Generator, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Twelve normal columns; each class has a score from columns, a product and noise, and the highest score wins."""
    fixed = np.random.default_rng(seed)
    weight, pair = fixed.normal(size=(12, n_classes)), fixed.integers(0, 12, (2, n_classes))
    noise, shift = fixed.uniform(0.2, 1.5), 0.7 * fixed.normal(size=n_classes)
    X = generator.normal(size=(n_rows, 12))
    score = X @ weight / 2.0 + X[:, pair[0]] * X[:, pair[1]] + shift
    return X, (score + noise * generator.normal(size=score.shape)).argmax(axis=1)


def forest(framework: str, n_trees: int, n_leaves: int, seed: int) -> Any:
    """An untrained forest."""
    if framework == "random forest":
        return RandomForestClassifier(n_trees, max_leaf_nodes=n_leaves, random_state=seed, n_jobs=1)
    if framework == "LightGBM":
        bags: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "verbose": -1}
        return LGBMClassifier(
            n_estimators=n_trees, num_leaves=n_leaves, feature_fraction_bynode=0.5, random_state=seed, n_jobs=1, **bags
        )
    return XGBClassifier(
        n_estimators=1, num_parallel_tree=n_trees, learning_rate=1.0, subsample=0.632, colsample_bynode=0.5,
        max_depth=0, max_leaves=n_leaves, grow_policy="lossguide", tree_method="hist", random_state=seed, n_jobs=1,
    )  # fmt: skip


def outcomes(name: str, model: Any, train: Any, calibration: Any, fresh: Any) -> list[Outcome]:
    """The results of one forest's tables on fresh rows."""
    votes = rfsize.tree_outputs(model, train, oob=True, groups="rows").votes
    n_trees, n_classes = votes.n_trees, len(votes.classes)
    built = StopTable.build(n_trees, alpha=ALPHA, prior=votes)
    tables = {
        "votes": built,
        "votes, certified": built.certified(model, calibration),
        "scores, certified": StopTable.calibrate(model, calibration, alpha=ALPHA, voting="soft"),
    }
    said: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {kind: [] for kind in tables}
    all_trees = dict.fromkeys(("hard", "soft"), StopTable.build(n_trees, alpha=1.0, n_classes=n_classes))
    soft = tables["scores, certified"]

    def take(voting: str, given: np.ndarray) -> list[None]:
        if voting == "hard":
            final = all_trees["hard"].apply(given)[0]
        else:
            mean = given.mean(axis=1, dtype=np.float64)
            final = mean.argmax(axis=1) if mean.shape[1] > 1 else (mean[:, 0] > soft.stops.cut).astype(int)  # type: ignore[union-attr]
        for kind, table in tables.items():
            if table.voting == voting:
                labels, asked = table.apply(given)
                said[kind].append((labels != final, asked))
        return []

    trees = TreesOnRows.of(model, fresh, casts_votes=True)
    trees.added_up("votes", lambda given, _: take("hard", given), list)
    trees.added_up("scores", lambda given, _: take("soft", given), list)
    found = []
    for kind, blocks in said.items():
        differs, asked = (np.concatenate(part) for part in zip(*blocks, strict=True))
        surely = bool(binom.sf(differs.sum() - 1, differs.size, 1.0 - ALPHA) < 0.05)
        found.append(Outcome(name, n_classes, kind, float(asked.mean()), float(differs.mean()), surely))
    return found


def made_forest(number: int) -> list[Outcome]:
    """One forest on a made problem."""
    generator = np.random.default_rng(number)
    framework = FRAMEWORKS[number % 3]
    n_classes, n_leaves = CLASSES[(number // 3) % 5], int(generator.choice(LEAVES))
    n_trees, n_rows = int(generator.choice(TREES)), int(generator.choice(ROWS))
    if framework != "random forest" and n_classes > 2:
        n_trees = min(n_trees, MOST_TREES // n_classes)
    X, y = made(TRAINED + n_rows + FRESH, n_classes, generator, number)
    train, calibration, fresh = np.split(X, [TRAINED, TRAINED + n_rows])
    y[:n_classes] = np.arange(n_classes)  # every training set has all classes
    model = forest(framework, n_trees, n_leaves, number).fit(train, y[:TRAINED])
    name = f"{number}: {framework}, {n_classes} classes, {n_trees} trees, {n_leaves} leaves, {n_rows:,} rows"
    return outcomes(name, model, train, calibration, fresh)


def table_forest(path: Path, framework: str, seed: int) -> list[Outcome]:
    """One forest on a third of a table."""
    (train, y), (calibration, _), (fresh, _) = thirds(path, seed)
    model = forest(framework, 301, 63, seed).fit(train, y)
    return outcomes(f"{path.name.split('.')[0]}, {framework}", model, train, calibration, fresh)


def thirds(path: Path, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features and classes of the thirds of a table, drawn at random."""
    data = pd.read_csv(path)
    X = data.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
    y = data["target"].astype("category").cat.codes.to_numpy()
    third = np.random.default_rng(seed).permutation(len(y)) % 3
    return [(X[third == part], y[third == part]) for part in range(3)]


def summary(found: list[Outcome], few: int, most: int) -> None:
    """Print the results of tables for forests of ``few`` to ``most`` classes."""
    some = [each for each in found if few <= each.n_classes <= most]
    for kind in KINDS:
        mine = [each for each in some if each.kind == kind]
        if not mine:
            continue
        plain = {each.forest: each.trees for each in some if each.kind == "votes"}
        ratio = math.exp(np.mean([math.log(each.trees / plain[each.forest]) for each in mine]))
        above = np.mean([each.disagreement > 1.0 - ALPHA for each in mine])
        print(
            f"| {few} to {most} | {kind} | {len(mine)} | {np.mean([each.trees for each in mine]):.1f} | {ratio:.2f} | "
            f"{np.mean([each.disagreement for each in mine]):.2%} | {max(each.disagreement for each in mine):.2%} | "
            f"{above:.0%} | {np.mean([each.surely for each in mine]):.0%} |"
        )


def main() -> None:
    """Print one line for each forest, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--forests", type=int, default=102)
    options = parser.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.LabelsOnlyWarning)
    found: list[Outcome] = []
    print(f"| forest | {' | '.join(KINDS)} |\n|---|{len(KINDS) * '---|'}")
    jobs: list[tuple[Any, ...]] = [(made_forest, number) for number in range(options.forests)]
    jobs += [(table_forest, path, framework, 0) for path in options.tables for framework in FRAMEWORKS]
    for function, *arguments in jobs:
        start = time.perf_counter()
        try:
            mine = function(*arguments)
        except ValueError as error:
            print(f"| {arguments} | {error} |")
            continue
        except KeyboardInterrupt:  # summarise the results so far
            break
        found += mine
        by_kind = {each.kind: f"{each.trees:.1f}, {each.disagreement:.2%}" for each in mine}
        cells = " | ".join(by_kind.get(kind, "-") for kind in KINDS)
        print(f"| {mine[0].forest} | {cells} | ({time.perf_counter() - start:.0f} s)", flush=True)
    print("| classes | table | forests | trees asked | to those of votes | disagreement | largest | above | surely |")
    print("|---|---|---|---|---|---|---|---|---|")
    for few, most in ((2, 2), (3, 7), (8, 26), (2, 26)):
        summary(found, few, most)


if __name__ == "__main__":
    main()
