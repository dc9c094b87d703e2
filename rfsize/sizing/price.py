"""What a forest of so many trees costs against the infinite one, whatever its size was asked for.

The share of labels that still change says little where a class is rare, and nothing of a ranking. So every report
tells beside it how far off the probabilities are, and what the metrics lose that such forests are judged by.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rfsize.counting.tree_outputs import TreeOutputs
from rfsize.errors import FewVotesError, UndefinedMetricError
from rfsize.estimation.deviation import Deviations
from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.reporting.result import Result
from rfsize.reporting.words import most_changed, sentence
from rfsize.sizing.chances import chances_in_blocks
from rfsize.sizing.goal import LabelGoal
from rfsize.sizing.loss import MetricLoss, metric_loss
from rfsize.sizing.named_metrics import judge_of, predictions_for
from rfsize.sizing.plots import draw_by_class, plot_by_class
from rfsize.sizing.voting_rule import VotingRule, rules_of
from rfsize.sizing.words import in_percent
from rfsize.utils.words import how_many, printable
from rfsize.voting.blocks import TreeBlocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 10_000  # on which metrics are priced at most, unless a report is of the metric
_CLASSES_SAID = 3  # of many classes, those whose labels change most


@dataclass(frozen=True)
class Price(Result):
    """What a forest is expected to cost against the infinite one.

    Attributes
    ----------
    n_trees : int
        Its trees.
    labels : float or None
        Share of the rows whose label still changes, by the rule that the model's own ``predict`` goes by; None of
        regression.
    by_class : dict of class label to float, or None
        The same of the rows that the infinite forest gives each class.
    rms : float or None
        Root mean square, over rows and forests, of what probabilities are off by (of a row, that of the class which is
        off most), of regression the predictions; None where only votes are known.
    metrics : dict of str to float
        How much worse the logarithmic loss ("logloss") and the area under the ROC curve ("auc") are expected to be, of
        regression the root mean square error ("rmse"), as `MetricReport.loss_at` tells it. Only where ``y`` is known,
        and trees are enough to tell. The Brier score ("brier") takes the place of a logarithmic loss that may be
        infinite because leaves hold rows of some classes only.
    at_most : tuple of str
        Those of these metrics that lose too little to be told from nothing: they may be worse by that much (95 %).

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> print(rfsize.size(forest, X, oob=True, alpha=0.95).price(25))
    price of 25 trees: 1...% of the labels still change (0: ...%, 1: ...%), probabilities are off by ...
    """

    n_trees: int
    labels: float | None
    by_class: dict[Any, float] | None
    rms: float | None
    metrics: dict[str, float]
    at_most: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values that ``json`` can write."""
        by_class = None if self.by_class is None else {str(of): changed for of, changed in self.by_class.items()}
        return {**asdict(self), "by_class": by_class, "at_most": list(self.at_most)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of labels that still change, by class.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            If it is the price of a regression forest, which gives no labels.

        Examples
        --------
        >>> import rfsize
        >>> votes = rfsize.Votes([[3, 97], [20, 80], [45, 55], [98, 2]] * 100)
        >>> ax = rfsize.size(votes, alpha=0.95).price(25).plot()
        >>> ax.get_title()
        'Labels that still change with 25 trees'
        """
        if self.labels is None or not self.by_class:
            raise ValueError(
                "this is the price of a forest that predicts numbers, and has no labels to draw by class: its numbers "
                "are rms and metrics, and report.plot() draws how forests of any size fare"
            )
        return plot_by_class(self.by_class, self.labels, self.n_trees, ax)

    def _account(self) -> Account:
        changed, pictures = self.by_class or {}, []
        if len(changed) > 1:
            draw = partial(draw_by_class, changed, self.labels, self.n_trees)
            pictures.append(Picture("Share of labels that still change, by class", draw))
        return Account(
            title="Price of a forest against the infinite one",
            verdict=sentence(str(self)),
            figures=price_figures(self),
            sections=(Section("", pictures=tuple(pictures), grids=grids_by_class(self, {})),),
        )

    def __str__(self) -> str:
        said = []
        if self.labels is not None:
            said.append(f"{in_percent(self.labels)} of the labels still change{self._of_classes()}")
        if self.rms is not None:
            what = "predictions" if self.labels is None else "probabilities"
            said.append(f"{what} are off by {self.rms:.2g} (root mean square)")
        if self.metrics:
            losses = " and ".join(f"{name} by {self.lost(name)}" for name in self.metrics)
            said.append(f"{losses} worse")
        return f"price of {how_many(self.n_trees, 'tree')}: {', '.join(said)}"

    __repr__ = __str__

    def lost(self, metric: str) -> str:
        """How much worse a metric is expected to be, in words."""
        return f"{'at most ' if metric in self.at_most else ''}{self.metrics[metric]:.2g}"

    def _of_classes(self) -> str:
        changed = {} if self.by_class is None else self.by_class
        if not len(changed) > 1:
            return ""
        most = sorted(changed, key=lambda of: -changed[of])[:_CLASSES_SAID]
        shown = changed if len(changed) <= _CLASSES_SAID else most
        return f" ({', '.join(f'{printable(of)}: {in_percent(changed[of])}' for of in shown)})"


def price_figures(price: Price) -> tuple[Figure, ...]:
    """Its numbers, large."""
    of, found = f"with {how_many(price.n_trees, 'tree')}", []
    if price.labels is not None:
        found.append(Figure("labels that still change", in_percent(price.labels), of))
    if price.rms is not None:
        what = "predictions off by" if price.labels is None else "probabilities off by"
        found.append(Figure(what, f"{price.rms:.2g}", of))
    return (*found, *(Figure(f"{name}, worse by", price.lost(name), of) for name in price.metrics))


def grids_by_class(price: Price, shares: dict[Any, float]) -> tuple[Grid, ...]:
    """Labels that still change by class, where there are several, with the ``shares`` of the rows where known."""
    changed = price.by_class or {}
    if len(changed) < 2:
        return ()
    most, title = most_changed(changed, lambda of: changed[of])
    rows = tuple((printable(of), *([in_percent(shares[of])] if shares else []), in_percent(changed[of])) for of in most)
    changing = f"labels that still change with {how_many(price.n_trees, 'tree')}"
    heads = ("class", *(["share of the rows"] if shares else []), changing)
    return (Grid(heads, rows, title=title.capitalize()),)


@dataclass(eq=False)
class Pricing:
    """Prices of forests of any size, estimated when they are asked for.

    Attributes
    ----------
    outputs : TreeOutputs or None
        What the trees say; None after a pickle, which keeps the prices that are known.
    of_labels : VotingRule or None
        Labels by the rule of voting that ``predict`` goes by, where they are estimated already.
    of_metric : dict of str to MetricLoss
        What `losses` has of a metric, where that is estimated already.
    """

    outputs: TreeOutputs | None
    of_labels: VotingRule | None = None
    of_metric: dict[str, MetricLoss] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[int, Price] = {}

    def at(self, n_trees: int) -> Price:
        """The price of so many trees."""
        if n_trees not in self._known:
            if self.outputs is None:
                raise ValueError(
                    "this report was pickled, and knows the price of no other sizes than "
                    f"{', '.join(map(str, self._known))}: size the model again"
                )
            self._known[n_trees] = self._estimated(n_trees)
        return self._known[n_trees]

    def _estimated(self, n_trees: int) -> Price:
        assert self.outputs is not None
        labels = by_class = None
        if self.rule is not None:
            labels = self.rule.estimate("micro").disagreement(n_trees)
            names = self.outputs.classes.tolist()
            found = self.rule.of_classes.disagreement_of_each(n_trees)
            by_class = {names[of]: changed for of, changed in found.items()}
        rms = None if self._deviations is None else self._deviations.at(n_trees).rms
        metrics = {name: float(found.loss(n_trees)) for name, found in self.losses.items()}
        at_most = tuple(name for name, found in self.losses.items() if not found.is_told)
        return Price(n_trees, labels, by_class, rms, metrics, at_most)

    @cached_property
    def rule(self) -> VotingRule | None:
        """Labels by the rule of voting that ``predict`` goes by; None of regression."""
        assert self.outputs is not None
        voted = self.outputs.voted
        if voted is None or self.of_labels is not None or not voted.asked.any():
            return self.of_labels
        goal = LabelGoal()
        return rules_of(self.outputs, goal, both=False)[self.outputs.voting(goal.voting)]

    @cached_property
    def _deviations(self) -> Deviations | None:
        assert self.outputs is not None
        scores, link = self.outputs.scores, self.outputs.link
        if scores is None or link is None or not scores.are_finite() or not (scores.asked > 1).any():
            return None
        return Deviations(scores.take(scores.asked > 1), link)

    @cached_property
    def losses(self) -> dict[str, MetricLoss]:
        """What each metric that can be told loses for want of trees."""
        outputs = self.outputs
        assert outputs is not None
        scores = outputs.scores
        if (
            outputs.y is None
            or outputs.link is None
            or outputs.blocks is None
            or scores is None
            or not scores.are_finite()
        ):
            return {}
        found, step = {}, -(-len(outputs.blocks.rows) // _ROWS)
        blocks = outputs.blocks.where(np.arange(len(outputs.blocks.rows)) % max(step, 1) == 0)
        for name in self._metrics(outputs, blocks):
            try:
                if name not in self.of_metric:
                    judge = judge_of(name, outputs)
                    predicted = predictions_for(outputs, judge)
                    self.of_metric[name] = metric_loss(blocks, judge, predicted, outputs.units)
                found[name] = self.of_metric[name]
            except (FewVotesError, UndefinedMetricError):
                continue
        return found

    @staticmethod
    def _metrics(outputs: TreeOutputs, blocks: TreeBlocks) -> tuple[str, ...]:
        """What a forest of so many classes is judged by."""
        if not len(outputs.classes):
            return ("rmse",)
        judge = judge_of("logloss", outputs)
        of_probabilities = "logloss" if chances_in_blocks(judge, blocks).doubt(judge.name) is None else "brier"
        return (of_probabilities, "auc") if len(outputs.classes) == 2 else (of_probabilities,)

    def mean_probabilities(self) -> np.ndarray[Any, Any] | None:
        """Mean over the rows of the probability of each class, shape (n_classes,); None where they are not known."""
        outputs = self.outputs
        if outputs is None or outputs.voted is None or outputs.scores is None or outputs.link is None:
            return None
        asked = outputs.scores.asked > 0
        return np.asarray(outputs.predictor.predictions(outputs.scores.mean[asked]).mean(axis=0))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(Pricing(None)), "_known": self._known}
