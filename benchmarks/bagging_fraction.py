"""What is another bagging fraction worth on fresh rows, and does `select_bagging_fraction` claim more than that?

    python benchmarks/bagging_fraction.py --repetitions 2
    python benchmarks/bagging_fraction.py Ionosphere.csv.gz BreastCancer.csv.gz Glass.csv.gz Vehicle.csv.gz

1/2 is the user's own fraction. `rule="keep"` changes it only if another fraction is expected to gain clearly;
`rule="best"` takes the fraction of least error. --first is the seed of the first repetition. Both rules read one
search. Forests of both fractions are then trained anew on the same rows, of another seed, and labels of fresh rows are
compared. Printed: the test error at 1/2, how much more it is at either rule's fraction, and how often "keep" changes
1/2. Below: of all changes, the gain that the search claims, and the real one, as shares of the test error at 1/2.
Problems are synthetic ones with 150 to 600 training rows, and two thirds of tables with the features first and the
class in their last column, named target. A search is left out if its smallest fraction draws too few rows for a tree of
two leaves. Values are means, ± their standard error. The 2010 paper's own tables are compared by `python -m
benchmarks.papers --papers 2010`.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from problems import PROBLEMS, Rows, forest, mean_and_error, parser, print_head, print_line, split, tables

import rfsize
from rfsize.models.framework import training_of

OWN, ROWS, FRESH = 0.5, (150, 300, 600), 10_000


def outcome(framework: str, training: Rows, test: Rows, seed: int, n_trees: int) -> tuple[float, ...]:
    """Test errors at 1/2, by `rule="best"` and by `rule="keep"`, and the gain that is claimed for a change, or NaN."""

    def at(fraction: float, number: int) -> Any:
        estimator = forest(framework, n_trees, number, leaves=64)
        return training_of(estimator).with_fraction(estimator, fraction, len(training[1]))

    search = rfsize.select_bagging_fraction(at(OWN, seed), *training, n_trees=n_trees)
    best = float(search.curve["fraction"][search.curve["difference"].argmin()])
    error = {
        fraction: np.mean(rfsize.compile(at(fraction, 1000 + seed).fit(*training)).predict_labels(test[0]) != test[1])
        for fraction in {search.own, best, search.best}
    }
    claimed = np.nan if search.best == search.own else search.gain
    return error[search.own], error[best], error[search.best], claimed


def main() -> None:
    """Print one line per problem and framework, and one for all changes."""
    arguments = parser(__doc__, tables=True, repetitions=2, first=0, trees=100)
    arguments.add_argument("--problems", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    options = arguments.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    of_files = tables(options)
    print_head("problem", "framework", "at 1/2", '"best" less it', '"keep" less it', '"keep" leaves it')
    changes = []
    for name in (*options.problems, *of_files):
        for framework in options.frameworks:
            records = []
            for seed in range(options.first, options.first + options.repetitions):
                generator = np.random.default_rng([seed, *name.encode()])
                n_rows = int(generator.choice(ROWS))
                drawn = [PROBLEMS[name](n, generator) for n in (n_rows, FRESH)] if name in PROBLEMS else []
                training, test = drawn or split(*of_files[name], seed)
                with suppress(rfsize.exceptions.InbagError):  # of so few rows that no tree has several leaves
                    records.append(outcome(framework, training, test, seed, options.trees))
            if not records:
                continue
            own, best, kept, claimed = np.array(records, dtype=float).T
            leaves = np.isfinite(claimed)
            changes += list(np.stack([claimed, own - kept], axis=1)[leaves] / own[leaves, None])
            differences = mean_and_error(own), mean_and_error(best - own), mean_and_error(kept - own)
            print_line(name, framework, *differences, f"{leaves.sum()} of {len(leaves)}")
    claimed, real = np.reshape(changes, (-1, 2)).T
    if changes:
        print(f"\n{len(real)} changes claim {mean_and_error(claimed)} of the error, and gain {mean_and_error(real)}")


if __name__ == "__main__":
    main()
