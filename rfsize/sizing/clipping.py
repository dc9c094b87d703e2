"""Where clipping decides the log loss.

A leaf with rows of only one class gives the other classes no probability. If all trees send a row to such leaves and
the row is of another class, its log loss would be infinite. scikit-learn clips probabilities at the precision of a
float, so that such a row counts 36. A few of these rows decide the mean, and smaller forests have more of them.
"""

from __future__ import annotations

from rfsize._util import Caution, Floats, Int64s, how_many, in_percent
from rfsize.counting.part_sums import Blocks
from rfsize.exceptions import ForestWarning
from rfsize.sizing.forest_parts import Predicted, mean_of_smaller_forests
from rfsize.sizing.metrics import Metric
from rfsize.sizing.named_metrics import MOST_LOG_LOSS, clipped_rows


def cautions_of_rows(judge: Metric, rows: Int64s, predicted: Floats, n_trees: int) -> tuple[Caution, ...]:
    """A warning if the log loss of some rows is clipped, by their predictions."""
    clipped = clipped_rows(judge)
    return () if clipped is None else _cautions(clipped.value(rows, predicted), n_trees)


def cautions_of_size(judge: Metric, blocks: Blocks, predicted: Predicted, n_trees: int) -> tuple[Caution, ...]:
    """A warning if forests of ``n_trees`` of the trees clip the log loss of some rows."""
    clipped = clipped_rows(judge)
    return () if clipped is None else _cautions(mean_of_smaller_forests(blocks, clipped, predicted, n_trees), n_trees)


def _cautions(share: float, n_trees: int) -> tuple[Caution, ...]:
    if not share > 0.0:
        return ()
    text = (
        f"clipping decides the log loss: {how_many(n_trees, 'tree')} give {in_percent(share)} of the rows a "
        f"probability of 0 for their class, which scikit-learn's log loss counts as {MOST_LOG_LOSS:.0f} each, "
        f"{share * MOST_LOG_LOSS:.2g} in the mean. Take metric='brier', or train trees whose leaves hold more rows"
    )
    return (Caution(ForestWarning, text),)
