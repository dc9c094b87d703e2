"""Report: how many trees are enough, and what forests of other sizes lose."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rfsize._util import Caution, positive, share, whole
from rfsize.counting.coverage import check_votes
from rfsize.counting.outputs import TreeOutputs, coverage, distinct, predictor_of, sums_of, why_no_forest
from rfsize.exceptions import NotAForestError, RfsizeError
from rfsize.showing.html import Result, report_page
from rfsize.showing.plots import plot_report
from rfsize.showing.text import RARE, notes, report_text
from rfsize.showing.warnings import harms_of_cut, warnings_of_size
from rfsize.statistics.certify import Certificate, CertifiedCurve
from rfsize.statistics.criterion import Criterion, loss_of, options_of, resolve
from rfsize.statistics.curve import TAIL, Estimate
from rfsize.statistics.default import with_defaults
from rfsize.statistics.first_trees import (
    CertificateDetails,
    certify,
    losses_of_first_trees,
    scores_of_first_trees,
)
from rfsize.statistics.labels import LabelDetails, estimate_labels
from rfsize.statistics.metric_estimate import estimate_metric
from rfsize.statistics.metric_loss import MetricLoss
from rfsize.statistics.metrics import clipping_of_rows
from rfsize.statistics.named_metrics import MetricLike, metric_of
from rfsize.statistics.predictions import estimate_predictions

_LEAST_CONFIDENCE = 1e-6


class Loss(NamedTuple):
    """What a forest of some size is expected to lose against an unlimited forest.

    Attributes
    ----------
    value : float
        The mean loss of forests of this size. For labels, the share that still changes. For probabilities and scores,
        the distance that 95 % of the rows keep within. For a metric, how much worse it is.
    interval : tuple of float
        95 % interval of the value, for other rows and other trees. If halves of your trees show no clear loss of a
        metric, the interval begins at 0 and ``value`` is its upper end.
    spread : float or None
        For a metric, the standard deviation between single forests of this size.
    by_class : dict of class label to float, or None
        For labels, the share that still changes among the rows on which each class leads. With ``target="model"``, the
        share that differs among the rows to which all trees give each class.
    """

    value: float
    interval: tuple[float, float]
    spread: float | None = None
    by_class: dict[Any, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        by_class = None if self.by_class is None else {str(label): loss for label, loss in self.by_class.items()}
        return {**self._asdict(), "interval": list(self.interval), "by_class": by_class}


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """The answer of `rfsize.size`: how many trees are enough.

    Attributes
    ----------
    criterion : Criterion
        What must stay the same. Its ``name`` is the ``metric``, its ``level`` the loss that you allow.
    estimate : Estimate
        The loss over ensemble size, and the rows that it comes from: ``n_rows``, ``n_dropped`` and ``votes_per_row``.
    available : int
        Number of trees of your forest.
    source : str
        Where the votes or scores come from: "oob", "rows given", "cross-validation", or during training the name of
        the validation set.
    copied : float or None
        Share of the training rows that have a copy. None if rfsize did not look for copies.
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together. A tree that was trained on one row of a group votes on none of the group.
        "rows": each row is a group of its own; "copies": equal rows belong together; "given": your groups; "unknown":
        the training data does not store rows, so rfsize cannot look for copies.
    interval : tuple of int or float
        95 % interval of T*, for other rows and other trees; from 1 to ``math.inf`` if the trees do not tell T*. With
        ``target="model"``, the interval of the fewest first trees that are enough on all rows like those given.
    warnings : tuple
        Warnings about the forest and the rows, or about what suffers when you cut it. Each has a ``category`` and a
        ``text``. `rfsize.truncate`, `rfsize.grow` and `rfsize.SizeCallback` issue them as Python warnings.
    others : dict of str to (Criterion, Estimate)
        Other losses that the report lists: of labels, probabilities or scores, and of metrics.
    notes_on_rows : tuple of str
        During training: which rows were not read, or not exactly.
    min_kept : int
        During training: the first trees that agree with all trees so far, by the change since an earlier look.
    outputs : TreeOutputs or None
        What the trees say, for further questions; None after pickling.

    See Also
    --------
    size : Make a report.
    truncate : Cut a forest to the size of a report.

    Notes
    -----
    The 95 % interval of T* covers the choice of the rows and of the trees. The same trees predict all rows, so the
    errors of the rows are correlated. rfsize measures this correlation from blocks of trees. Counted `Votes` have no
    blocks, so their interval covers the choice of the rows only. The loss of a metric falls like c/(T + d); rfsize
    finds c and d from halves and quarters of your trees. For up to 37 trees, it measures the loss on forests drawn from
    your trees.

    Examples
    --------
    >>> import rfsize
    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
    >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
    >>> print(report)
    71 of your 100 trees are enough (95 % interval ... to ...)
      95.04 % of labels equal those of an unlimited forest
      note: 25 % of rows keep their label with a probability below 95 %: see outputs.agreement(71)
      from the 400 rows you gave, 100 votes each
    >>> report.enough, report.to_dict()["n_trees"]
    (True, 71)
    """

    criterion: Criterion
    estimate: Estimate
    available: int
    source: str
    copied: float | None = None
    groups: str = "rows"
    interval: tuple[int | float, int | float] = (1, math.inf)
    warnings: tuple[Caution, ...] = ()
    others: dict[str, tuple[Criterion, Estimate]] = field(default_factory=dict)
    notes_on_rows: tuple[str, ...] = ()
    min_kept: int = 0
    outputs: TreeOutputs | None = None

    @property
    def n_trees(self) -> int | float:
        """T*, the smallest number of trees that is enough; ``math.inf`` if no number is known to be.

        With ``target="model"``, the smallest certified number of first trees.
        """
        return self.estimate.n_trees

    @property
    def certificate(self) -> Certificate | None:
        """With ``target="model"``: the rows that test the first `n_trees` trees, how many differ, and the bound."""
        details = self.estimate.details
        return details.certificate if isinstance(details, CertificateDetails) else None

    def upper(self, confidence: float) -> int | float:
        """A number of trees that is enough with a probability of ``confidence``: the end of a one-sided interval.

        Parameters
        ----------
        confidence : float
            The probability, at least a millionth and below 1.

        Returns
        -------
        int or float
            The number of trees; ``math.inf`` if none is known to be enough.

        Raises
        ------
        ValueError
            If ``confidence`` is below a millionth, or not below 1.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
        >>> report = rfsize.size(votes, alpha=0.95)
        >>> report.interval[0] <= report.upper(0.8) <= report.interval[1]
        True
        """
        if (confidence := share("confidence", confidence)) < _LEAST_CONFIDENCE:
            least = f"at least {_LEAST_CONFIDENCE:f}"
            raise ValueError(f"confidence must be {least}, found {confidence!r}: give 0.5 or more")
        if self.estimate.problem is not None:
            return math.inf
        return self.estimate.curve.size_quantile(self.criterion.level, confidence)

    @property
    def enough(self) -> bool:
        """Whether your forest has T* trees; during training, whether it surely has by the ``confidence``."""
        return self.estimate.problem is None and trees_required(self) <= self.available

    @property
    def n_kept(self) -> int:
        """Number of trees to keep: as many as are enough, or all trees if the forest is too small."""
        return int(trees_required(self)) if self.enough else self.available

    def size_at(self, level: float) -> int | float:
        """T* at another level, from the same outputs.

        Parameters
        ----------
        level : float
            Another ``alpha`` for a report about labels, another ``tolerance`` for any other report.

        Returns
        -------
        int or float
            The smallest number of trees; ``math.inf`` if none is known to be enough.

        Raises
        ------
        ValueError
            If ``level`` cannot be an alpha or a tolerance.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]])
        >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
        >>> [report.size_at(alpha) for alpha in (0.9, 0.95, 0.99)]
        [9, 71, ...]
        """
        level = 1.0 - share("alpha", level) if self.criterion.takes_alpha else positive("tolerance", level)
        return math.inf if self.estimate.problem is not None else self.estimate.curve.size(level)

    def loss_at(self, n_trees: int, metric: MetricLike | None = None) -> Loss:
        """What a forest of ``n_trees`` is expected to lose against an unlimited forest.

        With ``target="model"`` and no ``metric``, this is the share of rows on which the first ``n_trees`` trees
        differ from all trees of your forest.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, at least 1.
        metric : str or scorer, optional
            What is lost, as in `rfsize.size`; by default the metric of the report. Metrics need ``y``: give ``y`` to
            `rfsize.size` or `rfsize.tree_outputs`.

        Returns
        -------
        Loss
            ``value`` and its 95 % ``interval``; for a metric also its ``spread`` between single forests, for labels
            also the loss ``by_class``.

        Raises
        ------
        FewVotesError
            If too few trees predicted each row.
        ValueError
            If ``n_trees`` is below 1, if ``y`` is missing or does not fit the metric, or if the report was pickled
            before this metric was computed.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, alpha=0.95)
        >>> report.loss_at(10).value > report.loss_at(100).value
        True
        >>> 0.0 < report.loss_at(100, "auc").value < 0.01
        True
        """
        n_trees = whole("n_trees", n_trees, at_least=1)
        if metric is None:
            return _loss(self.estimate, n_trees)
        criterion, outputs = loss_of(metric), self.outputs
        if outputs is not None and criterion.kind == "metric" and why_no_forest(outputs) is not None:
            sizes = [min(n_trees, self.available)]  # the report may have other sizes
            paired = losses_of_first_trees(outputs, sizes, metric_of(criterion.metric, outputs))
            return _loss(paired[criterion.name][1], n_trees)
        known = {other.metric: estimate for other, estimate in self.others.values()}
        if self.criterion.target == "limit":
            known[self.criterion.metric] = self.estimate
        if criterion.metric not in known:
            if outputs is None:
                names = ", ".join([self.criterion.name, *self.others])
                fault = f"this report has no trees at hand, and knows only the loss of {names}"
                raise ValueError(f"{fault}: size by this metric")
            known[criterion.metric] = _estimated(distinct(outputs), resolve(criterion, len(outputs.classes)))
        return _loss(known[criterion.metric], n_trees)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; an infinite size becomes None."""
        criterion, estimate = self.criterion, self.estimate
        return {
            "warnings": [warning.to_dict() for warning in self.warnings],
            "n_trees": _finite(self.n_trees),
            "interval": [_finite(bound) for bound in self.interval],
            "available": self.available,
            "enough": self.enough,
            "n_kept": self.n_kept,
            "reason": None if math.isfinite(self.n_trees) else estimate.problem or estimate.why_infinite,
            "confidence": criterion.confidence if criterion.is_training else None,
            "metric": criterion.name,
            "why": criterion.why or None,
            **{name: value for name, value in options_of(criterion).items() if name != "metric"},
            "loss": self.loss_at(self.n_kept).to_dict(),
            "others": {name: _loss(other, self.n_kept).to_dict() for name, (_, other) in self.others.items()},
            "source": self.source,
            "n_rows": estimate.n_rows,
            "n_dropped": estimate.n_dropped,
            "votes_per_row": estimate.votes_per_row,
            "copied": self.copied,
            "groups": self.groups,
            "notes": [*notes(self), *self.notes_on_rows],
            **_details(self),
        }

    plot = plot_report
    page = report_page
    __str__ = __repr__ = report_text

    def __getstate__(self) -> dict[str, Any]:
        # Neither model nor rows go into a pickle.
        return {**self.__dict__, "outputs": None}


