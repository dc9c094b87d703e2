"""StopTable: when a row need not ask the remaining trees, and what that promises."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.certifying.certificate import AVERAGES, Certificate, ClassCounts, ClassOutcome
from rfsize.certifying.promise import Promise, check_classes, checked_confidence, checked_tolerance
from rfsize.certifying.trees_on_rows import TreesOnRows
from rfsize.counting.evidence import VOTINGS
from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.exceptions import RareClassWarning
from rfsize.reporting.account import Account
from rfsize.reporting.result import Result
from rfsize.stopping.document import check_signature, read_document, signed, write_document
from rfsize.stopping.rules.base import Figures, Stops
from rfsize.stopping.rules.exact import flat_prior
from rfsize.stopping.rules.from_prior import UrnStops, VotesOnRows, terms_of_prior, urn_stops
from rfsize.stopping.rules.weighted import WeightedStops, checked_weights
from rfsize.stopping.stored import KEYS, check_evidence, stored_fields
from rfsize.stopping.terms import Terms, labels_of
from rfsize.utils.typing import Floats
from rfsize.utils.validation import MAX_CLASSES, choice, refuse_unused, share, whole
from rfsize.utils.warn import warn
from rfsize.utils.words import how_many, in_percent
from rfsize.voting.votes import Votes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rfsize.stopping.page import Shown

Rule = Literal["threshold", "optimal", "robust"]
Target = Literal["forest", "limit"]
Metric = Literal["labels", "probabilities", "scores"]


_RARE = 0.05  # a class of a smaller share of the labels is spoken of by itself
_MOST_LOST = 0.2  # a class that loses a larger share of its rows is warned of
_CLASSES_SAID = 5


@dataclass(frozen=True, eq=False)
class StopTable(Terms, Result):
    """When to stop asking trees, row by row.

    Make a table for your forest from rows with `calibrate`, from its votes with `build`, and for weighted votes with
    `lossless`.

    Attributes
    ----------
    n_trees, n_classes : int
        The forest that the table is for; 1 class means a regression.
    alpha : float
        Share of the rows that keep their answer; 1 for a lossless table.
    rule, target : str
        As in `build`; the rule is "lossless" for weighted votes, "lead" for averaged scores, "spread" for numbers.
    prior : ndarray of float or None
        Weights of the final tallies, which sum to 1; None if uniform. Two classes: shape (T + 1,), by votes for class
        1. Three, up to 201 trees: shape (T + 1, T + 1), by votes for class 0 and class 1. Others: shape (T + 1,), those
        of the two leading classes, symmetric.
    stops : Stops
        Where voting ends; its class says how (see ``kind``).
    nominal : float or None
        The alpha that a certified table of votes was built with.
    classes : tuple or None
        Class labels, if they are known.
    threshold : float or None
        Probability above which a row is class 1, for two classes, if it is known.
    counts : ClassCounts or None
        Counts on simulated rows, if the table's figures cannot be computed.
    certificate : Certificate or None
        The certificate for one forest; without it, the table's disagreement is only an expectation.

    See Also
    --------
    compile : Predict faster, and without the framework.

    Examples
    --------
    Of 101 trees a row asks 26.5 in the mean, where all final tallies are equally likely:

    >>> import rfsize
    >>> table = rfsize.StopTable.build(101, alpha=0.99)
    >>> round(table.expected_trees(), 1)
    26.5
    >>> table.expected_disagreement() <= 0.01
    True
    """

    stops: Stops = field(kw_only=True)
    counts: ClassCounts | None = field(default=None, kw_only=True)
    certificate: Certificate | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls, terms: Terms, stops: Stops, certificate: Certificate | None = None, counts: ClassCounts | None = None
    ) -> StopTable:
        """The table of stops that were just made for the terms; warns of what it does to rare classes."""
        of_terms = {each.name: getattr(terms, each.name) for each in fields(Terms)}
        made = cls(**of_terms, stops=stops, certificate=certificate, counts=counts)
        _warn_of_lost_classes(made)
        return made

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
        """Build the table of a forest from a prior of its votes.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, 1 to 10,001.
        alpha : float
            Share of the labels that are kept, above 0 and at most 1. With 1 a row stops when the remaining votes cannot
            change its label.
        prior : "uniform", Votes, TreeOutputs or array_like
            How likely each final tally of T votes is. "uniform": SIBA (Hernández-Lobato et al. 2009). Votes of similar
            rows, such as out-of-bag votes: HYPER (Soto et al. 2016). An array holds weights, shaped as the attribute.
        rule : {"threshold", "optimal", "robust"}
            "threshold": a row stops where its leading class wins with a probability above α, the papers' rule.
            "optimal": the fewest expected trees for an expected disagreement of at most 1 − α. "robust": the same for
            every final tally, so that you need not trust the prior; two classes and target "forest" only.
        target : {"forest", "limit"}
            Whether labels agree with those of all T trees, or of infinitely many.
        n_classes : int, optional
            Number of classes, for a uniform prior; 2 by default.

        Returns
        -------
        StopTable
            Exact for two classes, and for three with at most 201 trees. Others are reduced to the two leading classes,
            which asks more trees than it must; their disagreement is measured by simulation.

        Raises
        ------
        ValueError
            If an argument is out of range or does not fit the others, or if even T trees cannot keep the promise.
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
        terms, votes = terms_of_prior(n_trees, alpha, prior, rule, target, n_classes)
        stops = urn_stops(terms.n_trees, terms.n_classes).build(terms)
        return cls.of(terms, stops, counts=stops.simulated(terms, votes))

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

        Of labels, a row stops when its first class leads in the averaged scores by enough; of numbers, when what may
        still change is little. How much is enough is tested on the rows by an exact binomial bound [1]_, which is the
        table's ``certificate``.

        Parameters
        ----------
        model
            A forest, as `rfsize.tree_outputs` takes it.
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows that the forest was not trained on, drawn as those to be predicted; without labels.
        metric : {"labels", "probabilities", "scores"}
            What must agree with all T trees, as in `rfsize.size`.
        alpha : float, default 0.99
            Share of the rows that agree.
        tolerance : float, optional
            How far off a probability or score may be and still agree, for the output that is farthest off.
        confidence : float, default 0.95
            How sure the certificate is, as in `rfsize.size`.
        average : {"micro", "macro"}
            "macro" keeps α for the rows of each class that all trees predict, so that a rare class does not go under.
        voting : {"auto", "hard", "soft"}
            Whether labels go by averaged scores ("soft"), by the majority of the votes ("hard", a table of `build` for
            which one row in five tells the prior), or by what the model's own ``predict`` goes by.
        threshold : float, optional
            Probability of class 1 above which a row is class 1, 0.5 by default; for two classes, and labels or "macro".
        missing : float, optional
            As in `rfsize.tree_outputs`.

        Raises
        ------
        ValueError
            If the forest was trained on the rows, or an argument does not fit, or the rows are too few for a
            certificate: α = 0.99 at a confidence of 0.95 takes 299, "macro" as many of each class.
        NotAForestError
            If the model is not a forest that votes.

        Warns
        -----
        RareClassWarning
            If more than one in five rows of a class get another answer.

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
        alpha, confidence = share("alpha", alpha), checked_confidence(confidence)
        trees = TreesOnRows.of(model, X, casts_votes=metric == "labels", threshold=threshold, missing=missing)
        adapter = trees.adapter
        goes_by = (adapter.predict_obeys if voting == "auto" else voting) if metric == "labels" else "soft"
        if goes_by == "soft":
            check_classes(adapter.classes.size, metric, average)
        rule = Stops.calibrating(metric, goes_by, adapter.n_trees, max(1, adapter.classes.size))
        promise = Promise(alpha, confidence, average, adapter.digest, metric, tolerance)
        return cls.of(*rule.calibrated(trees, promise))

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

        `build` keeps α on average over forests and orders of their trees. This takes the boldest of a sequence of
        tables by the same rule and prior that keeps it for this forest with its trees in their order. The table has a
        ``certificate``, and as ``nominal`` the alpha that its stops were built with.

        Parameters
        ----------
        model
            A forest of ``n_trees`` trees and ``n_classes`` classes.
        X, confidence, average, missing
            As in `calibrate`; nor may the prior be taken from these rows.
        threshold : float, optional
            As in `calibrate`; by default that of the votes that the table was built from, or 0.5.

        Raises
        ------
        ValueError
            If the table is not one of votes with an alpha below 1 and target "forest", the forest or the threshold is
            another, or the rows are too few.
        """
        choice("average", average, AVERAGES)
        if not isinstance(self.stops, UrnStops) or self.target != "forest" or self.alpha == 1.0:
            raise ValueError(
                "certified is for tables of votes that build made, with target='forest' and an alpha below 1; "
                f"found {self!r}. A lossless table needs no certificate, and StopTable.calibrate certifies tables "
                "of scores"
            )
        at = self.threshold if threshold is None else threshold
        trees = TreesOnRows.of(model, X, casts_votes=True, threshold=at, missing=missing)
        adapter = trees.adapter
        self.check_labels(adapter.n_trees, adapter.classes, trees.threshold)
        promise = Promise(self.alpha, checked_confidence(confidence), average, adapter.digest)
        of_forest = replace(self, classes=labels_of(adapter.classes), threshold=trees.threshold)
        nominal, stops, certificate = VotesOnRows.of(trees).certified(of_forest, promise)
        return self.of(replace(of_forest, nominal=nominal), stops, certificate)

    @classmethod
    def lossless(cls, weights: ArrayLike, *, n_classes: int = 2) -> StopTable:
        """Build the table of a weighted vote: stop when the remaining weight cannot change the outcome.

        It is for AdaBoost, or any classifiers with fixed weights. Members are asked from the heaviest down, until the
        leading class is further ahead of the next than all members left can bring. That is certain whatever they are,
        so that they need not be independent, as the trees of a forest are.

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
            `apply` gives the labels of ``AdaBoostClassifier.predict`` [1]_, its rounding included, which sums w for the
            class voted for and −w/(K − 1) for each other class. Votes of equal weights are counted, and a tie goes to
            the lowest class index.

        Raises
        ------
        ValueError
            If the weights are not finite numbers of at least 0, all of them are 0, one exceeds 1e300, or there are more
            than 10,001.

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
        stops = WeightedStops.of(checked_weights(weights), n_classes)
        return cls.of(stops.terms(n_classes), stops)

    def apply(self, tree_votes: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Ask the trees row by row, and stop where the table says so.

        Parameters
        ----------
        tree_votes : array_like of int or bool, shape (n_rows, T); or of float, shape (n_rows, T, n_scores)
            Class index that each tree votes for, in the order in which trees are asked (members of a weighted vote in
            their own). Where ``voting`` is "soft", the score of each tree alone, before the link: one for two classes
            or a regression, else one for each class.

        Returns
        -------
        labels : ndarray of int64, shape (n_rows,)
            Class indices; of probabilities or scores the predictions, shape (n_rows, n_outputs).
        asked : ndarray of int64, shape (n_rows,)
            Trees asked, 1 to T.

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
        return self.stops.answers(self.stops.checked(tree_votes, self), self.n_classes)

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

        It is exact under the prior, or counted on the rows of the certificate or of the simulation.
        """
        trees = self._figures.trees
        if math.isnan(trees):
            raise ValueError(
                "how many members a weighted vote asks depends on the votes, and the table knows none: take the "
                "mean of asked, the second array that apply(tree_votes) returns"
            )
        return trees

    def expected_disagreement(self) -> float:
        """Share of the rows whose answer differs from the target's; 0 for weighted votes."""
        return self._figures.disagreement

    def expected_unsettled(self) -> float:
        """Share of the rows that never reach α, and get the label of all T trees; 0 unless the target is "limit"."""
        return 0.0 if self.target == "forest" else self._figures.unsettled

    def disagreement_by_tally(self) -> Floats:
        """Probability of another label over random orders of the votes, by votes for class 1 among all; shape (T + 1,).

        With target "limit" all T trees may give another label as well. ``ValueError`` if the table has more than two
        classes, or the votes are weighted.
        """
        found = self.stops.by_tally(self.target)
        if found is None:
            raise ValueError(f"only unweighted tables of two classes have this; found {self!r}")
        return found

    def by_class(self) -> list[ClassOutcome]:
        """Disagreement and trees asked, for each class that all trees predict.

        That is for each class its ``label``, its ``share`` of the rows, the ``disagreement`` among its rows, and the
        mean number of ``trees`` asked for them, exact or counted as in `expected_trees`; NaN where it is not known.

        Examples
        --------
        One row in ten is of class 1, and it loses more than the other class does:

        >>> import rfsize
        >>> votes = rfsize.Votes([[95, 5]] * 80 + [[60, 40]] * 10 + [[35, 65]] * 10)
        >>> table = rfsize.StopTable.build(101, alpha=0.95, prior=votes)
        >>> [outcome.disagreement > table.expected_disagreement() for outcome in table.by_class()]
        [False, True]
        """
        return self.stops.by_class(self, self._seen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw where voting stops, on ``ax`` or a new figure; of a certified table also the rows that differed."""
        from rfsize.stopping.page import plot_table

        return plot_table(self._shown(), ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a file, as JSON; ``OSError`` where it cannot be written."""
        write_document(path, self.to_dict())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> StopTable:
        """Read a table that `save` wrote, and verify that it keeps its promise: the file may come from anyone.

        Raises
        ------
        TableError
            If the file is damaged, was not written by `save`, or holds stops that disagree more than they promise.
        OSError
            If the file cannot be read.
        """
        return cls.from_dict(read_document(path))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain Python values that ``json`` can write."""
        found = {name: getattr(self, name) for name in KEYS}
        for name in ("stops", "counts", "certificate"):
            found[name] = None if found[name] is None else found[name].to_dict()
        found["prior"] = None if self.prior is None else flat_prior(self.prior).tolist()
        found["classes"] = None if self.classes is None else list(self.classes)
        return signed(found)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StopTable:
        """The table of `to_dict`, verified; errors as in `load`."""
        table = cls(**stored_fields(document))
        check_evidence(table, table.stops, table.counts, table.certificate)
        check_signature(document)
        table.stops.check_kept(table)
        return table

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
        found = f"{self.expected_trees():.1f} trees per row, {in_percent(self.expected_disagreement())} disagreement"
        if self.certificate is not None:
            found += f"; {self.certificate}"
        found += _rare_classes(self.by_class())
        return f"StopTable({', '.join(words)}; {'expected' if self.stops.is_computed else 'measured'}: {found})"

    def _account(self) -> Account:
        from rfsize.stopping.page import table_account

        return table_account(self._shown())

    def _shown(self) -> Shown:
        from rfsize.stopping.page import Shown

        return Shown(self, self.stops, self.certificate, self._figures, self.by_class())

    @property
    def _seen(self) -> ClassCounts | None:
        return self.counts if self.certificate is None else self.certificate.counts

    @cached_property
    def _figures(self) -> Figures:
        return self.stops.figures(self, self._seen)


def _rare_classes(outcomes: list[ClassOutcome]) -> str:
    """What becomes of rare classes' rows, to go on a line with; empty where there are no such classes."""
    rare = [outcome for outcome in outcomes if outcome.share < _RARE and outcome.disagreement >= 0.0]
    if not rare:
        return ""
    each = [f"{outcome.label!r} ({in_percent(outcome.share)}) {in_percent(outcome.disagreement)}" for outcome in rare]
    more = f" and {len(each) - _CLASSES_SAID} more" if len(each) > _CLASSES_SAID else ""
    return f"; of rare classes' rows: {', '.join(each[:_CLASSES_SAID])}{more}"


def _warn_of_lost_classes(table: StopTable) -> None:
    """Warn where classes lose a share `_MOST_LOST` of their rows, and twice what all may lose."""
    most = max(_MOST_LOST, 2.0 * (1.0 - table.alpha))
    lost = [
        f"{outcome.label!r} ({in_percent(outcome.share)} of the rows): {in_percent(outcome.disagreement)}"
        for outcome in table.by_class()
        if outcome.disagreement > most
    ]
    if lost:
        warn(
            f"the table changes the label of {in_percent(table.expected_disagreement())} of all rows, but of the "
            f"rows of single classes it changes more: {', '.join(lost[:_CLASSES_SAID])}. If these classes matter, use "
            "StopTable.calibrate(..., average='macro'), which bounds each by itself, or a higher alpha",
            RareClassWarning,
        )
