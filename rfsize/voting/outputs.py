"""TreeOutputs: what a forest's trees say of some rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize.voting.blocks import TreeBlocks, rows_in_blocks
from rfsize.voting.links import Link
from rfsize.voting.predictor import Predictor
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

VOTINGS = ("auto", "hard", "soft")


@dataclass(frozen=True, eq=False)
class TreeOutputs:
    """What the trees say of some rows: their votes, and their scores where these are known.

    Attributes
    ----------
    votes : Votes or None
        Votes for each class; None of regression.
    scores : Scores or None
        Scores before the link; of many rows and classes, those of a part of the rows may do.
    cut : float
        Mean score above which the averaged scores of two classes predict class 1.
    predict_obeys : {"hard", "soft"} or None
        Whether the model's own ``predict`` goes by the majority of the votes or the averaged scores; None where there
        is no model.
    scored : slice or ndarray of int64
        Rows of the votes that the scores are of.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows; None where single trees are not known.
    link : Link or None
        From mean scores to what the model predicts; None where there are no scores.
    strata : ndarray of int64, shape (n_rows,), or None
        Number of the stratum of each row, where it is not by chance how many trees were asked about it.
    """

    votes: Votes | None
    scores: Scores | None = None
    cut: float = 0.0
    predict_obeys: str | None = None
    scored: slice | NDArray[np.int64] = field(default_factory=lambda: slice(None))
    blocks: TreeBlocks | None = None
    link: Link | None = None
    strata: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.votes) if self.votes is not None else 0 if self.scores is None else len(self.scores)

    @property
    def predictor(self) -> Predictor:
        """What the forest predicts from mean scores; for outputs that have scores."""
        assert self.link is not None
        classes = np.zeros(0) if self.votes is None else self.votes.classes
        threshold = float(self.link.predicted(np.array(self.cut))) if len(classes) == 2 else 0.5
        return Predictor(classes, self.link, threshold)

    def voting(self, asked_for: str) -> str:
        """The rule of voting that is ``asked_for``: of "auto" that of the model's own ``predict``, where it is known.

        Of counted votes, and of members that are no trees, only the votes are known.
        """
        if asked_for != "auto":
            return asked_for
        knows_scores = self.scores is not None and bool((self.scores.asked > 1).any())
        return "soft" if knows_scores and self.predict_obeys == "soft" else "hard"

    def take(self, rows: NDArray[np.bool_] | None) -> TreeOutputs:
        """The same of some of the rows, a mask, where it is given; for scores that are of all rows."""
        if rows is None:
            return self
        scores = None if self.scores is None else self.scores.take(rows)
        blocks = None if self.blocks is None else self.blocks.take(rows)
        votes = None if self.votes is None else self.votes.take(rows)
        strata = None if self.strata is None else self.strata[rows]
        return replace(self, votes=votes, scores=scores, blocks=blocks, strata=strata)


@dataclass(frozen=True)
class OutOfBag:
    """What a forest's trees say of the training rows that they did not see.

    Attributes
    ----------
    counts : ndarray of int32, shape (n_rows, n_classes)
        Votes for each class; no columns for regression.
    scores : Scores
        Their scores before the link.
    blocks : TreeBlocks or None
        What blocks of the trees say of some of the rows; None where nothing is asked of them.
    """

    counts: NDArray[np.int32]
    scores: Scores
    blocks: TreeBlocks | None = None

    @classmethod
    def nothing(cls, n_rows: int, n_classes: int, n_scores: int) -> OutOfBag:
        """What no trees say."""
        rows = np.arange(n_rows)[rows_in_blocks(n_rows, n_classes, n_scores)]
        blocks = TreeBlocks.nothing(rows, n_classes, n_scores)
        return cls(np.zeros((n_rows, n_classes), dtype=np.int32), Scores.nothing(n_rows, n_scores), blocks)

    def plus(self, other: OutOfBag) -> OutOfBag:
        """What the trees of both say."""
        blocks = None if self.blocks is None or other.blocks is None else self.blocks.plus(other.blocks)
        return OutOfBag(self.counts + other.counts, self.scores.plus(other.scores), blocks)

    def outputs(
        self,
        n_trees: int,
        link: Link,
        cut: float = 0.0,
        rows: NDArray[np.bool_] | None = None,
        classes: NDArray[Any] | None = None,
    ) -> TreeOutputs:
        """The same of ``n_trees`` trees, for classes 0 to K − 1 or those named; what they predict they average.

        Of some of the ``rows``, a mask, where it is given.
        """
        votes = Votes(self.counts, classes, n_trees) if self.counts.shape[1] else None
        return TreeOutputs(votes, self.scores, cut, "soft", blocks=self.blocks, link=link).take(rows)
