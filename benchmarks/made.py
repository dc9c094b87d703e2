"""Synthetic classification problems from papers on ensembles, for the benchmarks and the papers' experiments.

Each function draws ``n_rows`` independent rows and returns ``(X, y)``. ``X`` holds the features, shape (n_rows,
n_features). ``y`` holds the class of each row, 0, 1, …, shape (n_rows,). ``seed`` is a number, or a
`numpy.random.Generator` that continues from call to call. To draw training and test rows, use two seeds or one
generator.

References
----------
.. [1] L. Breiman (1996). "Bias, variance, and arcing classifiers." Technical report 460, University of California,
   Berkeley.
.. [2] L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone (1984). *Classification and Regression Trees*. Wadsworth.
.. [3] F. Leisch, E. Dimitriadou. "mlbench: machine learning benchmark problems." R package.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats, Int64s = NDArray[np.float64], NDArray[np.int64]
Seed = int | np.random.Generator

_NORMS = 20  # features of twonorm, threenorm and ringnorm
_CENTRE = 2.0 / np.sqrt(20.0)  # mean of a normal cloud in each feature, up to the sign

# Lit segments of the digits 0 to 9: top, upper left, upper right, middle, lower left, lower right, bottom.
_DISPLAY = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
_LIT = np.array([[segment == "1" for segment in digit] for digit in _DISPLAY.split()])
_FAULTY = 0.1  # probability that a segment is wrong
_OF_NO_USE = 17  # columns of random noise


def twonorm(n_rows: int, seed: Seed) -> tuple[Floats, Int64s]:
    """Two normal clouds in 20 dimensions, with means of ±2/√20 in each dimension.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 1.
    seed : int or numpy.random.Generator
        Seed or generator of the random draws.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 20)
        Features. Class 0 has the mean +2/√20 in each feature, class 1 has −2/√20. Both have unit covariance.
    y : ndarray of int64, shape (n_rows,)
        Classes, equally likely. The best rule is the sign of the sum of the features, wrong on Φ(−2) = 2.28 % of rows.
    """
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    return generator.normal(size=(n_rows, _NORMS)) + np.where(y == 0, _CENTRE, -_CENTRE)[:, None], y


def threenorm(n_rows: int, seed: Seed) -> tuple[Floats, Int64s]:
    """Three normal clouds in 20 dimensions: two of class 0, and one of class 1 between them.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 20)
        Features. Class 0 has two equally likely clouds, with the means +a and −a in each feature, a = 2/√20. Class 1
        has one cloud, with the mean (a, −a, a, −a, …). All clouds have unit covariance.
    y : ndarray of int64, shape (n_rows,)
        Classes, equally likely. The best rule is wrong on 10.6 % of the rows.
    """
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    side = np.where(generator.random(n_rows) < 0.5, _CENTRE, -_CENTRE)
    means = np.where((y == 0)[:, None], side[:, None], _CENTRE * (-1.0) ** np.arange(_NORMS))
    return generator.normal(size=(n_rows, _NORMS)) + means, y


def ringnorm(n_rows: int, seed: Seed, *, centre: float = 2.0) -> tuple[Floats, Int64s]:
    """A wide normal cloud in 20 dimensions, and a narrow cloud inside it, a little off the centre.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.
    centre : float, default 2.0
        Distance between the centres of the two clouds. The narrow cloud has the mean ``centre``/√20 in each feature.
        Breiman uses 2. R's mlbench uses 1, which is a harder problem.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 20)
        Features. Class 0 has the mean 0 and four times the unit covariance, class 1 the unit covariance.
    y : ndarray of int64, shape (n_rows,)
        Classes, equally likely. The best rule is wrong on 1.2 % of the rows, 1.5 % with ``centre=1``.
    """
    generator = np.random.default_rng(seed)
    mean = centre / np.sqrt(_NORMS)
    y = generator.integers(0, 2, n_rows)
    wide = (y == 0)[:, None]
    return np.where(wide, 0.0, mean) + np.where(wide, 2.0, 1.0) * generator.normal(size=(n_rows, _NORMS)), y


def waveform(n_rows: int, seed: Seed) -> tuple[Floats, Int64s]:
    """Mixtures of two out of three triangular waves, measured at 21 places with unit noise.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 21)
        Features: u times one wave plus 1 − u times another, plus noise. u is uniform, drawn for each row. The waves are
        triangles of height 6 around the places 11, 15 and 7.
    y : ndarray of int64, shape (n_rows,)
        Which two waves are mixed: three classes, equally likely. The best rule is wrong on 13.4 % of the rows.
    """
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, n_rows)
    place = np.arange(1, 22)
    waves = np.array([np.maximum(6 - np.abs(place - centre), 0) for centre in (11, 15, 7)])
    first, second = np.array([(0, 1), (0, 2), (1, 2)])[y].T
    part = generator.random((n_rows, 1))
    return part * waves[first] + (1.0 - part) * waves[second] + generator.normal(size=(n_rows, 21)), y


def circle(n_rows: int, seed: Seed) -> tuple[Floats, Int64s]:
    """Points in a square; class 1 lies inside a circle that covers half of the square.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 2)
        Features, uniform between −1 and 1.
    y : ndarray of int64, shape (n_rows,)
        1 inside the circle of radius √(2/π) around 0. The classes are equally likely and do not overlap.
    """
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.0, 1.0, size=(n_rows, 2))
    return X, ((X**2).sum(axis=1) < 2.0 / math.pi).astype(np.int64)


def spiral(n_rows: int, seed: Seed, *, cycles: float = 1.0, noise: float = 0.0) -> tuple[Floats, Int64s]:
    """Two spirals that wind around each other.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.
    cycles : float, default 1.0
        Number of turns of each spiral.
    noise : float, default 0.0
        Standard deviation of the normal noise that moves each row off its spiral, at right angles to the spiral.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 2)
        Features. Class 0 lies around (2w + 1)/3 · (cos 2πw, sin 2πw), w uniform between 0 and ``cycles``. Class 1 lies
        around the same spiral, rotated by half a turn.
    y : ndarray of int64, shape (n_rows,)
        Classes, equally likely.
    """
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    w = generator.uniform(0.0, cycles, n_rows)
    angle, radius = 2.0 * math.pi * w, (2.0 * w + 1.0) / 3.0
    along = np.stack(
        [
            np.cos(angle) - math.pi * (2.0 * w + 1.0) * np.sin(angle),
            np.sin(angle) + math.pi * (2.0 * w + 1.0) * np.cos(angle),
        ],
        axis=1,
    )
    across = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X += generator.normal(scale=noise, size=(n_rows, 1)) * across
    return np.where(y == 0, 1.0, -1.0)[:, None] * X, y


def led24(n_rows: int, seed: Seed) -> tuple[Floats, Int64s]:
    """Digits on a display of seven segments, each wrong with a probability of 10 %, and 17 columns of noise.

    Parameters
    ----------
    n_rows, seed
        As in `twonorm`.

    Returns
    -------
    X : ndarray of float, shape (n_rows, 24)
        Features, 0 or 1: the seven segments, then 17 columns that do not depend on the digit.
    y : ndarray of int64, shape (n_rows,)
        The digit: ten classes, equally likely. The best rule is wrong on 26 % of the rows.
    """
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 10, n_rows)
    segments = _LIT[y] ^ (generator.random((n_rows, 7)) < _FAULTY)
    return np.hstack([segments, generator.random((n_rows, _OF_NO_USE)) < 0.5]).astype(np.float64), y
