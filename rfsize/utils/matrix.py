"""Counts and slices the rows of a feature matrix of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rfsize.utils.pieces import Pieces, PiecesElsewhere, pieces_of
from rfsize.utils.progress import rows_bar
from rfsize.utils.rows import column_names, in_memory, picked, sliced
from rfsize.utils.typing import Int64s

# The most cells of (rows × trees) in memory while votes are counted: a few hundred megabytes.
CELLS_PER_BLOCK = 1 << 22


def as_rows(X: Any, *, numbers_only: bool = True) -> Any:
    """``X`` in a form that `take` can slice: `Pieces`, or what `in_memory` returns.

    Raises
    ------
    ValueError
        If ``X`` is missing, is not a matrix, has no rows, or holds anything but numbers and categories.
    """
    found = pieces_of(X)
    return in_memory(X, numbers_only=numbers_only) if found is None else found


def names_of(X: Any) -> list[str] | None:
    """Names of the columns, None if they have none."""
    return X.names if isinstance(X, Pieces) else column_names(X)


def n_rows(X: Any) -> int:
    """Number of rows of the output of `as_rows`."""
    return int(X.shape[0] if hasattr(X, "shape") else X.num_row())


def n_features(X: Any) -> int:
    """Number of columns of the output of `as_rows`."""
    return int(X.shape[1] if hasattr(X, "shape") else X.num_col())


def take(X: Any, start: int, stop: int) -> Any:
    """Rows ``start`` to ``stop`` of the output of `as_rows`, in the same form; for `Pieces`, in the form of a piece."""
    if isinstance(X, Pieces):
        return X.read(start, stop)
    return X if start == 0 and stop == n_rows(X) else sliced(X, start, stop)


def pick(X: Any, rows: Int64s) -> Any:
    """Some rows of the output of `as_rows`, by their ascending numbers, in the form of `take`."""
    return X.pick(rows) if isinstance(X, Pieces) else picked(X, rows)


def pieces(X: Any) -> Iterable[tuple[int, Any]]:
    """All rows in pieces that fit into memory, each after the number of its first row."""
    return X if isinstance(X, Pieces) else [(0, X)]


def of_pieces(X: Any, work: Callable[..., Any], *options: Any) -> Iterator[Any]:
    """The results of ``work(first, rows, *options)`` for each of the `pieces`, computed where the pieces are."""
    if isinstance(X, PiecesElsewhere):
        return X.each(work, *options)
    return (work(first, rows, *options) for first, rows in pieces(X))


def blocks(rows: int, n_trees: int, *, what: str, most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of rows, small enough to hold one number per row and tree, with a progress bar if it takes long."""
    step = max(1, min(CELLS_PER_BLOCK // max(1, n_trees), rows if most_rows is None else most_rows))
    with rows_bar(what, rows) as bar:
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            yield start, stop
            bar.update(stop - start)
