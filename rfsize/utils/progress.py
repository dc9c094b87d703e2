"""Progress bars for work that takes a while."""

from __future__ import annotations

import warnings
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
