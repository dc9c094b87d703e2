"""RightSizedClassifier: a forest of T* trees as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from rfsize._util import choice, share
from rfsize.counting.cross_validation import TrainingData, checked_target
from rfsize.counting.outputs import VOTINGS
from rfsize.models.framework import training_of
from rfsize.models.rows import n_rows_of
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sklearn.right_sized import RightSizedForest


class RightSizedClassifier(ClassifierMixin, RightSizedForest):  # type: ignore[misc]
    """A random forest of T* trees.

    `fit` trains ``estimator`` with as many trees as it needs, T*(α): the smallest number of trees that gives a share α
    of the rows the label of an unlimited forest, on average over rows and forests.

    Parameters
    ----------
    estimator : estimator
        A forest that is not fitted, such as ``LGBMClassifier(boosting_type="rf", subsample=0.632,
        subsample_freq=1)``, ``XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.632,
        colsample_bynode=0.6)``, or scikit-learn's `RandomForestClassifier`, `ExtraTreesClassifier` or
        `BaggingClassifier`. Its own number of trees (of `XGBClassifier`, ``num_parallel_tree``) is not used.
    alpha : float, default 0.99
        Share of the rows whose labels are equal, strictly between 0 and 1.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels are sized: those of the majority vote ("hard") or of the averaged scores ("soft"). "auto" takes the
        rule that `predict` follows: averaged scores, or the majority vote in bagging over other learners than trees.
    average : {"micro", "macro"}, default "micro"
        Whether agreement is averaged over rows ("micro") or over classes ("macro"), as in `size`. With "macro", a
        certificate bounds each class by itself.
    metric : str or scorer, default "labels"
        What must stay the same as in an unlimited forest, as in `size`.
    tolerance : float, optional
        How much you allow to change, as in `size`; needed for every metric except labels.
    threshold : float, default 0.5
        Probability above which the label is class 1, for each tree, for the averaged scores and for `predict`. Only for
        labels of two classes.
    confidence : float, default 0.8
        How sure it must be that the forest has T* trees, as in `grow`.
    max_trees : int, default 5000
        The most trees to train.
    min_trees : int, default 100
        Number of trees before the first estimate.
    cv : int, splitter or iterable of (train, held out) pairs, optional
        By default T* is estimated from out-of-bag votes: each training row is judged by the trees that did not see it.
        If there are no such votes (no bagging, bags that cannot be proven, too few votes), it is estimated by
        cross-validation with five folds. ``report_.source`` says which, and `oob_refusal_` says why. If you give
        ``cv``, cross-validation is always used: each row is judged by a forest that was trained on the other folds. An
        int means stratified folds, as in `sklearn.model_selection.cross_validate`.

    Attributes
    ----------
    estimator_ : estimator
        The forest of T* trees. A forest of XGBoost predicts indices into `classes_`, since XGBoost knows only the
        labels 0 to K − 1. Give `rfsize.compile` and the other functions the fitted RightSizedClassifier to get your
        labels.
    report_ : Report
        The estimate of T*; its ``source`` is "oob" or "cross-validation". With cross-validation, its trees are those of
        the forest of one fold. A pickled estimator comes back without its report.
    oob_refusal_ : str or None
        Why cross-validation was used in place of out-of-bag votes; None if it was not, or if you gave ``cv``.
    n_trees_ : int
        Number of trees of the forest.
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    oob_decision_function_ : ndarray of float, shape (n_rows, n_classes)
        Out-of-bag probabilities of the training rows, as in `oob_predict_proba`; NaN on rows that every tree saw. A
        forest that was sized by cross-validation has none.
    oob_score_ : float
        Out-of-bag accuracy: the share of the training rows whose class has the highest out-of-bag probability. Missing
        if the rows of some class have hardly any out-of-bag votes. `rfsize.oob_score` has other metrics, and intervals.
    feature_importances_ : ndarray of float, shape (n_features,)
        The importances of `estimator_`, if it has any.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if you fitted on a table whose column names are text.

    See Also
    --------
    RightSizedRegressor : Train regressions to size inside scikit-learn's pipelines.
    grow : Train a forest to its size.

    References
    ----------
    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

    Examples
    --------
    >>> from rfsize import RightSizedClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import XGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = XGBClassifier(
    ...     n_estimators=1, num_parallel_tree=100, learning_rate=1, subsample=0.5, colsample_bynode=0.3, random_state=0
    ... )
    >>> model = RightSizedClassifier(forest, alpha=0.95).fit(X, y)
    >>> model.n_trees_ == model.report_.n_kept == model.estimator_.num_parallel_tree
    True

    To predict faster, compile the model with a stop table that is certified on rows that you held out:

    >>> import rfsize
    >>> model = RightSizedClassifier(forest, alpha=0.95).fit(X[:400], y[:400])
    >>> fast = rfsize.compile(model, rfsize.StopTable.calibrate(model, X[400:], alpha=0.95))
    >>> labels, asked = fast.predict(X[400:], return_trees=True)
    >>> bool(asked.mean() < model.n_trees_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: MetricLike = "labels",
        alpha: float = 0.99,
        tolerance: float | None = None,
        average: str = "micro",
        voting: str = "auto",
        threshold: float = 0.5,
        confidence: float = 0.8,
        max_trees: int = 5000,
        min_trees: int = 100,
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.voting = voting
        self.threshold = threshold
        self.average = average
        self.metric = metric
        self.tolerance = tolerance
        self.confidence = confidence
        self.max_trees = max_trees
        self.min_trees = min_trees
        self.cv = cv

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | str | None = None,
    ) -> RightSizedClassifier:
        """Train a forest of T* trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Training rows. Tables go to the estimator as they are, with the categories it may take.
        y : array_like, shape (n_rows,)
            Class labels of any kind.
        sample_weight : array_like, shape (n_rows,), optional
            Training weights. They weigh the rows in training and in metrics. T*(α) is a mean over rows without weights.
        groups : array_like of shape (n_rows,), "copies" or "rows", optional
            Training rows that belong together, as in `tree_outputs`. Folds of cross-validation keep them together too.
            With metadata routing, request them by ``set_fit_request(groups=True)``.

        Returns
        -------
        self

        Raises
        ------
        NotAForestError
            If the estimator is not a forest of independent trees.
        InbagError, FewVotesError
            If a forest can be sized neither out of bag nor by cross-validation.
        ValueError
            If the rows, the labels or a parameter do not fit.

        Warns
        -----
        NotConvergedWarning
            If ``max_trees`` trees are fewer than T*, or too few to be sure of it. The forest then has ``max_trees``
            trees.
        LabelsOnlyWarning
            If labels take so few trees that the ranking or the probabilities would suffer.
        ForestWarning
            As in `size`.
        """
        goal = self._checked_goal()
        X = self._checked_rows(X, reset=True)
        classes, label = checked_target(y, n_rows_of(X), of_labels=True)
        self._fit(TrainingData(X, classes, label, self._checked_weights(sample_weight, len(label)), groups), goal)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels as `estimator_` does, or by ``threshold``.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If the rows do not fit the forest.
        """
        check_is_fitted(self)
        X = self._checked_rows(X, reset=False)
        if self.threshold != 0.5:
            return self.classes_[(self.estimator_.predict_proba(X)[:, 1] > self.threshold).astype(np.int64)]
        labels = self.estimator_.predict(X)
        return self.classes_[labels] if training_of(self.estimator_).labels_are_indices else labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, as `estimator_` predicts them from all its trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of float, shape (n_rows, n_classes)
            In the order of `classes_`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If the rows do not fit the forest.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._checked_rows(X, reset=False))

    @property
    def oob_decision_function_(self) -> NDArray[np.float64]:
        """Out-of-bag probabilities of the training rows."""
        return self._known_out_of_bag("oob_decision_function_").predicted

    def _checked_goal(self) -> Goal:
        """Check all parameters, and return the goal of the sizing."""
        choice("voting", self.voting, VOTINGS)
        of_labels = {}
        is_of_labels = one_name(self.metric) in ("auto", "labels")
        if is_of_labels:
            of_labels = {"alpha": self.alpha, "voting": self.voting, "average": self.average}
        goal = goal_of(self.metric, self.tolerance, confidence=self.confidence, **of_labels)
        if not is_of_labels:
            self._refuse_unused(
                f"with metric={self.metric!r} tolerance says how far off predictions may be. Leave it out",
                *("alpha", "voting", "average"),
            )
        share("threshold", self.threshold)
        self._check_parameters(
            "RandomForestClassifier, LGBMClassifier with boosting_type='rf', or XGBClassifier with n_estimators=1"
        )
        return goal
