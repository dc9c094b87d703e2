"""Reads the content of a stop table's file: checks each field, then whether the fields fit together."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfsize._files import short
from rfsize._util import MAX_CLASSES, is_digest
from rfsize.statistics.certify import COUNTS, Certificate, ClassCounts
from rfsize.statistics.criterion import AVERAGES
from rfsize.stopping.document import Fields, content_of, refuse
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.terms import MAX_TREES, Terms

KEYS = (
    *("n_trees", "n_classes", "kind", "alpha", "prior", "stops", "nominal"),
    *("classes", "threshold", "certificate"),
)
"""The keys of a table's document."""

_LONGEST_NAME = 10_000  # characters of a class label
_MOST_ROWS = 2**53
_ROUNDING = 1e-9


def stored_fields(document: Any) -> dict[str, Any]:
    """The fields of the `StopTable` in a document, each checked by itself; ``FileError`` if one is wrong."""
    given = content_of(document, KEYS)
    n_trees, n_classes = given.whole("n_trees", 1, MAX_TREES), given.whole("n_classes", 1, MAX_CLASSES)
    kinds = Stops.kinds(n_trees, n_classes)
    kind = kinds[given.choice("kind", tuple(kinds))]
    turns_at_threshold = n_classes == 2 and kind.voting == "soft" and "labels" in kind.calibrates
    return {
        "n_trees": n_trees,
        "n_classes": n_classes,
        "alpha": given.alpha("alpha"),
        "prior": kind.prior_of(given, n_trees),
        "stops": kind.from_fields(
            given.within("stops", kind.stored, f"stops of kind {kind.kind!r}"), n_trees, n_classes
        ),
        "nominal": None if given["nominal"] is None else given.alpha("nominal"),
        "classes": _labels(given, n_classes),
        "threshold": _threshold(given, n_classes, is_needed=turns_at_threshold),
        "certificate": _certificate(given, n_trees, n_classes),
    }


def _labels(fields: Fields, n_classes: int) -> tuple[Any, ...] | None:
    """Class labels; None if the file has none."""
    value = fields["classes"]
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


def _threshold(fields: Fields, n_classes: int, *, is_needed: bool) -> float | None:
    """The threshold of the labels; None if the file has none."""
    value = fields["threshold"]
    if value is None and not is_needed:
        return None
    if n_classes != 2 or type(value) is not float or not 0.0 < value < 1.0:
        refuse(f"threshold must be a probability of two classes, or null, found {short(value)} of {n_classes} classes")
    return value


def _counts(fields: Fields, n_trees: int, n_classes: int) -> ClassCounts:
    """Read the output of `ClassCounts.to_dict`."""
    rows, disagreements, trees = (fields.numbers(name, int, n_classes) for name in COUNTS)
    if not ((rows >= 0) & (rows <= _MOST_ROWS // (n_trees * n_classes))).all() or not rows.any():
        refuse("rows must be at least 0 for each class, and not all be 0")
    if not ((disagreements >= 0) & (disagreements <= rows)).all():
        refuse("disagreements must lie between 0 and the rows of each class")
    if not ((trees >= rows) & (trees <= rows * n_trees)).all():
        refuse(f"trees must be those asked for the rows of each class, 1 to {n_trees} for each row")
    return ClassCounts.of_sums(rows, disagreements, trees)


def _certificate(fields: Fields, n_trees: int, n_classes: int) -> Certificate | None:
    """Read the output of `Certificate.to_dict`; None if the file has none."""
    if fields["certificate"] is None:
        return None
    own = fields.within("certificate", (*COUNTS, "confidence", "average", "forest"))
    counts = _counts(own, n_trees, n_classes)
    confidence, forest = own["confidence"], own["forest"]
    if type(confidence) is not float or not 0.0 < confidence < 1.0:
        refuse(f"confidence must be a fraction above 0 and below 1, found {short(confidence)}")
    if forest is not None and not is_digest(forest):
        refuse(f"forest must be the SHA-256 of a forest's leaves or null, found {short(forest)}")
    return Certificate(counts, fields["alpha"], confidence, own.choice("average", AVERAGES), forest)


def check_certificate(terms: Terms, stops: Stops, certificate: Certificate | None) -> None:
    """``FileError`` if certificate or threshold do not fit the stops, or the bound breaks the promise."""
    if stops.voting == "soft" and certificate is None:
        refuse("a table of scores has a certificate")
    if (terms.nominal is not None) != (certificate is not None and stops.voting == "hard"):
        refuse("nominal is the alpha of a certified table of votes, and null in any other")
    if not stops.counts_alike and (terms.alpha != 1.0 or certificate is not None or terms.threshold is not None):
        refuse("a table of weighted votes is lossless, with an alpha of 1, and has no certificate and no threshold")
    if certificate is None:
        return
    if terms.alpha == 1.0:
        refuse("no number of rows certifies an alpha of 1")
    if not certificate.exact_bound <= (1.0 - terms.alpha) * (1.0 + _ROUNDING):
        refuse(
            f"the certificate's bound is {100.0 * certificate.exact_bound:.4f} %, but alpha={terms.alpha!r} promises "
            f"{100.0 * (1.0 - terms.alpha):.4f} %"
        )
