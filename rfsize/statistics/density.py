"""The density of vote fractions over the rows, estimated from few votes of two classes.

A row's vote fraction π is drawn from a density f. Of the V trees that predict it, k ~ Binomial(V, π) vote for class 1.
Counted fractions k/V scatter more than π, so rows look closer to a tie than they are, and tied counts never converge.
The density f, fitted to all counts at once, has neither fault. The method is g-modelling,

    B. Efron (2016). "Empirical Bayes deconvolution estimates." Biometrika 103(1), 1-20,

where f is the exponential of a penalised spline,

    P. Eilers, B. Marx (1996). "Flexible smoothing with B-splines and penalties." Statistical Science 11(2), 89-121.

Agreement is the same for π and 1 − π, so f is symmetric about 1/2. Only the rows of one class lie on one side of 1/2,
where f need not be as on the other. On the arcsine scale θ = (2/π)·asin √π, counts have constant noise; there
log f(θ) = Σ bᵢ·Bᵢ(θ), with bᵢ = b₁₉₋ᵢ if f is symmetric. The prior makes neighbouring coefficients similar: their
differences are N(0, 1/λ). With few rows, f therefore tends to be uniform on that scale. The strength λ has a log-normal
prior; f is averaged over λ, each value weighted by its (Laplace) marginal likelihood.

The density f cannot follow a peak narrower than its splines, a twentieth of the range. With such a peak at 1/2, T*
would be far too small. It occurs if two equally frequent kinds of trees vote against each other, for instance if each
kind knows one of two features. A likelihood ratio therefore tests whether some rows lie at exactly 1/2.

Margins of averaged scores are treated as those of votes, draws of ±1: (1 − 2q)/√(4q(1 − q)) if a fraction q votes for
the rival. Near a tie, the variance of a margin from n trees is 1/n, for any scores. Away from a tie it depends on the
distribution of the scores, which in forests is closer to two points than to a normal law: it grows about like
(1 + (μ/σ)²)² in scikit-learn's forests, and with a power of 1.5 in those of LightGBM and XGBoost. Of long margins only
their length is used, because a wrong noise there would also bend the density at the tie, and more so with more rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, softmax

from rfsize._util import Bools, Floats, Int64s
from rfsize.statistics.curve import REPLICATES, SEED

_SPLINES = 20
_CURVATURE = 4.0  # weight of second differences of the coefficients against first ones
_STRENGTHS = 10.0 ** np.arange(1.0, -3.1, -0.5)  # λ, smoothest first: each fit starts from the one before
_LEVEL = 1e-3  # precision of the coefficients' common level, on which f does not depend

_STEPS, _TOLERANCE = 50, 1e-6  # of Newton's method, in log-likelihood
_LIKELY = 0.2  # least relative weight of a fit whose influence counts
_UNLIKELY = 1e-6  # relative weight below which smaller strengths, which take far more steps, are left out
_PROPOSED = 4  # proposed draws for each draw that is kept
# More rows than this count as this number. Cells and noise are approximations whose error no single row shows, but ten
# million rows together do: a wrong density, bent everywhere, would then explain them better than the right one.
_MOST_ROWS = 1e6
_POINTS = 100  # of θ in [0, 1/2] at which the likelihood is summed
_BINS, _VOTES_RATIO = 128, 1.25  # cells that are similar in θ and in the number of votes are merged

MOST_PEAKED = 8.0
"""Twice a log-likelihood ratio. If no row is tied, one set of votes in 400 exceeds it by chance."""

_MOST_LIKELY = 300.0  # limit of the log-likelihood of 1/2, relative to the most likely point of the grid

_TIED_SHARES = np.geomspace(1e-4, 0.9, 80)  # shares of the rows at exactly 1/2 that are tried

# A margin of at least 1, or of three times its noise, counts only as "at least this long".
_LONG, _LONG_IN_NOISE = 1.0, 3.0
_CELLS_PER_RADIAN = 160


@dataclass(frozen=True, eq=False)
class Density:
    """The fitted density, as the probabilities of cells of the vote fraction.

    Attributes
    ----------
    fractions : ndarray of float, shape (n_cells,)
        Vote fractions of the losing class at the centres of the cells, below 1/2. Cells are finer close to 1/2.
    mass : ndarray of float, shape (n_cells,)
        Probability of each cell together with its mirror image; of one class, among the cells below 1/2.
    draws : ndarray of float, shape (n_draws, n_cells)
        `mass` for draws from the posterior distribution of the density; no draws if only the estimate is wanted.
    peak : float
        Twice the gain in log-likelihood if a share of the rows lies at exactly 1/2.
    fits : tuple
        The fits that the density averages, for `influence`.
    weights : ndarray of float, shape (n_fits,)
        Weight of each fit.
    """

    fractions: Floats
    mass: Floats
    draws: Floats
    peak: float
    fits: tuple[_Fit, ...]
    weights: Floats


class VoteCells(NamedTuple):
    """Counted votes, with similar counts merged: a few hundred cells for any number of rows.

    Attributes
    ----------
    losing, n_votes : ndarray of float, shape (n_cells,)
        Votes for the losing class, at most half of all votes; of one class, votes against it.
    rows : ndarray of float, shape (n_cells,)
        Rows of each cell.
    folded : bool
        Whether either class may be the losing one.
    """

    losing: Floats
    n_votes: Floats
    rows: Floats
    folded: bool = True

    def merged(self) -> tuple[VoteCells, Int64s]:
        """Merge similar counts of single rows into their means, and say which cell each row is in.

        This keeps the mean log-likelihood.
        """
        cell = _cells(np.floor(np.arcsin(np.sqrt(self.losing / self.n_votes)) * (4.0 / math.pi) * _BINS), self.n_votes)
        in_cell = np.bincount(cell).astype(np.float64)
        losing, n_votes = (np.bincount(cell, weights=count) / in_cell for count in (self.losing, self.n_votes))
        return VoteCells(losing, n_votes, in_cell, self.folded), cell

    @property
    def angle(self) -> Floats:
        """How far each count is from a tie, as `MarginCells.angle`."""
        return np.asarray(math.pi / 2.0 - 2.0 * np.arcsin(np.sqrt(self.losing / self.n_votes)))

    def moved(self, by: Floats) -> VoteCells:
        """The same counts at other angles."""
        half = np.clip((math.pi / 2.0 - self.angle - by) / 2.0, 0.0, math.pi / 2.0)
        return self._replace(losing=self.n_votes * np.sin(half) ** 2)

    def log_likelihood(self, pi: Floats) -> Floats:
        """log [π^k·(1 − π)^(V−k) + π^(V−k)·(1 − π)^k] for k of V votes and each π, shape (n_cells, n_fractions)."""
        winning = self.n_votes - self.losing
        log_pi, log_rest = np.log(pi), np.log1p(-pi)
        near = np.outer(self.losing, log_pi) + np.outer(winning, log_rest)
        if not self.folded:
            return near
        return _log_of_sum(near, np.outer(winning, log_pi) + np.outer(self.losing, log_rest))


class MarginCells(NamedTuple):
    """Measured margins, with similar margins merged: a few hundred cells for any number of rows.

    Attributes
    ----------
    angle : ndarray of float, shape (n_cells,)
        Arc tangent of the margin, the scale on which the noise of votes is constant; of one class, negative behind.
    n_trees : ndarray of float, shape (n_cells,)
        Number of trees that the margin was measured on; the noise has a variance of 1/n_trees.
    far : ndarray of bool, shape (n_cells,)
        Whether ``angle`` is only the nearest that the margin may be to 0.
    rows : ndarray of float, shape (n_cells,)
        Number of rows in each cell.
    folded : bool
        Whether the sign of the true margins is not known.
    """

    angle: Floats
    n_trees: Floats
    far: Bools
    rows: Floats
    folded: bool = True

    @classmethod
    def of(cls, margin: Floats, n_trees: NDArray[np.int32], *, folded: bool = True) -> MarginCells:
        """A cell for each row, from margins over one rival each, shape (n_rows,)."""
        longest = np.arctan(np.maximum(_LONG, _LONG_IN_NOISE / np.sqrt(n_trees)))
        # The variance of votes divides by n, not by n − 1.
        angle = np.clip(np.arctan(margin / np.sqrt(1.0 - 1.0 / n_trees)), -longest, longest)
        return cls(angle, n_trees.astype(np.float64), np.abs(angle) >= longest, np.ones(len(angle)), folded)

    def merged(self) -> tuple[MarginCells, Int64s]:
        """Merge similar margins of single rows into their means, and say which cell each row is in."""
        place = np.where(
            self.far, np.sign(self.angle) * 2 * _CELLS_PER_RADIAN, np.floor(self.angle * _CELLS_PER_RADIAN)
        )
        cell = _cells(place, self.n_trees)
        rows, trees = np.bincount(cell).astype(np.float64), np.bincount(cell, weights=self.n_trees)
        angle, far = np.bincount(cell, weights=self.n_trees * self.angle) / trees, np.bincount(cell, self.far) > 0.0
        return MarginCells(angle, trees / rows, far, rows, self.folded), cell

    def moved(self, by: Floats) -> MarginCells:
        """The same margins at other angles."""
        return self._replace(angle=self.angle + by)

    def log_likelihood(self, pi: Floats) -> Floats:
        """The log-likelihood of margins as if from votes, if a fraction π votes for the rival, or for the leader."""
        true, noise = math.pi / 2.0 - 2.0 * np.arcsin(np.sqrt(pi)), np.sqrt(self.n_trees)[:, None]

        def on_side(true: Floats, sign: Floats | float = 1.0) -> Floats:
            away = noise * (true - self.angle[:, None])
            logs = -0.5 * away**2
            # The normal law takes far longer than its density, and few cells of merged margins are far.
            logs[self.far] = log_ndtr((sign * away)[self.far])
            return np.asarray(logs)

        if self.folded:
            return _log_of_sum(on_side(true), on_side(-true))
        return on_side(true, np.sign(self.angle)[:, None])


def _log_of_sum(first: Floats, second: Floats) -> Floats:
    """`numpy.logaddexp` of finite numbers, in a quarter of its time."""
    return np.asarray(np.maximum(first, second) + np.log1p(np.exp(-np.abs(first - second))))


Cells = VoteCells | MarginCells
"""Cells of similar rows, with the likelihood of vote fractions, folded with their mirror images, up to a factor."""


def _cells(place: Floats, n_votes: NDArray[Any]) -> Int64s:
    """The number of the cell of each row, from 0 on: rows of one place and about as many votes are in one cell.

    They are counted by index: sorting the rows would take longer, and more memory.
    """
    size = 1.0 + np.floor(np.log(n_votes) / math.log(_VOTES_RATIO))
    cell = (size * (4 * _CELLS_PER_RADIAN + 1) + place).astype(np.int64)
    return np.asarray((np.cumsum(np.bincount(cell) > 0) - 1)[cell])


def fit_density(cells: Cells, *, with_draws: bool = True) -> Density:
    """Fit the density of vote fractions to the rows, averaged over λ.

    The likelihood of a cell is ∫ f(π)·likelihood(π) dπ, over π < 1/2 if the cells are folded.

    Parameters
    ----------
    cells : VoteCells or MarginCells
    with_draws : bool, default True
        Whether to draw from the posterior distribution too.

    """
    basis, penalty = _model(cells.folded)
    likelihood = _Likelihood.of(cells, min(float(cells.rows.sum()), _MOST_ROWS))
    coefficients, fits, evidence = np.zeros(basis.grid.shape[1]), [], np.zeros(0)
    for strength in _STRENGTHS:
        fits.append(_maximised(likelihood, strength * penalty + _LEVEL * np.eye(len(penalty)), coefficients))
        coefficients = fits[-1].coefficients
        evidence = np.append(evidence, fits[-1].evidence - 0.5 * math.log(strength) ** 2)
        if len(fits) > 1 and 2.0 * evidence[-1] - evidence[-2] < evidence.max() + math.log(_UNLIKELY):
            break  # it falls faster with each strength, so that of the next is less than this
    weights = softmax(evidence)
    of_fits = np.stack([fitted.coefficients for fitted in fits])
    drawn = _draws(likelihood, fits, weights) if with_draws else of_fits[:0]
    likely = np.flatnonzero(weights >= _LIKELY * weights.max())
    return Density(
        basis.fractions,
        mass=weights @ basis.mass(of_fits),
        draws=basis.mass(drawn),
        peak=_peak(likelihood, weights @ _probabilities(of_fits @ basis.grid.T)),
        fits=tuple(fits[place] for place in likely),
        weights=weights[likely],
    )


def influence(density: Density, cells: Cells, values: Floats, n_rows: float) -> Floats:
    """How much one row in each cell adds to means over the density, to first order, shape (n_cells, n).

    The influence function of the fit, which is the row's score through the inverse of the curvature: F. Hampel (1974).
    "The influence curve and its role in robust estimation." Journal of the American Statistical Association 69(346),
    383-393. The weights of the fits are taken as fixed.

    Parameters
    ----------
    density : Density
        The fit to ``n_rows`` rows.
    cells : VoteCells or MarginCells
    values : ndarray of float, shape (n_fractions, n)
        The values at `Density.fractions` whose means are meant.
    n_rows : float
    """
    basis, likelihood = _model(cells.folded)[0], _Likelihood.of(cells, float(cells.rows.sum())).values
    added = np.zeros((len(likelihood), values.shape[1]))
    for fit, weight in zip(density.fits, density.weights / density.weights.sum(), strict=True):
        mass = basis.mass(fit.coefficients[None])[0]
        slope = basis.quadrature.T @ (mass[:, None] * (values - mass @ values))
        of_grid = basis.grid @ (fit.axes @ (fit.axes.T @ slope / fit.precision[:, None]))
        prior = _probabilities(basis.grid @ fit.coefficients)
        posterior = likelihood * prior
        added += weight * (posterior @ of_grid / posterior.sum(axis=1, keepdims=True) - prior @ of_grid)
    return added * min(1.0, _MOST_ROWS / n_rows)


def vote_fractions() -> Floats:
    """The `Density.fractions` of all densities."""
    return _model(True)[0].fractions


def _peak(likelihood: _Likelihood, mass: Floats) -> float:
    """Twice the log-likelihood ratio of the best share of rows at 1/2 against no such rows."""
    gain = likelihood.tied / (likelihood.values @ mass) - 1.0
    return float(max(0.0, 2.0 * (np.log1p(_TIED_SHARES[:, None] * gain) @ likelihood.rows).max()))


class _Basis(NamedTuple):
    """The splines at the points where the likelihood is summed, and where agreement is integrated."""

    grid: Floats
    quadrature: Floats
    fractions: Floats
    widths: Floats

    def mass(self, coefficients: Floats) -> Floats:
        """Probabilities of the cells of the quadrature, shape (n, n_cells); coefficients have shape (n, n_splines)."""
        return _probabilities(coefficients @ self.quadrature.T + np.log(self.widths))


def _probabilities(logs: Floats) -> Floats:
    """Probabilities of each row, proportional to the exponentials of its values."""
    mass = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


@cache
def _model(folded: bool) -> tuple[_Basis, Floats]:
    """The splines, and the penalty of their coefficients for λ = 1."""
    tied = np.eye(_SPLINES)
    if folded:
        tied = (tied + tied[::-1])[:, : _SPLINES // 2]
    first, second = np.diff(tied, axis=0), np.diff(tied, n=2, axis=0)
    penalty = first.T @ first + _CURVATURE * second.T @ second
    # Fine near 1/2: large forests disagree only within about 1/√T of it.
    from_half = np.concatenate([[0.0], np.geomspace(1e-7, 0.02, 120), np.linspace(0.02, 0.5, 193)[1:]])
    theta = 0.5 - (from_half[1:] + from_half[:-1]) / 2.0
    grid, quadrature = _splines(_grid(folded)) @ tied, _splines(theta) @ tied
    return _Basis(grid, quadrature, _fraction(theta), np.diff(from_half)), penalty


def _grid(folded: bool) -> Floats:
    grid = np.linspace(0.0, 0.5, 2 * _POINTS + 1)[1::2]
    return grid if folded else np.append(grid, 1.0 - grid[::-1])


def _fraction(theta: Floats) -> Floats:
    return np.asarray(np.sin(math.pi / 2.0 * theta) ** 2, dtype=np.float64)


def _splines(theta: Floats) -> Floats:
    """Cubic B-splines on even knots over [0, 1], shape (n, _SPLINES)."""
    knots = np.arange(_SPLINES) - 1.0
    away = np.abs(theta[:, None] * (_SPLINES - 3.0) - knots)
    return np.asarray(np.where(away < 1.0, 2.0 / 3.0 - away**2 + away**3 / 2.0, np.maximum(2.0 - away, 0.0) ** 3 / 6.0))


class _Likelihood(NamedTuple):
    """Likelihoods of the vote fractions on the grid and of 1/2, up to a factor; rows; and the splines on the grid."""

    values: Floats
    tied: Floats
    rows: Floats
    grid: Floats

    @classmethod
    def of(cls, cells: Cells, n_rows: float) -> _Likelihood:
        """The likelihood of the cells, as if they held ``n_rows`` rows in all."""
        logs = cells.log_likelihood(np.append(_fraction(_grid(cells.folded)), 0.5))
        # For a tie of very many votes, 1/2 is far more likely than any point of the grid, and all these would be zero.
        logs -= logs[:, :-1].max(axis=1, keepdims=True)
        values = np.exp(np.minimum(logs, _MOST_LIKELY))
        rows = cells.rows * (n_rows / cells.rows.sum())
        return cls(values[:, :-1], values[:, -1], rows, _model(cells.folded)[0].grid)


class _Fit(NamedTuple):
    """The most probable coefficients, their penalised log-likelihood, the log marginal likelihood, and the precision.

    The posterior precision of the coefficients is given along its principal axes. ``penalty`` is that of the fit.
    """

    penalty: Floats
    coefficients: Floats
    value: float
    evidence: float
    precision: Floats
    axes: Floats


def _maximised(likelihood: _Likelihood, penalty: Floats, start: Floats) -> _Fit:
    """Newton's method; if the likelihood is not concave, along the axes of curvature with all curvatures positive."""
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
        if not gain > _TOLERANCE:
            break
        coefficients, (value, mass, cell) = coefficients + taken, moved
    evidence = value + 0.5 * (np.linalg.slogdet(penalty)[1] - np.log(precision).sum())
    return _Fit(penalty, coefficients, value, float(evidence), precision, axes)


