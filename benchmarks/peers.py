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
                            0.02; for a metric (AUC within 0.001; with several classes, log loss within 0.002)

The rules of others are restated here in plain code: H2O's is `ScoreKeeper.stopEarly` in h2o-3, optRF's `opt_prediction`
in optRF 2.0.0, both read in 2026; the plateau is the loop that scikit-learn's example on out-of-bag errors suggests.

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
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from metric_size import LOSS, tree_scores
from papers.store import Results
from problems import FRAMEWORKS, Array, Rows, flipped, forest, parser, print_head, print_line, rare, split, table
from scipy.optimize import curve_fit

import rfsize

POOL, INTERVAL, STEP, DRAWN = 2000, 5, 20, 2000
# Smaller probabilities are replaced by this one, so that the out-of-bag log loss is finite.
LEAST = 1e-15
CRITERIA: dict[str, Callable[[int], dict[str, Any]]] = {
    "rfsize, labels": lambda n_classes: {"alpha": 0.99},
    "rfsize, probabilities": lambda n_classes: {"metric": "probabilities", "tolerance": 0.02},
    "rfsize, metric": lambda n_classes: (
        {"metric": "auc", "tolerance": 0.001} if n_classes == 2 else {"metric": "log_loss", "tolerance": 0.002}
    ),
}
# The Brier score stood in for an infinite log loss, which is clipped today; stored results have it.
RULES = ("100 trees", "500 trees", "plateau", "H2O's rule", "McNemar", "Banfield", "optRF", *CRITERIA)
RULES = (*RULES, "rfsize, Brier score")


# opt_prediction trains ten forests of each size; a smaller gain by one more tree counts as none.
OPTRF_SIZES = (250, 500, 750, 1000, 2000)
OPTRF_REPETITIONS = 10
_OPTRF_GAIN = 1e-6
_OPTRF_LEAST = 500


class Choice(NamedTuple):
    """Trees trained before the rule stopped, trees kept, and whether the rule stopped before the trees ran out."""

    trained: int
    kept: int
    settled: bool = True


def plateau(errors: Sequence[float], step: int, patience: int = 5) -> Choice:
    """From the errors after `step`, 2 `step`, … trees: stop after `patience` steps in a row without a new best."""
    best, idle = np.inf, 0
    for position, error in enumerate(errors):
        best, idle = (error, 0) if error < best else (best, idle + 1)
        if idle == patience:
            return Choice((position + 1) * step, (position + 1) * step)
    return Choice(len(errors) * step, len(errors) * step, settled=False)


def h2o(losses: Sequence[float], interval: int, rounds: int = 3, tolerance: float = 1e-3) -> Choice:
    """From the losses after `interval`, 2 `interval`, … trees: H2O's `stopping_rounds` and `stopping_tolerance`."""
    for scored in range(1, len(losses) + 1):
        if h2o_stops(losses[:scored], rounds, tolerance):
            return Choice(scored * interval, scored * interval)
    return Choice(len(losses) * interval, len(losses) * interval, settled=False)


def h2o_stops(losses: Sequence[float], rounds: int, tolerance: float) -> bool:
    """Whether the best of the last moving averages is no better, by the tolerance, than the one before them."""
    if len(losses) - 1 < 2 * rounds:  # the first scoring is not counted
        return False
    last = losses[-2 * rounds :]
    reference, *later = (float(np.mean(last[start : start + rounds])) for start in range(rounds + 1))
    return reference == 0.0 or min(later) / reference >= 1.0 - tolerance


def fleiss_kappa(labels: Array) -> float:
    """Agreement beyond chance of the labels of each row, shape (n_rows, n_labels); 1 if all labels are equal."""
    given = np.asarray(labels)
    n_rows, n_labels = given.shape
    counts = np.stack([(given == label).sum(axis=1) for label in np.unique(given)], axis=1)
    agreement = float(((counts**2).sum(axis=1) - n_labels).mean()) / (n_labels * (n_labels - 1))
    by_chance = float(((counts.sum(axis=0) / (n_rows * n_labels)) ** 2).sum())
    return 1.0 if by_chance == 1.0 else (agreement - by_chance) / (1.0 - by_chance)


