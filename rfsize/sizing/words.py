"""How reports print numbers, and when they call a forest too small to tell."""

from __future__ import annotations

import math

from rfsize.voting.groups import ALONE, Groups

# With a few trees a row looks settled that is not; below this many on average no forest is called large enough.
FEWEST_VOTES = 10

# A smaller share of out-of-bag votes than any sensible bagging fraction leaves.
FEW_OUT_OF_BAG = 0.1

# More rows than these without votes make T* that of the others, where they are those of large groups. (XGBoost puts two
# rows in every bag.)
_FEW_ROWS, _FEW_UNTOLD = 2, 0.01


def too_many_untold(n_dropped: int, n_rows: int) -> bool:
    """Whether T* is not known where so many of the rows that belong together have no votes."""
    return n_dropped > max(_FEW_ROWS, _FEW_UNTOLD * n_rows)


def finite(size: int | float) -> int | None:
    """A size as ``json`` takes it."""
    return int(size) if math.isfinite(size) else None


def in_percent(share: float) -> str:
    """A share as reports print it: with two decimals, or as many as tell it from 1."""
    missing = 1.0 - share
    decimals = 2 if missing <= 0.0 else min(max(2, math.ceil(round(-math.log10(missing), 6)) - 2), 10)
    return f"{share:.{decimals}%}"


def in_words(size: int | float) -> str:
    """A size as reports print it."""
    return f"{size:,}" if math.isfinite(size) else "inf"


def no_votes_advice(source: str, available: int, groups: Groups = ALONE) -> str:
    """What to do where no row has votes or scores enough, as the end of a sentence."""
    if available < 2:
        return f": the forest has {available} tree; train more"
    if source == "oob":
        saw = "every row" if groups.index is None else "every row, or another of its group"
        return f": every tree saw {saw}; lower the bagging fraction or give validation rows"
    return ": nothing to size a forest from"
