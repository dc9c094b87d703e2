"""Report: how many trees are enough, and what forests of other sizes lose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rfsize._util import Caution
from rfsize.counting.outputs import TreeOutputs, warnings_for
from rfsize.exceptions import NotConvergedWarning
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.sizing.goals.base import Goal
from rfsize.sizing.page import report_account
from rfsize.sizing.plots import plot_report
from rfsize.sizing.sentences import finding, lines
from rfsize.sizing.sized_forest import SizedForest, answer_of
from rfsize.sizing.words import finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Report(SizedForest, Result):
    """The answer of `rfsize.size`: how many trees are enough.

    Attributes
    ----------
    goal : Goal
        What must stay the same. Its ``name`` is the ``metric``, its ``level`` the loss that you allow.
    available : int
        Number of trees of your forest.
    source : str
        Where the votes or scores come from: "oob", "rows given", "cross-validation", or during training the name of
        the validation set.
    copied : float or None
        Share of the training rows that have a copy. None if rfsize did not look for copies.
    groups : {"rows", "copies", "given", "unknown"}
        Which training rows belong together. A tree that was trained on one row of a group votes on none of the group.
        "rows": each row is a group of its own; "copies": equal rows belong together; "given": your groups; "unknown":
        the training data does not store rows, so rfsize cannot look for copies.
    notes_on_rows : tuple of str
        During training: which rows were not read, or not exactly.

    See Also
    --------
    size : Make a report.
    truncate : Cut a forest to the size of a report.

    Notes
    -----
    The 95 % interval of T* covers the choice of the rows and of the trees. All rows ask the same trees, so the errors
    of the rows are correlated. rfsize measures this correlation from blocks of trees. Counted `Votes` have no blocks,
    so their interval covers the choice of the rows only. The loss of a metric falls like c/(T + d); rfsize finds c and
    d from halves and quarters of your trees. For up to 37 trees, it measures the loss on forests drawn from your trees.

    Examples
    --------
    >>> import rfsize
    >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
    >>> report = rfsize.size(votes, alpha=0.95, method="plugin")
    >>> print(report)
    71 of your 100 trees are enough (95 % interval ... to ...)
      95.04 % of labels equal those of an unlimited forest
      from the 400 rows you gave, 100 votes each
    >>> report.enough, report.to_dict()["n_trees"]
    (True, 71)
    """

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """Warnings about the forest, or about what suffers when you cut it.

        Each has a ``category`` and a ``text``. `rfsize.truncate`, `rfsize.grow` and `rfsize.SizeCallback` issue them
        as Python warnings.
        """
        too_small = () if self.enough else (Caution(NotConvergedWarning, finding(self)),)
        return (*self._cautions, *too_small)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain Python values that ``json`` can write; an infinite size becomes None."""
        return {
            "warnings": [one.to_dict() for one in self.warnings],
            "n_trees": finite(self.n_trees),
            "interval": [finite(bound) for bound in self.interval],
            "available": self.available,
            "enough": self.enough,
            "n_kept": self.n_kept,
            "reason": self.reason,
            "confidence": self.goal.confidence,
            "metric": self.goal.name,
            **{name: value for name, value in self.goal.options.items() if name != "metric"},
            "loss": self.loss_at(self.n_kept).to_dict(),
            "beside": {name: self.loss_at(self.n_kept, name).to_dict() for name in self._beside},
            "source": self.source,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "votes_per_row": self.votes_per_row,
            "copied": self.copied,
            "groups": self.groups,
            "notes": [*self._answer.notes(), *self.notes_on_rows],
            **self._answer.to_dict(),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw agreement or loss over the number of trees, with its 95 % interval, T* and your forest.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            The axes. If the report is about a share of rows, the curve shows the share that changes, and the ticks name
            the share that stays the same.
        """
        return plot_report(self, ax)

    def _account(self) -> Account:
        return report_account(self)

    def __getstate__(self) -> dict[str, Any]:
        # Neither model nor rows go into a pickle.
        return {**self.computed().__dict__, "_outputs": None}

    def __copy__(self) -> Report:
        return replace(self)

    def __str__(self) -> str:
        return lines(self)

    __repr__ = __str__


def report_of(outputs: TreeOutputs, goal: Goal) -> Report:
    """The report that the trees' outputs give for a goal; raises as `Goal.checked` and `Goal.answer`."""
    goal, groups = goal.checked(len(outputs.classes), outputs.y), outputs.groups
    answer = answer_of(goal, outputs)
    return Report(goal, outputs.n_trees, outputs.source, groups.copied, groups.by, answer.cautions, answer, outputs)


def sized(outputs: TreeOutputs, goal: Goal) -> Report:
    """The report on a finished forest; raises as `report_of`."""
    report = report_of(outputs, goal)
    return report._noting(*warnings_for(outputs, of_labels=report.goal.of_labels)).computed()
