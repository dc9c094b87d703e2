"""Out-of-bag predictions: what the forest predicts of its training rows, each by the trees that did not see it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.api import asked_out_of_bag


def oob_predict_proba(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: float | None = None,
) -> NDArray[np.float64]:
    """Out-of-bag probabilities: of each training row by the trees that did not see it, averaged as the model does.

    Of scikit-learn's forests these are its ``oob_decision_function_``. LightGBM and XGBoost have no such thing; here
    they have, from the finished model and its training rows. It is short for
    ``rfsize.tree_outputs(model, X, y, oob=True, groups=groups).predict_proba(fill)``, which takes weights and seeds
    too.

    Parameters
    ----------
    model
        As in `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y, groups
        As in `tree_outputs`. scikit-learn itself knows nothing of copies: ``groups="rows"`` gives what it does.
    fill : float, optional
        What rows get that no tree may be asked about; NaN by default.

    Returns
    -------
    ndarray of float, shape (n_rows, n_classes)
        In the order of the model's classes.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, or its members are no trees and average probabilities.
    InbagError
        If the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit, or the model is a regression forest.

    Warns
    -----
    NoVotesWarning
        If there are rows that no tree may be asked about, or rows of a class have so few votes that a score of the
        predictions would mislead.

    Notes
    -----
    XGBoost trains the trees of each class on bags of their own: the score of a class is then the mean over those of its
    trees that did not see the row.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import XGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = XGBClassifier(
    ...     n_estimators=1, num_parallel_tree=100, learning_rate=1, subsample=0.5, colsample_bynode=0.3, random_state=0
    ... ).fit(X, y)
    >>> probability = rfsize.oob_predict_proba(forest, X)
    >>> probability.shape
    (569, 2)
    >>> bool(probability[y == 1, 1].mean() > 0.8)
    True
    """
    return asked_out_of_bag(model, X, y, groups).predict_proba(fill)


def oob_predict(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: Any = None,
) -> NDArray[Any]:
    """Out-of-bag predictions: what the model's own ``predict`` gives, by the trees that did not see each training row.

    Of scikit-learn's regression forests these are its ``oob_prediction_``. An estimator predicts labels or numbers, a
    Booster probabilities, as `CompiledForest.predict` says.

    Parameters
    ----------
    model, X, y, groups
        As in `oob_predict_proba`; or a regression forest.
    fill : label or number, optional
        What to give for rows that no tree may be asked about, such as -1 or one of the labels; by default such rows are
        refused where there are labels, and get NaN elsewhere. XGBoost puts two rows of its own choice into every bag,
        so that its forests always have some.

    Returns
    -------
    ndarray, shape (n_rows,) or (n_rows, n_classes)
        Of a classifier labels in the encoding of the model, of the highest averaged probability. Of a Booster that
        tells two classes the probabilities of class 1, of one that tells more those of every class, and labels as
        floats where XGBoost was trained with ``multi:softmax``. Of a regression forest what ``predict`` makes of the
        averaged scores.

    Raises
    ------
    FewVotesError
        If there are rows that no tree may be asked about, and have no label, since ``fill`` is not given.
    NotAForestError, InbagError, ValueError
        As by `oob_predict_proba`.

    Warns
    -----
    NoVotesWarning
        As by `oob_predict_proba`.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    >>> label = rfsize.oob_predict(forest, X)
    >>> bool((label == y).mean() == forest.oob_score_)
    True
    """
    return asked_out_of_bag(model, X, y, groups).predict(fill)
