"""Draws the rows that `RightSizedClassifier` holds out to certify its stop table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state

from rfsize.certifying.certificate import fewest_rows
from rfsize.counting.copies import resolved
from rfsize.counting.training_data import TrainingData
from rfsize.voting.groups import Groups

CONFIDENCE = 0.95
"""Confidence of the certificates."""

# `StopTable.calibrate` certifies tables of votes on this share of the rows. The others give the prior.
_CERTIFY_VOTES = 4 / 5


def split(data: TrainingData, fraction: float, random_state: Any) -> tuple[TrainingData, NDArray[np.int64]]:
    """The data to train on, and the numbers of the rows held out: the same share of each class, and whole groups.

    Raises
    ------
    ValueError
        If all rows of a class belong to groups that are held out.
    """
    is_out = _drawn(data.label, resolved(data.groups, data.X, len(data.label)), fraction, random_state)
    train, out = np.flatnonzero(~is_out), np.flatnonzero(is_out)
    lost = np.setdiff1d(data.label, data.label[train])
    if lost.size:
        name = data.classes[lost].tolist()[0]
        raise ValueError(
            f"the groups that are held out to certify the stop table have all rows of the class {name!r}: give fit "
            "rows of other groups as X_calibration, or another random_state"
        )
    groups = data.groups if data.groups is None or isinstance(data.groups, str) else _safe_indexing(data.groups, train)
    return replace(data.part(train), groups=groups), out


def _drawn(label: NDArray[Any], groups: Groups, fraction: float, random_state: Any) -> NDArray[np.bool_]:
    """A mask of the rows to hold out. At least one group of each class stays, by the class of its first row."""
    units = np.arange(label.size) if groups.units is None else groups.units
    _, first, group = np.unique(units, return_index=True, return_inverse=True)
    shuffled = check_random_state(random_state).permutation(first.size)
    by_class = shuffled[np.argsort(label[first[shuffled]], kind="stable")]
    steps = np.floor(np.arange(first.size + 1) * fraction)
    is_out = np.zeros(first.size, dtype=np.bool_)
    is_out[by_class] = np.diff(steps) > 0
    is_out[by_class[np.unique(label[first[by_class]], return_index=True)[1]]] = False
    return is_out[group]


def check_enough(n_rows: int, alpha: float, voting: str, fraction: float | None) -> None:
    """``ValueError`` if there are too few rows for a certificate, before anything is trained.

    ``fraction`` is the share of the rows of `fit` that is held out; None if the rows were given.
    """
    needed = math.ceil(fewest_rows(alpha, CONFIDENCE) / (_CERTIFY_VOTES if voting == "hard" else 1.0))
    if n_rows >= needed:
        return
    found = f"to certify alpha={alpha!r} takes {needed:,} rows that are not trained on, found {n_rows:,}"
    if fraction is None:
        raise ValueError(f"{found} in X_calibration: give more, or ask for a lower alpha")
    raise ValueError(
        f"{found} by calibration_fraction={fraction!r}: fit on at least {math.ceil((needed + 1) / fraction):,} rows, "
        "hold out more, give rows as X_calibration, or ask for a lower alpha"
    )
