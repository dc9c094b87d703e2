"""TreeOutputs: the votes and scores of a forest's trees on rows, counted once and used for several questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rfsize._util import (
    Bools,
    Caution,
    Floats,
    how_many,
    refuse_unused,
)
from rfsize.counting.count import count
from rfsize.counting.coverage import Coverage
from rfsize.counting.groups import NO_GROUPS, Groups
from rfsize.counting.predictions import filled, filled_labels
from rfsize.counting.sums import Means, Scores, Sums
from rfsize.counting.task import Task, checked_truth, tree_votes
from rfsize.counting.votes import Votes
from rfsize.exceptions import NotAForestError
from rfsize.models.link import Predictor
from rfsize.models.model import Forest

VOTINGS = ("auto", "hard", "soft")
NO_VOTES = "a regression forest casts no votes: take scores or rfsize.oob_predict(model, X)"


@dataclass(frozen=True, eq=False, repr=False)
class TreeOutputs:
    """The votes and scores of a forest's trees on rows.

    `rfsize.tree_outputs` returns them. Give them to `rfsize.size`, `truncate`, `oob_score` and `StopTable.build` in
    place of a model and rows. They refer to the model and the rows, but a pickle holds neither: you can size pickled
    outputs, but methods that send the rows down the trees again raise an error.

    Attributes
    ----------
    n_rows, n_trees : int
        Number of rows, and of trees in the forest.
    source : str
        Where the outputs come from: "oob", "rows given", "cross-validation" or, in training, the validation set.
    y, sample_weight : ndarray, shape (n_rows,), or None
        Labels or numbers of the rows, in the encoding of the model, and their weights in metrics; None if you did not
        give them.
    warnings : tuple
        Warnings about the forest and the rows, such as that the forest was trained on them.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> outputs = rfsize.tree_outputs(forest, X, y, oob=True)
    >>> outputs
    TreeOutputs(569 rows (oob), 2 classes, 100 trees)
    >>> report = rfsize.size(outputs, alpha=0.95)
    >>> len(rfsize.truncate(outputs, alpha=0.95).estimators_) == report.n_trees
    True
    """

    n_rows: int
    n_trees: int
    voted: Votes | None = None
    sums: Sums | None = None
    predictor: Predictor | None = None
    source: str = "rows given"
    groups: Groups = NO_GROUPS
    y: NDArray[Any] | None = None
    sample_weight: Floats | None = None
    warnings: tuple[Caution, ...] = ()
    task: Task | None = None

    @property
    def votes(self) -> Votes:
        """Votes for each class, row by row.

        Raises
        ------
        NotAForestError
            If the forest is for regression: its trees cast no votes.
        """
        if self.voted is None:
            raise NotAForestError(NO_VOTES)
        return self.voted

    @property
    def scores(self) -> Scores | None:
        """Mean and scatter of the trees' scores before the link function; None for `Votes` you counted yourself."""
        return None if self.sums is None else self.sums.scores

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; empty for regression."""
        return self.votes.classes if self.predictor is None else self.predictor.classes

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        what = f"{len(self.classes)} classes" if len(self.classes) else "regression"
        rows = f"{how_many(self.n_rows, 'row')} ({self.source})"
        return f"TreeOutputs({rows}, {what}, {how_many(self.n_trees, 'tree')})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}

    def with_truth(self, y: ArrayLike | None, sample_weight: ArrayLike | None = None) -> TreeOutputs:
        """Add the labels or numbers of the rows, if you know them only after the votes were counted.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
            Labels or numbers in the encoding of the model, for metrics.
        sample_weight : array_like, shape (n_rows,), optional
            Weights of the rows in metrics. They need not be the training weights.

        Returns
        -------
        TreeOutputs
            The same outputs, with ``y`` and the weights; nothing is counted again.

        Raises
        ------
        ValueError
            If ``y`` or the weights do not fit the rows and the classes, or you give weights without ``y``.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> outputs = rfsize.tree_outputs(RandomForestClassifier(100, random_state=0).fit(X, y), X, oob=True)
        >>> weighed = outputs.with_truth(y, sample_weight=X[:, 0])
        >>> rfsize.oob_score(weighed).value != rfsize.oob_score(outputs, y=y).value
        True
        """
        y, weight = checked_truth(self.task, self.classes, self.n_rows, y, sample_weight)
        return self if y is None else replace(self, y=y, sample_weight=weight)

    def by_tree(self) -> NDArray[np.int32]:
        """Return the vote of each tree on each row.

        `StopTable.apply` and `mcnemar_size` take them, of rows that the forest was not trained on, and `banfield_size`,
        also of training rows.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
            Index into the forest's classes, for each tree in order; −1 where the tree was trained on the row or another
            row of its group. In a multiclass forest of K classes, the K trees of one iteration cast one vote.

        Raises
        ------
        ValueError
            If the forest is for regression (`NotAForestError`), or the outputs no longer refer to a model.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> outputs = rfsize.tree_outputs(RandomForestClassifier(50, random_state=0).fit(X, y), X, oob=True)
        >>> by_tree = outputs.by_tree()  # shape (569, 50)
        >>> (by_tree == 1).sum(axis=1).tolist() == outputs.votes.counts[:, 1].tolist()
        True
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return tree_votes(task_of(self))

    def predict(self, fill: Any = None) -> NDArray[Any]:
        """Predict as the model's own ``predict`` does, with the trees that may vote on each row.

        Parameters
        ----------
        fill : scalar, optional
            Prediction for rows that no tree may vote on. By default these rows get NaN; if labels are predicted,
            they cause an error.

        Returns
        -------
        ndarray, shape (n_rows,) or (n_rows, n_classes)
            Labels, probabilities or numbers.

        Raises
        ------
        FewVotesError
            If labels are predicted, no tree may vote on some rows, and you gave no ``fill``.

        Warns
        -----
        ForestWarning
            If some rows have no prediction, or those with a prediction do not represent them.
        """
        output = task_of(self).forest.output
        if output == "labels":
            return self.predict_labels(fill)
        predicted = _predicted(self)
        if output == "class numbers":
            predicted = predictor_of(self).labels(predicted).astype(np.float64)
        elif output != "probabilities" or means_of(self).mean.shape[1] == 1:
            predicted = predicted[:, -1]
        return _filled(self, predicted, fill)

    def predict_labels(self, fill: Any = None) -> NDArray[Any]:
        """Predict labels with the trees that may vote on each row, averaged as the model does.

        Parameters
        ----------
        fill : label, optional
            Label for rows that no tree may vote on. By default such rows cause an error.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels in the encoding of the model.

        Raises
        ------
        FewVotesError
            If no tree may vote on some rows, and you gave no ``fill``.
        NotAForestError
            If the forest is for regression.

        Warns
        -----
        ForestWarning
            If the rows with a label do not represent the others.
        """
        self.votes  # noqa: B018 - regression has none, and says so
        known = means_of(self).is_known, coverage_of_means(self)
        return filled_labels(predictor_of(self), _predicted(self), *known, fill)

    def predict_proba(self, fill: float | None = None) -> Floats:
        """Predict probabilities with the trees that may vote on each row, averaged as the model does.

        Parameters
        ----------
        fill : float, optional
            Probability for rows that no tree may vote on; NaN by default.

        Returns
        -------
        ndarray of float, shape (n_rows, n_classes)
            In the order of the model's classes.

        Raises
        ------
        ValueError
            If the forest is for regression, or the outputs no longer refer to a model.

        Warns
        -----
        ForestWarning
            As in `predict`.
        """
        self.votes  # noqa: B018 - regression has none, and says so
        return _filled(self, _predicted(self), fill)

    def agreement(self, n_trees: int | None = None) -> Floats:
        """For each row, the probability that a forest gives it the label of an unlimited forest.

        Labels are those of ``predict``, by majority vote or averaged scores. Of V trees, k vote for class 1, and f is
        the density of vote fractions over all rows, which T* rests on (or margins, of scores): it is Σ_π f(π)·P(k |
        π)·agreement(T, π) / Σ_π f(π)·P(k | π), with `rfsize.theory.agreement`. The mean over the rows is the agreement
        that `rfsize.size` reports.

        Parameters
        ----------
        n_trees : int, optional
            Size T of the forest; by default as many trees as the model has.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Probabilities; NaN for rows that no tree may vote on, or by averaged scores fewer than two.

        Raises
        ------
        NotAForestError
            If the model is boosted, which has no unlimited forest, or for regression, which has no labels.
        FewVotesError
            If too few trees predicted the rows.

        References
        ----------
        D. Hernández-Lobato, G. Martínez-Muñoz, A. Suárez (2013). "How large should ensembles of classifiers be?"
        Pattern Recognition 46(5), 1323-1336, equations 7 and 8.

        Examples
        --------
        Which rows might get another label from a forest of another seed?

        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> outputs = rfsize.tree_outputs(RandomForestClassifier(100, random_state=0).fit(X, y), X, y, oob=True)
        >>> agreement = outputs.agreement()
        >>> 0 < int((agreement < 0.9).sum()) < 30
        True
        >>> report = rfsize.size(outputs, alpha=0.99)
        >>> bool(abs(agreement.mean() - (1 - report.loss_at(100).value)) < 1e-6)
        True
        """
        return np.asarray(_estimator("labels").agreement_of_rows(self, n_trees))

    def standard_error(self, of: str, bags: Any = None) -> Floats:
        """How far the prediction of each row moves with another seed, or with another training set.

        "seeds": √(v/T), where v is the variance of the trees' scores on the row and T the number of trees of the model.
        "rows": √V by the infinitesimal jackknife, for a forest of unlimited size,

            V = Σᵢ (mᵢ/wᵢ · Cov(Nᵢ, s))² − bias,

        where Nᵢ is whether training row i is in a tree's bag, with the mean mᵢ and the variance wᵢ over trees, and s
        the tree's score; a factor takes off what rows do together. With few trees V of a row is shrunk towards that of
        all rows. Both together are √(v/T + V). Links are taken to first order. The factor was fitted to measured
        variances; on other problems V was 0.7 to 1.6 times the real variance (`benchmarks/agreement.py`).

        Parameters
        ----------
        of : {"seeds", "rows"}
            What is another: the seed, or the training rows.
        bags : ndarray of shape (n_trees, n_training_rows), or TreeOutputs, optional
            Only for "rows" of rows that the forest was not trained on: the bags of its training rows, by
            `rfsize.inbag`, or the out-of-bag outputs of the training rows. Out-of-bag outputs know their own bags.

        Returns
        -------
        ndarray of float, shape (n_rows,) or (n_rows, n_classes)
            In units of the prediction: numbers, or the probabilities of `predict_proba`. NaN for rows that fewer than
            two trees may predict, and for "seeds" of more than 30 million rows for those whose scores are not kept.

        Raises
        ------
        FewVotesError
            If the trees are too few to tell V of all rows together from noise; the message says how many it takes.
        NotAForestError
            If the model is boosted, or the outputs are counted votes, which have no scores.
        ValueError
            If bags are missing, do not fit, or would have no effect, or the outputs no longer refer to a model.

        References
        ----------
        S. Wager, T. Hastie, B. Efron (2014). "Confidence intervals for random forests: the jackknife and the
        infinitesimal jackknife." Journal of Machine Learning Research 15, 1625-1651. S. Wager, S. Athey (2018), JASA
        113(523), 1228-1242: the factor for bags without replacement.

        Examples
        --------
        >>> import numpy as np
        >>> import rfsize
        >>> from sklearn.datasets import make_friedman1
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = make_friedman1(500, noise=1.0, random_state=0)
        >>> forest = RandomForestRegressor(300, random_state=0).fit(X[:300], y[:300])
        >>> outputs = rfsize.tree_outputs(forest, X[300:])
        >>> of_seeds = outputs.standard_error("seeds")
        >>> of_rows = outputs.standard_error("rows", bags=rfsize.inbag(forest, X[:300]))
        >>> bool(of_seeds.mean() < of_rows.mean())
        True
        >>> error = np.hypot(of_seeds, of_rows)  # with another training set and another seed
        """
        return np.asarray(_estimator("sampling_variance").standard_error(self, of, bags))


