"""RightSizedClassifier: a forest of T*(α) trees as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted, validate_data

from rfsize.adapters.base import warn_of_dependence
from rfsize.adapters.registry import adapter_for, integration_for
from rfsize.counting.api import votes
from rfsize.counting.copies import resolved
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.errors import FewVotesError, InbagError, NotAForestError, NotConvergedWarning
from rfsize.inference.compiled import CompiledForest, compile
from rfsize.sizing.goal import Goal
from rfsize.sizing.size_report import SizeReport
from rfsize.stopping.table import Rule, StopTable
from rfsize.training.cross_validation import folds_of
from rfsize.training.estimator_data import OutOfBagPredictions, TrainingData, of_size, tree_counts
from rfsize.training.growing import grow
from rfsize.utils.labels import checked_labels
from rfsize.utils.matrix import as_rows, from_polars, n_rows
from rfsize.utils.tags import allows_nan, input_tags
from rfsize.utils.validation import choice, class_indices, sample_weights, whole
from rfsize.utils.warn import warn
from rfsize.voting.outputs import VOTINGS, TreeOutputs
from rfsize.voting.scores import Scores
from rfsize.voting.votes import Votes

_CROSS_VALIDATED = (
    "the forest was sized by cross-validation, and not by out-of-bag votes; oob_refusal_ says why, or votes='cv' did"
)
_TABLES = ("threshold", "optimal", "robust", "lossless")


class RightSizedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A random forest of T*(α) trees.

    `fit` trains the forest that ``estimator`` describes until it is sure to have T*(α) trees: the smallest number whose
    labels agree with those of the infinite forest on a share α of the rows, on average over rows and forests.

    Parameters
    ----------
    estimator : estimator
        A forest that is not fitted, such as ``LGBMClassifier(boosting_type="rf", subsample=0.632,
        subsample_freq=1)``, ``XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.632,
        colsample_bynode=0.6)``, or scikit-learn's `RandomForestClassifier`, `ExtraTreesClassifier` or
        `BaggingClassifier`. Its own number of trees (of `XGBClassifier`, ``num_parallel_tree``) is not used.
    alpha : float, default 0.99
        Confidence α, strictly between 0 and 1.
    voting : {"auto", "hard", "soft"}, default "auto"
        Whose T*(α) it is: "hard", that of the majority of the trees' votes; "soft", that of their averaged scores;
        "auto", that of the rule which `predict` goes by: the vote with a ``stop_table``, else the averaged scores (of
        bagging over other learners than trees, of which these are not known, the vote).
    size_estimator : {"auto", "plugin", "smooth"}, default "auto"
        The ``estimator`` of `size`.
    sure : float, default 0.8
        How sure it must be that the forest has T*(α) trees, as in `grow`.
    max_trees : int, default 5000
        Trees at which to give up.
    min_trees : int, default 100
        Trees before the first estimate.
    votes : {"auto", "oob", "cv"}, default "auto"
        Votes that T*(α) is read from. "oob": of each training row, the votes of the trees that did not see it, whose
        bags are proven. "cv": the votes of forests that were trained on the other folds. "auto": out-of-bag votes,
        or where they cannot be had (no bagging, bags that cannot be proven, too few votes), those of
        cross-validation; ``report_.source`` says which, and `oob_refusal_` why.
    cv : int, splitter or iterable of (train, held out) pairs, default 5
        Folds for cross-validation, as in `sklearn.model_selection.cross_validate`; an int means stratified folds.
    stop_table : {None, "lossless", "threshold", "optimal", "robust"}, default None
        How `predict` labels a row. None: as ``estimator_`` itself does, by the highest probability in `predict_proba`.
        Otherwise by the majority vote, in a compiled forest in which a row asks trees in turn until its label is
        settled, many times faster. "lossless": when the remaining votes cannot change it. The others are rules of
        `StopTable.build`, at confidence α and with the votes on the training rows for a prior; their labels differ from
        those of all trees on a share of up to 1 − α of the rows, on average.
    oob_score : bool, default True
        Whether `fit` ends with one more pass down the trees, for ``oob_decision_function_`` and ``oob_score_``. Of
        bagging over learners that predict probabilities but are no trees it makes none, and there are none.

    Attributes
    ----------
    estimator_ : estimator
        The forest of T*(α) trees. XGBoost knows no labels but 0 to K − 1, so its forest predicts indices into
        `classes_`.
    report_ : SizeReport
        The estimate of T*(α); its ``source`` is "oob" or "cross-validation". For the latter the trees at hand are those
        of the forest of one fold.
    oob_refusal_ : str or None
        With ``votes="auto"``, why the out-of-bag votes gave way to those of cross-validation; None where they did not.
    n_trees_ : int
        Trees of the forest.
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    oob_decision_function_ : ndarray of float, shape (n_rows, n_classes)
        Out-of-bag probabilities of the training rows, as `oob_predict_proba` gives them, NaN on rows that every tree
        saw. Only where out-of-bag votes can be had: a forest that was sized by cross-validation has none.
    oob_score_ : float
        Share of the training rows whose label is that of the highest of these; `rfsize.oob_score` has other metrics,
        and intervals.
    feature_importances_ : ndarray of float, shape (n_features,)
        Those of `estimator_`, where it has any.
    compiled_ : CompiledForest or None
        What predicts, with labels as in `classes_`; None where ``stop_table`` is.
    table_ : StopTable or None
        The stop table; None where ``stop_table`` is, or is "lossless".
    n_features_in_ : int
        Features of a row.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns; only where it was fitted on a table with names that are text.

    Notes
    -----
    The estimators themselves predict from averaged scores or probabilities, compiled forests with a stop table by the
    majority vote. Each rule has a size of its own; ``report_`` has both.

    References
    ----------
    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

    V. Soto, G. Martínez-Muñoz, A. Suárez (2016). "An urn model for majority voting in classification ensembles".
    NIPS 29.

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
    >>> model.n_trees_ == model.report_.wanted == model.estimator_.num_parallel_tree
    True

    Any forest of scikit-learn does as well, and a stop table predicts faster:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> model = RightSizedClassifier(RandomForestClassifier(random_state=0), alpha=0.95, stop_table="threshold")
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    """

    # The weights go to the estimator, so it is the estimator that requests them.
    __metadata_request__fit = {"sample_weight": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        alpha: float = 0.99,
        *,
        voting: str = "auto",
        size_estimator: str = "auto",
        sure: float = 0.8,
        max_trees: int = 5000,
        min_trees: int = 100,
        votes: str = "auto",
        cv: Any = 5,
        stop_table: str | None = None,
        oob_score: bool = True,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.voting = voting
        self.size_estimator = size_estimator
        self.sure = sure
        self.max_trees = max_trees
        self.min_trees = min_trees
        self.votes = votes
        self.cv = cv
        self.stop_table = stop_table
        self.oob_score = oob_score

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | str | None = None
    ) -> RightSizedClassifier:
        """Train a forest of T*(α) trees.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Training rows. Tables go to the estimator as they are, with the categories it may take.
        y : array_like, shape (n_rows,)
            Class labels of any kind.
        sample_weight : array_like, shape (n_rows,), optional
            Training weights; they weigh the rows in the training, not in the mean over rows that T*(α) is about.
        groups : array_like of shape (n_rows,), "copies" or "rows", optional
            Training rows that belong together, as in `size`; folds of cross-validation keep them together too. With
            metadata routing, request them by ``set_fit_request(groups=True)``.

        Returns
        -------
        self

        Raises
        ------
        NotAForestError
            If the estimator is not a forest of independent trees.
        InbagError, FewVotesError
            If ``votes="oob"`` and out-of-bag votes cannot be had.
        ValueError
            If the rows, the labels or a parameter do not fit.

        Warns
        -----
        NotConvergedWarning
            If ``max_trees`` are fewer than T*(α), or leave it unsure; the forest then has ``max_trees`` trees.
        CopiesWarning, SharedBagsWarning, SeedDependenceWarning
            As in `size`.
        """
        goal = self._checked_goal()
        X = self._checked_rows(X, reset=True)
        classes, label = checked_labels(y, n_rows(X))
        self._check_table(len(classes))
        data = TrainingData(X, classes, label, self._checked_weights(sample_weight, len(label)), groups)
        forest, report, held_out = self._grown(data, goal)
        if held_out is not None:  # otherwise it was grown, with the same warnings
            adapter = adapter_for(forest)
            warn_of_dependence(adapter.shared_bags, adapter.seed_dependence)
            if not report.converged:
                warn(report.not_converged(), NotConvergedWarning)
        if not self.oob_score:
            self._out_of_bag: OutOfBagPredictions | str = "fit was told oob_score=False"
        else:
            self._out_of_bag = OutOfBagPredictions.of(forest, data) if held_out is None else _CROSS_VALIDATED
        self.compiled_ = None if self.stop_table is None else self._compiled(forest, data, held_out)
        self.table_ = None if self.compiled_ is None else self.compiled_.table
        self.estimator_, self.report_ = forest, report
        self.classes_, self.n_trees_ = classes, report.n_kept
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Label rows, by the stop table where there is one, else as `estimator_` does.

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
        if self.compiled_ is not None:
            return self.compiled_.predict(X)
        labels = self.estimator_.predict(X)
        return self.classes_[labels] if integration_for(self.estimator_).labels_are_indices else labels

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
        return self._known_out_of_bag("oob_decision_function_").probability

    @property
    def oob_score_(self) -> float:
        """Accuracy of the out-of-bag labels."""
        return self._known_out_of_bag("oob_score_").accuracy

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """Importances of the features, by the forest's own reckoning."""
        check_is_fitted(self)
        if not hasattr(self.estimator_, "feature_importances_"):
            raise AttributeError(
                f"{type(self.estimator_).__name__} has no feature_importances_, which are those of the forest itself; "
                "sklearn.inspection.permutation_importance takes any classifier"
            )
        return self.estimator_.feature_importances_

    def set_params(self, **params: Any) -> RightSizedClassifier:
        """Set parameters, those of ``estimator`` as ``estimator__name``.

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
            If the number of trees is among them, as in a search over it: it is not a parameter but what `fit` finds.
        """
        counts = params.keys() & {f"estimator__{name}" for name in tree_counts(self.estimator)}
        if counts:
            raise ValueError(
                f"{' and '.join(sorted(counts))} would say nothing: the number of trees is what fit finds; leave it "
                "out of the search, and set alpha, or max_trees"
            )
        super().set_params(**params)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata go: those of `fit` to the estimator, where it requests them; see scikit-learn's user guide."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=to_fit)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(self.estimator)
        tags.non_deterministic = get_tags(self.estimator).non_deterministic
        return tags

    def _checked_goal(self) -> Goal:
        """What is to be sized, once all parameters are checked."""
        choice("voting", self.voting, ("auto", *VOTINGS))
        voting = self.voting
        if voting == "auto":
            voting = "soft" if self.stop_table is None and not self._other_members() else "hard"
        goal = Goal(self.alpha, voting, self.size_estimator, sure=self.sure)
        whole("max_trees", self.max_trees, at_least=1)
        whole("min_trees", self.min_trees, at_least=1)
        choice("votes", self.votes, ("auto", "oob", "cv"))
        if self.stop_table is not None:
            choice("stop_table", self.stop_table, _TABLES, "; None predicts as the estimator itself does")
            if voting == "soft":
                raise ValueError(
                    f"stop_table={self.stop_table!r} predicts by the majority vote, and voting='soft' sizes the "
                    "averaged scores: leave voting='auto', or stop_table=None"
                )
        if not hasattr(self.estimator, "fit") or not tree_counts(self.estimator):
            raise NotAForestError(
                f"estimator is a {type(self.estimator).__name__}; give a forest, such as RandomForestClassifier, "
                "LGBMClassifier with boosting_type='rf', or XGBClassifier with n_estimators=1 (put a pipeline around "
                "this estimator, not inside)"
            )
        integration_for(self.estimator).check_estimator(self.estimator)
        return goal

    def _check_table(self, n_classes: int) -> None:
        """Refuse a stop table that no forest of this kind can have, before the training."""
        if self.stop_table is not None and self._other_members():
            raise NotAForestError(
                f"stop_table={self.stop_table!r} needs a compiled forest, but {self._other_members()}s are no decision "
                "trees; leave stop_table=None"
            )
        if self.stop_table not in (None, "lossless"):
            StopTable.build(1, alpha=self.alpha, rule=cast(Rule, self.stop_table), n_classes=n_classes)

    def _other_members(self) -> str | None:
        """What the members of a bagging ensemble are, where they are no decision trees."""
        base = self.estimator.estimator if isinstance(self.estimator, BaggingClassifier) else None
        return None if base is None or isinstance(base, DecisionTreeClassifier) else type(base).__name__

    def _checked_rows(self, X: Any, *, reset: bool) -> Any:
        """Rows as the estimator takes them; a table keeps its categories and is left to the estimator to check."""
        X = as_rows(X) if isinstance(X, np.ma.MaskedArray) else from_polars(X)
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        finite = "allow-nan" if allows_nan(self.estimator) else True
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite=finite)
        except OverflowError:
            raise ValueError("X holds a whole number beyond double precision: make it missing, or clip it") from None

    def _checked_weights(self, sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
        """The weights that the estimator is to be fitted with."""
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

    def _grown(self, data: TrainingData, goal: Goal) -> tuple[Any, SizeReport, Votes | None]:
        """The forest, its report, and the votes of cross-validation where it was sized by these."""
        self.oob_refusal_ = None
        if self.votes != "cv":
            try:
                forest, report = grow(
                    of_size(self.estimator, min(self.min_trees, self.max_trees)),
                    data.X,
                    data.target(self.estimator),
                    alpha=goal.alpha,
                    voting=goal.voting,
                    estimator=goal.estimator,
                    sure=self.sure,
                    max_trees=self.max_trees,
                    min_trees=self.min_trees,
                    groups=data.groups,
                    sample_weight=data.weight,
                    return_report=True,
                )
                return forest, report, None
            except (InbagError, FewVotesError) as refused:
                if self.votes == "oob":
                    raise
                self.oob_refusal_ = str(refused)
        counted, report = self._cross_validated(data, goal)
        return data.fitted(self.estimator, report.n_kept), report, counted

    def _cross_validated(self, data: TrainingData, goal: Goal) -> tuple[Votes, SizeReport]:
        """Votes of forests that were trained on the other folds, with more trees until these are enough."""
        groups = resolved(data.groups, data.X, len(data.label))
        folds = folds_of(self.cv, data.label, groups)
        n_trees = min(self.min_trees, self.max_trees)
        while True:
            outputs = self._held_out(data, folds, n_trees)
            sized = outputs.take(groups.once)
            report = SizeReport.of(sized, goal, available=n_trees, source="cross-validation", groups=groups)
            if report.converged or n_trees == self.max_trees:
                return outputs.votes, report
            n_trees = min(report.next_look(), self.max_trees)

    def _held_out(self, data: TrainingData, folds: list[tuple[Any, Any]], n_trees: int) -> TreeOutputs:
        """What forests of the other folds say; scores of those only that know all classes."""
        n_rows, n_classes = len(data.label), len(data.classes)
        counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        scores, cut, obeys = None, 0.0, None
        for train, held_out in folds:
            part = data.part(train)
            forest = ForestOnRows.of(part.fitted(self.estimator, n_trees), _safe_indexing(data.X, held_out))
            outputs = forest.outputs()
            columns = class_indices(data.classes, part.classes, len(part.classes))
            counts[held_out[:, None], columns] = outputs.votes.counts
            if len(columns) == n_classes and outputs.scores is not None:
                scores = Scores.nothing(n_rows, outputs.scores.n_scores) if scores is None else scores
                scores.put(held_out, outputs.scores)
                cut, obeys = outputs.cut, outputs.predict_obeys
        return TreeOutputs(Votes(counts, data.classes, n_trees), scores, cut, obeys)

    def _known_out_of_bag(self, name: str) -> OutOfBagPredictions:
        check_is_fitted(self)
        if isinstance(self._out_of_bag, str):
            raise AttributeError(f"there is no {name}: {self._out_of_bag}")
        return self._out_of_bag

    def _compiled(self, forest: Any, data: TrainingData, held_out: Votes | None) -> CompiledForest:
        """The forest with its stop table; it knows the caller's labels."""
        table = None
        if self.stop_table != "lossless":
            prior = held_out
            if prior is None:
                options: dict[str, Any] = {"sample_weight": data.weight, "groups": data.groups}
                prior = votes(forest, data.X, data.target(forest), oob=True, **options)
            n_trees, rule = adapter_for(forest).n_trees, cast(Rule, self.stop_table)
            table = StopTable.build(n_trees, alpha=self.alpha, prior=prior, rule=rule)
        n_jobs = getattr(forest, "n_jobs", None) or integration_for(forest).default_n_jobs
        compiled = compile(forest).forest
        return CompiledForest(replace(compiled, classes=data.classes), table, n_jobs=n_jobs)
