"""StopTable: when a row need not ask the remaining trees."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize.errors import RareClassWarning
from rfsize.stopping import rules
from rfsize.stopping.arguments import (
    check_combination,
    check_scores,
    checked_alpha,
    checked_outputs,
    checked_tolerance,
    checked_trees,
    resolved_prior,
)
from rfsize.stopping.calibration import VotesOnRows, Wanted, average_stops, certified_votes, spread_stops
from rfsize.stopping.certificate import AVERAGES
from rfsize.stopping.fit import check_labels
from rfsize.stopping.known import KnownTable
from rfsize.stopping.scoring import TreesOnRows, known_labels
from rfsize.stopping.simulation import simulated
from rfsize.stopping.stops import LeaderStops, VoteStops, WeightedStops, checked_weights
from rfsize.utils.validation import MAX_CLASSES, choice, share, whole
from rfsize.voting.outputs import VOTINGS
from rfsize.voting.votes import HasVotes, Votes

Rule = Literal["threshold", "optimal", "robust"]
Target = Literal["forest", "limit"]
Metric = Literal["labels", "probabilities", "scores"]

_BLOCK = 2_000_000  # votes that `apply` holds at a time
_ROWS_PER_PRIOR = 5  # one row in so many tells the prior of a table of votes that the others certify


class StopTable(KnownTable):
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

    @classmethod
    def build(
        cls,
        n_trees: int,
        *,
        alpha: float = 0.99,
        prior: str | HasVotes | Votes | ArrayLike = "uniform",
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
        prior : "uniform", Votes, Counted or array_like
            How likely each final tally of T votes is. "uniform": SIBA (Hernández-Lobato et al. 2009). `Votes` of
            similar rows, such as out-of-bag votes, or what `rfsize.count` counted: HYPER (Soto et al. 2016), each row's
            vote fractions scaled to T, rounded and smoothed (`rfsize.stopping.urn.votes_prior`). An array holds
            weights: shape (T + 1,) by votes
            for class 1, or (T + 1, T + 1) indexed [votes for class 0, votes for class 1] for three classes.
        rule : {"threshold", "optimal", "robust"}
            "threshold": stop where the probability that the leading class wins exceeds α, the papers' rule.
            "optimal": the fewest expected trees for expected disagreement of at most 1 − α under the prior.
            "robust": the fewest expected trees for disagreement of at most 1 − α whatever the final tally is, so
            that the prior need not be trusted; two classes and target "forest" only.
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
        choice("target", target, ("forest", "limit"))
        prior = getattr(prior, "votes", prior)
        n_classes, weights = resolved_prior(prior, n_trees, n_classes)
        kind = rules.table_kind(n_trees, n_classes)
        check_combination(kind, rule, target)
        stops = rules.built_stops(kind, n_trees, n_classes, alpha, weights, rule, target)
        counts = None
        if isinstance(stops, LeaderStops):
            counts = simulated(stops, n_trees, n_classes, prior if isinstance(prior, Votes) else None)
        of_labels: dict[str, Any] = {}
        if isinstance(prior, Votes):
            of_labels = {"classes": known_labels(prior.classes), "threshold": prior.threshold}
        table = cls(n_trees, n_classes, alpha, rule, target, weights, stops, counts=counts, **of_labels)
        table.warn_of_rare_classes()
        return table

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
            A forest, as `rfsize.votes` takes it.
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
            Probability of class 1 above which it is predicted, 0.5 by default; two classes only.
        missing : float, optional
            As in `rfsize.votes`.

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
        alpha, confidence = share("alpha", alpha), share("confidence", confidence)
        of_labels = metric == "labels"
        trees = TreesOnRows.of(model, X, casts_votes=of_labels, threshold=threshold, missing=missing)
        adapter, classes = trees.adapter, known_labels(trees.adapter.classes)
        wanted = Wanted(alpha, confidence, average, adapter.digest)
        if of_labels and (adapter.predict_obeys if voting == "auto" else voting) == "hard":
            table = cls._certified_votes(trees, wanted)
        else:
            check_scores(adapter.averages_scores, adapter.classes.size, metric)
            n_trees, n_classes = checked_trees(adapter.n_trees), max(1, adapter.classes.size)
            labels = tuple(range(n_classes)) if classes is None else classes
            find = average_stops if of_labels else partial(spread_stops, metric=metric, tolerance=tolerance)
            stops, certificate = find(trees, wanted, labels)
            at = trees.threshold if of_labels or average == "macro" else None
            of_rows: dict[str, Any] = {"classes": classes, "threshold": at, "certificate": certificate}
            rule = "lead" if of_labels else "spread"
            table = cls(n_trees, n_classes, wanted.alpha, rule, "forest", None, stops, **of_rows)
        table.warn_of_rare_classes()
        return table

    @classmethod
    def _certified_votes(cls, trees: TreesOnRows, wanted: Wanted) -> StopTable:
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
        >>> votes = rfsize.votes(forest, X[:1000], oob=True)
        >>> table = rfsize.StopTable.build(100, alpha=0.98, prior=votes, rule="optimal").certified(forest, X[1000:])
        >>> table.certificate.bound <= 0.02
        True
        """
        choice("average", average, AVERAGES)
        if self.kind in ("weighted", "averages", "spread") or self.target != "forest" or self.alpha == 1.0:
            raise ValueError(
                "certified is for tables of votes that build made, with target='forest' and an alpha below 1; "
                f"found {self!r}; a lossless table disagrees with no forest, and scores are certified by "
                "StopTable.calibrate"
            )
        at = self.threshold if threshold is None else threshold
        trees = TreesOnRows.of(model, X, casts_votes=True, threshold=at, missing=missing)
        adapter = trees.adapter
        check_labels(self, adapter.n_trees, adapter.classes, trees.threshold)
        confidence = share("confidence", confidence)
        wanted = Wanted(self.alpha, confidence, average, adapter.digest)
        of_forest = replace(self, classes=known_labels(adapter.classes), threshold=trees.threshold)
        table = of_forest._certified_on(VotesOnRows.of(trees), wanted)
        table.warn_of_rare_classes()
        return table

    def _certified_on(self, rows: VotesOnRows, wanted: Wanted) -> StopTable:
        kind, of_forest = self.kind, (self.n_trees, self.n_classes)

        def build(alpha: float) -> VoteStops:
            return rules.built_stops(kind, *of_forest, alpha, self.prior, self.rule, "forest")

        nominal, stops, certificate = certified_votes(rows, wanted, self._labels, build)
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
            Class index answered; of "probability" or "score" the predictions, shape (n_rows, n_outputs).
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
        given = checked_outputs(tree_votes, self.n_trees, self.n_classes, self.voting)
        rows = max(1, _BLOCK // max(math.prod(given.shape[1:]), self.n_classes))
        starts = range(0, max(1, len(given)), rows)
        settled = [self.stops.settle(given[start : start + rows], self.n_classes) for start in starts]
        answers, asked = (np.concatenate(part) for part in zip(*settled, strict=True))
        return answers, asked
