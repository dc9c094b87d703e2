"""What CI makes of tests that did not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION = (
    "SKIPPED [3] tests/integrations/xgboost/test_multi_output.py:72: since XGBoost 3.2 such trees keep their hessians"
)
PACKAGE = "SKIPPED [1] tests/spark/test_spark.py:17: could not import 'pyspark': No module named 'pyspark'"
BROWSER = "SKIPPED [9] tests/reporting/test_browser.py:30: Chromium is not installed (apt-get install chromium)"
NO_JAVA = "NOT RUN: the tests on Spark, for there is no Java"


@pytest.mark.parametrize(
    ("spark", "tests", "status", "said"),
    [
        ("7 passed in 3 s", VERSION, 0, "3 skipped, 0 for a reason that must not be"),
        ("7 passed in 3 s", PACKAGE, 0, "[run in the stage spark]"),
        (NO_JAVA, PACKAGE, 1, "2 skipped, 2 for a reason that must not be"),
        (
            "7 passed in 3 s",
            f"{VERSION}\n{BROWSER}",
            1,
            "Chromium is not installed (apt-get install chromium) [MUST RUN]",
        ),
    ],
)
def test_what_may_be_skipped(spark: str, tests: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text(spark)
    (tmp_path / "tests.log").write_text(f"{tests}\n9 passed")
    logs = [str(tmp_path / f"{stage}.log") for stage in ("tests", "spark")]
    command = [sys.executable, str(ROOT / ".ci" / "skipped.py"), *logs]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert ended.returncode == status
    assert said in ended.stdout
