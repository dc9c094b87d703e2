"""The file of a stop table: strict JSON with a checksum. Reading trusts nothing in the file.

Fields are read whatever their types are, and `rfsize.StopTable.from_dict` then asks for the checksum of the table that
was read. So a field of another type, an unknown one, or a number that is not finite gives another checksum. Here only
the values are checked.
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._files import check_format, json_of, refusing_damage, require, written_whole
from rfsize._util import MAX_CLASSES, Floats, Int64s, is_digest
from rfsize.models.link import LINKS, Link
from rfsize.statistics.certify import COUNTS, Certificate, ClassCounts, ClassOutcome
from rfsize.statistics.criterion import AVERAGES
from rfsize.stopping.rules import MAX_TREES, Rule
from rfsize.stopping.scores import IntervalRule
from rfsize.stopping.spread import Remainder, SpreadRule
from rfsize.stopping.vote_prior import is_solved_exactly
from rfsize.stopping.votes import VoteRule, WeightedVote, checked_weights

FORMAT, VERSION = "rfsize.StopTable", 7

_LARGEST_FILE = 16_000_000  # bytes; the largest table takes a few millions
_MOST_ROWS = 2**53
_ROUNDING = 1e-9


def write_document(path: str | PathLike[str], document: dict[str, Any]) -> None:
    """Write a signed document, whole or not at all."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_document(path: str | PathLike[str]) -> Any:
    """Read a JSON file; ``FileError`` if it is not JSON."""
    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    with refusing():
        require(len(content) <= _LARGEST_FILE, f"it is larger than {_LARGEST_FILE:,} bytes, more than any stop table")
        return json_of(content)


def refusing() -> AbstractContextManager[None]:
    """Raise `FileError` instead of the errors that damaged or hostile content raises."""
    return refusing_damage("the file is no stop table, or is damaged", "build and save the table again")


def signed(**content: Any) -> dict[str, Any]:
    """The document with its format, its version, and a checksum over everything."""
    document = {"format": FORMAT, "version": VERSION, **content}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**document, "checksum": hashlib.sha256(canonical.encode()).hexdigest()}


def expected_to_list(expected: tuple[ClassOutcome, ...] | None) -> list[list[float | None]] | None:
    """The numbers of each class, without its label; null for NaN."""
    if expected is None:
        return None
    return [[None if math.isnan(number) else number for number in outcome[1:]] for outcome in expected]


def stored_fields(document: Any) -> dict[str, Any]:
    """The fields of the `StopTable` in a document.

    Raises
    ------
    ValueError
        If a value is impossible, or values do not fit together. Other errors if a field is missing or has another type.
    """
    check_format(document, FORMAT, VERSION)
    n_trees, n_classes = _whole(document["n_trees"], MAX_TREES), _whole(document["n_classes"], MAX_CLASSES)
    alpha, classes = float(document["alpha"]), document["classes"]
    require(0.0 < alpha <= 1.0, f"alpha must be above 0 and at most 1, found {alpha!r}")
    stops, certificate = _rule(document, n_trees, n_classes), document["certificate"]
    fields = {
        "n_trees": n_trees,
        "n_classes": n_classes,
        "alpha": alpha,
        "stops": stops,
        "prior": document["prior"],
        "classes": None if classes is None else _labels(classes, n_classes),
        "threshold": _threshold(document["threshold"], n_classes, stops),
        "certificate": None if certificate is None else _certificate(certificate, alpha, n_trees, n_classes),
    }
    _check_promise(stops, alpha, fields["prior"], fields["threshold"], fields["certificate"])
    expected, labels = document["expected"], fields["classes"] or tuple(range(n_classes))
    require(expected is None or fields["prior"] is not None, "without a prior, nothing is expected")
    return {**fields, "expected": None if expected is None else _expected(expected, n_trees, labels)}