def _estimator(module: str) -> Any:
    """A module of estimates, which take outputs, so that this module cannot import them."""
    return import_module(f"rfsize.statistics.{module}")


def given_outputs(outputs: TreeOutputs, y: ArrayLike | None, **of_rows: Any) -> TreeOutputs:
    """Outputs in place of a model and rows, with ``y`` if it is given only now.

    Raises
    ------
    ValueError
        If an argument that is about the rows is given too, or ``y`` does not fit.
    """
    refuse_unused("tree outputs already hold their rows", **of_rows)
    return outputs if y is None else outputs.with_truth(y, outputs.sample_weight)


def task_of(outputs: TreeOutputs) -> Task:
    """The forest and the rows, to send these down the trees again; ``ValueError`` if there is no model."""
    if outputs.task is None:
        raise ValueError("outputs of cross-validation, pickled or counted, have no model: give tree_outputs(model, X)")
    return outputs.task


def predictor_of(outputs: TreeOutputs) -> Predictor:
    """Turns mean scores into the forest's predictions; only for outputs that have scores."""
    assert outputs.predictor is not None
    return outputs.predictor


def sums_of(outputs: TreeOutputs) -> Sums:
    """Votes, scores and sums over parts of the forest; only for outputs that have scores."""
    assert outputs.sums is not None
    return outputs.sums


