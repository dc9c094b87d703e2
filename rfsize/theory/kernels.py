"""The compiled loops over pairs of classes, and nothing else.

Of T votes on a row, a share a of all trees votes for the leader, a share b for a rival, and the rest for neither.
The difference of the two counts is the sum of T independent steps of -1, 0 and 1; by a change of contour its
distribution function is an integral of a real function, and with u = tan(θ/2) = exp(v) and κ = (√a − √b)/(√a + √b)

    P(rival ahead) + ½ P(level) = (2π)⁻¹ ∫ (1 − a − b − 2√(ab) · tanh v)ᵀ / cosh(v − log κ) dv,
                     ½ P(level) = (2π)⁻¹ ∫ (1 − a − b − 2√(ab) · tanh v)ᵀ / cosh(v) dv.

The integrands are analytic in a strip around the real axis, where the trapezoidal rule converges geometrically: a
step of 1/4 gives the probabilities to 1e-8, whatever T is. Imported only for more than two classes, since numba is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.jit import compiled
from rfsize.utils.typing import Floats

_STEP = 0.25
# Beyond so much below log κ, and so much above 0 and log √T, the power is constant and the rest a geometric series.
_BELOW, _ABOVE, _ABOVE_ROOT = 9.0, 9.0, 6.0
_NEGLIGIBLE = -27.0  # a logarithm; below it a probability is taken for zero


@compiled
def overtakes(n_trees: int, a: float, b: float, wins_ties: bool) -> float:
    """P(the rival gets more votes than the leader), or as many where it wins ties; 0 < b ≤ a, a + b ≤ 1."""
    root_a, root_b = math.sqrt(a), math.sqrt(b)
    gap = root_a - root_b
    # Chernoff's bound on the probability; it is also the largest value of the power in the integrals.
    if n_trees * math.log1p(-gap * gap) < _NEGLIGIBLE:
        return 0.0
    neither, cross = max(1.0 - a - b, 0.0), 2.0 * root_a * root_b
    level = gap <= 0.0
    log_kappa = 0.0 if level else math.log(gap / (root_a + root_b))
    end = abs(neither - cross)
    ends_small = end == 0.0 or n_trees * math.log(end) < _NEGLIGIBLE
    last = max(_ABOVE, 0.5 * math.log(n_trees * max(cross, 1e-300)) + _ABOVE_ROOT)
    nodes = int((last - log_kappa + _BELOW) / _STEP) + 1
    growth, kappa = math.exp(_STEP), math.exp(log_kappa)
    exp_v = math.exp(log_kappa - _BELOW)
    total, total_level = 0.0, 0.0
    for node in range(nodes):
        square = exp_v * exp_v
        # 1 + what follows is the base of the power; written so as not to cancel where it is close to 1.
        less = -gap * gap - 2.0 * cross * square / (1.0 + square)
        base = 1.0 + less
        size = math.log1p(less) if base > 0.5 else (math.log(abs(base)) if base != 0.0 else -math.inf)
        exponent = n_trees * size
        if exponent < _NEGLIGIBLE:
            if ends_small:
                break
        else:
            power = math.exp(exponent)
            if base < 0.0 and n_trees % 2 == 1:
                power = -power
            if node == 0 or node == nodes - 1:
                power /= 1.0 - 1.0 / growth
            total += power / (exp_v / kappa + kappa / exp_v)
            total_level += power / (exp_v + 1.0 / exp_v)
        exp_v *= growth
    half_tie = total_level * _STEP / math.pi
    ahead_or_half = 0.5 if level else total * _STEP / math.pi
    return max(ahead_or_half + (half_tie if wins_ties else -half_tie), 0.0)


@compiled
def disagreement(
    n_trees: int,
    leader: Floats,
    first: NDArray[np.int64],
    rival: Floats,
    wins_ties: NDArray[np.bool_],
    out: Floats,
) -> None:
    """1 − ∏ (1 − P(rival overtakes)) of each row, whose rivals begin at ``first``."""
    for row in range(len(leader)):
        log_agreement = 0.0
        for pair in range(first[row], first[row + 1]):
            lost = overtakes(n_trees, leader[row], rival[pair], wins_ties[pair])
            log_agreement += math.log1p(-lost) if lost < 1.0 else -math.inf
            if log_agreement < _NEGLIGIBLE:
                break
        out[row] = -math.expm1(log_agreement)
