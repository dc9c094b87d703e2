"""What trees say of given rows, and which rows they were trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.memory import MemoryLimit
from rfsize.counting.training_rows import noting_training_rows
from rfsize.utils.warn import give
from rfsize.voting.votes import Votes


def votes(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    oob: bool = False,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: ArrayLike | str | None = None,
    missing: float | None = None,
    max_memory: float | None = None,
) -> Votes:
    """Count how many trees vote for each class, row by row.

    A tree votes for the class that it would predict alone. For two classes that is class 1 where its
    probability exceeds ``threshold``; for more, the class of the highest score among the trees of one
    iteration. Ties go to the lowest class index.

    Parameters
    ----------
    model : booster or estimator
        A trained forest: `lightgbm.Booster`, `LGBMClassifier`, `xgboost.Booster` or `XGBClassifier`,
        scikit-learn's `RandomForestClassifier`, `ExtraTreesClassifier` or `BaggingClassifier` over any learner, or a
        `RightSizedClassifier`.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows to vote on; with ``oob``, all training rows in the order of training.
    y : array_like, shape (n_rows,), optional
        Training labels; only for ``oob``. Needed where the bags depend on them (balanced bagging,
        ``scale_pos_weight``); where they are given, leaves are compared with them, see `inbag`.
    oob : bool, default False
        Count on each row only the trees that did not see it in training. The bags are rebuilt from the
        model's seed and proven, see `inbag`.
    threshold : float, default 0.5
        Probability of class 1 above which a tree votes for it; two classes only.
    sample_weight, seed, subsample
        See `inbag`; only with ``oob``.
    groups : array_like of shape (n_rows,), "copies" or "rows", optional
        Training rows that belong together, such as those of one patient, by a label for each; only with ``oob``. Trees
        that saw a row of a group do not vote on the others. "copies" makes groups of identical rows, "rows" leaves each
        row alone; by default copies are groups where they are repetitions, and not where they come by nature, see
        `size`.
    missing : float, optional
        Value of ``X`` that means missing, besides NaN: what ``DMatrix(missing=…)`` was told where an `xgboost.Booster`
        was trained, which does not keep it. Classifiers and the other frameworks keep their own.
    max_memory : float, optional
        Bytes that may be taken beside the model and rows that are in memory, such as ``2e9``; more is refused before
        it begins. No limit by default.

    Returns
    -------
    Votes
        One row of counts per row of ``X``. A row that every tree saw, or another of its group, has no votes.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit; or the rows may take more memory than ``max_memory``.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> votes = rfsize.votes(forest, X, oob=True)
    >>> votes
    Votes(569 rows, 2 classes, 50 trees)
    >>> 15 < float(votes.asked.mean()) < 22  # a bag leaves out about 37 % of the rows
    True
    """
    forest = ForestOnRows.of(
        model,
        X,
        y,
        oob=oob,
        threshold=threshold,
        sample_weight=sample_weight,
        seed=seed,
        subsample=subsample,
        groups=groups,
        missing=missing,
        limit=MemoryLimit.of(max_memory, "votes"),
    )
    give(noting_training_rows(forest))
    return forest.votes()


def tree_votes(model: Any, X: Any, *, threshold: float = 0.5, missing: float | None = None) -> NDArray[np.int32]:
    """The vote of each tree on each row: what `StopTable.apply`, `mcnemar_size` and `banfield_size` take.

    Parameters
    ----------
    model, X, threshold, missing
        As in `votes`.

    Returns
    -------
    ndarray of int32, shape (n_rows, n_trees)
        Index into the forest's classes, the trees in their order; of a multiclass forest, a vote of the K trees of
        one iteration.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    ValueError
        If ``X`` or the threshold does not fit.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> votes = rfsize.tree_votes(forest, X)
    >>> votes.shape
    (569, 50)
    >>> votes.sum(axis=1).tolist() == rfsize.votes(forest, X).counts[:, 1].tolist()
    True
    """
    return ForestOnRows.of(model, X, threshold=threshold, missing=missing).tree_votes()


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
        As in `votes`.
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
        As in `votes`.

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
    rfsize.errors.InbagError: ...
    """
    bags: dict[str, Any] = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
    return ForestOnRows.of(model, X, y, oob=True, missing=missing, groups="rows", **bags).inbag()
