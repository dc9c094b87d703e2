"""A forest on rows: all that is needed to ask its trees, and the questions that they can answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rfsize.counting.averages import Averages
from rfsize.counting.bag_proof import BagProof
from rfsize.counting.blocks import rows_in_blocks
from rfsize.counting.copies import resolved
from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.leaves import Ask, SeenByGroup, Visit, asked_about, asked_of, trees_of, visit_answers
from rfsize.counting.scores import scored_every
from rfsize.counting.tallied import Tallied
from rfsize.counting.tally import Tally
from rfsize.counting.votes import Votes
from rfsize.models.bags import Bags, LaidOutBags, Layout
from rfsize.models.ensemble import LeafIds
from rfsize.models.framework import read_forest
from rfsize.models.link import Predictor
from rfsize.models.model import Forest
from rfsize.utils import matrix
from rfsize.utils.typing import Bools, Floats
from rfsize.utils.validation import refuse_unused

# What is added up: votes; what sizes need; or all that `rfsize.tree_outputs` keeps.
Keeps = Literal["votes", "outputs", "all"]


def _refuse_options_of_bags(groups: Any, **options: Any) -> None:
    """Raise ``ValueError`` if groups, or options that rebuild or prove bags, are given without ``oob=True``."""
    if groups is not None:
        raise ValueError(
            "groups say on which training rows a tree may not vote, and oob=False asks all trees about all rows: leave "
            "groups out, or give the training rows with oob=True"
        )
    refuse_unused(
        "it rebuilds the bags of training rows, and with oob=False every tree votes on every row. "
        "Leave it out, or give the training rows with oob=True",
        **options,
    )


@dataclass(frozen=True, eq=False)
class ForestOnRows:
    """A forest and rows to ask its trees about, once or several times: references, no copies.

    The rows are processed in blocks, so memory grows with the rows but not with rows × trees (only scikit-learn's bags
    take a byte for each row and member). The bags are proven in the same pass, and nothing is returned if the proof
    fails.

    Attributes
    ----------
    adapter : Forest
        The forest.
    X
        Rows, checked.
    bags : Bags or None
        If given, only trees that were not trained on a row are asked about it.
    threshold : float
        Probability above which class 1 is predicted, checked.
    groups : Groups
        With bags: training rows that belong together. A tree that saw one of them is asked about none of them.
    """

    adapter: Forest
    X: Any
    bags: Bags | None = None
    threshold: float = 0.5
    groups: Groups = ALONE

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        oob: bool = False,
        threshold: float | None = None,
        sample_weight: Any = None,
        seed: int | None = None,
        subsample: float | None = None,
        groups: Any = None,
        missing: float | None = None,
    ) -> ForestOnRows:
        """Check a model (or its adapter), rows and options, and join them; arguments as in `rfsize.tree_outputs`.

        Raises
        ------
        NotAForestError
            If the model is not a forest of independent trees.
        InbagError
            If ``oob`` is set and the bags cannot be rebuilt.
        ValueError
            If ``X`` or an option does not fit.
        """
        adapter = read_forest(model, missing=missing)
        threshold = adapter.checked_threshold(threshold)
        of_bags = {"y": y, "sample_weight": sample_weight, "seed": seed, "subsample": subsample, "groups": groups}
        if not oob:
            _refuse_options_of_bags(**of_bags)
        elsewhere = rows_elsewhere(X)
        if elsewhere is not None:
            there: ForestOnRows = elsewhere.asked(adapter, oob=oob, threshold=threshold, missing=missing, **of_bags)
            return there
        X = adapter.check(X)
        if not oob:
            return cls(adapter, X, None, threshold)
        n_rows = matrix.n_rows(X)
        bags = adapter.bags(Layout.alone(n_rows), y, sample_weight, seed, subsample)
        return cls(adapter, X, bags, threshold, resolved(groups, X, n_rows))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return matrix.n_rows(self.X)

    @property
    def layout(self) -> Layout:
        """How the rows were laid out in training, if they are the training rows."""
        return Layout.alone(self.n_rows)

    @property
    def predictor(self) -> Predictor:
        """Turns mean scores into the forest's predictions."""
        return Predictor(self.adapter.classes, self.adapter.link, self.threshold)

    @property
    def source(self) -> str:
        """Origin of the votes, as reports name it."""
        return "rows given" if self.bags is None else "oob"

    def visit(self, visit: Visit, *, what: str, cells: int = 0) -> None:
        """Pass the members' answers to ``visit`` as in `visit_answers`; return only if the bags are proven."""
        proof, ask, seen = self._proof(), self.ask, self._seen
        visit_answers(self.adapter, self.n_rows, ask, visit, what=what, proof=proof, seen=seen, cells=cells)
        if proof is not None:
            proof.conclude()

    def _proof(self) -> BagProof | None:
        return None if self.bags is None else BagProof(self.adapter, self.bags)

    def here(self, values: Any) -> Any:
        """Labels or weights of the rows, in this process."""
        return values

    def on(self, X: Any) -> ForestOnRows:
        """The same forest on other rows, in memory or in pieces."""
        return replace(self, X=X)

    def votes(self) -> Votes:
        """Votes of all members on every row; with bags, only of members not trained on the row or its group."""
        counts = self.tallied("votes").counts
        return Votes(counts, self.adapter.classes, self.adapter.n_trees, threshold=self.threshold)

    def tallied(self, keeps: Keeps) -> Tallied:
        """Add up votes and scores over all rows; return only if the bags are proven."""
        tally = self._tally(keeps, range(self.n_rows), self.n_rows)
        with np.errstate(over="ignore", invalid="ignore"):  # an error later, if deviations are asked for
            self.visit(tally.add, what="votes and scores" if keeps == "all" else "votes")
        return tally.result

    def part(self, rows: range, keeps: Keeps) -> PartOfRows:
        """All that is needed to ask about some of the rows separately; the bags must be separable by rows."""
        bags = seen = None
        if self.bags is not None:
            assert isinstance(self.bags, LaidOutBags)
            bags = self.bags.part(rows.start, rows.stop)
            seen = None if self._seen is None else self._seen.part(rows.start, rows.stop)
        return PartOfRows(rows, self.n_rows, keeps, self.threshold, bags, seen)

    def joined(self, parts: Iterable[tuple[Tallied, list[Floats]]]) -> Tallied:
        """Join what was added up part by part; return only if the bags are proven.

        Parameters
        ----------
        parts : iterable
            What `PartOfRows.tallied` returned, in the order of the rows.

        Raises
        ------
        InbagError
            If the bags cannot be proven.
        """
        proof, tallied = self._proof(), []
        for of_part, sums in parts:
            tallied.append(of_part)
            if proof is not None:
                proof.include(sums)
        if proof is not None:
            proof.conclude()
        return Tallied.joined(tallied)

    def averages(self) -> Averages:
        """Averaged scores of all rows, and of parts of the forest."""
        averages = self._no_averages(range(self.n_rows), self.n_rows)

        def fill(rows: slice, answers: LeafIds, inbag: Bools | None) -> None:
            averages.fill(rows, answers.scores, asked_of(answers, inbag))

        self.visit(fill, what="scores")
        return averages

    def _no_averages(self, rows: range, of: int) -> Averages:
        n_bags = 1 if self.bags is None else self.bags.take(0, min(1, self.n_rows)).shape[2]
        return Averages.empty(rows, of, self.adapter.n_trees, self.adapter.n_scores, n_bags)

    def _tally(self, keeps: Keeps, rows: range, of: int) -> Tally:
        """The tally for the rows with the numbers ``rows`` among ``of`` rows."""
        adapter, number = self.adapter, np.arange(rows.start, rows.stop)
        n_classes, n_scores = len(adapter.classes), adapter.n_scores
        if keeps == "votes":
            return Tally(adapter, len(rows), self.threshold)
        return Tally(
            adapter,
            len(rows),
            self.threshold,
            scored=number % scored_every(of, n_scores) == 0,
            in_blocks=number % rows_in_blocks(of, n_classes, n_scores).step == 0,
            averages=self._no_averages(rows, of) if keeps == "all" else None,
            first=rows.start,
        )

    def tree_votes(self) -> NDArray[np.int32]:
        """Class index of each member's vote on each row, shape (n_rows, n_members); −1 where it saw the row."""
        cast = self.adapter.leaf_class(self.threshold)
        labels = np.empty((self.n_rows, self.adapter.n_trees), dtype=np.int32)

        def label(rows: slice, answers: LeafIds, inbag: Bools | None) -> None:
            found = np.asarray(cast(answers)).astype(np.int32)
            labels[rows] = found if inbag is None else np.where(inbag.any(axis=2), -1, found)

        self.visit(label, what="votes")
        return labels

    def inbag(self) -> NDArray[np.bool_]:
        """Whether each member, or one of its trees, was trained on each row, shape (n_members, n_rows)."""
        mask = np.zeros((self.adapter.n_trees, self.n_rows), dtype=np.bool_)

        def mark(rows: slice, _: LeafIds, inbag: Bools | None) -> None:
            assert inbag is not None
            mask[:, rows] = inbag.any(axis=2).T

        self.visit(mark, what="in-bag rows")
        return mask

    def seen(self) -> NDArray[np.bool_]:
        """Whether each tree was trained on each row or its group, shape (n_rows, n_members, n_outputs or 1).

        Call it only after the bags were proven: it does not ask the trees.
        """
        assert self.bags is not None
        found = []
        for start, stop in matrix.blocks(self.n_rows, trees_of(self.adapter), what="bags"):
            inbag = self.bags.take(start, stop)
            found.append(inbag if self._seen is None else self._seen.with_group(start, stop, inbag))
        return np.concatenate(found)

    def __getstate__(self) -> dict[str, Any]:
        """The fields; cached properties are computed again on demand."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _seen(self) -> SeenByGroup | None:
        return None if self.bags is None else SeenByGroup.of(self.bags, self.groups)

    @cached_property
    def ask(self) -> Ask:
        """Returns the members' answers on some of the rows."""
        return asked_about(self.adapter, self.X)


