"""What the trees' outputs answer to a goal, with strata where the number of votes depends on what a row is."""

from __future__ import annotations

from dataclasses import replace

from rfsize.counting.representative import too_many_untold
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.sizing.goals.base import Answer, Goal


def answer_to(goal: Goal, outputs: TreeOutputs) -> Answer:
    """The answer to a goal that has been checked.

    Raises
    ------
    FewVotesError
        If rows of some kind have too few out-of-bag votes, or else as the answer of the goal.
    """
    distinct = outputs.distinct
    return goal.answer(_by_votes(goal, distinct) if outputs.source == "oob" else distinct)


def _by_votes(goal: Goal, outputs: TreeOutputs) -> TreeOutputs:
    """Outputs out of bag, with strata where the number of votes depends on what a row is."""
    asked = outputs.by_votes()
    # Where rows of large groups have no votes, or none has any, the report says so.
    if asked.is_uneven or not too_many_untold(asked.n_without, len(asked.asked)):
        lack = asked.of_some_rows("how many trees are enough", fewest=goal.fewest_votes)
        if lack is not None:
            raise lack.error()
    strata = asked.strata if len(outputs.classes) else None
    return outputs if strata is None else replace(outputs, strata=strata)
