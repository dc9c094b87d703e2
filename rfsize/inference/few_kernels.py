"""A few rows predicted in a single compiled call, for those who ask for one at a time.

What a call is handed takes longer to unpack than a row takes to go down a hundred trees, array by array. So the forest
lies in one piece of memory, as `few_rows.packed` lays it out, and is taken apart here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize.inference.score_kernels import ask_ahead, predict_from
from rfsize.utils.jit import compiled
from rfsize.walking.row_kernels import places_of_row, quantise_row


@compiled
def predict_few(
    X: Any,
    memory: Any,
    place: Any,
    whole: Any,
    number: Any,
    start: Any,
    stop: Any,
    answer: Any,
    predicted: Any,
) -> Any:
    """Predict rows of double precision; whether all of them could be, which is not so where the framework refuses some.

    Labels and trees asked go to ``answer``, shape (2, rows), and what is predicted of all trees to ``predicted``, shape
    (rows, n_classes or 1), or nowhere where that has no rows.
    """
    n_outputs, n_columns, width, link, divisor, refuses_infinite, refuses_missing = whole[:7]
    slope, threshold, single_precision, missing, zero_within, lowest_category = number[:6]
    if not _are_taken(X, refuses_infinite, refuses_missing):
        return False
    reading = single_precision > 0.0, missing, zero_within, lowest_category
    trees, columns = _trees(memory, place, start, width), _columns(memory, place)
    # Two whole numbers, three bounds for each number of trees asked, and the drift of each score.
    n_bounds = (stop.size - 2 - start.size) // 3
    low, high, needed = (
        stop[2 : 2 + n_bounds],
        stop[2 + n_bounds : 2 + 2 * n_bounds],
        stop[2 + 2 * n_bounds : -start.size],
    )
    stops = np.int64(stop[0]), np.int64(stop[1]), low, high, needed, stop[-start.size :]
    q, total = np.empty((X.shape[0], n_columns), np.uint16), np.empty((X.shape[0], start.size), start.dtype)
    own = np.full(1, threshold).astype(start.dtype)[0]  # as precise as what it is compared with
    rows = np.arange(X.shape[0])
    on_the_way, probability = places_of_row(n_outputs), np.empty((1, max(2, start.size)), start.dtype)
    for row in range(X.shape[0]):
        quantise_row(X, row, columns, reading, q)
        answer[0, row], answer[1, row], total[row] = -1, n_bounds - 1, start
        ask_ahead(rows[row : row + 1], 0, q, trees, n_outputs, stops, on_the_way, total, answer[0], answer[1])
        if predicted.shape[0] > 0:
            predict_from(total[row : row + 1], divisor, slope, link, predicted[row : row + 1])
        elif answer[0, row] < 0:
            predict_from(total[row : row + 1], divisor, slope, link, probability)
            answer[0, row] = label_of(probability[0], start.size, own)
    return True


@compiled
def label_of(probability: Any, n_scores: Any, threshold: Any) -> Any:
    """Index of the class that the framework predicts from its probabilities of all."""
    if n_scores == 1:
        return np.int64(probability[1] > threshold)
    return np.int64(probability.argmax())


@compiled
def _trees(memory: Any, place: Any, start: Any, width: Any) -> Any:
    """The arrays of `Nodes`, in its order."""
    return (
        memory[place[0, 0] : place[0, 1]].view(np.uint64),
        memory[place[1, 0] : place[1, 1]].view(start.dtype).reshape((-1, width)),
        memory[place[2, 0] : place[2, 1]].view(np.uint16),
        memory[place[3, 0] : place[3, 1]].view(np.int64),
        memory[place[4, 0] : place[4, 1]].view(np.int64),
        memory[place[5, 0] : place[5, 1]].view(np.uint32),
    )


@compiled
def _columns(memory: Any, place: Any) -> Any:
    """The arrays of `Columns`, in its order."""
    return (
        memory[place[6, 0] : place[6, 1]].view(np.int64),
        memory[place[7, 0] : place[7, 1]].view(np.int64),
        memory[place[8, 0] : place[8, 1]].view(np.float64),
        memory[place[9, 0] : place[9, 1]].view(np.int64),
        memory[place[10, 0] : place[10, 1]].view(np.uint8),
        memory[place[11, 0] : place[11, 1]].view(np.int64),
    )


@compiled
def _are_taken(X: Any, refuses_infinite: Any, refuses_missing: Any) -> Any:
    """Whether the framework takes the rows: some refuse infinite numbers, and some missing ones."""
    if refuses_infinite or refuses_missing:
        for number in X.flat:
            single = np.float32(number)
            if (refuses_infinite and np.isinf(single)) or (refuses_missing and np.isnan(single)):
                return False
    return True
