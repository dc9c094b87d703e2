"""The file of a stop table: strict JSON with a checksum. Reading trusts nothing in the file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from functools import partial
from os import PathLike
from reprlib import repr as short
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rfsize._files import check_format, json_of, written_whole
from rfsize._util import MAX_CLASSES, Floats, is_digest
from rfsize.exceptions import FileError
from rfsize.models.link import LINKS, Link
from rfsize.statistics.certify import COUNTS, Certificate, ClassCounts, ClassOutcome
from rfsize.statistics.criterion import AVERAGES
from rfsize.stopping.rules import MAX_TREES, IntervalRule, Rule, TallyRule, WeightedVote, checked_weights
from rfsize.stopping.spread import Remainder, SpreadRule
from rfsize.stopping.vote_prior import is_solved_exactly

FORMAT, VERSION = "rfsize.StopTable", 7

KEYS = (
    *("n_trees", "n_classes", "kind", "alpha", "prior", "stops"),
    *("classes", "threshold", "certificate", "expected"),
)
"""The keys of a table's document, besides format, version and checksum."""

_LARGEST_FILE = 16_000_000  # bytes; the largest table takes a few millions
_LONGEST_NAME = 10_000  # characters of a class label
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
    if len(content) > _LARGEST_FILE:
        refuse(f"the file is larger than {_LARGEST_FILE:,} bytes, more than any stop table")
    try:
        return json_of(content)
    except ValueError as error:
        refuse(f"the file is not JSON as a stop table is stored: {str(error)[:200]}")


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """The document with its format, its version, and a checksum over everything."""
    document = {"format": FORMAT, "version": VERSION, **content}
    return {**document, "checksum": _checksum(document)}


