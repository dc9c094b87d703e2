"""What trees say of given rows, and which rows they were trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.adapters.base import dependence_of
from rfsize.adapters.registry import adapter_for
from rfsize.counting.evidence import asked, asked_out_of_bag
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.utils.validation import refuse_unused
from rfsize.utils.warn import give


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
    max_memory: float | None = None,
) -> TreeOutputs:
    """Ask all trees about rows, once for all questions to come.

    A tree votes for the class that it would predict alone. For two classes that is class 1 where its probability
    exceeds ``threshold``; for more, the class of the highest score among the trees of one iteration. Ties go to the
    lowest class index.

    Parameters
    ----------
    model : booster or estimator
        A trained forest: `lightgbm.Booster`, `LGBMClassifier` or `LGBMRegressor`, `xgboost.Booster`, `XGBClassifier` or
        `XGBRegressor`, scikit-learn's forests, `BaggingClassifier` over any learner, `BaggingRegressor` over trees, or
        a `RightSizedClassifier` or `RightSizedRegressor`. With ``cv`` an estimator, of which copies are fitted, or a
        dict of parameters, as for `lightgbm.train` or `xgboost.train`, which name the number of trees
        (``num_iterations``, ``num_parallel_tree``).
    X : array_like, DataFrame, SciPy sparse matrix, Arrow table or Dask collection, shape (n_rows, n_features)
        Rows that the forest was not trained on; or, with ``oob``, all training rows in the order of training. Rows on
        Dask's workers are asked about there; `rfsize.dask.rows` says how they lay at the training. With ``cv`` rows to
        train on; beside parameters a `lightgbm.Dataset` or `xgboost.DMatrix`, which has labels and weights.
    y : array_like, shape (n_rows,), optional
        Labels or numbers of the rows, in the encoding of the model, for metrics. With ``oob`` also where the bags
        depend on them (balanced bagging, ``scale_pos_weight``); leaves are then compared with them, see `inbag`. With
        ``cv`` what an estimator is fitted on.
    oob : bool, default False
        Ask on each row only the trees that did not see it in training. The bags are rebuilt from the model's seed and
        proven, see `inbag`.
    cv : int, splitter or iterable of (train, held out) pairs, optional
        Cross-validation, as in `sklearn.model_selection.cross_validate`: a forest is trained without each fold, and all
        of its trees are asked about the rows of that fold. It does where no row is out of bag, or no bag can be rebuilt
        (a GPU, whole queries, rows sampled by gradient, no bagging at all), and takes as many trainings as folds. An
        int makes folds in which classes are in proportion. Sizes are, strictly, those of a forest that is trained on
        the rows of all folds but one.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, such as those of one patient, by a label for each; only with ``oob`` or
        ``cv``. A tree that saw a row of a group says nothing new of the others, and does not vote on them; a fold holds
        out all rows of a group, or none. "copies" makes groups of identical rows, of which each counts once in sizes;
        "rows" leaves each row alone. By default copies are looked for. They are groups where they are repetitions: rows
        with copies, but without neighbours, which agree on half of the columns. Where copies come by nature, as rows of
        few values do, fresh rows have copies too, and rows stand alone; so they do where it is not clear, as of popular
        rows.
    sample_weight : array_like, shape (n_rows,), optional
        Weights of the rows in metrics, which need ``y``; with ``oob`` also as in `inbag`, and with ``cv`` an estimator
        is fitted with them.
    seed, subsample
        See `inbag`; only with ``oob``.
    missing : float, optional
        Value of ``X`` that means missing, besides NaN: the ``missing`` of the `DMatrix` that an `xgboost.Booster`
        was trained on, which the Booster does not keep. Classifiers and the other frameworks keep their own.
    threshold : float, optional
        Probability of class 1 above which a tree votes for it; two classes only. By default 0.5, or that of a
        `RightSizedClassifier`.
    max_memory : float, optional
        Bytes that may be taken beside the model and rows that are in memory, such as ``2e9``; more is refused before
        it begins. No limit by default.

    Returns
    -------
    TreeOutputs
        Votes, scores, and sums by parts of the forest. They hold about 40 bytes a row where one score tells two
        classes, more where there are more classes, and besides at most 400 MB; see `TreeOutputs.nbytes`. A row that
        every tree saw, or another of its group, or that no fold holds out, has no votes.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, or with ``cv`` trains none.
    InbagError
        If ``oob`` and the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit, or folds share rows; or the rows may take more memory than ``max_memory``.

    Warns
    -----
    TrainingRowsWarning
        If ``X`` are the training rows, and ``oob`` is not given.
    SharedBagsWarning, SeedDependenceWarning
        If trees are no independent draws.

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
    >>> 30 < float(outputs.votes.asked.mean()) < 44  # a bag leaves out about 37 % of the rows
    True
    >>> report = rfsize.size(outputs, alpha=0.95)
    >>> table = rfsize.StopTable.build(outputs.n_trees, prior=outputs)

    By cross-validation, of forests that are yet to be trained:

    >>> rfsize.tree_outputs(RandomForestClassifier(20, random_state=0), X, y, cv=3)
    TreeOutputs(569 rows (cross-validation), 2 classes, 20 trees)
    >>> from lightgbm import Dataset
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1, "verbosity": -1}
    >>> outputs = rfsize.tree_outputs(params | {"num_iterations": 20}, Dataset(X, y), cv=3)
    >>> set(outputs.votes.asked.tolist())
    {20}
    """
    if cv is not None:
        refuse_unused(
            "with cv, forests vote on rows that they were not trained on, so that there are no bags "
            "to rebuild, and X is read as the training reads it. Leave it out, or leave out cv",
            oob=oob or None,
            seed=seed,
            subsample=subsample,
            missing=missing,
            max_memory=max_memory,
        )
        # Here, because scikit-learn takes long to import.
        from rfsize.counting.cross_validation import cross_validated

        at = 0.5 if threshold is None else threshold
        evidence = cross_validated(model, X, y, cv, groups=groups, sample_weight=sample_weight, threshold=at)
        give((*evidence.noted, *evidence.cautions(of_labels=True)))
        return TreeOutputs(evidence)
    adapter = adapter_for(model, casts_votes=False)
    options: dict[str, Any] = {"y": y, "sample_weight": sample_weight} if oob else {}
    options |= {"seed": seed, "subsample": subsample, "groups": groups, "missing": missing, "max_memory": max_memory}
    forest = ForestOnRows.of(adapter, X, oob=oob, threshold=threshold, **options)
    give(dependence_of(adapter))
    evidence = asked(forest, y, sample_weight, keeps="all")
    give(evidence.noted)
    return TreeOutputs(evidence)


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
    """The rows that each tree was trained on, rebuilt from the model's seed and proven.

    The proof: in every leaf of every tree, the rebuilt in-bag rows that reach it must be as many as LightGBM stored in
    ``leaf_count`` or scikit-learn in ``n_node_samples``, or sum to the hessian that XGBoost stored in
    ``sum_hessian``. Bagging over learners that are no trees stores nothing of the kind; for as many rows as it was
    trained on, the samples are then what scikit-learn draws again. Counts cannot tell leaves that were changed after
    training (``Booster.refit``, edited files), which may know every row: with ``y`` the leaves are compared with what
    their bags make of the labels, where that is simple to say (see "Bags and their proof").

    Parameters
    ----------
    model
        As in `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y : array_like, shape (n_rows,), optional
        Training labels, needed where the bags or the proof depend on them: LightGBM's balanced bagging,
        XGBoost's ``scale_pos_weight``. Where they are given, leaves of LightGBM and scikit-learn that were changed
        after training are refused.
    sample_weight : array_like, shape (n_rows,), optional
        Training weights, where XGBoost had any: its hessians contain them. Of other frameworks only for the comparison
        of leaves with labels.
    seed, subsample : int and float, optional
        For an XGBoost model loaded from a file, which does not keep them.
    missing : float, optional
        As in `tree_outputs`.

    Returns
    -------
    ndarray of bool, shape (n_trees, n_rows)
        True where the row was in the bag; for a multiclass forest, in that of any of the K trees that cast
        the vote together.

    Raises
    ------
    InbagError
        If the bags cannot be rebuilt, or the proof fails; it says where, and what to do instead.
    NotAForestError
        If the model is not a forest of independent trees.

    See Also
    --------
    tree_outputs : Ask only the trees that did not see a row.
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
    bags: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    return ForestOnRows.of(model, X, y, oob=True, missing=missing, groups="rows", **bags).inbag()


def oob_predict_proba(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: float | None = None,
) -> NDArray[np.float64]:
    """Out-of-bag probabilities: of each training row by the trees that did not see it, averaged as the model does.

    Of scikit-learn's forests these are its ``oob_decision_function_``. LightGBM and XGBoost have no such thing; here
    they have, from the finished model and its training rows. It is short for
    ``rfsize.tree_outputs(model, X, y, oob=True, groups=groups).predict_proba(fill)``, which takes weights and seeds
    too.

    Parameters
    ----------
    model
        As in `tree_outputs`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        All training rows, in the order of training.
    y, groups
        As in `tree_outputs`. scikit-learn itself knows nothing of copies: ``groups="rows"`` gives what it does.
    fill : float, optional
        What rows get that no tree may be asked about; NaN by default.

    Returns
    -------
    ndarray of float, shape (n_rows, n_classes)
        In the order of the model's classes.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees, or its members are no trees and average probabilities.
    InbagError
        If the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit, or the model is a regression forest.

    Warns
    -----
    NoVotesWarning
        If there are rows that no tree may be asked about, or rows of a class have so few votes that a score of the
        predictions would mislead.

    See Also
    --------
    oob_predict : Predict the training rows out of bag.
    oob_score : Score a forest without held-out rows.

    Notes
    -----
    XGBoost trains the trees of each class on bags of their own: the score of a class is then the mean over those of its
    trees that did not see the row.

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
    return TreeOutputs(asked_out_of_bag(model, X, y, groups)).predict_proba(fill)


def oob_predict(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | str | None = None,
    fill: Any = None,
) -> NDArray[Any]:
    """Out-of-bag predictions: what the model's own ``predict`` gives, by the trees that did not see each training row.

    Of scikit-learn's regression forests these are its ``oob_prediction_``. An estimator predicts labels or numbers, a
    Booster probabilities, as `CompiledForest.predict` says.

    Parameters
    ----------
    model, X, y, groups
        As in `oob_predict_proba`; or a regression forest.
    fill : label or number, optional
        What to give for rows that no tree may be asked about, such as -1 or one of the labels; by default such rows are
        refused where there are labels, and get NaN elsewhere. XGBoost puts two rows of its own choice into every bag,
        so that its forests always have some.

    Returns
    -------
    ndarray, shape (n_rows,) or (n_rows, n_classes)
        Of a classifier labels in the encoding of the model, of the highest averaged probability. Of a Booster that
        tells two classes the probabilities of class 1, of one that tells more those of every class, and labels as
        floats where XGBoost was trained with ``multi:softmax``. Of a regression forest what ``predict`` makes of the
        averaged scores.

    Raises
    ------
    FewVotesError
        If there are rows that no tree may be asked about, and have no label, since ``fill`` is not given.
    NotAForestError, InbagError, ValueError
        As by `oob_predict_proba`.

    Warns
    -----
    NoVotesWarning
        As by `oob_predict_proba`.

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
    return TreeOutputs(asked_out_of_bag(model, X, y, groups)).predict(fill)
