"""What is the bagging fraction of least out-of-bag error worth on fresh rows, and what does it cost to keep one's own?

    python benchmarks/bagging_fraction.py Ionosphere.csv.gz BreastCancer.csv.gz Glass.csv.gz Vehicle.csv.gz

Forests have 200 unpruned trees on all features, by LightGBM and XGBoost; 1/2 is the user's own fraction. `rule="keep"`
changes it only if another fraction is better by more than noise; `rule="best"` takes the fraction of least error. Both
rules read one search. Printed: the test error at 1/2, how much more it is at either rule's fraction, and how often
"keep" changes 1/2. Problems are synthetic ones with 300 training rows, and two thirds of tables with the features first
and the class in their last column, named target. Values are means over the repetitions, ± their standard error. The
2010 paper's own tables are compared by `python -m benchmarks.papers --papers 2010`.
"""

from __future__ import annotations

import warnings

import numpy as np
from problems import (
    Rows,
    mean_and_error,
    parser,
    prepared,
    print_head,
    print_line,
    split,
    table,
    threenorm,
    twonorm,
    waveform,
)

import rfsize
from rfsize.models.framework import training_of

TREES, OWN, ROWS, FRESH = 200, 0.5, 300, 5000
NAMES = {"LightGBM": "bagging_fraction", "XGBoost": "subsample"}


def errors(framework: str, training: Rows, test: Rows, seed: int) -> tuple[float, float, float, bool]:
    """Test errors at 1/2, by `rule="best"` and by `rule="keep"`, and whether "keep" changes 1/2."""
    params, data = prepared(framework, *training, seed)
    options = {"n_trees": TREES, "voting": "hard", "progress": False}
    search = rfsize.select_bagging_fraction({**params, NAMES[framework]: OWN}, data, **options)
    best = float(search.curve["fraction"][search.curve["difference"].argmin()])

    def error(fraction: float) -> float:
        growing = training_of(data).trainer(params, data).start(fraction=fraction)
        growing.add(TREES)
        return float(np.mean(rfsize.tree_outputs(growing.booster(), test[0]).votes.winner() != test[1]))

    of = {fraction: error(fraction) for fraction in {OWN, best}}
    return of[OWN], of[best], of[search.best], search.best != OWN


def main() -> None:
    """Print one line per problem and framework."""
    arguments = parser(__doc__, tables=True, frameworks=("LightGBM", "XGBoost"))
    arguments.add_argument("--repetitions", type=int, default=6)
    options = arguments.parse_args()
    warnings.simplefilter("ignore", rfsize.exceptions.RfsizeWarning)
    problems = {problem.__name__: problem for problem in (twonorm, threenorm, waveform)}
    tables = {path.name.split(".")[0]: table(path) for path in options.tables}
    print_head("problem", "framework", "at 1/2", '"best" less it', '"keep" less it', '"keep" leaves it')
    for name in (*problems, *tables):
        for framework in options.frameworks:
            records = []
            for seed in range(options.repetitions):
                generator = np.random.default_rng(seed)
                rows = (
                    split(*tables[name], seed)
                    if name in tables
                    else tuple(problems[name](n, generator) for n in (ROWS, FRESH))
                )
                records.append(errors(framework, *rows, seed))
            own, best, kept, leaves = np.array(records, dtype=float).T
            differences = mean_and_error(own), mean_and_error(best - own), mean_and_error(kept - own)
            print_line(name, framework, *differences, f"{leaves.sum():.0f} of {len(leaves)}")


if __name__ == "__main__":
    main()