def _checksum(document: dict[str, Any]) -> str:
    """The checksum over everything in a document but the checksum itself."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def expected_to_list(expected: tuple[ClassOutcome, ...] | None) -> list[list[float | None]] | None:
    """The numbers of each class, without its label; null for NaN."""
    if expected is None:
        return None
    return [[None if math.isnan(number) else number for number in outcome[1:]] for outcome in expected]


def refuse(reason: str) -> NoReturn:
    """Raise `FileError` with what was found and what to do."""
    raise FileError(f"{reason}; build and save the table again")


def stored_fields(document: Any) -> dict[str, Any]:
    """The fields of the `StopTable` in a document; ``FileError`` if one is wrong, or they do not fit together."""
    keys = {"format", "version", *KEYS, "checksum"}
    try:
        check_format(document, FORMAT, VERSION)
    except ValueError as error:
        refuse(str(error))
    if set(document) != keys:
        own_keys = ", ".join(sorted(map(str, document))[:20])[:400]
        refuse(f"a stop table of version {VERSION} has the keys {', '.join(sorted(keys))}; found {own_keys}")
    n_trees = _whole(document, "n_trees", 1, MAX_TREES)
    n_classes = _whole(document, "n_classes", 1, MAX_CLASSES)
    alpha = document["alpha"]
    if type(alpha) is not float or not 0.0 < alpha <= 1.0:
        refuse(f"alpha must be a fraction above 0 and at most 1, found {short(alpha)}")
    stops = _rule(document, n_trees, n_classes)
    classes = _labels(document["classes"], n_classes)
    certificate = _certificate(document["certificate"], alpha, n_trees, n_classes)
    fields = {
        "n_trees": n_trees,
        "n_classes": n_classes,
        "alpha": alpha,
        "stops": stops,
        "prior": _prior(document["prior"], stops, certificate),
        "classes": classes,
        "threshold": _threshold(document["threshold"], n_classes, stops),
        "certificate": certificate,
        "expected": _expected(document["expected"], n_trees, n_classes, classes),
    }
    _check_promise(fields)
    if document["checksum"] != _checksum({key: value for key, value in document.items() if key != "checksum"}):
        refuse("the checksum does not fit the content: the table is damaged")
    return fields


def _check_promise(table: dict[str, Any]) -> None:
    """``FileError`` if what a table promises does not fit its stops, or its certificate."""
    stops, alpha, certificate = table["stops"], table["alpha"], table["certificate"]
    if stops.voting == "soft" and certificate is None:
        refuse("a table of scores has a certificate")
    is_weighted = isinstance(stops, WeightedVote)
    if is_weighted and (alpha != 1.0 or certificate is not None or table["threshold"] is not None):
        refuse("a table of weighted votes is lossless, with an alpha of 1, and has no certificate and no threshold")
    if table["expected"] is not None and table["prior"] is None:
        refuse("expected numbers are those of a prior, and the table has none")
    if certificate is None:
        return
    if alpha == 1.0:
        refuse("no number of rows certifies an alpha of 1")
    if not certificate.exact_bound <= (1.0 - alpha) * (1.0 + _ROUNDING):
        refuse(
            f"the certificate's bound is {100.0 * certificate.exact_bound:.4f} %, but alpha={alpha!r} promises "
            f"{100.0 * (1.0 - alpha):.4f} %"
        )


# Rules


def _rule(document: dict[str, Any], n_trees: int, n_classes: int) -> Rule:
    """The stops of a table."""
    readers: dict[str, Callable[[dict[str, Any], int, int], Rule]] = {"spread": _spread}
    if n_classes > 1:
        readers |= {
            "averages": _averages,
            "sums": partial(_averages, adds_up=True),
            "weighted": _weighted,
            "binary" if n_classes == 2 else "leaders": _votes,
        }
    kind, stops = document["kind"], document["stops"]
    if type(kind) is not str or kind not in readers:
        refuse(f"kind must be one of {', '.join(readers)} for these trees and classes, found {short(kind)}")
    if type(stops) is not dict:
        refuse(f"stops must be an object, found {short(stops)}")
    return readers[kind](stops, n_trees, n_classes)


def _averages(stops: dict[str, Any], n_trees: int, n_classes: int, *, adds_up: bool = False) -> IntervalRule:
    has_cut = n_classes == 2 and "cut" in stops
    _check_keys(stops, ("margin", "every", "cut") if has_cut else ("margin", "every"))
    margin = _numbers(stops, "margin", float, n_trees)
    if margin[-1] != 0.0 or (np.diff(margin) > 0.0).any():
        refuse("margin must fall from tree to tree, or stay, and end with 0, so that the last tree settles every row")
    cut = _real(stops, "cut") if has_cut else None
    every = _whole(stops, "every", 1, MAX_TREES)
    return IntervalRule("soft", margin=np.append(np.inf, margin), cut=cut, adds_up=adds_up, every=every)


def _votes(stops: dict[str, Any], n_trees: int, n_classes: int) -> Rule:
    n_used = np.arange(n_trees + 1)
    if n_classes == 2:
        _check_keys(stops, ("low", "high"))
        last = [n_trees // 2]  # after the last tree, every row stops at its majority
        low = _bounds(stops, "low", -1, np.append((n_used[1:-1] - 1) // 2, last), n_used[1:])
        high = _bounds(stops, "high", np.append(n_used[1:-1] // 2, last) + 1, n_used[1:] + 1, n_used[1:])
        if (low[-1], high[-1]) != (n_trees // 2, n_trees // 2 + 1):
            refuse("the bounds must stop every row at its majority after the last tree")
        return IntervalRule("hard", np.append(np.int32(-1), low), np.append(np.int32(1), high))
    if not stops:
        return TallyRule()
    if "margin" in stops:
        _check_keys(stops, ("margin",))
        return IntervalRule(
            "hard", margin=np.append(np.int32(1), _bounds(stops, "margin", 1, n_used[1:] + 1, n_used[1:]))
        )
    if "upper" in stops:
        _check_keys(stops, ("upper",))
        return TallyRule(upper=_bounds(stops, "upper", n_used // 2 + 1, n_used + 1, n_used))
    _check_keys(stops, ("tallies",))
    if not is_solved_exactly(n_trees, n_classes):
        refuse("there are too many tallies for these trees and classes")
    size, text = -(-math.comb(n_trees + n_classes, n_classes) // 8), stops["tallies"]
    if type(text) is not str or len(text) != 2 * size or not set(text) <= set("0123456789abcdef"):
        refuse(f"tallies must be {2 * size:,} hexadecimal digits, found {short(text)}")
    return TallyRule(bits=np.frombuffer(bytes.fromhex(text), dtype=np.uint8))


def _bounds(stops: dict[str, Any], name: str, low: Any, high: Any, over: NDArray[Any]) -> NDArray[np.int32]:
    """Bounds on votes, one for each of ``over``, which must lie from low to high."""
    bounds = _numbers(stops, name, int, len(over))
    if not ((low <= bounds) & (bounds <= high)).all():
        refuse(f"{name} must be bounds on votes that a leader can have")
    return bounds.astype(np.int32)


def _weighted(stops: dict[str, Any], n_trees: int, n_classes: int) -> WeightedVote:
    _check_keys(stops, ("weights",))
    try:
        return WeightedVote(checked_weights(_numbers(stops, "weights", float, n_trees)))
    except ValueError as error:
        refuse(str(error))


def _rises_to_one(share: Floats) -> bool:
    return bool(share[0] > 0.0 and share[-1] == 1.0 and (np.diff(share) >= 0.0).all())


def _spread(stops: dict[str, Any], n_trees: int, n_classes: int) -> SpreadRule:
    of_boosted = Remainder._fields if "left" in stops else ()
    _check_keys(stops, ("limit", "pooled", "weight", "every", "link", "slope", "metric", "tolerance", *of_boosted))
    remainder = Remainder(*(_numbers(stops, name, float, n_trees) for name in of_boosted)) if of_boosted else None
    if remainder is not None and (np.min(remainder) < 0.0 or not _rises_to_one(remainder.share)):
        refuse("left and unit must be at least 0, and share above 0 and rise to 1 after the last tree")
    limit, weight, slope, tolerance = (_real(stops, name) for name in ("limit", "weight", "slope", "tolerance"))
    pooled, every = _numbers(stops, "pooled", float), _whole(stops, "every", 1, MAX_TREES)
    if limit < 0.0 or weight < 1.0 or slope <= 0.0 or tolerance <= 0.0 or (pooled < 0.0).any():
        refuse("limit and pooled must be at least 0, weight at least 1, slope and tolerance above 0")
    fits = {1: range(1, MAX_CLASSES + 1), 2: (1, 2)}.get(n_classes, (n_classes,))
    if len(pooled) not in fits:
        refuse(f"pooled must hold one number for each score of a tree, found {len(pooled)} for {n_classes} classes")
    metric = _choice(stops, "metric", ("probabilities", "scores") if n_classes > 1 else ("scores",))
    link = Link(_choice(stops, "link", LINKS), slope)
    return SpreadRule(limit, pooled, weight, every, link, metric, tolerance, remainder)


# Other fields


def _prior(value: Any, stops: Rule, certificate: Certificate | None) -> str | None:
    """How the prior was given; None if the table has none."""
    is_built = stops.voting == "hard" and certificate is None and not isinstance(stops, WeightedVote)
    if value not in (("uniform", "given") if is_built else (None,)):
        refuse(f"prior must be 'uniform' or 'given' of a table from a prior, null of any other, found {short(value)}")
    return None if value is None else str(value)


def _labels(value: Any, n_classes: int) -> tuple[Any, ...] | None:
    """Class labels; None if the file has none."""
    if value is None:
        return None
    if type(value) is not list or len(value) != n_classes:
        refuse(f"classes must be a list of {n_classes}, found {short(value)}")
    for label in value:
        fits = type(label) in (bool, int, float) or (type(label) is str and len(label) <= _LONGEST_NAME)
        if not fits or (type(label) is int and label.bit_length() > 64):
            refuse(f"classes must be numbers or text, found {short(label)}")
    if len(set(value)) != n_classes or not all(type(label) is str or np.isfinite(label) for label in value):
        refuse(f"classes must be different from each other and finite, found {short(value)}")
    return tuple(value)


def _threshold(value: Any, n_classes: int, stops: Rule) -> float | None:
    """The threshold of the labels; None if the file has none."""
    if value is None and not (n_classes == 2 and isinstance(stops, IntervalRule) and stops.voting == "soft"):
        return None
    if n_classes != 2 or type(value) is not float or not 0.0 < value < 1.0:
        refuse(f"threshold must be a probability of two classes, or null, found {short(value)} of {n_classes} classes")
    return value


def _expected(
    value: Any, n_trees: int, n_classes: int, labels: tuple[Any, ...] | None
) -> tuple[ClassOutcome, ...] | None:
    """What a table expects of each class; None if the file has none."""
    if value is None:
        return None
    if type(value) is not list or len(value) != n_classes:
        refuse(f"expected must be a list of {n_classes}, found {short(value)}")
    for outcome in value:
        if type(outcome) is not list or len(outcome) != 3:
            refuse(f"expected must hold three numbers for each class, found {short(outcome)}")
        if outcome == [0.0, None, None]:  # a class that never wins
            continue
        for number, most in zip(outcome, (1.0, 1.0, n_trees), strict=True):
            if type(number) is not float or not 0.0 <= number <= most * (1.0 + _ROUNDING):
                refuse(f"expected must hold shares and numbers of trees, found {short(outcome)}")
    if not abs(sum(outcome[0] for outcome in value) - 1.0) <= _ROUNDING:
        refuse("the expected shares of the classes must sum to 1")
    names = range(n_classes) if labels is None else labels
    numbers = ([math.nan if number is None else number for number in outcome] for outcome in value)
    return tuple(ClassOutcome(label, *outcome) for label, outcome in zip(names, numbers, strict=True))


def _certificate(value: Any, alpha: float, n_trees: int, n_classes: int) -> Certificate | None:
    """Read the output of `Certificate.to_dict`; None if the file has none."""
    if value is None:
        return None
    _check_keys(value, (*COUNTS, "confidence", "average", "forest"), "certificate")
    rows, disagreements, trees = (_numbers(value, name, int, n_classes) for name in COUNTS)
    if not ((rows >= 0) & (rows <= _MOST_ROWS // (n_trees * n_classes))).all() or not rows.any():
        refuse("rows must be at least 0 for each class, and not all be 0")
    if not ((disagreements >= 0) & (disagreements <= rows)).all():
        refuse("disagreements must lie between 0 and the rows of each class")
    if not ((trees >= rows) & (trees <= rows * n_trees)).all():
        refuse(f"trees must be those used for the rows of each class, 1 to {n_trees} for each row")
    confidence, forest = value["confidence"], value["forest"]
    if type(confidence) is not float or not 0.0 < confidence < 1.0:
        refuse(f"confidence must be a fraction above 0 and below 1, found {short(confidence)}")
    if forest is not None and not is_digest(forest):
        refuse(f"forest must be the SHA-256 of a forest's leaves or null, found {short(forest)}")
    counts = ClassCounts.of_sums(rows, disagreements, trees)
    return Certificate(counts, alpha, confidence, _choice(value, "average", AVERAGES), forest)


# Values


def _check_keys(value: Any, names: tuple[str, ...], what: str = "stops") -> None:
    if type(value) is not dict or set(value) != set(names):
        refuse(f"{what} must have the keys {', '.join(sorted(names)) or 'none'}, found {short(value)}")


def _whole(values: dict[str, Any], name: str, at_least: int, at_most: int) -> int:
    value = values[name]
    if type(value) is not int or not at_least <= value <= at_most:
        refuse(f"{name} must be a whole number from {at_least} to {at_most}, found {short(value)}")
    return value


def _real(values: dict[str, Any], name: str) -> float:
    return float(_numbers({name: [values[name]]}, name, float, 1)[0])


def _choice(values: dict[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = values[name]
    if type(value) is not str or value not in choices:
        refuse(f"{name} must be one of {', '.join(choices)} for these trees and classes, found {short(value)}")
    return value


def _numbers(values: dict[str, Any], name: str, of: type, length: int | None = None) -> NDArray[Any]:
    """A list of finite numbers of one type, as an array."""
    value = values[name]
    if type(value) is not list or (length is not None and len(value) != length):
        refuse(f"{name} must be a list{'' if length is None else f' of {length}'}, found {short(value)}")
    if not all(type(item) is of for item in value):
        refuse(f"{name} must hold numbers of type {of.__name__} only")
    try:
        array = np.array(value, dtype=np.int64 if of is int else np.float64)
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")
    if not np.isfinite(array).all():
        refuse(f"{name} holds a number that is not finite")
    return array
