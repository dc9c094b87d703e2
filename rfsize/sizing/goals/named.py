"""The goal that you name by ``metric``, ``alpha`` and ``tolerance``."""

from __future__ import annotations

from numbers import Real
from typing import Any

from rfsize.counting.evidence import Evidence
from rfsize.sizing.goals.base import Goal, GoalWithin
from rfsize.sizing.goals.certified import CertifiedGoal
from rfsize.sizing.goals.deviation import DeviationGoal
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.goals.metric import MetricGoal
from rfsize.sizing.goals.usual import UsualGoal
from rfsize.sizing.named_metrics import MetricLike, one_name, other_names
from rfsize.utils.validation import choice

GOALS: tuple[type[Goal], ...] = (UsualGoal, LabelGoal, DeviationGoal, MetricGoal)
"""All kinds of goals against an unlimited forest; this is the only place to name a new one."""

NAMES = tuple(name for kind in GOALS for name in kind.names)
"""What the size of a forest may go by, by name; a scorer of scikit-learn's does as well."""


TARGETS = ("limit", "forest")


def goal_of(metric: MetricLike, tolerance: float | None, *, target: Any = "limit", **options: Any) -> Goal:
    """The goal that a user names; options are None where they were not given.

    Raises
    ------
    ValueError
        If the options do not go together, or one of them is none.
    """
    named = {"tolerance": tolerance, **options}
    given = {name: _plain(value) for name, value in named.items() if value is not None}
    metric = one_name(metric)
    choice("target", target, TARGETS)
    kind = _kind(metric)  # refuses what is no metric
    return (kind if target == "limit" else CertifiedGoal).named(metric, **given)


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's, which prints as it was typed and which ``json`` can write."""
    return float(value) if type(value) not in (bool, int, float) and isinstance(value, Real) else value


def any_goal(metric: MetricLike) -> Goal:
    """A goal of a metric, to tell the loss of forests of any size, which does not depend on its level."""
    metric = one_name(metric)
    kind = _kind(metric)
    return kind.named(metric, **({"tolerance": 1.0} if issubclass(kind, GoalWithin) else {}))


def listed_beside(outputs: Evidence) -> tuple[str, ...]:
    """Names of the goals whose losses a report lists beside its own."""
    return tuple(name for kind in GOALS for name in kind.beside(outputs))


def _kind(metric: MetricLike) -> type[Goal]:
    for kind in GOALS:
        if kind.is_named(metric):
            return kind
    if metric == "importance":
        raise ValueError(
            "metric='importance' takes more than the trees' predictions: columns are permuted, and their losses sized. "
            "Call rfsize.oob_importance(model, X, y).size(top=10), which says how many trees bring the first ten "
            "columns to rest"
        )
    advice = "; or a scorer of scikit-learn's, by its name or as sklearn.metrics.make_scorer makes it"
    choice("metric", metric, NAMES, advice, others=other_names())
    raise AssertionError(metric)
