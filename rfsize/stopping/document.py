"""Stop tables as versioned JSON, read back as data that nobody vouches for.

What is read is checked in three steps: that it has the form of a table, that its checksum fits (damage), and
that the stops keep what the table promises (a promise that a hostile file could state with a checksum as well).
"""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rfsize.errors import TableError
from rfsize.stopping import rules, urn
from rfsize.stopping.certificate import AVERAGES, Certificate, ClassCounts
from rfsize.stopping.spread import SpreadStops
from rfsize.stopping.stops import (
    MAX_TREES,
    MOST_WEIGHT,
    ROUNDING,
    AverageStops,
    BinaryStops,
    LeaderStops,
    Stops,
    TernaryStops,
    WeightedStops,
    ternary_index,
)
from rfsize.utils.files import written_whole
from rfsize.utils.typing import Floats
from rfsize.utils.validation import MAX_CLASSES, is_digest
from rfsize.voting.links import LINKS, Link

FORMAT, VERSION = "rfsize.StopTable", 4

_LARGEST_FILE = 16_000_000  # bytes; the largest table takes a few millions
_KEYS = {
    *("format", "version", "n_trees", "n_classes", "kind", "alpha", "rule", "target", "prior", "stops", "nominal"),
    *("classes", "threshold", "counts", "certificate", "checksum"),
}
_RULES = {
    "binary": ("threshold", "optimal", "robust"),
    "ternary": ("threshold", "optimal"),
    "leaders": ("threshold",),
    "weighted": ("lossless",),
    "averages": ("lead",),
    "spread": ("spread",),
}
_STOPS = {
    "binary": {"lower", "upper"},
    "ternary": {"runs", "answers"},
    "leaders": {"upper"},
    "weighted": {"weights", "against", "total"},
    "averages": {"needed", "cut"},
    "spread": {"limit", "pooled", "weight", "every", "link", "slope", "metric", "tolerance"},
}
_COUNTS = ("rows", "disagreements", "trees")
_LONGEST_NAME = 10_000  # characters of a class label
_MOST_ROWS = 2**53
_AGAIN = "; build and save the table again"


def write_document(path: str | PathLike[str], document: dict[str, Any]) -> None:
    """Write the document of `to_document`, whole or not at all."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_document(path: str | PathLike[str]) -> Any:
    """Parse a file as strict JSON; ``TableError`` where it is not."""
    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        refuse(f"the file is larger than {_LARGEST_FILE:,} bytes, more than any stop table")
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError:
        refuse("the file is nested too deeply for a stop table")
    except TableError:
        raise
    except ValueError as error:
        refuse(f"the file is not JSON as a stop table is stored ({str(error)[:200]})")


def _no_constant(name: str) -> NoReturn:
    refuse(f"the file holds {name}, which is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("the file holds a key twice")
    return found


def to_document(
    *,
    n_trees: int,
    n_classes: int,
    alpha: float,
    rule: str,
    target: str,
    prior: Floats | None,
    stops: Stops,
    nominal: float | None,
    classes: tuple[Any, ...] | None,
    threshold: float | None,
    counts: ClassCounts | None,
    certificate: Certificate | None,
) -> dict[str, Any]:
    """The fields of a `StopTable` as plain values, with a checksum over all of them."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "n_trees": n_trees,
        "n_classes": n_classes,
        "kind": stops.kind,
        "alpha": alpha,
        "rule": rule,
        "target": target,
        "prior": None if prior is None else _flat_prior(prior).tolist(),
        "stops": stops.to_dict(),
        "nominal": nominal,
        "classes": None if classes is None else list(classes),
        "threshold": threshold,
        "counts": None if counts is None else _plain_counts(counts),
        "certificate": None if certificate is None else _plain_certificate(certificate),
    }
    return {**document, "checksum": checksum(document)}


def _plain_counts(counts: ClassCounts) -> dict[str, Any]:
    return {name: list(getattr(counts, name)) for name in _COUNTS}


def _plain_certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        **_plain_counts(certificate.counts),
        "confidence": certificate.confidence,
        "average": certificate.average,
        "forest": certificate.forest,
    }


