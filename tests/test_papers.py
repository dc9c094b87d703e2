"""The command that runs the papers' experiments again: it goes on where it was, and compares as it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("lightgbm", "xgboost", "matplotlib", "pandas"):
        pytest.importorskip(needed)
    monkeypatch.syspath_prepend(str(ROOT))


def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    from benchmarks.papers.store import Results

    path = tmp_path / "runs.jsonl"
    Results(path).add({"problem": "twonorm", "repetition": 0})
    with path.open("a") as file:
        file.write('{"problem": "twonorm", "repet')
    results = Results(path)
    assert results.of(problem="twonorm", repetition=0)
    assert not results.of(repetition=1)
    results.add({"problem": "twonorm", "repetition": 1})
    assert [json.loads(line)["repetition"] for line in path.read_text().splitlines()] == [0, 1]


def test_differences_are_in_standard_errors() -> None:
    from benchmarks.papers.comparing import Compared, Printed, median_compared, signed, slope

    # Four runs beside a hundred, both of deviation 1: a standard error of √(1/4 + 1/100).
    compared = Compared(np.full(4, 6.02), Printed(5.0, 1.0))
    assert compared.standard_errors == pytest.approx(1.02 / np.sqrt(0.26))
    assert compared.cells(1) == ["6.0", "5.0 ± 1.0", "**+2.0**"]
    assert signed(-1.0) == "−1.0"
    assert median_compared(np.array([90, 100, 110]), 100, 80, 125) == pytest.approx(0.0)
    assert slope([1, 100, 400], [1, 0.1, 0.05]) == pytest.approx(-0.5)


def test_every_figure_of_the_papers_is_read() -> None:
    from benchmarks.papers.comparing import printed

    rows = {name: len(printed(f"hernandez_lobato_2013_{name}")) for name in ("table2", "table3", "table4")}
    assert rows == {"table2": 150, "table3": 100, "table4": 100}


@pytest.mark.parametrize("framework", ["scikit-learn", "LightGBM", "XGBoost"])
def test_votes_are_those_of_trees_that_the_bags_are_of(framework: str) -> None:
    from benchmarks.papers.grown import grown
    from benchmarks.papers.problems import drawn

    training, test = drawn("twonorm", 0, (100, 30))
    trees = grown(framework, "RF", training, test, 15, seed=0)
    assert trees.test.shape == (30, 15)
    assert trees.inbag.shape == trees.train.shape == (100, 15)
    assert 0.55 < trees.inbag.mean() < 0.7
    # Unpruned trees know the rows of their bags.
    assert (trees.train == training[1][:, None])[trees.inbag].all()
    assert (trees.train == training[1][:, None])[~trees.inbag].mean() < 0.95


def test_the_size_is_grown_as_the_paper_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.papers import hernandez_lobato_2013 as paper

    asked: list[int] = []

    def grown(wanted: dict[int, int]) -> int:
        def size_of(alpha: float, size: np.ndarray) -> int:
            asked.append(int(size))
            return wanted[int(size)]

        monkeypatch.setattr(paper, "size_of", size_of)
        return paper.grown_size(lambda size: np.array(size))

    assert grown({100: 31}) == 31
    assert grown({100: 151, 151: 149}) == 149
    assert grown({100: 999, 200: 999, 400: 301}) == 301
    assert asked == [100, 100, 151, 100, 200, 400]


def test_a_table_of_other_rows_is_refused(tmp_path: Path) -> None:
    import pandas as pd

    from benchmarks.papers.problems import NoDataError, rows_of

    pd.DataFrame({"a": [1, 2, 3], "target": ["x", "y", "z"]}).to_csv(tmp_path / "Glass.csv.gz", index=False)
    with pytest.raises(ValueError, match="glass has 3 rows, and 214 in the papers"):
        rows_of("glass", tmp_path, False)
    with pytest.raises(NoDataError, match="give --data with Vehicle"):
        rows_of("vehicle", tmp_path, False)
