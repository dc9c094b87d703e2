"""Equation (1): fractions with and without replacement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rfsize.theory.sampling_ratio import DEFAULT_FRACTIONS, fraction_without_replacement, ratio_with_replacement


def test_equation_1_takes_one_grid_of_the_paper_to_the_other() -> None:
    with_replacement = np.arange(1, 13) / 10
    np.testing.assert_allclose(ratio_with_replacement(DEFAULT_FRACTIONS), with_replacement)
    np.testing.assert_allclose(fraction_without_replacement(with_replacement), DEFAULT_FRACTIONS)
    assert ratio_with_replacement(0.5) == 1.0
    assert fraction_without_replacement(1) == 0.5
    assert fraction_without_replacement([[1.0, 3.0]]).shape == (1, 2)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, float("nan"), "half", [0.5, 1.5], True, None])
def test_equation_1_refuses_what_is_no_fraction(wrong: Any) -> None:
    with pytest.raises(ValueError, match="fraction"):
        ratio_with_replacement(wrong)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), float("nan"), "one"])
def test_equation_1_refuses_what_is_no_ratio(wrong: Any) -> None:
    with pytest.raises(ValueError, match="ratio"):
        fraction_without_replacement(wrong)
