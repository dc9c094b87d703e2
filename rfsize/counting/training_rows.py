"""Detect whether rows given as fresh rows are the rows that the forest was trained on; trees on rows that are not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Caution, Int64s, give
from rfsize.counting.task import BagCheck, Pass, Task, in_parts
from rfsize.exceptions import InbagError, TrainingRowsWarning
from rfsize.models.bags import Bags, Layout
from rfsize.models.ensemble import LeafIds
from rfsize.models.framework import read_model, refuse_regression
from rfsize.models.model import learning_rate_of
from rfsize.models.rows import Rows

# Fresh rows overfill some leaf long before all of them are counted, so leaves are checked after each part of the rows:
# number of parts, and fewest rows in a part.
_PARTS, _FEWEST_ROWS = 16, 512


def warning_of_training_rows(task: Task) -> tuple[Caution, ...]:
    """A warning if the rows are the training rows in their order; empty if it cannot be known.

    Leaf counts prove that rows are all training rows, as they prove bags. The proof begins only if there are as many
    rows as training rows. It ends as soon as a leaf holds more rows than at training. The bags or the proof may depend
    on labels and weights of the rows; they are tried without and with those of the task.
    """
    if not _are_training_rows(task):
        return ()
    text = (
        f"X are the {task.n_rows:,} rows that the forest was trained on, as its leaf counts prove, and trees agree on "
        "rows that they have seen: give rows that it was not trained on, or, if each bag left some out, oob=True"
    )
    return (Caution(TrainingRowsWarning, text),)


def refuse_training_rows(task: Task) -> None:
    """Raise ``ValueError`` if the rows for a certificate are the rows that the forest was trained on."""
    if _are_training_rows(task):
        raise training_rows_error()


def training_rows_error() -> ValueError:
    """The error for a certificate on rows that the forest was trained on."""
    return ValueError("X are rows that the forest was trained on, which certify nothing for others: give fresh rows")


def _are_training_rows(task: Task) -> bool:
    """Whether bags that are drawn from the rows prove that they are the training rows; False if it cannot be known."""
    if task.bags is not None:
        return False
    layout = Layout.alone(task.n_rows) if isinstance(task.X, Rows) else task.X.layout(None)
    for given in ((None, None), (task.y, task.sample_weight))[: 1 + (task.y is not None)]:
        try:
            bags = task.forest.likely_bags(layout, *given)
        except ValueError:  # labels or weights differ from those of training, or bags cannot be drawn again
            continue
        if bags is not None and _proves(task, bags):
            return True
    return False


def _proves(task: Task, bags: Bags) -> bool:
    """Whether the leaf counts prove that the bags were drawn from these rows."""
    trees, check, most = task.forest.ensemble, BagCheck(task.forest, bags), max(_FEWEST_ROWS, -(-task.n_rows // _PARTS))
    assert trees is not None
    for _ in replace(task.walk, bags=bags).batches("rows", most_rows=most, check=check):
        if (bags.exceeded(trees, check.rebuilt) & trees.has_cover).any():
            return False
    with suppress(InbagError):
        check.conclude()
        return True
    return False


# Rows for certificates, which must not be training rows

# "scores": the scores of each tree before the link, shape (rows, T, n_scores). "partial scores": those that the first
# 1, …, T trees predict together. "values": the leaf values that the framework adds up, in its precision, in the same
# shape. "votes": the class index that each tree votes for, shape (rows, T).
Outputs = Literal["scores", "partial scores", "values", "votes"]

Total = TypeVar("Total")

# Reads a block of outputs. Takes the outputs, and the numbers of the block's rows among all rows.
Read = Callable[[NDArray[Any], Int64s], Total]

# Further numbers that calibration holds for each row and score of a tree.
_CELLS = 6

_WHAT = "scores of trees"  # of a progress bar


def fresh_rows(
    model: Any, X: Any, *, casts_votes: bool, threshold: float | None = None, missing: float | None = None
) -> Task:
    """A model, and rows that it was not trained on; ``casts_votes`` if the trees are to vote.

    Raises
    ------
    ValueError
        If the rows are the training rows, or do not fit the model.
    """
    forest = read_model(model, missing=missing)
    if casts_votes:
        refuse_regression(forest)
    task = Task.of(forest, X, threshold=threshold)
    refuse_training_rows(task)
    give(learning_rate_of(forest, labels_at=task.threshold if casts_votes else None))
    return task


def added_up(task: Task, outputs: Outputs, read: Read[Total], nothing: Callable[[], Total]) -> Total:
    """Call ``read`` on each block of outputs, in the order of the rows, and add up what it returns.

    ``nothing`` makes the total to start from. Rows on workers are read there, so then ``read`` and ``nothing`` must be
    picklable.
    """
    total: Any = nothing()
    for part in in_parts(task, _add_up, task.threshold, outputs, read, nothing, what=_WHAT):
        total += part
    return total


def _add_up(
    walk: Pass, rows: range, threshold: float, outputs: Outputs, read: Read[Any], nothing: Callable[[], Any]
) -> Any:
    forest, total = walk.forest, nothing()
    of_leaves: dict[Outputs, Callable[[LeafIds], NDArray[Any]]] = {
        "scores": lambda leaves: leaves.scores,
        "partial scores": forest.partial_scores,
        "values": forest.leaf_values,
        "votes": forest.leaf_class(threshold),
    }
    for batch in walk.batches(_WHAT, cells=_CELLS * forest.n_members * forest.n_scores):
        number = np.arange(rows.start + batch.rows.start, rows.start + batch.rows.stop)
        total += read(of_leaves[outputs](batch.leaves), number)
    return total
