"""rfsize.estimation.deviation"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.adapter import left_out, walked
from rfsize.adapters.base import Adapter, Bags
from rfsize.voting.links import Link
from rfsize.voting.scores import Scores


def read(adapter: Adapter, X: Any, bags: Bags | None, link: Link) -> tuple[Scores, float]:
    """Scores of all trees on every row, and how uncertain they leave the mean squared deviation, as a share of it.

    All rows are asked of the same trees, and one of these may deviate on many rows at once. The mean square is a sum of
    what each tree adds to it, and the trees are independent draws. Arguments as in `rfsize.adapter.count_votes`.
    """
    parts, added = [], np.zeros(adapter.n_trees)
    for _, leaf, inbag in walked(adapter, X, bags, what="scores"):
        score = np.asarray(adapter.leaves.raw_scores(leaf), dtype=np.float64)
        counts = np.ones((*score.shape[:2], 1)) if inbag is None else 1.0 - inbag
        asked = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        mean = np.sum(score * counts, axis=1, keepdims=True) / asked
        away = link.moved(mean, (score - mean) * counts)
        added += np.sum(away**2 / asked, axis=(0, 2))
        ordered, may_vote = left_out(leaf, inbag)
        parts.append(Scores.of(score if ordered is leaf else adapter.leaves.raw_scores(ordered), may_vote))
    total = added.sum()
    noise = math.sqrt(added.size) * np.std(added, ddof=1) / total if added.size > 1 and total > 0.0 else 0.0
    return Scores.stacked(parts), float(noise)
