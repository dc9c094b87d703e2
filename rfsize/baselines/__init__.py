"""Older rules for the number of trees: McNemar's test, and the smoothed out-of-bag accuracy.

Both ask when more trees stop improving the accuracy on labelled rows. T*(α) asks when they stop changing the
predictions, and needs no labels.
"""

from rfsize.baselines.banfield import BanfieldSize, banfield_size
from rfsize.baselines.mcnemar import McNemarSize, mcnemar_size

__all__ = ["BanfieldSize", "McNemarSize", "banfield_size", "mcnemar_size"]
