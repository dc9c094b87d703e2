"""What estimators are trained on: one check of y, of labels and of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rfsize.counting.training_data import checked_target

LABELS = ["b", "a", "b", "c"]
NUMBERS = [3, 1, 2, 3]


def test_labels_are_indices_into_the_sorted_classes() -> None:
    classes, label = checked_target(LABELS, 4, of_labels=True)
    assert classes.tolist() == ["a", "b", "c"]
    assert label.tolist() == [1, 0, 1, 2]


def test_numbers_have_no_classes() -> None:
    classes, numbers = checked_target(NUMBERS, 4, of_labels=False)
    assert not len(classes)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == NUMBERS


@pytest.mark.parametrize("of_labels", [True, False])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None: give one {what} per row"),
        ([3, 1], "X has 4 rows and y 2 {what}s; give one {what} per row"),
        (
            [[3, 1]] * 4,
            "y has 2 columns; .* one {what} per row: .* as sklearn.multioutput.MultiOutput{model}",
        ),
        ([3, 1, np.nan, 2], "y contains NaN"),
        ([], "minimum of 1 is required"),
    ],
)
def test_what_is_not_one_per_row_is_refused_alike(y: Any, message: str, *, of_labels: bool) -> None:
    what, model = ("label", "Classifier") if of_labels else ("number", "Regressor")
    with pytest.raises(ValueError, match=message.format(what=what, model=model)):
        checked_target(y, 4, of_labels=of_labels)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1, 1], r"one class only, \[1\]"),
        (np.array(["a", 1, "b", 2], dtype=object), "mixes labels of the types int, str"),
        ([0.5, 1.25, 3.5, 2.5], "Unknown label type"),
    ],
)
def test_labels_that_are_no_two_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_target(y, 4, of_labels=True)


def test_labels_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        checked_target(LABELS, 4, of_labels=False)
