"""What a forest's trees say of rows on workers, counted where these lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfsize.adapters.base import warn_of_dependence
from rfsize.adapters.registry import adapter_for
from rfsize.counting.counted import Counted
from rfsize.counting.forest_on_rows import refuse_options_of_bags
from rfsize.counting.training_rows import noting_training_rows
from rfsize.dask.clients import here
from rfsize.dask.forest import ForestOnWorkers
from rfsize.utils.warn import give
from rfsize.voting.votes import Votes


def count(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> Counted:
    """Ask the trees about rows, block by block, where these lie.

    What travels is what is counted: 40 bytes a row where one score tells two classes, and besides what parts of the
    forest say, of all rows at most 400 MB. It is equal to what `rfsize.count` counts of the same rows in memory, to
    the last bit. With ``oob``, the proof takes 8 to 24 bytes of each block for each leaf of the forest, and sends up to
    24 for each row; copies are looked for by 72 bytes a row.

    Parameters
    ----------
    model
        As in `rfsize.count`, or an estimator that ``lightgbm.dask`` or ``xgboost.dask`` trained. It is sent to each
        worker once.
    X : dask.array.Array, dask.dataframe.DataFrame or xgboost.dask.DaskDMatrix, shape (n_rows, n_features)
        Rows that the forest was not trained on, in any chunks; or, with ``oob``, all training rows, in the partitions
        in which they were trained on.
    y : dask or NumPy array, or Series, shape (n_rows,), optional
        Labels of the rows, for metrics, and with ``oob`` as in `rfsize.inbag`; they are brought to this process.
    client : distributed.Client, optional
        Whose workers are asked; by default the client that is in use.
    oob : bool, default False
        Count on each row only the trees that did not see it in training. The bags are rebuilt and proven over the rows
        of all workers.
    layout : list of lists of int, optional
        With ``oob``, of a forest that several workers trained: for each worker the numbers of the partitions of ``X``
        that lay on it, in the order in which it held them. Each worker draws bags of its own rows. A DaskDMatrix keeps
        its layout; that of ``lightgbm.dask`` is known where each worker held one partition: ``[[0], [1]]`` for two. By
        default all rows lay on one machine, in their order.
    threshold, missing
        As in `rfsize.count`.
    sample_weight : dask or NumPy array, shape (n_rows,), optional
        Weights of the rows, for metrics, and with ``oob`` as in `rfsize.inbag`.
    seed, subsample, groups
        As in `rfsize.count`; only with ``oob``.

    Returns
    -------
    Counted
        What `rfsize.size`, `rfsize.truncate`, `rfsize.oob_predict` and `StopTable.build` take. What these ask of the
        rows again, which only single metrics do, is answered here, from a block of rows at a time.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven, as where the rows did not lie as ``layout`` says.
    ValueError
        If ``X`` or an option does not fit, or there is no client.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     counted = rfsize.dask.count(forest, da.from_array(X[300:], chunks=(100, -1)))
    >>> counted
    Counted(269 rows (rows given), 2 classes, 50 trees)

    Out of bag, of a forest that ``xgboost.dask`` trained:

    >>> from xgboost import dask as dxgb
    >>> params = {"objective": "binary:logistic", "num_parallel_tree": 50, "learning_rate": 1, "subsample": 0.5}
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     X_train, y_train = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
    ...     dtrain = dxgb.DaskDMatrix(client, X_train, y_train)
    ...     booster = dxgb.train(client, params, dtrain, num_boost_round=1)["booster"]
    ...     counted = rfsize.dask.count(booster, dtrain, y, oob=True)
    >>> counted
    Counted(569 rows (oob), 2 classes, 50 trees)
    """
    adapter = adapter_for(model, casts_votes=False, missing=missing)
    warn_of_dependence(adapter.shared_bags, adapter.seed_dependence)
    options: dict[str, Any] = {"client": client, "oob": oob, "layout": layout, "threshold": threshold}
    options |= {"seed": seed, "subsample": subsample, "groups": groups, "missing": missing}
    y, sample_weight = here(y, client), here(sample_weight, client)
    counted = Counted.of(ForestOnWorkers.asked(adapter, X, y, sample_weight, **options), y, sample_weight)
    give(counted.noted)
    return counted


def votes(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    oob: bool = False,
    layout: Sequence[Sequence[int]] | None = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    seed: int | None = None,
    subsample: float | None = None,
    groups: Any = None,
    missing: float | None = None,
) -> Votes:
    """Count how many trees vote for each class, row by row, where the rows lie.

    Parameters
    ----------
    model, X, y, client, oob, layout, threshold, sample_weight, seed, subsample, groups, missing
        As in `count`.

    Returns
    -------
    Votes
        Equal to those that `rfsize.votes` counts of the same rows in memory.

    Raises
    ------
    NotAForestError, InbagError, ValueError
        As in `count`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     found = rfsize.dask.votes(forest, da.from_array(X, chunks=(40, -1)))
    >>> found == rfsize.votes(forest, X)
    True
    """
    adapter = adapter_for(model, missing=missing)
    options: dict[str, Any] = {"client": client, "oob": oob, "layout": layout, "threshold": threshold}
    options |= {"seed": seed, "subsample": subsample, "groups": groups, "missing": missing}
    if not oob:
        refuse_options_of_bags(y=y, sample_weight=sample_weight)
    forest = ForestOnWorkers.asked(adapter, X, here(y, client), here(sample_weight, client), **options)
    give(noting_training_rows(forest))
    return forest.votes()
