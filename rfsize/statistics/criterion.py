"""Criterion: what must stay the same in a smaller forest, and how closely. The only place that checks these options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rfsize._util import choice, positive, refuse_unused, share
from rfsize.counting.outputs import VOTINGS
from rfsize.exceptions import NotAForestError
from rfsize.statistics.metrics import METRICS
from rfsize.statistics.named_metrics import MetricLike, goes_by_labels, name_of, one_name, other_names, scorer_of

AVERAGES = ("micro", "macro")
METHODS = ("auto", "plugin", "smooth")
TARGETS = ("limit", "model")
PREDICTIONS = ("probabilities", "scores")
NAMES = ("auto", "labels", *PREDICTIONS, *METRICS)
"""All names that ``metric`` takes, besides scikit-learn's scorers."""

ALPHA, CONFIDENCE = 0.99, 0.95


@dataclass(frozen=True)
class Criterion:
    """What must stay the same as in the forest to compare with, and how closely.

    Attributes
    ----------
    metric : str or callable
        What must stay the same: "labels", "probabilities", "scores", a metric, or "importance"; "auto" is not resolved.
        Of classes, `with_defaults` resolves it by what the forest predicts.
    alpha : float
        Share of the rows that must stay the same; for labels, certificates and importances.
    tolerance : float or None
        The largest loss that is allowed of probabilities, scores or a metric; with a certificate, the largest change.
    average, voting, method : str
        As in `rfsize.size`.
    target : {"limit", "model", "chosen", "refitted"}
        Compare with an unlimited forest, or certify against all trees: the first trees, or what `rfsize.shrink` makes,
        which chooses trees of a forest, and refits the first ones of a boosted model.
    confidence : float or None
        How sure a certificate is. During training, how sure the forest must be large enough before training ends; None
        asks for T* itself.
    n_trees : int or None
        The number of chosen trees, if the user gave it.
    top : int or None
        How many of the most important columns to compare; None compares the order of all.
    why : str or None
        Why labels would say too little, if you named nothing that must stay the same; None if you did.
    basis : str
        What the default tolerance is a share of; empty if you gave the tolerance.
    """

    metric: MetricLike = "auto"
    alpha: float = ALPHA
    tolerance: float | None = None
    average: str = "micro"
    voting: str = "auto"
    method: str = "auto"
    target: str = "limit"
    confidence: float | None = None
    n_trees: int | None = None
    top: int | None = None
    why: str | None = None
    basis: str = ""

    @property
    def name(self) -> str:
        """The ``metric`` of `rfsize.size` in words."""
        return name_of(self.metric)

    @property
    def kind(self) -> str:
        """ "labels", "predictions", "metric", "certificate", "importance", or "auto" before `resolve`."""
        if self.target != "limit" and self.metric in ("auto", "labels", *PREDICTIONS):
            return "certificate"
        if self.metric in PREDICTIONS:
            return "predictions"
        return self.name if self.name in ("auto", "labels", "importance") else "metric"

    @property
    def takes_alpha(self) -> bool:
        """Whether ``alpha`` states the level, and not ``tolerance``."""
        return self.kind in ("labels", "certificate", "importance")

    @property
    def is_share(self) -> bool:
        """Whether a loss is a share of the rows, or of the columns."""
        return self.kind in ("labels", "certificate") or self.top is not None

    @property
    def of_labels(self) -> bool:
        """Whether nothing but labels must stay the same."""
        return self.metric in ("labels", "accuracy")

    @property
    def is_shrunk(self) -> bool:
        """Whether it is about the smaller models that `rfsize.shrink` makes."""
        return self.target in ("chosen", "refitted")

    @property
    def is_training(self) -> bool:
        """Whether it ends a training."""
        return self.target == "limit" and self.confidence is not None

    @property
    def level(self) -> float:
        """The largest loss that is allowed."""
        return 1.0 - self.alpha if self.takes_alpha else float(self.tolerance or 0.0)


def options_of(criterion: Criterion) -> dict[str, Any]:
    """The arguments of `rfsize.size` and `rfsize.grow` that ask for a criterion, without those that are the default."""
    options: dict[str, Any] = {"alpha": criterion.alpha} if criterion.takes_alpha else {"metric": criterion.metric}
    if criterion.kind == "certificate":
        target = None if criterion.is_shrunk else criterion.target
        options = {"metric": criterion.metric, "target": target, "confidence": criterion.confidence, **options}
    options |= {"tolerance": criterion.tolerance, "n_trees": criterion.n_trees, "top": criterion.top}
    options["voting"] = None if criterion.voting == "auto" else criterion.voting
    options["average"] = None if criterion.average == "micro" else criterion.average
    return {name: value for name, value in options.items() if value is not None}


