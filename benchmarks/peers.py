"""rfsize compared with other rules: trees that each rule trains and keeps, and the distance from infinitely many trees.

    python benchmarks/peers.py spam.csv.gz BreastCancer.csv.gz
    python benchmarks/peers.py --plot docs/peers.png

Two thirds of the rows train; half of the others are validation rows, and the other half judges. For each set and
framework, ten forests of 2000 trees are trained, and each rule chooses a size from each of them:

    100 trees, 500 trees    the defaults of the frameworks and of R's packages
    plateau                 20 trees at a time with warm_start, until five steps bring no lower out-of-bag error
    H2O's rule              stopping_rounds=3, stopping_tolerance=1e-3 on the out-of-bag log loss of every fifth tree
    McNemar                 by 10 trees on the validation rows, until none of the next ten sizes is better
    Banfield                the out-of-bag accuracy, smoothed, in batches of 20 trees
    optRF                   ten forests each of 250, 500, 750, 1000 and 2000 trees, Fleiss' kappa of their labels of
                            the validation rows, the size at which its curve is flat; one choice for all ten forests
    rfsize                  `rfsize.grow`, really run, three times: for labels at α = 0.99; for probabilities within
                            0.02; for a metric (AUC within 0.001; with several classes, log loss within 0.002; if
                            that is infinite, the Brier score within 0.002, as rfsize's refusal advises)

Printed, by framework and rule: trees trained and kept, and seconds, as medians over sets and forests; how often the
rule stopped by itself, before 2000 trees (rfsize: 5000); and, as means over the sets with the worst set in brackets,
the share of labels that differ from the infinite forest, and the loss of AUC (two classes) and of log loss.

The infinite forest is the 18,000 trees of the other forests. For all rules but rfsize, seconds are training time only,
without the time to look at the growing forest; for rfsize they are the time of the whole call. If optRF recommends more
than half of all trees, its forest has half of them. The rare class and the flipped labels are drawn, 2000 rows; other
sets are tables with the target in their last column, named target. The results of each set and framework are a line of
JSON in `benchmarks/peers.jsonl`. Lines in this file are not run again, and all of them are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from forests import forest
from numpy.typing import NDArray
from papers.store import Results
from peer_rules import OPTRF_REPETITIONS, OPTRF_SIZES, Choice, fleiss_kappa, h2o, optrf, plateau
from problems import Rows, flipped, rare, split
from size_by_metric import LOSS, untrained

import rfsize
from rfsize.exceptions import RfsizeError
from rfsize.models.framework import read_forest
from rfsize.models.model import Forest
from rfsize.walking.leaves import leaves_by_framework

FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
FOUND = Path(__file__).parent / "peers.jsonl"
POOL, INTERVAL, STEP, DRAWN = 2000, 5, 20, 2000
# Smaller probabilities are replaced by this one, so that the out-of-bag log loss is finite.
LEAST = 1e-15
GOALS: dict[str, Callable[[int], dict[str, Any]]] = {
    "rfsize, labels": lambda n_classes: {"alpha": 0.99},
    "rfsize, probabilities": lambda n_classes: {"metric": "probabilities", "tolerance": 0.02},
    "rfsize, metric": lambda n_classes: (
        {"metric": "auc", "tolerance": 0.001} if n_classes == 2 else {"metric": "log_loss", "tolerance": 0.002}
    ),
}
# What rfsize advises when it refuses an infinite log loss.
INSTEAD, BRIER = "rfsize, Brier score", {"metric": "brier", "tolerance": 0.002}
WAYS = ("100 trees", "500 trees", "plateau", "H2O's rule", "McNemar", "Banfield", "optRF", *GOALS, INSTEAD)


class Set(NamedTuple):
    """Rows to train on, to choose by, and to judge on; classes as indices."""

    train: Rows
    validation: Rows
    test: Rows

    @property
    def n_classes(self) -> int:
        return int(self.train[1].max()) + 1


class Found(NamedTuple):
    """The result of one rule on one forest; unknown values are None."""

    way: str
    trained: int
    kept: int
    settled: bool
    seconds: float
    differ: float
    auc: float | None
    logloss: float


@dataclass
class Grown:
    """One forest of the pool: the sizes that the rules choose, and sums of its first trees' scores on the test rows."""

    choices: dict[str, Choice]
    sums: dict[int, NDArray[Any]]
    labels: dict[int, NDArray[Any]]
    seconds: float
    predictions: Callable[[NDArray[Any]], NDArray[Any]]


