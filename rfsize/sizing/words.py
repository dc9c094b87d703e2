"""How reports print numbers."""

from __future__ import annotations

import math

import numpy as np

from rfsize._util import how_many
from rfsize.counting.coverage import by_nature_advice
from rfsize.counting.outputs import TreeOutputs

RARE = 0.05
"""A class with a smaller share of the labels is rare."""

_METRICS = {"log_loss": "log loss", "auc": "AUC", "brier": "Brier score", "rmse": "RMSE", "mae": "MAE", "r2": "R²"}

VOTED = {"hard": "majority vote", "soft": "averaged scores"}


def metric_in_words(name: str) -> str:
    """The name of a metric in sentences."""
    return _METRICS.get(name, name)


def finite(size: int | float) -> int | None:
    """A size for ``json``; None if it is infinite."""
    return int(size) if math.isfinite(size) else None


def rows_from(n_rows: int, source: str) -> str:
    """The number of rows and their source, such as "569 out-of-bag rows"."""
    if source == "oob":
        return how_many(n_rows, "out-of-bag row")
    rows = how_many(n_rows, "row")
    return f"the {rows} you gave" if source == "rows given" else f"{rows} in {source}"


def decimals(interval: tuple[float, float]) -> int:
    """How many decimals to print of a number with this interval."""
    length = interval[1] - interval[0]
    return int(np.clip(2 - np.floor(np.log10(max(length, 1e-12))), 0, 8))


def in_round_percent(share: float) -> str:
    """A share to two digits, such as "26 %"."""
    return f"{float(f'{100.0 * share:.2g}'):g} %"


def in_words(size: int | float) -> str:
    """A size as reports print it."""
    return f"{size:,}" if math.isfinite(size) else "inf"


def roughly(size: int | float) -> int | float:
    """A size to three digits; more are not known of a forest far larger than the one at hand."""
    if not math.isfinite(size):
        return size
    return int(round(size, min(0, 2 - math.floor(math.log10(max(size, 1))))))


def from_to(interval: tuple[int | float, int | float]) -> str:
    """An interval of sizes, such as "19 to 45" or "190 or more"."""
    low, high = interval
    return f"{in_words(low)} to {in_words(high)}" if math.isfinite(high) else f"{in_words(low)} or more"


def no_votes_advice(outputs: TreeOutputs) -> str:
    """What to do if no row has enough votes or scores, as the end of a sentence."""
    if outputs.n_trees < 2:
        return f": the forest has {how_many(outputs.n_trees, 'tree')}; train more"
    if outputs.source == "oob":
        saw = "every row" if outputs.groups.index is None else "every row, or another of its group"
        by_nature = by_nature_advice(outputs.groups.by)
        return f": every tree saw {saw}; lower the bagging fraction or give validation rows{by_nature}"
    return ": nothing to size a forest from"