def _stability(n_trees: Array, half: float, slope: float) -> Array:
    """optRF's curve, which reaches one half at `half` trees."""
    return 1.0 / (1.0 + (half / n_trees) ** slope)


def optrf(stabilities: Array | Sequence[float]) -> int | None:
    """optRF's recommended number of trees, from the stability at each of its sizes; None if it has none.

    The curve is fitted, and the first number of trees taken at which one more gains 1e-6 or less, to the nearest
    thousand and at least 500. One below the curve's half is not trusted: a tenth of the gain is then asked for.
    """
    sizes = np.array(OPTRF_SIZES, dtype=np.float64)
    middle = sizes[round(len(sizes) / 2) - 1]
    bounds = ([0.0, 0.0], [np.inf, np.inf])
    (half, slope), _ = curve_fit(_stability, sizes, stabilities, p0=(middle, 0.5), bounds=bounds, max_nfev=10_000)
    n_trees = np.arange(10, 1_000_001, 10, dtype=np.float64)
    gain = np.diff(_stability(n_trees, half, slope)) / 10.0
    wanted = _OPTRF_GAIN
    while (enough := gain < wanted).any():
        chosen = round(int(n_trees[1:][enough.argmax()]), -3)
        if chosen >= half:
            return max(chosen, _OPTRF_LEAST)
        wanted /= 10.0
    return None


class Outcome(NamedTuple):
    """The result of one rule on one forest; unknown values are None."""

    rule: str
    trained: int
    kept: int
    settled: bool
    seconds: float
    differ: float
    auc: float | None
    log_loss: float


@dataclass
class Grown:
    """One forest of the pool: the sizes that the rules choose, and sums of its first trees' scores on the test rows."""

    choices: dict[str, Choice]
    sums: dict[int, Array]
    labels: dict[int, Array]
    seconds: float
    predictions: Callable[[Array], Array]


def untrained(framework: str, n_trees: int, seed: int, n_classes: int) -> Any:
    """A forest with usual settings; XGBoost's trees score all classes, so each tree has one bag."""
    if framework == "random forest":
        return forest(framework, n_trees, seed).set_params(min_samples_leaf=5, max_features=1 / 3)
    is_vector = framework == "XGBoost" and n_classes > 2
    return forest("XGBoost, vector leaves" if is_vector else framework, n_trees, seed)


def out_of_bag_curve(
    score: Array, predictions: Callable[[Array], Array], bags: Array, y: Array
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
        probability = predictions(total[voted] / seen[voted])
        of_truth = probability[np.arange(voted.sum()), y[voted]] / probability.sum(axis=1)
        losses.append(float(-np.log(np.maximum(of_truth, LEAST)).mean()))
        errors.append(float((probability.argmax(axis=1) != y[voted]).mean()))
    return losses, errors


def majority(votes: Array, n_classes: int) -> Array:
    """The class with the most votes; of equal ones, the lowest index."""
    return np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1).argmax(axis=1)


