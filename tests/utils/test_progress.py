"""Progress bars: when they show, and what turns them off."""

from __future__ import annotations

import os
import subprocess
import sys

import lightgbm as lgb
import pytest

import rfsize
from helpers.forests import Data

PARAMS = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbosity": -1}


def test_growing(data: Data, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("rfsize.utils.progress._SECONDS_BEFORE", 0.0)
    dtrain = lgb.Dataset(data.X, data.y, free_raw_data=False)
    rfsize.grow(PARAMS, dtrain, alpha=0.8, groups="rows")
    assert "growing" in capsys.readouterr().err


@pytest.mark.parametrize("told", [{}, {"TQDM_DISABLE": "1"}])
def test_the_environment_turns_them_off(told: dict[str, str]) -> None:
    """Of a process of its own: tqdm looks when it is imported."""
    code = """
        from rfsize.utils import progress
        progress._SECONDS_BEFORE = 0.0
        with progress.progress_bar("growing", 2, "trees", shown=True) as bar:
            bar.update(1)
    """
    command = [sys.executable, "-c", "if True:" + code]
    environment = {key: value for key, value in os.environ.items() if key != "TQDM_DISABLE"}
    shown = subprocess.run(command, env=environment | told, capture_output=True, text=True, check=True).stderr
    assert ("growing" in shown) == (not told)
