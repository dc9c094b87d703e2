"""RightSizedRegressor: a forest of T* trees as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from rfsize.counting.cross_validation import TrainingData, checked_target
from rfsize.models.rows import n_rows_of
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sklearn.right_sized import RightSizedForest


class RightSizedRegressor(RegressorMixin, RightSizedForest):  # type: ignore[misc]
    """A regression forest of T* trees.

    `fit` trains ``estimator`` with as many trees as it needs, T*: the smallest number of trees whose predictions are
    within ``tolerance`` of those of an unlimited forest, both as root mean square and on 95 % of the rows. With a
    ``metric``, T* is the smallest number of trees whose metric is expected to be within ``tolerance`` of that of an
    unlimited forest.

    Parameters
    ----------
    estimator : estimator
        A regression forest that is not fitted, such as ``LGBMRegressor(boosting_type="rf", subsample=0.632,
        subsample_freq=1)``, ``XGBRegressor(n_estimators=1, learning_rate=1, subsample=0.632, colsample_bynode=0.6)``,
        or scikit-learn's `RandomForestRegressor`, `ExtraTreesRegressor` or `BaggingRegressor` over any learner. Its own
        number of trees (of `XGBRegressor`, ``num_parallel_tree``) is not used.
    tolerance : float, optional
        How far predictions may move, in the unit of y; by default 5 % of the standard deviation of y. With a metric:
        how much worse the metric may become; no default.
    metric : str or scorer, default "scores"
        What must stay the same as in an unlimited forest: the predictions ("scores"), or "rmse", "mae", "r2" or a
        scorer, as in `size`.
    confidence : float, default 0.8
        How sure it must be that the forest has T* trees, as in `grow`.
    max_trees : int, default 5000
        The most trees to train.
    min_trees : int, default 100
        Number of trees before the first estimate.
    cv : int, splitter or iterable of (train, held out) pairs, optional
        As in `RightSizedClassifier`: by default out-of-bag predictions, or five folds if there are none.

    Attributes
    ----------
    estimator_ : estimator
        The forest of T* trees.
    report_ : Report
        The estimate of T*; its ``source`` is "oob" or "cross-validation". With cross-validation, its trees are those of
        the forest of one fold. A pickled estimator comes back without its report.
    oob_refusal_ : str or None
        Why cross-validation was used in place of out-of-bag predictions; None if it was not, or if you gave ``cv``.
    n_trees_ : int
        Number of trees of the forest.
    tolerance_ : float
        The tolerance that was used.
    oob_prediction_ : ndarray of float, shape (n_rows,)
        Out-of-bag predictions of the training rows, as in `oob_predict`; NaN on rows that every tree saw. A forest that
        was sized by cross-validation has none.
    oob_score_ : float
        R² of the out-of-bag predictions, weighted by the training weights. `rfsize.oob_score` has other metrics, and
        intervals.
    feature_importances_ : ndarray of float, shape (n_features,)
        The importances of `estimator_`, if it has any.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if you fitted on a table whose column names are text.

    See Also
    --------
    RightSizedClassifier : Train to size inside scikit-learn's pipelines.
    grow : Train a forest to its size.

    Examples
    --------
    >>> from rfsize import RightSizedRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RightSizedRegressor(RandomForestRegressor(max_features=0.3, random_state=0), tolerance=10).fit(X, y)
    >>> model.n_trees_ == model.report_.n_kept == len(model.estimator_.estimators_)
    True

    Train until the R² is within 0.01 of that of an unlimited forest:

    >>> forest = RandomForestRegressor(max_features=0.3, random_state=0)
    >>> model = RightSizedRegressor(forest, tolerance=0.01, metric="r2").fit(X, y)
    >>> bool(model.report_.loss_at(model.n_trees_).value <= 0.01)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: MetricLike = "scores",
        tolerance: float | None = None,
        confidence: float = 0.8,
        max_trees: int = 5000,
        min_trees: int = 100,
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.tolerance = tolerance
        self.metric = metric
        self.confidence = confidence
        self.max_trees = max_trees
        self.min_trees = min_trees
        self.cv = cv

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | str | None = None
    ) -> RightSizedRegressor:
        """Train a forest of T* trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Training rows. Tables go to the estimator as they are, with the categories it may take.
        y : array_like, shape (n_rows,)
            Numbers.
        sample_weight : array_like, shape (n_rows,), optional
            Training weights. They weigh the rows in training and in metrics. T* by "scores" is a mean over rows without
            weights.
        groups : array_like of shape (n_rows,), "copies" or "rows", optional
            Training rows that belong together, as in `tree_outputs`. Folds of cross-validation keep them together too.
            With metadata routing, request them by ``set_fit_request(groups=True)``.

        Returns
        -------
        self

        Raises
        ------
        NotAForestError
            If the estimator is not a regression forest of independent trees.
        InbagError, FewVotesError
            If a forest can be sized neither out of bag nor by cross-validation.
        ValueError
            If the rows, y or a parameter do not fit.

        Warns
        -----
        NotConvergedWarning
            If ``max_trees`` trees are fewer than T*, or too few to be sure of it. The forest then has ``max_trees``
            trees.
        ForestWarning
            As in `size`.
        """
        self._check_parameters(
            "RandomForestRegressor, LGBMRegressor with boosting_type='rf', or XGBRegressor with n_estimators=1"
        )
        X = self._checked_rows(X, reset=True)
        classes, numbers = checked_target(y, n_rows_of(X), of_labels=False)
        data = TrainingData(X, classes, numbers, self._checked_weights(sample_weight, len(numbers)), groups)
        is_usual = self.tolerance is None and one_name(self.metric) == "scores"
        goal = goal_of("auto" if is_usual else self.metric, self.tolerance, confidence=self.confidence)
        goal = goal.checked(0, numbers)
        self._fit(data, goal)
        self.tolerance_ = goal.level
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict numbers, as `estimator_` does.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Numbers.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If the rows do not fit the forest.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._checked_rows(X, reset=False)))

    @property
    def oob_prediction_(self) -> NDArray[np.float64]:
        """Out-of-bag predictions of the training rows."""
        return self._known_out_of_bag("oob_prediction_").predicted[:, 0]
