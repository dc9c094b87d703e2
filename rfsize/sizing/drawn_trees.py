"""A metric of what a forest predicts, and of what draws of its trees do."""

from __future__ import annotations

import numpy as np

from rfsize.counting.evidence import Evidence
from rfsize.estimation.intervals import REPLICATES, SEED
from rfsize.estimation.shared_trees import weighted_sums
from rfsize.exceptions import FewVotesError
from rfsize.sizing.metrics import Metric
from rfsize.utils.matrix import blocks
from rfsize.utils.typing import Floats

# Rows whose predictions tell where those of draws will lie.
_AT_HAND = 100_000


def drawn_trees(outputs: Evidence, judge: Metric, *, most_rows: int | None = None) -> tuple[Floats, Floats]:
    """The metric of averages of draws of the parts of a forest, shape (REPLICATES,).

    As noisy as the whole forest is, and as the parts that rows asked are; on ``most_rows``, spread over all.
    """
    averages, n_trees = outputs.averages, outputs.n_trees
    n_parts = len(averages.parts)
    rng, even = np.random.default_rng(SEED), np.full(n_parts, 1.0 / n_parts)
    weights = rng.multinomial(n_parts, even, size=REPLICATES).astype(np.float64)
    # The forest itself, then its replicates as noisy as it is, then as noisy as those of out-of-bag trees.
    kinds = 2 if outputs.source == "oob" else 1
    n_scores, n_outputs = averages.mean.shape[1], max(1, len(outputs.classes))
    at_most = [most for most in (most_rows, judge.most_rows(1 + kinds * REPLICATES, n_outputs)) if most is not None]
    step = -(-len(averages.total) // min(at_most, default=len(averages.total)))
    # An order of single scores is that of what they predict.
    is_order = judge.by_order and n_scores == 1

    def predicted(score: Floats) -> Floats:
        return score if is_order else outputs.predictor.predictions(score)

    some = averages.mean[averages.is_asked]
    measuring = judge.start(1 + kinds * REPLICATES, predicted(some[:: -(-len(some) // _AT_HAND) or 1]))
    n_rows = 0
    cells = max(1, (2 + 2 * kinds) * REPLICATES * max(n_scores, n_outputs) // step)
    for start, stop in blocks(len(averages.total), cells, what="metric"):
        part = averages.take(start + -start % step, stop, step)
        # Deviations need two parts that were asked for each score.
        part = part.where(part.n_parts_asked.min(axis=1) > 1)
        if not len(part.rows):
            continue
        drawn = np.maximum(weighted_sums(part.asked_of, weights), 1e-9)  # where none was drawn, the mean stays
        spread = np.sqrt(part.n_parts_asked / (part.n_parts_asked - 1.0))
        noise = weighted_sums(part.total - part.mean[:, None] * part.asked_of, weights) / drawn * spread
        scaled = noise * np.sqrt(part.asked / n_trees)
        score = np.concatenate([part.mean[None], part.mean + scaled, part.mean + noise][: 1 + kinds])
        measuring.add(part.rows, predicted(score))
        n_rows += len(part.rows)
    if n_rows == 0:
        raise FewVotesError("no row was left out of the bags of two trees: give validation rows")
    value = measuring.conclude()
    return value[1 : 1 + REPLICATES], value[-REPLICATES:]
