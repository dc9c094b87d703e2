"""The density of vote fractions over the rows, estimated from few votes of two classes.

A row's vote fraction π is drawn from a density f, and of the V trees that were asked k ~ Binomial(V, π) voted for
class 1. Counted fractions k/V scatter more than π does, which makes rows look closer to a tie than they are, and
ties of the counts never converge; f, fitted to all counts at once, has neither fault. This is g-modelling,

    B. Efron (2016). "Empirical Bayes deconvolution estimates." Biometrika 103(1), 1-20,

with f the exponential of a penalised spline,

    P. Eilers, B. Marx (1996). "Flexible smoothing with B-splines and penalties." Statistical Science 11(2), 89-121.

Agreement is the same for π and 1 − π, so f is taken as symmetric about 1/2: on the arcsine scale θ = (2/π)·asin √π,
where the noise of counts is even, log f(θ) = Σ bᵢ·Bᵢ(θ) with bᵢ = b₁₉₋ᵢ. Neighbouring coefficients are alike a
priori, b ~ N(0, 1/λ) in their differences, so that f tends to be even on that scale, where the rows are few; the
strength λ has a log-normal prior, and is averaged over, each value weighted by its (Laplace) marginal likelihood.

What f cannot follow is a peak narrower than its splines, a twentieth of the range. With one at 1/2, T* comes out far
too small: where two kinds of trees, as many of each, vote against each other, as when each knows one of two features.
So it is asked whether rows at exactly 1/2, beside f, would make the votes more likely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rfsize import theory
from rfsize.estimation.intervals import REPLICATES, SEED, Curves, spread_sizes
from rfsize.estimation.plugin import TwoClassFractions
from rfsize.estimation.shared_trees import noisy_counts
from rfsize.utils.typing import Floats, Int64s
from rfsize.voting.blocks import TreeBlocks
from rfsize.voting.votes import VoteHistogram

_SPLINES = 20
_CURVATURE = 4.0  # weight of second differences of the coefficients against first ones
_STRENGTHS = 10.0 ** np.arange(1.0, -3.1, -0.5)  # λ, the smoothest first, from which the others start
_LEVEL = 1e-3  # precision of the coefficients' common level, which f does not depend on

_STEPS, _TOLERANCE = 50, 1e-6  # of Newton's method, in log-likelihood
_ROUGHLY, _LIKELY = 1e-2, 0.2  # the same where many fits tell a scatter; weights of what is fitted, beside the largest
_PROPOSED = 4  # draws for each of those that are kept
# Rows beyond so many count as many. What cells and noise are taken for is a little wrong, which a row hardly shows, and
# ten million rows together do: a density that is bent everywhere would explain them better than the right one.
_MOST_ROWS = 1e6
_POINTS = 100  # of θ in [0, 1/2] at which the likelihood is summed
_BINS, _ASKED_RATIO = 128, 1.25  # cells of the histogram alike in θ, and in the trees asked, are put together

# Twice a log-likelihood ratio: where no row is tied, one set of votes in 400 has a larger one by chance.
MOST_PEAKED = 8.0

_MOST_LIKELY = 300.0  # log of how much likelier 1/2 may be than the grid's most likely point

_TIED_SHARES = np.geomspace(1e-4, 0.9, 80)  # of the rows that may be at exactly 1/2


class _Weighted(NamedTuple):
    """One fit of those that a density is the mean of: its weight, the rows, the penalty and the coefficients."""

    weight: float
    rows: float
    penalty: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class Density:
    """The fitted density, as the probabilities of cells of the vote fraction.

    Attributes
    ----------
    fractions : ndarray of float, shape (n_cells,)
        Vote fractions of the losing class at the cells' centres, below 1/2; the cells are the finer the nearer to 1/2.
    mass : ndarray of float, shape (n_cells,)
        Probability of each cell, or of its mirror image.
    peak : float
        Twice the gain in log-likelihood by a share of rows at exactly 1/2, beside the density.
    order : int
        Of the density's zero at 1/2.
    fits : tuple
        The fits that the density is the mean of, for `fit_again`.
    drawn : callable or None
        Draws coefficients from their posterior distribution; None of a density that was pickled.
    """

    fractions: Floats
    mass: Floats
    peak: float
    order: int
    fits: tuple[_Weighted, ...]
    drawn: Callable[[], Floats] | None

    @cached_property
    def draws(self) -> Floats:
        """`mass` for draws from the posterior distribution of the density, shape (n_draws, n_cells)."""
        assert self.drawn is not None
        return _model()[0].mass(self.drawn(), self.order)

    def __getstate__(self) -> dict[str, Any]:
        # The draws in place of the rows' likelihood, by which they are made.
        return {**self.__dict__, "draws": self.draws, "drawn": None}

    def fit_again(self, cells: Cells) -> Floats:
        """Probability of each of the density's cells, fitted to other votes of as many rows."""
        likelihood = _Likelihood.of(cells, self.order).of_rows(self.fits[0].rows)
        found = [_maximised(likelihood, one.penalty, one.coefficients, tolerance=_ROUGHLY) for one in self.fits]
        coefficients = np.stack([fitted.coefficients for fitted in found])
        weights = np.array([one.weight for one in self.fits])
        return np.asarray(weights / weights.sum() @ _model()[0].mass(coefficients, self.order))


