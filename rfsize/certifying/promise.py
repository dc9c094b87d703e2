"""What a stop table or a truncated forest promises, and which of many rules the rows certify to keep it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import Int64s, choice, how_many, positive, printable, share
from rfsize.certifying.certificate import (
    Certificate,
    ClassCounts,
    fewest_rows,
    finest_alpha,
    most_disagreements,
    tested,
)


@dataclass(frozen=True)
class Promise:
    """What must stay the same if fewer trees answer a row, and how rows certify it.

    Attributes
    ----------
    alpha : float
        Share of the rows whose answer must stay the same.
    confidence : float
        Probability that the promise holds.
    average : {"micro", "macro"}
        Whether ``alpha`` is a share of all rows, or of the rows of each class.
    forest : str or None
        `Forest.digest` of the forest.
    metric : {"labels", "probabilities", "scores"}
        What must stay the same.
    tolerance : float
        How far probabilities or scores may move.
    """

    alpha: float
    confidence: float
    average: str
    forest: str | None = None
    metric: str = "labels"
    tolerance: float = 0.0

    def check_rows(self, rows: Int64s, labels: Sequence[Any]) -> None:
        """Raise ``ValueError`` if there are too few rows to certify anything, and say how many it takes."""
        needed, total = fewest_rows(self.alpha, self.confidence), int(rows.sum())
        of = f"alpha={self.alpha!r} with confidence {self.confidence!r}"
        if total < needed:
            raise ValueError(
                f"{how_many(total, 'row')} cannot certify {of}, even if none of them disagrees: give at least "
                f"{needed:,} rows, or ask for a lower alpha or confidence"
            )
        if self.average == "macro" and (rarest := int(rows.min())) < needed:
            label, finest = printable(labels[int(rows.argmin())]), finest_alpha(total, self.confidence)
            found = f"{rarest:,} of {total:,} rows" if rarest else f"none of {total:,} rows"
            like_these = f"about {math.ceil(needed * total / rarest):,} rows like these" if rarest else "more such rows"
            raise ValueError(
                f"average='macro' takes {needed:,} rows of each class for {of}, and the forest gives class {label} to "
                f"{found}: give {like_these}. Or bound misses and false alarms together, as a share of all rows: these "
                f"rows can certify average='micro' with alpha={finest!r}"
            )

    def boldest(self, differing: NDArray[Any], rows: Int64s) -> int:
        """Find the boldest certified rule by fixed-sequence testing (Angelopoulos et al. 2021, "Learn then test").

        Rules are tested in order, from the most cautious to the boldest, each at the full confidence. Testing stops at
        the first rule that fails. Call a rule bad if it really disagrees on more than 1 − α. Some bad rule passes only
        if the first bad rule passes, so the probability of an error is at most 1 − confidence.

        With "macro" a rule passes if the rows of each class pass at the full confidence. A bad rule has a bad class,
        and this class passes with a probability of at most 1 − confidence (an intersection–union test). So the number
        of classes needs no correction.

        Parameters
        ----------
        differing : ndarray of int, shape (n_classes, n_rules)
            How many rows of each class each rule answers differently. Rules are in order, from cautious to bold.
        rows : ndarray of int64, shape (n_classes,)
            Number of rows of each class.

        Returns
        -------
        int
            Index of the rule; −1 if no rule is certified.
        """
        differing, rows = tested(differing, rows, self.average)
        most = np.array([most_disagreements(int(n), self.alpha, self.confidence) for n in rows])
        passed = (differing <= most[:, None]).all(axis=0)
        return int(passed.size if passed.all() else np.argmin(passed)) - 1

    def certificate(self, counts: ClassCounts) -> Certificate:
        """The certificate of the chosen rule, from its counts."""
        return Certificate(counts, self.alpha, self.confidence, self.average, self.forest)


def checked_confidence(confidence: float) -> float:
    """The confidence of a certificate; ``ValueError`` if it is not a probability, or below one half."""
    if share("confidence", confidence) < 0.5:
        raise ValueError(
            f"confidence must be at least 0.5, found {confidence!r}: a certificate that is wrong more often than right "
            "certifies nothing"
        )
    return float(confidence)


def checked_tolerance(metric: str, tolerance: float | None, voting: str) -> float:
    """How far predictions may move, 0 for labels; ``ValueError`` if the tolerance does not fit the metric."""
    choice("metric", metric, ("labels", "probabilities", "scores"))
    if metric == "labels":
        if tolerance is not None:
            raise ValueError(
                "tolerance is for metric='probabilities' or 'scores'; labels agree on a share alpha of the rows: leave "
                "it out"
            )
        return 0.0
    if voting != "auto":
        raise ValueError(
            f"voting={voting!r} is for labels, and metric={metric!r} is about scores, not votes: leave voting at 'auto'"
        )
    if tolerance is None:
        raise ValueError(f"metric={metric!r} needs a tolerance: how far off a prediction may be")
    return positive("tolerance", tolerance)


def check_classes(n_classes: int, metric: str, average: str) -> None:
    """Raise ``ValueError`` if an option needs classes, and the forest has none."""
    if metric == "probabilities" and not n_classes:
        raise ValueError("metric='probabilities' is for classification; a regression forest has metric='scores'")
    if average == "macro" and not n_classes:
        raise ValueError("average='macro' is over classes, and the forest predicts numbers: leave average out")
