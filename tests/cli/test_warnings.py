"""What a report says is not warned of besides; other warnings are a line each."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import lightgbm as lgb
import pandas as pd
import pytest

from helpers.command_line import NAMES, run
from helpers.forests import Data

PARAMS = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 2, "num_threads": 1, "verbosity": -1}
SHARED, SEEN = "bagging_freq=2 gives 2 consecutive trees the same bag", "rows that the forest was trained on"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Path:
    """A forest whose trees share bags, and its training rows."""
    folder = tmp_path_factory.mktemp("shared")
    table = pd.DataFrame(data.X, columns=NAMES)
    lgb.train({**PARAMS, "objective": "binary"}, lgb.Dataset(table, data.y), 60).save_model(folder / "model.txt")
    table.assign(label=data.y, more=0.0).to_csv(folder / "rows.csv", index=False)
    return folder


OF_MODEL = ["model.txt", "rows.csv", "--labels", "label", "--alpha", "0.8"]
TRAINING = [
    "rows.csv",
    "--labels",
    "label",
    "--drop",
    "more",
    "--framework",
    "lightgbm",
    "--params",
    json.dumps(PARAMS),
]
COMMANDS = {
    "size": [*OF_MODEL, "--drop", "more"],
    "size --json": [*OF_MODEL, "--drop", "more", "--json"],
    "truncate": [*OF_MODEL, "--drop", "more", "--oob", "-o", "small.txt"],
    "grow": [*TRAINING, "--alpha", "0.8", "--max-trees", "100", "-o", "grown.txt"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_and_no_warning_says_it(
    command: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(tmp_path / one) if one in ("small.txt", "grown.txt") else one for one in COMMANDS[command]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run(rows, command.partition(" ")[0], *options) == 0
    printed = capsys.readouterr().out
    assert printed.count(SHARED) == 1
    assert printed.count(SEEN) == command.startswith("size")
    assert [str(one.message) for one in caught if one.category.__module__.startswith("rfsize")] == []


def test_what_no_report_says_is_warned_of(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match=r"the columns \['more'\] of X are left out") as caught:
        assert run(rows, "size", *OF_MODEL) == 0
    assert len(caught) == 1


def test_a_warning_is_a_line_and_comes_before_a_refusal_too(rows: Path) -> None:
    code = "import sys; from rfsize.cli.main import main; sys.exit(main())"
    asked = [str(rows / one) if (rows / one).exists() else one for one in OF_MODEL]
    done = subprocess.run(
        [sys.executable, "-c", code, "size", *asked, "--method", "plugin", "--metric", "rmse", "--tolerance", "0.1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    *warned, refused = done.stderr.splitlines()
    assert warned[0].startswith("rfsize: warning: the columns ['more'] of X are left out")
    assert all(line.startswith("rfsize: warning: ") for line in warned)
    assert "rmse" in refused