class SmoothFractions(TwoClassFractions):
    """Vote fractions distributed as the fitted density."""

    name = "smooth"

    def __init__(self, density: Density) -> None:
        super().__init__(density.fractions, density.mass)
        self._density = density
        self.peak = density.peak

    def replicates(self, size: int | float) -> Curves:
        """Disagreement under densities drawn from the posterior."""
        sizes, disagreement = _disagreement()
        return Curves(sizes, self._density.draws @ disagreement)

    def with_noise(self, blocks: TreeBlocks, weights: Floats) -> Callable[[Int64s], Floats]:
        masses = []
        for counts in noisy_counts(blocks, weights):
            cells = VoteCells.binned(counts.min(axis=1), counts.sum(axis=1), np.ones(len(counts)))[0]
            masses.append(self._density.fit_again(cells))
        return partial(self._by_mass, np.stack(masses))

    def _by_mass(self, mass: Floats, sizes: Int64s) -> Floats:
        return np.asarray(mass @ theory.disagreement(sizes, self._fractions[:, None]))


class Cells(Protocol):
    """Rows of a few kinds, and how likely each vote fraction makes what the trees said of them.

    Attributes
    ----------
    rows : ndarray of float, shape (n_cells,)
        Rows of each kind, above 0.
    """

    @property
    def rows(self) -> Floats: ...

    def log_likelihood(self, pi: Floats) -> Floats:
        """Of fractions of at most 1/2, or their mirror images; shape (n_cells, n_fractions), up to a term per cell."""


class VoteCells(NamedTuple):
    """Counted votes, put together where they hardly differ: a few hundred cells whatever the number of rows.

    Attributes
    ----------
    losing, asked : ndarray of float, shape (n_cells,)
        Votes for the losing class, at most half of the trees asked.
    rows : ndarray of float, shape (n_cells,)
        Rows of each cell.
    """

    losing: Floats
    asked: Floats
    rows: Floats

    @classmethod
    def of(cls, cells: VoteHistogram) -> VoteCells:
        """Those of counted votes."""
        return cls.binned(np.minimum(cells.count, cells.asked - cells.count), cells.asked, cells.rows)[0]

    @classmethod
    def binned(cls, losing: NDArray[Any], asked: NDArray[Any], rows: NDArray[Any]) -> tuple[VoteCells, Int64s]:
        """Means over alike cells, which keep the mean log-likelihood, and the one that each of those given is in."""
        place = np.floor(np.arcsin(np.sqrt(losing / asked)) * (4.0 / math.pi) * _BINS)
        size = np.floor(np.log(asked) / math.log(_ASKED_RATIO))
        group = np.unique(size * (_BINS + 1.0) + place, return_inverse=True)[1]
        in_group = np.bincount(group, weights=rows).astype(np.float64)
        mean_losing, mean_asked = (np.bincount(group, weights=rows * of) / in_group for of in (losing, asked))
        return cls(mean_losing, mean_asked, in_group), group

    def log_likelihood(self, pi: Floats) -> Floats:
        """log [π^k·(1 − π)^(V−k) + π^(V−k)·(1 − π)^k] for k of V votes."""
        winning = self.asked - self.losing
        log_pi, log_rest = np.log(pi), np.log1p(-pi)
        return np.logaddexp(
            np.outer(self.losing, log_pi) + np.outer(winning, log_rest),
            np.outer(winning, log_pi) + np.outer(self.losing, log_rest),
        )


