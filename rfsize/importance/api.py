"""oob_importance: how much worse a forest predicts out-of-bag rows after a column is shuffled."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from rfsize._util import give
from rfsize.counting.groups import warning_of_copies
from rfsize.counting.outputs import coverage_of_means, task_of
from rfsize.counting.task import Task
from rfsize.importance.columns import ColumnSets, ColumnsLike
from rfsize.importance.importances import Importances, columns_of
from rfsize.importance.of_forest import lost_by_forest
from rfsize.importance.of_trees import is_of_trees, lost_by_trees
from rfsize.importance.permuted import PermutedRows
from rfsize.models.columns import places_of
from rfsize.models.model import dependence_of, learning_rate_of
from rfsize.models.rows import Rows
from rfsize.sizing.named_metrics import MetricLike, check_direction, judge_of
from rfsize.sizing.oob_score import known_out_of_bag
from rfsize.sizing.words import metric_in_words


def oob_importance(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    metric: MetricLike | None = None,
    groups: ArrayLike | str | None = None,
    columns: ColumnsLike | None = None,
) -> Importances:
    """Permutation importances out of bag: how much worse the forest becomes when you shuffle a column.

    You need no held-out rows, and rfsize trains nothing again: each training row asks only the trees that were not
    trained on it. The result also shows how the importances would differ with another seed.

    Parameters
    ----------
    model
        The trained model, as in `tree_outputs`; its members must be trees. Or the result of `tree_outputs` with
        ``oob=True``, without ``X`` and ``y``; give weights, seeds and the threshold there.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training, in memory.
    y : array_like, shape (n_rows,)
        Labels or numbers of the rows, as in training.
    metric : str or scorer, optional
        Classification: "accuracy" (the default), "brier" or "log_loss", for two classes also "auc" and
        "average_precision". Regression: "r2" (the default), "mae" or "rmse". Or a scorer of scikit-learn. Accuracy,
        Brier score, R² and mean absolute error are measured on each tree and averaged over the trees. All others are
        measured on the whole forest's averaged predictions. LightGBM and XGBoost train a tree for each class if there
        are more than two, so there every metric is measured on the whole forest.
    groups
        As in `tree_outputs`. The intervals count the rows of a group as one draw.
    columns : list of str or int, or dict of str to such lists, optional
        Columns to shuffle, by name or number; all by default. A dict names sets of columns, and each set is shuffled
        as a whole: ``{"place": ["latitude", "longitude"]}``.

    Returns
    -------
    Importances
        For each column the loss with a 95 % interval, the rank, the ranks that the column may have, and whether the
        loss may be noise.

    Raises
    ------
    FewVotesError
        If fewer than ten trees were asked about a row on average, as in `oob_score`.
    NotAForestError, InbagError
        As in `oob_predict_proba`; or if the members of the model are not trees.
    ValueError
        If ``y`` is missing, if ``X``, the metric or ``columns`` do not fit the model, or if the rows lie in pieces or
        on workers.

    See Also
    --------
    oob_score : Score a forest without held-out rows.

    Notes
    -----
    For metrics of single trees, the result is Breiman's importance [1]_. It is the mean over trees t of
    :math:`v_{tj} = |O_t|^{-1} \\sum_{i \\in O_t} [L_t(x_i^{(j)}, y_i) - L_t(x_i, y_i)]`. Here L_t is the loss of tree
    t, and O_t are the rows that t was not trained on. :math:`x_i^{(j)}` is row i with the value of column j taken from
    another row of O_t. Each tree has its own permutation, so the noise of shuffling falls with the number of trees.
    Metrics of the whole forest use one permutation for all trees, because all trees must be asked about the same
    changed row.

    The interval adds the variances over trees and over rows. The variance over trees comes from the scatter of
    :math:`v_{tj}`, or for the whole forest from the jackknife over 20 blocks of trees. The variance over rows takes
    into account that pairs with a common row vary together. The interval holds for this way of training on these rows.
    It does not cover other training sets. If two columns hold the same information, each loses little by itself:
    shuffle them as a set.

    Memory: one byte per row and tree, two bytes per row and column, a copy of the rows as floats if they are not
    floats, and a few hundred megabytes.

    References
    ----------
    .. [1] L. Breiman (2001). "Random forests." Machine Learning 45(1), 5-32.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> importances = rfsize.oob_importance(forest, X, y)
    >>> importances.of, len(importances.columns)
    ('trees', 30)
    >>> sets = {"texture": ["mean texture", "worst texture"], "area": ["mean area", "worst area"]}
    >>> [one.name for one in rfsize.oob_importance(forest, X, y, metric="auc", columns=sets).columns]
    ['area', 'texture']
    """
    outputs = known_out_of_bag(model, X, y, groups)
    if metric is None:
        metric = "accuracy" if len(outputs.classes) else "r2"
    judge = judge_of(metric, outputs)
    check_direction(judge)
    task = task_of(outputs)
    labels_at = task.threshold if judge.name == "accuracy" else None
    give(learning_rate_of(task.forest, labels_at=labels_at))
    coverage_of_means(outputs).check(f"what the {metric_in_words(judge.name)} loses", of_these_trees=True)
    sets = ColumnSets(columns, _feature_names(task), task.forest.n_features)
    permuted = PermutedRows.of(outputs, sets)
    of_trees = is_of_trees(judge, outputs)
    measured = (lost_by_trees if of_trees else lost_by_forest)(permuted, judge)
    return Importances(
        columns=columns_of(sets.names, measured),
        metric=judge.name,
        of="trees" if of_trees else "forest",
        score=measured.score,
        available=outputs.n_trees,
        n_rows=measured.n_rows,
        votes_per_row=measured.votes_per_row,
        groups=outputs.groups.by,
        copied=outputs.groups.copied,
        _measured=measured,
        _cautions=(*dependence_of(task.forest), *warning_of_copies(outputs.groups)),
    )


def _feature_names(task: Task) -> list[str] | None:
    """Names of the features in the order of training, as X has them: a framework may have changed them."""
    rows = task.X
    if not isinstance(rows, Rows) or rows.names is None:
        return task.forest.feature_names
    names, told = rows.names, set(rows.names)
    places = None if rows.columns is None else places_of(names, rows.n_features, rows.columns, told=told)
    return names if places is None else [names[place] for place in places]
