"""Problems that several benchmarks share: synthetic ones, and splits of tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from made import circle, ringnorm, threenorm, twonorm, waveform
from scipy.ndimage import gaussian_filter
from sklearn.model_selection import train_test_split

__all__ = ["circle", "ringnorm", "threenorm", "twonorm", "waveform"]

Rows = tuple[np.ndarray, np.ndarray]

TRAINING_ROWS, TEST_ROWS = 300, 5000
FEATURES = 20  # of the rows that benchmarks of prediction draw


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


def rare(n_rows: int, generator: np.random.Generator) -> Rows:
    """Normal clouds in 10 dimensions; class 1 is one row in twenty, of mean 1.2 in the first five."""
    y = (generator.random(n_rows) < 0.05).astype(np.int64)
    X = generator.normal(size=(n_rows, 10))
    X[:, :5] += 1.2 * y[:, None]
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


def split(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[Rows, Rows]:
    """Two thirds for training, one third for testing."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y)
    return (X, y), (X_test, y_test)


def signals(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty normal columns, and a number that depends on four, two of them together, and on noise."""
    X = rng.normal(size=(rows, FEATURES))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + 0.5 * rng.normal(size=rows)


def draw(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of `signals`, and whether its number is above 0."""
    X, signal = signals(rng, rows)
    return X, (signal > 0).astype(int)


def interactions(n_rows: int, generator: np.random.Generator) -> Rows:
    """`draw` with the order of arguments of the other problems."""
    return draw(generator, n_rows)


def synthetic(problem: Callable[[int, np.random.Generator], Rows], seed: int) -> tuple[Rows, Rows]:
    """Training and test rows."""
    generator = np.random.default_rng(seed)
    return problem(TRAINING_ROWS, generator), problem(TEST_ROWS, generator)
