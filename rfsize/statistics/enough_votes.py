"""Whether the rows have enough votes to estimate how many trees are enough."""

from __future__ import annotations

from rfsize._util import how_many, in_percent
from rfsize.counting.coverage import FEWEST_VOTES, by_nature_advice, few_votes, too_many_without_votes
from rfsize.counting.outputs import TreeOutputs, coverage
from rfsize.exceptions import FewVotesError
from rfsize.statistics.criterion import Criterion

FEWEST_VOTES_OF_METRICS = 40
"""Every quarter of the trees must predict rows of each kind, or the loss of smaller forests cannot be measured."""

_WHAT = "how many trees are enough"


def check_votes(outputs: TreeOutputs, criterion: Criterion) -> None:
    """Raise `FewVotesError` if rows of some kind have too few out-of-bag votes."""
    if outputs.source != "oob":
        return
    votes = coverage(outputs)
    # If rows of large groups have no votes, or no row has any, the report says so; no error is raised here.
    if votes.is_uneven or not votes.lacks_votes:
        fewest = FEWEST_VOTES_OF_METRICS if criterion.kind == "metric" else FEWEST_VOTES
        problem = votes.problem_of_some(_WHAT, fewest=fewest)
        if problem is not None:
            raise problem


def lacks_votes(outputs: TreeOutputs, n_dropped: int, n_rows: int) -> bool:
    """Whether too many rows of large groups, or with uneven bags, have no votes."""
    is_grouped = outputs.groups.index is not None or outputs.groups.sizes is not None
    return is_grouped and too_many_without_votes(n_dropped, n_rows)


def problem_of_votes(
    outputs: TreeOutputs, votes_per_row: float, n_dropped: int, n_rows: int, *, fewest: int, lacks: bool
) -> str | None:
    """Why the votes do not tell how many trees are enough, and what to do; None if they do."""
    if votes_per_row < fewest:
        is_oob = outputs.source == "oob"
        return str(few_votes(votes_per_row, outputs.n_trees, _WHAT, oob=is_oob, fewest=fewest))
    if not lacks:
        return None
    return (
        f"{in_percent(n_dropped / n_rows)} of the rows have no out-of-bag votes, since every tree saw a row of their "
        "groups, and these rows may be the ones that take most trees: give validation rows, take "
        "rfsize.tree_outputs(cv=...), lower the bagging fraction, or train on each row once with weights for its "
        f"copies{by_nature_advice(outputs.groups.by)}"
    )


def no_votes_error(outputs: TreeOutputs, what: str) -> FewVotesError:
    """The error if no row has ``what``: a vote, or the scores of two trees."""
    if outputs.n_trees < 2:
        return FewVotesError(f"no row has {what}: the forest has {how_many(outputs.n_trees, 'tree')}; train more")
    if outputs.source != "oob":
        return FewVotesError(f"no row has {what}: there is nothing to size a forest from")
    saw = "every row" if outputs.groups.index is None else "every row, or another of its group"
    by_nature = by_nature_advice(outputs.groups.by)
    return FewVotesError(
        f"no row has {what}: every tree saw {saw}; lower the bagging fraction or give validation rows{by_nature}"
    )
