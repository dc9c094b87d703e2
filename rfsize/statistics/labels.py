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
from rfsize._util import Floats, Int64s, how_many, in_percent, printable, whole
from rfsize.counting.coverage import check_votes, fewest_votes, no_votes_error, problem_of_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct, predictor_of, voting_of, why_no_forest
from rfsize.counting.sums import Blocks, Scores, leading, where
from rfsize.counting.votes import most_voted
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.statistics.criterion import Criterion
from rfsize.statistics.curve import (
    REPLICATES,
    SEED,
    Estimate,
    LossCurve,
    averaged,
    interpolated,
    wider,
)
from rfsize.statistics.label_fit import NOISE_SIZES, ODD_SIZES, Fit, Kind, LabelRows, fit, row_cells
from rfsize.statistics.margins import Sample, measured, without_block

FEWEST_ROWS = 50
"""Rows of a kind, or of a class, from which on they tell something by themselves."""

# Rows that two classes must get, or their mean is no estimate: with fewer, forests of the estimated size changed up to
# 25 times as many labels as they may; with 10 to 49, at most 2.1 times (docs/measurements.md, macro average).
_FEWEST_OF_A_CLASS = 10

# The error of estimates exceeds the noise of rows and trees by this factor: the estimate rests on the density at a tie,
# and on some problems this density is not smooth. Of two classes this was measured on twelve problems that no benchmark
# has, with 400 rows and with 4000. Of more classes there are more ties, and the error is smaller: measured on rules,
# uneven clouds, correlated columns, six scores and seven sectors, with 300 to 400 rows.
_INFLATION_OF_TWO, _INFLATION_OF_MORE = 1.25, 1.15

# Error that remains with any number of rows and trees, as a share of the disagreement: densities are less smooth than
# assumed, scores are not normal. Measured on the five known problems of `benchmarks/intervals.py`.
_MODEL_ERROR = 0.03

