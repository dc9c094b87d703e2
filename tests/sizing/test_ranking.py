"""Metrics of a ranking: what the weight of a row at a level adds, against trying it."""

from __future__ import annotations

import numpy as np
import pytest

from rfsize.sizing import ranking

# Rows without weight lie above, between and below the others.
LOW = np.array([0.0, 3.0, 1.0, 0.0, 2.0, 0.0])
HIGH = np.array([0.0, 1.0, 2.0, 0.0, 4.0, 0.0])


@pytest.mark.parametrize("name", ["auc", "average_precision"])
def test_slopes_are_what_a_little_more_weight_adds(name: str) -> None:
    metric, slopes = getattr(ranking, name), getattr(ranking, f"{name}_slopes")(LOW, HIGH)
    for of_class, slope in enumerate(slopes):
        for level in np.flatnonzero(LOW + HIGH):
            more = [LOW.copy(), HIGH.copy()]
            more[of_class][level] += 1e-6
            assert slope[level] == pytest.approx((metric(*more) - metric(LOW, HIGH)) / 1e-6, rel=1e-4, abs=1e-6)
        assert np.isfinite(slope).all()
