"""Progress bars for work that takes a while."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # In a notebook without ipywidgets the bars are text. tqdm warns of that at import, but it is harmless.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

_SECONDS_BEFORE = 2.0


def progress_bar(what: str, total: int | None, unit: str, *, shown: bool = True, **options: Any) -> Any:
    """A progress bar that appears only if the work takes long, and disappears at the end.

    ``options`` are further options of tqdm.
    """
    if not shown:
        options["disable"] = True  # set only in this case, because it overrides TQDM_DISABLE
    return tqdm(desc=what, total=total, unit=f" {unit}", delay=_SECONDS_BEFORE, leave=False, **options)


def rows_bar(what: str, n_rows: int | None) -> Any:
    """A progress bar over rows, counted in thousands or millions."""
    return progress_bar(what, n_rows, "rows", unit_scale=True)


# The most cells of (rows × trees) in memory while votes are counted: a few hundred megabytes.
CELLS_PER_BLOCK = 1 << 22


def blocks(rows: int, n_trees: int, *, what: str, most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of rows, small enough to hold one number per row and tree, with a progress bar if it takes long."""
    step = max(1, min(CELLS_PER_BLOCK // max(1, n_trees), rows if most_rows is None else most_rows))
    with rows_bar(what, rows) as bar:
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            yield start, stop
            bar.update(stop - start)