def trees_required(report: Report) -> int | float:
    """Trees that the forest needs: T*, or during training the upper end of T* at the ``confidence``.

    During training also at least as many as agree with all trees so far, by the change since an earlier look. If the
    forest has fewer than T* trees, it needs T*.
    """
    confidence, n_trees = report.criterion.confidence, report.n_trees
    is_too_small = report.estimate.problem is not None or n_trees > report.available
    if confidence is None or not report.criterion.is_training or is_too_small:
        return n_trees
    sure = n_trees if confidence == 0.5 else report.upper(confidence)
    return max(n_trees, sure, report.min_kept)


def _finite(size: int | float) -> int | None:
    """A size for ``json``; None if it is infinite."""
    return int(size) if math.isfinite(size) else None


def _loss(estimate: Estimate, n_trees: int) -> Loss:
    """The loss of ``n_trees`` trees, with its interval."""
    curve, details = estimate.curve, estimate.details
    value, (low, high) = curve.at(n_trees), curve.interval(n_trees)
    spread, by_class = None, None
    if isinstance(details, MetricLoss):
        spread = details.seed_sd / math.sqrt(n_trees)
    elif isinstance(details, LabelDetails):
        by_class = {label: of_class.at(n_trees) for label, of_class in details.by_class.items()}
    elif isinstance(curve, CertifiedCurve):
        by_class = curve.by_class(n_trees) or None
    return Loss(value, (min(low, value), max(high, value)), spread, by_class)