_LEAST, _ROWS_OF_SHARE = 1e-300, 2000  # rows on which the share below alpha is counted
_MOST = 300.0  # most that the noise of trees adds to the logarithm of a loss, which stays a number


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
    label_shares : dict of class label to float
        Share of the rows that get the label of each class, by the votes or scores at hand.
    by_class : dict of class label to LossCurve
        The share of labels that still change, among the rows on which each class leads.
    probabilities : list of float or None
        Mean probability of each class over the rows; None if there are no scores.
    below_alpha : float or None
        Share of the rows to which a forest of the trees that are kept gives the label of an unlimited forest with a
        probability below alpha; None for averages over classes.
    """

    voting: str
    predict_voting: str | None
    method: str
    label_shares: dict[Any, float]
    by_class: dict[Any, LossCurve]
    probabilities: list[float] | None
    below_alpha: float | None

    def classes_of_few_rows(self, n_rows: int) -> dict[Any, int]:
        """Classes that fewer than `FEWEST_ROWS` of ``n_rows`` rows get, and how many do."""
        rows = {label: round(share * n_rows) for label, share in self.label_shares.items()}
        return {label: of_label for label, of_label in rows.items() if of_label < FEWEST_ROWS}


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
    rows = _rows(outputs, criterion.voting)
    if not rows.used.any():
        raise no_votes_error(outputs, "the scores of two trees")
    fitted = _fitted(rows, criterion.method, by_class=criterion.average == "macro", with_draws=interval)
    problem, lacks = _problem(outputs, rows)
    if criterion.average == "macro" and (of_classes := _problem_of_classes(outputs.classes, rows)) is not None:
        problem, lacks = problem or of_classes, True

    def loss(n_trees: int) -> float:
        """The exact mean disagreement, which the curve interpolates."""
        return float(fitted.weights @ [of_kind.loss(np.array([n_trees]))[0] for of_kind in fitted.fits])

    guess = fitted.curve.size(criterion.level)
    n_trees = math.inf if lacks else theory.smallest_size(loss, criterion.level, guess=guess, odd=True)
    return Estimate(
        _with_tree_noise(fitted) if interval else fitted.curve,
        n_trees,
        n_rows=int(np.count_nonzero(rows.used)),
        n_dropped=int(np.count_nonzero(~rows.used)),
        votes_per_row=float(rows.n_trees[rows.used].mean()),
        problem=problem,
        why_infinite=_why_infinite(fitted.fits, criterion),
        notes=tuple({of_kind.tie_warning: None for of_kind in fitted.fits if of_kind.tie_warning is not None}),
        details=_details(outputs, criterion, fitted, int(min(n_trees, outputs.n_trees))) if interval else None,
    )


def agreement_of_rows(outputs: TreeOutputs, n_trees: int | None) -> Floats:
    """See `TreeOutputs.agreement`."""
    if (why := why_no_forest(outputs)) is not None:
        raise NotAForestError(why)
    outputs.votes  # noqa: B018 - regression has none, and says so
    n_trees = whole("n_trees", outputs.n_trees if n_trees is None else n_trees, at_least=1, at_most=theory.MAX_TREES)
    counted, agreement = distinct(outputs), np.full(outputs.n_rows, np.nan)
    check_votes(coverage(counted))
    rows = _rows(counted, "auto")
    if not rows.used.any():
        raise no_votes_error(counted, "a vote")
    problem, _ = _problem(counted, rows)
    if problem is not None:
        raise FewVotesError(problem)
    losses = _losses_of_rows(_fitted(rows, "auto", by_class=False, with_draws=False), n_trees)
    once, index = outputs.groups.once, outputs.groups.index
    number = np.arange(outputs.n_rows) if once is None else np.flatnonzero(once)
    number = number[rows.sample.number] if isinstance(rows.sample, Scores) else number
    agreement[number] = 1.0 - losses
    if once is not None and index is not None:  # copies get what the first of them gets
        first = np.flatnonzero(once & (index >= 0))
        of_group = agreement[first[np.argsort(index[first])]]
        agreement = np.where(index >= 0, of_group[index], agreement)
    return agreement


def _losses_of_rows(fitted: _Fitted, n_trees: int, step: int = 1) -> Floats:
    """Disagreement of one row in ``step``, with the mean of the curve; NaN of others, and where votes are few."""
    rows, n_rows = fitted.rows, len(fitted.rows.used)
    losses, is_drawn = np.full(n_rows, np.nan), np.arange(n_rows) % step == 0
    for kind, of_kind in zip(fitted.kinds, fitted.fits, strict=True):
        mask = kind.mask & is_drawn
        if mask.any():
            losses[mask] = of_kind.of_rows(rows.where(mask), rows.cut, n_trees - (n_trees % 2 == 0))
    mean = float(np.nanmean(losses))
    return np.minimum(losses * (fitted.curve.at(n_trees) / mean), 1.0) if mean > 0.0 else losses


def _problem(outputs: TreeOutputs, rows: LabelRows) -> tuple[str | None, bool]:
    """See `problem_of_votes`."""
    votes_per_row, n_dropped = float(rows.n_trees[rows.used].mean()), int(np.count_nonzero(~rows.used))
    fewest = fewest_votes(len(outputs.classes))
    return problem_of_votes(outputs, votes_per_row, n_dropped, len(rows.used), fewest, rows.has_kinds)


def _problem_of_classes(classes: NDArray[Any], rows: LabelRows) -> str | None:
    """Why the rows tell nothing about the mean over the classes, and what to do; None if two classes have enough."""
    n_rows = np.bincount(rows.leader[rows.used], minlength=2)
    label = int(np.argsort(n_rows, kind="stable")[-2])
    if (few := int(n_rows[label])) >= _FEWEST_OF_A_CLASS or len(classes) < 2:
        return None
    text = f"average='macro' takes {_FEWEST_OF_A_CLASS} rows each of two classes, and class {printable(classes[label])}"
    needed = f"about {math.ceil(n_rows.sum() * _FEWEST_OF_A_CLASS / few):,} rows like these" if few else "more rows"
    return f"{text} has only {how_many(few, 'row')}: give {needed}"


def leading_labels(outputs: TreeOutputs, criterion: Criterion) -> Int64s:
    """Index of the label of each row by the trees at hand, shape (n_rows,); −1 if too few trees can vote."""
    rows = _rows(outputs, criterion.voting)
    return np.where(rows.used, rows.leader, -1)


def _rows(outputs: TreeOutputs, voting: str) -> LabelRows:
    """The rows by a voting rule."""
    blocks = None if outputs.sums is None else outputs.sums.blocks
    kind = coverage(outputs).strata if outputs.source == "oob" else None
    if kind is None and outputs.groups.sizes is not None:
        kind = np.ceil(np.log2(outputs.groups.sizes)).astype(np.int64)  # each doubling of the size is one kind
    has_kinds = kind is not None
    if voting_of(outputs, voting) == "hard":
        sample: Sample = outputs.votes.counts
        n_votes, numbers = outputs.votes.n_votes, np.arange(len(sample))
        leader, cut, fewest = most_voted(outputs.votes.counts), 0.0, 1 if len(outputs.classes) == 2 else 2
    else:
        if outputs.scores is None:
            raise ValueError("voting='soft' averages scores, and counted Votes have none: take voting='hard'")
        sample, scores, cut, fewest = outputs.scores, outputs.scores, predictor_of(outputs).raw_threshold, 2
        n_votes, numbers, leader = scores.n_votes, scores.number, leading(scores.mean, cut)
        kind = None if kind is None else kind[numbers]
    kind = np.zeros(len(n_votes), dtype=np.int64) if kind is None else kind
    in_blocks = np.zeros(0, dtype=np.int64) if blocks is None else np.searchsorted(numbers, blocks.rows)
    return LabelRows(sample, cut, n_votes, n_votes >= fewest, kind, has_kinds, leader, blocks, in_blocks)


# Kinds of rows


class _Fitted(NamedTuple):
    """Fits of the rows of each kind, the weight of each kind, and the curve of their mean."""

    rows: LabelRows
    kinds: list[Kind]
    weights: Floats
    fits: list[Fit]
    curve: LossCurve


def _fitted(rows: LabelRows, method: str, *, by_class: bool, with_draws: bool) -> _Fitted:
    """Fits of the rows of each kind, and with ``by_class`` of each class."""
    labels = np.unique(rows.leader[rows.used]).tolist() if by_class else [None]
    of_labels = [_of_kinds(rows, label) for label in labels]
    kinds = [kind for of_label, _ in of_labels for kind in of_label]
    weights = np.concatenate([shares / len(labels) for _, shares in of_labels])
    fits = [fit(rows, kind, method, with_draws=with_draws) for kind in kinds]
    curves = [_curve(of_kind) for of_kind in fits]
    curve = averaged(curves, weights)
    if with_draws and by_class and len(fits) > 1:
        curve = replace(curve, replicates=wider(curve.replicates, _beside_apart(curves, weights)))
    return _Fitted(rows, kinds, weights, fits, curve)


def _of_kinds(rows: LabelRows, label: int | None) -> tuple[list[Kind], Floats]:
    """The kinds of the rows, or of those on which a class leads, and their shares; small kinds join the next."""
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
    of_kinds = [np.isin(rows.kind, kinds) for kinds in merged] if len(merged) > 1 else [rows.used]
    kinds = [Kind(used & of_kind, label, rows.used & of_kind) for of_kind in of_kinds]
    n_rows_of_kinds = np.array([np.count_nonzero(kind.mask) for kind in kinds])
    return kinds, n_rows_of_kinds / n_rows_of_kinds.sum()


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
    cause = causes[0] if causes else Estimate.why_infinite
    cause = f"one class never converges: {cause}" if criterion.average == "macro" else cause
    return f"no number of trees reaches {in_percent(criterion.alpha)} by this estimate: {cause}"


# The noise of the trees, which all rows share


def _with_tree_noise(fitted: _Fitted) -> LossCurve:
    """The curve whose replicates have the noise of the trees too, by the jackknife over blocks of trees."""
    rows, curve = fitted.rows, fitted.curve
    n_columns = rows.sample.n_scores if isinstance(rows.sample, Scores) else rows.sample.shape[1]
    inflation = _INFLATION_OF_TWO if n_columns <= 2 else _INFLATION_OF_MORE
    blocks = rows.blocks
    if blocks is None or blocks.n_filled < 2 or not (blocks.scores.n_votes > 2).any():  # two without any block
        return replace(curve, replicates=wider(curve.replicates, inflation))
    noise = _noise_of_blocks(fitted, blocks)
    generator = np.random.default_rng(SEED + 1)
    n_blocks = len(noise)
    drawn = generator.standard_normal((REPLICATES, n_blocks)) * math.sqrt((n_blocks - 1.0) / n_blocks)
    # With few blocks their scatter is itself uncertain, so Student's t.
    drawn *= np.sqrt((n_blocks - 1.0) / generator.chisquare(n_blocks - 1.0, size=(REPLICATES, 1)))
    factors = drawn @ interpolated(curve.sizes, NOISE_SIZES, noise)
    factors += _MODEL_ERROR * generator.standard_normal((REPLICATES, 1))
    replicates = np.minimum(curve.replicates * np.exp(np.minimum(factors, _MOST)), 1.0)
    return replace(curve, replicates=wider(replicates, inflation))


def _noise_of_blocks(fitted: _Fitted, blocks: Blocks) -> Floats:
    """How much each block of trees moves the logarithm of the loss of `NOISE_SIZES`, shape (n_blocks, n_sizes).

    To first order, by the influence of the rows, without what each row has of it on its own, which replicates have too.
    """
    rows, filled = fitted.rows, np.flatnonzero(blocks.apart.n_scored.any(axis=(0, 2)))
    moved, (own, loss) = np.zeros((len(filled), len(NOISE_SIZES))), np.zeros((2, len(NOISE_SIZES)))
    for of_kind, weight, kind in zip(fitted.fits, fitted.weights, fitted.kinds, strict=True):
        loss += weight * of_kind.loss(NOISE_SIZES)
        apart = where(blocks, kind.among[rows.in_blocks]).apart
        if not len(apart.rows):
            continue
        cells = row_cells(measured(apart.scores if rows.of_scores else apart.counts, rows.cut, of_kind.label))
        slopes = weight * of_kind.slopes(cells, int(np.count_nonzero(kind.among)), NOISE_SIZES)
        without = (without_block(apart, int(block), of_scores=rows.of_scores) for block in filled)
        angles = np.stack([row_cells(measured(sample, rows.cut, of_kind.label)).angle for sample in without])
        angles -= angles.mean(axis=0)
        moved += angles @ slopes
        own += (angles**2).sum(axis=0) @ slopes**2
    share = np.minimum(own / np.maximum((moved**2).sum(axis=0), _LEAST), 1.0)
    relative = np.divide(moved, loss, out=np.zeros_like(moved), where=loss > _LEAST)
    # A change of more than the loss itself, for which first order is too little, counts as its logarithm does.
    return np.asarray(np.arcsinh(relative) * np.sqrt(1.0 - share))


# Details


def _details(outputs: TreeOutputs, criterion: Criterion, fitted: _Fitted, n_kept: int) -> LabelDetails:
    """The details of an estimate, if ``n_kept`` trees are kept."""
    rows, _, weights, fits, _ = fitted
    classes, below_alpha, by_class, probabilities = outputs.classes.tolist(), None, {}, None
    shares = np.bincount(rows.leader[rows.used], minlength=len(classes)) / np.count_nonzero(rows.used)
    if criterion.average == "micro":
        losses = _losses_of_rows(fitted, n_kept, max(1, len(rows.used) // _ROWS_OF_SHARE))
        below_alpha = float(np.mean(losses[np.isfinite(losses)] > criterion.level))
    for label in np.unique(rows.leader[rows.used]).tolist():
        kinds, of_kinds = _of_kinds(rows, label)
        curves = [_curve(fit(rows, kind, criterion.method, with_draws=False)) for kind in kinds]
        by_class[classes[label]] = averaged(curves, of_kinds)
    scores = outputs.scores
    if scores is not None and outputs.predictor is not None and scores.are_finite():
        probabilities = outputs.predictor.predictions(scores.mean[scores.n_votes > 0]).mean(axis=0).tolist()
    return LabelDetails(
        voting="soft" if rows.of_scores else "hard",
        predict_voting=None if outputs.predictor is None else outputs.predictor.voting,
        method="plugin" if fits[int(np.argmax(weights))].density is None else "smooth",
        label_shares=dict(zip(classes, shares.tolist(), strict=True)),
        by_class=by_class,
        probabilities=probabilities,
        below_alpha=below_alpha,
    )
