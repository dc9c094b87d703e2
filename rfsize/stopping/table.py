"""StopTable: when a row can stop asking trees, and what the table promises about its label."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import MAX_CLASSES, choice, how_many, in_percent, refuse_unused, share, warn, whole
from rfsize.counting.outputs import VOTINGS, TreeOutputs
from rfsize.counting.training_rows import TreesOnRows
from rfsize.counting.votes import Votes
from rfsize.exceptions import LabelsOnlyWarning, NotAForestError
from rfsize.statistics.certify import Certificate, ClassOutcome, RiskTarget
from rfsize.statistics.criterion import AVERAGES, check_classes, checked_confidence, checked_tolerance
from rfsize.stopping.document import check_signature, read_document, signed, write_document
from rfsize.stopping.rules.base import Stops
from rfsize.stopping.rules.from_prior import UrnStops, VotesOnRows, terms_of_prior, urn_stops
from rfsize.stopping.rules.weighted import WeightedStops, checked_weights
from rfsize.stopping.stored import KEYS, check_certificate, stored_fields
from rfsize.stopping.terms import Terms, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Metric = Literal["labels", "probabilities", "scores"]

_RARE = 0.05  # a class with a smaller share of the rows is listed by itself
_MOST_LOST = 0.2  # a class that loses a larger share of its rows raises a warning
_CLASSES_SAID = 5


@dataclass(frozen=True, eq=False)
class StopTable(Terms):
    """A rule that stops asking trees about a row as soon as its label is settled.

    Three methods make a table. If you have rows that the forest was not trained on, use `calibrate`. If you have only
    votes, or no data, use `build`. For the weighted votes of AdaBoost, use `lossless`. Then predict with
    ``rfsize.compile(model, table)``.

    Attributes
    ----------
    n_trees, n_classes : int
        Size of the forest that the table is for. 1 class means a regression.
    alpha : float
        Share of the rows that keep their label or number. A lossless table has 1.
    prior : ndarray of float, shape (T + 1,), or None
        How likely each final tally of T votes is; sums to 1. None means uniform. Two classes: by votes for class 1.
        Otherwise symmetric, for the two leading classes.
    stops : Stops
        The votes or scores at which a row stops. ``kind`` names their type.
    nominal : float or None
        The alpha that the stops of a certified table of votes were built with.
    classes : tuple or None
        Class labels, if they are known.
    threshold : float or None
        For two classes: the probability above which a row is class 1, if it is known.
    certificate : Certificate or None
        The certificate for one forest. Without a certificate, the table's disagreement is only an expectation.

    See Also
    --------
    compile : Predict faster, and without the framework.

    Examples
    --------
    If all final tallies are equally likely, a row asks 26.5 of 101 trees on average:

    >>> import rfsize
    >>> table = rfsize.StopTable.build(101, alpha=0.99)
    >>> round(table.expected_trees(), 1)
    26.5
    >>> table.expected_disagreement() <= 0.01
    True
    """

    stops: Stops = field(kw_only=True)
    certificate: Certificate | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, terms: Terms, stops: Stops, certificate: Certificate | None = None) -> StopTable:
        """Make a table from new stops, and warn if it changes the labels of many rows of one class."""
        of_terms = {field.name: getattr(terms, field.name) for field in fields(Terms)}
        made = cls(**of_terms, stops=stops, certificate=certificate)
        _warn_of_lost_classes(made)
        return made

    @classmethod
    def build(
        cls,
        n_trees: int,
        *,
        alpha: float = 0.99,
        prior: str | TreeOutputs | Votes | ArrayLike = "uniform",
        n_classes: int | None = None,
    ) -> StopTable:
        """Build a table of votes: stop when the votes so far tell what the other trees will probably say.

        After each tree, take the class that leads the votes so far. The row stops, and gets this label, if the
        probability that this class also has the most of all T votes is above α (equation 3 of [2]_), or if the
        remaining votes cannot change it. A class that trails or ties is never the answer before the last tree.

        Parameters
        ----------
        n_trees : int
            Ensemble size T, 1 to 10,001.
        alpha : float
            Share of the labels that stay the same, above 0 and at most 1. With 1, a row stops when the remaining votes
            cannot change its label.
        prior : "uniform", TreeOutputs, Votes or array_like of shape (T + 1,)
            How likely each final tally of T votes is. "uniform": SIBA [1]_. Votes on similar rows, such as out-of-bag
            votes: HYPER [2]_; their histogram is smoothed by a moving average over five tallies, fewer at the ends. An
            array holds the weight of each number of votes for class 1, for two classes.
        n_classes : int, optional
            Number of classes, for a uniform prior; 2 by default.

        Returns
        -------
        StopTable
            Exact for two classes. For more, the table looks at the two leading classes only, and shares 1 − α among the
            rivals of the leader. It then asks more trees than necessary.

        Raises
        ------
        ValueError
            If an argument is out of range or does not fit the others.
        FewVotesError
            If the votes are out of bag and a kind of rows has hardly any, as when bags are drawn by weight.

        References
        ----------
        .. [1] D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2009). "Statistical instance-based pruning in
           ensembles of independent classifiers." *IEEE Transactions on Pattern Analysis and Machine Intelligence*
           31(2), 364–369.
        .. [2] V. Soto, A. Suárez, G. Martínez-Muñoz (2016). "An urn model for majority voting in classification
           ensembles." *NIPS* 29.

        Examples
        --------
        Votes on similar rows show that most rows are clear, so that the table stops sooner:

        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [60, 40], [90, 10]])
        >>> table = rfsize.StopTable.build(101, alpha=0.99, prior=votes)
        >>> table.expected_trees() < rfsize.StopTable.build(101, alpha=0.99).expected_trees()
        True
        """
        terms = terms_of_prior(n_trees, alpha, prior, n_classes)
        return cls.of(terms, urn_stops(terms.n_trees, terms.n_classes).build(terms))

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
        """Make a certified table for this forest from rows that it was not trained on.

        A row stops when the averaged score of its leading class is far enough ahead. For probabilities or scores, a row
        stops when the remaining trees can change little. How far is set by an exact binomial bound on your rows
        [1]_. The bound is the table's ``certificate``; it holds for this forest with its trees in this order.

        Parameters
        ----------
        model
            A forest, as `rfsize.tree_outputs` takes it.
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows that the forest was not trained on, from the same source as the rows that you predict; without labels.
        metric : {"labels", "probabilities", "scores"}
            What must agree with all T trees, as in `rfsize.size`.
        alpha : float, default 0.99
            Share of the rows that must agree.
        tolerance : float, optional
            How far a probability or score may move and still agree. With several outputs, the largest move counts.
        confidence : float, default 0.95
            How sure the certificate is, as in `rfsize.size`.
        average : {"micro", "macro"}
            "macro" keeps α for each class that all trees predict, so that a rare class is not lost.
        voting : {"auto", "hard", "soft"}
            How trees make a label: "soft" averages their scores, "hard" takes the majority of their votes, "auto" does
            what the model's own ``predict`` does. "hard" makes a table like `build`, with the votes on one row in five
            as prior.
        threshold : float, optional
            Probability above which a row is class 1, 0.5 by default. For two classes, with labels or "macro".
        missing : float, optional
            As in `rfsize.tree_outputs`.

        Raises
        ------
        ValueError
            If the forest was trained on the rows, an argument does not fit, or the rows are too few for a certificate:
            α = 0.99 at a confidence of 0.95 takes 299 rows, and with "macro" 299 rows of each class.
        NotAForestError
            If the model is not a forest that votes.

        Warns
        -----
        LabelsOnlyWarning
            If more than one in five rows of a class get another label or number.

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
        adapter = trees.forest
        goes_by = (
            (adapter.voting_at(trees.rows.threshold) if voting == "auto" else voting) if metric == "labels" else "soft"
        )
        if goes_by == "soft" and adapter.ensemble is None:
            raise NotAForestError(
                "the members of the ensemble are no trees, so it cannot be compiled with a table of averages: for a "
                "table of votes, StopTable.calibrate(model, X, voting='hard'), whose apply takes the members' votes"
            )
        if goes_by == "soft":
            check_classes(adapter.classes.size, metric, average)
        rule = Stops.calibrating(metric, goes_by, adapter.n_trees, max(1, adapter.classes.size))
        promise = RiskTarget(alpha, confidence, average, adapter.digest, metric, tolerance)
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
        """Certify a table of votes for one forest, on rows that the forest was not trained on.

        A table of `build` keeps α on average over forests and over orders of their trees. `certified` returns a table
        that keeps α for this forest with its trees in this order. It builds tables with the same prior, which ask fewer
        and fewer trees, and takes the last one that your rows certify. The new table has a ``certificate``;
        its ``nominal`` is the alpha that its stops were built with.

        Parameters
        ----------
        model
            A forest of ``n_trees`` trees and ``n_classes`` classes.
        X, confidence, average, missing
            As in `calibrate`. The prior must come from other rows than these.
        threshold : float, optional
            As in `calibrate`. By default the threshold of the votes that the table was built from, or 0.5.

        Raises
        ------
        ValueError
            If `build` did not make the table, or made it with alpha 1. If the table does not fit the forest or the
            threshold, or the rows are too few.
        """
        choice("average", average, AVERAGES)
        if not isinstance(self.stops, UrnStops) or self.alpha == 1.0:
            raise ValueError(
                "certified is for tables of votes that build made with an alpha below 1, and this one is of kind "
                f"{self.kind!r}: a lossless table needs no certificate, and StopTable.calibrate(model, X) certifies "
                "tables of scores"
            )
        at = self.threshold if threshold is None else threshold
        trees = TreesOnRows.of(model, X, casts_votes=True, threshold=at, missing=missing)
        adapter = trees.forest
        self.check_labels(adapter.n_trees, adapter.classes, trees.threshold)
        promise = RiskTarget(self.alpha, checked_confidence(confidence), average, adapter.digest)
        of_forest = replace(self, classes=labels_of(adapter.classes), threshold=trees.threshold)
        nominal, stops, certificate = VotesOnRows.of(trees).certified(of_forest, promise)
        return self.of(replace(of_forest, nominal=nominal), stops, certificate)

    @classmethod
    def lossless(cls, weights: ArrayLike, *, n_classes: int = 2) -> StopTable:
        """Build the table of a weighted vote: stop when the remaining weight cannot change the outcome.

        Use it for AdaBoost, or for any classifiers with fixed weights ("members"). A row asks the heaviest members
        first. It stops when the lead of the first class over the second exceeds what the remaining members can change.
        The label never changes, so the members need not be independent, as the trees of a forest are.

        Parameters
        ----------
        weights : array_like of float, shape (T,)
            Weight of each member, at least 0, in the order of the model. An ``AdaBoostClassifier`` has them as
            ``model.estimator_weights_``. Members of weight 0 are never asked.
        n_classes : int, default 2
            Number of classes K.

        Returns
        -------
        StopTable
            `apply` gives exactly the labels of ``AdaBoostClassifier.predict`` [1]_. That method adds w to the class
            that a member votes for and −w/(K − 1) to each other class. If all weights are equal, votes are counted, and
            a tie goes to the lowest class index.

        Raises
        ------
        ValueError
            If the weights are not finite numbers from 0 to 1e300, if all weights are 0, or if there are more than
            10,001 weights.

        References
        ----------
        .. [1] J. Zhu, H. Zou, S. Rosset, T. Hastie (2009). "Multi-class AdaBoost." *Statistics and Its Interface* 2,
           349–360.

        Examples
        --------
        If the two heaviest members agree, the third is not asked:

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
        """Apply the table to the votes or scores of all trees, to see what it would answer.

        Parameters
        ----------
        tree_votes : array_like of int or bool, shape (n_rows, T); or of float, shape (n_rows, T, n_scores)
            The class index that each tree votes for, in the order of the trees. If ``voting`` is "soft": the score of
            each tree, before the link function. Two classes or a regression have one score, several classes one each.

        Returns
        -------
        labels : ndarray of int64, shape (n_rows,)
            Class indices. A table of probabilities or scores returns these instead, with shape (n_rows, n_outputs).
        asked : ndarray of int64, shape (n_rows,)
            Number of trees that each row asked, 1 to T.

        Raises
        ------
        ValueError
            If the votes are not class indices, the scores not numbers, or the shape is wrong.

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
        """Kind of the stops: "binary", "leaders", "weighted", "averages" or "spread"."""
        return self.stops.kind

    @property
    def voting(self) -> str:
        """What the table reads: the votes of the trees ("hard") or their averaged scores ("soft")."""
        return self.stops.voting

    @property
    def metric(self) -> str:
        """What agrees with all trees: "labels", "probabilities" or "scores"."""
        return self.stops.metric

    @property
    def promise(self) -> str:
        """How the disagreement of at most 1 − α holds: "certified" for one forest, or "expected" over many."""
        return "expected" if self.certificate is None else "certified"

    def expected_trees(self) -> float:
        """Mean number of trees that a row asks.

        The number is exact under the prior, or counted on the rows of the certificate. ``ValueError`` if it is not
        known: if the votes are weighted, or if there are three or more classes and no certificate.
        """
        return self._known(self._trees)

    def expected_disagreement(self) -> float:
        """Share of the rows that get another answer than from all trees; 0 if the table is lossless.

        As exact, and as unknown, as `expected_trees`.
        """
        return 0.0 if self.alpha == 1.0 and self.certificate is None else self._known(self._disagreement)

    def by_class(self) -> list[ClassOutcome]:
        """Disagreement and trees asked, for each class that all trees predict.

        Each class has its ``label``, its ``share`` of the rows, the ``disagreement`` among its rows, and the mean
        number of ``trees`` that these rows ask. Numbers are exact or counted as in `expected_trees`; NaN if not known.

        Examples
        --------
        One row in ten is of class 1, and a larger share of these rows changes its label:

        >>> import rfsize
        >>> votes = rfsize.Votes([[95, 5]] * 80 + [[60, 40]] * 10 + [[35, 65]] * 10)
        >>> table = rfsize.StopTable.build(101, alpha=0.95, prior=votes)
        >>> [outcome.disagreement > table.expected_disagreement() for outcome in table.by_class()]
        [False, True]
        """
        return list(self._by_class)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw when rows stop, on ``ax`` or a new figure. A certified table also shows the rows that differed."""
        from rfsize.stopping.plot import plot_table

        return plot_table(self, self.stops, self.certificate, self._trees, ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a JSON file; ``OSError`` if that fails."""
        write_document(path, self.to_dict())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> StopTable:
        """Read a table that `save` wrote. The file may come from anyone: it holds no code, and its content is checked.

        What the table promises is taken from the file, because it cannot be checked without the rows.

        Raises
        ------
        FileError
            If the file is damaged or was not written by `save`.
        OSError
            If the file cannot be read.
        """
        return cls.from_dict(read_document(path))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain Python values that ``json`` can write."""
        content = {name: getattr(self, name) for name in KEYS}
        for name in ("stops", "certificate"):
            content[name] = None if content[name] is None else content[name].to_dict()
        content["prior"] = None if self.prior is None else self.prior.tolist()
        content["classes"] = None if self.classes is None else list(self.classes)
        return signed(content)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StopTable:
        """Read the table that `to_dict` returned; errors as in `load`."""
        table = cls(**stored_fields(document))
        check_certificate(table, table.stops, table.certificate)
        check_signature(document)
        return table

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, StopTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.stops.counts_alike:
            return f"StopTable({how_many(self.n_trees, 'weighted member')}, {self.n_classes} classes, lossless)"
        classes = f"{self.n_classes} classes" if self.n_classes > 1 else "no classes"
        words = [how_many(self.n_trees, "tree"), classes, self.kind, f"alpha={self.alpha!r}"]
        words += [self.stops.goes_by] if self.stops.goes_by else []
        if self.voting == "hard":
            words.append(f"prior {'uniform' if self.prior is None else 'given'}")
        if self.threshold not in (None, 0.5):
            words.append(f"threshold={self.threshold:g}")
        described = ", ".join(words)
        if math.isnan(self._trees):
            return f"StopTable({described})"
        known = "expected" if self.certificate is None else "measured"
        figures = f"{self._trees:.1f} trees per row, {in_percent(self.expected_disagreement())} disagreement"
        certified = "" if self.certificate is None else f"; {self.certificate}"
        return f"StopTable({described}; {known}: {figures}{certified}{_rare_classes(self._by_class)})"

    @cached_property
    def _by_class(self) -> list[ClassOutcome]:
        return self.stops.by_class(self, None if self.certificate is None else self.certificate.counts)

    @cached_property
    def _trees(self) -> float:
        """Mean number of trees asked; NaN if not known."""
        if self.certificate is not None:
            return self.certificate.counts.mean_trees
        return sum(outcome.share * outcome.trees for outcome in self._by_class if outcome.share != 0.0)

    @cached_property
    def _disagreement(self) -> float:
        """Share of the rows that differ; NaN if not known."""
        if self.certificate is not None:
            return self.certificate.counts.disagreement
        return sum(outcome.share * outcome.disagreement for outcome in self._by_class if outcome.share != 0.0)

    def _known(self, figure: float) -> float:
        if math.isnan(figure):
            raise ValueError(
                f"a table of kind {self.kind!r} does not know what rows will ask: count it on the votes of rows, by "
                "labels, asked = table.apply(tree_votes)"
            )
        return figure


def _rare_classes(outcomes: list[ClassOutcome]) -> str:
    """The end of a line that says how many rows of rare classes differ; empty if no class is rare."""
    rare = [outcome for outcome in outcomes if outcome.share < _RARE and outcome.disagreement >= 0.0]
    if not rare:
        return ""
    shares = [f"{outcome.label!r} ({in_percent(outcome.share)}) {in_percent(outcome.disagreement)}" for outcome in rare]
    more = f" and {len(shares) - _CLASSES_SAID} more" if len(shares) > _CLASSES_SAID else ""
    return f"; of rare classes' rows: {', '.join(shares[:_CLASSES_SAID])}{more}"


def _warn_of_lost_classes(table: StopTable) -> None:
    """Warn if a class loses more than `_MOST_LOST` of its rows and more than twice what α allows."""
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
            LabelsOnlyWarning,
        )