def _details(report: Report) -> dict[str, Any]:
    """Plain values that only a report of this kind has."""
    details = report.estimate.details
    if isinstance(details, LabelDetails):
        shares = {str(label): share for label, share in details.label_shares.items()}
        of_labels = {"voting": details.voting, "average": report.criterion.average, "method": details.method}
        return {**of_labels, "predict_obeys": details.predict_voting, "label_shares": shares}
    if isinstance(details, CertificateDetails):
        return {"certificate": {**details.certificate.to_dict(), "bound": details.certificate.bound}}
    return {"value": details.value} if isinstance(details, MetricLoss) else {}


# Making reports

ESTIMATORS: dict[str, Callable[..., Estimate]] = {
    "labels": estimate_labels,
    "predictions": estimate_predictions,
    "metric": estimate_metric,
    "certificate": certify,
}


def make_report(outputs: TreeOutputs, criterion: Criterion, *, interval: bool = True) -> Report:
    """The report without other losses and warnings that follow from them, which `completed` adds.

    Without ``interval`` the interval is only made if the forest has enough trees by the estimate.

    Raises
    ------
    FewVotesError
        If rows of some kind have too few out-of-bag votes.
    ValueError
        If the criterion does not fit the outputs; other errors as by the estimators.
    """
    counted = distinct(outputs)
    criterion = with_defaults(resolve(criterion, len(counted.classes)), outputs)
    estimate = _estimated(counted, criterion, interval=interval)
    if not interval and estimate.problem is None and estimate.n_trees <= outputs.n_trees:
        estimate = _estimated(counted, criterion)
    of_rows = {"copied": outputs.groups.copied, "groups": outputs.groups.by, "outputs": outputs}
    return report_on_estimate(criterion, estimate, outputs.n_trees, outputs.source, **of_rows)


