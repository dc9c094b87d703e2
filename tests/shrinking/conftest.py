"""Fewer rows are made of others than for users, so that tests are fast."""

from __future__ import annotations

import pytest

from rfsize.shrinking import crossing


@pytest.fixture(autouse=True)
def few_rows_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "_MOST_ROWS", 4000)
