"""What a forest loses out of bag where columns are permuted."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from rfsize.adapters.base import dependence_of, shrinking_of
from rfsize.importance.columns import ColumnSets, ColumnsLike
from rfsize.importance.importances import Importances, columns_of
from rfsize.importance.of_forest import lost_by_forest
from rfsize.importance.of_trees import is_of_trees, lost_by_trees
from rfsize.importance.permuted import PermutedRows
from rfsize.sizing.named_metrics import MetricLike, check_direction, judge_of
from rfsize.sizing.oob_score import known_out_of_bag
from rfsize.sizing.words import metric_in_words
from rfsize.utils import matrix
from rfsize.utils.warn import give


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

    You need no held-out rows, and nothing is trained again: each training row asks the trees that did not see it. The
    result also shows how the importances would differ with another seed.

    Parameters
    ----------
    model
        As in `tree_outputs`, of trees; or tree outputs of ``oob=True``, which have their rows. Weights, seeds and the
        threshold are given there.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training, in memory.
    y : array_like, shape (n_rows,)
        Labels or numbers of the rows, as at training.
    metric : str or scorer, optional
        "accuracy" (the default of classes), "brier", "log_loss", of two classes also "auc" and "average_precision";
        "r2" (the default of numbers), "mae", "rmse"; or a scorer of scikit-learn's. Accuracy, Brier score, R² and mean
        absolute error are those of single trees, on average over the trees, where one tree has them: not in LightGBM
        and XGBoost with more than two classes, whose classes have trees of their own. All others are those of the
        whole forest's averaged predictions.
    groups
        As in `tree_outputs`. Intervals take rows of a group as one draw.
    columns : list of str or int, or dict of str to such lists, optional
        Which columns to permute, by name or number; all by default. A dict names sets of columns, each of which is
        permuted as a whole: ``{"place": ["latitude", "longitude"]}``.

    Returns
    -------
    Importances
        For each column the loss with a 95 % interval, the rank and the ranks it may have, and whether it may be noise.

    Raises
    ------
    FewVotesError
        If less than ten trees were asked about a row on average, as in `oob_score`.
    NotAForestError, InbagError
        As by `oob_predict_proba`; or if members are no trees.
    ValueError
        If ``y`` is missing, ``X``, the metric or ``columns`` do not fit, or rows lie in pieces or on workers.

    See Also
    --------
    oob_score : Score a forest without held-out rows.

    Notes
    -----
    Tree by tree it is the importance of Breiman [1]_: the mean over trees t of
    :math:`v_{tj} = |O_t|^{-1} \\sum_{i \\in O_t} [L_t(x_i^{(j)}, y_i) - L_t(x_i, y_i)]`, where O_t are the rows out of
    the bag of t, and row i has in :math:`x_i^{(j)}` the values of column j of another row of O_t. Each tree has a
    permutation of its own, so that the noise of permutations falls with the number of trees. Metrics of the whole
    forest take one permutation for all trees, since each row is then one row with other values.

    The interval adds two variances: of the trees, by the scatter of :math:`v_{tj}` (of the whole forest by the
    jackknife over 20 blocks of trees); and of the rows, by what pairs with a row in common add. It is of this forest's
    way of training on these rows; how importances differ from one training set to another is not in it. A column whose
    information others have too loses little by itself: permute such columns as a set.

    Memory: a byte for each row and tree, two for each row and column, the rows as floats where they are not, and some
    hundred megabytes.

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
    forest = outputs.asked_again
    labels_at = outputs.asked_again.predictor.threshold if judge.name == "accuracy" else None
    give(shrinking_of(forest.adapter, labels_at=labels_at))
    outputs.by_averages().check(f"what the {metric_in_words(judge.name)} loses", of_these_trees=True)
    # By the names that you gave, which a framework may have changed.
    names = matrix.names_of(forest.X) or forest.adapter.feature_names
    sets = ColumnSets(columns, names, forest.adapter.n_features)
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
        _cautions=dependence_of(forest.adapter),
    )