def fit_density(cells: Cells, order: int = 0) -> Density:
    """The density of vote fractions from what the trees said of the rows.

    The likelihood of a cell is ∫ f(π)·likelihood(π) dπ, over π < 1/2.

    Parameters
    ----------
    cells : Cells
        Rows of a few kinds, such as `VoteCells`.
    order : int, default 0
        Of the density's zero at 1/2: with 1 it falls to 0 there in proportion to the distance.

    Returns
    -------
    Density

    Raises
    ------
    ValueError
        If there is no cell.
    """
    if not len(cells.rows):
        raise ValueError("no row has a vote: there is nothing to fit a density to")
    basis, penalty = _model()
    likelihood = _Likelihood.of(cells, order).of_rows(min(float(cells.rows.sum()), _MOST_ROWS))
    coefficients = np.zeros(basis.grid.shape[1])
    penalties = [strength * penalty + _LEVEL * np.eye(len(penalty)) for strength in _STRENGTHS]
    fits = []
    for each in penalties:
        fitted = _maximised(likelihood, each, coefficients)
        coefficients = fitted.coefficients
        fits.append(fitted)
    evidence = np.array([fitted.evidence for fitted in fits]) - 0.5 * np.log(_STRENGTHS) ** 2
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    found = np.stack([fitted.coefficients for fitted in fits])
    return Density(
        basis.fractions,
        mass=weights @ basis.mass(found, order),
        peak=_peak(likelihood, weights @ _probabilities(found @ basis.grid.T + likelihood.log_base)),
        order=order,
        fits=tuple(
            _Weighted(float(weight), float(likelihood.rows.sum()), each, fitted.coefficients)
            for weight, each, fitted in zip(weights, penalties, fits, strict=True)
            if weight >= _LIKELY * weights.max()
        ),
        drawn=partial(_draws, likelihood, penalties, fits, weights),
    )


def peak_caveat(peak: float, what: str) -> str | None:
    """Why a density with such a `Density.peak`, fitted to ``what``, is not to be trusted; None where it is."""
    if peak <= MOST_PEAKED:
        return None
    return f"the {what} show more rows at a tie than a smooth density has, so T* may be far larger than the estimate"


def given_fraction(cells: Cells, density: Density, value: Floats) -> Floats:
    """Mean over the rows of a value, at each of the density's fractions.

    Parameters
    ----------
    cells : Cells
        What the density was fitted to.
    density : Density
    value : ndarray of float, shape (n_cells,)
        Mean over the rows of each cell.

    Returns
    -------
    ndarray of float, shape (n_fractions,)
        Rows weigh as much as the fraction is probable given what the trees said of them.
    """
    # The density's fractions run down from 1/2, the grid up to it.
    theta = _theta(density.fractions)
    at_grid = np.interp(_grid(), theta[::-1], (density.mass / _model()[0].widths)[::-1])
    likelihood = _Likelihood.of(cells)
    probability = likelihood.values * at_grid
    probability *= (likelihood.rows / probability.sum(axis=1))[:, None]
    rows = probability.sum(axis=0)
    some = rows > 0.0  # of many votes, no row may have the fractions between
    return np.interp(theta, _grid()[some], (value @ probability)[some] / rows[some])


def _peak(likelihood: _Likelihood, mass: Floats) -> float:
    """Twice the log-likelihood ratio of the best share of rows at 1/2 to none."""
    gain = likelihood.tied / (likelihood.values @ mass) - 1.0
    return float(max(0.0, 2.0 * (np.log1p(_TIED_SHARES[:, None] * gain) @ likelihood.rows).max()))