def grow_one(framework: str, parts: list[Rows], seed: int, n_classes: int) -> Grown:
    """Train one forest of the pool and let the rules choose."""
    (X, y), validation, test = parts
    model, start = untrained(framework, POOL, seed, n_classes), time.perf_counter()
    model.fit(X, y)
    seconds = (time.perf_counter() - start) / POOL
    score, predictions = tree_scores(model, X)
    bags, classes = rfsize.inbag(model, X), np.arange(n_classes)
    losses, errors = out_of_bag_curve(score, predictions, bags, y)
    batches = rfsize.baselines.banfield_size(predictions(score).argmax(axis=2), y, inbag=bags, classes=classes)
    held = predictions(tree_scores(model, validation[0])[0]).argmax(axis=2)
    exact: dict[str, Any] = {"step": 10, "patience": 10, "exact": True, "classes": classes}
    tested = rfsize.baselines.mcnemar_size(held, validation[1], **exact)
    choices = {
        "100 trees": Choice(100, 100),
        "500 trees": Choice(500, 500),
        "plateau": plateau(errors[STEP // INTERVAL - 1 :: STEP // INTERVAL], STEP),
        "H2O's rule": h2o(losses, INTERVAL),
        "McNemar": Choice(int(tested.sizes[-1]), tested.n_trees, tested.converged),
        "Banfield": Choice(batches.grown, batches.n_trees, batches.converged),
    }
    score = tree_scores(model, test[0])[0]
    sizes = {choice.kept for choice in choices.values()} | set(range(0, POOL + 1, 500))
    sums = {size: score[:, :size].sum(axis=1, dtype=np.float64) for size in sizes}
    return Grown(choices, sums, {n: majority(held[:, :n], n_classes) for n in OPTRF_SIZES}, seconds, predictions)


def outcome(rule: str, choice: Choice, seconds: float, y: Array, small: Array, infinite: Array) -> Outcome:
    """Labels that differ, and the losses, from probabilities."""
    metrics = ("auc", "log_loss") if infinite.shape[1] == 2 else ("log_loss",)
    lost = {metric: LOSS[metric](y, small) - LOSS[metric](y, infinite) for metric in metrics}
    differ = float((small.argmax(axis=1) != infinite.argmax(axis=1)).mean())
    return Outcome(rule, *choice, seconds, differ, lost.get("auc"), lost["log_loss"])


def of_the_pool(pool: list[Grown], y: Array) -> Iterator[Outcome]:
    """The result of each rule on each forest, compared with the trees of the other forests."""
    everything = sum(one.sums[POOL] for one in pool)
    for one in pool:
        infinite = one.predictions((everything - one.sums[POOL]) / (POOL * (len(pool) - 1)))
        for rule, choice in one.choices.items():
            small = one.predictions(one.sums[choice.kept] / choice.kept)
            yield outcome(rule, choice, choice.trained * one.seconds, y, small, infinite)
    recommended = optrf([fleiss_kappa(np.stack([one.labels[size] for one in pool], axis=1)) for size in OPTRF_SIZES])
    if recommended is None:
        return
    trained = len(pool) * sum(OPTRF_SIZES) + recommended
    whole, rest = divmod(min(recommended, len(pool) * POOL // 2), POOL)
    small = sum(one.sums[POOL] for one in pool[:whole]) + pool[whole].sums[rest]
    others = pool[whole + (rest > 0) :]
    infinite = pool[0].predictions(sum(one.sums[POOL] for one in others) / (POOL * len(others)))
    seconds = trained * float(np.mean([one.seconds for one in pool]))
    few = pool[0].predictions(small / (whole * POOL + rest))
    yield outcome("optRF", Choice(trained, recommended), seconds, y, few, infinite)


def of_rfsize(framework: str, parts: list[Rows], pool: list[Grown], times: int) -> Iterator[Outcome]:
    """The results of `rfsize.grow`, compared with all trees of the pool."""
    infinite = pool[0].predictions(sum(one.sums[POOL] for one in pool) / (POOL * len(pool)))
    for (rule, criterion), seed in product(CRITERIA.items(), range(1000, 1000 + times)):
        start, n_classes = time.perf_counter(), infinite.shape[1]
        model = untrained(framework, 100, seed, n_classes)
        model, report = rfsize.grow(model, *parts[0], **criterion(n_classes))
        choice = Choice(int(report.available), int(report.n_kept), bool(report.enough))
        small = np.asarray(model.predict_proba(parts[2][0]))
        yield outcome(rule, choice, time.perf_counter() - start, parts[2][1], small, infinite)


def one_set(framework: str, rows: Rows, options: argparse.Namespace) -> list[Outcome]:
    """All results of one set and framework: two thirds to train on, a sixth each to choose by and to judge on."""
    train, (X, y) = split(*rows, 0)
    half = len(y) // 2
    parts = [train, (X[:half], y[:half]), (X[half:], y[half:])]
    n_classes = int(rows[1].max()) + 1
    pool = [grow_one(framework, parts, seed, n_classes) for seed in range(OPTRF_REPETITIONS)]
    return [*of_the_pool(pool, y[half:]), *of_rfsize(framework, parts, pool, options.times)]


BySet = dict[str, list[Outcome]]


def of_rule(rule: str, by_set: BySet) -> list[list[Outcome]]:
    """The results of a rule, set by set."""
    found = [[one for one in outcomes if one.rule == rule] for outcomes in by_set.values()]
    return [group for group in found if group]


def cells(groups: list[list[Outcome]]) -> Iterator[str]:
    """The table's cells of a rule."""
    flat = [one for group in groups for one in group]
    for name, form in (("trained", ",.0f"), ("kept", ",.0f"), ("seconds", ".2f")):
        yield format(np.median([getattr(one, name) for one in flat]), form)
    yield f"{sum(one.settled for one in flat)} of {len(flat)}"
    for name, form in (("differ", ".2%"), ("auc", ".4f"), ("log_loss", ".4f")):
        of = [[getattr(one, name) for one in group] for group in groups]
        means = [np.mean(values) for values in of if values[0] is not None]
        yield f"{np.mean(means):{form}} ({max(means):{form}})" if means else "–"


def draw(results: dict[str, BySet], path: Path) -> None:
    """Draw the labels that differ over the trees trained, a panel for each framework; small points are the sets."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(4.2 * len(results), 4.4), sharey=True, layout="constrained")
    for panel, (framework, by_set) in zip(np.atleast_1d(panels), results.items(), strict=True):
        for place, rule in enumerate(RULES):
            if groups := of_rule(rule, by_set):
                trained = [float(np.median([one.trained for one in group])) for group in groups]
                differ = [float(np.mean([one.differ for one in group])) for group in groups]
                is_ours = rule.startswith("rfsize")
                look: dict[str, Any] = {"color": f"C{place}", "linestyle": "none"}
                look["marker"] = "*" if is_ours else "osv^DPX"[place]
                panel.plot(trained, differ, ms=4, alpha=0.45, **look)
                panel.plot(np.median(trained), np.mean(differ), ms=14 if is_ours else 9, label=rule, **look)
        panel.axhline(0.01, color="0.7", linewidth=1.0, zorder=0)
        panel.set(xscale="log", xlabel="trees trained", title=framework)
        panel.set_yscale("symlog", linthresh=0.001, linscale=0.2)
        panel.set_ylim(bottom=-0.0001)
    np.atleast_1d(panels)[0].set_ylabel("labels that differ from the infinite forest")
    shown = {str(line.get_label()): line for panel in np.atleast_1d(panels) for line in panel.lines}
    handles = [shown[rule] for rule in RULES if rule in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the cases that are not stored, and print all."""
    arguments = parser(__doc__, tables=True)
    arguments.add_argument("--times", type=int, default=3, help="forests that rfsize grows of each criterion")
    arguments.add_argument("--store", type=Path, default=Path(__file__).parent / "peers.jsonl", help="file of results")
    arguments.add_argument("--plot", type=Path, help="file for the picture")
    options = arguments.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    store = Results(options.store)
    sets = {problem.__name__: problem(DRAWN, np.random.default_rng(0)) for problem in (rare, flipped)}
    sets |= {path.name.split(".")[0]: table(path) for path in options.tables}
    for (name, rows), framework in product(sets.items(), options.frameworks):
        if not store.of(set=name, framework=framework):
            outcomes = [
                [round(value, 6) if isinstance(value, float) else value for value in one]
                for one in one_set(framework, rows, options)
            ]
            store.add({"set": name, "framework": framework, "found": outcomes})
    results: dict[str, BySet] = {framework: {} for framework in FRAMEWORKS}
    for record in store.records:
        results[record["framework"]][record["set"]] = [Outcome(*one) for one in record["found"]]
    results = {framework: by_set for framework, by_set in results.items() if by_set}
    names = ("trained", "kept", "seconds", "stopped", "labels that differ", "AUC lost", "log loss lost")
    print_head("framework", "rule", *names)
    for framework, by_set in results.items():
        for rule in RULES:
            if groups := of_rule(rule, by_set):
                print_line(framework, rule, *cells(groups))
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
