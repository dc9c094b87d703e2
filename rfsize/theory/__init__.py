"""Equations for T*(α) and agreement, as pure functions of arrays: two classes here, several in `multiclass`."""

from rfsize.theory.arguments import MAX_TREES
from rfsize.theory.asymptotic import (
    HALF_NORMAL,
    asymptotic_disagreement,
    asymptotic_size,
    instance_size_closed_form,
    size_tail,
)
from rfsize.theory.binary import (
    agreement,
    class_probability,
    disagreement,
    ensemble_size,
    instance_size,
    limit_agreement,
    mean_agreement,
    mean_disagreement,
    why_infinite,
)
from rfsize.theory.sampling_ratio import fraction_without_replacement, ratio_with_replacement
from rfsize.theory.smallest_size import smallest_size

__all__ = [
    "HALF_NORMAL",
    "MAX_TREES",
    "agreement",
    "asymptotic_disagreement",
    "asymptotic_size",
    "class_probability",
    "disagreement",
    "ensemble_size",
    "fraction_without_replacement",
    "instance_size",
    "instance_size_closed_form",
    "limit_agreement",
    "mean_agreement",
    "mean_disagreement",
    "ratio_with_replacement",
    "size_tail",
    "smallest_size",
    "why_infinite",
]
