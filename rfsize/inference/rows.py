"""Checks and quantises rows for a compiled forest, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfsize import _core
from rfsize.models.columns import Columns, rows_for
from rfsize.utils import matrix
from rfsize.utils.threads import each_range
from rfsize.walking.layout import PackedForest
from rfsize.walking.quantising import quantised_blocks, rows_per_block


def columns_of(forest: PackedForest) -> Columns:
    """The columns that a compiled forest was trained on."""
    conventions = forest.conventions
    return Columns(
        forest.feature_names,
        forest.n_features,
        conventions.categorical,
        spaces_become_underscores=conventions.spaces_become_underscores,
    )


class Rows:
    """Reads rows for one forest.

    Parameters
    ----------
    forest : PackedForest
        The forest that asks for the rows.
    n_jobs : int
        Number of threads that work on blocks of rows; -1 for one per core.
    """

    def __init__(self, forest: PackedForest, n_jobs: int) -> None:
        self._forest, self._n_jobs = forest, n_jobs

    def checked(self, X: Any) -> Any:
        """Check ``X``, and return it in the form that `each_block` takes.

        Raises
        ------
        ValueError
            If ``X`` does not fit the forest.
        """
        return rows_for(X, columns_of(self._forest))

    def each_block(self, X: Any, work: Callable[[_core.Rows, slice], None]) -> None:
        """Quantise blocks of checked rows, and call ``work`` on each, in ``n_jobs`` threads.

        Raises
        ------
        ValueError
            If the rows hold a value that the framework refuses.
        """
        for first, rows in matrix.pieces(X):
            self._each_block_of(rows, first, work)

    def _each_block_of(self, X: Any, first: int, work: Callable[[_core.Rows, slice], None]) -> None:
        """The same for rows in memory; ``first`` is the number of the first row."""
        rows, quantise = matrix.n_rows(X), quantised_blocks(self._forest, X)

        def one(start: int, stop: int) -> None:
            work(quantise(start, stop), slice(first + start, first + stop))

        each_range(one, rows, rows_per_block(rows, self._forest.n_columns, n_jobs=self._n_jobs), n_jobs=self._n_jobs)
