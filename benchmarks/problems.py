"""The problems and the forests that the benchmarks and the papers' experiments share.

Each problem draws ``n_rows`` independent rows from a seed or a `numpy.random.Generator` and returns ``(X, y)``: the
features, shape (n_rows, n_features), and the class of each row, 0, 1, …

References
----------
.. [1] L. Breiman (1996). "Bias, variance, and arcing classifiers." Technical report 460, University of California,
   Berkeley.
.. [2] L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone (1984). *Classification and Regression Trees*. Wadsworth.
.. [3] F. Leisch, E. Dimitriadou. "mlbench: machine learning benchmark problems." R package.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import expit
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

Array = NDArray[Any]
Rows = tuple[Array, Array]
Seed = int | np.random.Generator
Problem = Callable[[int, np.random.Generator], Rows]

_NORMS = 20  # features of twonorm, threenorm and ringnorm
_CENTRE = 2.0 / np.sqrt(20.0)  # mean of a normal cloud in each feature, up to the sign

# Lit segments of the digits 0 to 9: top, upper left, upper right, middle, lower left, lower right, bottom.
_DISPLAY = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
_LIT = np.array([[segment == "1" for segment in digit] for digit in _DISPLAY.split()])
_FAULTY = 0.1  # probability that a segment is wrong
_OF_NO_USE = 17  # columns of random noise


def twonorm(n_rows: int, seed: Seed) -> Rows:
    """Two normal clouds in 20 dimensions, with means of ±2/√20 in each; the best rule errs on 2.28 % of rows [1]_."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    return generator.normal(size=(n_rows, _NORMS)) + np.where(y == 0, _CENTRE, -_CENTRE)[:, None], y


def threenorm(n_rows: int, seed: Seed) -> Rows:
    """Class 0 has two normal clouds of means ±2/√20 in each of 20 dimensions, class 1 one between them [1]_."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    side = np.where(generator.random(n_rows) < 0.5, _CENTRE, -_CENTRE)
    means = np.where((y == 0)[:, None], side[:, None], _CENTRE * (-1.0) ** np.arange(_NORMS))
    return generator.normal(size=(n_rows, _NORMS)) + means, y


def ringnorm(n_rows: int, seed: Seed, *, centre: float = 2.0) -> Rows:
    """A wide normal cloud in 20 dimensions, and a narrow one inside it, ``centre`` away (mlbench: 1) [1]_."""
    generator = np.random.default_rng(seed)
    mean = centre / np.sqrt(_NORMS)
    y = generator.integers(0, 2, n_rows)
    wide = (y == 0)[:, None]
    return np.where(wide, 0.0, mean) + np.where(wide, 2.0, 1.0) * generator.normal(size=(n_rows, _NORMS)), y


def waveform(n_rows: int, seed: Seed) -> Rows:
    """Mixtures of two out of three triangular waves, measured at 21 places with unit noise: three classes [2]_."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, n_rows)
    place = np.arange(1, 22)
    waves = np.array([np.maximum(6 - np.abs(place - centre), 0) for centre in (11, 15, 7)])
    first, second = np.array([(0, 1), (0, 2), (1, 2)])[y].T
    part = generator.random((n_rows, 1))
    return part * waves[first] + (1.0 - part) * waves[second] + generator.normal(size=(n_rows, 21)), y


def circle(n_rows: int, seed: Seed) -> Rows:
    """Points in a square; class 1 lies inside a circle that covers half of it."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.0, 1.0, size=(n_rows, 2))
    return X, ((X**2).sum(axis=1) < 2.0 / math.pi).astype(np.int64)


def spiral(n_rows: int, seed: Seed, *, cycles: float = 1.0, noise: float = 0.0) -> Rows:
    """Two spirals that wind around each other, with normal noise across them [3]_."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, n_rows)
    w = generator.uniform(0.0, cycles, n_rows)
    angle, radius = 2.0 * math.pi * w, (2.0 * w + 1.0) / 3.0
    turn, out = math.pi * (2.0 * w + 1.0), np.stack([np.cos(angle), np.sin(angle)], axis=1)
    along = np.stack([out[:, 0] - turn * out[:, 1], out[:, 1] + turn * out[:, 0]], axis=1)
    across = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
    X = radius[:, None] * out
    X += generator.normal(scale=noise, size=(n_rows, 1)) * across
    return np.where(y == 0, 1.0, -1.0)[:, None] * X, y


