"""What a stop table is built from, checked."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.stopping import urn
from rfsize.stopping.rules.base import MAX_TREES
from rfsize.stopping.rules.kinds import of_urn
from rfsize.stopping.rules.leaders import LeaderStops
from rfsize.stopping.rules.ternary import MAX_TERNARY
from rfsize.utils.typing import Floats
from rfsize.utils.validation import MAX_CLASSES, choice, positive, whole
from rfsize.voting.votes import Votes


def representative(prior: Any) -> Any:
    """The votes that a prior is, or that tree outputs hold; any other prior as it is.

    Raises
    ------
    FewVotesError
        If they are out of bag, and rows of some kind lack votes, so that the others are no guide to fresh rows.
    ValueError
        If they are out of bag, and not known to be of how many trees.
    """
    if not isinstance(prior, Votes | TreeOutputs):
        return prior
    outputs = TreeOutputs.of_votes(prior) if isinstance(prior, Votes) else prior.distinct
    lack = outputs.by_votes().of_some_rows("where voting may stop") if outputs.votes.is_out_of_bag else None
    if lack is not None:
        raise lack.error()
    return outputs.votes


def resolved_prior(prior: Any, n_trees: int, n_classes: int | None) -> tuple[int, Floats | None]:
    """Number of classes, and normalised weights, None where uniform."""
    if n_classes is not None:
        n_classes = whole("n_classes", n_classes, at_least=2, at_most=MAX_CLASSES)
    if isinstance(prior, str):
        choice("prior", prior, ("uniform",), "; or give rfsize.Votes, or an array of weights")
        return n_classes or 2, None
    if isinstance(prior, Votes):
        found = len(prior.classes)
        of_pairs = of_urn(n_trees, found) is LeaderStops
        weights = (urn.pair_prior if of_pairs else urn.votes_prior)(prior, n_trees)
    else:
        weights = urn.checked_prior(prior, n_trees)
        found = weights.ndim + 1
        if of_urn(n_trees, found) is LeaderStops:
            raise ValueError(
                f"prior has weights over the tallies of three classes, but {n_trees} trees are more than the "
                f"{MAX_TERNARY} that are solved exactly; give rfsize.Votes or 'uniform', which go up to {MAX_TREES}"
            )
    if n_classes not in (None, found):
        raise ValueError(f"n_classes is {n_classes}, but prior is over {found} classes; leave n_classes out")
    return found, weights


def checked_trees(n_trees: int) -> int:
    try:
        return whole("n_trees", n_trees, at_least=1, at_most=MAX_TREES)
    except ValueError as error:
        raise ValueError(f"{error}; truncate a larger forest first (rfsize.truncate)") from None


def checked_alpha(alpha: float) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must be a number above 0 and at most 1 (1 for the lossless table), found {alpha!r}")
    return float(alpha)


def checked_outputs(given: ArrayLike, n_trees: int, n_classes: int, voting: str) -> NDArray[Any]:
    """Votes or scores of trees, whichever a table goes by, of the right shape."""
    found = np.asarray(given)
    if voting == "hard":
        if found.ndim != 2 or found.shape[1] != n_trees or found.dtype.kind not in "iub":
            raise ValueError(
                f"tree_votes must hold the class index of each tree, whole numbers of shape (n_rows, {n_trees}); found "
                f"shape {found.shape}, dtype {found.dtype}"
            )
        if found.size and (found.min() < 0 or found.max() >= n_classes):
            raise ValueError(
                f"tree_votes must hold class indices from 0 to {n_classes - 1}; found {found.min()} to {found.max()}"
            )
        return found
    n_scores: Collection[int] = {1, 2} if n_classes == 2 else {n_classes}
    if found.ndim == 2:
        found = found[:, :, None]
    fits = found.ndim == 3 and found.shape[1] == n_trees and (found.shape[2] in n_scores or n_classes == 1)
    if not fits or found.dtype.kind not in "iuf":
        raise ValueError(
            f"this table goes by scores: give those of each tree alone, before the link, numbers of shape (n_rows, "
            f"{n_trees}, {n_classes if n_classes > 2 else 1}); found shape {found.shape}, dtype {found.dtype}"
        )
    return found


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
            f"voting={voting!r} says what labels go by, and metric={metric!r} goes by scores, not by votes: leave "
            "voting at 'auto'"
        )
    if tolerance is None:
        raise ValueError(f"metric={metric!r} needs a tolerance: how far off a prediction may be")
    return positive("tolerance", tolerance)


def check_scores(averages_scores: bool, n_classes: int, metric: str, average: str) -> None:
    """Raise ``ValueError`` where an ensemble has no scores that are averaged, or no classes that are asked for."""
    if not averages_scores:
        raise ValueError(
            "the members of this ensemble have no scores that are averaged: use metric='labels' with voting='hard' "
            "or 'auto'"
        )
    if metric == "probabilities" and not n_classes:
        raise ValueError("metric='probabilities' is for classification; a regression forest has metric='scores'")
    if average == "macro" and not n_classes:
        raise ValueError("average='macro' is over classes, and the forest predicts numbers: leave average out")
