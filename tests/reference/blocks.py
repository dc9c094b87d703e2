"""What blocks of trees say, added up one tree and one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

N_BLOCKS, N_FIRST = 20, 74


def of_shared_bags(label: np.ndarray, score: np.ndarray, inbag: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """Of trees that each cast a vote: labels, (n_trees, n_rows), scores, (n_trees, n_rows, n_scores), and bags."""
    n_trees, n_rows, n_scores = score.shape
    votes = np.zeros((n_rows, N_BLOCKS, n_classes), dtype=int)
    total, squares = np.zeros((2, n_rows, N_BLOCKS, n_scores))
    asked = np.zeros((n_rows, N_BLOCKS, 1), dtype=int)
    first = np.zeros((n_rows, N_FIRST, n_scores))
    for tree in range(n_trees):
        for row in range(n_rows):
            if not inbag[tree, row]:
                block, place = tree % N_BLOCKS, asked[row].sum()
                if place < N_FIRST:
                    first[row, place] = score[tree, row]
                votes[row, block, label[tree, row]] += 1
                total[row, block] += score[tree, row]
                squares[row, block] += score[tree, row] ** 2
                asked[row, block, 0] += 1
    return {"votes": votes, "total": total, "squares": squares, "asked": asked, "first": first}


def of_bags_of_each_class(score: np.ndarray, inbag: np.ndarray) -> dict[str, np.ndarray]:
    """Of trees of single classes, which score together: scores, (n_trees, n_rows, n_classes), bags, (n_classes, …).

    A vote is of the trees of two classes: that which it is for, and that which it would else have been for, of the two
    that lead on the row.
    """
    n_trees, n_rows, n_classes = score.shape
    votes = np.zeros((n_rows, N_BLOCKS, n_classes), dtype=int)
    total, squares = np.zeros((2, n_rows, N_BLOCKS, n_classes))
    asked = np.zeros((n_rows, N_BLOCKS, n_classes), dtype=int)
    first = np.zeros((n_rows, N_FIRST, n_classes))
    for row in range(n_rows):
        heard = [[tree for tree in range(n_trees) if not inbag[k, tree, row]] for k in range(n_classes)]
        for k in range(n_classes):
            first[row, : len(heard[k]), k] = [score[tree, row, k] for tree in heard[k][:N_FIRST]]
            for tree in heard[k]:
                total[row, tree % N_BLOCKS, k] += score[tree, row, k]
                squares[row, tree % N_BLOCKS, k] += score[tree, row, k] ** 2
                asked[row, tree % N_BLOCKS, k] += 1
        members = list(zip(*heard, strict=False))
        label = [int(np.argmax([score[tree, row, k] for k, tree in enumerate(trees)])) for trees in members]
        leader, runner_up = sorted(range(n_classes), key=lambda k: (-label.count(k), k))[:2]
        for vote, trees in zip(label, members, strict=True):
            other = runner_up if vote == leader else leader
            for block in {trees[vote] % N_BLOCKS, trees[other] % N_BLOCKS}:
                votes[row, block, vote] += 1
    return {"votes": votes, "total": total, "squares": squares, "asked": asked, "first": first}


def assert_blocks(found: Any, expected: dict[str, np.ndarray], rows: Any = slice(None)) -> None:
    """Whether blocks are those of some of the rows that were expected."""
    assert np.array_equal(found.votes, expected["votes"][rows])
    assert np.array_equal(found.asked, expected["asked"][rows])
    np.testing.assert_allclose(found.first, expected["first"][rows], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.total, expected["total"][rows], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found.squares, expected["squares"][rows], rtol=1e-4, atol=1e-4)
