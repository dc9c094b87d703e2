"""How reports print numbers, and when they call a forest too small to tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfsize.counting.representative import by_nature_advice
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.utils.words import how_many, printable

# A class of fewer of the labels is rare; of many classes, only so many are spoken of.
RARE, _CLASSES_SAID = 0.05, 5

VOTED = {"hard": "majority vote", "soft": "averaged scores"}


def finite(size: int | float) -> int | None:
    """A size as ``json`` takes it."""
    return int(size) if math.isfinite(size) else None


def decimals(interval: tuple[float, float]) -> int:
    """How many decimals a number with this interval is worth."""
    length = interval[1] - interval[0]
    return int(np.clip(2 - np.floor(np.log10(max(length, 1e-12))), 0, 8))


def in_percent(share: float) -> str:
    """A share as reports print it: with two decimals, or as many as tell it from 1."""
    missing = 1.0 - share
    decimals = 2 if missing <= 0.0 else min(max(2, math.ceil(round(-math.log10(missing), 6)) - 2), 10)
    return f"{share:.{decimals}%}"


def in_round_percent(share: float) -> str:
    """A share to two digits, such as "26 %"."""
    return f"{float(f'{100.0 * share:.2g}'):g} %"


def in_words(size: int | float) -> str:
    """A size as reports print it."""
    return f"{size:,}" if math.isfinite(size) else "inf"


def no_votes_advice(outputs: TreeOutputs) -> str:
    """What to do where no row has votes or scores enough, as the end of a sentence."""
    if outputs.n_trees < 2:
        return f": the forest has {how_many(outputs.n_trees, 'tree')}; train more"
    if outputs.source == "oob":
        saw = "every row" if outputs.groups.index is None else "every row, or another of its group"
        by_nature = by_nature_advice(outputs.groups.by)
        return f": every tree saw {saw}; lower the bagging fraction or give validation rows{by_nature}"
    return ": nothing to size a forest from"


def in_a_sentence(size: int | float) -> str:
    """A size as sentences and pages say it."""
    return in_words(size) if math.isfinite(size) else "not known"


def by_class_in_words(agreement: dict[Any, float], shares: dict[Any, float], n_trees: int) -> str:
    """Agreement by class of so many trees, of those that agree least where they are many, and who gets few labels."""
    some, which = list(agreement), "by class"
    if len(some) > _CLASSES_SAID:
        some = sorted(some, key=lambda of: agreement[of])[:_CLASSES_SAID]
        which = f"by class, the lowest of {len(agreement)}"
    said = [f"{printable(of)} {in_percent(agreement[of])}{_if_rare(shares[of])}" for of in some]
    never = [printable(of) for of in shares if of not in agreement]
    left_out = f"; no row is given {', '.join(never)}" if never else ""
    return f"{which}, at {how_many(n_trees, 'tree')}: {', '.join(said)}{left_out}"


def _if_rare(share: float) -> str:
    """What to say beside a class of so small a share of the labels."""
    return f" ({in_round_percent(share)} of the labels)" if share < RARE else ""
