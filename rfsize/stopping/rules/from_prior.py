"""Rules on votes that follow from a prior over the final tallies: how to build them, and certify them on rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import MAX_CLASSES, Floats, Int64s, choice, whole
from rfsize.counting.outputs import TreeOutputs, coverage, distinct, outputs_of_votes
from rfsize.counting.training_rows import TreesOnRows, one_in
from rfsize.counting.votes import Votes
from rfsize.statistics.certify import Certificate, ClassCounts, RiskTarget
from rfsize.stopping import urn
from rfsize.stopping.document import Fields, refuse
from rfsize.stopping.rules.votes import VoteStops
from rfsize.stopping.terms import Terms, checked_trees, labels_of

_ROUNDING = 1e-9  # of the sum of a stored prior

# Nominal disagreements to try, relative to 1 − α: four for each doubling.
_NOMINAL = 2.0 ** np.arange(-6.0, 6.75, 0.25)

_ROWS_PER_PRIOR = 5  # one row in this many gives the prior; the others certify

# The most votes in memory. If rows × trees are more, evenly spaced rows are taken.
_VOTES_HELD = 1 << 28
_BLOCK = 2_000_000


class UrnStops(VoteStops):
    """Stops that follow from a prior: how likely each final tally of the votes is."""

    calibrates = ("labels",)

    @classmethod
    @abstractmethod
    def prior_from(cls, prior: Votes | ArrayLike, n_trees: int) -> Floats:
        """Normalised weights of the final tallies, from votes or from given weights, which are checked."""

    @classmethod
    @abstractmethod
    def build(cls, terms: Terms) -> Self:
        """The stops for checked terms."""

    @classmethod
    @abstractmethod
    def lossless(cls, n_trees: int) -> Self:
        """The earliest stops that never change a label."""

    @classmethod
    def calibrated(cls, trees: TreesOnRows, promise: RiskTarget) -> tuple[Terms, UrnStops, Certificate]:
        """Take the prior from one row in five, and certify on the other rows."""
        terms = Terms.of_forest(trees, promise)
        for_prior, others = VotesOnRows.of(trees).parts(_ROWS_PER_PRIOR)
        prior = cls.prior_from(Votes(for_prior.counts(), trees.forest.classes, terms.n_trees), terms.n_trees)
        nominal, stops, certificate = others.certified(replace(terms, prior=prior), promise)
        return replace(terms, prior=prior, nominal=nominal), stops, certificate

    @classmethod
    def prior_of(cls, fields: Fields, n_trees: int) -> Floats | None:
        if fields["prior"] is None:
            return None
        weights = fields.numbers("prior", float, n_trees + 1)
        if (weights < 0.0).any() or not abs(weights.sum() - 1.0) <= _ROUNDING:
            refuse(f"prior must hold weights of at least 0 that sum to 1, found a sum of {weights.sum():g}")
        return weights


def wins_of(terms: Terms) -> Floats:
    """`urn.winning_masses` of the prior; None means uniform."""
    return urn.winning_masses(urn.uniform_prior(terms.n_trees) if terms.prior is None else terms.prior)


def urn_stops(n_trees: int, n_classes: int) -> type[UrnStops]:
    """The subclass of `UrnStops` for a forest of this size."""
    (kind,) = UrnStops.kinds(n_trees, n_classes).values()
    return kind


def terms_of_prior(n_trees: int, alpha: float, prior: Any, n_classes: int | None) -> Terms:
    """Check the arguments of `rfsize.StopTable.build`, and return the terms of the table.

    Raises
    ------
    ValueError
        If an argument is out of range, or does not fit the others.
    FewVotesError
        If votes are out of bag and some kind of rows lacks votes, so that the other rows do not stand for new rows.
    """
    n_trees = checked_trees(n_trees)
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must be a number above 0 and at most 1 (1 for the lossless table), found {alpha!r}")
    if n_classes is not None:
        n_classes = whole("n_classes", n_classes, at_least=2, at_most=MAX_CLASSES)
    if isinstance(prior, str):
        choice("prior", prior, ("uniform",), "; or give what rfsize.tree_outputs returns")
        return Terms(n_trees, n_classes or 2, float(alpha))
    votes = _representative(prior) if isinstance(prior, Votes | TreeOutputs) else None
    of_prior = 2 if votes is None else len(votes.classes)
    if n_classes not in (None, of_prior):
        raise ValueError(f"n_classes is {n_classes}, but prior is over {of_prior} classes; leave n_classes out")
    weights = urn_stops(n_trees, of_prior).prior_from(prior if votes is None else votes, n_trees)
    labels = (None, None) if votes is None else (labels_of(votes.classes), votes.threshold)
    return Terms(n_trees, of_prior, float(alpha), weights, None, *labels)


def _representative(prior: Votes | TreeOutputs) -> Votes:
    """The votes of a prior, after a check that they stand for the votes on new rows."""
    outputs = outputs_of_votes(prior) if isinstance(prior, Votes) else distinct(prior)
    problem = coverage(outputs).problem_of_some("where voting may stop") if outputs.votes.is_out_of_bag else None
    if problem is not None:
        raise problem
    return outputs.votes


@dataclass(frozen=True, eq=False)
class VotesOnRows:
    """The vote of each tree on rows, and the majority of all trees.

    Attributes
    ----------
    votes : ndarray of unsigned int, shape (n, T)
    winner : ndarray of int64, shape (n,)
    n_classes : int
    """

    votes: NDArray[Any]
    winner: Int64s
    n_classes: int

    @classmethod
    def of(cls, trees: TreesOnRows) -> VotesOnRows:
        """The votes of a forest. If there are very many rows, evenly spaced rows are taken."""
        n_rows, n_trees, n_classes = trees.rows.n_rows, trees.forest.n_trees, trees.forest.classes.size
        every = 1 + n_rows * n_trees // _VOTES_HELD
        read = partial(_some_votes, every=every, dtype=np.min_scalar_type(n_classes - 1))
        votes = np.concatenate(trees.added_up("votes", read, list))
        step = max(1, _BLOCK // max(n_trees, n_classes))
        blocks = [votes[start : start + step] for start in range(0, max(len(votes), 1), step)]
        return cls(votes, np.concatenate([_majority(block, n_classes) for block in blocks]), n_classes)

    def parts(self, every: int) -> tuple[VotesOnRows, VotesOnRows]:
        """One row in ``every``, and the other rows."""
        in_first = np.arange(len(self.votes)) % every == 0
        first, others = (
            VotesOnRows(self.votes[rows], self.winner[rows], self.n_classes) for rows in (in_first, ~in_first)
        )
        return first, others

    def counts(self) -> NDArray[np.int64]:
        """Votes for each class, shape (n, n_classes)."""
        return np.stack([(self.votes == index).sum(axis=1) for index in range(self.n_classes)], axis=1)

    def outcome(self, stops: UrnStops) -> ClassCounts:
        """Disagreement and trees asked of stops on these rows."""
        labels, n_used = stops.answers(self.votes, self.n_classes)
        return ClassCounts.of(self.winner, labels != self.winner, n_used, self.n_classes)

    def certified(self, terms: Terms, promise: RiskTarget) -> tuple[float, UrnStops, Certificate]:
        """The nominal α of the boldest stops that the rows certify, the stops, and their certificate.

        A sequence of nominal α is tried. The first stops are lossless; the first that fail end the sequence.
        """
        sizes = np.bincount(self.winner, minlength=self.n_classes).astype(np.int64)
        promise.check_rows(sizes, terms.class_labels)
        build = urn_stops(terms.n_trees, terms.n_classes).build
        best, stops = 1.0, build(replace(terms, nominal=1.0))
        counts = self.outcome(stops)
        nominal = 1.0 - (1.0 - promise.alpha) * _NOMINAL
        for alpha in nominal[nominal > 0.0].tolist():
            bolder = build(replace(terms, nominal=alpha))
            outcome = self.outcome(bolder)
            if promise.fixed_sequence(np.array(outcome.disagreements)[:, None], sizes) < 0:
                break
            best, stops, counts = alpha, bolder, outcome
        return best, stops, promise.certificate(counts)


def _some_votes(votes: NDArray[Any], place: Int64s, *, every: int, dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    """The votes on one row in ``every``, in a small type."""
    return [votes[one_in(every, place)].astype(dtype)]


def _majority(votes: NDArray[Any], n_classes: int) -> Int64s:
    """Class with the most votes; a tie goes to the lowest index."""
    place = np.arange(len(votes))[:, None] * n_classes + votes
    counts = np.bincount(place.ravel(), minlength=len(votes) * n_classes)
    return counts.reshape(len(votes), n_classes).argmax(axis=1)