def means_of(outputs: TreeOutputs) -> Means:
    """Mean scores of all rows; may count again."""
    means = sums_of(outputs).means or count(task_of(outputs), means=True).means
    assert means is not None
    return means


def warnings_for(outputs: TreeOutputs, *, of_labels: bool) -> tuple[Caution, ...]:
    """The warnings that matter for a question, which may be about labels only."""
    return tuple(caution for caution in outputs.warnings if not (of_labels and caution.spares_labels))


def why_no_forest(outputs: TreeOutputs) -> str | None:
    """Why the model has no T*, and what to do; None if its trees are independent draws."""
    forest = None if outputs.task is None else outputs.task.forest
    return None if forest is None or isinstance(forest, Forest) else forest.why_no_forest


def voting_of(outputs: TreeOutputs, voting: str) -> str:
    """The rule of voting; "auto" is the rule of the model's own ``predict``, or "hard" if scores are not known."""
    if voting != "auto":
        return voting
    if why_no_forest(outputs) is not None:
        return "soft"
    knows_scores = outputs.scores is not None and bool((outputs.scores.n_votes > 1).any())
    return "soft" if knows_scores and predictor_of(outputs).voting == "soft" else "hard"


def take(outputs: TreeOutputs, rows: Bools) -> TreeOutputs:
    """The outputs on the rows of a mask."""
    return replace(
        outputs,
        n_rows=int(np.count_nonzero(rows)),
        voted=None if outputs.voted is None else outputs.voted.take(rows),
        sums=None if outputs.sums is None else outputs.sums.take(rows),
        groups=outputs.groups.take(rows),
        y=None if outputs.y is None else outputs.y[rows],
        sample_weight=None if outputs.sample_weight is None else outputs.sample_weight[rows],
        task=None,
    )


