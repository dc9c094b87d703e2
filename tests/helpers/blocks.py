"""Forests in blocks, trained in this process."""

from __future__ import annotations

from typing import Any

from rfsize.counting.copies import resolved
from rfsize.models.framework import framework_for
from rfsize.sizing.goals.labels import LabelGoal
from rfsize.sizing.report import Report, report_by
from rfsize.training.blocks import Beginning, ForestInBlocks, trained
from rfsize.training.growing import Growth
from rfsize.training.until_enough import UntilEnough


def grown_in_blocks(
    params: dict[str, Any], dtrain: Any, *, alpha: float, min_trees: int, max_trees: int, trees_per_block: int
) -> tuple[Any, Report]:
    """What `rfsize.dask.grow` trains on workers."""
    integration, goal = framework_for(dtrain), LabelGoal(alpha, confidence=0.8)
    X = integration.rows_of(dtrain)
    trainer = integration.trainer(params, dtrain)
    truth, belong = (trainer.label, trainer.weight), resolved(None, X, len(trainer.label))
    forest = ForestInBlocks(
        Beginning.of(trainer, 0.5, belong),
        lambda blocks: (trained(trainer, block, 0.5, belong) for block in blocks),
        integration.merged,
        trees_per_block,
    )
    growth = Growth(goal, forest, truth, lambda groups, model: report_by(groups, model, X, *truth, goal=goal))
    return growth.to_size(UntilEnough(min_trees, max_trees))
