"""StopTable: when a row need not ask the remaining trees, and what that promises."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.counting.tree_outputs import VOTINGS, TreeOutputs
from rfsize.errors import RareClassWarning
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.stopping.arguments import (
    check_scores,
    checked_alpha,
    checked_outputs,
    checked_tolerance,
    checked_trees,
    representative,
    resolved_prior,
)
from rfsize.stopping.calibration import TreesOnRows
from rfsize.stopping.certificate import AVERAGES, MOST_LOST, RARE, Certificate, ClassCounts, ClassOutcome, Wanted
from rfsize.stopping.document import (
    Fields,
    check_signature,
    content_of,
    read_document,
    refuse,
    signed,
    write_document,
)
from rfsize.stopping.labels import Scope, known_labels, stored_labels
from rfsize.stopping.rules import kinds
from rfsize.stopping.rules.averages import AverageStops
from rfsize.stopping.rules.base import MAX_TREES, TARGETS, Figures, Stops, Terms
from rfsize.stopping.rules.binary import BinaryStops
from rfsize.stopping.rules.exact import ROUNDING, flat_prior
from rfsize.stopping.rules.leaders import LeaderStops
from rfsize.stopping.rules.spread import SpreadStops
from rfsize.stopping.rules.votes import VotesOnRows
from rfsize.stopping.rules.weighted import WeightedStops, checked_weights
from rfsize.utils.files import short
from rfsize.utils.typing import Floats
from rfsize.utils.validation import MAX_CLASSES, choice, refuse_unused, share, whole
from rfsize.utils.warn import warn
from rfsize.utils.words import how_many
from rfsize.voting.votes import Votes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rule = Literal["threshold", "optimal", "robust"]
Target = Literal["forest", "limit"]
Metric = Literal["labels", "probabilities", "scores"]

_ROWS_PER_PRIOR = 5  # one row in so many tells the prior of a table of votes that the others certify
_CLASSES_SAID = 5
_KEYS = (
    *("n_trees", "n_classes", "kind", "alpha", "rule", "target", "prior", "stops", "nominal"),
    *("classes", "threshold", "counts", "certificate"),
)


@dataclass(frozen=True, eq=False)
class StopTable(Result):
    """When to stop asking trees, row by row; made by `StopTable.build`, or by `StopTable.lossless` for weighted votes.

    Attributes
    ----------
    n_trees : int
        Ensemble size T.
    n_classes : int
    alpha : float
        Share of the labels that are kept; 1 for the lossless table.
    rule : {"threshold", "optimal", "robust", "lossless"}
    target : {"forest", "limit"}
    prior : ndarray of float or None
        Normalised weights of the final tallies, None if uniform. Two classes: shape (T + 1,), by votes for
        class 1. Three, up to 201 trees: shape (T + 1, T + 1), indexed [votes for class 0, votes for class 1].
        Otherwise those of the two leading classes, shape (T + 1,), symmetric.
    stops : BinaryStops, TernaryStops, LeaderStops, WeightedStops, AverageStops or SpreadStops
        Where voting ends: two classes; three classes and up to 201 trees; all others; weighted votes; averaged scores;
        predicted numbers.
    nominal : float or None
        Of a certified table of votes, the α that it was built with, which need not be the α that is certified.
    classes : tuple or None
        Class labels, where they are known.
    threshold : float or None
        Probability of class 1 above which the labels that it speaks of are class 1, and trees vote for it; None where
        that does not apply (other than two classes, probabilities unless by class) or is not known (votes counted
        elsewhere, no votes).
    counts : ClassCounts or None
        What the table did, by class, on simulated rows (`LeaderStops`); None where that is computed, or stands in the
        certificate.
    certificate : Certificate or None
        What is certified for one forest; None for a table whose disagreement is only expected.

    Examples
    --------
    Not all of 101 trees need be asked about a row, here where all final tallies are equally likely:

    >>> import rfsize
    >>> table = rfsize.StopTable.build(101, alpha=0.99)
    >>> round(table.expected_trees(), 1)
    26.5
    >>> table.expected_disagreement() <= 0.01
    True
    """

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

    @classmethod
    def build(
        cls,
        n_trees: int,
        *,
        alpha: float = 0.99,
        prior: str | TreeOutputs | Votes | ArrayLike = "uniform",
        rule: Rule = "threshold",
        target: Target = "forest",
        n_classes: int | None = None,
    ) -> StopTable:
        """Build the table for a forest.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, 1 to 10,001.
        alpha : float
            Share of the labels that are kept, above 0 and at most 1. With α = 1, any prior and rule give the lossless
            table: voting stops when the remaining votes cannot change the outcome.
        prior : "uniform", Votes, TreeOutputs or array_like
            How likely each final tally of T votes is. "uniform": SIBA (Hernández-Lobato et al. 2009). `Votes` of
            similar rows, such as out-of-bag votes, or tree outputs: HYPER (Soto et al. 2016), see
            `rfsize.stopping.urn.votes_prior`. An array holds weights, in the shapes of the attribute.
        rule : {"threshold", "optimal", "robust"}
            "threshold": stop where the probability that the leading class wins exceeds α, the papers' rule.
            "optimal": the fewest expected trees for expected disagreement of at most 1 − α under the prior.
            "robust": the same whatever the final tally is, so that the prior need not be trusted; two classes and
            target "forest" only.
        target : {"forest", "limit"}
            What the answer should agree with: the majority of all T trees, or that of the infinite forest. With
            "limit" and rule "threshold", rows that never reach α are answered as all T trees would; see
            `expected_unsettled`.
        n_classes : int, optional
            Number of classes; only a uniform prior needs it, and takes 2 by default.

        Returns
        -------
        StopTable
            Exact for two classes, and for three with at most 201 trees. All others are reduced to the two
            leading classes: their votes are an urn of T votes, so that votes for other classes count as not yet
            cast, the leader is taken to lose a tie, and 1 − α is shared among its K − 1 rivals. All three err on
            the side of asking more; what disagreement remains is measured, not proven.

        Raises
        ------
        ValueError
            If an argument is out of range or does not go with the others, or if no table can keep the promise:
            with target "limit" and rule "optimal", when even all T trees disagree with the infinite forest on
            more than 1 − α of the rows.
        FewVotesError
            If votes are out of bag, and rows of some kind have hardly any, as where bags are drawn by weight.

        Examples
        --------
        Votes on similar rows, most of them clear, say when to stop sooner:

        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [60, 40], [90, 10]])
        >>> table = rfsize.StopTable.build(101, alpha=0.99, prior=votes)
        >>> table.expected_trees() < rfsize.StopTable.build(101, alpha=0.99).expected_trees()
        True
        """
        n_trees = checked_trees(n_trees)
        alpha = checked_alpha(alpha)
        choice("rule", rule, ("threshold", "optimal", "robust"))
        choice("target", target, TARGETS)
        prior = representative(prior)
        n_classes, weights = resolved_prior(prior, n_trees, n_classes)
        kinds.check_combination(kinds.of_urn(n_trees, n_classes), rule, target)
        terms = Terms(n_trees, n_classes, alpha, rule, target, weights)
        stops = kinds.built(terms)
        known: dict[str, Any] = {}
        votes = prior if isinstance(prior, Votes) else None
        if isinstance(stops, LeaderStops):
            known["counts"] = stops.simulated(n_trees, n_classes, votes)
        if votes is not None:
            known |= {"classes": known_labels(votes.classes), "threshold": votes.threshold}
        return cls(n_trees, n_classes, alpha, rule, target, weights, stops, **known)._with_warnings()

    @classmethod
    def calibrate(
        cls,
        model: Any,
        X: Any,
        *,
        metric: Metric = "labels",
        alpha: float = 0.99,
        tolerance: float | None = None,
        confidence: float = 0.95,
        average: Literal["micro", "macro"] = "micro",
        voting: Literal["auto", "hard", "soft"] = "auto",
        threshold: float | None = None,
        missing: float | None = None,
    ) -> StopTable:
        """Calibrate a table on rows, for this forest with its trees in their order.

        After t of T trees the first class leads the second by some lead in the mean score; voting stops when
        lead · √(tT/(T − t)) reaches λ. The boldest λ is taken that an exact binomial bound on the rows allows. For
        probabilities and scores, voting stops when s · √(1/t − 1/T), with the spread s of the row's own scores and in
        units of what is predicted, falls to λ.

        Parameters
        ----------
        model
            A forest, as `rfsize.tree_outputs` takes it.
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows that the forest was not trained on, drawn as those to be predicted; their labels are not needed.
        metric : {"labels", "probabilities", "scores"}
            What is to agree, as in `rfsize.size`. Of probabilities and scores, one row in ten tells the pooled spread,
            and the others certify.
        alpha : float, default 0.99
            Share of the rows that agree with all T trees.
        tolerance : float, optional
            How far a probability or score may be off, in the class or output where it is farthest; a row that is
            farther off disagrees. Needed with these, and not taken with labels.
        confidence : float, default 0.95
            How sure the certificate is: with at most this chance missed, over the choice of the rows, *this* forest
            disagrees with itself on at most 1 − α of rows like these.
        average : {"micro", "macro"}
            "macro" keeps 1 − α for the rows of each class that all trees predict, each at the full confidence, so that
            a rare class does not go under; classes that they give to none of the rows are not covered.
        voting : {"auto", "hard", "soft"}
            "soft": the averaged scores; "hard": the majority of the votes, by tables as `build` makes them, for which
            one row in five tells the prior; "auto": what the model's own ``predict`` goes by.
        threshold : float, optional
            Probability of class 1 above which it is predicted, 0.5 by default; two classes only, and only for labels or
            "macro".
        missing : float, optional
            As in `rfsize.tree_outputs`.

        Returns
        -------
        StopTable
            With a ``certificate``.

        Raises
        ------
        ValueError
            If the rows are those of training, or too few for a certificate: with the number that it takes, 299 for
            α = 0.99 and a confidence of 0.95, "macro" as many of each class; or an argument does not fit.
        NotAForestError
            If the model is not a forest that votes.

        Warns
        -----
        RareClassWarning
            If the rows of a class are answered otherwise more often than in one of five.

        References
        ----------
        .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan, L. Lei (2021). "Learn then test: calibrating
           predictive algorithms to achieve risk control." arXiv 2110.01052.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = make_classification(2000, random_state=0)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:1000], y[:1000])
        >>> table = rfsize.StopTable.calibrate(forest, X[1000:], alpha=0.98)
        >>> table.promise, table.certificate.rows, table.certificate.bound <= 0.02
        ('certified', 1000, True)
        >>> table.expected_trees() < 100
        True
        """
        choice("voting", voting, VOTINGS)
        choice("average", average, AVERAGES)
        tolerance = checked_tolerance(metric, tolerance, voting)
        if metric != "labels" and average != "macro":
            refuse_unused(f"it decides labels, and metric={metric!r} does not. Leave it out", threshold=threshold)
        alpha, confidence = share("alpha", alpha), share("confidence", confidence)
        trees = TreesOnRows.of(model, X, casts_votes=metric == "labels", threshold=threshold, missing=missing)
        adapter, classes = trees.adapter, known_labels(trees.adapter.classes)
        wanted = Wanted(alpha, confidence, average, adapter.digest)
        if metric == "labels" and (adapter.predict_obeys if voting == "auto" else voting) == "hard":
            return cls._of_votes(trees, wanted)._with_warnings()
        check_scores(adapter.averages_scores, adapter.classes.size, metric, average)
        n_trees, n_classes = checked_trees(adapter.n_trees), max(1, adapter.classes.size)
        labels = tuple(range(n_classes)) if classes is None else classes
        stops: Stops
        if metric == "labels":
            stops, certificate = AverageStops.calibrated(trees, wanted, labels)
        else:
            stops, certificate = SpreadStops.calibrated(trees, wanted, labels, metric, tolerance)
        at = trees.threshold if metric == "labels" or average == "macro" else None
        of_rows: dict[str, Any] = {"classes": classes, "threshold": at, "certificate": certificate}
        return cls(n_trees, n_classes, alpha, *stops.rules, "forest", None, stops, **of_rows)._with_warnings()

    @classmethod
    def _of_votes(cls, trees: TreesOnRows, wanted: Wanted) -> StopTable:
        """The threshold table that one row in five builds and the others certify."""
        adapter = trees.adapter
        for_prior, others = VotesOnRows.of(trees).parts(_ROWS_PER_PRIOR)
        prior = Votes(for_prior.counts(), adapter.classes, adapter.n_trees, threshold=trees.threshold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RareClassWarning)  # which is for what is certified in the end
            table = cls.build(adapter.n_trees, alpha=wanted.alpha, prior=prior)
        return table._certified_on(others, wanted)

    def certified(
        self,
        model: Any,
        X: Any,
        *,
        confidence: float = 0.95,
        average: Literal["micro", "macro"] = "micro",
        threshold: float | None = None,
        missing: float | None = None,
    ) -> StopTable:
        """Certify a table of votes for one forest, on rows of its own.

        Tables of `build` keep α on average over forests and orders of their trees. Of a sequence of tables by the same
        rule and prior, from cautious to bold, this is the boldest that keeps it for *this* forest in *this* order.

        Parameters
        ----------
        model
            A forest of ``n_trees`` trees and ``n_classes`` classes.
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows that neither the forest was trained on nor the prior was taken from; labels are not needed.
        confidence, average, missing
            As in `calibrate`.
        threshold : float, optional
            As in `calibrate`; by default that of the votes that the table was built from, or 0.5.

        Returns
        -------
        StopTable
            With a ``certificate``; ``nominal`` is the α that its stops were built with.

        Raises
        ------
        ValueError
            If the table is not one of votes with an α below 1 and target "forest", the forest or the threshold is
            another, or the rows are too few.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = make_classification(2000, random_state=0)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:1000], y[:1000])
        >>> votes = rfsize.tree_outputs(forest, X[:1000], oob=True).votes
        >>> table = rfsize.StopTable.build(100, alpha=0.98, prior=votes, rule="optimal").certified(forest, X[1000:])
        >>> table.certificate.bound <= 0.02
        True
        """
        choice("average", average, AVERAGES)
        if not isinstance(self.stops, kinds.UrnStops) or self.target != "forest" or self.alpha == 1.0:
            raise ValueError(
                "certified is for tables of votes that build made, with target='forest' and an alpha below 1; "
                f"found {self!r}; a lossless table disagrees with no forest, and scores are certified by "
                "StopTable.calibrate"
            )
        at = self.threshold if threshold is None else threshold
        trees = TreesOnRows.of(model, X, casts_votes=True, threshold=at, missing=missing)
        adapter = trees.adapter
        self.check_labels(adapter.n_trees, adapter.classes, trees.threshold)
        wanted = Wanted(self.alpha, share("confidence", confidence), average, adapter.digest)
        of_forest = replace(self, classes=known_labels(adapter.classes), threshold=trees.threshold)
        return of_forest._certified_on(VotesOnRows.of(trees), wanted)._with_warnings()

    def _certified_on(self, rows: VotesOnRows, wanted: Wanted) -> StopTable:
        nominal, stops, certificate = rows.certified(
            wanted, self._labels, lambda alpha: kinds.built(replace(self._terms, alpha=alpha))
        )
        return replace(self, stops=stops, nominal=nominal, certificate=certificate, counts=None)

    @classmethod
    def lossless(cls, weights: ArrayLike, *, n_classes: int = 2) -> StopTable:
        """Build the table of a weighted vote: stop when the remaining weight cannot change the outcome.

        For AdaBoost, a Bayes-optimal weighted vote, or any classifiers with fixed weights. They are no independent
        draws, so that neither T*(α) nor an urn of votes applies to them; what cannot change any more is certain
        whatever they are. Members are asked from the heaviest down: voting stops when the leading class is further
        ahead of the next than the weight of the members not asked.

        Parameters
        ----------
        weights : array_like of float, shape (T,)
            Weight of each member, at least 0, in the members' own order; ``model.estimator_weights_`` of an
            ``AdaBoostClassifier``. Members of weight 0 are never asked.
        n_classes : int, default 2
            Number of classes K.

        Returns
        -------
        StopTable
            `apply` takes the votes in the members' own order, and gives the labels of
            ``AdaBoostClassifier.predict`` [1]_, which sums w for the class voted for and −w/(K − 1) for each other
            class, in double precision: rows on which rounding might decide are asked to the end, and decided by that
            very sum. Weights that are all equal are counted instead, without rounding: the labels are then those of
            ``StopTable.build(T, alpha=1)``, a tie going to the lowest class index.

        Raises
        ------
        ValueError
            If the weights are not finite numbers of at least 0, all of them are 0, one exceeds 1e300, or there are
            more than 10,001.

        References
        ----------
        .. [1] J. Zhu, H. Zou, S. Rosset, T. Hastie (2009). "Multi-class AdaBoost." *Statistics and Its Interface* 2,
           349–360.

        Examples
        --------
        Where the two heaviest members agree, the third is not asked:

        >>> import rfsize
        >>> table = rfsize.StopTable.lossless([0.5, 1.0, 0.8])
        >>> labels, asked = table.apply([[0, 1, 1], [1, 0, 1], [0, 1, 0]])
        >>> labels.tolist(), asked.tolist()
        ([1, 1, 0], [2, 3, 3])
        """
        n_classes = whole("n_classes", n_classes, at_least=2, at_most=MAX_CLASSES)
        weights = checked_weights(weights)
        if np.ptp(weights[weights > 0.0]) == 0.0:
            stops = WeightedStops((weights > 0.0).astype(np.float64), 0.0, float(np.count_nonzero(weights)))
        else:
            stops = WeightedStops(weights, -1 / (n_classes - 1), float(weights.sum()))
        return cls.of_weights(stops, n_classes)

    @classmethod
    def of_weights(cls, stops: WeightedStops, n_classes: int) -> StopTable:
        """The table that holds given stops of a weighted vote."""
        return cls(stops.weights.size, n_classes, 1.0, "lossless", "forest", None, stops)

    def apply(self, tree_votes: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Vote row by row, and stop where the table says so.

        Parameters
        ----------
        tree_votes : array_like of int or bool, shape (n_rows, T); or of float, shape (n_rows, T, n_scores)
            Class index that each tree votes for, in the order in which trees are asked; for weighted votes in the
            members' own order. Of a table with ``voting`` "soft", the score of each tree alone, before the link: one
            for two classes, else one for each.

        Returns
        -------
        labels : ndarray of int64, shape (n_rows,)
            Class index answered; of probabilities or scores the predictions, shape (n_rows, n_outputs).
        asked : ndarray of int64, shape (n_rows,)
            Trees asked, 1 to T; for weighted votes, the heaviest so many.

        Raises
        ------
        ValueError
            If the votes are not class indices, or the scores not numbers, of this shape.

        Examples
        --------
        >>> import rfsize
        >>> table = rfsize.StopTable.build(5, alpha=0.9)
        >>> labels, asked = table.apply([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0]])
        >>> labels.tolist(), asked.tolist()
        ([1, 0], [2, 5])
        """
        return self.stops.settled(
            checked_outputs(tree_votes, self.n_trees, self.n_classes, self.voting), self.n_classes
        )

    def check_labels(self, n_trees: int, classes: NDArray[Any], threshold: float | None) -> None:
        """Raise ``ValueError`` where the table is not for a forest's trees, classes and threshold."""
        forest = Scope(n_trees, max(1, len(classes)), known_labels(classes), threshold)
        Scope(self.n_trees, self.n_classes, self.classes, self.threshold).check(forest)

    @property
    def kind(self) -> str:
        """Kind of the stops: "binary", "ternary", "leaders", "weighted", "averages" or "spread"."""
        return self.stops.kind

    @property
    def voting(self) -> str:
        """Whether the table goes by the trees' votes ("hard") or by their averaged scores ("soft")."""
        return self.stops.voting

    @property
    def metric(self) -> str:
        """What agrees with all trees: "labels", "probabilities" or "scores"."""
        return self.stops.metric

    @property
    def promise(self) -> str:
        """Whether at most 1 − α disagreement is "certified" for one forest, or "expected" of forests like it."""
        return "expected" if self.certificate is None else "certified"

    def expected_trees(self) -> float:
        """Mean number of trees asked per row; ``ValueError`` if the votes are weighted.

        Under the prior, exact by a sum over the lattice of tallies; for `LeaderStops` measured by a simulation with a
        fixed seed, on random orders of the votes of the prior's rows (or of uniform tallies); for tables of scores on
        the rows of the certificate.
        """
        trees = self._figures.trees
        if math.isnan(trees):
            raise ValueError(
                "how many members a weighted vote asks depends on which of them agree, and the table knows no votes: "
                "take the mean of what apply(tree_votes) returns as asked"
            )
        return trees

    def expected_disagreement(self) -> float:
        """Share of the rows whose answer differs from the target's, known as the trees are; 0 for weighted votes."""
        return self._figures.disagreement

    def expected_unsettled(self) -> float:
        """Share of the rows that never reach α under the prior, and are answered as all T trees would.

        Of target "limit" alone: their remaining votes cannot change the majority of all T trees, while the probability
        that the leading class wins in the infinite forest is at most α.
        """
        return 0.0 if self.target == "forest" else self._figures.unsettled

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
        return self.stops.by_tally(self.target)

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
        from rfsize.stopping.page import plot_table

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
    def load(cls, path: str | PathLike[str]) -> StopTable:
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
        return signed(
            {
                "n_trees": self.n_trees,
                "n_classes": self.n_classes,
                "kind": self.kind,
                "alpha": self.alpha,
                "rule": self.rule,
                "target": self.target,
                "prior": None if self.prior is None else flat_prior(self.prior).tolist(),
                "stops": self.stops.to_dict(),
                "nominal": self.nominal,
                "classes": None if self.classes is None else list(self.classes),
                "threshold": self.threshold,
                "counts": None if self.counts is None else self.counts.to_dict(),
                "certificate": None if self.certificate is None else self.certificate.to_dict(),
            }
        )

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StopTable:
        """The table of `to_dict`, verified; errors as in `load`."""
        fields = content_of(document, _KEYS)
        n_trees, n_classes = fields.whole("n_trees", 1, MAX_TREES), fields.whole("n_classes", 1, MAX_CLASSES)
        of_forest = kinds.kinds_for(n_trees, n_classes)
        kind = of_forest[fields.choice("kind", tuple(of_forest))]
        table = cls(
            n_trees,
            n_classes,
            fields.alpha("alpha"),
            fields.choice("rule", kind.rules),
            fields.choice("target", TARGETS),
            kind.prior_of(fields, n_trees),
            kind.from_fields(fields.within("stops", kind.stored, f"stops of kind {kind.kind!r}"), n_trees, n_classes),
            nominal=None if fields["nominal"] is None else fields.alpha("nominal"),
            classes=stored_labels(fields, n_classes),
            threshold=_stored_threshold(fields, kind, n_classes),
            counts=ClassCounts.from_fields(fields, "counts", n_trees, n_classes),
            certificate=Certificate.from_fields(fields, "certificate", n_trees, n_classes),
        )
        table._check_evidence()
        check_signature(document)
        table.stops.check_kept(table._terms)
        return table

    def _check_evidence(self) -> None:
        """``TableError`` where what the table is known by does not go with its kind, or does not keep its promise."""
        stops, certificate = self.stops, self.certificate
        if self.target == "limit" and (not stops.knows_limit or self.rule == "robust"):
            refuse(f"target is 'limit', which rule {self.rule!r} on a table of kind {self.kind!r} does not have")
        if self.voting == "soft" and certificate is None:
            refuse("a table of scores has a certificate")
        if (self.counts is not None) != (not stops.is_computed and certificate is None):
            refuse("counts are those of a simulation of leaders that are not certified, and null for any other table")
        if (self.nominal is not None) != (certificate is not None and self.voting == "hard"):
            refuse("nominal is the alpha of a certified table of votes, and null in any other")
        if certificate is None:
            return
        if not stops.counts_alike or self.target != "forest":
            refuse("a certificate is of agreement with all trees, which this table does not aim at, or keeps anyway")
        if self.alpha == 1.0:
            refuse("no number of rows certifies an alpha of 1")
        if not certificate.bound <= (1.0 - self.alpha) * (1.0 + ROUNDING):
            promised = f"alpha={self.alpha!r} promises {1.0 - self.alpha:.4%}"
            refuse(f"the certificate's bound is {certificate.bound:.4%}, but {promised}")

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, StopTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.stops.counts_alike:
            return f"StopTable({how_many(self.n_trees, 'weighted member')}, {self.n_classes} classes, lossless)"
        classes = f"{self.n_classes} classes" if self.n_classes > 1 else "no classes"
        words = [how_many(self.n_trees, "tree"), classes, self.kind, f"alpha={self.alpha!r}"]
        words.append(self.stops.goes_by or f"rule={self.rule!r}")
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
        return f"StopTable({', '.join(words)}; {'expected' if self.stops.is_computed else 'measured'}: {found})"

    def _account(self) -> Account:
        from rfsize.stopping.page import table_account

        return table_account(self)

    @property
    def _terms(self) -> Terms:
        """What the stops were built for."""
        alpha = self.alpha if self.nominal is None else self.nominal
        return Terms(self.n_trees, self.n_classes, alpha, self.rule, self.target, self.prior)

    @property
    def _labels(self) -> tuple[Any, ...]:
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    @property
    def _seen(self) -> ClassCounts | None:
        """What the table did on rows, or on simulated ones."""
        return self.counts if self.certificate is None else self.certificate.counts

    @cached_property
    def _figures(self) -> Figures:
        found = self.stops.figures(self._terms)
        if found is None:
            assert self._seen is not None
            found = Figures(self._seen.disagreement, self._seen.mean_trees, 0.0)
        return found

    @cached_property
    def _by_class(self) -> list[ClassOutcome]:
        if self._seen is not None:
            return self._seen.by_class(self._labels)
        return self.stops.by_class(self._terms, self._labels) or []

    def _with_warnings(self) -> StopTable:
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
        return self


def _stored_threshold(fields: Fields, kind: type[Stops], n_classes: int) -> float | None:
    """Of two classes, whose members count alike; tables of labels by averaged scores always know it."""
    value = fields["threshold"]
    if value is None and not (n_classes == 2 and kind is AverageStops):
        return None
    if n_classes != 2 or not kind.counts_alike or type(value) is not float or not 0.0 < value < 1.0:
        refuse(f"threshold must be a probability of two classes, or null, found {short(value)} of {n_classes} classes")
    return value
