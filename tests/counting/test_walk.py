"""One pass down the trees that reads votes and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.forests import Data
from rfsize.counting.evidence import Evidence
from rfsize.counting.forest_on_rows import ForestOnRows


def test_scores_of_a_part_of_the_rows(lgb_multiclass: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ForestOnRows.of(lgb_multiclass, data.X, oob=True)
    whole = Evidence.of(rows)
    monkeypatch.setattr("rfsize.counting.scores._HELD", len(data.X) * 9 // 3)
    monkeypatch.setattr("rfsize.utils.matrix.CELLS_PER_BLOCK", 21 * 3 * 100)
    part = Evidence.of(rows)
    assert part.votes == whole.votes
    assert part.scores is not None
    assert whole.scores is not None
    assert len(whole.scores) == len(data.X)
    assert np.allclose(part.scores.mean, whole.scores.mean[::4])
    assert np.allclose(part.scores.scatter, whole.scores.scatter[::4])