@dataclass(frozen=True, eq=False)
class PartOfRows:
    """All that is needed to ask the trees about some of the rows, if these rows are stored separately.

    Attributes
    ----------
    rows : range
        Numbers of these rows among all rows.
    of : int
        Number of all rows.
    keeps : {"votes", "outputs", "all"}
        What is added up.
    threshold : float
        As in `ForestOnRows`.
    bags : LaidOutBags or None
        Bags of these rows. If given, only trees that were not trained on a row are asked about it.
    seen : SeenByGroup or None
        Trees that saw rows of the same groups.
    """

    rows: range
    of: int
    keeps: Keeps
    threshold: float
    bags: LaidOutBags | None
    seen: SeenByGroup | None

    def tallied(self, adapter: Forest, X: Any) -> tuple[Tallied, list[Floats]]:
        """Add up these rows, and their sums for the proof, which needs all rows; see `ForestOnRows.joined`."""
        forest = ForestOnRows(adapter, X, self.bags, self.threshold)
        tally, proof = forest._tally(self.keeps, self.rows, self.of), forest._proof()
        ask, what = asked_about(adapter, X, self.of), "votes and scores"
        with np.errstate(over="ignore", invalid="ignore"):
            visit_answers(adapter, len(self.rows), ask, tally.add, what=what, proof=proof, seen=self.seen)
        return tally.result, [] if proof is None else proof.sums


class RowsElsewhere(ABC):
    """Rows stored elsewhere, with their own way of asking a forest about them."""

    @abstractmethod
    def asked(
        self,
        adapter: Forest,
        *,
        oob: bool,
        threshold: float,
        y: Any,
        sample_weight: Any,
        seed: int | None,
        subsample: float | None,
        groups: Any,
        missing: float | None,
    ) -> Any:
        """The forest on these rows, a `ForestOnRows`; arguments as in `ForestOnRows.of`."""


def rows_elsewhere(X: Any) -> RowsElsewhere | None:
    """Rows on Dask's workers, wrapped by `rfsize.dask.rows`; None for rows in this process."""
    if isinstance(X, RowsElsewhere):
        return X
    # Types of Dask, or of a framework's module for Dask. Compare names, so as not to import Dask for nothing.
    if not any("dask" in kind.__module__.split(".")[:2] for kind in type(X).__mro__):
        return None
    found: RowsElsewhere = import_module("rfsize.dask").rows(X)
    return found
