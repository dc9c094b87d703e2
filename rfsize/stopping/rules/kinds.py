"""All rules of stopping, and which of those on votes a forest takes."""

from __future__ import annotations

from rfsize.stopping.rules.averages import AverageStops
from rfsize.stopping.rules.base import Stops, Terms
from rfsize.stopping.rules.binary import BinaryStops
from rfsize.stopping.rules.leaders import LeaderStops
from rfsize.stopping.rules.spread import SpreadStops
from rfsize.stopping.rules.ternary import MAX_TERNARY, TernaryStops
from rfsize.stopping.rules.votes import VoteStops
from rfsize.stopping.rules.weighted import WeightedStops

UrnStops = BinaryStops | TernaryStops | LeaderStops

_KINDS: tuple[type[Stops], ...] = (BinaryStops, TernaryStops, LeaderStops, WeightedStops, AverageStops, SpreadStops)


def of_urn(n_trees: int, n_classes: int) -> type[UrnStops]:
    """Stops on votes that an urn gives."""
    if n_classes == 2:
        return BinaryStops
    return TernaryStops if n_classes == 3 and n_trees <= MAX_TERNARY else LeaderStops


def kinds_for(n_trees: int, n_classes: int) -> dict[str, type[Stops]]:
    """The stops that a forest may have, by the names of their kinds; one class stands for a regression."""
    urns = {BinaryStops, TernaryStops, LeaderStops} - {of_urn(n_trees, n_classes)}
    kinds = [kind for kind in _KINDS if kind not in urns] if n_classes > 1 else [SpreadStops]
    return {kind.kind: kind for kind in kinds}


def majority(n_trees: int, n_classes: int) -> VoteStops:
    """Stops where the trees left can no longer change the majority of all."""
    return (BinaryStops if n_classes == 2 else LeaderStops).lossless(n_trees)


def check_combination(kind: type[UrnStops], rule: str, target: str) -> None:
    """Raise ``ValueError`` where stops of a kind are not defined by a rule, or not for a target."""
    if rule == "robust" and (kind is not BinaryStops or target != "forest"):
        raise ValueError(
            "rule='robust' bounds the disagreement with all trees for every tally of two classes; more classes, and "
            "target='limit', have no such bound: use rule='optimal' or 'threshold'"
        )
    if rule not in kind.rules or (target == "limit" and not kind.knows_limit):
        raise ValueError(
            f"more than three classes, or three with more than {MAX_TERNARY} trees, are reduced to the two leading "
            f"classes, on which rule={rule!r} with target={target!r} is not defined; use rule='threshold' and "
            "target='forest'"
        )


def built(terms: Terms) -> UrnStops:
    """The stops of checked terms."""
    return of_urn(terms.n_trees, terms.n_classes).build(terms)
