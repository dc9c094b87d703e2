"""Out-of-bag predictions: what the forest predicts of its training rows, each by the trees that did not see it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.registry import adapter_for
from rfsize.counting.counted import Counted
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.memory import MemoryLimit
from rfsize.counting.representative import RowsAsked
from rfsize.errors import FewVotesError, NotAForestError, NoVotesWarning
from rfsize.utils.typing import Floats
from rfsize.utils.warn import warn
from rfsize.voting.averages import Averages


def oob_predict_proba(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
) -> NDArray[np.float64]:
    """Out-of-bag probabilities: of each training row by the trees that did not see it, averaged as the model does.

    Of scikit-learn's forests these are its ``oob_decision_function_``. LightGBM and XGBoost have no such thing; here
    they have, from the finished model and its training rows.

    Parameters
    ----------
    model
        As in `votes`; or what `count` counted with ``oob=True``, for which all else is left out.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y, groups, sample_weight, seed, subsample, missing
        As in `votes`. scikit-learn itself knows nothing of copies: ``groups="rows"`` gives what it does.

    Returns
    -------
    ndarray of float, shape (n_rows, n_classes)
        In the order of the model's classes. NaN on rows that no tree may be asked about.

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
    bags: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    forest, counted = out_of_bag_rows(model, X, y, groups=groups, missing=missing, **bags)
    if not len(forest.adapter.classes):
        raise ValueError("a regression forest predicts no probabilities: take rfsize.oob_predict")
    averages = forest.averages() if counted is None else counted
    y = model.y if isinstance(model, Counted) else y
    _warn_of_scores(RowsAsked.of(forest, averages.asked, y), averages.is_asked)
    return known(forest.predictor.predictions(averages.mean), averages.is_asked)


def oob_predict(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    threshold: float | None = None,
    fill: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
) -> NDArray[Any]:
    """Out-of-bag predictions: what the model's own ``predict`` gives, by the trees that did not see each training row.

    Of scikit-learn's regression forests these are its ``oob_prediction_``. An estimator predicts labels or numbers, a
    Booster probabilities, as `CompiledForest.predict` says.

    Parameters
    ----------
    model
        As in `oob_predict_proba`, or a regression forest as in `size`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    threshold : float, default 0.5
        Probability of class 1 above which it is predicted; labels of two classes only. What `count` counted has its
        own.
    fill : label or number, optional
        What to give for rows that no tree may be asked about, such as -1 or one of the labels; by default such rows are
        refused where there are labels, and get NaN elsewhere. XGBoost puts two rows of its own choice into every bag,
        so that its forests always have some.
    y, groups, sample_weight, seed, subsample, missing
        As in `oob_predict_proba`.

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
        As by `oob_predict_proba`; or if ``threshold`` is given where it decides nothing.

    Warns
    -----
    NoVotesWarning
        If there are rows that no tree may be asked about, and get NaN, or rows of a class have so few votes that a
        score of the predictions would mislead.

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
    bags: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    forest, counted = out_of_bag_rows(model, X, y, threshold=threshold, groups=groups, missing=missing, **bags)
    gives = forest.adapter.predict_gives
    if threshold is not None and gives in ("probabilities", "numbers"):
        raise ValueError(
            f"threshold={threshold!r} decides labels, and the model's own predict gives {gives}, as oob_predict does: "
            "leave it out, or compare rfsize.oob_predict_proba with it"
        )
    averages = forest.averages() if counted is None else counted
    found, asked = _as_predict_gives(forest, averages), averages.is_asked
    rows = RowsAsked.of(forest, averages.asked, model.y if isinstance(model, Counted) else y)
    _warn_of_scores(rows, asked if fill is None and gives != "labels" else None)
    if fill is not None:
        return np.where(asked if found.ndim == 1 else asked[:, None], found, fill)
    if gives != "labels":
        return known(found, asked)
    if not asked.all():
        raise FewVotesError(
            f"{_unasked(asked)}, and have no label: name one by fill=, such as fill=-1, or take "
            "rfsize.oob_predict_proba, which is NaN there"
        )
    return found


def _as_predict_gives(forest: ForestOnRows, averages: Averages) -> NDArray[Any]:
    """What the model's own ``predict`` gives from averaged scores."""
    adapter, predictor = forest.adapter, forest.predictor
    predicted = predictor.predictions(averages.mean)
    if adapter.predict_gives == "labels":
        return np.asarray(adapter.classes[predictor.labels(predicted)])
    if adapter.predict_gives == "class numbers":
        return predictor.labels(predicted).astype(np.float64)
    return predicted if adapter.predict_gives == "probabilities" and averages.mean.shape[1] > 1 else predicted[:, -1]


def out_of_bag_rows(
    model: Any, X: Any, y: Any, *, threshold: float | None = None, **options: Any
) -> tuple[ForestOnRows, Averages | None]:
    """The forest on its training rows, and their averaged scores where they were counted; options as in `oob_predict`.

    Raises
    ------
    NotAForestError, InbagError, ValueError
        As by `oob_predict_proba`; or if what was counted is not out of bag, or options are given beside it.
    """
    if isinstance(model, Counted):
        given = {"X": X, "y": y, "threshold": threshold, **options}
        beside = [name for name, value in given.items() if value is not None]
        if beside:
            raise ValueError(f"what rfsize.count counted is taken as it is: leave out {', '.join(beside)}")
        if model.forest.bags is None:
            raise ValueError(
                "rows were counted with oob=False, which all trees were asked about: give the training rows, as "
                "rfsize.count(model, X, y, oob=True); of other rows the model's own predict tells what it predicts"
            )
        _check_members(model.forest)
        return model.forest, model.told.averages
    if X is None:
        raise ValueError("X is missing: give all training rows, in the order of training")
    adapter = adapter_for(model, casts_votes=False, missing=options.pop("missing", None))
    at, limit = 0.5 if threshold is None else threshold, MemoryLimit.of(options.pop("max_memory", None), "averages")
    forest = ForestOnRows.of(adapter, X, y, oob=True, threshold=at, limit=limit, **options)
    _check_members(forest)
    return forest, None


def _check_members(forest: ForestOnRows) -> None:
    """Raise `NotAForestError` where the model averages what is not read of its members."""
    adapter = forest.adapter
    if not adapter.averages_scores and adapter.predict_obeys == "soft":
        raise NotAForestError(
            "the members of the ensemble are no trees, and only their votes are read, not the probabilities that "
            "predict averages: train it with oob_score=True, and take its own oob_decision_function_"
        )


def known(predicted: Floats, asked: NDArray[np.bool_]) -> Floats:
    """Predictions with NaN on rows that no tree was asked about."""
    return np.where(asked if predicted.ndim == 1 else asked[:, None], predicted, np.nan)


def _warn_of_scores(rows: RowsAsked, asked: NDArray[np.bool_] | None) -> None:
    """Warn where a score of the predictions would mislead, or rows have none because no tree was ``asked``."""
    lack = rows.of_some_rows("how good the forest is on fresh rows")
    if lack is not None:
        warn(lack.message, NoVotesWarning)
    elif asked is not None and not asked.all():
        warn(
            f"{_unasked(asked)}, and have NaN for a prediction: leave them out, or train more trees, or with a smaller "
            "bagging fraction",
            NoVotesWarning,
        )


def _unasked(asked: NDArray[np.bool_]) -> str:
    """What to say of rows without a tree."""
    n_rows = np.count_nonzero(~asked)
    return f"of {n_rows:,} of the training rows no tree may be asked, since each saw them or others of their groups"