def led24(n_rows: int, seed: Seed) -> Rows:
    """Digits on a display of seven segments, each wrong with a chance of 10 %, and 17 columns of noise [2]_."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 10, n_rows)
    segments = _LIT[y] ^ (generator.random((n_rows, 7)) < _FAULTY)
    return np.hstack([segments, generator.random((n_rows, _OF_NO_USE)) < 0.5]).astype(np.float64), y


def first_wave(n_rows: int, generator: np.random.Generator) -> Rows:
    """Waveform, its first class against the other two."""
    X, y = waveform(n_rows, generator)
    return X, (y == 0).astype(np.int64)


def bits(n_rows: int, generator: np.random.Generator) -> Rows:
    """Twelve columns of 0 or 1; class 1 where the first two differ, or the next two are 1; a label in 20 is wrong."""
    X = generator.integers(0, 2, (n_rows, 12))
    y = (X[:, 0] != X[:, 1]) | (X[:, 2] + X[:, 3] == 2)
    return X.astype(np.float64), (y ^ (generator.random(n_rows) < 0.05)).astype(np.int64)


def flipped(n_rows: int, generator: np.random.Generator) -> Rows:
    """Two normal clouds in 10 dimensions, of means ±0.5 in the first four; one label in five is the other one."""
    y = generator.integers(0, 2, n_rows)
    X = generator.normal(size=(n_rows, 10))
    X[:, :4] += np.where(y == 0, 0.5, -0.5)[:, None]
    return X, np.where(generator.random(n_rows) < 0.2, 1 - y, y)


def rare(n_rows: int, generator: np.random.Generator, share: float = 0.05, mean: float = 1.2) -> Rows:
    """Normal clouds in 10 dimensions; class 1 is one row in twenty, of mean 1.2 in the first five."""
    y = (generator.random(n_rows) < share).astype(np.int64)
    X = generator.normal(size=(n_rows, 10))
    X[:, :5] += mean * y[:, None]
    return X, y


def clusters(n_rows: int, generator: np.random.Generator) -> Rows:
    """Sixty round clusters in 10 dimensions, each of one of two classes."""
    fixed = np.random.default_rng(60)
    centre, label = fixed.normal(size=(60, 10)), fixed.integers(0, 2, 60)
    which = generator.integers(0, 60, n_rows)
    return centre[which] + 0.4 * generator.normal(size=(n_rows, 10)), label[which]


def few_of_many(n_rows: int, generator: np.random.Generator) -> Rows:
    """Thirty normal columns; three of them decide by a logistic law."""
    X = generator.normal(size=(n_rows, 30))
    chance = 1.0 / (1.0 + np.exp(-3.0 * (X[:, 0] + X[:, 1] - X[:, 2])))
    return X, (generator.random(n_rows) < chance).astype(np.int64)


def five_clouds(n_rows: int, generator: np.random.Generator) -> Rows:
    """Five overlapping normal clouds in 10 dimensions."""
    y = generator.integers(0, 5, n_rows)
    return np.random.default_rng(5).normal(size=(5, 10))[y] + generator.normal(size=(n_rows, 10)), y


def seven_regions(n_rows: int, generator: np.random.Generator) -> Rows:
    """Uniform in a cube of 10 dimensions that is halved four times; each region has one of seven classes."""
    fixed = np.random.default_rng(7)
    feature, cut, label = fixed.integers(0, 10, 15), fixed.uniform(0.25, 0.75, 15), fixed.permutation(16) % 7
    X = generator.random((n_rows, 10))
    node = np.zeros(n_rows, dtype=np.int64)
    for _ in range(4):
        node = 2 * node + 1 + (X[np.arange(n_rows), feature[node]] > cut[node])
    return X, label[node - 15]


def ten_pictures(n_rows: int, generator: np.random.Generator) -> Rows:
    """Ten blurred pictures of 6 × 6 points, with noise as strong as the pictures."""
    picture = gaussian_filter(np.random.default_rng(10).normal(size=(10, 6, 6)), (0, 1, 1))
    picture = (picture / picture.std()).reshape(10, 36)
    y = generator.integers(0, 10, n_rows)
    return picture[y] + generator.normal(size=(n_rows, 36)), y


def rules(n_rows: int, generator: np.random.Generator) -> Rows:
    """Seven columns of five categories; rules of five of them give three classes, and one label in eight is random."""
    X = generator.integers(0, 5, (n_rows, 7))
    second = np.where((X[:, 2] == X[:, 3]) | (X[:, 4] > 3), 1, 2)
    y = np.where((X[:, 0] < 2) & (X[:, 1] != 3), 0, second)
    return X.astype(np.float64), _relabelled(y, 1 / 8, [1 / 3] * 3, generator)


def four_uneven(n_rows: int, generator: np.random.Generator) -> Rows:
    """Four overlapping normal clouds of 50, 27, 15 and 8 % of the rows; a label in four is drawn anew."""
    shares = [0.5, 0.27, 0.15, 0.08]
    y = generator.choice(4, n_rows, p=shares)
    X = 1.1 * np.random.default_rng(4).normal(size=(4, 8))[y] + generator.normal(size=(n_rows, 8))
    return X, _relabelled(y, 0.25, shares, generator)


def sectors(n_rows: int, generator: np.random.Generator) -> Rows:
    """Six normal columns, of which two give an angle: seven sectors are the classes, and a label in ten is random."""
    X = generator.normal(size=(n_rows, 6))
    y = ((np.arctan2(X[:, 0], X[:, 1]) / (2.0 * np.pi) + 0.5) * 7.0).astype(np.int64) % 7
    return X, _relabelled(y, 0.1, [1 / 7] * 7, generator)


def correlated(n_rows: int, generator: np.random.Generator) -> Rows:
    """Fifteen columns mix three hidden ones with noise; the highest hidden one, with noise, is the class."""
    hidden = generator.normal(size=(n_rows, 3))
    X = hidden @ np.random.default_rng(3).normal(size=(3, 15)) + 0.5 * generator.normal(size=(n_rows, 15))
    return X, (hidden + 0.4 * generator.normal(size=(n_rows, 3))).argmax(axis=1)


def _relabelled(y: Array, share: float, shares: Sequence[float], generator: np.random.Generator) -> Array:
    """Labels, a share of them drawn anew with these shares."""
    return np.where(generator.random(len(y)) < share, generator.choice(len(shares), len(y), p=shares), y)


def two_percent(n_rows: int, generator: np.random.Generator) -> Rows:
    """Normal clouds in 10 dimensions; class 1 is one row in fifty, of mean 1.5 in the first five."""
    return rare(n_rows, generator, 0.02, 1.5)


def interactions(n_rows: int, generator: np.random.Generator) -> Rows:
    """Whether the number of `signals` is above 0."""
    X, signal = signals(n_rows, generator)
    return X, (signal > 0).astype(np.int64)


def signals(n_rows: int, generator: np.random.Generator) -> Rows:
    """Twenty normal columns, and a number that depends on four, two of them together, and on noise."""
    X = generator.normal(size=(n_rows, 20))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + 0.5 * generator.normal(size=n_rows)


def friedman(n_rows: int, generator: np.random.Generator) -> Rows:
    """Friedman's first regression, with unit noise."""
    X, y = make_friedman1(n_rows, noise=1.0, random_state=int(generator.integers(1 << 30)))
    return X, y