def new_forest(framework: str, n_trees: int, seed: int, n_classes: int) -> Any:
    """An untrained forest with the usual settings; XGBoost's trees score all classes, so each tree has one bag."""
    if framework == "XGBoost" and n_classes > 2:
        return forest("XGBoost, vector leaves", n_trees, seed, 0.5)
    return untrained(framework, n_trees, seed, regression=False)


@dataclass
class Told:
    """The outputs of all trees of a model on rows, from one pass through the trees."""

    forest: Forest
    n_classes: int

    def scores(self, X: NDArray[Any]) -> NDArray[Any]:
        """Scores of each tree before the link, shape (n_rows, n_trees, n_scores)."""
        rows = self.forest.open(X)
        return np.asarray(leaves_by_framework(self.forest, rows.whole().read(0, rows.n_rows)).scores)

    def predictions(self, score: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of scores or of means of scores."""
        return np.asarray(self.forest.link.predictions(score, self.n_classes))

    def votes(self, score: NDArray[Any]) -> NDArray[Any]:
        """The class that each single tree predicts."""
        return self.predictions(score).argmax(axis=2)


def out_of_bag_curve(
    told: Told, score: NDArray[Any], bags: NDArray[Any], y: NDArray[Any]
) -> tuple[list[float], list[float]]:
    """Log loss and error of the rows that have votes, after each `INTERVAL` trees."""
    outside = ~bags.T[:, :, None]
    total, seen = np.zeros((len(y), score.shape[2])), np.zeros((len(y), 1))
    losses, errors = [], []
    for start in range(0, score.shape[1], INTERVAL):
        few = np.s_[:, start : start + INTERVAL]
        total += (score[few] * outside[few]).sum(axis=1, dtype=np.float64)
        seen += outside[few].sum(axis=1)
        voted = seen[:, 0] > 0
        probability = told.predictions(total[voted] / seen[voted])
        of_truth = probability[np.arange(voted.sum()), y[voted]] / probability.sum(axis=1)
        losses.append(float(-np.log(np.maximum(of_truth, LEAST)).mean()))
        errors.append(float((probability.argmax(axis=1) != y[voted]).mean()))
    return losses, errors


def choices(told: Told, rows: Set, held: NDArray[Any]) -> dict[str, Choice]:
    """The size that each rule chooses from one forest; `held` are the votes on the validation rows."""
    (X, y), truth = rows.train, {"classes": np.arange(rows.n_classes)}
    score, bags = told.scores(X), rfsize.inbag(told.forest, X)
    losses, errors = out_of_bag_curve(told, score, bags, y)
    tested = rfsize.baselines.mcnemar_size(held, rows.validation[1], step=10, patience=10, exact=True, **truth)
    batches = rfsize.baselines.banfield_size(told.votes(score), y, inbag=bags, **truth)
    return {
        "100 trees": Choice(100, 100),
        "500 trees": Choice(500, 500),
        "plateau": plateau(errors[STEP // INTERVAL - 1 :: STEP // INTERVAL], STEP),
        "H2O's rule": h2o(losses, INTERVAL),
        "McNemar": Choice(int(tested.sizes[-1]), tested.n_trees, tested.enough),
        "Banfield": Choice(batches.grown, batches.n_trees, batches.enough),
    }


def majority(votes: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Labels of the rows; ties go to the lowest class."""
    return np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1).argmax(axis=1)


def grow_one(framework: str, rows: Set, seed: int) -> Grown:
    """Train one forest of the pool and let the rules choose."""
    model = new_forest(framework, POOL, seed, rows.n_classes)
    start = time.perf_counter()
    model.fit(*rows.train)
    seconds = (time.perf_counter() - start) / POOL
    told = Told(read_forest(model), rows.n_classes)
    score = told.scores(np.concatenate([rows.validation[0], rows.test[0]]))
    held, score = told.votes(score[: len(rows.validation[1])]), score[len(rows.validation[1]) :]
    chosen = choices(told, rows, held)
    sizes = {choice.kept for choice in chosen.values()} | set(range(0, POOL + 1, 500))
    sums = {size: score[:, :size].sum(axis=1, dtype=np.float64) for size in sizes}
    labels = {size: majority(held[:, :size], rows.n_classes) for size in OPTRF_SIZES}
    return Grown(chosen, sums, labels, seconds, told.predictions)