def report_on_estimate(criterion: Criterion, estimate: Estimate, available: int, source: str, **more: Any) -> Report:
    """A report on an estimate; ``more`` are further fields of `Report`."""
    report = Report(criterion, estimate, available, source, warnings=estimate.warnings, **more)
    if estimate.problem is not None or not estimate.has_interval:
        return report
    low, high = (estimate.curve.size_quantile(criterion.level, share) for share in (TAIL, 1.0 - TAIL))
    return replace(report, interval=(min(low, estimate.n_trees), max(high, estimate.n_trees)))


def _estimated(counted: TreeOutputs, criterion: Criterion, *, interval: bool = True) -> Estimate:
    """The estimate from outputs on distinct rows."""
    if criterion.kind != "certificate":
        if (why := why_no_forest(counted)) is not None:
            raise NotAForestError(why)
        check_votes(coverage(counted), of_metric=criterion.kind == "metric")
    estimator = ESTIMATORS[criterion.kind]
    return estimator(counted, criterion) if interval else estimator(counted, criterion, interval=False)


def completed(report: Report) -> Report:
    """The report with its interval, with other losses, and with the warnings that follow from all of them."""
    outputs = report.outputs
    if outputs is not None:
        if not report.estimate.has_interval:
            estimated = make_report(outputs, report.criterion)
            report = replace(report, estimate=estimated.estimate, interval=estimated.interval)
        report = replace(report, others=_other_losses(report.criterion, outputs))
    is_cut = report.enough and report.criterion.target == "model"
    report, harms = _compared_with_all(report) if is_cut else (report, [])
    return replace(report, warnings=(*report.warnings, *warnings_of_size(report, harms)))


