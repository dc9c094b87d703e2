"""StopTable: when a row needs no more trees, and what the table promises about its label."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._files import require
from rfsize._util import MAX_CLASSES, choice, give, how_many, in_percent, refuse_unused, warn, whole
from rfsize.counting.collect import refuse_training_rows
from rfsize.counting.outputs import TreeOutputs
from rfsize.counting.task import Task
from rfsize.counting.votes import Votes
from rfsize.exceptions import LabelsOnlyWarning, NotAForestError
from rfsize.models.framework import read_model
from rfsize.models.model import Forest, learning_rate_of
from rfsize.statistics.certify import Certificate, ClassOutcome
from rfsize.statistics.criterion import PREDICTIONS, check_tolerance, make_criterion, resolve
from rfsize.statistics.first_trees import risk_target
from rfsize.stopping import calibration, vote_prior
from rfsize.stopping.files import expected_to_list, read_document, refusing, signed, stored_fields, write_document
from rfsize.stopping.rules import Rule, checked_outputs, checked_trees, in_blocks
from rfsize.stopping.spread import SpreadRule
from rfsize.stopping.votes import WeightedVote, checked_weights

Metric = Literal["labels", "probabilities", "scores"]

_RARE = 0.05  # a class with a smaller share of the rows is listed by itself
_MOST_LOST = 0.2  # a class that loses a larger share of its rows raises a warning
_CLASSES_SAID = 5


@dataclass(frozen=True, eq=False)
class StopTable:
    """A rule that stops as soon as the label of a row is settled.

    Three methods make a table. If you have rows that the forest was not trained on, use `calibrate`. If you have only
    votes, or no data, use `build`. For the weighted votes of AdaBoost, use `lossless`. Then predict with
    ``rfsize.compile(model, table)``.

    Attributes
    ----------
    n_trees, n_classes : int
        Size of the forest that the table is for. 1 class means a regression.
    alpha : float
        Share of the rows that keep their label or number. A lossless table has 1.
    stops : Rule
        The votes or scores at which a row stops. ``kind`` names their type.
    prior : {"uniform", "given"} or None
        Which prior over the final tallies of the votes the table was built from, if any.
    classes : tuple or None
        Class labels, if they are known.
    threshold : float or None
        For two classes: the probability above which a row is class 1, if it is known.
    certificate : Certificate or None
        The certificate for one forest. Without a certificate, the table's disagreement is only an expectation.
    expected : tuple of ClassOutcome, or None
        What the prior lets expect for each class, if it is known.
    is_claimed : bool
        Whether the table was read from a file. What it promises is then only claimed, because it cannot be checked
        without the rows.

    See Also
    --------
    compile : Predict faster, and without the framework.

    Examples
    --------
    If all final tallies are equally likely, a row uses 26.5 of 101 trees on average:

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
    stops: Rule
    prior: str | None = None
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    certificate: Certificate | None = None
    expected: tuple[ClassOutcome, ...] | None = None
    is_claimed: bool = field(default=False, kw_only=True)

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
            votes: HYPER [2]_; their histogram is smoothed, for two classes by a moving average over five tallies, fewer
            at the ends. An array holds the weight of each number of votes for class 1, for two classes.
        n_classes : int, optional
            Number of classes, for a uniform prior; 2 by default.

        Returns
        -------
        StopTable
            Exact for two classes, and for up to 20 classes while there are at most ten million tallies of up to T
            votes: 389 trees of three classes, 121 of four, 62 of five, 17 of ten. Otherwise the table looks at the two
            leading classes only, and shares 1 − α among the rivals of the leader. It then uses more trees than
            necessary.

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
        given, n_classes = vote_prior.checked_prior(alpha, prior, n_classes)
        n_trees, alpha = checked_trees(n_trees), float(alpha)
        stops, risks = vote_prior.rule_from(given, n_trees, n_classes, alpha)
        word = "uniform" if isinstance(given, str) else "given"
        classes, at = (labels_of(given.classes), given.threshold) if isinstance(given, Votes) else (None, None)
        labels = range(n_classes) if classes is None else classes
        expected = None if risks is None else tuple(map(ClassOutcome, labels, *zip(*risks, strict=True)))
        return _warned(cls(n_trees, n_classes, alpha, stops, word, classes, at, expected=expected))

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
        """Make a certified table for this model from rows that it was not trained on.

        A row stops when its leading class is far enough ahead, in averaged scores or in votes, or in the score so far
        of boosted trees. For probabilities or scores, a row stops when the remaining trees can change little. How far
        is set by an exact binomial bound on your rows [1]_. The bound is the table's ``certificate``; it holds for this
        model with its trees in this order.

        One row in ten, up to 2,000, tells how far the remaining iterations of a boosted model reach, or how the trees
        of a forest spread around probabilities and scores. The certificate is counted on the others.

        Parameters
        ----------
        model
            A forest or boosted trees, as `rfsize.compile` takes them.
        X : array_like, DataFrame, SciPy sparse matrix or Arrow table, shape (n_rows, n_features)
            Rows that the model was not trained on, from the same source as the rows that you predict; without labels.
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
            How trees make a label: "soft" averages or adds their scores, "hard" takes the majority of a forest's votes,
            "auto" does what the model's own ``predict`` does.
        threshold : float, optional
            Probability above which a row is class 1, 0.5 by default. For two classes, with labels or "macro".
        missing : float, optional
            As in `rfsize.tree_outputs`.

        Raises
        ------
        ValueError
            If the model was trained on the rows, an argument does not fit, or the rows are too few for a certificate:
            α = 0.99 at a confidence of 0.95 takes 299 rows that certify, and with "macro" 299 rows of each class.
        NotAForestError
            If rfsize cannot read the model, or it predicts no labels and ``metric`` is "labels".

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
        choice("metric", metric, ("labels", *PREDICTIONS))
        check_tolerance(metric, tolerance)
        of_labels: dict[str, Any] = {"alpha": alpha, "average": average, "voting": voting}
        criterion = make_criterion(metric, tolerance, target="model", confidence=confidence, **of_labels)
        if metric != "labels" and average != "macro":
            refuse_unused(f"it decides labels, and metric={metric!r} does not", threshold=threshold)
        forest = read_model(model, missing=missing)
        criterion = resolve(criterion, forest.classes.size)
        trees = Task.checked(forest, X, threshold=threshold)
        refuse_training_rows(trees)
        give(learning_rate_of(forest, labels_at=trees.threshold if criterion.of_labels else None))
        decided_by = criterion.voting if criterion.of_labels else "soft"
        if decided_by == "auto":
            decided_by = forest.voting_at(trees.threshold)
        if decided_by == "hard" and not isinstance(forest, Forest):
            raise ValueError("voting='hard' counts one vote for each tree, and boosted trees add up: leave voting out")
        if decided_by == "soft" and forest.ensemble is None:
            raise NotAForestError(
                "the members of the ensemble are no trees, so it cannot be compiled with a table of averages: for a "
                "table of votes, StopTable.calibrate(model, X, voting='hard'), whose apply takes the members' votes"
            )
        stops, certificate = calibration.calibrated(trees, risk_target(criterion, forest.digest), decided_by)
        at = trees.threshold if forest.classes.size == 2 and (metric == "labels" or average == "macro") else None
        n_classes, classes = max(1, forest.classes.size), labels_of(forest.classes)
        return _warned(cls(forest.n_members, n_classes, criterion.alpha, stops, None, classes, at, certificate))

    @classmethod
    def lossless(cls, weights: ArrayLike, *, n_classes: int = 2) -> StopTable:
        """Build the table of a weighted vote: stop when the remaining weight cannot change the outcome.

        Use it for AdaBoost, or for any classifiers with fixed weights ("members"). A row uses the heaviest members
        first. It stops when the lead of the first class over the second exceeds what the remaining members can change.
        The label never changes, so the members need not be independent, as the trees of a forest are.

        Parameters
        ----------
        weights : array_like of float, shape (T,)
            Weight of each member, at least 0, in the order of the model. An ``AdaBoostClassifier`` has them as
            ``model.estimator_weights_``. Members of weight 0 are never used.
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
        If the two heaviest members agree, the third is not used:

        >>> import rfsize
        >>> table = rfsize.StopTable.lossless([0.5, 1.0, 0.8])
        >>> labels, n_used = table.apply([[0, 1, 1], [1, 0, 1], [0, 1, 0]])
        >>> labels.tolist(), n_used.tolist()
        ([1, 1, 0], [2, 3, 3])
        """
        n_classes = whole("n_classes", n_classes, at_least=2, at_most=MAX_CLASSES)
        stops = WeightedVote(checked_weights(weights))
        return cls(stops.weights.size, n_classes, 1.0, stops)

    def apply(self, tree_votes: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Apply the table to the votes or scores of all trees, to see what it would answer.

        Parameters
        ----------
        tree_votes : array_like of int or bool, shape (n_rows, T); or of float, shape (n_rows, T, n_scores)
            The class index that each tree votes for, in the order of the trees. If ``voting`` is "soft": the score of
            each tree, before the link function, or for boosted trees that of the first 1, …, T together, such as
            ``staged_decision_function`` gives. Two classes or a regression have one score, several classes one each.

        Returns
        -------
        labels : ndarray of int64, shape (n_rows,)
            Class indices. A table of probabilities or scores returns these instead, with shape (n_rows, n_outputs).
        n_used : ndarray of int64, shape (n_rows,)
            Number of trees that each row used, 1 to T.

        Raises
        ------
        ValueError
            If the votes are not class indices, the scores not numbers, or the shape is wrong.

        Examples
        --------
        >>> import rfsize
        >>> table = rfsize.StopTable.build(5, alpha=0.9)
        >>> labels, n_used = table.apply([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0]])
        >>> labels.tolist(), n_used.tolist()
        ([1, 0], [2, 5])
        """
        outputs = checked_outputs(self.stops, tree_votes, self.n_trees, self.n_classes)
        return in_blocks(self.stops, outputs, self.n_classes)

    @property
    def kind(self) -> str:
        """Kind of the stops: "binary", "leaders", "weighted", "averages", "sums" or "spread"."""
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
        """Mean number of trees that a row uses.

        The number is exact under the prior, or counted on the rows of the certificate. ``ValueError`` if it is not
        known: if the votes are weighted, or if the table looks at two leading classes only.
        """
        return self._known("trees")

    def expected_disagreement(self) -> float:
        """Share of the rows that get another answer than from all trees; 0 if the table is lossless.

        As exact, and as unknown, as `expected_trees`.
        """
        return 0.0 if self.alpha == 1.0 else self._known("disagreement")

    def by_class(self) -> list[ClassOutcome]:
        """Disagreement and trees used, for each class that all trees predict.

        Each class has its ``label``, its ``share`` of the rows, the ``disagreement`` among its rows, and the mean
        number of ``trees`` that these rows use. Numbers are exact or counted as in `expected_trees`; NaN if not known.

        Examples
        --------
        One row in ten is of class 1, and a larger share of these rows changes its label:

        >>> import rfsize
        >>> votes = rfsize.Votes([[95, 5]] * 80 + [[60, 40]] * 10 + [[35, 65]] * 10)
        >>> table = rfsize.StopTable.build(101, alpha=0.95, prior=votes)
        >>> [outcome.disagreement > table.expected_disagreement() for outcome in table.by_class()]
        [False, True]
        """
        if self.certificate is not None:
            return self.certificate.counts.by_class(self.class_labels)
        if self.expected is not None:
            return list(self.expected)
        wrong = 0.0 if self.alpha == 1.0 else math.nan
        return [ClassOutcome(label, math.nan, wrong, math.nan) for label in self.class_labels]

    @property
    def class_labels(self) -> tuple[bool | int | float | str, ...]:
        """Class labels, or class indices if the labels are not known."""
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

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
        return signed(
            n_trees=self.n_trees,
            n_classes=self.n_classes,
            kind=self.kind,
            alpha=self.alpha,
            prior=self.prior,
            stops=self.stops.to_dict(),
            classes=None if self.classes is None else list(self.classes),
            threshold=self.threshold,
            certificate=None if self.certificate is None else self.certificate.to_dict(),
            expected=expected_to_list(self.expected),
        )

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StopTable:
        """Read the table that `to_dict` returned; errors as in `load`."""
        with refusing():
            table = cls(**stored_fields(document), is_claimed=True)
            is_same = table.to_dict()["checksum"] == document["checksum"]
            require(is_same, "the checksum does not fit the content")
        return table

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, StopTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        claimed = ", as claimed by the file" if self.is_claimed else ""
        if isinstance(self.stops, WeightedVote):
            members = how_many(self.n_trees, "weighted member")
            return f"StopTable({members}, {self.n_classes} classes, lossless{claimed})"
        classes = f"{self.n_classes} classes" if self.n_classes > 1 else "no classes"
        words = [how_many(self.n_trees, "tree"), classes, self.kind, f"alpha={self.alpha!r}"]
        if isinstance(self.stops, SpreadRule):
            words.append(f"metric={self.metric!r}, tolerance={self.stops.tolerance:g}")
        if self.prior is not None:
            words.append(f"prior {self.prior}")
        if self.threshold not in (None, 0.5):
            words.append(f"threshold={self.threshold:g}")
        described, trees = ", ".join(words), self._mean("trees")
        if math.isnan(trees):
            return f"StopTable({described}{claimed})"
        known = "expected" if self.certificate is None else "measured"
        figures = f"{trees:.1f} trees per row, {in_percent(self.expected_disagreement())} disagreement"
        certified = "" if self.certificate is None else f"; {self.certificate}"
        rare = [outcome for outcome in self.by_class() if outcome.share < _RARE and outcome.disagreement >= 0.0]
        of_rare = f"; of rare classes' rows: {_by_class(rare)}" if rare else ""
        return f"StopTable({described}; {known}: {figures}{certified}{of_rare}{claimed})"

    def _mean(self, name: Literal["trees", "disagreement"]) -> float:
        """Mean number of trees, or share of the rows that differ; NaN if not known."""
        if self.certificate is not None:
            counts = self.certificate.counts
            return sum(counts.trees if name == "trees" else counts.disagreements) / sum(counts.rows)
        return sum(outcome.share * getattr(outcome, name) for outcome in self.by_class() if outcome.share != 0.0)

    def _known(self, name: Literal["trees", "disagreement"]) -> float:
        """The same; ``ValueError`` if it is not known."""
        mean = self._mean(name)
        if math.isnan(mean):
            raise ValueError(
                f"a table of kind {self.kind!r} does not know how many trees rows use: count them on rows, by "
                "labels, n_used = table.apply(tree_votes)"
            )
        return mean


