"""Public functions: the trees' outputs on your rows, and the rows that each tree was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import give, refuse_unused
from rfsize.counting.collect import collect_outputs
from rfsize.counting.outputs import NO_VOTES, TreeOutputs, warnings_for
from rfsize.counting.predictions import check_fill
from rfsize.counting.task import Task, check_truth, inbag_mask
from rfsize.exceptions import NotAForestError


def tree_outputs(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    oob: bool = False,
    cv: Any = None,
    groups: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
    threshold: float | None = None,
) -> TreeOutputs:
    """Send your rows down all trees once, and use the outputs for several questions.

    Each tree votes for the class that it predicts. With two classes, a tree votes for class 1 if its probability
    exceeds ``threshold``. With more classes, the trees of one iteration vote together, for the class with the highest
    score. Ties go to the lowest class index.

    Parameters
    ----------
    model : booster or estimator
        A trained forest: `lightgbm.Booster`, `LGBMClassifier` or `LGBMRegressor`, `xgboost.Booster`, `XGBClassifier` or
        `XGBRegressor`, scikit-learn's forests, `BaggingClassifier` and `BaggingRegressor` over any learner, or a
        `RightSizedClassifier` or `RightSizedRegressor`; or a fitted `Pipeline` that ends with one, whose other steps
        transform ``X``. With ``cv``: an estimator, which rfsize copies and fits.
    X : array_like, DataFrame, SciPy sparse matrix, Arrow table or Dask collection, shape (n_rows, n_features)
        Rows that the forest was not trained on; or, with ``oob``, all training rows in the order of training; or, with
        ``cv``, rows to train on. Rows may also come in pieces: a list of such tables, the path of a Parquet file or
        folder, a `lightgbm.Sequence`, an `xgboost.DataIter`. Each piece is checked as a table is. Rows on Dask's
        workers stay there; see `rfsize.dask.rows`.
    y : array_like, shape (n_rows,), optional
        Labels or numbers of the rows, as at training, for metrics. With ``oob`` they also help to prove the bags;
        balanced bagging and ``scale_pos_weight`` need them, see `inbag`. With ``cv`` the estimator is fitted on them.
    oob : bool, default False
        Count on each row only the trees that did not see it in training. rfsize rebuilds each tree's bag (the rows
        that it was trained on) from the model's seed and proves it, see `inbag`. In bagging over learners other than
        trees nothing proves the order of the rows: make sure that it is the order of training.
    cv : int, splitter or iterable of (train, held out) pairs, optional
        Cross-validation, as in `sklearn.model_selection.cross_validate`: for each fold, rfsize trains a forest on the
        other folds, and all of its trees vote on the rows of this fold. Use it if no row is out of bag, or if the
        bags cannot be rebuilt (a GPU, whole queries, rows sampled by gradient, no bagging at all). An int makes
        stratified folds. Strictly, the sizes hold for forests trained on the rows of all folds but one.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, such as all rows of one patient: a label for each row. Only with ``oob`` or
        ``cv``. A tree that saw one row of a group votes on no row of this group, and a fold holds out all rows of a
        group or none. "copies" groups identical rows, and each group counts once in sizes: take it if rows were
        repeated or oversampled before the training. "rows" makes no groups: take it if equal rows are different cases,
        as with few distinct values, since fresh rows then have copies too. By default each row counts as it is, and a
        warning tells the share of rows with copies.
    sample_weight : array_like, shape (n_rows,), optional
        Weights of the rows in metrics; they need ``y``. With ``oob`` they are also the training weights, as in `inbag`.
        With ``cv`` the estimator is fitted with them.
    seed, subsample
        See `inbag`; only with ``oob``.
    missing : float, optional
        Value in ``X`` that means missing, besides NaN. For an `xgboost.Booster`, give the ``missing`` of the `DMatrix`
        that it was trained on, since a Booster does not keep it. Estimators and other frameworks keep their own value.
    threshold : float, optional
        Probability above which a tree votes for class 1; two classes only. By default 0.5, or the threshold of a
        `RightSizedClassifier`.

    Returns
    -------
    TreeOutputs
        Votes, scores, and sums over parts of the forest. They take about 40 bytes a row with two classes, more with
        more classes, plus at most 400 MB. A row has no votes if every tree saw it or another row of its group, or if no
        fold holds it out.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, or, with ``cv``, does not train such a forest.
    InbagError
        If ``oob`` is set and the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit, or folds share rows.

    Warns
    -----
    TrainingRowsWarning
        If ``X`` holds the training rows, and ``oob`` is not set.
    ForestWarning
        If training rows have copies, and ``groups`` does not say what they are; or if the trees are not independent
        draws.

    See Also
    --------
    size : See how many trees are enough.
    oob_score : Score a forest without held-out rows.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> outputs = rfsize.tree_outputs(forest, X, y, oob=True)
    >>> outputs.votes
    Votes(569 rows, 2 classes, 100 trees)
    >>> 30 < float(outputs.votes.n_votes.mean()) < 44  # a bag leaves out about 37 % of the rows
    True
    >>> report = rfsize.size(outputs, alpha=0.95)
    >>> table = rfsize.StopTable.build(outputs.n_trees, prior=outputs)

    By cross-validation, which trains a forest for each fold:

    >>> rfsize.tree_outputs(RandomForestClassifier(20, random_state=0), X, y, cv=3)
    TreeOutputs(569 rows (cross-validation), 2 classes, 20 trees)
    """
    if cv is not None:
        # Here, because scikit-learn takes long to import.
        from rfsize.counting.cross_validation import cross_validated

        why = "with cv, forests vote on rows that they were not trained on, so there are no bags"
        refuse_unused(why, oob=oob or None, seed=seed, subsample=subsample, missing=missing)
        at = 0.5 if threshold is None else threshold
        outputs = cross_validated(model, X, y, cv, groups=groups, sample_weight=sample_weight, threshold=at)
    else:
        of_bags: dict[str, Any] = {"seed": seed, "subsample": subsample, "sample_weight": sample_weight}
        options: dict[str, Any] = {"missing": missing, "threshold": threshold, "groups": groups}
        outputs = collect_outputs(
            Task.checked(model, X, y, oob=oob, check=check_truth, **options, **of_bags), means=True
        )
    give(warnings_for(outputs, of_labels=True))
    return outputs


def inbag(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    missing: float | None = None,
) -> NDArray[np.bool_]:
    """Rebuild the rows that each tree was trained on from the model's seed, and prove them.

    The proof compares the rebuilt rows in every leaf of every tree with what the framework stored there. LightGBM
    stored the number of in-bag rows in ``leaf_count``, scikit-learn in ``n_node_samples``, and XGBoost a sum over these
    rows in ``sum_hessian``. Bagging over other learners stores nothing to compare with: rfsize has scikit-learn draw
    the samples again, and checks only that ``X`` has as many rows as the training. Counts do not show whether leaves
    were changed after training (``Booster.refit``, edited files), and such leaves may know every row.

    Parameters
    ----------
    model
        As in `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y : array_like, shape (n_rows,), optional
        Training labels, needed if the bags or the proof depend on them: LightGBM's balanced bagging, XGBoost's
        ``scale_pos_weight``.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights, if there were any. The proof of XGBoost's bags needs them, and so do the bags of scikit-learn
        from 1.9 on.
    seed, subsample : int and float, optional
        Needed for an XGBoost model loaded from a file, since the file does not keep them.
    missing : float, optional
        As in `tree_outputs`.

    Returns
    -------
    ndarray of bool, shape (n_trees, n_rows)
        True where the row was in the tree's bag. In a multiclass forest of K classes, where K trees vote together: True
        where the row was in the bag of any of the K trees.

    Raises
    ------
    InbagError
        If the bags cannot be rebuilt, or the proof fails. The message says what failed, and what to do instead.
    NotAForestError
        If the model is not a forest of independent trees.

    See Also
    --------
    tree_outputs : Count only the votes of trees that did not see a row.
    oob_score : Score a forest out of bag.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> bags = rfsize.inbag(forest, X)
    >>> bags.shape
    (50, 569)

    Rows in another order fail the proof:

    >>> rfsize.inbag(forest, X[::-1])
    Traceback (most recent call last):
        ...
    rfsize.exceptions.InbagError: ...
    """
    of_bags: dict[str, Any] = {"seed": seed, "subsample": subsample, "sample_weight": sample_weight}
    return inbag_mask(Task.checked(model, X, y, oob=True, missing=missing, groups="rows", check=check_truth, **of_bags))


def oob_predict_proba(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: float | None = None,
) -> NDArray[np.float64]:
    """Predict probabilities of each training row with the trees that did not see it (out of bag).

    For scikit-learn's forests, the result equals ``oob_decision_function_``. LightGBM and XGBoost offer no out-of-bag
    probabilities; rfsize computes them from the finished model and its training rows. This call is short for
    ``rfsize.tree_outputs(model, X, y, oob=True, groups=groups).predict_proba(fill)``. Write the long form if you need
    to give weights or seeds.

    Parameters
    ----------
    model
        As in `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y, groups
        As in `tree_outputs`. scikit-learn itself does not group copies of rows; nor does ``groups="rows"``.
    fill : float, optional
        Probability for rows that every tree saw; NaN by default.

    Returns
    -------
    ndarray of float, shape (n_rows, n_classes)
        In the order of the model's classes.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, such as gradient boosting.
    InbagError
        If the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit, or the model is a regression forest.

    Warns
    -----
    ForestWarning
        If some rows were seen by every tree, or if the rows of a class have so few votes that a score of the
        predictions would mislead.

    See Also
    --------
    oob_predict : Predict the training rows out of bag.
    oob_score : Score a forest without held-out rows.

    Notes
    -----
    XGBoost draws separate bags for the trees of each class. The score of a class is the mean over the trees of this
    class that did not see the row.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import XGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = XGBClassifier(
    ...     n_estimators=1, num_parallel_tree=100, learning_rate=1, subsample=0.5, colsample_bynode=0.3, random_state=0
    ... ).fit(X, y)
    >>> probability = rfsize.oob_predict_proba(forest, X)
    >>> probability.shape
    (569, 2)
    >>> bool(probability[y == 1, 1].mean() > 0.8)
    True
    """
    return _out_of_bag(model, X, y, groups, fill, of_classes=True).predict_proba(fill)


def oob_predict(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: Any = None,
) -> NDArray[Any]:
    """Predict each training row with the trees that did not see it (out of bag).

    You get what the model's own ``predict`` gives: labels or numbers from an estimator, probabilities from a Booster.
    For scikit-learn's regression forests, the predictions equal ``oob_prediction_``.

    Parameters
    ----------
    model, X, y, groups
        As in `oob_predict_proba`; or a regression forest.
    fill : label or number, optional
        Prediction for rows that every tree saw, such as -1 or one of the labels. By default these rows get NaN; if
        labels are predicted, they cause an error. XGBoost forests always have such rows, since XGBoost puts two rows of
        its own choice into every bag.

    Returns
    -------
    ndarray, shape (n_rows,) or (n_rows, n_classes)
        For a classifier: the label with the highest averaged probability. For a `Booster` of two classes: the
        probability of class 1; of more classes: the probabilities of all classes, or labels as floats if XGBoost was
        trained with ``multi:softmax``. For a regression forest: numbers.

    Raises
    ------
    FewVotesError
        If labels are predicted, some rows were seen by every tree, and you gave no ``fill``.
    NotAForestError, InbagError, ValueError
        As in `oob_predict_proba`.

    Warns
    -----
    ForestWarning
        As in `oob_predict_proba`.

    See Also
    --------
    oob_predict_proba : Predict probabilities of the training rows out of bag.
    oob_score : Score a forest without held-out rows.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    >>> label = rfsize.oob_predict(forest, X)
    >>> bool((label == y).mean() == forest.oob_score_)
    True
    """
    return _out_of_bag(model, X, y, groups, fill).predict(fill)


def _out_of_bag(model: Any, X: Any, y: Any, groups: Any, fill: Any, *, of_classes: bool = False) -> TreeOutputs:
    """The outputs of training rows; ``of_classes`` if each class is to be predicted, and not as ``predict`` does."""

    def check(task: Task) -> None:
        check_truth(task)
        if of_classes and not task.forest.classes.size:
            raise NotAForestError(NO_VOTES)
        check_fill(np.zeros(1) if of_classes or task.forest.output != "labels" else task.forest.classes, fill)

    return collect_outputs(Task.checked(model, X, y, oob=True, groups=groups, check=check), means=True)
