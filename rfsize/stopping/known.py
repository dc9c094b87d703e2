"""A stop table as its file holds it, and what is known of it: what it asks, what it gets wrong, and for which class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rfsize import _core
from rfsize.errors import RareClassWarning
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.stopping import rules, urn
from rfsize.stopping.certificate import MOST_LOST, RARE, Certificate, ClassCounts, ClassOutcome
from rfsize.stopping.document import checked_fields, read_document, refuse, to_document, write_document
from rfsize.stopping.spread import SpreadStops
from rfsize.stopping.stops import (
    ROUNDING,
    AverageStops,
    BinaryStops,
    LeaderStops,
    Stops,
    TernaryStops,
    WeightedStops,
)
from rfsize.utils.typing import Floats
from rfsize.utils.warn import warn
from rfsize.utils.words import how_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Self = TypeVar("Self", bound="KnownTable")

_CLASSES_SAID = 5


@dataclass(frozen=True, eq=False)
class KnownTable(Result):
    """The fields of a `rfsize.stopping.table.StopTable`, which describes them, and all that follows from them."""

    n_trees: int
    n_classes: int
    alpha: float
    rule: str
    target: str
    prior: Floats | None
    stops: Stops
    nominal: float | None = None
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    counts: ClassCounts | None = None
    certificate: Certificate | None = None

    @property
    def kind(self) -> str:
        """Kind of the stops: "binary", "ternary", "leaders", "weighted", "averages" or "spread"."""
        return self.stops.kind

    @property
    def voting(self) -> str:
        """Whether the table goes by the trees' votes ("hard") or by their averaged scores ("soft")."""
        return "soft" if isinstance(self.stops, AverageStops | SpreadStops) else "hard"

    @property
    def metric(self) -> str:
        """What agrees with all trees: "labels", "probabilities" or "scores"."""
        return self.stops.metric if isinstance(self.stops, SpreadStops) else "labels"

    @property
    def promise(self) -> str:
        """Whether at most 1 − α disagreement is "certified" for one forest, or "expected" of forests like it."""
        return "expected" if self.certificate is None else "certified"

    def expected_trees(self) -> float:
        """Mean number of trees asked per row under the prior.

        Exact, by a sum over the lattice of tallies; measured by a simulation with a fixed seed for
        `LeaderStops`, on random orders of the votes of the prior's rows (or of uniform tallies).

        Raises
        ------
        ValueError
            If the votes are weighted.
        """
        trees = self._outcome[1]
        if math.isnan(trees):
            raise ValueError(
                "how many members a weighted vote asks depends on which of them agree, and the table knows no votes: "
                "take the mean of what apply(tree_votes) returns as asked"
            )
        return trees

    def expected_disagreement(self) -> float:
        """Share of the rows whose answer differs from the target's under the prior; exact or measured, as above.

        0 for weighted votes.
        """
        return self._outcome[0]

    def expected_unsettled(self) -> float:
        """Share of the rows that never reach α under the prior, and are answered as all T trees would.

        These are the rows whose remaining votes cannot change the majority of all T trees, while the
        probability that the leading class wins in the infinite forest is at most α. 0 for target "forest".
        """
        return 0.0 if self.target == "forest" else self._outcome[2]

    def disagreement_by_tally(self) -> Floats:
        """Probability of a wrong answer given each final tally, over random orders of the votes; two classes.

        Returns
        -------
        ndarray of float, shape (T + 1,)
            By votes for class 1. For target "limit", the winner of a tally is itself uncertain, and the
            whole forest would disagree as well.

        Raises
        ------
        ValueError
            If the table has more than two classes, or the votes are weighted.

        Examples
        --------
        >>> import rfsize
        >>> rfsize.StopTable.build(5, alpha=0.9).disagreement_by_tally().round(3).tolist()
        [0.0, 0.0, 0.1, 0.1, 0.0, 0.0]
        """
        if not isinstance(self.stops, BinaryStops):
            raise ValueError(f"only unweighted tables of two classes have one tally per number of votes; {self!r}")
        answered_0, answered_1 = _core.answers_by_tally(self.stops.lower, self.stops.upper)
        wins_0, wins_1 = urn.winning_masses(np.ones(self.n_trees + 1), self.target)
        return np.asarray(answered_0 * wins_1 + answered_1 * wins_0)

    def by_class(self) -> list[ClassOutcome]:
        """What the table does to the rows that all trees give each class.

        Computed exactly from the prior for two classes and three; counted on the rows of the certificate, or of the
        simulation, for others.

        Returns
        -------
        list of ClassOutcome
            For each class its ``label``, its ``share`` of all rows, the ``disagreement`` among its rows, and the mean
            number of ``trees`` asked for them. NaN where that is not known: of weighted votes the share and the trees.

        Examples
        --------
        One row in ten is of class 1, and it loses more than the other class does:

        >>> import rfsize
        >>> votes = rfsize.Votes([[95, 5]] * 80 + [[60, 40]] * 10 + [[35, 65]] * 10)
        >>> table = rfsize.StopTable.build(101, alpha=0.95, prior=votes)
        >>> [outcome.disagreement > table.expected_disagreement() for outcome in table.by_class()]
        [False, True]
        """
        return list(self._by_class)

    @cached_property
    def _by_class(self) -> list[ClassOutcome]:
        known = self.counts if self.certificate is None else self.certificate.counts
        if known is not None:
            return known.by_class(self._labels)
        if isinstance(self.stops, BinaryStops | TernaryStops):
            return self._computed_by_class(self.stops)
        lost = 0.0 if isinstance(self.stops, WeightedStops) else math.nan
        return [ClassOutcome(label, math.nan, lost, math.nan) for label in self._labels]

    def _computed_by_class(self, stops: BinaryStops | TernaryStops) -> list[ClassOutcome]:
        """What happens to the mass on which each class wins, taken alone."""
        wins, found = rules.winning_masses(self.n_trees, self.n_classes, self.prior, self.target), []
        for index, label in enumerate(self._labels):
            alone = np.zeros_like(wins)
            alone[index] = wins[index]
            mass = float(alone.sum())
            wrong, trees, _ = _computed_outcome(alone, stops, self._built_for)
            of_class = (wrong / mass, trees / mass) if mass > 0.0 else (math.nan, math.nan)
            found.append(ClassOutcome(label, mass, *of_class))
        return found

    @property
    def _labels(self) -> tuple[Any, ...]:
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    def warn_of_rare_classes(self) -> None:
        """`RareClassWarning` where a class loses a share `MOST_LOST` of its rows, and twice what all may lose."""
        most = max(MOST_LOST, 2.0 * (1.0 - self.alpha))
        lost = [
            f"{outcome.label!r} ({outcome.share:.2%} of the rows): {outcome.disagreement:.0%}"
            for outcome in self.by_class()
            if outcome.disagreement > most
        ]
        if lost:
            warn(
                f"the table answers {self.expected_disagreement():.2%} of all rows otherwise than all trees, but of "
                f"the rows that they give to a class, {', '.join(lost[:_CLASSES_SAID])}; where these classes count, "
                "use StopTable.calibrate(..., average='macro'), which bounds each by itself, or a higher alpha",
                RareClassWarning,
            )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the votes at which voting stops; of a certified table also the rows that differed, and the bound.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw the stops alone; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from rfsize.stopping.plots import plot_table

        return plot_table(self, ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table as JSON.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        OSError
            If it cannot be written.

        Examples
        --------
        >>> import rfsize
        >>> table = rfsize.StopTable.build(101, alpha=0.99)
        >>> table.save("table.json")
        >>> rfsize.StopTable.load("table.json") == table
        True
        """
        write_document(path, self.to_dict())

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str]) -> Self:
        """Read a table that `save` wrote, and verify that it keeps its promise.

        Parameters
        ----------
        path : str or path-like
            The file; it may come from anyone.

        Returns
        -------
        StopTable
            Equal to the one saved.

        Raises
        ------
        TableError
            If the file is damaged, was not written by `save`, or holds stops that disagree more often than
            they promise.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import rfsize
        >>> rfsize.StopTable.build(101, alpha=0.99).save("table.json")
        >>> rfsize.StopTable.load("table.json").n_trees
        101
        """
        return cls.from_dict(read_document(path))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain Python values that ``json`` can write."""
        return to_document(
            n_trees=self.n_trees,
            n_classes=self.n_classes,
            alpha=self.alpha,
            rule=self.rule,
            target=self.target,
            prior=self.prior,
            stops=self.stops,
            nominal=self.nominal,
            classes=self.classes,
            threshold=self.threshold,
            counts=self.counts,
            certificate=self.certificate,
        )

    @classmethod
    def from_dict(cls: type[Self], document: dict[str, Any]) -> Self:
        """The table of `to_dict`, verified; errors as in `load`."""
        table = cls(**checked_fields(document))
        table._check_promise()
        return table

    def _account(self) -> Account:
        from rfsize.stopping.account import table_account

        return table_account(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnownTable):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if isinstance(self.stops, WeightedStops):
            return f"StopTable({how_many(self.n_trees, 'weighted member')}, {self.n_classes} classes, lossless)"
        how = "expected" if isinstance(self.stops, BinaryStops | TernaryStops) else "measured"
        classes = f"{self.n_classes} classes" if self.n_classes > 1 else "no classes"
        words = [how_many(self.n_trees, "tree"), classes, self.kind, f"alpha={self.alpha!r}"]
        if isinstance(self.stops, SpreadStops):
            words += [f"metric={self.metric!r}", f"tolerance={self.stops.tolerance:g}"]
        else:
            words.append(f"rule={self.rule!r}")
        if self.voting == "hard":
            words += [f"target={self.target!r}", f"prior {'uniform' if self.prior is None else 'given'}"]
        if self.threshold not in (None, 0.5):
            words.append(f"threshold={self.threshold:g}")
        found = f"{self.expected_trees():.1f} trees per row, {self.expected_disagreement():.3%} disagreement"
        if self.certificate is not None:
            found += f"; {self.certificate}"
        rare = [outcome for outcome in self.by_class() if outcome.share < RARE and outcome.disagreement >= 0.0]
        if rare:
            each = [f"{outcome.label!r} ({outcome.share:.2%}) {outcome.disagreement:.1%}" for outcome in rare]
            more = f" and {len(each) - _CLASSES_SAID} more" if len(each) > _CLASSES_SAID else ""
            found += f"; of rare classes' rows: {', '.join(each[:_CLASSES_SAID])}{more}"
        return f"StopTable({', '.join(words)}; {how}: {found})"

    def _check_promise(self) -> None:
        """``TableError`` where the stops disagree more often than promised, or ask at no known rule's will."""
        alpha = self._built_for
        allowed = (1.0 - alpha) * (1.0 + ROUNDING) + 1e-12
        stops = self.stops
        if isinstance(stops, WeightedStops | AverageStops | SpreadStops):
            return  # worked out from weights which have been checked, or known by what they did on rows
        if isinstance(stops, LeaderStops):
            built = rules.leader_stops(self.n_trees, self.n_classes, alpha, self.prior)
            if not np.array_equal(built.upper, stops.upper):
                refuse("the stops are not those that the table's prior and alpha give")
            return
        if alpha == 1.0:
            lossless = rules.lossless_stops(self.kind, self.n_trees)
            if lossless.to_dict() != stops.to_dict():
                refuse("alpha is 1, but the stops are not the lossless ones")
            return
        if self.rule == "robust":
            assert isinstance(stops, BinaryStops)
            found = rules.largest_disagreement((stops.lower, stops.upper))
        else:
            found = self.expected_disagreement()
            if self.rule == "threshold":
                # Rows that never reach α are answered as the whole forest would, which is all that is promised.
                allowed += self.expected_unsettled()
        if not found <= allowed:
            promised = f"alpha={alpha!r} promises {1.0 - alpha:.4%}"
            refuse(f"the stops disagree on {found:.4%} of the rows, but {promised}")

    @property
    def _built_for(self) -> float:
        """The α that the stops were made with."""
        return self.alpha if self.nominal is None else self.nominal

    @property
    def _on_rows(self) -> ClassCounts:
        """What a table did on the rows that it is known by, where its figures are not computed."""
        found = self.counts if self.certificate is None else self.certificate.counts
        assert found is not None
        return found

    @cached_property
    def _outcome(self) -> tuple[float, float, float]:
        """Disagreement, trees asked (NaN where unknown) and unsettled share."""
        if isinstance(self.stops, WeightedStops):
            return 0.0, math.nan, 0.0
        if not isinstance(self.stops, BinaryStops | TernaryStops):
            return self._on_rows.disagreement, self._on_rows.mean_trees, 0.0
        wins = rules.winning_masses(self.n_trees, self.n_classes, self.prior, self.target)
        return _computed_outcome(wins, self.stops, self._built_for)


def _computed_outcome(wins: Floats, stops: BinaryStops | TernaryStops, alpha: float) -> tuple[float, float, float]:
    """Wrong, expected trees and unsettled, of masses that need not sum to 1."""
    if isinstance(stops, BinaryStops):
        wrong_0, wrong_1, trees, unsettled = _core.binary_outcome(wins[0], wins[1], stops.lower, stops.upper, alpha)
        return float(wrong_0 + wrong_1), float(trees), float(unsettled)
    wrong, trees, unsettled = _core.ternary_outcome(wins, stops.decision, alpha)
    return float(wrong), float(trees), float(unsettled)
