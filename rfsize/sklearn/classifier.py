"""RightSizedClassifier: a forest of T* trees as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from rfsize.adapters.base import Adapter
from rfsize.adapters.registry import integration_for
from rfsize.counting.evidence import VOTINGS, asked
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_data import TrainingData, checked_target
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.exceptions import NotAForestError
from rfsize.inference.api import compile
from rfsize.inference.compiled import CompiledForest
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.goals.named import goal_of
from rfsize.sizing.named_metrics import MetricLike, one_name
from rfsize.sklearn.held_out import CONFIDENCE, check_enough, split
from rfsize.sklearn.right_sized import RightSizedForest
from rfsize.stopping.table import Rule, StopTable
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import choice, share
from rfsize.voting.votes import Votes

_OF_VOTES = ("threshold", "optimal", "robust")
_TABLES = ("lossless", "certified", *_OF_VOTES)


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
        Share of the rows whose labels are equal, strictly between 0 and 1. A stop table keeps the same share.
    voting : {"auto", "hard", "soft"}, default "auto"
        Which labels are sized, and predicted with a ``stop_table``: those of the majority vote ("hard") or of the
        averaged scores ("soft"). "auto" takes the rule that `predict` follows: averaged scores, or the majority vote
        with a ``stop_table`` of votes and in bagging over other learners than trees.
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
    stop_table : {None, "lossless", "certified", "threshold", "optimal", "robust"}, default None
        How `predict` labels a row. None: as ``estimator_`` does, by the highest probability in `predict_proba`. The
        other choices predict with a compiled forest, many times faster: a row asks one tree after another until its
        label is settled. "lossless" stops when the remaining trees cannot change the label, so the labels are those of
        all trees. "certified" uses `StopTable.calibrate` on rows that were held out: with a confidence of 95 %, at most
        a share 1 − α of the rows get another label than all trees give. "threshold", "optimal" and "robust" are rules
        of `StopTable.build` for the majority vote, with the votes on the training rows as the prior; at most a share
        1 − α of the rows get another label, on average over forests.
    calibration_fraction : float, default 0.2
        Share of the rows given to `fit` that ``stop_table="certified"`` holds out from training, the same share of each
        class. Refused with ``X_calibration``, and with any other ``stop_table``.
    random_state : int, RandomState instance or None, default None
        Draws the rows to hold out. The estimator's own ``random_state`` draws the trees.

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
        Out-of-bag probabilities of the training rows, as in `oob_predict_proba`, without the rows held out; NaN on rows
        that every tree saw. A forest that was sized by cross-validation has none.
    oob_score_ : float
        Out-of-bag accuracy: the share of the training rows whose class has the highest out-of-bag probability. Missing
        if the rows of some class have hardly any out-of-bag votes. `rfsize.oob_score` has other metrics, and intervals.
    feature_importances_ : ndarray of float, shape (n_features,)
        The importances of `estimator_`, if it has any.
    compiled_ : CompiledForest or None
        The forest that `predict` uses, with the labels of `classes_`; None if ``stop_table`` is None.
    table_ : StopTable or None
        The stop table; None if ``stop_table`` is None or "lossless". Its ``certificate`` has the number of rows that
        certify it, and how many of them get another label.
    calibration_rows_ : ndarray of int64 or None
        Numbers of the rows given to `fit` that were held out; None if there are none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if you fitted on a table whose column names are text.

    See Also
    --------
    RightSizedRegressor : Train regressions to size inside scikit-learn's pipelines.
    grow : Train a forest to its size.

    Notes
    -----
    The estimators predict from averaged scores or probabilities. Stop tables of votes predict by majority vote. The two
    ways need different numbers of trees.

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
    >>> model.n_trees_ == model.report_.n_kept == model.estimator_.num_parallel_tree
    True

    You can use any forest of scikit-learn, and predict faster with a stop table:

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> model = RightSizedClassifier(
    ...     RandomForestClassifier(random_state=0), alpha=0.95, stop_table="certified", random_state=0
    ... )
    >>> model.fit(X, y).table_.promise, len(model.calibration_rows_)
    ('certified', 113)
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
        stop_table: str | None = None,
        calibration_fraction: float = 0.2,
        random_state: Any = None,
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
        self.stop_table = stop_table
        self.calibration_fraction = calibration_fraction
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | str | None = None,
        X_calibration: Any = None,
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
            With metadata routing, request them by ``set_fit_request(groups=True)``. Whole groups are held out for a
            stop table, but its certificate counts each row as an independent draw.
        X_calibration : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_other_rows, n_features)
            Rows on which to certify the stop table, in place of rows held out. They need no labels. With "threshold",
            "optimal" or "robust", the table is then certified as well. The steps of a pipeline do not transform these
            rows.

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
            If the rows, the labels or a parameter do not fit, or the rows held out are too few for a certificate.

        Warns
        -----
        NotConvergedWarning
            If ``max_trees`` trees are fewer than T*, or too few to be sure of it. The forest then has ``max_trees``
            trees.
        LabelsOnlyWarning
            If labels take so few trees that the ranking or the probabilities would suffer.
        CopiesWarning, SharedBagsWarning, SeedDependenceWarning
            As in `size`.
        RareClassWarning
            As in `StopTable.build`.
        """
        goal = self._checked_goal()
        X = self._checked_rows(X, reset=True)
        classes, label = checked_target(y, n_rows(X), of_labels=True)
        self._check_table(len(classes))
        data = TrainingData(X, classes, label, self._checked_weights(sample_weight, len(label)), groups)
        data, unseen = self._with_rows_held_out(data, X_calibration)
        outputs = self._fit(data, goal)
        self.classes_, self.compiled_, self.table_ = classes, None, None
        if self.stop_table is not None:
            self.table_ = self._table(data, None if outputs is None else outputs.votes, unseen)
            self.compiled_ = self._compiled()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels: with the stop table if there is one, otherwise as `estimator_` does or by ``threshold``.

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
        if self.threshold != 0.5:
            return self.classes_[(self.estimator_.predict_proba(X)[:, 1] > self.threshold).astype(np.int64)]
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
    def adapter(self) -> Adapter:
        """The fitted forest with the labels of `classes_`, for `rfsize.size` and the other functions."""
        forest = super().adapter
        if self.compiled_ is not None:
            forest.predict_obeys = self.compiled_.voting
        return forest

    def _around(self, forest: Any) -> RightSizedClassifier:
        if self.table_ is not None:
            raise ValueError(
                f"the stop table of this {type(self).__name__} holds for all of its {self.n_trees_} trees, and for no "
                "fewer: cut the forest that it has fitted, rfsize.truncate(model.estimator_, …), and make a table for "
                "the smaller one by rfsize.StopTable.calibrate; or fit with stop_table=None or 'lossless'"
            )
        small = cast(RightSizedClassifier, super()._around(forest))
        if self.compiled_ is not None:
            small.compiled_ = small._compiled()
        return small

    @property
    def oob_decision_function_(self) -> NDArray[np.float64]:
        """Out-of-bag probabilities of the training rows."""
        return self._known_out_of_bag("oob_decision_function_").predicted

    def _checked_goal(self) -> Goal:
        """Check all parameters, and return the goal of the sizing."""
        choice("voting", self.voting, VOTINGS)
        voting = "hard" if self.voting == "auto" and self.stop_table in _OF_VOTES else self.voting
        of_labels = {}
        is_of_labels = one_name(self.metric) in ("auto", "labels")
        if is_of_labels:
            of_labels = {"alpha": self.alpha, "voting": voting, "average": self.average}
        goal = goal_of(self.metric, self.tolerance, confidence=self.confidence, **of_labels)
        if self.stop_table is not None:
            choice("stop_table", self.stop_table, _TABLES, "; None predicts as the estimator itself does")
            if not is_of_labels:
                raise ValueError(
                    f"stop_table={self.stop_table!r} settles labels, and metric={self.metric!r} sizes something "
                    "else: leave metric='labels', or stop_table=None"
                )
            if voting == "soft" and self.stop_table in _OF_VOTES:
                raise ValueError(
                    f"stop_table={self.stop_table!r} predicts by the majority vote, and voting='soft' sizes the "
                    "averaged scores: use stop_table='certified', which stops on these, or leave voting='auto'"
                )
        if not is_of_labels:
            self._refuse_unused(
                f"with metric={self.metric!r} tolerance says how far off predictions may be. Leave it out",
                *("alpha", "voting", "average"),
            )
        share("threshold", self.threshold)
        share("calibration_fraction", self.calibration_fraction)
        if self.stop_table != "certified":
            self._refuse_unused(
                f"stop_table={self.stop_table!r} holds out no rows. Leave it out, or set stop_table='certified'",
                "calibration_fraction",
            )
        self._check_parameters(
            "RandomForestClassifier, LGBMClassifier with boosting_type='rf', or XGBClassifier with n_estimators=1"
        )
        return goal

    def _check_table(self, n_classes: int) -> None:
        """Refuse, before the training, a stop table that no forest of this kind can have."""
        if self.stop_table is not None and self._other_members():
            raise NotAForestError(
                f"stop_table={self.stop_table!r} needs a compiled forest, but {self._other_members()}s are no decision "
                "trees; leave stop_table=None"
            )
        if self.stop_table in _OF_VOTES:
            StopTable.build(1, alpha=self.alpha, rule=cast(Rule, self.stop_table), n_classes=n_classes)

    def _other_members(self) -> str | None:
        """The type of the members of a bagging ensemble, if they are not decision trees."""
        base = self.estimator.estimator if isinstance(self.estimator, BaggingClassifier) else None
        return None if base is None or isinstance(base, DecisionTreeClassifier) else type(base).__name__

    def _with_rows_held_out(self, data: TrainingData, given: Any) -> tuple[TrainingData, Any]:
        """The data to train on, and the rows that certify the stop table; None if the table is not to be certified."""
        self.calibration_rows_: NDArray[np.int64] | None = None
        if given is not None:
            self._refuse_unused("X_calibration takes the place of rows held out. Leave out one", "calibration_fraction")
            if self.stop_table in (None, "lossless"):
                raise ValueError(
                    f"X_calibration certifies a stop table, and with stop_table={self.stop_table!r} there is none: "
                    "leave it out, or set stop_table='certified'"
                )
            unseen = self._checked_rows(given, reset=False)
            check_enough(n_rows(unseen), self.alpha, "soft", None)
            return data, unseen
        if self.stop_table != "certified":
            return data, None
        training, self.calibration_rows_ = split(data, self.calibration_fraction, self.random_state)
        check_enough(len(self.calibration_rows_), self.alpha, self.voting, self.calibration_fraction)
        return training, _safe_indexing(data.X, self.calibration_rows_)

    def _table(self, data: TrainingData, held_out: Votes | None, unseen: Any) -> StopTable | None:
        """The stop table, certified if there are rows for it."""
        forest = self.adapter
        of_certificate: dict[str, Any] = {"confidence": CONFIDENCE, "average": self.average}
        if self.stop_table == "lossless":
            return None
        if self.stop_table == "certified":
            voting = cast(Literal["auto", "hard", "soft"], self.voting)
            return StopTable.calibrate(forest, unseen, alpha=self.alpha, voting=voting, **of_certificate)
        prior: Votes | TreeOutputs | None = held_out
        if prior is None:
            options = {"sample_weight": data.weight, "groups": data.groups}
            rows = ForestOnRows.of(forest, data.X, data.truth, oob=True, **options)
            prior = TreeOutputs(asked(rows, data.truth))
        table = StopTable.build(forest.n_trees, alpha=self.alpha, prior=prior, rule=cast(Rule, self.stop_table))
        return table if unseen is None else table.certified(forest, unseen, **of_certificate)

    def _compiled(self) -> CompiledForest:
        """The forest with its stop table."""
        voting = cast(Literal["auto", "hard", "soft"], self.voting)
        n_jobs = getattr(self.estimator_, "n_jobs", None) or integration_for(self.estimator_).default_n_jobs
        return compile(self.adapter, self.table_, voting=voting, n_jobs=n_jobs)