def make_criterion(
    metric: MetricLike = "auto",
    tolerance: float | None = None,
    *,
    target: str = "limit",
    confidence: float | None = None,
    threshold: float | None = None,
    **of_labels: Any,
) -> Criterion:
    """The criterion that a user names; options are None if they were not given.

    ``of_labels`` are alpha, average, voting and method.

    Raises
    ------
    ValueError
        If the options do not go together, or one of them is not valid.
    """
    metric = one_name(metric)
    given = {name: value for name, value in sorted(of_labels.items()) if value is not None}
    check_options(metric, tolerance, target=target, confidence=confidence, **given)
    why = "" if metric == "auto" and tolerance is None and not given else None
    if metric == "auto" and given and target == "limit":
        metric = "labels"
    if target == "model":
        _check_certificate(metric, given.get("method"))
        confidence = CONFIDENCE if confidence is None else confidence
    elif metric not in ("auto", "labels"):
        reason = f"with metric={metric!r} tolerance says how far off it may be"
        refuse_unused(reason, **given, threshold=None if goes_by_labels(metric) else threshold)
    if tolerance is not None or (target == "limit" and metric not in PREDICTIONS):
        check_tolerance(metric, tolerance)
    # Numbers of NumPy would print in another way, and ``json`` cannot write them.
    numbers = {"alpha": given.get("alpha"), "tolerance": tolerance, "confidence": confidence}
    given |= {name: float(number) for name, number in numbers.items() if number is not None}
    return Criterion(metric, target=target, why=why, **given)


def check_options(
    metric: MetricLike, tolerance: float | None, *, confidence: float | None = None, **options: Any
) -> None:
    """Raise ``ValueError`` if an option is not valid whatever the model, which may take long to read.

    ``options`` are alpha, target, average, voting and method; each may be None.
    """
    _checked_metric(metric)
    if tolerance is not None:
        positive("tolerance", tolerance)
    if options.get("alpha") is not None:
        share("alpha", options["alpha"])
    if confidence is not None and share("confidence", confidence) < 0.5:
        raise ValueError(f"confidence must be at least 0.5, found {confidence!r}")
    choices = {"target": TARGETS, "average": AVERAGES, "voting": VOTINGS, "method": METHODS}
    for name, values in choices.items():
        choice(name, options.get(name) or values[0], values)


def loss_of(metric: MetricLike) -> Criterion:
    """A criterion of a metric at no level, for the losses of forests, which do not depend on the level."""
    return Criterion(_checked_metric(metric))


def resolve(criterion: Criterion, n_classes: int, *, in_training: bool = False) -> Criterion:
    """The criterion for a forest of ``n_classes`` classes (0: regression); "auto" stays if what it predicts decides.

    Raises
    ------
    NotAForestError
        If labels must stay the same, and the forest predicts numbers.
    ValueError
        If the criterion does not fit the forest otherwise.
    """
    if criterion.metric == "auto" and not n_classes:
        criterion = replace(criterion, metric="scores")
    elif criterion.metric == "auto" and criterion.why is None:
        check_tolerance("labels", criterion.tolerance)
        criterion = replace(criterion, metric="labels")
    if criterion.metric == "labels" and not n_classes:
        raise NotAForestError("a regression forest casts no votes, so it has no labels to size: take metric='scores'")
    if criterion.metric == "probabilities" and not n_classes:
        raise ValueError("metric='probabilities' is for classification; a regression forest has metric='scores'")
    if criterion.average == "macro" and not n_classes:
        raise ValueError("average='macro' is over classes, and the forest predicts numbers: leave average out")
    if criterion.target != "limit" and not criterion.of_labels:
        voting = None if criterion.voting == "auto" else criterion.voting
        refuse_unused("it is for labels, and no labels are compared", voting=voting)
    if criterion.metric == "scores" and n_classes > 2 and in_training:
        advice = "take metric='probabilities', or size the finished forest"
        raise ValueError(f"in training, scores of several classes are known up to a number that all share: {advice}")
    return criterion


def _checked_metric(metric: MetricLike) -> MetricLike:
    """rfsize's name of a metric; ``ValueError`` if it is none."""
    metric = one_name(metric)
    if metric not in NAMES and not callable(metric) and scorer_of(metric) is None:
        advice = "; or a scikit-learn scorer, by its name or from sklearn.metrics.make_scorer"
        choice("metric", metric, NAMES, advice, others=other_names())
    return metric


def check_tolerance(metric: MetricLike, tolerance: float | None) -> None:
    """Raise ``ValueError`` if a tolerance is given for labels or is missing for anything else."""
    if tolerance is not None and metric == "labels":
        raise ValueError("labels stay equal on a share alpha of the rows, and have no tolerance: leave tolerance out")
    if tolerance is None and metric not in ("auto", "labels"):
        raise ValueError(f"metric={metric!r} needs a tolerance, such as tolerance=0.01: how far off it may be")


def _check_certificate(metric: MetricLike, method: str | None) -> None:
    refuse_unused("it says how T* is estimated, and a certificate estimates nothing", method=method)
    if metric not in ("auto", "labels", *PREDICTIONS):
        advice = "take metric='labels', 'probabilities' or 'scores', and give y to see what metrics lose"
        raise ValueError(f"a certificate bounds a share of rows, and {name_of(metric)} is none: {advice}")
