"""What reports say, whoever asked for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import rfsize

_OF_SINGLE_CLASSES = {"agreement_by_class", "label_shares", "price"}


def as_sure(report: rfsize.SizeReport, sure: float = 0.8) -> dict[str, Any]:
    """A report as training asks for it, which wants to be sure, where that of a finished forest asks for T* itself.

    Without the price, which training tells in metrics too, since it knows the labels.
    """
    said = replace(report, sure=sure).to_dict()
    del said["price"]
    return said


def of_same_votes(report: rfsize.SizeReport) -> dict[str, Any]:
    """The same without what it says of copies: a Dataset may have given up its rows."""
    return {name: value for name, value in as_sure(report).items() if name not in {"copied", "groups"}}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two reports agree but for the last digits, in which sums of scores may differ, and the price."""
    one, other = ({name: value for name, value in said.items() if name != "price"} for said in (one, other))
    return one.keys() == other.keys() and all(
        value == other[name]
        or (isinstance(value, dict) and isinstance(other[name], dict) and same(value, other[name]))
        or (_is_of_floats(value) and value == pytest.approx(other[name], abs=1e-9))
        for name, value in one.items()
    )


def _is_of_floats(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(one, float) for one in values)


def of_all_classes(report: rfsize.SizeReport) -> dict[str, Any]:
    """The same without what it says of single classes, whose order decides which of them a tied row is given first."""
    return {name: value for name, value in report.to_dict().items() if name not in _OF_SINGLE_CLASSES}
