"""A search that an older version wrote loads, and goes on where it was.

That in ``data`` is of rfsize 0.1.0 as of commit 4168bd3, the last before it was divided into packages: the search of
`test_a_search_is_taken_up`, run from the beginning.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rfsize

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def answers() -> dict[str, np.ndarray]:
    with np.load(DATA / "answers.npz") as file:
        return dict(file)


def test_a_search_is_taken_up(answers: dict[str, np.ndarray], tmp_path: Path) -> None:
    file = tmp_path / "search.zip"
    shutil.copy(DATA / "search.zip", file)
    found = search_of_answers(answers, file, [0.3, 0.5])
    assert_taken_up(found.curve, answers["search.curve"])  # with the seconds of the first time
    assert file.read_bytes() == (DATA / "search.zip").read_bytes()


def test_a_search_of_files_without_blocks_goes_on(answers: dict[str, np.ndarray], tmp_path: Path) -> None:
    file = tmp_path / "search.zip"
    shutil.copy(DATA / "search.zip", file)
    first = search_of_answers(answers, file, [0.3, 0.4, 0.5])
    again = search_of_answers(answers, file, [0.3, 0.4, 0.5])
    assert again.curve["seconds"].tolist() == first.curve["seconds"].tolist()
    assert again.curve["size"].tolist() == first.curve["size"].tolist()
    assert_taken_up(search_of_answers(answers, file, [0.3, 0.5]).curve, answers["search.curve"])


def search_of_answers(answers: dict[str, np.ndarray], file: Path, fractions: list[float]) -> rfsize.FractionSearch:
    params: dict[str, Any] = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "num_leaves": 6, "seed": 3}
    return rfsize.select_bagging_fraction(
        {**params, "verbose": -1, "num_threads": 1},
        lgb.Dataset(answers["search.X"].astype(float), answers["search.y"]),
        fractions,
        n_trees=25,
        alpha=0.95,
        voting="hard",  # the default then
        estimator="plugin",
        resume=file,
    )


def assert_taken_up(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the bit, but for 0.7, which leaves too few votes today, and for differences, which were to it."""
    assert found.dtype == expected.dtype
    assert found["fraction"].tolist() == expected["fraction"][:2].tolist()
    for name in set(found.dtype.names) - {"difference", "difference_se"}:
        np.testing.assert_array_equal(found[name], expected[name][:2])
