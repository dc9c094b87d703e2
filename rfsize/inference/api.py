"""`rfsize.compile` and `rfsize.load`: a compiled forest from a model, or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, overload

from rfsize._util import choice, give, refuse_unused, warn
from rfsize.exceptions import RfsizeWarning
from rfsize.inference.archive import refusing
from rfsize.inference.compiled import CompiledForest
from rfsize.inference.file import load_forests
from rfsize.inference.mean import CompiledMean
from rfsize.models.framework import read_model
from rfsize.models.model import Forest, learning_rate_of
from rfsize.stopping.table import StopTable
from rfsize.walking.layout import PackedForest


@overload
def compile(
    model: list[Any] | tuple[Any, ...],
    *,
    threshold: float | None = None,
    n_jobs: int = -1,
    missing: float | None = None,
) -> CompiledMean: ...


@overload
def compile(
    model: Any,
    table: StopTable | None = None,
    *,
    voting: Literal["auto", "soft", "hard"] = "auto",
    threshold: float | None = None,
    n_jobs: int = -1,
    missing: float | None = None,
) -> CompiledForest: ...


def compile(
    model: Any,
    table: StopTable | None = None,
    *,
    voting: Literal["auto", "soft", "hard"] = "auto",
    threshold: float | None = None,
    n_jobs: int = -1,
    missing: float | None = None,
) -> CompiledForest | CompiledMean:
    """Compile a forest: it predicts what the model's own ``predict`` does, many times faster.

    Boosted trees are compiled too. To predict a label, a row uses the trees of a forest or of AdaBoost until the
    remaining trees can no longer change it; otherwise it uses all trees. With a stop table, it stops when the table
    says that the prediction is settled.

    Parameters
    ----------
    model : booster or estimator
        A trained forest, or boosted trees. The model is not changed. Give a list of models with the
        same classes and features to predict the mean of their predictions.
    table : StopTable, optional
        A table for the trees and classes of this forest. It acts on what it is for: labels (`StopTable.calibrate`, or
        `StopTable.build` for votes), probabilities, or the numbers of a regression. A Booster's ``predict`` gives
        probabilities, so a table of labels acts on `CompiledForest.predict_labels` alone.
    voting : {"auto", "soft", "hard"}
        How labels are decided: by averaged scores ("soft") or by the majority of the trees' votes ("hard"). "auto"
        follows the table, or without a table the model's own ``predict``. For classifiers only.
    threshold : float, optional
        Probability above which the label, and the vote of a tree, is class 1; two classes only. By default the
        threshold of the table, without a table the threshold of a `RightSizedClassifier`, otherwise 0.5.
    n_jobs : int, default -1
        Number of threads that predict; -1 for one per core. The predictions do not depend on it.
    missing : float, optional
        Value that means missing in the rows to predict, besides NaN, as in `tree_outputs`. The compiled forest and its
        file keep this value.

    Returns
    -------
    CompiledForest or CompiledMean
        Predicts without the framework. Its ``save`` writes one file. A list of models gives a `CompiledMean`.

    Raises
    ------
    NotAForestError
        If rfsize cannot read the model, or it cannot be compiled.
    ValueError
        If the table is for other trees, other classes, another ``threshold`` or ``voting``. If an option has no effect
        on the forest. If the models of a list cannot be averaged.

    Warns
    -----
    RfsizeWarning
        If the table is for labels and the model's own ``predict`` gives probabilities, which do not use the table.

    See Also
    --------
    load : Read a compiled forest from a file.
    StopTable : Ask each row fewer trees.
    truncate : Cut a forest down.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(101, random_state=0).fit(X[:400], y[:400])
    >>> fast = rfsize.compile(forest)
    >>> fast
    CompiledForest(101 scikit-learn trees, 2 classes; predict gives labels, by averaged scores; no stop table)
    >>> bool((fast.predict(X) == forest.predict(X)).all())
    True

    A Booster predicts probabilities, and so does its compiled forest. ``predict_labels`` gives labels:

    >>> import lightgbm as lgb
    >>> params = {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "verbose": -1}
    >>> booster = lgb.train(params, lgb.Dataset(X[:400], y[:400]), 50)
    >>> fast = rfsize.compile(booster)
    >>> bool((fast.predict(X) == booster.predict(X)).all())
    True
    >>> fast.predict_labels(X[:3]).tolist()
    [0, 0, 0]

    With a stop table of votes, most rows use only a few trees:

    >>> table = rfsize.StopTable.build(101, alpha=0.99, prior=rfsize.tree_outputs(forest, X[:400], oob=True).votes)
    >>> labels, n_used = rfsize.compile(forest, table).predict(X, return_trees=True)
    >>> bool(n_used.mean() < 20)
    True

    The boosters of a cross-validation, or your own models of the folds, predict their mean:

    >>> folds = lgb.cv(params, lgb.Dataset(X, y), 50, nfold=5, return_cvbooster=True)["cvbooster"]
    >>> bool((rfsize.compile(folds.boosters).predict(X) == sum(folds.predict(X)) / 5).all())
    True
    """
    choice("voting", voting, ("auto", "soft", "hard"))
    own_voting = None if voting == "auto" else voting
    if isinstance(model, (list, tuple)):
        refuse_unused("a mean of models averages what all their trees predict", table=table, voting=own_voting)
        folds: list[Any] = list(model)
        return CompiledMean([compile(fold, threshold=threshold, n_jobs=n_jobs, missing=missing) for fold in folds])
    read = read_model(model, missing=missing)
    read.refuse_steps("a compiled forest predicts the rows that the last step of a Pipeline gets")
    if not isinstance(table, StopTable | None):
        raise ValueError(f"table is a {type(table).__name__}: give a StopTable, such as StopTable.calibrate(model, X)")
    if not read.classes.size:
        refuse_unused("the forest predicts numbers, and no labels", threshold=threshold, voting=own_voting)
    if voting == "hard" and not isinstance(read, Forest):
        raise ValueError("the trees of a boosted model cast no votes that count alike: leave voting out")
    if threshold is None and table is not None and read.classes.size == 2:
        threshold = table.threshold
    give(learning_rate_of(read))
    packed = PackedForest.of_model(read, read.checked_threshold(threshold))
    decided_by = own_voting or (read.voting if table is None else table.voting)
    compiled = CompiledForest(packed, table, voting=decided_by, n_jobs=n_jobs)
    if table is not None and table.metric == "labels" and not compiled.predict_uses_table:
        warn(
            f"the table is for labels, and predict of this compiled forest gives {compiled.forest.output}, as "
            "the model's own does, from all trees: use predict_labels, which stops by the table",
            RfsizeWarning,
        )
    return compiled


def load(path: str | Path, *, n_jobs: int = -1, mmap: bool = False) -> CompiledForest | CompiledMean:
    """Read a compiled forest from a file. LightGBM and XGBoost need not be installed.

    Parameters
    ----------
    path : str or Path
        A file that `CompiledForest.save` or `CompiledMean.save` wrote. It holds no code, and rfsize checks everything
        in it, so the file may come from anyone.
    n_jobs
        As in `compile`.
    mmap : bool, default False
        Whether the trees stay in the file, which all processes that load it then share in memory. The file must have
        been written with ``compress=False``. rfsize checks it once, when it is loaded, so nobody may change it
        afterwards: predictions would be wrong, or the process would end. To replace it, write another file and rename
        it, as `CompiledForest.save` does.

    Returns
    -------
    CompiledForest or CompiledMean
        Predicts exactly as the saved forest.

    Raises
    ------
    FileError
        If the file is damaged, or was not written by rfsize.
    ValueError
        If ``mmap`` is given for a compressed file, or for one of several forests.
    OSError
        If the file cannot be read.

    See Also
    --------
    compile : Predict faster, and without the framework.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> rfsize.compile(forest).save("forest.rfsize")
    >>> rfsize.load("forest.rfsize")
    CompiledForest(50 scikit-learn trees, 3 classes; predict gives labels, by averaged scores; no stop table)
    """
    path = Path(path)
    saved = load_forests(path, mapped=mmap)
    with refusing(path):
        forests = [CompiledForest(forest, table, voting=voting, n_jobs=n_jobs) for forest, table, voting in saved]
        return CompiledMean(forests) if len(forests) > 1 else forests[0]
