"""RightSizedClassifier and RightSizedRegressor: forests of T* trees as scikit-learn estimators."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from rfsize._util import give, sample_weights, share
from rfsize.api.report import Report, completed, make_report, with_warnings
from rfsize.counting.cross_validation import held_out_folds, outputs_of_estimator
from rfsize.counting.groups import resolve_groups
from rfsize.exceptions import FewVotesError, InbagError, NotAForestError
from rfsize.models.estimators import (
    TrainingData,
    allows_nan,
    checked_target,
    input_tags,
    is_regression,
    of_size,
    tree_counts,
)
from rfsize.models.framework import read_forest, training_of
from rfsize.models.model import Forest, Wrapper, dependence_of, learning_rate_of, wrapped_by
from rfsize.models.rows import for_training, n_rows_of, open_rows
from rfsize.statistics.criterion import Criterion, make_criterion
from rfsize.statistics.named_metrics import MetricLike
from rfsize.training.grow import checked_criterion, grow_until_enough, most_trees, start_from_estimator
from rfsize.training.stopping_rule import StoppingRule

# Folds of the cross-validation if there are no out-of-bag votes.
_N_FOLDS = 5


# Parameters that say what must stay the same.
_GOALS = ("metric", "alpha", "tolerance", "average", "voting", "confidence")


class _RightSized(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Trains the forest that ``estimator`` describes until it is large enough."""

    # The weights go to the estimator, so the estimator requests them.
    __metadata_request__fit = {"sample_weight": UNUSED}  # noqa: RUF012

    # Parameters of the estimators that inherit from this one
    estimator: Any
    max_trees: int | None
    min_trees: int
    cv: Any
    threshold = 0.5

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | str | None = None
    ) -> Self:
        """Train a forest of T* trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Training rows. Tables go to the estimator as they are, with the categories it may take.
        y : array_like, shape (n_rows,)
            Class labels of any kind, or numbers for a regression.
        sample_weight : array_like, shape (n_rows,), optional
            Training weights. They weigh the rows in training and in metrics. T* by labels or "scores" is a mean over
            rows without weights.
        groups : array_like of shape (n_rows,), "copies" or "rows", optional
            Training rows that belong together, as in `tree_outputs`. Folds of cross-validation keep them together too.
            With metadata routing, request them by ``set_fit_request(groups=True)``.

        Returns
        -------
        self

        Raises
        ------
        NotAForestError
            If the estimator is not a forest of independent trees, or not one for labels or for numbers.
        InbagError, FewVotesError
            If a forest can be sized neither out of bag nor by cross-validation.
        ValueError
            If the rows, y or a parameter do not fit.

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
        share("threshold", self.threshold)
        goals = {name: value for name, value in self.get_params(deep=False).items() if name in _GOALS}
        criterion, of_labels = make_criterion(**goals), isinstance(self, ClassifierMixin)
        self._check_estimator()
        most = most_trees(self.estimator) if self.max_trees is None else self.max_trees
        rule = StoppingRule(self.min_trees, most)
        X = self._checked_rows(X, reset=True)
        classes, label = checked_target(y, n_rows_of(X), of_labels=of_labels)
        data = TrainingData(X, classes, label, self._checked_weights(sample_weight, len(label)), groups)
        criterion = checked_criterion(criterion, classes, data.truth, data.weight)
        self.oob_refusal_ = None
        if self.cv is None:
            given: dict[str, Any] = {"sample_weight": data.weight, "groups": groups, "threshold": self.threshold}
            given |= {"criterion": criterion, "min_trees": rule.next_size}
            try:
                growth = start_from_estimator(clone(self.estimator), X, data.target(self.estimator), **given)
                forest, report = grow_until_enough(growth, rule)
            except (InbagError, FewVotesError) as error:
                self.oob_refusal_ = str(error)
        if self.cv is not None or self.oob_refusal_ is not None:
            report = self._cross_validated(data, criterion, StoppingRule(self.min_trees, most))
            forest = data.fitted(of_size(self.estimator, report.n_kept))
            read = read_forest(forest)
            report = with_warnings(report, *dependence_of(read), *learning_rate_of(read))
            give(report.warnings)
        self.estimator_, self.report_, self.n_trees_ = forest, report, report.n_kept
        if of_labels:
            self.classes_ = classes
        return self

    def _cross_validated(self, data: TrainingData, criterion: Criterion, rule: StoppingRule) -> Report:
        """The report on forests of all folds, trained with more and more trees until these are enough."""
        groups = resolve_groups(data.groups, data.X, len(data.label))
        cv = _N_FOLDS if self.cv is None else self.cv
        folds = held_out_folds(cv, data.label, groups, stratified=len(data.classes) > 0)
        report = None
        while report is None or not rule.done:
            n_trees = rule.next_size
            outputs = outputs_of_estimator(of_size(self.estimator, n_trees), data, folds, groups, self.threshold)
            outputs = outputs.with_truth(data.truth, data.weight)
            report = rule.update(n_trees, partial(make_report, outputs, criterion, interval=False))
        return completed(report)

    def _check_estimator(self) -> None:
        """Raise an error if ``estimator`` is not a forest that fits."""
        kind = type(self.estimator).__name__
        if not hasattr(self.estimator, "fit") or not tree_counts(self.estimator):
            raise NotAForestError(
                f"estimator is a {kind}: give a forest of scikit-learn, LightGBM (boosting_type='rf') or XGBoost "
                "(n_estimators=1), and put a pipeline around this estimator, not inside"
            )
        training_of(self.estimator).check_estimator(self.estimator)
        predicts_numbers = is_regression(self.estimator)
        if predicts_numbers != isinstance(self, RegressorMixin):
            what, taker = ("numbers", "Regressor") if predicts_numbers else ("labels", "Classifier")
            raise NotAForestError(f"estimator is a {kind}, which predicts {what}: give it to RightSized{taker}")

    def __getstate__(self) -> dict[str, Any]:
        # A report may be many times as large as the forest.
        return {name: value for name, value in super().__getstate__().items() if name != "report_"}

    @property
    def as_model(self) -> Forest:
        """The fitted forest with this estimator's class labels, for `rfsize.size` and the other functions."""
        check_is_fitted(self)
        forest = read_forest(self.estimator_)
        classes = getattr(self, "classes_", forest.classes)
        return wrapped_by(forest, Wrapper(type(self).__name__, self._with_forest, self.threshold), classes)

    def _with_forest(self, forest: Any) -> Self:
        """A copy of this estimator with a smaller forest."""
        small = copy.copy(self)
        small.__dict__.update(self.__dict__, estimator_=forest, n_trees_=read_forest(forest).n_trees)
        return small

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """The importances of the features, as the forest itself computes them."""
        check_is_fitted(self)
        return self.estimator_.feature_importances_

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of scikit-learn: the estimator receives the metadata of `fit` that it requests."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=to_fit)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(self.estimator)
        tags.non_deterministic = get_tags(self.estimator).non_deterministic
        return tags

    def _checked_rows(self, X: Any, *, reset: bool) -> Any:
        """Check the rows. A table keeps its categories, and the estimator checks its content."""
        X = open_rows(X).source if isinstance(X, np.ma.MaskedArray) else for_training(X)
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        finite = "allow-nan" if allows_nan(self.estimator) else True
        return validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite=finite)

    def _checked_weights(self, sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
        """The weights to fit the estimator with."""
        if sample_weight is None:
            return None
        weight = sample_weights(sample_weight, n_rows)
        if not weight.any():
            raise ValueError("sample_weight is zero for every row; at least one must not be")
        if not get_config()["enable_metadata_routing"]:
            return weight
        return process_routing(self, "fit", sample_weight=weight).estimator.fit.get("sample_weight")


class RightSizedClassifier(ClassifierMixin, _RightSized):  # type: ignore[misc]
    """A random forest of T* trees.

    `fit` trains ``estimator`` with as many trees as it needs, T*(α): the smallest number of trees that gives a share α
    of the rows the label of an unlimited forest, on average over rows and forests. Where labels say too little of a
    rare class, and you name nothing that must stay the same, it is the number that keeps the probabilities.

    Parameters
    ----------
    estimator : estimator
        A forest that is not fitted, such as ``LGBMClassifier(boosting_type="rf", subsample=0.632,
        subsample_freq=1)``, ``XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.632,
        colsample_bynode=0.6)``, or scikit-learn's `RandomForestClassifier`, `ExtraTreesClassifier` or
        `BaggingClassifier`.
    alpha : float, default 0.99
        Share of the rows whose labels are equal, strictly between 0 and 1.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels are sized: those of the majority vote ("hard") or of the averaged scores ("soft"). "auto" takes the
        rule that `predict` follows: averaged scores, or the majority vote in bagging over other learners than trees.
    average : {"micro", "macro"}, default "micro"
        Whether agreement is averaged over rows ("micro") or over classes ("macro"), as in `size`. With "macro", a
        certificate bounds each class by itself.
    metric : str or scorer, default "auto"
        What must stay the same as in an unlimited forest, as in `size`.
    tolerance : float, optional
        How much you allow to change, as in `size`.
    threshold : float, default 0.5
        Probability above which the label is class 1, for each tree, for the averaged scores and for `predict`. Only for
        labels of two classes.
    confidence : float, default 0.8
        How sure it must be that the forest has T* trees, as in `grow`.
    max_trees : int, optional
        The most trees to train. By default 5000, or the number of trees of ``estimator`` if you set another than its
        default, as in `grow`.
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
    feature_importances_ : ndarray of float, shape (n_features,)
        The importances of `estimator_`, if it has any.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if you fitted on a table whose column names are text.

    See Also
    --------
    RightSizedRegressor : Train regressions to size inside scikit-learn's pipelines.
    oob_score, oob_predict_proba : Score the fitted forest out of bag.
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
    ...     n_estimators=1, learning_rate=1, subsample=0.5, colsample_bynode=0.3, random_state=0
    ... )
    >>> model = RightSizedClassifier(forest, alpha=0.95).fit(X, y)
    >>> model.n_trees_ == model.report_.n_kept == model.estimator_.num_parallel_tree
    True

    To predict faster, compile the model with a stop table that is certified on rows that you held out:

    >>> import rfsize
    >>> model = RightSizedClassifier(forest, alpha=0.95).fit(X[:400], y[:400])
    >>> fast = rfsize.compile(model, rfsize.StopTable.calibrate(model, X[400:], alpha=0.95))
    >>> labels, n_trees_used = fast.predict(X[400:], return_trees=True)
    >>> bool(n_trees_used.mean() < model.n_trees_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        metric: MetricLike = "auto",
        alpha: float | None = None,
        tolerance: float | None = None,
        average: str | None = None,
        voting: str | None = None,
        threshold: float = 0.5,
        confidence: float = 0.8,
        max_trees: int | None = None,
        min_trees: int = 100,
        cv: Any = None,
    ) -> None:
        self.estimator, self.cv = estimator, cv
        self.metric, self.alpha, self.tolerance, self.confidence = metric, alpha, tolerance, confidence
        self.average, self.voting, self.threshold = average, voting, threshold
        self.min_trees, self.max_trees = min_trees, max_trees

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


class RightSizedRegressor(RegressorMixin, _RightSized):  # type: ignore[misc]
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
        or scikit-learn's `RandomForestRegressor`, `ExtraTreesRegressor` or `BaggingRegressor` over any learner.
    tolerance : float, optional
        How far predictions may move, in the unit of y; the default is that of `size`. With a metric: how much worse the
        metric may become; no default.
    metric : str or scorer, default "scores"
        What must stay the same as in an unlimited forest: the predictions ("scores"), or "rmse", "mae", "r2" or a
        scorer, as in `size`.
    confidence : float, default 0.8
        How sure it must be that the forest has T* trees, as in `grow`.
    max_trees : int, optional
        The most trees to train. By default 5000, or the number of trees of ``estimator`` if you set another than its
        default, as in `grow`.
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
    feature_importances_ : ndarray of float, shape (n_features,)
        The importances of `estimator_`, if it has any.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if you fitted on a table whose column names are text.

    See Also
    --------
    RightSizedClassifier : Train to size inside scikit-learn's pipelines.
    oob_score, oob_predict : Score the fitted forest out of bag.
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
        max_trees: int | None = None,
        min_trees: int = 100,
        cv: Any = None,
    ) -> None:
        self.estimator, self.cv = estimator, cv
        self.metric, self.tolerance, self.confidence = metric, tolerance, confidence
        self.min_trees, self.max_trees = min_trees, max_trees

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
