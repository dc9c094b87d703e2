"""What the sizes of bags tell of the rows that they were drawn from."""

from __future__ import annotations

import math

from rfsize.utils.typing import Floats

# By how many standard deviations, at most, a forest's bags are larger or smaller than expected.
_DEVIATIONS = 4.5
# Shares of the rows that are likely to be asked for, 0.632 as in a bootstrap sample.
_ROUND_SHARES = (*(part / 100 for part in range(1, 100)), 0.632)


def can_be_of(n_rows: int, sizes: Floats, subsample: float) -> bool:
    """Whether the bags of a forest's trees, which have these sizes, may have been drawn from this number of rows.

    Yes where none of the sizes is known, as of trees that are one leaf each, and of NaN.
    """
    if not sizes.size:
        return True
    deviation = math.sqrt(n_rows * (1.0 / subsample - 1.0) / sizes.size)
    # XGBoost puts two rows in every bag.
    return not abs(sizes.mean() / subsample - n_rows) > _DEVIATIONS * deviation + 2


def round_shares(n_rows: int, sizes: Floats) -> list[float]:
    """Round shares of the rows by which the bags may have been drawn; none where no size is known."""
    if not sizes.size:
        return []
    drawn = float(sizes.mean()) / n_rows
    deviation = math.sqrt(max(drawn * (1.0 - drawn), 0.0) / (n_rows * sizes.size))
    return [part for part in _ROUND_SHARES if abs(drawn - part) < _DEVIATIONS * deviation]
