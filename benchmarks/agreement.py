"""Does a forest cut to T*(α) trees agree with a much larger forest on a share α of fresh rows?

    python benchmarks/agreement.py spam.csv.gz BreastCancer.csv.gz
    python benchmarks/agreement.py --columns 0.5 --alpha 0.98 0.99 -- Vehicle.csv.gz DNA.csv.gz
    python benchmarks/agreement.py --tolerance 0.02 --frameworks LightGBM -- spam.csv.gz
    python benchmarks/agreement.py --trees 501 --others 2001 --frameworks "stumps, bagged" -- BreastCancer.csv.gz
    python benchmarks/agreement.py --training-sets 40 --trees 400 --columns 0.7
    python benchmarks/agreement.py --training-sets 20 --trees 400 --columns 1 --problems few_of_many bits twonorm hinges

Each file is a table with the features first and the class in its last column, named target; without one, 1,500 rows of
twonorm are drawn. There are ten splits. In each, two thirds of the rows train a forest of 2001 trees. T*(α) is
estimated from its out-of-bag votes on these rows, and from its votes on half of the held-out rows, by all trees or by
the first ones. The forest is then cut. Its labels of the held-out rows (of the other half, if one half gave the votes)
are compared with those of 5000 other trees, trained with another seed: with their majority vote for hard voting, with
the model's own `predict` for soft voting. If there are too few out-of-bag votes, their line is left out.

With --tolerance, T* is that of probabilities. Those of the cut forest are compared with those of the 5000 other trees:
the root mean square and the 95th percentile of their distance, over the rows.

With --training-sets, forests of --trees are trained on so many sets of 300 drawn rows of --problems, by fractions of
the rows, and predict 200 fresh rows. "Variance" is the mean of `standard_error("rows")` squared over the first ten
sets, divided by the variance of predictions from set to set, less that by trees; ± its standard error, by sets drawn
with replacement. "Covered" is the share of predictions of these sets within 1.96 of both standard errors together of
their mean over all sets. "Refused" counts forests that cannot tell.

--trees is the size of the forest that is cut, --others of the one beside it; --first-trees vote on T*, by default all.
--columns is the share of the features that LightGBM samples for each tree, and --voting is hard, soft or both.

"Enough" counts the splits in which the forest had T*(α) trees; in the others, all trees are compared. "Expected" is 1 −
α with the noise of the other trees, for rows that are dense around a tie: (1 − α)·√(1 + T*/other trees).
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from itertools import product
from typing import Any

import numpy as np
import problems
from problems import (
    Array,
    Problem,
    Rows,
    forest,
    mean_and_error,
    parser,
    print_head,
    print_line,
    split,
    tables,
    twonorm,
)

import rfsize

FEWEST_VOTES = 10  # per row, to size a forest by
STATED = 10  # training sets whose errors are stated


def labels(model: Any, X: Array, voting: str) -> Array:
    """The labels of a forest under a voting rule."""
    return rfsize.tree_outputs(model, X).votes.winner() if voting == "hard" else np.asarray(model.predict(X))


def trained(framework: str, rows: Rows, seed: int, options: argparse.Namespace) -> tuple[Array, Array, Any, Any, Any]:
    """Training and held-out rows, a forest, the one that it is compared with, and its first trees."""
    (X, y), (X_held, _) = split(*rows, seed)
    model = forest(framework, options.trees, seed, columns=options.columns).fit(X, y)
    other = forest(framework, options.others, seed + 1000, columns=options.columns).fit(X, y)
    return X, X_held, model, other, rfsize.truncate(model, n_trees=options.first_trees or options.trees)


def of_split(framework: str, rows: Rows, seed: int, options: argparse.Namespace) -> dict[tuple[Any, ...], list[float]]:
    """T*, whether the forest has as many trees, and the disagreement, by source of the votes, voting and alpha."""
    X, X_held, model, other, first = trained(framework, rows, seed, options)
    half = len(X_held) // 2
    sources: dict[str, tuple[dict[str, Any], Array]] = {
        "out-of-bag": ({"X": X, "oob": True}, X_held),
        "validation rows": ({"X": X_held[:half]}, X_held[half:]),
    }
    outcomes = {}
    for voting, (source, (given, fresh)) in product(options.voting, sources.items()):
        report = rfsize.size(first, voting=voting, **given)
        expected = labels(other, fresh, voting)
        for alpha in options.alpha if report.estimate.votes_per_row >= FEWEST_VOTES else ():
            trees = report.size_at(alpha)
            small = rfsize.truncate(model, n_trees=int(min(trees, options.trees)))
            differs = float(np.mean(labels(small, fresh, voting) != expected))
            outcomes[source, voting, alpha] = [trees, trees <= options.trees, differs]
    return outcomes


def off_by(framework: str, rows: Rows, seed: int, options: argparse.Namespace) -> tuple[float, float, float]:
    """T* of probabilities out of bag, and how far off they are on held-out rows: rms, 95th percentile."""
    X, X_held, model, other, first = trained(framework, rows, seed, options)
    report = rfsize.size(first, X, oob=True, metric="probabilities", tolerance=options.tolerance)
    small = rfsize.truncate(model, n_trees=int(min(report.n_trees, options.trees)))
    off = np.abs(small.predict_proba(X_held) - other.predict_proba(X_held)).max(axis=1)
    return float(report.n_trees), float(np.sqrt(np.mean(off**2))), float(np.quantile(off, 0.95))


def by_training_sets(framework: str, problem: Problem, fraction: float, options: argparse.Namespace) -> list[str]:
    """The stated variance by the real one, the share of predictions covered, and forests that cannot tell."""
    generator = np.random.default_rng(2018)
    (new, answers), (predicted, by_trees, stated) = problem(200, generator), ([], [], [])
    is_number = answers.dtype.kind == "f"
    for seed in range(options.training_sets):
        X, y = problem(300, generator)
        model = forest(framework, options.trees, 0, columns=options.columns, regression=is_number).set_params(
            **{"max_samples" if framework == "random forest" else "subsample": fraction}
        )
        outputs = rfsize.tree_outputs(model.fit(X, y), new)
        predicted.append(outputs.predict() if is_number else outputs.predict_proba()[:, 1])
        by_trees.append(outputs.standard_error("seeds").reshape(len(new), -1)[:, -1] ** 2)
        if seed < STATED:
            with contextlib.suppress(rfsize.exceptions.FewVotesError):
                bags = rfsize.tree_outputs(model, X, y, oob=True)
                error = outputs.standard_error("rows", bags=bags).reshape(len(new), -1)[:, -1]
                stated.append((seed, error**2))
    if not stated:
        return ["–", "–", str(STATED)]
    number, by_rows = [place for place, _ in stated], np.array([error for _, error in stated])
    values, variance = np.array(predicted), np.array(by_trees)

    def real(sets: Array) -> float:
        return float(values[sets].var(axis=0, ddof=1).mean() - variance[sets].mean())

    ratio = by_rows.mean() / real(np.arange(len(values)))
    drawn = [by_rows.mean() / real(generator.integers(0, len(values), len(values))) for _ in range(200)]
    off = np.abs(values[number] - values.mean(axis=0)) * np.sqrt(len(values) / (len(values) - 1.0))
    covered = off <= 1.96 * np.sqrt(by_rows + variance[number])
    return [f"{ratio:.2f} ± {np.std(drawn):.2f}", f"{covered.mean():.0%}", str(STATED - len(stated))]


def main() -> None:
    """Print one line per table, framework and source of the votes."""
    numbers = {"splits": 10, "trees": 2001, "others": 5000, "first_trees": 0, "training_sets": 0}
    words = {"voting": ["hard"], "problems": ["signals", "friedman", "interactions", "flipped"]}
    shares = {"alpha": [0.99], "columns": 0.3, "tolerance": 0.0, "fractions": [0.3, 0.632, 0.8]}
    arguments = parser(__doc__, tables=True, frameworks=("LightGBM", "XGBoost"), **words, **numbers, **shares)
    options = arguments.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    if options.training_sets:
        print_head("problem", "framework", "fraction", "variance", "covered", "refused")
        for name, framework, fraction in product(options.problems, options.frameworks, options.fractions):
            figures = by_training_sets(framework, getattr(problems, name), fraction, options)
            print_line(name, framework, fraction, *figures)
        return
    data = tables(options) or {"twonorm": twonorm(1500, 0)}
    if options.tolerance:
        print_head("table", "framework", "T* (median)", "rms", "95th percentile")
        for (name, rows), framework in product(data.items(), options.frameworks):
            trees, *off = np.array([off_by(framework, rows, seed, options) for seed in range(options.splits)]).T
            print_line(name, framework, f"{np.median(trees):.0f}", *(mean_and_error(values, ".4f") for values in off))
        return
    print_head("table", "framework", "votes", "voting", "alpha", "T* (median)", "enough", "disagreement", "expected")
    for (name, rows), framework in product(data.items(), options.frameworks):
        splits = [of_split(framework, rows, seed, options) for seed in range(options.splits)]
        for case in splits[0]:
            trees, enough, differs = np.array([outcomes[case] for outcomes in splits]).T
            expected = (1.0 - case[-1]) * np.sqrt(1.0 + np.minimum(trees, options.trees) / options.others).mean()
            figures = f"{np.median(trees):.0f}", f"{enough.sum():.0f}", mean_and_error(differs), f"{expected:.2%}"
            print_line(name, framework, *case, *figures)


if __name__ == "__main__":
    main()
