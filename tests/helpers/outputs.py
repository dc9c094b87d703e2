"""Tree outputs made of their parts."""

from __future__ import annotations

import warnings
from typing import Any

import rfsize
from rfsize.counting.evidence import Evidence
from rfsize.counting.scores import Scores
from rfsize.counting.votes import Votes


def outputs_of(votes: Votes | None = None, scores: Scores | None = None, **parts: Any) -> Evidence:
    """Outputs of votes and scores, of as many trees as were asked at most unless ``n_trees`` says how many."""
    if votes is not None:
        n_rows, n_trees = len(votes), votes.n_trees
    else:
        assert scores is not None
        n_rows, n_trees = len(scores), int(scores.asked.max(initial=0))
    of = {"n_rows": n_rows, "n_trees": n_trees, "voted": votes, "scores": scores, **parts}
    return Evidence(**of)


def votes_of(*rows: Any, **options: Any) -> Votes:
    """The votes of a model's trees, whatever is to be said of its training; arguments as of `rfsize.tree_outputs`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rfsize.exceptions.SharedBagsWarning)
        warnings.simplefilter("ignore", rfsize.exceptions.SeedDependenceWarning)
        return rfsize.tree_outputs(*rows, **options).votes
