"""What forests say of the rows that each was not trained on, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import class_indices
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.groups import ALONE, Groups
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes


def of_folds(
    parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int, groups: Groups = ALONE
) -> TreeOutputs:
    """Outputs of all rows, each by the forest of the fold that held it out.

    Parameters
    ----------
    parts : sequence of tuple
        For each fold the numbers of its rows, and what the trees of its forest say of them.
    classes : ndarray, shape (n_classes,)
        All classes, of which a forest may know some; empty for regression.
    n_rows : int
        Rows; those that no fold holds out have no votes.
    groups : Groups, optional
        Rows that belong together.

    Returns
    -------
    TreeOutputs
        Scores, and blocks of trees, are those of forests that know all classes.
    """
    first = parts[0][1]
    found = TreeOutputs(
        n_rows,
        first.n_trees,
        _votes(parts, classes, n_rows) if len(classes) else None,
        predict_obeys=first.predict_obeys,
        source="cross-validation",
        groups=groups,
    ).trained_as(first)
    knowing_all = [(rows, outputs) for rows, outputs in parts if len(outputs.classes) == len(classes)]
    if not knowing_all or knowing_all[0][1].scores is None:
        return found
    order = np.concatenate([rows for rows, _ in knowing_all])
    number = np.concatenate([rows[outputs.scored] for rows, outputs in knowing_all])
    # Rows that no fold holds out have the scores of no tree; where rows are many, folds score a part of theirs.
    scored = np.delete(np.arange(n_rows), np.setdiff1d(order, number))
    of_forests = [outputs.scores for _, outputs in knowing_all if outputs.scores is not None]
    scores = Scores.nothing(len(scored), of_forests[0].n_scores)
    scores.put(np.searchsorted(scored, number), Scores.stacked(of_forests))
    blocks = TreeBlocks.of_forests(
        [outputs.blocks for _, outputs in knowing_all if outputs.blocks is not None],
        [len(rows) for rows, _ in knowing_all],
    )
    return replace(
        found,
        scores=scores,
        scored=slice(None) if len(scored) == n_rows else scored,
        blocks=replace(blocks, rows=order[blocks.rows]),
        link=knowing_all[0][1].link,
        cut=knowing_all[0][1].cut,
    )


def _votes(parts: Sequence[tuple[Int64s, TreeOutputs]], classes: NDArray[Any], n_rows: int) -> Votes:
    counts = np.zeros((n_rows, len(classes)), dtype=np.int32)
    for rows, outputs in parts:
        counts[rows[:, None], class_indices(classes, outputs.classes, len(outputs.classes))] = outputs.votes.counts
    first = parts[0][1]
    return Votes(counts, classes, first.n_trees, threshold=first.votes.threshold)
