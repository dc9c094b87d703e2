"""Rules that go by the scores of trees: what they share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.stopping.rules.base import Stops
from rfsize.stopping.terms import Terms


class ScoreStops(Stops):
    """Stops on scores of a tree alone, before the link."""

    voting = "soft"

    def checked(self, outputs: ArrayLike, terms: Terms) -> NDArray[Any]:
        found, n_classes = np.asarray(outputs), terms.n_classes
        if found.ndim == 2:
            found = found[:, :, None]
        n_scores = {1, 2} if n_classes == 2 else {n_classes}
        fits = found.ndim == 3 and found.shape[1] == terms.n_trees and (found.shape[2] in n_scores or n_classes == 1)
        if not fits or found.dtype.kind not in "iuf":
            raise ValueError(
                "this table goes by scores: give those of each tree alone, before the link, numbers of shape (n_rows, "
                f"{terms.n_trees}, {n_classes if n_classes > 2 else 1}); found shape {found.shape}, dtype {found.dtype}"
            )
        return found
