"""Growing a forest until it is large enough: figure 3 of Hernández-Lobato et al. 2013 as one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, overload

from numpy.typing import ArrayLike

from rfsize.adapters.base import dependence_of, shrinking_of
from rfsize.adapters.registry import adapter_for, integration_for, integration_of, trainer_for
from rfsize.adapters.trainer import ForestInTraining
from rfsize.counting.copies import resolved
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.training_rows import noting_training_rows
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.errors import NotAForestError
from rfsize.sizing.base import Report
from rfsize.sizing.copies_warning import noting_copies
from rfsize.sizing.goal import Goal, check_goal, goal_of
from rfsize.sizing.named_metrics import MetricLike
from rfsize.sizing.reports import report_by, report_for
from rfsize.sizing.size_report import SizeReport
from rfsize.training.blocks import ForestInBlocks
from rfsize.training.grown import grown
from rfsize.utils.matrix import n_rows
from rfsize.utils.table import from_polars
from rfsize.utils.validation import refuse_unused, share, whole
from rfsize.utils.warn import give
from rfsize.voting.groups import Groups


class _Predictor(Protocol):
    """What boosters and estimators share, and parameters do not have."""

    def predict(self, *args: Any, **kwargs: Any) -> Any: ...


_Model = TypeVar("_Model", bound=_Predictor)


@overload
def grow(
    params: _Model,
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: Literal[False] = False,
) -> _Model: ...
@overload
def grow(
    params: _Model,
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: Literal["label"] = "label",
    tolerance: None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: Literal[True],
) -> tuple[_Model, SizeReport]: ...
@overload
def grow(
    params: dict[str, Any],
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: Literal[False] = False,
) -> Any: ...
@overload
def grow(
    params: dict[str, Any],
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: Literal["label"] = "label",
    tolerance: None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: Literal[True],
) -> tuple[Any, SizeReport]: ...
@overload
def grow(
    params: Any,
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: bool,
) -> Any: ...
def grow(
    params: Any,
    dtrain: Any,
    y: ArrayLike | None = None,
    *,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
    alpha: float | None = None,
    voting: str | None = None,
    average: str | None = None,
    estimator: str | None = None,
    threshold: float | None = None,
    criterion: MetricLike = "label",
    tolerance: float | None = None,
    sure: float = 0.8,
    max_trees: int = 5000,
    min_trees: int = 100,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
    return_report: bool = False,
) -> Any:
    """Train a random forest until it has T* trees.

    The size is estimated at ``min_trees`` trees and then at min(T*, twice the trees), from what the trees say of the
    rows that they did not see, until it is 80 % sure (``sure``) that the forest has T* trees.

    Parameters
    ----------
    params : dict, booster or scikit-learn estimator
        Training parameters, as for ``lightgbm.train`` (with ``boosting="rf"``) or ``xgboost.train`` (the number
        of parallel trees is found here). Or a finished forest, to which trees are added that draw other bags
        than its own; give the labels and weights of its training, which cannot be compared. Or an estimator
        (`LGBMClassifier`, `XGBRegressor`, `RandomForestClassifier`, `BaggingRegressor`, …): one that is not fitted
        begins with its own number of trees, and may end with fewer.
    dtrain : lightgbm.Dataset, xgboost.DMatrix or QuantileDMatrix
        Training data; a LightGBM forest to which trees are added needs a `Dataset` that kept its rows
        (``free_raw_data=False``). For an estimator, what its ``fit`` takes.
    y : array_like, shape (n_rows,), optional
        Labels; only for an estimator.
    X_val : array_like, DataFrame, SciPy sparse matrix or Arrow table, optional
        Rows that the forest is not trained on, to count the votes on in place of the out-of-bag votes. What
        ``dtrain`` takes for ``missing`` is missing in them too, unless they are a `DMatrix` of their own.
    y_val : array_like, optional
        Truth of these rows, for a metric.
    alpha : float, default 0.99
        Confidence α: the share of rows on which the forest agrees with the infinite forest; only for labels.
    voting : {"auto", "hard", "soft"}, default "auto"
        Whose T* the growth ends at: "hard", that of the majority of the trees' votes; "soft", that of their averaged
        scores; "auto", that of the model's own ``predict``, as in `size`. The report has both. Only for labels.
    average : {"micro", "macro"}, default "micro"
        Over what agreement is averaged, as in `size`: rows, or the classes that they are given. Only for labels.
    estimator : {"auto", "plugin", "smooth"}, default "auto"
        As in `size`; only for labels.
    threshold : float, default 0.5
        Probability of class 1 above which a tree, or the averaged scores, say class 1; only for labels of two classes.
    criterion : {"label", "probability", "score"}, metric or scorer, default "label"
        What is to be near the infinite forest's, as in `size`. A regression forest is grown by its "score", which is
        what it predicts, or by a metric.
    tolerance : float, optional
        How far off it may be, as in `size`; needed with all criteria but labels.
    sure : float, default 0.8
        How sure it must be that the forest has T* trees, at least 0.5: the trees at hand may agree with each other by
        luck. The forest ends with as many trees as T* is at most with that probability; 0.5 ends at T* itself.
    max_trees : int, default 5000
        Trees at which to give up.
    min_trees : int, default 100
        Trees before the first estimate.
    init_model : booster, optional
        A finished forest to add trees to, in place of ``params``, where it has forgotten its parameters (an
        XGBoost model loaded from a file) and they must be given.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `size`. By default copies are looked for where the training data hold
        their rows: a `Dataset` that has not been binned, or kept them (``free_raw_data=False``), and a `DMatrix`; the
        report says where they do not.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.
    trees_per_block : int, optional
        Train blocks of so many trees, each from seeds of its own, and merge them, as `rfsize.dask.grow` does; only for
        parameters. By default LightGBM trains all trees as one forest, and XGBoost as many at a time as are wanted.
    progress : bool, default True
        Show a progress bar when the growth takes long.
    return_report : bool, default False
        Whether to return the estimate as well.

    Returns
    -------
    booster or estimator
        A new model of ``report.wanted`` trees, which predicts the mean of all of them; or of as many as a finished
        forest had, where it had more. The trees of XGBoost are trained in blocks and merged into one booster. An
        ensemble of scikit-learn with a fixed ``random_state`` is the one that a single fit of as many members gives,
        but for ``oob_score_``, which is not computed.
    report : SizeReport, DeviationReport or MetricReport
        The estimate that ended the growth; only with ``return_report``.

    Raises
    ------
    NotAForestError
        If the parameters or the model are not those of a forest of independent trees.
    InbagError
        If the bags cannot be rebuilt and proven; that is asked of every forest grown here. Outputs by
        cross-validation, ``cv=`` of `tree_outputs`, size the others.
    FewVotesError
        If the training rows get too few out-of-bag votes to size a forest.
    ValueError
        If an argument does not fit.

    Warns
    -----
    NotConvergedWarning
        If ``max_trees`` are fewer than T*, or leave it unsure; the forest then has ``max_trees`` trees.
    LabelsOnlyWarning
        As in `truncate`.
    CopiesWarning, SharedBagsWarning, SeedDependenceWarning
        As in `size`.

    References
    ----------
    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest, report = rfsize.grow(RandomForestClassifier(random_state=0), X, y, alpha=0.95, return_report=True)
    >>> report.n_trees <= len(forest.estimators_) == report.wanted
    True
    """
    of_labels = {"alpha": alpha, "voting": voting, "average": average, "estimator": estimator}
    goal = goal_of(criterion, tolerance, sure=sure, threshold=threshold, **of_labels)
    model, report = grown_model(
        params,
        dtrain,
        y,
        goal,
        X_val=X_val,
        y_val=y_val,
        threshold=share("threshold", 0.5 if threshold is None else threshold),
        max_trees=max_trees,
        min_trees=min_trees,
        init_model=init_model,
        groups=groups,
        sample_weight=sample_weight,
        trees_per_block=trees_per_block,
        progress=progress,
    )
    return (model, report) if return_report else model


def grown_model(
    params: Any,
    dtrain: Any,
    y: Any,
    goal: Goal,
    *,
    max_trees: int,
    min_trees: int,
    X_val: Any = None,
    y_val: Any = None,
    threshold: float = 0.5,
    init_model: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    trees_per_block: int | None = None,
    progress: bool = True,
) -> tuple[Any, Report]:
    """A model grown to a goal, and the report that ended the growth; arguments as in `grow`."""
    max_trees = whole("max_trees", max_trees, at_least=1)
    min_trees = whole("min_trees", min_trees, at_least=1)
    if X_val is not None and groups is not None:
        raise ValueError("X_val are rows that no tree saw, so that all may vote on all of them: leave out groups")
    if X_val is None:
        refuse_unused("it is the truth of X_val. Give X_val too, or leave y_val out", y_val=y_val)
    if trees_per_block is not None and (init_model is not None or not isinstance(params, dict)):
        raise ValueError(
            "a forest is trained in blocks from its parameters and data alone, not from a finished one or an "
            "estimator: leave out trees_per_block"
        )
    if hasattr(params, "fit"):
        if init_model is not None:
            raise ValueError("a fitted estimator is itself what trees are added to: leave out init_model")
        growth = _of_estimator(params, dtrain, y, sample_weight, goal, threshold, groups)
    elif y is not None or sample_weight is not None:
        raise ValueError("labels and weights are in dtrain; y and sample_weight are for an estimator")
    else:
        growth = _of_parameters(params, dtrain, init_model, goal, threshold, groups, trees_per_block)

    is_as_trained = hasattr(params, "fit") or integration_of(X_val) is not None  # and knows itself what is missing
    missing = None if is_as_trained else integration_for(dtrain).missing_in(dtrain)

    def validation() -> ForestOnRows:
        adapter = adapter_for(growth.model(growth.forest.booster()), casts_votes=False, missing=missing)
        return ForestOnRows.of(adapter, X_val, threshold=threshold)

    judged, limits = None if X_val is None else validation, {"max_trees": max_trees, "min_trees": min_trees}
    return growth.to(goal, **limits, validation=judged, y_val=y_val, progress=progress)


@dataclass(frozen=True)
class Growth:
    """A forest that is to grow, and what is known of the rows that it is trained on.

    Attributes
    ----------
    forest : ForestInTraining
    truth : tuple
        Labels or numbers of the training rows, with classes as the forest calls them, and their weights or None.
    report_by : callable
        What a model of its trees says by other groups of the training rows.
    model : callable
        Makes a model of the caller's type of its booster.
    given : int
        Trees of a finished forest that it began with.
    """

    forest: ForestInTraining
    truth: tuple[Any, Any]
    report_by: Callable[[Groups, Any], Report]
    model: Callable[[Any], Any] = lambda booster: booster
    given: int = 0

    def to(
        self,
        goal: Goal,
        *,
        max_trees: int,
        min_trees: int,
        validation: Callable[[], ForestOnRows] | None = None,
        y_val: Any = None,
        progress: bool = True,
    ) -> tuple[Any, Report]:
        """The model grown to a goal, and the report that ended the growth.

        It is judged out of bag, or by ``validation``, which makes the trees so far a forest on rows with ``y_val``.
        """
        forest, limits = self.forest, {"max_trees": max_trees, "min_trees": min_trees}
        estimate = (
            None if validation is None else lambda: report_for(goal, TreeOutputs.of(validation()).with_truth(y_val))
        )
        report = grown(forest, goal, self.truth, **limits, estimate=estimate, progress=progress)
        if validation is None:
            report = noting_copies(report, forest.groups, self._report_by)
        else:
            report = report.noting(*noting_training_rows(validation(), y_val))
        give(report.warnings)
        adapter = adapter_for(forest.booster(), casts_votes=False)
        kept = max(report.n_kept, self.given)
        # Those were given before the training.
        return self.model(adapter.truncated(kept)), report.noting(*dependence_of(adapter), *shrinking_of(adapter))

    def _report_by(self, groups: Groups) -> Report:
        return self.report_by(groups, self.model(self.forest.booster()))


def _of_parameters(
    params: Any,
    dtrain: Any,
    init_model: Any,
    goal: Goal,
    threshold: float,
    groups: Any,
    trees_per_block: int | None,
) -> Growth:
    if not isinstance(params, dict):
        if init_model is not None:
            raise ValueError("with init_model, params must be the training parameters, a dict")
        params, init_model = integration_for(params).parameters_of(params), params
    X = integration_for(dtrain).rows_of(dtrain)
    trainer = trainer_for(params, dtrain)
    check_goal(goal, len(trainer.classes), in_training=True)
    belong = resolved(groups, X, len(trainer.label))
    forest: ForestInTraining
    if trees_per_block is not None:
        merge = integration_for(dtrain).merged
        forest = ForestInBlocks.of(trainer, threshold, belong, merge=merge, trees_per_block=trees_per_block)
    elif init_model is None:
        forest = trainer.start(threshold=threshold, groups=belong)
    else:
        forest = trainer.resume(init_model, threshold=threshold, groups=belong)

    def by(groups: Groups, model: Any) -> Report:
        return report_by(groups, model, X, trainer.label, trainer.weight, goal=goal, threshold=threshold)

    return Growth(forest, (trainer.label, trainer.weight), by, given=forest.n_trees)


def _of_estimator(
    estimator: Any, X: Any, y: Any, sample_weight: Any, goal: Goal, threshold: float, groups: Any
) -> Growth:
    if y is None:
        raise ValueError("y is missing: an estimator is grown from X and y, as it is fitted")
    # Here, because scikit-learn takes long to import.
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    from rfsize.utils.tags import is_regression

    if is_regression(estimator):
        check_goal(goal, 0)
    X = from_polars(X)
    try:
        adapter, is_new = adapter_for(estimator, casts_votes=False), False
    except NotFittedError:
        integration_for(estimator).check_estimator(estimator)
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        adapter, is_new = adapter_for(clone(estimator).fit(X, y, **weighted), casts_votes=False), True
    if adapter.holder is not None:
        raise NotAForestError(
            f"found a {adapter.holder.kind}, whose own fit grows its forest: fit it with a larger alpha or max_trees, "
            "or give the forest that it has fitted, model.estimator_"
        )
    check_goal(goal, len(adapter.classes), in_training=True)
    threshold, integration = adapter.checked_threshold(threshold), integration_for(estimator)
    X = adapter.check(X)
    belong = resolved(groups, X, n_rows(X))
    forest = integration.in_training(adapter, X, y, sample_weight, threshold, belong)
    forest.classes = adapter.classes if len(adapter.classes) else None

    def by(groups: Groups, model: Any) -> Report:
        return report_by(groups, model, X, y, sample_weight, goal=goal, threshold=threshold)

    return Growth(forest, (y, sample_weight), by, adapter.with_booster, 0 if is_new else adapter.n_trees)