def _penalised(likelihood: _Likelihood, penalty: Floats, coefficients: Floats) -> tuple[float, Floats, Floats]:
    """Penalised log-likelihood, probabilities of the points of the grid, and probabilities of the cells."""
    mass = _probabilities(likelihood.grid @ coefficients)
    cell = likelihood.values @ mass
    with np.errstate(divide="ignore"):
        value = likelihood.rows @ np.log(cell) - 0.5 * coefficients @ penalty @ coefficients
    return float(value), mass, cell


def _derivatives(
    likelihood: _Likelihood, penalty: Floats, coefficients: Floats, mass: Floats, cell: Floats
) -> tuple[Floats, Floats]:
    """Slope and negative curvature of the penalised log-likelihood: for known fractions, minus the unknown part."""
    basis = likelihood.grid
    per_cell = likelihood.rows / cell
    expected = mass * (per_cell @ likelihood.values)  # expected rows at each point of the grid, given the votes
    surplus = expected - likelihood.rows.sum() * mass
    mean = mass @ basis
    means = (likelihood.values @ (mass[:, None] * basis)) / cell[:, None]
    slope = basis.T @ surplus - penalty @ coefficients
    known = -(basis.T * surplus) @ basis - likelihood.rows.sum() * np.outer(mean, mean)
    return slope, known + (means.T * likelihood.rows) @ means + penalty


