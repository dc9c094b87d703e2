"""Out-of-bag predictions and scores that cannot be had."""

import numpy as np
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group
from rfsize.exceptions import FewVotesError, NotAForestError

GROUP = Group(
    "Out-of-bag predictions and scores",
    "`oob_predict`, `oob_predict_proba` and `oob_score` go by the trees that did not see the row, and need what "
    "`oob=True` needs.",
)


@GROUP.refuses(
    "labels of rows that every tree saw",
    FewVotesError,
    "every tree saw them or a row of their group. They have no label: choose one by fill=",
    why="any label would be made up",
    instead="`fill=` with a label for them; or `oob_predict_proba`, which is NaN there",
)
def labels_of_all_rows(at: AtHand) -> object:
    return rfsize.oob_predict(RandomForestClassifier(2, random_state=0).fit(at.X, at.y), at.X)


@GROUP.refuses(
    "probabilities of a regression forest",
    ValueError,
    "a regression forest predicts no probabilities",
    why="it predicts numbers",
    instead="`oob_predict`",
)
def probabilities_of_numbers(at: AtHand) -> object:
    return rfsize.oob_predict_proba(at.lightgbm(y=at.X[:, 0], objective="regression"), at.X)


@GROUP.refuses(
    "the out-of-bag score of folds, of learners other than trees",
    NotAForestError,
    "nothing proves which folds these models were trained on",
    why="wrong folds would give a better score without a word",
    instead="`oob_score` of each model with its own training rows",
)
def folds_of_other_members(at: AtHand) -> object:
    folds = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]
    models = [BaggingClassifier(KNeighborsClassifier()).fit(at.X[rows], at.y[rows]) for rows, _ in folds]
    return rfsize.oob_score(models, at.X, at.y, cv=folds)


@GROUP.refuses(
    "the out-of-bag score of rows that are not those of training",
    ValueError,
    "these outputs are of rows given, and an out-of-bag score takes the training rows",
    why="nobody knows which of the trees saw them",
    instead="`rfsize.tree_outputs(model, X, y, oob=True)` with the training rows; or the model's own `predict`",
)
def score_of_rows_given(at: AtHand) -> object:
    return rfsize.oob_score(rfsize.tree_outputs(at.model, at.X_val, at.y[:200]))


@GROUP.refuses(
    "rows beside tree outputs",
    ValueError,
    "X would have no effect: tree outputs already hold their rows",
    why="the trees were asked already",
    instead="`rfsize.tree_outputs` of these rows",
)
def rows_beside_outputs(at: AtHand) -> object:
    return rfsize.oob_score(rfsize.tree_outputs(at.model, at.X, at.y, oob=True), at.X)


@GROUP.refuses(
    "a score without the truth",
    ValueError,
    "y is missing: a score needs the truth of the training rows",
    why="there is nothing to compare predictions with",
    instead="`y`, to `oob_score` or to `tree_outputs`",
)
def score_without_truth(at: AtHand) -> object:
    return rfsize.oob_score(at.model, at.X)


@GROUP.refuses(
    "the logarithmic loss of rows whose class no tree gives any probability",
    rfsize.exceptions.UndefinedMetricError,
    "of the rows, no tree asked gives the row's class any probability",
    why="a constant put in place of 0 would decide the score",
    instead="`'brier'`, `'auc'` or `'accuracy'`; or trees whose leaves hold more rows",
)
def infinite_loss(at: AtHand) -> object:
    return rfsize.oob_score(RandomForestClassifier(30, random_state=0).fit(at.X, at.y), at.X, at.y, metric="log_loss")


@GROUP.refuses(
    "a score of a few votes a row",
    FewVotesError,
    "votes per row, from 15 trees, are too few to tell the accuracy on fresh rows; it takes at least 10: train at",
    why="too few votes to extrapolate to all trees: intervals would miss the truth too often",
    instead="as many trees as the message says",
)
def score_of_few_votes(at: AtHand) -> object:
    return rfsize.oob_score(RandomForestClassifier(15, random_state=0).fit(at.X, at.y), at.X, at.y)


@GROUP.refuses(
    "scores and sizes by bags that were drawn by weight, where rows of a class have hardly a vote",
    FewVotesError,
    "rows of class 1 have 0.…: the bags were not drawn evenly, as with class_weight='balanced'",
    why="scikit-learn from 1.9 on draws rows by `class_weight` and `sample_weight`: rare rows are in every bag, and "
    "votes on others do not speak for them",
    instead='`class_weight="balanced_subsample"`, smaller bags (`max_samples`), more trees, or validation rows',
    needs=("sklearn", "1.9"),
)
def score_of_weighted_bags(at: AtHand) -> object:
    rare = (at.X[:, 0] > 1.6).astype(int)
    forest = RandomForestClassifier(50, class_weight="balanced", random_state=0).fit(at.X, rare)
    return rfsize.oob_score(forest, at.X, rare)


@GROUP.refuses(
    "the logarithmic loss where a row's class hangs on one or two trees; `size` the same",
    rfsize.exceptions.UndefinedMetricError,
    "the log loss may be infinite on other rows",
    why="a fresh row whose class no tree gives any probability makes it infinite, and no interval tells of that",
    instead="`'brier'`; or trees whose leaves hold more rows (`min_samples_leaf`)",
)
def hanging_loss(at: AtHand) -> object:
    forest = RandomForestClassifier(100, random_state=0).fit(at.X, at.y)
    return rfsize.oob_score(forest, at.X, at.y, metric="neg_log_loss")


@GROUP.refuses(
    "a score of rows that are all of one group",
    FewVotesError,
    "all rows outside the bags of the trees are of one group",
    why="the interval is computed from differences between groups",
    instead="more groups; or validation rows",
)
def score_of_one_group(at: AtHand) -> object:
    forest = RandomForestClassifier(1, max_samples=2, random_state=2).fit(at.X, at.y)
    seen = rfsize.inbag(forest, at.X).any(axis=0)
    return rfsize.oob_score(forest, at.X, at.y, groups=seen.astype(np.int64))


@GROUP.refuses(
    "R² of numbers that are all the same",
    ValueError,
    "compares with the variance of y, and y is the same on all rows",
    why="the variance is 0",
    instead="`metric='rmse'`",
)
def explained_of_a_constant(at: AtHand) -> object:
    forest = at.lightgbm(y=at.X[:, 0], n_trees=40, objective="regression")
    return rfsize.oob_score(rfsize.tree_outputs(forest, at.X, oob=True), y=np.ones(400))
