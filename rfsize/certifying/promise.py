"""What a table or a cut promises, and which of many rules the rows certify to keep it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.certifying.certificate import (
    Certificate,
    ClassCounts,
    fewest_rows,
    finest_alpha,
    most_disagreements,
    tested,
)
from rfsize.utils.typing import Int64s
from rfsize.utils.validation import choice, positive, share
from rfsize.utils.words import how_many


@dataclass(frozen=True)
class Promise:
    """What a table or the first trees are to keep, and how it is found out whether they do.

    Attributes
    ----------
    alpha, confidence : float
    average : {"micro", "macro"}
    forest : str or None
        `Adapter.digest` of the forest.
    metric : {"labels", "probabilities", "scores"}
    tolerance : float
        How far off probabilities or scores may be.
    """

    alpha: float
    confidence: float
    average: str
    forest: str | None = None
    metric: str = "labels"
    tolerance: float = 0.0

    def check_rows(self, rows: Int64s, labels: Sequence[Any]) -> None:
        """Raise ``ValueError`` with how many it would take where too few rows of a class certify anything."""
        needed, total = fewest_rows(self.alpha, self.confidence), int(rows.sum())
        of = f"alpha={self.alpha!r} with confidence {self.confidence!r}"
        if total < needed:
            raise ValueError(
                f"{how_many(total, 'row')} cannot certify {of}, even if none of them disagrees: give at least "
                f"{needed:,} rows, or ask for a lower alpha or confidence"
            )
        rarest = int(np.argmin(np.where(rows > 0, rows, total + 1)))
        found = int(rows[rarest])
        if self.average == "macro" and found < needed:
            finest = finest_alpha(total, self.confidence)
            raise ValueError(
                f"average='macro' takes {needed:,} rows of each class for {of}, and the forest gives class "
                f"{labels[rarest]!r} to {found:,} of {total:,} rows: give about "
                f"{math.ceil(needed * total / found):,} rows like these. Or bound misses and false alarms together, as "
                f"a share of all rows: these rows can certify average='micro' with alpha={finest!r}"
            )

    def boldest(self, differing: NDArray[Any], rows: Int64s) -> int:
        """The boldest rule that is certified, by fixed-sequence testing (Angelopoulos et al. 2021, "Learn then test").

        Rules are tested from the most cautious on, each at the full confidence, and the first that fails ends it: the
        chance that any rule is passed which really disagrees on more than 1 − α is at most that of the first such rule.
        With "macro" a rule passes if each class's rows pass by themselves at that confidence. A rule that is bad has a
        class that is, and that class passes with a chance of at most 1 − confidence (an intersection–union test), so
        that no correction for the number of classes is needed.

        Parameters
        ----------
        differing : ndarray of int, shape (n_classes, n_rules)
            Rows that each rule, from cautious to bold, answers otherwise.
        rows : ndarray of int64, shape (n_classes,)

        Returns
        -------
        int
            Its number; −1 where none is.
        """
        differing, rows = tested(differing, rows, self.average)
        most = np.array([most_disagreements(int(n), self.alpha, self.confidence) for n in rows])
        passed = (differing <= most[:, None]).all(axis=0)
        return int(passed.size if passed.all() else np.argmin(passed)) - 1

    def certificate(self, counts: ClassCounts) -> Certificate:
        """Of what the rule did that was chosen."""
        return Certificate(counts, self.confidence, self.average, self.forest)


def checked_confidence(confidence: float) -> float:
    """The confidence of a certificate; ``ValueError`` where it is none, or below a half."""
    if share("confidence", confidence) < 0.5:
        raise ValueError(
            f"confidence must be at least 0.5, found {confidence!r}: a certificate that is wrong more often than right "
            "certifies nothing"
        )
    return float(confidence)


def checked_tolerance(metric: str, tolerance: float | None, voting: str) -> float:
    """How far predictions may be off, 0 for labels; ``ValueError`` where that does not go with the metric."""
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
    """Raise ``ValueError`` where classes are asked for, and the forest has none."""
    if metric == "probabilities" and not n_classes:
        raise ValueError("metric='probabilities' is for classification; a regression forest has metric='scores'")
    if average == "macro" and not n_classes:
        raise ValueError("average='macro' is over classes, and the forest predicts numbers: leave average out")
