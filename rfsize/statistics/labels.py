"""Labels: how many trees give the labels of an unlimited forest on a share of the rows.

T*(α) is the size of the smallest odd forest that gives the labels of the infinite forest on a share α of the rows, on
average over rows and forests: D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of
classifiers be?" Pattern Recognition 46(5), 1323-1336.

One density for all rows supposes that chance decides how many trees predict a row. If rows belong together, this is
wrong: rows of large groups have few votes, and they may be the rows near a tie, such as copies of a rare class. Rows of
each *kind* are therefore estimated apart: by their number of votes or the size of their group, and for the macro
average by the class that the infinite forest gives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize import theory
from rfsize._util import Bools, Floats, Int64s, in_percent, whole
from rfsize.counting.coverage import fewest_votes, too_many_without_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct, predictor_of, voting_of, why_no_forest
from rfsize.counting.sums import Blocks, Scores, leading
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import (
    REPLICATES,
    SEED,
    Estimate,
    LossCurve,
    averaged,
    check_votes,
    interpolated,
    no_votes_error,
    problem_of_votes,
    too_many_trees,
    wider,
)
from rfsize.statistics.label_fit import NOISE_SIZES, ODD_SIZES, Fit, fit
from rfsize.statistics.margins import MarginChanges, Sample, changes_of_margins, own_share, without_block

FEWEST_ROWS = 50
"""Rows of a kind, or of a class, from which on they tell something by themselves."""

# Error that remains with any number of rows and trees, as a share of the disagreement: densities are less smooth than
# assumed, scores are not normal. Measured on the five known problems of `benchmarks/intervals.py`.
_MODEL_ERROR = 0.03

_LEAST, _ROWS_OF_SHARE = 1e-300, 2000  # rows on which the share below alpha is counted
_BINS, _FARTHEST = 25, 3.0  # of the rows' distances from a tie, and the largest margin in a picture


class Distances(NamedTuple):
    """A histogram of the rows by their distance from a tie.

    Attributes
    ----------
    of_votes : bool
        Whether the distance is the vote fraction of the losing class, with a tie at 1/2; else a margin.
    edges, shares : ndarray of float, shapes (n_bins + 1,) and (n_bins,)
        Edges of the bins, and the share of the rows in each.
    """

    of_votes: bool
    edges: Floats
    shares: Floats


@dataclass(frozen=True, eq=False)
class LabelDetails:
    """Further numbers of an estimate of labels.

    Attributes
    ----------
    voting : {"hard", "soft"}
        The rule of voting.
    predict_voting : str or None
        The rule of the model's own ``predict``, if it is known.
    method : {"smooth", "plugin"}
        How agreement was estimated.
    tie_warning : str or None
        Why the estimate cannot be trusted; None if it can.
    label_shares : dict of class label to float
        Share of the rows that get the label of each class, by the votes or scores at hand.
    by_class : dict of class label to LossCurve
        The share of labels that still change, among the rows on which each class leads.
    probabilities : list of float or None
        Mean probability of each class over the rows; None if there are no scores.
    below_alpha : float or None
        Share of the rows to which a forest of the trees that are kept gives the label of an unlimited forest with a
        probability below alpha; None for averages over classes.
    distances : Distances
        How near to a tie the rows are.
    """

    voting: str
    predict_voting: str | None
    method: str
    tie_warning: str | None
    label_shares: dict[Any, float]
    by_class: dict[Any, LossCurve]
    probabilities: list[float] | None
    below_alpha: float | None
    distances: Distances

    def classes_of_few_rows(self, n_rows: int) -> dict[Any, int]:
        """Classes that fewer than `FEWEST_ROWS` of ``n_rows`` rows get, and how many do."""
        rows = {label: round(share * n_rows) for label, share in self.label_shares.items()}
        return {label: of_label for label, of_label in rows.items() if of_label < FEWEST_ROWS}


class _Kind(NamedTuple):
    """Rows of one kind: on which a class leads, if it is given, and with these all to which it might be given."""

    mask: Bools
    label: int | None
    among: Bools


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows with votes or scores.

    Attributes
    ----------
    sample : ndarray or Scores
    cut : float
    n_trees : ndarray of int32, shape (n_rows,)
        Number of trees that predicted each row.
    used : ndarray of bool, shape (n_rows,)
        Whether these are enough.
    kind : ndarray of int64, shape (n_rows,)
        The kind of each row, by its number of votes or the size of its group.
    leader : ndarray of int64, shape (n_rows,)
        The class that leads on it.
    blocks : Blocks or None
    in_blocks : ndarray of int64, shape (n_block_rows,)
        The place of each row of the blocks among these rows.
    """

    sample: Sample
    cut: float
    n_trees: NDArray[np.int32]
    used: Bools
    kind: Int64s
    leader: Int64s
    blocks: Blocks | None
    in_blocks: Int64s

    @property
    def of_scores(self) -> bool:
        return isinstance(self.sample, Scores)

    @property
    def votes_per_row(self) -> float:
        return float(self.n_trees[self.used].mean())

    def where(self, mask: Bools) -> Sample:
        """The sample of some of the rows."""
        return self.sample.take(mask) if isinstance(self.sample, Scores) else self.sample[mask]

    def fit(self, kind: _Kind, method: str, *, with_draws: bool) -> Fit:
        """The fit on the rows of a kind."""
        mask, label, among = kind
        blocks = None if self.blocks is None else self.blocks.where(mask[self.in_blocks])
        every = None if label is None else self.where(among)
        return fit(self.where(mask), self.cut, blocks, method, with_draws=with_draws, label=label, among=every)


