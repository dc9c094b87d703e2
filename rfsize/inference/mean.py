"""CompiledMean: the mean of several compiled forests, for example of the forests of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfsize._util import how_many
from rfsize.inference.compiled import LABELS, CompiledForest, refuse_numbers
from rfsize.inference.file import save_forests


class CompiledMean:
    """Several compiled forests that predict the mean of their predictions.

    `rfsize.compile` makes it from a list of models. The forests may come from different frameworks and have different
    numbers of trees. Each forest predicts by itself, and the predictions are averaged, not the scores of the trees.
    Each row uses all trees.

    Attributes
    ----------
    forests : tuple of CompiledForest
        The forests, in the order of your list.

    See Also
    --------
    compile : Make it from several models.
    CompiledForest : One forest.

    Examples
    --------
    >>> import numpy as np
    >>> import rfsize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> models = [RandomForestClassifier(50, random_state=seed).fit(X[seed::3], y[seed::3]) for seed in range(3)]
    >>> fast = rfsize.compile(models)
    >>> fast
    CompiledMean(3 forests of 150 trees, 3 classes; predict gives labels)
    >>> by_hand = np.mean([model.predict_proba(X) for model in models], axis=0)
    >>> np.allclose(fast.predict_proba(X), by_hand, atol=1e-12)
    True
    >>> fast.save("folds.rfsize")
    >>> rfsize.load("folds.rfsize").predict(X).tolist() == fast.predict(X).tolist()
    True
    """

    def __init__(self, forests: Sequence[CompiledForest]) -> None:
        self.forests = tuple(forests)
        if len(self.forests) < 2:
            raise ValueError(f"a mean takes two forests or more, found {len(self.forests)}: compile the model itself")
        first = _shared(self.forests[0])
        for number, compiled in enumerate(self.forests):
            for what, value in _shared(compiled).items():
                if value != first[what]:
                    raise ValueError(
                        f"forests 0 and {number} cannot be averaged: {what} of the first is {first[what]!s:.60}, and "
                        f"of the other {value!s:.60}; compile each alone"
                    )

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels, shape (n_classes,); empty for regression."""
        return self.forests[0].classes

    @property
    def n_trees(self) -> int:
        """Number of trees of all forests together."""
        return sum(forest.n_trees for forest in self.forests)

    def __repr__(self) -> str:
        kind = f"{len(self.classes)} classes" if self.classes.size else "regression"
        trees = f"{how_many(len(self.forests), 'forest')} of {how_many(self.n_trees, 'tree')}"
        return f"CompiledMean({trees}, {kind}; predict gives {self.forests[0].forest.output})"

    def predict(self, X: Any) -> NDArray[Any]:
        """The mean of the models' own predictions; for classifiers, labels.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows as the frameworks take them.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes)
            For boosters and regressors: ``np.mean([model.predict(X) for model in models], axis=0)``, to the last bit if
            each compiled forest equals its model. For classifiers: labels, as `predict_labels` gives them.

        Raises
        ------
        ValueError
            If ``X`` does not fit one of the forests.
        """
        forest = self.forests[0].forest
        if forest.output in LABELS:
            index = self._labels(X)
            return self.classes[index] if forest.output == "labels" else index.astype(forest.precision)
        return np.asarray(np.mean([compiled.predict(X) for compiled in self.forests], axis=0))

    def predict_labels(self, X: Any) -> NDArray[Any]:
        """Class labels by the mean of the probabilities.

        Parameters
        ----------
        X
            As in `predict`.

        Returns
        -------
        ndarray, shape (n_rows,)
            The class with the largest mean probability, as in scikit-learn's ``VotingClassifier(voting="soft")``. With
            two classes, the second if its mean probability is above the threshold. Ties go to the lowest class index.

        Raises
        ------
        ValueError, NotAForestError
            As in `CompiledForest.predict_labels`.
        """
        refuse_numbers(self.classes, "labels")
        return np.asarray(self.classes[self._labels(X)])

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """The mean of the probabilities that the models predict.

        Parameters
        ----------
        X
            As in `predict`.

        Returns
        -------
        ndarray, shape (n_rows, n_classes)
            Averaged as ``np.mean`` does, in the precision of the frameworks.

        Raises
        ------
        ValueError, NotAForestError
            As in `CompiledForest.predict_proba`.
        """
        refuse_numbers(self.classes, "probabilities")
        return np.asarray(np.mean([forest.predict_proba(X) for forest in self.forests], axis=0))

    def save(self, path: str | Path) -> None:
        """Write all forests to one file that `rfsize.load` reads without the frameworks; see `CompiledForest.save`."""
        save_forests(Path(path), [(forest.forest, forest.table, forest.voting) for forest in self.forests])

    def _labels(self, X: Any) -> NDArray[np.int64]:
        """Index of the class of each row."""
        probability, threshold = self.predict_proba(X), self.forests[0].forest.threshold
        if len(self.classes) > 2 or threshold == 0.5:
            return np.asarray(probability.argmax(axis=1))
        return np.asarray(probability[:, 1] > threshold, dtype=np.int64)


def _shared(compiled: CompiledForest) -> dict[str, Any]:
    """What forests must have in common to have a mean, by its name in messages."""
    return {
        "the class labels": compiled.classes.tolist(),
        "the number of features": compiled.forest.n_features,
        "what predict gives": compiled.forest.output,
        "the threshold": compiled.forest.threshold,
    }
