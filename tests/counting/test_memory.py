"""A limit of memory: refused before it begins, and held where it is not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rfsize
from helpers.forests import Data

ASKED: dict[str, Callable[..., Any]] = {
    "votes": lambda model, data, **more: rfsize.tree_outputs(model, data.X, **more).votes,
    "count": lambda model, data, **more: rfsize.tree_outputs(model, data.X, data.y, **more),
    "size": lambda model, data, **more: rfsize.size(rfsize.tree_outputs(model, data.X, **more), alpha=0.9),
    "votes out of bag": lambda model, data, **more: rfsize.tree_outputs(model, data.X, oob=True, **more).votes,
}

# Asks of so many rows under the limit that the message names, and prints by how much the process grew, and the limit.
GROWTH = """
import re, warnings
from pathlib import Path
import lightgbm as lgb, numpy as np
import rfsize
warnings.simplefilter("ignore")
def held(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))
X = np.random.default_rng(0).standard_normal((800_000, 4), dtype=np.float32)
y = np.digitize(X[:5000, 0] + X[:5000, 1] ** 2, [0, 1])
params = {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}
model = lgb.train({**params, "num_leaves": 5, "verbose": -1}, lgb.Dataset(X[:5000], y), 20)
def ask(rows, limit):
    return rfsize.size(rfsize.tree_outputs(model, rows, max_memory=limit), metric="probabilities", tolerance=0.05)
ask(X[:5000], None)
try:
    ask(X, 1)
except ValueError as error:
    limit = 1e9 * float(re.search(r"may take ([\\d.]+) GB", str(error))[1]) + 1e7
Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
ask(X, limit)
print(held("VmHWM") - before, limit)
"""


@pytest.mark.parametrize("what", ASKED)
def test_too_little_memory_is_refused(lgb_booster: Any, data: Data, what: str) -> None:
    ask = ASKED[what]
    with pytest.raises(ValueError, match=r"may take 0\.\d+ GB of memory.* allow more") as refused:
        ask(lgb_booster, data, max_memory=1e6)
    enough = 1e9 * float(re.search(r"may take ([\d.]+) GB", str(refused.value))[1]) + 1e7  # type: ignore[index]
    found, expected = ask(lgb_booster, data, max_memory=enough), ask(lgb_booster, data)
    assert str(found) == str(expected)


def test_as_many_rows_as_are_named_fit(lgb_booster: Any, data: Data) -> None:
    rows = np.tile(data.X, (40_000 // len(data.X), 1))
    with pytest.raises(ValueError, match="allow") as refused:
        rfsize.tree_outputs(lgb_booster, rows, max_memory=1)
    always = 1e9 * float(re.search(r"([\d.]+) GB do not depend", str(refused.value))[1])  # type: ignore[index]
    limit = always + 300_000
    with pytest.raises(ValueError, match="rows at a time") as refused:
        rfsize.tree_outputs(lgb_booster, rows, max_memory=limit)
    fit = int(re.search(r"ask about ([\d,]+) rows", str(refused.value))[1].replace(",", ""))  # type: ignore[index]
    assert 0 < fit < len(rows)
    assert len(rfsize.tree_outputs(lgb_booster, rows[:fit], max_memory=limit).votes.counts) == fit
    with pytest.raises(ValueError, match="rows at a time"):
        rfsize.tree_outputs(lgb_booster, rows[: fit + 1], max_memory=limit)


def test_out_of_bag_all_rows_are_needed(lgb_booster: Any, data: Data) -> None:
    with pytest.raises(ValueError, match="out of bag takes all rows at once"):
        rfsize.tree_outputs(lgb_booster, data.X, oob=True, max_memory=5e8 + 1e4)


@pytest.mark.parametrize("limit", [0, -1, np.nan, "2 GB", True])
def test_a_limit_is_a_positive_number(lgb_booster: Any, data: Data, limit: Any) -> None:
    with pytest.raises(ValueError, match="max_memory must be a positive number"):
        rfsize.tree_outputs(lgb_booster, data.X, max_memory=limit)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="tells the most memory held on Linux alone")
def test_the_limit_is_held() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    grown, limit = map(float, done.stdout.split())
    assert grown < limit
