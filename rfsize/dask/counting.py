"""What a forest's trees say of rows on workers, counted where these lie."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from rfsize.adapters.base import Adapter, warn_of_dependence
from rfsize.adapters.registry import adapter_for
from rfsize.counting.counted import Counted
from rfsize.counting.forest_on_rows import ForestOnRows
from rfsize.counting.tally import Tallied
from rfsize.dask.rows import BlocksOnWorkers, here
from rfsize.sizing.api import size as size_of_counted
from rfsize.sizing.base import Report
from rfsize.voting.votes import Votes


def count(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    client: Any = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    missing: float | None = None,
) -> Counted:
    """Ask the trees about rows that they were not trained on, block by block, where these lie.

    What travels is what is counted: 40 bytes a row where one score tells two classes, and besides what parts of the
    forest say, of all rows at most 400 MB. It is equal to what `rfsize.count` counts of the same rows in memory, to
    the last bit.

    Parameters
    ----------
    model
        As in `rfsize.count`, or an estimator that ``lightgbm.dask`` or ``xgboost.dask`` trained. It is sent to each
        worker once.
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        Rows that the forest was not trained on, in any chunks.
    y : dask or NumPy array, or Series, shape (n_rows,), optional
        Labels of the rows, for metrics; they are brought to this process.
    client : distributed.Client, optional
        Whose workers are asked; by default the client that is in use.
    threshold, missing
        As in `rfsize.count`.
    sample_weight : dask or NumPy array, shape (n_rows,), optional
        Weights of the rows, for metrics.

    Returns
    -------
    Counted
        What `rfsize.size`, `rfsize.truncate` and `StopTable.build` take. What these ask of the rows again, which only
        single metrics do, is answered here, from a block of rows at a time.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
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
    """
    adapter = adapter_for(model, casts_votes=False, missing=missing)
    warn_of_dependence(adapter.shared_bags, adapter.seed_dependence)
    threshold = adapter.checked_threshold(threshold)
    blocks = BlocksOnWorkers(X, client)
    told = Tallied.joined(list(blocks.each(_tallied, adapter, threshold, blocks.n_rows)))
    forest = ForestOnRows(adapter, blocks.pieces(), None, threshold)
    return Counted(forest, here(y, blocks.client), here(sample_weight, blocks.client), forest.told_by(told))


def votes(model: Any, X: Any, *, client: Any = None, threshold: float = 0.5, missing: float | None = None) -> Votes:
    """Count how many trees vote for each class, row by row, where the rows lie.

    Parameters
    ----------
    model, X, client, threshold, missing
        As in `count`.

    Returns
    -------
    Votes
        Equal to those that `rfsize.votes` counts of the same rows in memory.

    Raises
    ------
    NotAForestError, ValueError
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
    return count(model, X, client=client, threshold=threshold, missing=missing).votes


def size(
    model: Any,
    X: Any,
    y: ArrayLike | Any = None,
    *,
    client: Any = None,
    threshold: float = 0.5,
    sample_weight: Any = None,
    missing: float | None = None,
    **goal: Any,
) -> Report:
    """How many trees are enough, by rows that the forest was not trained on: `rfsize.size` of what `count` counts.

    Parameters
    ----------
    model, X, y, client, threshold, sample_weight, missing
        As in `count`.
    **goal
        ``alpha``, ``voting``, ``average``, ``estimator``, ``criterion`` and ``tolerance`` as in `rfsize.size`.

    Returns
    -------
    SizeReport, DeviationReport or MetricReport
        Equal to that of the same rows in memory.

    Raises
    ------
    NotAForestError, ValueError
        As in `count`.

    Examples
    --------
    >>> import dask.array as da
    >>> import rfsize.dask
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     report = rfsize.dask.size(forest, da.from_array(X[300:], chunks=(100, -1)), alpha=0.95)
    >>> report.n_trees == rfsize.size(forest, X[300:], alpha=0.95).n_trees
    True
    """
    counted = count(model, X, y, client=client, threshold=threshold, sample_weight=sample_weight, missing=missing)
    report: Report = size_of_counted(counted, **goal)
    return report


def _tallied(block: Any, rows: range, adapter: Adapter, threshold: float, n_rows: int) -> Tallied:
    """On a worker: what the trees say of a block of the rows."""
    return ForestOnRows(adapter, adapter.check(block), None, threshold).tallied(rows, n_rows)