class _Basis(NamedTuple):
    """The splines where the likelihood is summed, and where agreement is integrated."""

    grid: Floats
    quadrature: Floats
    fractions: Floats
    widths: Floats

    def mass(self, coefficients: Floats, order: int) -> Floats:
        """Probabilities of the quadrature's cells, shape (n, n_cells), for coefficients of shape (n, n_splines)."""
        base = np.log(self.widths) + order * np.log(1.0 - 2.0 * _theta(self.fractions))
        return _probabilities(coefficients @ self.quadrature.T + base)


def _probabilities(logs: Floats) -> Floats:
    """Probabilities in proportion to the exponentials of each row."""
    mass = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


@cache
def _model() -> tuple[_Basis, Floats]:
    """The splines, and the penalty of their coefficients for λ = 1."""
    folded = np.eye(_SPLINES) + np.eye(_SPLINES)[::-1]
    folded = folded[:, : _SPLINES // 2]
    first, second = np.diff(folded, axis=0), np.diff(folded, n=2, axis=0)
    penalty = first.T @ first + _CURVATURE * second.T @ second
    # Large forests disagree only next to 1/2, within 1/√T.
    from_half = np.concatenate([[0.0], np.geomspace(1e-7, 0.02, 120), np.linspace(0.02, 0.5, 193)[1:]])
    theta = 0.5 - (from_half[1:] + from_half[:-1]) / 2.0
    return _Basis(
        grid=_splines(_grid()) @ folded,
        quadrature=_splines(theta) @ folded,
        fractions=_fraction(theta),
        widths=np.diff(from_half),
    ), penalty


@cache
def _disagreement() -> tuple[NDArray[np.int64], Floats]:
    """Ensemble sizes, and the disagreement of each cell of the quadrature with each, which no votes change."""
    sizes = spread_sizes()
    return sizes, theory.disagreement(sizes, _model()[0].fractions[:, None])


def _grid() -> Floats:
    return np.linspace(0.0, 0.5, 2 * _POINTS + 1)[1::2]


def _fraction(theta: Floats) -> Floats:
    return np.asarray(np.sin(math.pi / 2.0 * theta) ** 2, dtype=np.float64)


def _theta(fraction: Floats) -> Floats:
    return np.asarray(2.0 / math.pi * np.arcsin(np.sqrt(fraction)), dtype=np.float64)


def _splines(theta: Floats) -> Floats:
    """Cubic B-splines on even knots over [0, 1], shape (n, _SPLINES)."""
    knots = np.arange(_SPLINES) - 1.0
    away = np.abs(theta[:, None] * (_SPLINES - 3.0) - knots)
    return np.asarray(np.where(away < 1.0, 2.0 / 3.0 - away**2 + away**3 / 2.0, np.maximum(2.0 - away, 0.0) ** 3 / 6.0))


class _Likelihood(NamedTuple):
    """Likelihoods of the vote fractions on the grid, and of 1/2, up to a factor; rows; what the splines multiply."""

    values: Floats
    tied: Floats
    rows: Floats
    log_base: Floats

    @classmethod
    def of(cls, cells: Cells, order: int = 0) -> _Likelihood:
        logs = cells.log_likelihood(np.append(_fraction(_grid()), 0.5))
        # Of a tie of very many votes no point of the grid is as likely as 1/2, and all would be zero beside it.
        logs -= logs[:, :-1].max(axis=1, keepdims=True)
        values = np.exp(np.minimum(logs, _MOST_LIKELY))
        return cls(values[:, :-1], values[:, -1], cells.rows, order * np.log(1.0 - 2.0 * _grid()))

    def of_rows(self, n_rows: float) -> _Likelihood:
        """The same as if of so many rows in all."""
        return self._replace(rows=self.rows * (n_rows / self.rows.sum()))


class _Fit(NamedTuple):
    """The most probable coefficients, their penalised log-likelihood, the log marginal likelihood, and the precision.

    The posterior precision of the coefficients is given along its own axes.
    """

    coefficients: Floats
    value: float
    evidence: float
    precision: Floats
    axes: Floats


def _maximised(likelihood: _Likelihood, penalty: Floats, start: Floats, *, tolerance: float = _TOLERANCE) -> _Fit:
    """Newton's method; where the likelihood is not concave, along the axes of its curvature, all taken as positive."""
    coefficients = start
    value, mass, cell = _penalised(likelihood, penalty, coefficients)
    for _ in range(_STEPS):
        slope, curvature = _derivatives(likelihood, penalty, coefficients, mass, cell)
        precision, axes = np.linalg.eigh(curvature)
        precision = np.maximum(np.abs(precision), _LEVEL)
        step = axes @ (axes.T @ slope / precision)
        gain = -math.inf
        while gain < -_TOLERANCE and np.abs(step).max() > 1e-12:
            moved = _penalised(likelihood, penalty, coefficients + step)
            gain = moved[0] - value
            step, taken = step / 2.0, step
        if not gain > tolerance:
            break
        coefficients, (value, mass, cell) = coefficients + taken, moved
    evidence = value + 0.5 * (np.linalg.slogdet(penalty)[1] - np.log(precision).sum())
    return _Fit(coefficients, value, float(evidence), precision, axes)


def _penalised(likelihood: _Likelihood, penalty: Floats, coefficients: Floats) -> tuple[float, Floats, Floats]:
    """Penalised log-likelihood, probabilities of the grid's points, and of the cells."""
    mass = _probabilities(_model()[0].grid @ coefficients + likelihood.log_base)
    cell = likelihood.values @ mass
    with np.errstate(divide="ignore"):
        value = likelihood.rows @ np.log(cell) - 0.5 * coefficients @ penalty @ coefficients
    return float(value), mass, cell


def _derivatives(
    likelihood: _Likelihood, penalty: Floats, coefficients: Floats, mass: Floats, cell: Floats
) -> tuple[Floats, Floats]:
    """Slope and negative curvature of the penalised log-likelihood: those of known fractions, less what is unknown."""
    basis = _model()[0].grid
    per_cell = likelihood.rows / cell
    expected = mass * (per_cell @ likelihood.values)  # rows at each point of the grid, given the votes
    surplus = expected - likelihood.rows.sum() * mass
    mean = mass @ basis
    means = (likelihood.values @ (mass[:, None] * basis)) / cell[:, None]
    slope = basis.T @ surplus - penalty @ coefficients
    known = -(basis.T * surplus) @ basis - likelihood.rows.sum() * np.outer(mean, mean)
    return slope, known + (means.T * likelihood.rows) @ means + penalty


def _draws(likelihood: _Likelihood, penalties: list[Floats], fits: list[_Fit], weights: Floats) -> Floats:
    """Coefficients drawn from the posterior, shape (REPLICATES, n_splines).

    They are drawn from a normal distribution for each strength, and from these again as they are probable: where hardly
    a row is near some fraction, the density there may be far lower than the most probable one, but not far higher.
    """
    generator = np.random.default_rng(SEED)
    n_proposed = _PROPOSED * REPLICATES
    chosen = generator.choice(len(fits), size=n_proposed, p=weights)
    noise = generator.standard_normal((n_proposed, len(fits[0].coefficients)))
    proposed, gain = np.empty_like(noise), np.empty(n_proposed)
    for index, (fitted, penalty) in enumerate(zip(fits, penalties, strict=True)):
        of_it = chosen == index
        # By the symmetric root of the covariance: eigenvectors turn round where the last bits of the rows differ.
        drawn = fitted.coefficients + (noise[of_it] @ fitted.axes / np.sqrt(fitted.precision)) @ fitted.axes.T
        proposed[of_it] = drawn
        gain[of_it] = -fitted.value - 0.5 * np.einsum("ij,jk,ik->i", drawn, penalty, drawn)
    mass = _probabilities(proposed @ _model()[0].grid.T + likelihood.log_base)
    with np.errstate(divide="ignore"):
        gain += np.log(mass @ likelihood.values.T) @ likelihood.rows + 0.5 * (noise**2).sum(axis=1)
    importance = np.exp(gain - gain.max())
    # Cut off, so that no single one is all there is: E. Ionides (2008), "Truncated importance sampling."
    importance = np.minimum(importance, importance.mean() * math.sqrt(n_proposed))
    return np.asarray(proposed[generator.choice(n_proposed, size=REPLICATES, p=importance / importance.sum())])