def found(
    way: str, choice: Choice, seconds: float, y: NDArray[Any], one: NDArray[Any], infinite: NDArray[Any]
) -> Found:
    """Labels that differ, and the losses, from probabilities."""
    lost = {metric: LOSS[metric](y, one) - LOSS[metric](y, infinite) for metric in metrics(one.shape[1])}
    differ = float((one.argmax(axis=1) != infinite.argmax(axis=1)).mean())
    return Found(way, *choice, seconds, differ, lost.get("auc"), lost["log_loss"])


def metrics(n_classes: int) -> tuple[str, ...]:
    return ("auc", "log_loss") if n_classes == 2 else ("log_loss",)


def of_the_pool(pool: list[Grown], y: NDArray[Any]) -> Iterator[Found]:
    """The result of each rule on each forest, compared with the trees of the other forests."""
    everything = sum(one.sums[POOL] for one in pool)
    for one in pool:
        infinite = one.predictions((everything - one.sums[POOL]) / (POOL * (len(pool) - 1)))
        for way, choice in one.choices.items():
            small = one.predictions(one.sums[choice.kept] / choice.kept)
            yield found(way, choice, choice.trained * one.seconds, y, small, infinite)
    recommended = optrf([fleiss_kappa(np.stack([one.labels[size] for one in pool], axis=1)) for size in OPTRF_SIZES])
    if recommended is None:
        return
    trained = len(pool) * sum(OPTRF_SIZES) + recommended
    whole, rest = divmod(min(recommended, len(pool) * POOL // 2), POOL)
    small = sum(one.sums[POOL] for one in pool[:whole]) + pool[whole].sums[rest]
    others = pool[whole + (rest > 0) :]
    infinite = pool[0].predictions(sum(one.sums[POOL] for one in others) / (POOL * len(others)))
    seconds = trained * float(np.mean([one.seconds for one in pool]))
    yield found(
        "optRF", Choice(trained, recommended), seconds, y, pool[0].predictions(small / (whole * POOL + rest)), infinite
    )


def grown(framework: str, rows: Set, seed: int, goal: dict[str, Any]) -> tuple[Any, Any]:
    """The forest that rfsize grows, and its report."""
    model = new_forest(framework, 100, seed, rows.n_classes)
    model, report = rfsize.grow(model, *rows.train, **goal)
    return model, report


def of_rfsize(framework: str, rows: Set, pool: list[Grown], times: int) -> Iterator[Found]:
    """The results of `rfsize.grow`, compared with all trees of the pool."""
    infinite = pool[0].predictions(sum(one.sums[POOL] for one in pool) / (POOL * len(pool)))
    for way, goal in GOALS.items():
        for seed in range(1000, 1000 + times):
            start, called = time.perf_counter(), way
            try:
                model, report = grown(framework, rows, seed, goal(rows.n_classes))
            except RfsizeError:
                model, report = grown(framework, rows, seed, BRIER)
                called = INSTEAD
            seconds = time.perf_counter() - start
            choice = Choice(int(report.available), read_forest(model).n_trees, bool(report.enough))
            yield found(called, choice, seconds, rows.test[1], np.asarray(model.predict_proba(rows.test[0])), infinite)


def sets(tables: list[Path]) -> Iterator[tuple[str, Rows]]:
    """Names and rows, the classes as indices."""
    for problem in (rare, flipped):
        yield problem.__name__, problem(DRAWN, np.random.default_rng(0))
    for path in tables:
        table = pd.read_csv(path)
        X = table.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float64)
        yield path.name.split(".")[0], (X, table["target"].astype("category").cat.codes.to_numpy().astype(np.int64))


def cut(X: NDArray[Any], y: NDArray[Any]) -> Set:
    """Two thirds to train on, a sixth each to choose by and to judge on."""
    train, (X_rest, y_rest) = split(X, y, 0)
    half = len(y_rest) // 2
    return Set(train, (X_rest[:half], y_rest[:half]), (X_rest[half:], y_rest[half:]))


def one_set(framework: str, rows: Set, times: int) -> list[Found]:
    """All results of one set and framework."""
    pool = [grow_one(framework, rows, seed) for seed in range(OPTRF_REPETITIONS)]
    return [*of_the_pool(pool, rows.test[1]), *of_rfsize(framework, rows, pool, times)]


ByFramework = dict[str, dict[str, list[Found]]]


def cells(way: str, by_set: dict[str, list[Found]]) -> list[str]:
    """The table's cells of a rule."""
    of = {name: [one for one in everything if one.way == way] for name, everything in by_set.items()}
    of = {name: ones for name, ones in of.items() if ones}
    flat = [one for ones in of.values() for one in ones]

    def median(name: str) -> float:
        return float(np.median([getattr(one, name) for one in flat]))

    def mean(name: str, shown: str) -> str:
        means = [
            np.mean([getattr(one, name) for one in ones]) for ones in of.values() if getattr(ones[0], name) is not None
        ]
        return f"{format(np.mean(means), shown)} ({format(max(means), shown)})" if means else "–"

    trees = [f"{median(name):,.0f}" for name in ("trained", "kept")]
    settled = f"{sum(one.settled for one in flat)} of {len(flat)}"
    return [
        *trees,
        f"{median('seconds'):.2f}",
        settled,
        mean("differ", ".2%"),
        mean("auc", ".4f"),
        mean("log_loss", ".4f"),
    ]


def taken(by_set: dict[str, list[Found]]) -> list[str]:
    """The rules that ran on any set, in their order."""
    return [way for way in WAYS if any(one.way == way for everything in by_set.values() for one in everything)]


def print_table(results: ByFramework) -> None:
    """Print one line for each framework and rule."""
    print("| framework | way | trained | kept | seconds | stopped | labels that differ | AUC lost | log loss lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    for framework, by_set in results.items():
        for way in taken(by_set):
            print(f"| {framework if way == WAYS[0] else ''} | {way} | {' | '.join(cells(way, by_set))} |")


def draw(results: ByFramework, path: Path) -> None:
    """Draw the labels that differ over the trees trained, a panel for each framework; small points are the sets."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(4.2 * len(results), 4.4), sharey=True, layout="constrained")
    for panel, (framework, by_set) in zip(np.atleast_1d(panels), results.items(), strict=True):
        for way in taken(by_set):
            position, is_ours = WAYS.index(way), way.startswith("rfsize")
            of = [[one for one in everything if one.way == way] for everything in by_set.values()]
            trained = [float(np.median([one.trained for one in ones])) for ones in of if ones]
            differ = [float(np.mean([one.differ for one in ones])) for ones in of if ones]
            look = {
                "color": f"C{position}",
                "linestyle": "none",
                "marker": "*" if is_ours else "osv^DPX"[position],
            }
            panel.plot(trained, differ, ms=4, alpha=0.45, **look)
            panel.plot(np.median(trained), np.mean(differ), ms=14 if is_ours else 9, label=way, **look)
        panel.axhline(0.01, color="0.7", linewidth=1.0, zorder=0)
        panel.set(xscale="log", xlabel="trees trained", title=framework)
        panel.set_yscale("symlog", linthresh=0.001, linscale=0.2)
        panel.set_ylim(bottom=-0.0001)
    np.atleast_1d(panels)[0].set_ylabel("labels that differ from the infinite forest")
    shown = {str(line.get_label()): line for panel in np.atleast_1d(panels) for line in panel.lines}
    figure.legend(
        handles=[shown[way] for way in WAYS if way in shown], loc="outside lower center", ncols=6, frameon=False
    )
    figure.savefig(path, dpi=110)


def run(store: Results, options: argparse.Namespace) -> None:
    """Run the cases that are not stored."""
    for name, (X, y) in sets(options.tables):
        for framework in options.frameworks:
            if not store.of(set=name, framework=framework):
                found = one_set(framework, cut(X, y), options.times)
                store.add({"set": name, "framework": framework, "found": [rounded(one) for one in found]})


def rounded(found: Found) -> list[Any]:
    """The result with rounded numbers."""
    return [round(value, 6) if isinstance(value, float) else value for value in found]


def main() -> None:
    """Run the cases that are not stored, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS)
    parser.add_argument("--times", type=int, default=3, help="forests that rfsize grows of each goal")
    parser.add_argument("--store", type=Path, default=FOUND, help="a file for what was found")
    parser.add_argument("--plot", type=Path, help="file for the picture")
    options = parser.parse_args()
    store = Results(options.store)
    run(store, options)
    results: ByFramework = {framework: {} for framework in FRAMEWORKS}
    for record in store.records:
        results[record["framework"]][record["set"]] = [Found(*one) for one in record["found"]]
    results = {framework: by_set for framework, by_set in results.items() if by_set}
    print_table(results)
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
