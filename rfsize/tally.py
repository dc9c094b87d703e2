"""Tally: what a forest's trees say of some rows."""

from __future__ import annotations

from dataclasses import dataclass

from rfsize.scores import Scores
from rfsize.votes import Votes

VOTINGS = ("hard", "soft")


@dataclass(frozen=True, eq=False)
class Tally:
    """What the trees say of some rows: their votes, and their scores where these are known.

    Attributes
    ----------
    votes : Votes
        Votes for each class.
    scores : Scores or None
        Scores before the link; of many rows and classes, those of a part of the rows may do.
    cut : float
        Mean score above which the averaged scores of two classes predict class 1.
    predict_obeys : {"hard", "soft"} or None
        Whether the model's own ``predict`` goes by the majority of the votes or the averaged scores; None where there
        is no model.
    """

    votes: Votes
    scores: Scores | None = None
    cut: float = 0.0
    predict_obeys: str | None = None