def labels_of(classes: NDArray[Any]) -> tuple[Any, ...] | None:
    """Class labels that the file of a table can hold, which are numbers or text; else None."""
    labels = tuple(classes.tolist())
    return labels if labels and all(type(label) in (bool, int, float, str) for label in labels) else None


def _by_class(outcomes: list[ClassOutcome]) -> str:
    """Classes, with their share of the rows, and how many of their rows differ."""
    said = [f"{of.label!r} ({in_percent(of.share)}) {in_percent(of.disagreement)}" for of in outcomes]
    more = f" and {len(said) - _CLASSES_SAID} more" if len(said) > _CLASSES_SAID else ""
    return f"{', '.join(said[:_CLASSES_SAID])}{more}"


def _warned(table: StopTable) -> StopTable:
    """The table, after a warning if a class loses more than `_MOST_LOST` and more than twice what α allows."""
    most = max(_MOST_LOST, 2.0 * (1.0 - table.alpha))
    lost = [outcome for outcome in table.by_class() if outcome.disagreement > most]
    what = "label" if table.metric == "labels" else "prediction"
    if lost:
        warn(
            f"the table changes the {what} of {in_percent(table.expected_disagreement())} of all rows, but of the "
            f"rows of single classes it changes more: {_by_class(lost)}. If these classes matter, use "
            "StopTable.calibrate(..., average='macro'), which bounds each by itself, or a higher alpha",
            LabelsOnlyWarning,
        )
    return table