def hinges(n_rows: int, generator: np.random.Generator) -> Rows:
    """Eight normal columns, and a number that bends in two, steps in one where another is positive, and has noise."""
    X = generator.normal(size=(n_rows, 8))
    steps = (X[:, 2] > 0.5) * (X[:, 3] > 0.0)
    return X, np.maximum(X[:, 0], 0.0) + np.abs(X[:, 1] - 1.0) + 2.0 * steps + 0.7 * generator.normal(size=n_rows)


def scores(n_rows: int, n_classes: int, seed: int) -> Rows:
    """Twelve normal columns; each class has a score from columns, a product and noise, and the highest score wins."""
    fixed, generator = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    weight, pair = fixed.normal(size=(12, n_classes)), fixed.integers(0, 12, (2, n_classes))
    noise, shift = fixed.uniform(0.2, 1.5), 0.7 * fixed.normal(size=n_classes)
    X = generator.normal(size=(n_rows, 12))
    score = X @ weight / 2.0 + X[:, pair[0]] * X[:, pair[1]] + shift
    y = (score + noise * generator.normal(size=score.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)  # the first rows, which train, have all classes
    return X, y


# Problems whose parameters are drawn with their rows, so that each call is another problem


def xor(n_rows: int, generator: np.random.Generator) -> Rows:
    """The sign of the product of two of up to eight normal columns; 5 to 25 % of the labels are wrong."""
    X = generator.normal(size=(n_rows, int(generator.integers(4, 9))))
    return X, ((X[:, 0] * X[:, 1] > 0) ^ (generator.random(n_rows) < generator.uniform(0.05, 0.25))).astype(np.int64)


def heavy_tails(n_rows: int, generator: np.random.Generator) -> Rows:
    """A logistic law of some of ten columns, which have Student's t distribution of 2 or 3 degrees of freedom."""
    weight = generator.normal(size=10) * (generator.random(10) < 0.5)
    X = generator.standard_t(int(generator.integers(2, 4)), size=(n_rows, 10))
    return X, logistic(X @ weight, generator)


def pairs_of_codes(n_rows: int, generator: np.random.Generator) -> Rows:
    """Four columns of 4 to 20 codes and two numbers; a chance for each pair of codes, turned by one of the numbers."""
    levels = generator.integers(4, 21, 4)
    chance = generator.beta(0.6, 0.6 * generator.uniform(1, 4), levels[:2])
    X = np.column_stack([generator.integers(0, levels, (n_rows, 4)), generator.normal(size=(n_rows, 2))])
    of_codes = chance[X[:, 0].astype(int), X[:, 1].astype(int)]
    return X, (generator.random(n_rows) < np.where(X[:, 4] > 1, 1 - of_codes, of_codes)).astype(np.int64)


def one_to_five_percent(n_rows: int, generator: np.random.Generator) -> Rows:
    """Class 1 are the 1 to 5 % of rows with the largest signals: of six of eight normal columns, and noise."""
    share, X = generator.uniform(0.01, 0.05), generator.normal(size=(n_rows, 8))
    noise = generator.uniform(0.3, 1.0) * generator.logistic(size=n_rows)
    signal = X[:, :4] @ generator.normal(size=4) + X[:, 4] * X[:, 5] + noise
    return X, (signal > np.quantile(signal, 1 - share)).astype(np.int64)


def neighbours(n_rows: int, generator: np.random.Generator) -> Rows:
    """A logistic law of three of fifteen normal columns, each of which is correlated with the one before."""
    by, which = generator.uniform(0.7, 0.95), generator.choice(15, 3, replace=False)
    X = generator.normal(size=(n_rows, 15))
    for column in range(1, 15):
        X[:, column] = by * X[:, column - 1] + np.sqrt(1 - by**2) * X[:, column]
    first, second, third = X[:, which].T
    return X, logistic(generator.uniform(0.7, 3.0) * (first - second + 0.7 * third * X[:, 0]), generator)


def uneven_clouds(n_rows: int, generator: np.random.Generator) -> Rows:
    """Four clouds in ten columns, of 60, 25, 10 and 5 % of the rows, with heavy noise."""
    centre, freedom = generator.normal(size=(4, 10)) * generator.uniform(0.3, 0.9), int(generator.integers(3, 8))
    y = generator.choice(4, n_rows, p=[0.6, 0.25, 0.1, 0.05])
    y[:4] = np.arange(4)
    return centre[y] + generator.standard_t(freedom, size=(n_rows, 10)), y


def steps(n_rows: int, generator: np.random.Generator) -> Rows:
    """A number of steps in four of eight normal columns and a product, with noise of long tails."""
    cut, noise, X = generator.normal(size=4), generator.uniform(0.2, 2.0), generator.normal(size=(n_rows, 8))
    return X, (X[:, :4] > cut).sum(axis=1) + X[:, 4] * X[:, 5] + noise * generator.standard_t(3, size=n_rows)


def amounts(n_rows: int, generator: np.random.Generator) -> Rows:
    """A skewed positive number of six correlated columns, whose noise grows with it."""
    X = generator.normal(size=(n_rows, 6)) + generator.normal(size=(n_rows, 1))
    noise = generator.uniform(0.2, 0.9) * generator.normal(size=n_rows)
    return X, np.exp(X @ generator.normal(size=6) / 3 + noise)


def islands(n_rows: int, generator: np.random.Generator) -> Rows:
    """Class 1 is 1 to 5 % of uniform rows; most of it lies on one to five islands."""
    y, X = (generator.random(n_rows) < generator.uniform(0.01, 0.05)).astype(np.int64), generator.random((n_rows, 6))
    centre = generator.random((int(generator.integers(1, 6)), 6))
    mask = (y == 1) & (generator.random(n_rows) > generator.uniform(0.0, 0.3))
    where = centre[generator.integers(0, len(centre), n_rows)] + generator.normal(size=(n_rows, 6)) * 0.08
    return np.where(mask[:, None], where, X), y


def slices(n_rows: int, generator: np.random.Generator) -> Rows:
    """A disc cut into three to nine sectors of two classes in turn, with noise in the angle; four useless columns."""
    X = generator.normal(size=(n_rows, 6))
    noise = generator.uniform(0.05, 0.4) * generator.normal(size=n_rows)
    turn = (np.arctan2(X[:, 0], X[:, 1]) + noise) / (2 * np.pi) % 1
    return X, (turn * int(generator.integers(3, 10))).astype(np.int64) % 2


def board(n_rows: int, generator: np.random.Generator) -> Rows:
    """A chessboard of two to four fields a side in two of five uniform columns; 5 to 30 % of the labels are wrong."""
    X, n_fields = generator.uniform(size=(n_rows, 5)), int(generator.integers(2, 5))
    field = np.floor(X[:, :2] * n_fields).sum(axis=1).astype(np.int64)
    return X, (field % 2) ^ (generator.random(n_rows) < generator.uniform(0.05, 0.3))


def three_by_order(n_rows: int, generator: np.random.Generator) -> Rows:
    """The lower half, the next 30 % and the upper 20 % of a number with noise, of four of seven normal columns."""
    X, noise = generator.normal(size=(n_rows, 7)), generator.uniform(0.3, 1.5) * generator.normal(size=n_rows)
    signal = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + noise
    return X, np.searchsorted(np.quantile(signal, [0.5, 0.8]), signal)


def counts(n_rows: int, generator: np.random.Generator) -> Rows:
    """A logistic law of six columns of counts, each row and column with a rate of its own."""
    X = generator.poisson(generator.gamma(2.0, 1.0, (n_rows, 6))).astype(np.float64)
    apart = (X[:, 0] - X[:, 1]) * generator.uniform(0.3, 1.0)
    return X, logistic(apart + 0.5 * (X[:, 2] > 3) * X[:, 3] - 0.5, generator)


def tree_of_chances(n_rows: int, generator: np.random.Generator) -> Rows:
    """A tree of sixteen leaves on ten normal columns, each with a chance of its own, often near 0 or 1."""
    X, leaf = generator.normal(size=(n_rows, 10)), np.zeros(n_rows, dtype=np.int64)
    for depth in range(4):
        column, cut = generator.integers(0, 10, 2**depth), 0.5 * generator.normal(size=2**depth)
        leaf = 2 * leaf + (X[np.arange(n_rows), column[leaf]] > cut[leaf])
    return X, (generator.random(n_rows) < generator.beta(0.5, 0.5, 16)[leaf]).astype(np.int64)


def turned_moons(n_rows: int, generator: np.random.Generator) -> Rows:
    """Two half circles that reach into each other, with noise, seen in six columns."""
    y = (generator.random(n_rows) < generator.uniform(0.2, 0.5)).astype(np.int64)
    angle, side = np.pi * generator.random(n_rows), np.where(y, -1.0, 1.0)
    flat = np.column_stack([y + side * np.cos(angle), 0.5 * y + side * np.sin(angle)])
    flat += generator.uniform(0.15, 0.5) * generator.normal(size=(n_rows, 2))
    return flat @ generator.normal(size=(2, 6)) + 0.1 * generator.normal(size=(n_rows, 6)), y


def smooth_law(n_rows: int, generator: np.random.Generator) -> Rows:
    """A logistic law of waves in four of eight uniform columns, two of them together."""
    X, (shift, slope) = generator.random((n_rows, 8)), generator.normal(size=2)
    waves = 3.0 * np.sin(4.0 * X[:, 0] + shift) + 2.0 * np.cos(5.0 * X[:, 1] * X[:, 2])
    return X, logistic(waves + slope * X[:, 3] - 1.0, generator)


def skewed_clouds(n_rows: int, generator: np.random.Generator) -> Rows:
    """Five clouds in six columns with exponential noise, of 30, 30, 20, 10 and 10 % of the rows."""
    centre = generator.normal(size=(5, 6)) * generator.uniform(0.5, 1.2)
    y = generator.choice(5, n_rows, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    return centre[y] + generator.exponential(size=(n_rows, 6)), y


def logistic(score: Array, generator: np.random.Generator) -> Array:
    """Classes drawn by a logistic law."""
    return (generator.random(len(score)) < expit(score)).astype(np.int64)


def corner(number: int, rng: np.random.Generator, fresh: int, most: int = 5000) -> tuple[str, Rows, Rows]:
    """The name of a problem, 150 to ``most`` training rows, and fresh rows; a class has at least eight rows."""
    problem, n_rows = CORNERS[number % len(CORNERS)], int(np.exp(rng.uniform(*np.log([150, most]))))
    X, y = problem(n_rows + fresh, rng)
    while y.dtype.kind == "i" and np.bincount(y[:n_rows]).min() < 8:
        n_rows = int(1.5 * n_rows)
        X, y = problem(n_rows + fresh, rng)
    return problem.__name__, (X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:])


CORNERS: tuple[Problem, ...] = (
    *(xor, heavy_tails, pairs_of_codes, one_to_five_percent, neighbours, uneven_clouds, steps, amounts, islands),
    slices,
)

# By which no method was chosen.
UNSEEN: tuple[Problem, ...] = (
    *(board, three_by_order, counts, tree_of_chances, turned_moons, smooth_law, skewed_clouds),
)

TWO_CLASSES = (
    *(twonorm, ringnorm, threenorm, circle, first_wave, interactions, bits, flipped, rare, two_percent, clusters),
    few_of_many,
)
MANY_CLASSES = (waveform, five_clouds, seven_regions, ten_pictures, rules, four_uneven, sectors, correlated)
PROBLEMS: dict[str, Problem] = {problem.__name__: problem for problem in (*TWO_CLASSES, *MANY_CLASSES)}


def table(path: Path) -> Rows:
    """A CSV file with the features first and the class in its last column, named target; classes as indices."""
    frame = pd.read_csv(path)
    X = frame.drop(columns="target").fillna(-1.0).to_numpy(dtype=np.float32)
    return X, frame["target"].astype("category").cat.codes.to_numpy(dtype=np.int64)


def tables(options: argparse.Namespace) -> dict[str, Rows]:
    """The tables that are given, by the names of their files."""
    return {path.name.partition(".")[0]: table(path) for path in options.tables}


def split(X: Array, y: Array, seed: int, held_out: float = 1 / 3) -> tuple[Rows, Rows]:
    """Rows to train on, and others."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=held_out, random_state=seed, stratify=y)
    return (X, y), (X_test, y_test)


def thirds(X: Array, y: Array, seed: int) -> list[Rows]:
    """Three equal parts of the rows, drawn at random."""
    third = np.random.default_rng(seed).permutation(len(y)) % 3
    return [(X[third == part], y[third == part]) for part in range(3)]


def forests_on_tables(options: argparse.Namespace, n_trees: int) -> list[tuple[str, str, Any, list[Rows]]]:
    """A name, the framework, an untrained forest, and thirds of the rows, for each table and framework."""
    return [
        (f"{name}, {framework}", framework, forest(framework, n_trees, 0, leaves=63), thirds(*rows, 0))
        for name, rows in tables(options).items()
        for framework in options.frameworks
    ]


BAGGED = {
    "5-NN, bagged": KNeighborsClassifier(),
    "logistic regression, bagged": make_pipeline(StandardScaler(), LogisticRegression()),
    "stumps, bagged": DecisionTreeClassifier(max_depth=1),
}
FRAMEWORKS = ("LightGBM", "XGBoost", "random forest")
BOOSTED = ("LightGBM, boosted", "XGBoost, boosted")
ALL_FRAMEWORKS = (*FRAMEWORKS, "XGBoost, vector leaves", "extra-trees", *BAGGED)


def forest(
    framework: str,
    n_trees: int,
    seed: int,
    *,
    leaves: int | None = None,
    columns: float = 0.5,
    regression: bool = False,
    n_jobs: int = 1,
) -> Any:
    """An untrained forest, or boosted classifier; LightGBM samples ``columns`` by tree, with ``leaves`` by node."""
    if framework in BAGGED:
        return BaggingClassifier(BAGGED[framework], n_trees, random_state=seed)
    common: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    if framework in BOOSTED:
        return boosted(framework.partition(",")[0], n_trees, leaves=leaves or 31, rate=0.1, **common)
    if framework == "LightGBM":
        kind: Any = LGBMRegressor if regression else LGBMClassifier
        of = {"colsample_bytree": columns, "min_child_samples": 5}
        of = of if leaves is None else {"num_leaves": leaves, "feature_fraction_bynode": 0.5}
        bags = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1}
        return kind(n_estimators=n_trees, verbose=-1, **bags, **of, **common)
    if framework.startswith("XGBoost"):
        kind = XGBRegressor if regression else XGBClassifier
        of = {"max_depth": 10, "colsample_bynode": 0.2, "reg_lambda": 1e-5}
        if leaves is not None:
            of = {"max_depth": 0, "max_leaves": leaves, "grow_policy": "lossguide", "colsample_bynode": 0.5}
        strategy = "multi_output_tree" if framework == "XGBoost, vector leaves" else None
        bags = {"num_parallel_tree": n_trees, "learning_rate": 1.0, "subsample": 0.632}
        return kind(n_estimators=1, multi_strategy=strategy, **bags, **of, **common)
    if framework == "extra-trees":
        kind = ExtraTreesRegressor if regression else ExtraTreesClassifier
        return kind(n_trees, bootstrap=True, max_leaf_nodes=leaves, **common)
    kind = RandomForestRegressor if regression else RandomForestClassifier
    return kind(n_trees, max_leaf_nodes=leaves, **common)


def boosted(
    framework: str, n_trees: int, *, leaves: int, rate: float = 0.05, regression: bool = False, **common: Any
) -> Any:
    """An untrained boosted model of LightGBM or XGBoost; ``common`` are the seed and the threads."""
    common |= {"n_estimators": n_trees, "learning_rate": rate}
    if framework == "LightGBM":
        return (LGBMRegressor if regression else LGBMClassifier)(num_leaves=leaves, verbose=-1, **common)
    kind: Any = XGBRegressor if regression else XGBClassifier
    return kind(max_depth=0, max_leaves=leaves, grow_policy="lossguide", **common)


def parser(
    doc: str | None, *, tables: bool = False, frameworks: Sequence[str] = FRAMEWORKS, **defaults: Any
) -> argparse.ArgumentParser:
    """A parser that prints ``doc`` and takes frameworks, paths of tables, and options with these ``defaults``.

    An option takes values like its default: a number or a word, several if the default is a list; False makes a flag.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if frameworks:
        made.add_argument("--frameworks", nargs="+", choices=(*ALL_FRAMEWORKS, *BOOSTED), default=list(frameworks))
    if tables:
        made.add_argument("tables", nargs="*", type=Path)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is False:
            made.add_argument(option, action="store_true")
        else:
            several, kind = ("+", type(default[0])) if isinstance(default, list) else (None, type(default))
            made.add_argument(option, nargs=several, type=kind, default=default)
    return made


def print_head(*cells: str) -> None:
    """The first two lines of a Markdown table."""
    print_line(*cells)
    print_line(*["---"] * len(cells))


def print_line(*cells: object) -> None:
    """A line of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def mean_and_error(values: Iterable[float], form: str = ".2%") -> str:
    """The mean, ± its standard error."""
    given = np.fromiter(values, dtype=float)
    error = given.std(ddof=1) / math.sqrt(len(given)) if len(given) > 1 else math.nan
    return f"{given.mean():{form}} ± {error:{form}}"


def in_turn(measure: Callable[..., Any], cases: Iterable[int], options: argparse.Namespace) -> list[Any]:
    """What ``measure`` returns of each case and the options, without warnings, in ``options.jobs`` processes."""
    return Parallel(options.jobs)(delayed(_quietly)(measure, number, options) for number in cases)


def _quietly(measure: Callable[..., Any], *given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measure(*given)


def share_of_cases(marks: Sequence[tuple[int | str, bool]]) -> str:
    """The share of marks that are true, with a 95 % interval by the bootstrap over cases; a mark has its case first."""
    _, case = np.unique([number for number, _ in marks], return_inverse=True)
    true, n = np.bincount(case, weights=[mark for _, mark in marks]), np.bincount(case)
    drawn = np.random.default_rng(0).integers(0, len(n), (4000, len(n)))
    low, high = np.quantile(true[drawn].sum(axis=1) / n[drawn].sum(axis=1), [0.025, 0.975])
    return f"{true.sum():.0f} of {n.sum()} = {true.sum() / n.sum():.1%}, {low:.1%} to {high:.1%}"


def losses_by_metric(y: Array, predicted: Array) -> dict[str, float]:
    """The losses of probabilities, or of numbers, shape (n_rows, n_outputs); 1 minus a metric where more is better."""
    if predicted.shape[1] == 1:
        away = predicted[:, 0] - y
        return {"rmse": float(np.sqrt(np.mean(away**2))), "mae": float(np.mean(np.abs(away)))}
    rows, two, least = np.arange(len(y)), predicted.shape[1] == 2, np.finfo(np.float64).eps
    of_truth, squares = predicted[rows, y], (predicted**2).sum(axis=1)
    given = np.clip(of_truth / predicted.sum(axis=1), least, 1 - least)
    losses = {
        "log_loss": float(-np.log(given).mean()),
        "brier": float(np.mean(squares - 2 * of_truth + 1)) / (2 if two else 1),
        "accuracy": float(np.mean(predicted.argmax(axis=1) != y)),
    }
    if two:
        score = predicted[:, 1].astype(np.float32)
        losses |= {"auc": 1 - roc_auc_score(y, score), "average_precision": 1 - average_precision_score(y, score)}
    return losses
