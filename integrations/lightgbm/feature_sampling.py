"""How LightGBM samples features, and where that makes a forest depend on its seed.

LightGBM has a congruential generator modulo 2³². Where it samples k of n features with k > n / log2(k), it uses the
high bits, which are good. Where k is smaller it uses the low bits, of which the lowest alternates 0, 1, 0, 1, … and the
next has a period of 4. If all trees of one iteration together draw an even number of times, the same tree of every
iteration begins with the same lowest bit, and meets some features, and some pairs of them, more often than others, all
through the forest. Which ones depends on the seed: two forests of thousands of trees then predict differently.
"""

from __future__ import annotations

import math

import numpy as np

from rfsize.integrations.lightgbm.model_text import ForestText


def seed_dependence(forest: ForestText) -> str | None:
    """Why forests of other seeds predict otherwise however many trees they have, where they do."""
    n = sum(kind != "none" for kind in forest.header.get("feature_infos", "").split(" "))
    for name in ("feature_fraction", "feature_fraction_bynode"):
        fraction = float(forest.parameters.get(name, 1.0))
        if fraction >= 1.0 or n == 0:
            continue
        drawn = max(int(n * fraction + 0.5), 1)
        if _uses_low_bits(drawn, n) and drawn * forest.n_outputs % 2 == 0:
            enough = next(k for k in range(drawn, n + 1) if not _uses_low_bits(k, n))
            return (
                f"with {name}={fraction:g} LightGBM samples {drawn} of {n} features, from the low bits of its "
                "generator, which repeat: which features the trees meet depends on the seed, and a forest of another "
                "seed may predict otherwise on more rows than alpha allows, however many trees it has; train with "
                f"{name}={math.ceil(100.0 * enough / n) / 100.0:g} or more, where LightGBM samples otherwise"
            )
        n = drawn  # nodes sample among the features of their tree
    return None


def _uses_low_bits(k: int, n: int) -> bool:
    return k < n and (k == 1 or k <= n / np.log2(k))