def _draws(likelihood: _Likelihood, fits: list[_Fit], weights: Floats) -> Floats:
    """Coefficients drawn from the posterior, shape (REPLICATES, n_splines).

    For each strength, coefficients are drawn from a normal distribution, then resampled by their probability. This
    matters where hardly a row is near a fraction: the density may be far below the most probable one, but not far
    above.
    """
    generator = np.random.default_rng(SEED)
    n_proposed = _PROPOSED * REPLICATES
    chosen = generator.choice(len(fits), size=n_proposed, p=weights)
    noise = generator.standard_normal((n_proposed, len(fits[0].coefficients)))
    proposed, gain = np.empty_like(noise), np.empty(n_proposed)
    for index, fitted in enumerate(fits):
        of_fit = chosen == index
        # The symmetric root of the covariance does not depend on the signs of eigenvectors, which last bits may flip.
        drawn = fitted.coefficients + (noise[of_fit] @ fitted.axes / np.sqrt(fitted.precision)) @ fitted.axes.T
        proposed[of_fit] = drawn
        gain[of_fit] = -fitted.value - 0.5 * np.einsum("ij,jk,ik->i", drawn, fitted.penalty, drawn)
    mass = _probabilities(proposed @ likelihood.grid.T)
    with np.errstate(divide="ignore"):
        gain += np.log(mass @ likelihood.values.T) @ likelihood.rows + 0.5 * (noise**2).sum(axis=1)
    importance = np.exp(gain - gain.max())
    # Truncated, so that no single draw dominates: E. Ionides (2008), "Truncated importance sampling."
    importance = np.minimum(importance, importance.mean() * math.sqrt(n_proposed))
    return np.asarray(proposed[generator.choice(n_proposed, size=REPLICATES, p=importance / importance.sum())])
