"""Progress bars of work that takes a while."""

from __future__ import annotations

import warnings
from typing import Any

from tqdm import TqdmWarning

with warnings.catch_warnings():
    # In a notebook without ipywidgets the bars are text, which is nothing to warn of where rfsize is imported.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

_SECONDS_BEFORE = 2.0


def progress_bar(what: str, total: int | None, unit: str, *, shown: bool = True, **options: Any) -> Any:
    """A bar over so many of a unit, which shows only when the work takes long, and goes when it is done.

    ``options`` are further ones of tqdm's.
    """
    if not shown:
        options["disable"] = True  # only then: what is said here goes before TQDM_DISABLE
    return tqdm(desc=what, total=total, unit=f" {unit}", delay=_SECONDS_BEFORE, leave=False, **options)


def rows_bar(what: str, n_rows: int | None) -> Any:
    """A bar over rows, which are counted in thousands or millions."""
    return progress_bar(what, n_rows, "rows", unit_scale=True)
