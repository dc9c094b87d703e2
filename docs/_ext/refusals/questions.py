"""Numbers that are asked for, and cannot be had."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group
from rfsize.exceptions import FewVotesError, NotAForestError

GROUP = Group("What is asked for", "Questions that contradict themselves, or that the trees cannot answer.")


@GROUP.refuses(
    "an α that is no share, such as 1 or 99",
    ValueError,
    "alpha must be a number strictly between 0 and 1, found 99",
    why="only infinitely many trees agree on every row",
    instead="0.99",
)
def alpha(at: AtHand) -> object:
    return rfsize.size(at.model, at.X_val, alpha=99)


@GROUP.refuses(
    "to be less than half sure that a forest in training is large enough",
    ValueError,
    "confidence must be at least 0.5, which asks for T* itself; found 0.3",
    why="such a forest is more likely too small than not",
    instead="0.8",
)
def confidence(at: AtHand) -> object:
    return rfsize.SizeCallback(confidence=0.3)


@GROUP.refuses(
    "a threshold with several classes",
    ValueError,
    "threshold=0.3 is for forests that predict the probability of one class",
    why="each vote is the highest of one score per class",
    instead="leave `threshold` at 0.5",
)
def threshold(at: AtHand) -> object:
    return rfsize.tree_outputs(at.lightgbm(y=at.three, objective="multiclass", num_class=3), at.X_val, threshold=0.3)


@GROUP.refuses(
    "`Votes` beside what only models have",
    ValueError,
    "X would have no effect: counted Votes already hold their rows",
    why="the votes are counted already",
    instead="leave out `X`, `y`, `oob`, `groups`, `max_rows`",
)
def votes_and_rows(at: AtHand) -> object:
    return rfsize.size(rfsize.tree_outputs(at.model, at.X_val).votes, at.X_val)


@GROUP.refuses(
    "tree outputs with rows beside them",
    ValueError,
    "X would have no effect: tree outputs already hold their rows",
    why="the trees were asked already",
    instead="give the rows to `rfsize.tree_outputs`",
)
def counted_and_rows(at: AtHand) -> object:
    return rfsize.size(rfsize.tree_outputs(at.model, at.X_val), at.X_val)


@GROUP.refuses(
    "labels of a regression forest's tree outputs",
    ValueError,
    "a regression forest needs a tolerance",
    why="T* of labels is about votes",
    instead='`metric="scores"` with a tolerance',
)
def labels_of_counted_numbers(at: AtHand) -> object:
    return rfsize.size(rfsize.tree_outputs(at.lightgbm(objective="regression"), at.X_val))


@GROUP.refuses(
    "votes of a regression forest's tree outputs",
    rfsize.exceptions.NotAForestError,
    "the trees of a regression forest cast no votes: take scores",
    why="a stop table counts votes",
    instead="predict with all trees",
)
def prior_of_counted_numbers(at: AtHand) -> object:
    return rfsize.StopTable.build(10, prior=rfsize.tree_outputs(at.lightgbm(objective="regression"), at.X_val))


@GROUP.refuses(
    "averaged scores, or a metric, of `Votes`",
    NotAForestError,
    "needs the trees' scores, and counted Votes have none",
    why="votes are counts of classes",
    instead="the model",
)
def scores_of_votes(at: AtHand) -> object:
    return rfsize.size(rfsize.tree_outputs(at.model, at.X_val).votes, metric="probabilities", tolerance=0.01)


@GROUP.refuses(
    "`Votes` of what is no count",
    ValueError,
    "counts must be whole numbers from 0 to 2147483647; found float64",
    why="shares of votes do not say how many trees there are",
    instead="how many trees voted for each class",
)
def no_counts(at: AtHand) -> object:
    return rfsize.Votes([[0.3, 0.7]])


@GROUP.refuses(
    "`truncate` of `Votes`",
    ValueError,
    "truncate cuts a model, found counted Votes",
    why="there are no trees to cut",
    instead="`truncate(model, n_trees=report)`",
)
def truncate_votes(at: AtHand) -> object:
    return rfsize.truncate(rfsize.tree_outputs(at.model, at.X_val).votes, at.X_val)


@GROUP.refuses(
    "more trees than there are",
    ValueError,
    "n_trees must be a whole number from 1 to 10, found 20",
    why="`truncate` only cuts",
    instead="`rfsize.grow`",
)
def more_trees(at: AtHand) -> object:
    return rfsize.truncate(at.model, n_trees=20)


@GROUP.refuses(
    "`n_trees` beside what sizes a forest",
    ValueError,
    "X would have no effect: n_trees sets the size, and the forest is not sized",
    why="one of the two would have no effect",
    instead="one of them",
)
def n_trees_and_rows(at: AtHand) -> object:
    return rfsize.truncate(at.model, at.X_val, n_trees=5)


@GROUP.refuses(
    "a metric without a tolerance",
    ValueError,
    "metric='probabilities' needs a tolerance",
    why="only infinitely many trees have no deviation",
    instead="`tolerance=0.01`",
)
def no_tolerance(at: AtHand) -> object:
    return rfsize.size(at.model, at.X_val, metric="probabilities")


@GROUP.refuses(
    "a tolerance, or an α, that the metric does not know",
    ValueError,
    "tolerance would have no effect: labels are equal on a share alpha of the rows",
    why="it would have no effect",
    instead="`metric=`, or leave it out",
)
def a_tolerance_of_labels(at: AtHand) -> object:
    return rfsize.size(at.model, at.X_val, tolerance=0.01)


@GROUP.refuses(
    "weights of rows without their truth",
    ValueError,
    "sample_weight would have no effect: it weighs the rows in metrics",
    why="T* of labels is a mean over rows without weights",
    instead="`y` too, or leave it out",
)
def weights_without_truth(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X_val, sample_weight=np.ones(200))


@GROUP.refuses(
    "a threshold of a metric that does not go by labels",
    ValueError,
    "threshold would have no effect: with metric='auc' tolerance says how far off",
    why="a threshold decides labels",
    instead="leave it out, or `metric='accuracy'`",
)
def threshold_of_a_ranking(at: AtHand) -> object:
    return rfsize.SizeCallback(metric="auc", tolerance=0.01, threshold=0.3)


@GROUP.refuses(
    "deviation or metrics of a forest of very few trees",
    FewVotesError,
    "too few",
    why="rfsize compares trees to see how much they differ",
    instead="more trees",
)
def few_trees(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(n_trees=3), at.X_val, at.y[:200]).loss_at(1, "log_loss")


@GROUP.refuses(
    '`loss_at(n, "log_loss")` where no tree gives the true class any probability',
    rfsize.exceptions.UndefinedMetricError,
    "of the rows, no tree asked gives the row's class any probability",
    why="no number of trees is then enough",
    instead="more trees, leaves of several rows, or another metric",
)
def infinite_log_loss(at: AtHand) -> object:
    pure = RandomForestClassifier(40, random_state=0).fit(at.X, at.y)
    return rfsize.size(pure, at.X, 1 - at.y).loss_at(1, "log_loss")


@GROUP.refuses(
    '`loss_at(n, "auc")` of several classes',
    ValueError,
    "metric 'auc' is for two classes, and the forest has 3",
    why="several definitions of it exist for more classes",
    instead="a callable",
)
def auc_of_three(at: AtHand) -> object:
    forest = at.lightgbm(y=at.three, objective="multiclass", num_class=3)
    return rfsize.size(forest, at.X_val, at.three[:200]).loss_at(1, "auc")


@GROUP.refuses(
    "a metric without the truth",
    ValueError,
    "y is missing: metric 'accuracy' needs the truth of the rows",
    why="you gave no labels",
    instead="`y`, to `rfsize.size` or `rfsize.tree_outputs`",
)
def metric_without_truth(at: AtHand) -> object:
    return rfsize.size(rfsize.tree_outputs(at.forest, at.X_val)).loss_at(1, "accuracy")


@GROUP.refuses(
    "labels that the model does not know",
    ValueError,
    "y holds labels that the model does not know: ['yes', 'no']",
    why="they would be counted as wrong",
    instead="the labels of training",
)
def unknown_labels(at: AtHand) -> object:
    return rfsize.size(at.forest, at.X_val, np.where(at.y[:200] > 0, "yes", "no"))


@GROUP.refuses(
    "another number of labels than of rows",
    ValueError,
    "y must hold one label per row of X: 200 expected, 400 found",
    why="labels would be those of other rows",
    instead="one label per row",
)
def other_number_of_labels(at: AtHand) -> object:
    return rfsize.size(at.forest, at.X_val, at.y)


@GROUP.refuses(
    "an older rule for a forest too small for its first step",
    ValueError,
    "found 10 trees, fewer than a batch of",
    why="the rules compare forests of several sizes",
    instead="more trees, or a smaller batch",
)
def rules_of_few_trees(at: AtHand) -> object:
    return rfsize.baselines.banfield_size(rfsize.tree_outputs(at.model, at.X).by_tree(), at.y)


@GROUP.refuses(
    "a page with something else on it",
    ValueError,
    "to_html takes results of rfsize to show on the same page, such as what rfsize.oob_score returns; found a dict",
    why="only results of rfsize can be shown on a page",
    instead="`report.to_html(path, score, table)`",
)
def a_page_of_something_else(at: AtHand) -> object:
    return rfsize.StopTable.build(11).to_html(at.folder / "page.html", {"auc": 0.9})