def _compared_with_all(report: Report) -> tuple[Report, list[Caution]]:
    """What else the first trees lose against all trees on the same rows, in a boosted model as other losses too."""
    curve = report.estimate.curve
    assert report.outputs is not None
    assert isinstance(curve, CertifiedCurve)
    outputs, n_trees = distinct(report.outputs), int(report.n_trees)
    scores, y, weight = outputs.scores, outputs.y, outputs.sample_weight
    if n_trees >= outputs.n_trees or scores is None or not scores.are_finite():
        return report, []
    if y is not None and why_no_forest(outputs) is not None:
        report = replace(report, others=losses_of_first_trees(outputs, sorted({max(1, n_trees // 4), n_trees})))
    if report.criterion.metric != "labels":
        return report, []
    is_compared = y is not None or min(curve.label_shares.values()) < RARE
    few = scores_of_first_trees(outputs, [n_trees])[0] if is_compared else None
    truth = [None if given is None else given[scores.number] for given in (y, weight)]
    return report, harms_of_cut(report, predictor_of(outputs), few, scores.mean, *truth)


def with_warnings(report: Report, *warnings: Caution) -> Report:
    """The report with more warnings, which come first."""
    return replace(report, warnings=(*warnings, *report.warnings)) if warnings else report


def _other_losses(own: Criterion, outputs: TreeOutputs) -> dict[str, tuple[Criterion, Estimate]]:
    """Losses that a report lists beside its own, as far as the outputs tell them."""
    others, counted = {}, distinct(outputs)
    for name in _listed(counted):
        if name != own.metric or own.target != "limit":
            with suppress(RfsizeError):
                others[name] = loss_of(name), _estimated(counted, loss_of(name))
    return others


def _listed(outputs: TreeOutputs) -> list[str]:
    """Names of the other losses: of labels, probabilities or scores, and of metrics.

    The Brier score replaces the log loss if the latter is clipped on some row.
    """
    if why_no_forest(outputs) is not None:
        return []
    is_class = len(outputs.classes) > 0
    listed = ["labels"] if is_class else []
    if outputs.scores is None or not outputs.scores.are_finite():
        return listed
    listed.append("probabilities" if is_class else "scores")
    if outputs.y is None:
        return listed
    if not is_class:
        return [*listed, "rmse"]
    log_loss, scores = metric_of("log_loss", outputs), sums_of(outputs).blocks.scores
    rows, has_trees = sums_of(outputs).blocks.rows, scores.n_votes > 0
    predicted = predictor_of(outputs).predictions(scores.mean[has_trees])
    is_clipped = bool(clipping_of_rows(log_loss, rows[has_trees], predicted, outputs.n_trees))
    listed.append("brier" if is_clipped else "log_loss")
    return [*listed, "auc"] if len(outputs.classes) == 2 else listed
