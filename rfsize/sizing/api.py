"""The main job: how many trees are enough, and a forest cut down to them."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import ArrayLike

from rfsize.adapters.base import warn_of_dependence
from rfsize.adapters.registry import adapter_for
from rfsize.counting.walk import ForestOnRows, scores_and_noise, tree_outputs
from rfsize.errors import NotAForestError, NotConvergedWarning
from rfsize.sizing.deviation_report import CRITERIA, DeviationReport
from rfsize.sizing.size_report import ESTIMATORS, SizeReport
from rfsize.utils.matrix import n_rows
from rfsize.utils.validation import choice, positive, share, whole
from rfsize.voting.links import Link
from rfsize.voting.outputs import VOTINGS, TreeOutputs
from rfsize.voting.votes import Votes


def size(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.99,
    oob: bool = False,
    voting: str = "hard",
    estimator: str = "auto",
    threshold: float = 0.5,
    criterion: str = "label",
    tolerance: float | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | None = None,
    subsample: float | None = None,
) -> Any:
    """How many trees are enough: T*.

    T*(α) is the smallest odd forest whose majority votes agree with those of the infinite forest on a
    share α of the rows, on average over rows and forests. With ``criterion="probability"`` or ``"score"`` T* is the
    smallest forest whose predictions are within ``tolerance`` of the infinite forest's. Neither says anything about
    accuracy, and no labels are needed; how much a metric will still move is what `SizeReport.metric_gap` predicts.

    Parameters
    ----------
    model
        As in `votes`, or counted `Votes`, for which ``X`` is left out. With ``criterion="score"`` also a regression
        forest: a `lightgbm.Booster` or `LGBMRegressor`, `xgboost.Booster`, `XGBRFRegressor` or `XGBRegressor`, or
        scikit-learn's `RandomForestRegressor`, `ExtraTreesRegressor` or `BaggingRegressor` over trees.
    X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
        Rows the forest was not trained on; or, with ``oob``, all training rows in the order of training.
    y : array_like, shape (n_rows,), optional
        Training labels, only where `inbag` needs them.
    alpha : float, default 0.99
        Confidence α, strictly between 0 and 1; only for labels.
    oob : bool, default False
        Use out-of-bag votes on the training rows.
    voting : {"hard", "soft"}, default "hard"
        Size the majority of the trees' votes, or their averaged scores, which ``predict`` of LightGBM, XGBoost and
        scikit-learn's forests goes by. The report has both sizes. Only for labels.
    estimator : {"auto", "plugin", "smooth"}, default "auto"
        "plugin" takes each row's counted vote fraction for its true one, equation (17) of Hernández-Lobato et al.
        2013; with few votes per row it is noisy. "smooth" fits the density of the vote fractions to the votes of all
        rows at once, which 50 trees are enough for.
        "auto" is "smooth", unless a share of rows at exactly one half, beside the density, makes the majority's votes
        more likely by a log-likelihood ratio of 4: then "plugin", and the report says that T* may be far larger still.
        With less than 10 votes per row no forest is called large enough.
    threshold : float, default 0.5
        As in `votes`.
    criterion : {"label", "probability", "score"}, default "label"
        What is to agree with the infinite forest's: labels; probabilities that ``predict`` or ``predict_proba`` gives,
        a row being as far off as the class that is farthest off; or scores: what ``predict`` gives for regression, for
        classification the mean score of the trees before it becomes a probability (``predict(raw_score=True)`` of
        LightGBM over the number of trees, ``predict(output_margin=True)`` of XGBoost).
    tolerance : float, optional
        How far off probabilities or scores may be, both as root mean square over rows and on 95 % of the rows; needed
        with these criteria.
    sample_weight, seed, subsample
        See `inbag`; used only with ``oob``.

    Returns
    -------
    SizeReport or DeviationReport
        T*, its 95 % interval, and whether the forest at hand is large enough; for labels a `SizeReport`.

    Raises
    ------
    NotAForestError
        If the model is not a forest of independent trees.
    InbagError
        If ``oob`` and the bags cannot be proven.
    ValueError
        If ``X`` or an option does not fit.

    Warns
    -----
    SharedBagsWarning
        If several trees were trained on the same bag.
    SeedDependenceWarning
        If LightGBM's way of sampling features makes forests of other seeds predict otherwise.

    References
    ----------
    D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers
    be?" Pattern Recognition 46(5), 1323-1336.

    B. Efron (2016). "Empirical Bayes deconvolution estimates." Biometrika 103(1), 1-20.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> report = rfsize.size(forest, X, oob=True, alpha=0.95)
    >>> report.n_trees <= report.available
    True

    Votes that were counted elsewhere are sized as they are:

    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
    >>> rfsize.size(votes, alpha=0.95, estimator="plugin").n_trees
    71
    """
    choice("criterion", criterion, CRITERIA)
    if criterion != "label":
        given = {"alpha": alpha, "voting": voting, "estimator": estimator, "threshold": threshold}
        _refuse_for(criterion, given)
        told = {"sample_weight": sample_weight, "seed": seed, "subsample": subsample}
        return _deviation(model, X, y, criterion=criterion, tolerance=tolerance, oob=oob, **told)
    if tolerance is not None:
        raise ValueError(
            "tolerance is for criterion='probability' and 'score'; labels agree on a share alpha of the rows"
        )
    share("alpha", alpha)
    choice("voting", voting, VOTINGS)
    choice("estimator", estimator, ESTIMATORS)
    if isinstance(model, Votes):
        of_models = {"y": y, "sample_weight": sample_weight, "seed": seed, "subsample": subsample}
        if X is not None or oob or threshold != 0.5 or any(value is not None for value in of_models.values()):
            raise ValueError(
                f"counted Votes are sized as they are: leave out X, oob, threshold, {', '.join(of_models)}"
            )
        source = "oob" if (model.asked < model.n_trees).any() else "rows given"
        return SizeReport.of(
            TreeOutputs(model), alpha=alpha, available=model.n_trees, source=source, voting=voting, estimator=estimator
        )
    adapter = adapter_for(model)
    if X is None:
        raise ValueError("X is missing: give rows the forest was not trained on, or the training rows with oob=True")
    warn_of_dependence(adapter)
    threshold = adapter.checked_threshold(threshold)
    X = adapter.check(X)
    bags = adapter.bags(n_rows(X), y, sample_weight, seed, subsample) if oob else None
    return SizeReport.of(
        tree_outputs(adapter, X, threshold, bags),
        alpha=alpha,
        available=adapter.n_trees,
        source="oob" if oob else "rows given",
        voting=voting,
        estimator=estimator,
        rows=ForestOnRows(adapter, X, bags, threshold),
    )


def _deviation(
    model: Any, X: Any, y: Any, *, criterion: str, tolerance: float | None, oob: bool, **told: Any
) -> DeviationReport:
    """`size` by a criterion of predictions."""
    if tolerance is None:
        raise ValueError(f"criterion={criterion!r} needs a tolerance, such as tolerance=0.01: how far off it may be")
    tolerance = positive("tolerance", tolerance)
    if isinstance(model, Votes):
        raise ValueError(
            f"criterion={criterion!r} needs the trees' scores, of which counted Votes know nothing: give the model"
        )
    adapter = adapter_for(model, casts_votes=False)
    if not adapter.averages_scores:
        raise NotAForestError(
            f"the members of the ensemble are no trees, and only their votes are read; criterion={criterion!r} is for "
            "trees: size the labels"
        )
    if criterion == "probability" and not adapter.classes.size:
        raise ValueError(
            "criterion='probability' is for classification; a regression forest is sized by criterion='score'"
        )
    if X is None:
        raise ValueError("X is missing: give rows the forest was not trained on, or the training rows with oob=True")
    warn_of_dependence(adapter, stacklevel=4)
    X = adapter.check(X)
    bags = adapter.bags(n_rows(X), y, **told) if oob else None
    link = adapter.link if criterion == "probability" or not adapter.classes.size else Link("identity")
    scores, noise = scores_and_noise(adapter, X, bags, link)
    return DeviationReport.of(
        scores,
        link,
        noise,
        criterion=criterion,
        tolerance=tolerance,
        available=adapter.n_trees,
        source="oob" if oob else "rows given",
        rows=ForestOnRows(adapter, X, bags),
    )


# Options that only labels have, as they are where nothing else is asked for.
_OF_LABELS = {"alpha": 0.99, "voting": "hard", "estimator": "auto", "threshold": 0.5}


def _refuse_for(criterion: str, options: dict[str, Any]) -> None:
    """Raise ``ValueError`` where options that only labels have are given."""
    given = [name for name, value in options.items() if value != _OF_LABELS[name]]
    if given:
        raise ValueError(
            f"{' and '.join(given)} would say nothing with criterion={criterion!r}, which asks how far off predictions "
            "may be: leave out, and give tolerance"
        )


def truncate(
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.99,
    n_trees: int | None = None,
    **as_size: Any,
) -> Any:
    """A forest of the first T* trees, of the same type as ``model``.

    Parameters
    ----------
    model
        As in `votes`; it is not changed.
    X, y, alpha
        As in `size`; not needed with ``n_trees``.
    n_trees : int, optional
        Trees to keep, in place of T*.
    **as_size
        Further options of `size`, such as ``criterion`` and ``tolerance``.

    Returns
    -------
    model of the caller's type
        Its predictions are the mean of its trees. All trees are kept where the forest has fewer than T*.

    Raises
    ------
    ValueError
        As in `size`; or if ``n_trees`` is not between 1 and the trees of the forest.

    Warns
    -----
    NotConvergedWarning
        If the forest has fewer than T* trees; it says how many it would take.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> small = rfsize.truncate(forest, X, oob=True, alpha=0.95)
    >>> len(small.estimators_) == rfsize.size(forest, X, oob=True, alpha=0.95).n_trees
    True
    >>> len(rfsize.truncate(forest, n_trees=25).estimators_)
    25
    """
    if isinstance(model, Votes):
        raise ValueError("truncate cuts a model, found counted Votes; size them, then truncate(model, n_trees=...)")
    adapter = adapter_for(model, casts_votes=n_trees is None and as_size.get("criterion", "label") == "label")
    if n_trees is None:
        report = size(adapter, X, y, alpha=alpha, **as_size)
        if not report.converged:
            warnings.warn(report.not_converged(), NotConvergedWarning, stacklevel=2)
        n_trees = report.n_kept
    elif X is not None or as_size:
        raise ValueError("give either n_trees or rows to size the forest on, not both")
    return adapter.truncated(whole("n_trees", n_trees, at_least=1, at_most=adapter.n_trees))
