"""What reports say, whoever asked for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import rfsize

_OF_THE_TRUTH = {"beside", "warnings"}


def agreement(report: rfsize.Report, n_trees: int) -> float:
    """Share of the labels that equal those of an unlimited forest."""
    return 1.0 - report._answer.value(n_trees)


def as_sure(report: rfsize.Report, confidence: float = 0.8) -> dict[str, Any]:
    """A report as training asks for it, which wants to be sure, where that of a finished forest asks for T* itself.

    Without what depends on the labels, which training knows.
    """
    goal = replace(report.goal, confidence=confidence)
    said = replace(report, goal=goal).to_dict()
    return {name: value for name, value in said.items() if name not in _OF_THE_TRUTH}


def of_same_votes(report: rfsize.Report) -> dict[str, Any]:
    """The same without what it says of copies: a Dataset may have given up its rows."""
    return {name: value for name, value in as_sure(report).items() if name not in {"copied", "groups"}}


def _rel(name: str) -> float:
    # Rows are put into cells by their scores, and last digits move some to the next cell.
    return 1e-3 if name == "interval" else 1e-6


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two reports agree but for the last digits, in which sums of scores may differ, and for other metrics."""
    one, other = ({name: value for name, value in said.items() if name not in _OF_THE_TRUTH} for said in (one, other))
    return one.keys() == other.keys() and all(
        value == other[name]
        or (isinstance(value, dict) and isinstance(other[name], dict) and same(value, other[name]))
        or (_is_of_floats(value) and value == pytest.approx(other[name], abs=1e-9, rel=_rel(name)))
        for name, value in one.items()
    )


def _is_of_floats(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(one, float) for one in values)