def checksum(document: dict[str, Any]) -> str:
    """Of everything in a document but the checksum itself."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _flat_prior(prior: NDArray[np.float64]) -> NDArray[np.float64]:
    return prior if prior.ndim == 1 else prior[urn.simplex(len(prior) - 1)]


def checked_fields(document: Any) -> dict[str, Any]:
    """The fields of a `StopTable` from a document of `to_document`; ``TableError`` where it is none."""
    _check_keys(document)
    n_trees = _integer(document, "n_trees", 1, MAX_TREES)
    n_classes = _integer(document, "n_classes", 1, MAX_CLASSES)
    of_labels = rules.table_kind(n_trees, n_classes), WeightedStops.kind, AverageStops.kind
    kind = _choice(document, "kind", (SpreadStops.kind, *(of_labels if n_classes > 1 else ())))
    fields = {
        "n_trees": n_trees,
        "n_classes": n_classes,
        "alpha": _alpha(document["alpha"]),
        "rule": _choice(document, "rule", _RULES[kind]),
        "target": _choice(document, "target", ("forest", "limit")),
        "prior": _prior(document["prior"], kind, n_trees),
        "stops": _stops(document["stops"], kind, n_trees, n_classes),
        "nominal": None if document["nominal"] is None else _alpha(document["nominal"], "nominal"),
        "classes": _classes(document["classes"], n_classes),
        "threshold": _threshold(document["threshold"], kind, n_classes),
        "counts": None if document["counts"] is None else _counts(document["counts"], n_trees, n_classes),
        "certificate": _certificate(document["certificate"], n_trees, n_classes),
    }
    if fields["target"] == "limit" and (kind not in ("binary", "ternary") or fields["rule"] == "robust"):
        refuse(f"target is 'limit', which rule {fields['rule']!r} on a table of kind {kind!r} does not have")
    if kind == "weighted" and (fields["alpha"] != 1.0 or fields["prior"] is not None):
        refuse("a table of weighted votes is lossless, with an alpha of 1 and no prior")
    _check_evidence(kind, fields)
    if document["checksum"] != checksum({key: value for key, value in document.items() if key != "checksum"}):
        refuse("the checksum does not fit the content: the table is damaged")
    return fields


def _check_keys(document: Any) -> None:
    """``TableError`` where a document does not say that it is a stop table, or has other keys than one."""
    if type(document) is not dict or not {"format", "version"} <= set(document):
        found = sorted(map(str, document))[:20] if isinstance(document, dict) else type(document).__name__
        refuse(f"a stop table has the keys {', '.join(sorted(_KEYS))}; found {str(found)[:400]}")
    if document["format"] != FORMAT:
        refuse(f"format is {_short(document['format'])}, expected {FORMAT!r}: this is another kind of file", "")
    if type(document["version"]) is not int or document["version"] != VERSION:
        refuse(f"version is {_short(document['version'])}, but this rfsize reads version {VERSION}")
    if set(document) != _KEYS:
        found = ", ".join(sorted(map(str, document))[:20])[:400]
        refuse(f"a stop table of version {VERSION} has the keys {', '.join(sorted(_KEYS))}; found {found}")


def _check_evidence(kind: str, fields: dict[str, Any]) -> None:
    """``TableError`` where what a table is known by does not go with its kind, or does not keep its promise."""
    certificate, counts, nominal = fields["certificate"], fields["counts"], fields["nominal"]
    of_scores = kind in (AverageStops.kind, SpreadStops.kind)
    if of_scores and (fields["prior"] is not None or certificate is None):
        refuse("a table of scores has a certificate, and no prior")
    if (counts is not None) != (kind == LeaderStops.kind and certificate is None):
        refuse("counts are those of a simulation of leaders that are not certified, and null for any other table")
    if (nominal is not None) != (certificate is not None and not of_scores):
        refuse("nominal is the alpha of a certified table of votes, and null in any other")
    if certificate is None:
        return
    if kind == WeightedStops.kind or fields["target"] != "forest":
        refuse("a certificate is of the agreement with all trees, which this table does not aim at, or keeps anyway")
    if fields["alpha"] < 1.0 and not certificate.bound <= (1.0 - fields["alpha"]) * (1.0 + ROUNDING):
        promised = f"alpha={fields['alpha']!r} promises {1.0 - fields['alpha']:.4%}"
        refuse(f"the certificate's bound is {certificate.bound:.4%}, but {promised}")
    if fields["alpha"] == 1.0:
        refuse("no number of rows certifies an alpha of 1")


def refuse(found: str, advice: str = _AGAIN) -> NoReturn:
    """Raise `TableError` with what was found and what to do."""
    raise TableError(found + advice)


def _short(value: Any) -> str:
    """What was found, in one line whatever it is."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return repr(value)[:80]


def _integer(document: dict[str, Any], name: str, least: int, most: int) -> int:
    value = document[name]
    if type(value) is not int or not least <= value <= most:
        refuse(f"{name} must be a whole number from {least} to {most}, found {_short(value)}")
    return value


def _alpha(value: Any, name: str = "alpha") -> float:
    if type(value) is not float or not 0.0 < value <= 1.0:
        refuse(f"{name} must be a fraction above 0 and at most 1, found {_short(value)}")
    return value