def _check_promise(stops: Rule, alpha: float, prior: Any, threshold: Any, certificate: Certificate | None) -> None:
    """``ValueError`` if what a table promises does not fit its stops, or its certificate."""
    is_weighted = isinstance(stops, WeightedVote)
    is_built = stops.voting == "hard" and certificate is None and not is_weighted
    require(prior in (("uniform", "given") if is_built else (None,)), "its prior does not fit its stops")
    require(stops.voting == "hard" or certificate is not None, "a table of scores has a certificate")
    if is_weighted:
        is_lossless = alpha == 1.0 and certificate is None and threshold is None
        require(is_lossless, "a table of weighted votes is lossless, without a certificate and a threshold")
    if certificate is not None:
        require(alpha < 1.0, "no number of rows certifies an alpha of 1")
        bound = certificate.exact_bound
        is_kept = bound <= (1.0 - alpha) * (1.0 + _ROUNDING)
        require(is_kept, f"its certificate bounds {bound!r} of the rows, and alpha={alpha!r}")


# Rules


def _rule(document: dict[str, Any], n_trees: int, n_classes: int) -> Rule:
    """The stops of a table."""
    kind, stops = document["kind"], document["stops"]
    require(n_classes > 1 or kind == "spread", f"a table of kind {kind!r} has classes")
    if kind in ("averages", "sums"):
        return _interval(stops, n_trees, n_classes, adds_up=kind == "sums")
    if kind == "spread":
        return _spread(stops, n_trees, n_classes)
    if kind == "weighted":
        return WeightedVote(checked_weights(_numbers(stops["weights"], n_trees)))
    require(kind == ("binary" if n_classes == 2 else "leaders"), f"there is no kind {kind!r} of these classes")
    return _of_two(stops, n_trees) if n_classes == 2 else _of_several(stops, n_trees, n_classes)


def _interval(stops: Any, n_trees: int, n_classes: int, *, adds_up: bool) -> IntervalRule:
    margin = _numbers(stops["margin"], n_trees)
    is_margin = margin[-1] == 0.0 and (np.diff(margin) <= 0.0).all()
    require(is_margin, "margin must fall from tree to tree, or stay, and end with 0")
    cut = float(stops["cut"]) if n_classes == 2 and "cut" in stops else None
    return IntervalRule(np.append(np.inf, margin), cut, adds_up, _whole(stops["every"], MAX_TREES))


