"""How a metric scatters: over other rows, and over other trees."""

from __future__ import annotations

import math

import numpy as np

from rfsize._util import Floats, Int64s, blocks
from rfsize.counting.outputs import TreeOutputs, means_of, predictor_of, sums_of
from rfsize.counting.part_sums import deal
from rfsize.estimation.intervals import REPLICATES, SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.exceptions import FewVotesError, RfsizeError
from rfsize.sizing.metrics import Metric, OfRows, value_or_nan

# A sample without a rare class may have no value, and is drawn again, up to this many times as often as needed.
_MOST_TRIES = 5
_ROWS_TRIED = 50_000  # most rows for each bootstrap replicate of a callable
_AT_HAND = 100_000  # rows whose predictions determine the bins
_MOST_PARTS = 1000  # that are drawn


def noise_of_rows(
    judge: OfRows, rows: Int64s, predicted: Floats, units: Int64s, weight: Floats | None
) -> tuple[float, float]:
    """Standard error of the metric over other rows or groups of rows, and its degrees of freedom."""
    if weight is not None:  # rows without weight do not count as sampled rows
        counts = weight[rows] > 0.0
        rows, predicted, units = rows[counts], predicted[counts], units[counts]
    added = judge.influence(rows, predicted)
    if added is None:
        return _noise_by_trying(judge, rows, predicted, units)
    _, unit = np.unique(units, return_inverse=True)
    by_unit = np.bincount(unit, weights=added)
    n_units, squares = len(by_unit), by_unit**2
    if n_units < 2:
        raise FewVotesError(
            "all rows outside the bags of the trees are of one group, and an interval takes several groups: give more "
            "groups, or validation rows"
        )
    variance = float(squares.sum())
    # A few rows may dominate the metric, such as those of a rare class: Satterthwaite's degrees of freedom.
    tails = n_units * float(np.sum((squares / variance) ** 2)) if variance > 0.0 else 1.0
    freedom = min(n_units - 1.0, max(1.0, 2.0 * n_units / max(tails - 1.0, 1e-9)))
    return math.sqrt(variance * n_units / (n_units - 1.0)), freedom


def _noise_by_trying(judge: OfRows, rows: Int64s, predicted: Floats, units: Int64s) -> tuple[float, float]:
    """The same for a callable, by the bootstrap over groups; with many rows, on some of the groups."""
    rng = np.random.default_rng(SEED)
    names, unit, size = np.unique(units, return_inverse=True, return_counts=True)
    first = np.append(0, np.cumsum(size))
    order = np.argsort(unit, kind="stable")
    some = rng.permutation(len(names))
    some = some[: max(2, int(np.searchsorted(np.cumsum(size[some]), _ROWS_TRIED)))]
    values: list[float] = []
    for _ in range(_MOST_TRIES * REPLICATES):
        drawn = rng.choice(some, size=len(some))
        taken = np.concatenate([order[first[one] : first[one + 1]] for one in drawn])
        value = value_or_nan(judge, rows[taken], predicted[taken])
        values += [value] if math.isfinite(value) else []
        if len(values) == REPLICATES:
            return float(np.std(values, ddof=1)) * math.sqrt(len(some) / len(names)), len(names) - 1.0
    raise RfsizeError(
        f"the metric has a value on {len(values)} of {_MOST_TRIES * REPLICATES} samples of the rows, too few for an "
        "interval: give more rows of each class"
    )


def drawn_trees(outputs: TreeOutputs, judge: Metric, *, most_rows: int | None = None) -> tuple[Floats, Floats]:
    """The metric of forests drawn from the parts of a forest, twice, each of shape (REPLICATES,).

    The first replicates are as noisy as the whole forest, the second as the trees that may predict each row. At most
    ``most_rows`` rows are used, spread over all.
    """
    parts, means, n_trees = sums_of(outputs).parts, means_of(outputs), outputs.n_trees
    n_parts = min(parts.total.shape[1], _MOST_PARTS)
    rng, even = np.random.default_rng(SEED), np.full(n_parts, 1.0 / n_parts)
    weights = rng.multinomial(n_parts, even, size=REPLICATES).astype(np.float64)
    # The forest itself, then replicates as noisy as the whole forest, then replicates as noisy as the out-of-bag trees.
    kinds = 2 if outputs.source == "oob" else 1
    n_scores, n_outputs = means.mean.shape[1], max(1, len(outputs.classes))
    at_most = [most for most in (most_rows, judge.most_rows(1 + kinds * REPLICATES, n_outputs)) if most is not None]
    kept = np.arange(len(parts.rows))[:: -(-len(parts.rows) // min(at_most, default=len(parts.rows)))]
    # The order of single scores is the order of their predictions.
    is_order = judge.by_order and n_scores == 1

    def predicted(score: Floats) -> Floats:
        return score if is_order else predictor_of(outputs).predictions(score)

    at_hand = means.mean[means.is_known]
    measuring = judge.start(1 + kinds * REPLICATES, predicted(at_hand[:: -(-len(at_hand) // _AT_HAND) or 1]))
    n_rows = 0
    for start, stop in blocks(len(kept), (2 + 2 * kinds) * REPLICATES * max(n_scores, n_outputs), what="metric"):
        total, n_scored = (deal(of[kept[start:stop]], n_parts) for of in (parts.total, parts.n_scored))
        n_filled = np.count_nonzero(n_scored, axis=1)
        known = n_filled.min(axis=1) > 1  # a deviation of each score needs two parts
        if not known.any():
            continue
        rows, total, n_scored, n_filled = (
            parts.rows[kept[start:stop]][known],
            total[known],
            n_scored[known],
            n_filled[known],
        )
        mean = means.mean[rows]
        drawn = np.maximum(weighted_sums(n_scored, weights), 1e-9)  # if no part is drawn, the mean stays
        spread = np.sqrt(n_filled / (n_filled - 1.0))
        noise = weighted_sums(total - mean[:, None] * n_scored, weights) / drawn * spread
        scaled = noise * np.sqrt(means.n_votes[rows] / n_trees)
        score = np.concatenate([mean[None], mean + scaled, mean + noise][: 1 + kinds])
        measuring.add(rows, predicted(score))
        n_rows += len(rows)
    if n_rows == 0:
        raise FewVotesError("no row was left out of the bags of two trees: give validation rows")
    value = measuring.conclude()
    return value[1 : 1 + REPLICATES], value[-REPLICATES:]