def _choice(document: dict[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = document[name]
    if type(value) is not str or value not in choices:
        refuse(f"{name} must be one of {', '.join(choices)} for these trees and classes, found {_short(value)}")
    return value


def _numbers(value: Any, name: str, of: type, length: int | None = None) -> NDArray[Any]:
    """A list of numbers of one type as an array."""
    if type(value) is not list or (length is not None and len(value) != length):
        refuse(f"{name} must be a list{'' if length is None else f' of {length}'}, found {_short(value)}")
    if not all(type(item) is of for item in value):
        refuse(f"{name} must hold numbers of type {of.__name__} only")
    try:
        array = np.array(value, dtype=np.int64 if of is int else np.float64)
    except OverflowError:
        refuse(f"{name} holds a number of more than 64 bits")
    if not np.isfinite(array).all():
        refuse(f"{name} holds a number that is not finite")
    return array


def _prior(value: Any, kind: str, n_trees: int) -> NDArray[np.float64] | None:
    if value is None:
        return None
    size = (n_trees + 1) * (n_trees + 2) // 2 if kind == "ternary" else n_trees + 1
    weights = _numbers(value, "prior", float, size)
    if (weights < 0.0).any() or not abs(weights.sum() - 1.0) <= ROUNDING:
        refuse(f"prior must hold weights of at least 0 that sum to 1, found a sum of {weights.sum():g}")
    if kind != "ternary":
        return weights
    prior = np.zeros((n_trees + 1, n_trees + 1))
    prior[urn.simplex(n_trees)] = weights
    return prior


def _classes(value: Any, n_classes: int) -> tuple[Any, ...] | None:
    """Labels of the classes: numbers or text."""
    if value is None:
        return None
    if type(value) is not list or len(value) != n_classes:
        refuse(f"classes must be a list of {n_classes}, found {_short(value)}")
    for label in value:
        fits = type(label) in (bool, int, float) or (type(label) is str and len(label) <= _LONGEST_NAME)
        if not fits or (type(label) is int and label.bit_length() > 64):
            refuse(f"classes must be numbers or text, found {_short(label)}")
    if len(set(value)) != n_classes or not all(type(label) is str or np.isfinite(label) for label in value):
        refuse(f"classes must be different from each other and finite, found {_short(value)}")
    return tuple(value)


def _threshold(value: Any, kind: str, n_classes: int) -> float | None:
    """Of two classes, whose members count alike; tables of labels by averaged scores always know it."""
    if value is None and not (n_classes == 2 and kind == AverageStops.kind):
        return None
    if n_classes != 2 or kind == WeightedStops.kind or type(value) is not float or not 0.0 < value < 1.0:
        refuse(f"threshold must be a probability of two classes, or null, found {_short(value)} of {n_classes} classes")
    return value


def _counts(value: Any, n_trees: int, n_classes: int, more: tuple[str, ...] = ()) -> ClassCounts:
    if type(value) is not dict or set(value) != {*_COUNTS, *more}:
        refuse(f"counts of rows must have the keys {', '.join((*_COUNTS, *more))}, found {_short(value)}")
    rows, disagreements, trees = (_numbers(value[name], name, int, n_classes) for name in _COUNTS)
    if not ((rows >= 0) & (rows <= _MOST_ROWS // (n_trees * n_classes))).all() or not rows.any():
        refuse("rows must be at least 0 for each class, and not all be 0")
    if not ((disagreements >= 0) & (disagreements <= rows)).all():
        refuse("disagreements must lie between 0 and the rows of each class")
    if not ((trees >= rows) & (trees <= rows * n_trees)).all():
        refuse(f"trees must be those asked for the rows of each class, 1 to {n_trees} for each row")
    return ClassCounts.of_sums(rows, disagreements, trees)


def _certificate(value: Any, n_trees: int, n_classes: int) -> Certificate | None:
    if value is None:
        return None
    counts = _counts(value, n_trees, n_classes, ("confidence", "average", "forest"))
    confidence = value["confidence"]
    if type(confidence) is not float or not 0.0 < confidence < 1.0:
        refuse(f"confidence must be a fraction above 0 and below 1, found {_short(confidence)}")
    forest = value["forest"]
    if forest is not None and not is_digest(forest):
        refuse(f"forest must be the SHA-256 of a forest's leaves or null, found {_short(forest)}")
    return Certificate(counts, confidence, _choice(value, "average", AVERAGES), forest)


def _stops(value: Any, kind: str, n_trees: int, n_classes: int) -> Stops:
    names = _STOPS[kind]
    if type(value) is not dict or set(value) != names:
        refuse(f"stops of kind {kind!r} must have the keys {', '.join(sorted(names))}, found {_short(value)}")
    if kind == "weighted":
        return _weighted_stops(value, n_trees, n_classes)
    if kind == "ternary":
        return _ternary_stops(value, n_trees)
    if kind == "averages":
        return _average_stops(value, n_trees)
    if kind == "spread":
        return _spread_stops(value, n_classes)
    asked = np.arange(n_trees + 1)
    upper = _numbers(value["upper"], "upper", int, n_trees + 1)
    if kind == "leaders":
        if not ((upper >= 1) & (upper <= asked + 1)).all():
            refuse("upper must lie between 1 and one more than the votes seen")
        return LeaderStops(upper.astype(np.int32))
    lower = _numbers(value["lower"], "lower", int, n_trees + 1)
    if not ((lower >= -1) & (lower < upper) & (upper <= asked + 1)).all():
        refuse("the bounds must satisfy -1 <= lower < upper <= trees asked + 1")
    half = n_trees // 2
    if (lower[0], upper[0], lower[-1], upper[-1]) != (-1, 1, half, half + 1):
        refuse("the bounds must stop no row before the first tree, and every row at its majority after the last")
    return BinaryStops(lower.astype(np.int32), upper.astype(np.int32))


def _ternary_stops(value: dict[str, Any], n_trees: int) -> TernaryStops:
    size = (n_trees + 1) * (n_trees + 2) * (n_trees + 3) // 6
    runs = _numbers(value["runs"], "runs", int)
    answers = _numbers(value["answers"], "answers", int, len(runs))
    # Each run is bounded before they are summed: a sum of large numbers could wrap around.
    if not ((runs >= 1) & (runs <= size)).all() or len(runs) > size or runs.sum() != size:
        refuse(f"runs must be positive lengths that sum to {size}")
    if not ((answers >= -1) & (answers <= 2)).all() or any(a == b for a, b in pairwise(answers.tolist())):
        refuse("answers must be -1, 0, 1 or 2, each run's unlike the one before")
    decision = np.repeat(answers.astype(np.int8), runs)
    class_0, class_1, class_2 = urn.three_counts(n_trees)
    inside = class_2 >= 0
    last = decision[ternary_index(n_trees, class_0[inside], class_1[inside])]
    if decision[0] != -1 or not np.array_equal(last, np.stack([class_0, class_1, class_2])[:, inside].argmax(axis=0)):
        refuse("the decisions must stop no row before the first tree, and every row at its majority after the last")
    return TernaryStops(decision)


def _weighted_stops(value: dict[str, Any], n_trees: int, n_classes: int) -> WeightedStops:
    weights = _numbers(value["weights"], "weights", float, n_trees)
    against, total = _numbers([value["against"], value["total"]], "against and total", float, 2).tolist()
    if not ((weights >= 0.0) & (weights <= MOST_WEIGHT)).all() or not weights.any():
        found = f"{weights.min():g} to {weights.max():g}"
        refuse(f"weights must lie between 0 and {MOST_WEIGHT:g}, and not all be 0, found {found}")
    sum_of_weights = weights.sum()
    if against not in (0.0, -1 / (n_classes - 1)):
        refuse(f"against must be 0 or -1/(number of classes - 1), found {against!r}")
    # It may hold more than these members, but not so much that the scores underflow.
    if not 1.0 - ROUNDING <= total / sum_of_weights <= 1e6:
        refuse(
            f"total must be at least the sum of the weights, {sum_of_weights:g}, and at most 1e6 of it, found {total:g}"
        )
    return WeightedStops(weights, against, total)


def _average_stops(value: dict[str, Any], n_trees: int) -> AverageStops:
    needed = _numbers(value["needed"], "needed", float, n_trees)
    cut = float(_numbers([value["cut"]], "cut", float, 1)[0])
    if needed[-1] != 0.0 or (np.diff(needed) > 0.0).any():
        refuse("needed must fall from tree to tree, or stay, and end with 0, so that the last tree settles every row")
    return AverageStops(np.concatenate([[np.inf], needed]), cut)


def _spread_stops(value: dict[str, Any], n_classes: int) -> SpreadStops:
    names = ("limit", "weight", "slope", "tolerance")
    limit, weight, slope, tolerance = _numbers([value[name] for name in names], ", ".join(names), float, 4).tolist()
    pooled, every = _numbers(value["pooled"], "pooled", float), _integer(value, "every", 1, MAX_TREES)
    if limit < 0.0 or weight < 1.0 or slope == 0.0 or tolerance <= 0.0 or (pooled < 0.0).any():
        refuse("limit and pooled must be at least 0, weight at least 1, slope not 0 and tolerance above 0")
    fits = {1: range(1, MAX_CLASSES + 1), 2: (1, 2)}.get(n_classes, (n_classes,))
    if len(pooled) not in fits:
        refuse(f"pooled must hold one number for each score of a tree, found {len(pooled)} for {n_classes} classes")
    metric = _choice(value, "metric", ("probabilities", "scores") if n_classes > 1 else ("scores",))
    link = Link(_choice(value, "link", LINKS), slope)
    return SpreadStops(limit, pooled, weight, every, link, metric, tolerance)
