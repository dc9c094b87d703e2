"""The shared part of RightSizedClassifier and RightSizedRegressor."""

from __future__ import annotations

import copy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted, validate_data

from rfsize._util import allows_nan, give, input_tags, is_regression, refuse_unused, sample_weights
from rfsize.counting.cross_validation import TrainingData, held_out_folds, of_size, outputs_of_estimator, tree_counts
from rfsize.counting.duplicates import resolve_groups
from rfsize.counting.outputs import TreeOutputs
from rfsize.exceptions import FewVotesError, InbagError, NotAForestError
from rfsize.models.framework import read_forest, training_of
from rfsize.models.model import Forest, Wrapper, dependence_of, learning_rate_of, wrapped_by
from rfsize.models.rows import for_training, open_rows
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.report import Report, report_of
from rfsize.sklearn.out_of_bag import OutOfBagPredictions
from rfsize.training.growing import Growth
from rfsize.training.until_enough import UntilEnough

_CROSS_VALIDATED = (
    "the forest was sized by cross-validation, and not by what trees say out of bag; oob_refusal_ says why, or cv did"
)


# Number of folds of the cross-validation if there are no out-of-bag votes.
_FOLDS = 5


class RightSizedForest(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Trains the forest that ``estimator`` describes until it is large enough."""

    # The weights go to the estimator, so the estimator requests them.
    __metadata_request__fit = {"sample_weight": UNUSED}  # noqa: RUF012

    # Parameters of the estimators that inherit from this one
    estimator: Any
    max_trees: int
    min_trees: int
    cv: Any
    threshold = 0.5

    def _fit(self, data: TrainingData, goal: Goal) -> TreeOutputs | None:
        """Train the forest; return the held-out outputs if the forest was sized by cross-validation."""
        forest, report, held_out = self._grown(data, goal)
        if held_out is not None:  # otherwise the training has given these warnings
            adapter = read_forest(forest)
            report = report._noting(*dependence_of(adapter), *learning_rate_of(adapter))
            give(report.warnings)
        out_of_bag = OutOfBagPredictions.of(forest, data, self.threshold) if held_out is None else _CROSS_VALIDATED
        self._out_of_bag: OutOfBagPredictions | str = out_of_bag
        self.estimator_, self._report, self.n_trees_ = forest, report, report.n_kept
        return held_out

    def _check_parameters(self, examples: str) -> None:
        """Raise an error if a parameter does not fit; ``examples`` name forests that would fit."""
        UntilEnough(self.min_trees, self.max_trees)
        if not hasattr(self.estimator, "fit") or not tree_counts(self.estimator):
            raise NotAForestError(
                f"estimator is a {type(self.estimator).__name__}; give a forest, such as {examples} (put a pipeline "
                "around this estimator, not inside)"
            )
        training_of(self.estimator).check_estimator(self.estimator)
        predicts_numbers = is_regression(self.estimator)
        if predicts_numbers != isinstance(self, RegressorMixin):
            what, taker = ("numbers", "Regressor") if predicts_numbers else ("labels", "Classifier")
            raise NotAForestError(
                f"estimator is a {type(self.estimator).__name__}, which predicts {what}: give it to RightSized{taker}"
            )

    def _refuse_unused(self, reason: str, *names: str) -> None:
        """Raise ``ValueError`` if parameters differ from their defaults but would have no effect."""
        by_default = signature(type(self)).parameters
        given = {name: getattr(self, name) for name in names}
        refuse_unused(reason, **{name: value for name, value in given.items() if value != by_default[name].default})

    @property
    def report_(self) -> Report:
        """The estimate of T*; a pickled estimator comes back without it."""
        check_is_fitted(self)
        if self._report is None:
            raise AttributeError(
                "report_ is not pickled with the estimator, since it holds what the trees answered on the training "
                "rows and may be many times as large as the forest. Pickle report_ by itself, or keep its page "
                "by report_.to_html(path)"
            )
        return self._report

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_report": None}

    @property
    def as_model(self) -> Forest:
        """The fitted forest with this estimator's class labels, for `rfsize.size` and the other functions."""
        check_is_fitted(self)
        forest = read_forest(self.estimator_)
        classes = getattr(self, "classes_", forest.classes)
        return wrapped_by(forest, Wrapper(type(self).__name__, self._around, self.threshold), classes)

    def _around(self, forest: Any) -> RightSizedForest:
        """A copy of this estimator with a smaller forest."""
        small = copy.copy(self)
        small._report = self._report
        small.estimator_, small.n_trees_ = forest, read_forest(forest).n_trees
        small._out_of_bag = (
            "the forest was cut after fit, and this is known only of the forest that was fitted: take "
            "rfsize.oob_predict or rfsize.oob_score of the smaller one"
        )
        return small

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """The importances of the features, as the forest itself computes them."""
        check_is_fitted(self)
        if not hasattr(self.estimator_, "feature_importances_"):
            raise AttributeError(
                f"{type(self.estimator_).__name__} has no feature_importances_, which are those of the forest itself; "
                "sklearn.inspection.permutation_importance takes any estimator"
            )
        return self.estimator_.feature_importances_

    def set_params(self, **params: Any) -> RightSizedForest:
        """Set parameters; name a parameter of ``estimator`` as ``estimator__name``.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If you set the number of trees, for example in a search over it: `fit` finds this number.
        """
        counts = params.keys() & {f"estimator__{name}" for name in tree_counts(self.estimator)}
        if counts:
            raise ValueError(
                f"{' and '.join(sorted(counts))} would have no effect: the number of trees is what fit finds; leave it "
                "out of the search, and set alpha or tolerance, or max_trees"
            )
        super().set_params(**params)
        return self

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
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite=finite)
        except OverflowError:
            raise ValueError("X holds a whole number beyond double precision: make it missing, or clip it") from None

    def _checked_weights(self, sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
        """The weights to fit the estimator with."""
        if sample_weight is None:
            return None
        weight = sample_weights(sample_weight, n_rows)
        if not weight.any():
            raise ValueError("sample_weight is zero for every row; at least one must not be")
        if not get_config()["enable_metadata_routing"]:
            return weight
        routing, given = self.get_metadata_routing(), {"sample_weight": weight}
        routing.validate_metadata(method="fit", params=given)
        return routing.route_params(caller="fit", params=given).estimator.fit.get("sample_weight")

    def _grown(self, data: TrainingData, goal: Goal) -> tuple[Any, Report, TreeOutputs | None]:
        """The forest, its report, and the held-out outputs if it was sized by cross-validation."""
        self.oob_refusal_ = None
        if self.cv is None:
            until = UntilEnough(self.min_trees, self.max_trees)
            estimator, y = of_size(self.estimator, until.next_look), data.target(self.estimator)
            of_rows: dict[str, Any] = {"sample_weight": data.weight, "groups": data.groups}
            try:
                growth = Growth.of_estimator(estimator, data.X, y, goal, threshold=self.threshold, **of_rows)
                return *growth.to_size(until), None
            except (InbagError, FewVotesError) as refused:
                self.oob_refusal_ = str(refused)
        outputs, report = self._cross_validated(data, goal)
        return data.fitted(of_size(self.estimator, report.n_kept)), report, outputs

    def _cross_validated(self, data: TrainingData, goal: Goal) -> tuple[TreeOutputs, Report]:
        """The held-out outputs of the forests of all folds, trained with more and more trees until these are enough."""
        groups = resolve_groups(data.groups, data.X, len(data.label))
        cv = _FOLDS if self.cv is None else self.cv
        folds = held_out_folds(cv, data.label, groups, stratified=len(data.classes) > 0)
        until = UntilEnough(self.min_trees, self.max_trees)
        report = None
        while report is None or not until.is_over:
            n_trees = until.next_look
            outputs = outputs_of_estimator(of_size(self.estimator, n_trees), data, folds, groups, self.threshold)
            outputs = outputs.with_truth(data.truth, data.weight)
            report = until.look(n_trees, partial(report_of, outputs, goal))
        return outputs, report

    def _known_out_of_bag(self, name: str) -> OutOfBagPredictions:
        check_is_fitted(self)
        if isinstance(self._out_of_bag, str):
            raise AttributeError(f"there is no {name}: {self._out_of_bag}")
        return self._out_of_bag

    @property
    def oob_score_(self) -> float:
        """Accuracy of the out-of-bag labels; for a regression, R² of the out-of-bag predictions."""
        score = self._known_out_of_bag("oob_score_").score
        if isinstance(score, str):
            raise AttributeError(f"there is no oob_score_: {score}")
        return score
