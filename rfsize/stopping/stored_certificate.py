"""Certificates as files of stop tables hold them, checked as they are read."""

from __future__ import annotations

from rfsize.certifying.certificate import AVERAGES, COUNTS, Certificate, ClassCounts
from rfsize.stopping.document import Fields, refuse
from rfsize.utils.files import short
from rfsize.utils.validation import is_digest

_MOST_ROWS = 2**53
_ROUNDING = 1e-9


def stored_counts(fields: Fields, name: str, n_trees: int, n_classes: int) -> ClassCounts | None:
    """What `ClassCounts.to_dict` gave, checked; None where there are none."""
    return None if fields[name] is None else _checked_counts(fields.within(name, COUNTS, name), n_trees, n_classes)


def stored_certificate(fields: Fields, name: str, n_trees: int, n_classes: int) -> Certificate | None:
    """What `Certificate.to_dict` gave, checked; None where there is none."""
    if fields[name] is None:
        return None
    own = fields.within(name, (*COUNTS, "confidence", "average", "forest"), name)
    counts = _checked_counts(own, n_trees, n_classes)
    confidence, forest = own["confidence"], own["forest"]
    if type(confidence) is not float or not 0.0 < confidence < 1.0:
        refuse(f"confidence must be a fraction above 0 and below 1, found {short(confidence)}")
    if forest is not None and not is_digest(forest):
        refuse(f"forest must be the SHA-256 of a forest's leaves or null, found {short(forest)}")
    return Certificate(counts, confidence, own.choice("average", AVERAGES), forest)


def check_kept(certificate: Certificate, alpha: float) -> None:
    """``TableError`` where its bound is above what a table of a file promises."""
    if alpha == 1.0:
        refuse("no number of rows certifies an alpha of 1")
    if not certificate.bound <= (1.0 - alpha) * (1.0 + _ROUNDING):
        refuse(
            f"the certificate's bound is {100.0 * certificate.bound:.4f} %, but alpha={alpha!r} promises "
            f"{100.0 * (1.0 - alpha):.4f} %"
        )


def _checked_counts(fields: Fields, n_trees: int, n_classes: int) -> ClassCounts:
    rows, disagreements, trees = (fields.numbers(name, int, n_classes) for name in COUNTS)
    if not ((rows >= 0) & (rows <= _MOST_ROWS // (n_trees * n_classes))).all() or not rows.any():
        refuse("rows must be at least 0 for each class, and not all be 0")
    if not ((disagreements >= 0) & (disagreements <= rows)).all():
        refuse("disagreements must lie between 0 and the rows of each class")
    if not ((trees >= rows) & (trees <= rows * n_trees)).all():
        refuse(f"trees must be those asked for the rows of each class, 1 to {n_trees} for each row")
    return ClassCounts.of_sums(rows, disagreements, trees)
