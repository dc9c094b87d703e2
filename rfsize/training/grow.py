"""Trains a forest until it is large enough: figure 3 of Hernández-Lobato et al. 2013 as one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import give, how_many, in_percent, progress_bar, refuse_unused, sample_weights, share
from rfsize.api.report import Report, completed, make_report, with_warnings
from rfsize.counting.collect import outputs_in_training, outputs_of, warning_of_training_rows
from rfsize.counting.coverage import (
    FEW_OUT_OF_BAG,
    FEWEST_VOTES,
    Coverage,
    by_nature_advice,
    few_votes,
    too_many_without_votes,
)
from rfsize.counting.groups import check_groups, resolve_groups, warning_of_copies
from rfsize.counting.outputs import coverage, distinct
from rfsize.counting.task import Task, check_truth, checked_truth
from rfsize.exceptions import FewVotesError, NotAForestError
from rfsize.models.columns import Columns, frame_of
from rfsize.models.framework import framework_of, read_forest, training_of
from rfsize.models.link import Link, Predictor
from rfsize.models.model import Forest, dependence_of, learning_rate_of
from rfsize.models.rows import for_training, lies_elsewhere, n_rows_of, open_rows
from rfsize.models.training import ForestInTraining, Trainer
from rfsize.statistics.criterion import Criterion, make_criterion, resolve
from rfsize.statistics.default import with_defaults
from rfsize.statistics.named_metrics import MetricLike, check_direction, metric_on_rows
from rfsize.training.stopping_rule import StoppingRule

_MOST_TREES = 5000


def grow(
    params: Any,
    data: Any,
    y: ArrayLike | None = None,
    *,
    validation: Any = None,
    metric: MetricLike = "auto",
    alpha: float | None = None,
    tolerance: float | None = None,
    average: str | None = None,
    voting: str | None = None,
    threshold: float | None = None,
    confidence: float = 0.8,
    max_trees: int | None = None,
    min_trees: int = 100,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    init_model: Any = None,
) -> tuple[Any, Report]:
    """Train a random forest until it has T* trees.

    T* is the smallest number of trees that gives a share ``alpha`` of the rows the label of an unlimited forest, on
    average. It is estimated from out-of-bag outputs at ``min_trees`` trees, and again at min(T*, twice the trees).
    Training ends when it is 80 % sure (``confidence``) that the forest has T* trees. The first trees may be unlucky, so
    the forest also keeps enough trees to give the labels of all trees trained so far on a share ``alpha`` of the rows,
    as the changes since the last estimate show.

    Parameters
    ----------
    params : dict, booster or scikit-learn estimator
        Training parameters, as for `lightgbm.train` (with ``boosting="rf"``) or `xgboost.train` (`grow` finds the
        number of parallel trees). Or an estimator (`LGBMClassifier`, `XGBRegressor`, `RandomForestClassifier`,
        `BaggingRegressor`, …), which is not changed. Or a finished forest, which gets more trees with new bags. Give
        the labels and weights of its training: rfsize cannot check them.
    data : lightgbm.Dataset, xgboost.DMatrix or QuantileDMatrix
        Training data. A `Dataset` must hold its rows, which LightGBM drops once it has binned them, unless you make it
        with ``free_raw_data=False``. For an estimator, the rows that its ``fit`` takes.
    y : array_like, shape (n_rows,), optional
        Labels; only for an estimator.
    validation : rows, or a pair (rows, y), optional
        Rows that the forest is not trained on. T* is then estimated from them, and not from out-of-bag votes. A metric
        needs their y. The ``missing`` value of ``data`` means missing in these rows too, unless they are a `DMatrix`.
    metric, alpha, tolerance, average, voting
        What must stay the same as in an unlimited forest, as in `size`. Where you name nothing, each estimate decides
        anew between labels and probabilities, and ``report`` says by which the training ended.
    threshold : float, default 0.5
        Probability above which the label is class 1, for each tree and for the averaged scores. Only for labels of two
        classes.
    confidence : float, default 0.8
        How sure it must be that the forest has T* trees, at least 0.5, because the first trees may agree with each
        other by luck. The forest gets ``report.upper(confidence)`` trees. With 0.5 it gets T* trees, or more if the
        labels of T* trees still changed.
    max_trees : int, optional
        The most trees to train. By default 5000, or the number of trees of an unfitted estimator if you set another one
        than its default (``n_estimators``; of `XGBClassifier` and `XGBRegressor` ``num_parallel_tree``).
    min_trees : int, default 100
        Number of trees before the first estimate, or ``max_trees`` if that is fewer.
    init_model : booster, optional
        A finished forest to add trees to, if it does not store its parameters (an XGBoost model loaded from a file).
        Give the parameters as ``params``.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, as in `tree_outputs`. By default rfsize looks for copies if the training
        data hold their rows, which a `QuantileDMatrix` does not. If they do not, the report says so.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights; only for an estimator.

    Returns
    -------
    booster or estimator
        A new model of ``report.n_kept`` trees, or more if you gave a finished forest that had more. It predicts the
        mean of its trees. XGBoost trees are trained in blocks and merged into one booster. A scikit-learn ensemble with
        a fixed ``random_state`` equals a single fit with the same number of trees, but has no ``oob_score_``.
    report : Report
        The estimate that ended the training.

    Raises
    ------
    NotAForestError
        If the parameters or the model are not those of a forest of independent trees.
    InbagError
        If the bags cannot be rebuilt and proven. Size such a forest by cross-validation: `tree_outputs` with ``cv``.
    FewVotesError
        If the training rows get too few out-of-bag votes to size a forest.
    ValueError
        If an argument does not fit.

    Warns
    -----
    NotConvergedWarning
        If ``max_trees`` trees are fewer than T*, or too few to be sure of it. The forest then has ``max_trees`` trees.
    LabelsOnlyWarning
        As in `truncate`.
    ForestWarning
        As in `size`.

    See Also
    --------
    SizeCallback : Stop LightGBM's training in time.
    RightSizedClassifier : Train to size inside scikit-learn's pipelines.
    size : See how many trees are enough.

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
    >>> forest, report = rfsize.grow(RandomForestClassifier(random_state=0), X, y, alpha=0.95)
    >>> report.n_trees <= len(forest.estimators_) == report.n_kept
    True
    """
    of_labels: dict[str, Any] = {"alpha": alpha, "average": average, "voting": voting}
    criterion = make_criterion(metric, tolerance, confidence=confidence, threshold=threshold, **of_labels)
    rule = StoppingRule(min_trees, most_trees(params) if max_trees is None else max_trees)
    X_val, y_val = validation if isinstance(validation, tuple) and len(validation) == 2 else (validation, None)
    if X_val is not None:
        refuse_unused("every tree votes on the validation rows", groups=groups)
        if y_val is None and criterion.kind == "metric":
            raise ValueError(f"y is missing: metric={metric!r} needs validation=(rows, y)")
    threshold = share("threshold", 0.5 if threshold is None else threshold)
    given: dict[str, Any] = {"threshold": threshold, "groups": groups, "validation": (X_val, y_val)}
    if hasattr(params, "fit"):
        refuse_unused("new trees are added to the fitted estimator", init_model=init_model)
        growth = start_from_estimator(params, data, y, criterion, rule.next_size, sample_weight=sample_weight, **given)
    else:
        refuse_unused("the Dataset or DMatrix has its own", ", or give an estimator", y=y, sample_weight=sample_weight)
        growth = _from_parameters(params, data, criterion, init_model=init_model, **given)
    if X_val is None:
        return grow_until_enough(growth, rule)
    is_as_trained = hasattr(params, "fit") or framework_of(X_val) is not None  # and so stores its missing value
    missing = None if is_as_trained else training_of(data).missing_in(data)

    def on_validation(model: Any) -> Task:
        return Task.checked(read_forest(model, missing=missing), X_val, threshold=threshold)

    return grow_until_enough(growth, rule, on_validation, y_val)


def most_trees(params: Any) -> int:
    """The most trees to train if the user does not say: as many as an unfitted estimator is set to train."""
    if not hasattr(params, "fit"):
        return _MOST_TREES
    # Here, because scikit-learn takes long to import.
    from rfsize.models.estimators import chosen_tree_count

    return chosen_tree_count(params) or _MOST_TREES


@dataclass(frozen=True)
class Growth:
    """A forest in training, and what it must be large enough for.

    Attributes
    ----------
    criterion : Criterion
        What the forest must be large enough for, checked.
    forest : ForestInTraining
    y : array_like, shape (n_rows,), or None
        Labels or numbers of the training rows, with the class labels of the forest.
    sample_weight : array_like, shape (n_rows,), or None
    as_model : callable
        Turns the booster into a model of the caller's type.
    n_given : int
        Number of trees of the finished forest that training began with; 0 if there was none.
    task : callable or None
        Reads the forest so far with the training rows and their bags; None if the training data do not hold their rows.
    """

    criterion: Criterion
    forest: ForestInTraining
    y: ArrayLike | None
    sample_weight: ArrayLike | None
    as_model: Callable[[Any], Any] = lambda booster: booster
    n_given: int = 0
    task: Callable[[], Task] | None = None


def checked_criterion(criterion: Criterion, classes: NDArray[Any], y: Any, sample_weight: Any) -> Criterion:
    """The criterion for these classes (none: regression); raises if it does not fit the labels or numbers."""
    criterion = resolve(criterion, len(classes), in_training=True)
    if criterion.kind == "metric":
        predictor = Predictor(classes, Link("identity"))
        check_direction(metric_on_rows(criterion.metric, predictor, len(y), y, sample_weight))
    return criterion


def _check_validation(validation: tuple[Any, Any], X: Any, classes: NDArray[Any], forest: Forest | None) -> None:
    """Raise ``ValueError`` if rows to size on, or their labels, do not fit a forest, or if None the training rows."""
    rows, y = validation
    if rows is not None and forest is not None:
        Task.checked(forest, rows, y, check=check_truth)
    elif rows is not None and not lies_elsewhere(rows):
        frame = frame_of(X)
        columns = Columns(None if frame is None else [str(name) for name in frame.columns], np.shape(X)[-1])
        checked_truth(None, classes, open_rows(rows, columns).n_rows, y, None)


def _from_parameters(
    params: Any, data: Any, criterion: Criterion, *, validation: Any, threshold: float, groups: Any, init_model: Any
) -> Growth:
    """Begin from training parameters, or from a finished booster; arguments as in `grow`."""
    if not isinstance(params, dict):
        if init_model is not None:
            raise ValueError("with init_model, params must be the training parameters, a dict")
        params, init_model = training_of(params).params_of(params), params
    training = training_of(data)
    X = training.rows_of(data)
    trainer = training.trainer(params, data)
    criterion = checked_criterion(criterion, trainer.classes, trainer.label, trainer.weight)
    _check_validation(validation, X, trainer.classes, trainer.forest)
    trainer.threshold, trainer.groups = threshold, resolve_groups(groups, X, len(trainer.label))
    forest = trainer.start() if init_model is None else trainer.resume(init_model)
    task = None if X is None else _reads_task(forest, trainer, X)
    return Growth(criterion, forest, trainer.label, trainer.weight, n_given=forest.n_trees, task=task)


def start_from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    criterion: Criterion,
    min_trees: int,
    *,
    threshold: float,
    groups: Any,
    sample_weight: Any,
    validation: tuple[Any, Any] = (None, None),
) -> Growth:
    """Begin from a fitted estimator, or train one to ``min_trees`` trees; arguments as in `grow`."""
    if y is None:
        raise ValueError("y is missing: an estimator is grown from X and y, as it is fitted")
    # Here, because scikit-learn takes long to import.
    from sklearn.exceptions import NotFittedError

    from rfsize.models.estimators import checked_target, is_regression, of_size

    training, fitted = training_of(estimator), None
    try:
        fitted = read_forest(estimator)
    except NotFittedError:
        training.check_estimator(estimator)
    X = for_training(X)
    n_rows = n_rows_of(X)
    classes, _ = checked_target(y, n_rows, of_labels=not is_regression(estimator))
    sample_weight = None if sample_weight is None else sample_weights(sample_weight, n_rows)
    check_groups(groups, n_rows)
    criterion = checked_criterion(criterion, classes, y, sample_weight)
    _check_validation(validation, X, classes, fitted)
    n_given = 0 if fitted is None else fitted.n_trees
    if fitted is None:
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        fitted = read_forest(of_size(estimator, min_trees).fit(X, y, **weighted))
    if fitted.wrapper is not None:
        raise NotAForestError(
            f"found a {fitted.wrapper.kind}, and rfsize adds trees to a forest itself: fit it with a larger alpha, or "
            "give the forest in it, model.estimator_, or of a Pipeline pipeline[-1] with pipeline[:-1].transform(X)"
        )
    threshold = fitted.checked_threshold(threshold)
    fitted.open(X)
    trainer = training.trainer_of(fitted, X, y, sample_weight)
    trainer.threshold, trainer.groups = threshold, resolve_groups(groups, X, n_rows)
    forest = trainer.resume(fitted.booster)
    forest.classes = fitted.classes if len(fitted.classes) else None
    return Growth(criterion, forest, y, sample_weight, fitted.with_booster, n_given, _reads_task(forest, trainer, X))


def _reads_task(forest: ForestInTraining, trainer: Trainer, X: Any) -> Callable[[], Task]:
    def task() -> Task:
        options: dict[str, Any] = {"threshold": trainer.threshold, "sample_weight": trainer.weight, "groups": "rows"}
        return replace(Task.checked(forest.booster(), X, trainer.label, oob=True, **options), groups=trainer.groups)

    return task


def grow_until_enough(
    growth: Growth, rule: StoppingRule, on_validation: Callable[[Any], Task] | None = None, y_val: Any = None
) -> tuple[Any, Report]:
    """Train until the forest is large enough; return the model, and the report that ended the training.

    The forest is sized out of bag. With ``on_validation`` it is sized on validation rows with the labels ``y_val``.
    """
    forest = growth.forest

    def estimate() -> Report:
        if on_validation is None:
            return _oob_report(growth, max(rule.max_trees, forest.n_trees))
        outputs = outputs_of(on_validation(growth.as_model(forest.booster()))).with_truth(y_val)
        return make_report(outputs, growth.criterion, interval=False)

    report = None
    with progress_bar("growing", rule.max_trees, "trees", initial=forest.n_trees) as bar:
        while report is None or not rule.done:
            more = rule.next_size - forest.n_trees
            if more > 0:
                forest.add(more)
                bar.update(more)
            report = rule.update(forest.n_trees, estimate)
    report = completed(report)
    if on_validation is None:
        report = with_warnings(report, *warning_of_copies(forest.groups))
    else:
        task = on_validation(growth.as_model(forest.booster()))
        report = with_warnings(report, *warning_of_training_rows(replace(task, y=y_val)))
    give(report.warnings)
    grown = read_forest(forest.booster())
    model = growth.as_model(grown.first(max(report.n_kept, growth.n_given)))
    # These warnings were given before the training.
    return model, with_warnings(report, *dependence_of(grown), *learning_rate_of(grown))


def _oob_report(growth: Growth, max_trees: int) -> Report:
    """The estimate from out-of-bag votes; `FewVotesError` if ``max_trees`` trees would have too few of them."""
    outputs = outputs_in_training(growth.forest).with_truth(growth.y, growth.sample_weight)
    _check_votes_to_come(coverage(distinct(outputs)), max_trees)
    return make_report(outputs, with_defaults(growth.criterion, outputs, growth.task), interval=False)


def _check_votes_to_come(votes: Coverage, max_trees: int) -> None:
    """Raise `FewVotesError` if even ``max_trees`` trees leave too few votes, or large groups without votes."""
    share_of_votes, sizes = votes.n_votes.mean() / votes.n_trees, votes.groups.sizes
    # If only the trees so far are too few, the report says how many trees have enough votes.
    if share_of_votes < FEW_OUT_OF_BAG and share_of_votes * max_trees < FEWEST_VOTES:
        raise FewVotesError(str(few_votes(share_of_votes * max_trees, max_trees, "how many trees are enough")))
    if sizes is None:
        return
    smallest = sizes.min()
    left_out = (votes.n_votes[sizes == smallest].mean() / votes.n_trees) ** (1.0 / smallest)
    without = float(np.sum((1.0 - left_out**sizes) ** max_trees))
    if too_many_without_votes(round(without), len(sizes)):
        raise FewVotesError(
            f"{how_many(max_trees, 'tree')} would leave {in_percent(without / len(sizes))} of the rows without votes, "
            f"because every tree sees some row of their groups of up to {sizes.max()} rows: train with a smaller "
            f"bagging fraction, or give validation rows{by_nature_advice(votes.groups.by)}"
        )