def estimate_labels(outputs: TreeOutputs, criterion: Criterion, *, interval: bool = True) -> Estimate:
    """The agreement of labels, from votes or averaged scores.

    Parameters
    ----------
    outputs : TreeOutputs
        The trees' outputs on distinct rows.
    criterion : Criterion
        Of labels.
    interval : bool, default True
        Whether the interval is wanted too, which takes most of the time; without it there are no details by class.

    Raises
    ------
    FewVotesError
        If no row has a vote, or the scores of two trees.
    ValueError
        If there are no scores to size by.
    """
    if not outputs.votes.n_votes.any():
        raise no_votes_error(outputs, "a vote")
    voting = voting_of(outputs, criterion.voting)
    rows, has_kinds = _rows(outputs, voting)
    if not rows.used.any():
        raise no_votes_error(outputs, "the scores of two trees")
    kinds, weights = _kinds(rows, by_class=criterion.average == "macro")
    fits = [rows.fit(kind, criterion.method, with_draws=interval) for kind in kinds]
    problem, lacks = _problem(outputs, rows, has_kinds)
    curves = [_curve(of_kind) for of_kind in fits]
    curve = averaged(curves, weights)
    if interval and criterion.average == "macro" and len(fits) > 1:
        curve = replace(curve, replicates=wider(curve.replicates, _beside_apart(curves, weights)))

    def loss(n_trees: int) -> float:
        """The exact mean disagreement, which the curve interpolates."""
        return float(weights @ [of_kind.loss(np.array([n_trees]))[0] for of_kind in fits])

    guess, expected = curve.size(criterion.level), curve
    n_trees = math.inf if lacks else theory.smallest_size(loss, criterion.level, guess=guess, odd=True)
    if interval:
        curve = _with_tree_noise(curve, rows, kinds, fits, weights)

    below_alpha = None
    if interval and criterion.average == "micro":
        step = max(1, len(rows.used) // _ROWS_OF_SHARE)
        losses = _losses_of_rows(rows, kinds, fits, expected, int(min(n_trees, outputs.n_trees)), step)
        below_alpha = float(np.mean(losses[np.isfinite(losses)] > criterion.level))
    return Estimate(
        curve,
        n_trees,
        n_rows=int(np.count_nonzero(rows.used)),
        n_dropped=int(np.count_nonzero(~rows.used)),
        votes_per_row=rows.votes_per_row,
        problem=problem,
        why_infinite=_why_infinite(fits, criterion) if math.isinf(n_trees) else None,
        details=_details(outputs, criterion, voting, rows, fits, weights, below_alpha) if interval else None,
    )


def agreement_of_rows(outputs: TreeOutputs, n_trees: int | None) -> Floats:
    """See `TreeOutputs.agreement`."""
    if (why := why_no_forest(outputs)) is not None:
        raise NotAForestError(why)
    outputs.votes  # noqa: B018 - regression has none, and says so
    n_trees = whole("n_trees", outputs.n_trees if n_trees is None else n_trees, at_least=1, at_most=theory.MAX_TREES)
    counted, agreement = distinct(outputs), np.full(outputs.n_rows, np.nan)
    check_votes(counted, Criterion("labels"))
    rows, has_kinds = _rows(counted, voting_of(counted, "auto"))
    if not rows.used.any():
        raise no_votes_error(counted, "a vote")
    problem, _ = _problem(counted, rows, has_kinds)
    if problem is not None:
        raise FewVotesError(problem)
    kinds, weights = _kinds(rows, by_class=False)
    fits = [rows.fit(kind, "auto", with_draws=False) for kind in kinds]
    curve = averaged([_curve(of_kind) for of_kind in fits], weights)
    losses = _losses_of_rows(rows, kinds, fits, curve, n_trees)
    once, index = outputs.groups.once, outputs.groups.index
    number = np.arange(outputs.n_rows) if once is None else np.flatnonzero(once)
    number = number[rows.sample.number] if isinstance(rows.sample, Scores) else number
    agreement[number] = 1.0 - losses
    if once is not None and index is not None:  # copies get what the first of them gets
        first = np.flatnonzero(once & (index >= 0))
        of_group = agreement[first[np.argsort(index[first])]]
        agreement = np.where(index >= 0, of_group[index], agreement)
    return agreement


def _losses_of_rows(
    rows: _Rows, kinds: list[_Kind], fits: list[Fit], curve: LossCurve, n_trees: int, step: int = 1
) -> Floats:
    """Disagreement of one row in ``step``, with the mean of the curve; NaN of others, and where votes are few."""
    losses, is_drawn = np.full(len(rows.used), np.nan), np.arange(len(rows.used)) % step == 0
    for kind, of_kind in zip(kinds, fits, strict=True):
        mask = kind.mask & is_drawn
        if mask.any():
            losses[mask] = of_kind.of_rows(rows.where(mask), rows.cut, n_trees - (n_trees % 2 == 0))
    mean = float(np.nanmean(losses))
    return np.minimum(losses * (curve.at(n_trees) / mean), 1.0) if mean > 0.0 else losses


def _problem(outputs: TreeOutputs, rows: _Rows, has_kinds: bool) -> tuple[str | None, bool]:
    """Why the votes tell no size, None if they do; and whether rows of some kind have none."""
    n_rows, n_dropped = len(rows.used), int(np.count_nonzero(~rows.used))
    lacks, fewest = has_kinds and too_many_without_votes(n_dropped, n_rows), fewest_votes(len(outputs.classes))
    return problem_of_votes(outputs, rows.votes_per_row, n_dropped, n_rows, fewest=fewest, lacks=lacks), lacks


def leading_labels(outputs: TreeOutputs, criterion: Criterion) -> Int64s:
    """Index of the label of each row by the trees at hand, shape (n_rows,); −1 if too few trees can vote."""
    rows, _ = _rows(outputs, voting_of(outputs, criterion.voting))
    return np.where(rows.used, rows.leader, -1)


def fewest_alike(before: Int64s, now: Int64s, votes: tuple[float, float], criterion: Criterion, n_trees: int) -> int:
    """The fewest of the first ``n_trees`` trees that are as close to all of them as the criterion asks.

    It is estimated from the labels at two looks, and the mean ``votes`` of a row at each: t of T trees give other
    labels on a share of the rows ∝ √(1/t − 1/T). 0 if it cannot be estimated.
    """
    known = (now >= 0) & (before >= 0)
    differs, leader = (before != now)[known], now[known]
    if votes[1] <= votes[0] or not differs.any():
        return 0
    by_class = [differs[leader == label].mean() for label in np.unique(leader)]
    changed = float(np.mean(by_class if criterion.average == "macro" else differs))
    apart = (criterion.level / changed) ** 2 * (1.0 / votes[0] - 1.0 / votes[1])
    # As T* of a majority vote, odd.
    return min(2 * math.ceil((1.0 / (1.0 / n_trees + apart) - 1.0) / 2.0) + 1, n_trees)


def _rows(outputs: TreeOutputs, voting: str) -> tuple[_Rows, bool]:
    """The rows by a voting rule, and whether they are of several kinds."""
    blocks = None if outputs.sums is None else outputs.sums.blocks
    kind = coverage(outputs).strata if outputs.source == "oob" else None
    if kind is None and outputs.groups.sizes is not None:
        kind = np.ceil(np.log2(outputs.groups.sizes)).astype(np.int64)  # each doubling of the size is one kind
    has_kinds = kind is not None
    if voting == "hard":
        sample: Sample = outputs.votes.counts
        n_votes, numbers = outputs.votes.n_votes, np.arange(len(sample))
        leader, cut, fewest = most_voted(outputs.votes.counts), 0.0, 1 if len(outputs.classes) == 2 else 2
    else:
        if outputs.scores is None:
            raise ValueError(
                "voting='soft' averages the trees' scores, and counted Votes have none: give rfsize.size the model "
                "and its rows, or take voting='hard'"
            )
        sample, scores, cut, fewest = outputs.scores, outputs.scores, predictor_of(outputs).raw_threshold, 2
        n_votes, numbers, leader = scores.n_votes, scores.number, leading(scores.mean, cut)
        kind = None if kind is None else kind[numbers]
    kind = np.zeros(len(n_votes), dtype=np.int64) if kind is None else kind
    in_blocks = np.zeros(0, dtype=np.int64) if blocks is None else np.searchsorted(numbers, blocks.rows)
    return _Rows(sample, cut, n_votes, n_votes >= fewest, kind, leader, blocks, in_blocks), has_kinds


def most_voted(counts: NDArray[np.int32]) -> Int64s:
    """Index of the class with the most votes; tied classes take turns, so that no class is favoured."""
    leader = counts.argmax(axis=1).astype(np.int64)
    first = counts == counts.max(axis=1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(first, axis=1) > 1)
    tied = tied[np.lexsort(counts[tied].T)]  # whatever the order of the rows
    place = np.cumsum(first[tied], axis=1)
    turn = 1 + np.arange(len(tied)) % place[:, -1]
    leader[tied] = (place >= turn[:, None]).argmax(axis=1)
    return leader


# Kinds of rows


def _kinds(rows: _Rows, *, by_class: bool) -> tuple[list[_Kind], Floats]:
    """The kinds of rows, and the weight of each in the mean."""
    labels = np.unique(rows.leader[rows.used]).tolist() if by_class else [None]
    kinds, weights = [], []
    for label in labels:
        of_label = _of_kinds(rows, label)
        n_rows = np.array([np.count_nonzero(kind.mask) for kind in of_label])
        kinds += of_label
        weights.append(n_rows / n_rows.sum() / len(labels))
    return kinds, np.concatenate(weights)


def _of_kinds(rows: _Rows, label: int | None) -> list[_Kind]:
    """The kinds of the rows, or of those on which a class leads; kinds of few rows are merged with the next."""
    used = rows.used if label is None else rows.used & (rows.leader == label)
    merged: list[list[int]] = [[]]
    n_rows = 0
    for kind, count in zip(*np.unique(rows.kind[used], return_counts=True), strict=True):
        if n_rows >= FEWEST_ROWS:
            merged.append([])
            n_rows = 0
        merged[-1].append(int(kind))
        n_rows += int(count)
    if len(merged) > 1 and n_rows < FEWEST_ROWS:
        merged[-2:] = [merged[-2] + merged[-1]]
    if len(merged) == 1:
        return [_Kind(used, label, rows.used)]
    of_kinds = [np.isin(rows.kind, kinds) for kinds in merged]
    return [_Kind(used & of_kind, label, rows.used & of_kind) for of_kind in of_kinds]


def _curve(of_kind: Fit) -> LossCurve:
    return LossCurve(ODD_SIZES, of_kind.loss(ODD_SIZES), of_kind.replicates(), is_odd=True)


def _beside_apart(curves: list[LossCurve], weights: Floats) -> Floats:
    """How much more the mean over classes scatters than if each class had rows of its own, at each size.

    A row near a tie counts in both of its classes. Each class shares its ties evenly with all others.
    """
    scatter = weights[:, None] * np.array([curve.replicates.std(axis=0) for curve in curves])
    apart = np.maximum((scatter**2).sum(axis=0), _LEAST)
    return np.sqrt(1.0 + (scatter.sum(axis=0) ** 2 / apart - 1.0) / (len(curves) - 1.0))


def _why_infinite(fits: list[Fit], criterion: Criterion) -> str:
    causes = [cause for of_kind in fits if (cause := of_kind.why_infinite(criterion.level)) is not None]
    cause = causes[0] if causes else too_many_trees()
    cause = f"one class never converges: {cause}" if criterion.average == "macro" else cause
    return f"no number of trees reaches {in_percent(criterion.alpha)} by this estimate: {cause}"


# The noise of the trees, which all rows share


def _with_tree_noise(curve: LossCurve, rows: _Rows, kinds: list[_Kind], fits: list[Fit], weights: Floats) -> LossCurve:
    """The curve whose replicates have the noise of the trees too, by the jackknife over blocks of trees."""
    inflation = max(of_kind.inflation for of_kind in fits)
    blocks = rows.blocks
    if blocks is None or blocks.n_filled < 2 or not (blocks.scores.n_votes > 2).any():  # two without any block
        return replace(curve, replicates=wider(curve.replicates, inflation))
    has_votes = blocks.scores.n_votes > 1
    on_kinds = [blocks.where(kind.mask[rows.in_blocks] & has_votes) for kind in kinds]
    among = [blocks.where(kind.among[rows.in_blocks] & has_votes) for kind in kinds]
    without = np.log(np.maximum(_without_each_block(blocks, among, rows, fits, weights), _LEAST))
    noise = (without - without.mean(axis=0)) * np.sqrt(1.0 - own_share(_changes(on_kinds, rows, weights), NOISE_SIZES))
    generator = np.random.default_rng(SEED + 1)
    n_blocks = len(without)
    drawn = generator.standard_normal((REPLICATES, n_blocks)) * math.sqrt((n_blocks - 1.0) / n_blocks)
    # With few blocks their scatter is itself uncertain, so Student's t.
    drawn *= np.sqrt((n_blocks - 1.0) / generator.chisquare(n_blocks - 1.0, size=(REPLICATES, 1)))
    factors = drawn @ interpolated(curve.sizes, NOISE_SIZES, noise)
    factors += _MODEL_ERROR * generator.standard_normal((REPLICATES, 1))
    replicates = np.minimum(curve.replicates * np.exp(factors), 1.0)
    return replace(curve, replicates=wider(replicates, inflation))


def _without_each_block(
    blocks: Blocks, on_kinds: list[Blocks], rows: _Rows, fits: list[Fit], weights: Floats
) -> Floats:
    """Disagreement of forests of `NOISE_SIZES` without each block of trees, shape (n_blocks, n_sizes)."""
    filled = np.flatnonzero(blocks.apart.n_scored.any(axis=(0, 2)))
    without = np.zeros((len(filled), len(NOISE_SIZES)))
    for of_kind, weight, part in zip(fits, weights, on_kinds, strict=True):
        apart = part.apart
        for index, block in enumerate(filled):
            sample = without_block(apart, int(block), of_scores=rows.of_scores)
            without[index] += weight * of_kind.loss_of(sample, rows.cut, NOISE_SIZES)
    return without


def _changes(on_kinds: list[Blocks], rows: _Rows, weights: Floats) -> MarginChanges:
    """Changes of margins on rows of all kinds; the weight of a row is that of its kind, divided by its rows."""
    parts = []
    for weight, part in zip(weights, on_kinds, strict=True):
        if len(part.rows):
            changes = changes_of_margins(part, rows.cut, of_scores=rows.of_scores)
            parts.append(changes._replace(weight=changes.weight * (weight / changes.weight.sum())))
    return MarginChanges(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


# Details


def _details(
    outputs: TreeOutputs,
    criterion: Criterion,
    voting: str,
    rows: _Rows,
    fits: list[Fit],
    weights: Floats,
    below_alpha: float | None,
) -> LabelDetails:
    classes = outputs.classes.tolist()
    shares = np.bincount(rows.leader[rows.used], minlength=len(classes)) / np.count_nonzero(rows.used)
    largest = int(np.argmax(weights))
    warnings = [of_kind.tie_warning for of_kind in fits if of_kind.tie_warning is not None]
    return LabelDetails(
        voting=voting,
        predict_voting=None if outputs.predictor is None else outputs.predictor.voting,
        method=fits[largest].method,
        tie_warning=warnings[0] if warnings else None,
        label_shares=dict(zip(classes, shares.tolist(), strict=True)),
        by_class=_by_class(rows, classes, criterion),
        probabilities=_probabilities(outputs),
        below_alpha=below_alpha,
        distances=_distances(fits, weights),
    )


def _by_class(rows: _Rows, classes: list[Any], criterion: Criterion) -> dict[Any, LossCurve]:
    """The curve of the rows on which each class leads."""
    curves = {}
    for label in np.unique(rows.leader[rows.used]).tolist():
        kinds = _of_kinds(rows, label)
        parts = [_curve(rows.fit(kind, criterion.method, with_draws=False)) for kind in kinds]
        n_rows = np.array([np.count_nonzero(kind.mask) for kind in kinds])
        curves[classes[label]] = averaged(parts, n_rows / n_rows.sum())
    return curves


def _probabilities(outputs: TreeOutputs) -> list[float] | None:
    scores, predictor = outputs.scores, outputs.predictor
    if scores is None or predictor is None or not scores.are_finite():
        return None
    means = predictor.predictions(scores.mean[scores.n_votes > 0]).mean(axis=0)
    return list(np.asarray(means).tolist())


def _distances(fits: list[Fit], weights: Floats) -> Distances:
    of_votes = fits[0].of_votes
    edges = np.linspace(0.0, 0.5 if of_votes else _FARTHEST, _BINS + 1)
    shares = np.zeros(_BINS)
    for of_kind, weight in zip(fits, weights, strict=True):
        values = np.clip(of_kind.distances, edges[0], edges[-1])
        shares += weight * np.histogram(values, bins=edges, weights=of_kind.mass)[0]
    return Distances(of_votes, edges, shares)
