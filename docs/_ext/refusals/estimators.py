"""Right-sized estimators, growing, and the search for a bagging fraction."""

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from xgboost import XGBClassifier

import rfsize
import rfsize.dask
from refusals.at_hand import LIGHTGBM, XGBOOST, AtHand
from refusals.entry import Group
from rfsize.exceptions import FewVotesError, NotAForestError

GROUP = Group("Training", "`RightSizedClassifier`, `grow`, `SizeCallback` and `select_bagging_fraction`.")


@GROUP.refuses(
    "a grid over the number of trees of a `RightSizedClassifier`",
    ValueError,
    "would have no effect: the number of trees is what fit finds",
    why="all candidates would be the same forest",
    instead="leave it out of the search; set `alpha`, or `max_trees`",
)
def grid_over_trees(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(RandomForestClassifier(max_depth=3), alpha=0.9)
    grid = {"estimator__n_estimators": [10, 100]}
    return GridSearchCV(sized, grid, cv=2, error_score="raise").fit(at.X, at.y)


@GROUP.refuses(
    "`RightSizedClassifier` of something that is no forest",
    NotAForestError,
    "estimator is a LogisticRegression; give a forest",
    why="it has no number of trees",
    instead="a forest; a pipeline goes around, not inside",
)
def no_forest(at: AtHand) -> object:
    return rfsize.RightSizedClassifier(LogisticRegression()).fit(at.X, at.y)


@GROUP.refuses(
    "`RightSizedClassifier` of a regressor, and the other way round",
    NotAForestError,
    "estimator is a RandomForestRegressor, which predicts numbers",
    why="it would predict the numbers of the classes",
    instead="`RightSizedRegressor`, or a classifier",
)
def classifier_of_a_regressor(at: AtHand) -> object:
    return rfsize.RightSizedClassifier(RandomForestRegressor()).fit(at.X, at.y)


@GROUP.refuses(
    'growing by `metric="scores"` of several classes',
    ValueError,
    "metric='scores' of several classes is not known during training",
    why="training shows scores only up to a number that all classes share",
    instead='`metric="probabilities"`, or `size` and `truncate` of the finished forest',
)
def growing_scores_of_several_classes(at: AtHand) -> object:
    return rfsize.grow(RandomForestClassifier(3), at.X, np.arange(400) % 3, metric="scores", tolerance=0.1)


@GROUP.refuses(
    "an estimator that would boost",
    NotAForestError,
    "would be boosted for 100 rounds",
    why="each round corrects the ones before it",
    instead="`n_estimators=1, num_parallel_tree=…`; of LightGBM `boosting_type='rf'`",
)
def boosting_estimator(at: AtHand) -> object:
    return rfsize.RightSizedClassifier(XGBClassifier(n_estimators=100)).fit(at.X, at.y)


@GROUP.refuses(
    "a `stop_table` of votes with averaged scores",
    ValueError,
    "predicts by the majority vote, and voting='soft' sizes the averaged scores",
    why="it would be sized for one rule and predict by another",
    instead='`stop_table="certified"`, or `voting="auto"`',
)
def table_and_scores(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(RandomForestClassifier(), stop_table="threshold", voting="soft")
    return sized.fit(at.X, at.y)


@GROUP.refuses(
    "weights of which none is above zero",
    ValueError,
    "sample_weight is zero for every row",
    why="there is nothing to train on",
    instead="some weight",
)
def no_weight(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(RandomForestClassifier())
    return sized.fit(at.X, at.y, sample_weight=np.zeros(400))


@GROUP.refuses(
    "cutting a `RightSizedClassifier` that stops by a table",
    ValueError,
    "holds for all of its … trees, and for no fewer",
    why="a table, and its certificate, hold for all trees that they were made for",
    instead="`truncate` the forest inside, `model.estimator_`, and make a table for the smaller one",
)
def cutting_what_stops_by_a_table(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(RandomForestClassifier(max_depth=3), alpha=0.9, stop_table="threshold")
    return rfsize.truncate(sized.fit(at.X, at.y), n_trees=1)


@GROUP.refuses(
    "growing a `RightSizedClassifier`",
    NotAForestError,
    "found a RightSizedClassifier, whose own fit grows its forest",
    why="its own `fit` grows the forest to its own goal",
    instead="`fit` with another `alpha` or `max_trees`; or `grow` the forest inside, `model.estimator_`",
)
def growing_what_grows(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(RandomForestClassifier(max_depth=3), alpha=0.9)
    return rfsize.grow(sized.fit(at.X, at.y), at.X, at.y)


@GROUP.refuses(
    "growing with parameters that boost",
    NotAForestError,
    "boosting",
    why="each tree corrects the ones before it",
    instead='`boosting="rf"`; XGBoost grows one round of parallel trees whatever `num_boost_round` would be',
)
def growing_boosting(at: AtHand) -> object:
    return rfsize.grow({"objective": "binary", "boosting": "gbdt", "verbosity": -1}, lgb.Dataset(at.X, at.y))


@GROUP.refuses(
    "growing to a size that the bags can never tell",
    FewVotesError,
    "of the trees, so",
    why="too few votes to size a forest by",
    instead="a smaller bagging fraction, `validation=`, or more trees",
)
def growing_full_bags(at: AtHand) -> object:
    return rfsize.grow(XGBOOST | {"subsample": 0.999}, xgb.DMatrix(at.X, at.y), max_trees=200)


@GROUP.refuses(
    "labels or weights beside a `Dataset` that holds them",
    ValueError,
    "labels and weights are in the Dataset or DMatrix; y and sample_weight are for an estimator",
    why="they may differ from those in the data",
    instead="leave them out",
)
def labels_twice(at: AtHand) -> object:
    return rfsize.grow(LIGHTGBM, lgb.Dataset(at.X, at.y), at.y)


@GROUP.refuses(
    "growing an estimator on Dask's workers",
    ValueError,
    "params is a LGBMClassifier; workers train from the parameters of a booster",
    why="workers return boosters",
    instead="the parameters of a booster, or `rfsize.grow` in one process",
)
def growing_an_estimator_on_workers(at: AtHand) -> object:
    return rfsize.dask.grow(None, LGBMClassifier(boosting_type="rf"), at.X, at.y)


@GROUP.refuses(
    "growing on workers from parameters of no framework",
    ValueError,
    "the parameters fit no framework",
    why="the rows do not show which framework you mean",
    instead="LightGBM's `boosting=\"rf\"`, or XGBoost's `subsample`",
)
def growing_on_workers_without_a_framework(at: AtHand) -> object:
    return rfsize.dask.grow(None, {"objective": "binary"}, at.X, at.y)


@GROUP.refuses(
    "growing on workers without a client",
    ValueError,
    "client is a builtins.NoneType; give the distributed.Client",
    why="without a client there are no workers",
    instead="`distributed.Client()`, or `rfsize.grow` in one process",
    needs=("distributed",),
)
def growing_without_a_client(at: AtHand) -> object:
    return rfsize.dask.grow(None, LIGHTGBM, at.X, at.y)


@GROUP.refuses(
    "growing an estimator without labels",
    ValueError,
    "y is missing: an estimator is grown from X and y",
    why="it is fitted",
    instead="`grow(estimator, X, y)`",
)
def growing_without_labels(at: AtHand) -> object:
    return rfsize.grow(LGBMClassifier(boosting_type="rf"), at.X)


@GROUP.refuses(
    "`SizeCallback` in a training that goes on from `init_model`",
    NotAForestError,
    "SizeCallback must see a forest from its first tree",
    why="the first trees' votes are not seen again",
    instead="`rfsize.grow(…, init_model=…)`",
)
def callback_of_more_trees(at: AtHand) -> object:
    callback = rfsize.SizeCallback(alpha=0.9)
    data = lgb.Dataset(at.X, at.y, free_raw_data=False)
    boosted = lgb.train({"objective": "binary", "verbosity": -1}, data, 2)
    return lgb.train({"objective": "binary", "verbosity": -1}, data, 5, init_model=boosted, callbacks=[callback])


@GROUP.refuses(
    "`SizeCallback` where a class is rare, and the `Dataset` did not keep its rows",
    ValueError,
    "the votes of single trees cannot be read from LightGBM's rounded predictions",
    why="LightGBM gives a callback probabilities, which round to 1 there",
    instead="`free_raw_data=False`; `grow` sees to it",
)
def callback_of_a_rare_class(at: AtHand) -> object:
    rare, params = np.arange(400) < 6, LIGHTGBM | {"num_leaves": 63, "min_data_in_leaf": 1}
    return lgb.train(params, lgb.Dataset(at.X, rare), 200, callbacks=[rfsize.SizeCallback(alpha=0.9)])


@GROUP.refuses(
    "growing a regression forest of LightGBM or XGBoost by its labels",
    NotAForestError,
    "the trees of a regression forest cast no votes, so that it has no labels to size",
    why="it has none",
    instead='`metric="scores"` and a `tolerance`, or a metric',
)
def growing_a_regression(at: AtHand) -> object:
    return rfsize.grow(LIGHTGBM | {"objective": "regression"}, lgb.Dataset(at.X, at.X[:, 0]), alpha=0.99)


@GROUP.refuses(
    "`select_bagging_fraction` of an estimator without labels",
    ValueError,
    "y is missing: an estimator is trained on X and y, as it is fitted",
    why="there is nothing to train on",
    instead="`select_bagging_fraction(estimator, X, y)`",
)
def fraction_of_an_estimator(at: AtHand) -> object:
    return rfsize.select_bagging_fraction(RandomForestClassifier(), at.X)


@GROUP.refuses(
    "a metric where a scorer is asked for",
    ValueError,
    "which takes labels and predictions; a scorer takes (estimator, X, y)",
    why="labels would be taken for an estimator",
    instead="`make_scorer(metric)`",
)
def a_metric(at: AtHand) -> object:
    data = lgb.Dataset(at.X, at.y)
    return rfsize.select_bagging_fraction(LIGHTGBM, data, fractions=[0.4, 0.6], n_trees=10, metric=accuracy_score)


@GROUP.refuses(
    "a fraction twice, or none",
    ValueError,
    "fractions holds a fraction twice",
    why="a fraction cannot be compared with itself",
    instead="give each once",
)
def fractions(at: AtHand) -> object:
    return rfsize.select_bagging_fraction(LIGHTGBM, lgb.Dataset(at.X, at.y), fractions=[0.5, 0.5], n_trees=10)


@GROUP.refuses(
    "an α of a `RightSizedClassifier` that goes by a metric",
    ValueError,
    "alpha would have no effect: with metric='auc' tolerance says how far off",
    why="α is a share of labels",
    instead="`tolerance` alone; the same of `voting` and `average`",
)
def alpha_of_a_metric(at: AtHand) -> object:
    forest = RandomForestClassifier(max_depth=3)
    return rfsize.RightSizedClassifier(forest, alpha=0.9, metric="auc", tolerance=0.01).fit(at.X, at.y)


@GROUP.refuses(
    "`calibration_fraction` where no rows are held out",
    ValueError,
    "calibration_fraction would have no effect: stop_table=None holds out no rows",
    why="only a certified table takes rows of its own",
    instead='leave it out, or `stop_table="certified"`',
)
def calibration_without_a_table(at: AtHand) -> object:
    return rfsize.RightSizedClassifier(RandomForestClassifier(), calibration_fraction=0.3).fit(at.X, at.y)


@GROUP.refuses(
    "cross-validation beside out-of-bag votes",
    ValueError,
    "oob would have no effect: with cv, forests vote on rows that they were not trained on",
    why="one of the two would be ignored; the same of `seed`, `subsample`, `missing` and `max_memory`",
    instead="one of them",
)
def two_ways_of_asking(at: AtHand) -> object:
    return rfsize.tree_outputs(RandomForestClassifier(), at.X, at.y, cv=3, oob=True)


@GROUP.refuses(
    "cross-validation of a trained booster",
    NotAForestError,
    "cv trains a forest for each fold, and rfsize cannot train a Booster",
    why="its trees have seen all rows, or nobody knows which",
    instead="an estimator, or parameters with a `Dataset` or `DMatrix`",
)
def folds_of_a_booster(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X, at.y, cv=3)


@GROUP.refuses(
    "cross-validation of parameters that name no number of trees",
    ValueError,
    "the forest of each fold needs a number of trees: set num_iterations",
    why="the framework's default is not your choice",
    instead="`num_iterations`, or of XGBoost `num_parallel_tree`",
)
def folds_of_no_number_of_trees(at: AtHand) -> object:
    return rfsize.tree_outputs(LIGHTGBM, lgb.Dataset(at.X, at.y), cv=3)


@GROUP.refuses(
    "folds that share rows",
    ValueError,
    "cv must hold out each row at most once, and must not train on the rows that it holds out",
    why="a row would vote on itself",
    instead="folds as scikit-learn's splitters make them",
)
def folds(at: AtHand) -> object:
    folds = [(np.arange(300), np.arange(200, 400))]
    return rfsize.tree_outputs(RandomForestClassifier(), at.X, at.y, cv=folds)


@GROUP.refuses(
    "folds that part rows which belong together",
    ValueError,
    "cv holds out rows, and trains their forest on others of the same group",
    why="a tree that saw one row of a group knows the answer of the others",
    instead="a splitter that keeps groups together, or `cv=5`, which does",
)
def folds_through_groups(at: AtHand) -> object:
    folds = [(np.arange(200), np.arange(200, 400))]
    return rfsize.tree_outputs(RandomForestClassifier(), at.X, at.y, cv=folds, groups=np.arange(400) % 50)


@GROUP.refuses(
    "a stop table for members that are no trees",
    NotAForestError,
    "needs a compiled forest, but KNeighborsClassifiers are no decision trees",
    why="such an ensemble cannot be compiled",
    instead="`stop_table=None`",
)
def table_of_no_trees(at: AtHand) -> object:
    sized = rfsize.RightSizedClassifier(BaggingClassifier(KNeighborsClassifier()), stop_table="threshold")
    return sized.fit(at.X, at.y)