def distinct(outputs: TreeOutputs) -> TreeOutputs:
    """The rows that sizes count: all rows, or the first row of each group if copies form groups."""
    once = outputs.groups.once
    return outputs if once is None else take(outputs, once)


def coverage(outputs: TreeOutputs) -> Coverage:
    """The number of votes of each row, or of scores for regression."""
    if outputs.voted is not None:
        return _coverage(outputs, outputs.voted.n_votes)
    scores = sums_of(outputs).scores
    return _coverage(outputs, scores.n_votes, scores.number)


def coverage_of_means(outputs: TreeOutputs) -> Coverage:
    """The number of trees that score each row, averaged over its scores."""
    return _coverage(outputs, means_of(outputs).n_votes.mean(axis=1))


def _coverage(outputs: TreeOutputs, n_votes: NDArray[Any], rows: Any = slice(None)) -> Coverage:
    y = None if outputs.y is None else outputs.y[rows]
    is_oob, of_classes = outputs.source == "oob", len(outputs.classes) > 0
    return Coverage(n_votes, outputs.n_trees, outputs.groups.take(rows), is_oob, y, of_classes)


def _predicted(outputs: TreeOutputs) -> Floats:
    """Predictions for all rows; meaningless for rows that no tree may vote on."""
    return predictor_of(outputs).predictions(means_of(outputs).mean)


def _filled(outputs: TreeOutputs, predicted: NDArray[Any], fill: Any) -> NDArray[Any]:
    return filled(predicted, means_of(outputs).is_known, coverage_of_means(outputs), fill)