def _of_two(stops: Any, n_trees: int) -> VoteRule:
    n_used, last = np.arange(n_trees + 1), n_trees // 2  # after the last tree, every row stops at its majority
    low = _bounds(stops["low"], -1, np.append((n_used[1:-1] - 1) // 2, last))
    high = _bounds(stops["high"], np.append(n_used[1:-1] // 2, last) + 1, n_used[1:] + 1)
    require((low[-1], high[-1]) == (last, last + 1), "low and high must stop every row after the last tree")
    return VoteRule(np.append(np.int32(-1), low), np.append(np.int32(1), high))


def _of_several(stops: Any, n_trees: int, n_classes: int) -> VoteRule:
    n_used = np.arange(n_trees + 1)
    if "margin" in stops:
        return VoteRule(margin=np.append(np.int32(1), _bounds(stops["margin"], 1, n_used[1:] + 1)))
    if "upper" in stops:
        return VoteRule(upper=_bounds(stops["upper"], n_used // 2 + 1, n_used + 1))
    if "tallies" in stops:
        require(is_solved_exactly(n_trees, n_classes), "there are too many tallies for these trees and classes")
        bits = np.frombuffer(bytes.fromhex(stops["tallies"]), dtype=np.uint8)
        require(bits.size == -(-math.comb(n_trees + n_classes, n_classes) // 8), "there are other tallies")
        return VoteRule(bits=bits)
    return VoteRule()


def _bounds(values: Any, low: Any, high: Int64s) -> NDArray[np.int32]:
    """Bounds on votes, one for each of ``high``, which must lie from low to high."""
    bounds = np.array(values, dtype=np.int64)
    is_possible = bounds.shape == high.shape and ((low <= bounds) & (bounds <= high)).all()
    require(is_possible, "bounds on votes must be votes that a leader can have")
    return bounds.astype(np.int32)


def _spread(stops: Any, n_trees: int, n_classes: int) -> SpreadRule:
    remainder = None
    if "left" in stops:
        remainder = Remainder(*(_numbers(stops[name], n_trees) for name in Remainder._fields))
        share = remainder.share
        rises_to_one = share[0] > 0.0 and share[-1] == 1.0 and (np.diff(share) >= 0.0).all()
        is_possible = np.min(remainder) >= 0.0 and rises_to_one
        require(is_possible, "left and unit must be at least 0, and share above 0 and rise to 1 after the last tree")
    limit, weight, slope, tolerance = (float(stops[name]) for name in ("limit", "weight", "slope", "tolerance"))
    pooled, metric, link = np.array(stops["pooled"], dtype=np.float64), stops["metric"], stops["link"]
    are_numbers = limit >= 0.0 and weight >= 1.0 and slope > 0.0 and tolerance > 0.0 and (pooled >= 0.0).all()
    require(are_numbers, "limit and pooled must be at least 0, weight at least 1, slope and tolerance above 0")
    n_scores = {1: range(1, MAX_CLASSES + 1), 2: (1, 2)}.get(n_classes, (n_classes,))
    require(pooled.ndim == 1 and len(pooled) in n_scores, "pooled must hold one number for each score of a tree")
    require(metric == "scores" or (metric == "probabilities" and n_classes > 1), f"there is no metric {metric!r}")
    require(link in LINKS, f"there is no link {link!r}")
    every = _whole(stops["every"], MAX_TREES)
    return SpreadRule(limit, pooled, weight, every, Link(link, slope), metric, tolerance, remainder)


# Other fields


def _labels(value: Any, n_classes: int) -> tuple[Any, ...]:
    """Class labels."""
    are_labels = all(type(label) in (bool, int, float, str) for label in value)
    require(are_labels and len(set(value)) == len(value) == n_classes, "classes must be different numbers or texts")
    return tuple(value)


def _threshold(value: Any, n_classes: int, stops: Rule) -> float | None:
    """The threshold of the labels; None if the file has none."""
    if value is None:
        needs_none = n_classes != 2 or not isinstance(stops, IntervalRule)
        require(needs_none, "a table of the scores of two classes has a threshold")
        return None
    require(n_classes == 2 and 0.0 < value < 1.0, "threshold must be a probability of two classes")
    return float(value)


def _expected(value: Any, n_trees: int, labels: tuple[Any, ...]) -> tuple[ClassOutcome, ...]:
    """What a table from a prior expects of each class."""
    numbers = np.array(value, dtype=np.float64)
    require(numbers.shape == (len(labels), 3), "expected must hold three numbers for each class")
    wins = numbers[:, 0] != 0.0
    numbers[~wins, 1:] = np.nan
    most = (1.0 + _ROUNDING) * np.array([1.0, 1.0, n_trees])
    is_possible = (numbers[wins] >= 0.0) & (numbers[wins] <= most)
    require(is_possible.all(), "expected must hold shares and numbers of trees")
    require(abs(numbers[:, 0].sum() - 1.0) <= _ROUNDING, "the expected shares of the classes must sum to 1")
    return tuple(ClassOutcome(label, *outcome) for label, outcome in zip(labels, numbers.tolist(), strict=True))


def _certificate(value: Any, alpha: float, n_trees: int, n_classes: int) -> Certificate:
    """Read the output of `Certificate.to_dict`."""
    rows, disagreements, trees = counts = np.array([value[name] for name in COUNTS], dtype=np.int64)
    require(counts.shape == (len(COUNTS), n_classes), "a certificate counts the rows of each class")
    most = _MOST_ROWS // (n_trees * n_classes)
    are_rows = ((rows >= 0) & (rows <= most)).all() and rows.any()
    require(are_rows, "the rows must be at least 0 for each class, and not all 0")
    is_possible = (disagreements >= 0) & (disagreements <= rows) & (trees >= rows) & (trees <= rows * n_trees)
    require(is_possible.all(), f"rows use 1 to {n_trees} trees, and no more rows disagree than there are")
    confidence, average, forest = float(value["confidence"]), value["average"], value["forest"]
    require(0.0 < confidence < 1.0, "confidence must be above 0 and below 1")
    require(average in AVERAGES, f"there is no average {average!r}")
    require(forest is None or is_digest(forest), "forest must be the SHA-256 of a forest's leaves")
    return Certificate(ClassCounts.of_sums(*counts), alpha, confidence, average, forest)


# Values


def _whole(value: Any, at_most: int) -> int:
    require(1 <= value <= at_most, f"found {value!r} for a number from 1 to {at_most}")
    return int(value)


def _numbers(values: Any, length: int) -> Floats:
    numbers = np.array(values, dtype=np.float64)
    require(numbers.shape == (length,), f"there must be {length} numbers, found shape {numbers.shape}")
    return numbers
