"""Models whose trees are no independent draws, or cast no votes."""

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.datasets import make_regression
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import rfsize
from refusals.at_hand import LIGHTGBM, XGBOOST, AtHand
from refusals.entry import Group
from rfsize.exceptions import NotAForestError

GROUP = Group(
    "The model",
    "T*(α) is about trees that are drawn independently of one another and vote alike.",
)
_CORRECTS = "each tree corrects the ones before it: more trees are another model"


@GROUP.refuses(
    "gradient boosting of LightGBM",
    NotAForestError,
    "trained with boosting='gbdt', where each tree corrects the ones before it",
    why=_CORRECTS,
    instead='`boosting="rf"`, with `bagging_fraction` and `bagging_freq`',
)
def boosting_of_lightgbm(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(boosting="gbdt"), at.X_val)


@GROUP.refuses(
    "DART of LightGBM",
    NotAForestError,
    "trained with boosting='dart'",
    why="each tree corrects the ones before it, and their weights change",
    instead='`boosting="rf"`',
)
def dart_of_lightgbm(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(boosting="dart"), at.X_val)


@GROUP.refuses(
    "several rounds of XGBoost",
    NotAForestError,
    "was boosted for 5 rounds, where each round corrects the ones before it",
    why=_CORRECTS,
    instead="one round of `num_parallel_tree` trees; of the classifier, `n_estimators=1`",
)
def rounds_of_xgboost(at: AtHand) -> object:
    return rfsize.size(at.xgboost(n_rounds=5, num_parallel_tree=1), at.X_val)


@GROUP.refuses(
    '`booster="gblinear"` or `"dart"` of XGBoost',
    NotAForestError,
    "trained with booster='gblinear'",
    why="there are no trees, or none that vote alike",
    instead="leave `booster` out",
)
def linear_booster(at: AtHand) -> object:
    linear = xgb.train({"booster": "gblinear", "objective": "binary:logistic"}, xgb.DMatrix(at.X, at.y), 1)
    return rfsize.size(linear, at.X_val)


@GROUP.refuses(
    "gradient boosting of scikit-learn",
    NotAForestError,
    "found a GradientBoostingClassifier, whose members are not independent draws",
    why=_CORRECTS,
    instead="`RandomForestClassifier`, `ExtraTreesClassifier` or `BaggingClassifier`",
)
def boosting_of_sklearn(at: AtHand) -> object:
    return rfsize.size(GradientBoostingClassifier(n_estimators=3).fit(at.X, at.y), at.X_val)


@GROUP.refuses(
    "sizing AdaBoost",
    NotAForestError,
    "the members are not independent draws",
    why="there is no infinite ensemble to agree with",
    instead="`rfsize.compile(model)` stops it without loss; of other members than trees, `StopTable.lossless(weights)`",
)
def sizing_adaboost(at: AtHand) -> object:
    return rfsize.size(AdaBoostClassifier(n_estimators=3).fit(at.X, at.y), at.X_val)


@GROUP.refuses(
    "compiling AdaBoost with another table than its own",
    ValueError,
    "the trees are boosted, and the table is for independent trees",
    why="only a lead that the remaining weight cannot make up is safe",
    instead="leave the table out",
)
def adaboost_with_a_table(at: AtHand) -> object:
    return rfsize.compile(AdaBoostClassifier(n_estimators=3).fit(at.X, at.y), rfsize.StopTable.build(3, alpha=0.9))


@GROUP.refuses(
    "linear trees",
    NotAForestError,
    "the forest has linear trees, whose votes depend on more than the leaf",
    why="rfsize counts votes by leaves",
    instead="`linear_tree=False`",
)
def linear_trees(at: AtHand) -> object:
    data = lgb.Dataset(at.X, at.y, params={"linear_tree": True})
    return rfsize.size(lgb.train(LIGHTGBM | {"linear_tree": True}, data, 5), at.X_val)


@GROUP.refuses(
    "labels of a regression forest",
    NotAForestError,
    "objective is 'regression', whose trees cast no votes",
    why="T*(α) is about labels",
    instead='`metric="scores"` and a `tolerance`',
)
def labels_of_a_regression(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(y=at.X[:, 0], objective="regression"), at.X_val, metric="labels")


@GROUP.refuses(
    "labels of a regression forest of XGBoost or scikit-learn",
    NotAForestError,
    "objective is 'reg:squarederror', whose trees cast no votes",
    why="T*(α) is about labels",
    instead='`metric="scores"` and a `tolerance`',
)
def labels_of_another_regression(at: AtHand) -> object:
    return rfsize.size(at.xgboost(y=at.X[:, 0], objective="reg:squarederror"), at.X_val, metric="labels")


@GROUP.refuses(
    "the majority vote of a regression forest",
    ValueError,
    "voting='hard' decides labels, and the forest predicts numbers",
    why="its trees cast no votes",
    instead="leave `voting` out: a compiled forest then predicts the forest's own numbers",
)
def compiling_a_regression(at: AtHand) -> object:
    return rfsize.compile(RandomForestRegressor(3).fit(*make_regression(50, 4, random_state=0)), voting="hard")


@GROUP.refuses(
    "growing a regression forest by its labels",
    NotAForestError,
    "the trees of a regression forest cast no votes, so that it has no labels to size",
    why="its trees predict numbers",
    instead='`metric="scores"` and a `tolerance`, or a metric',
)
def growing_a_regression(at: AtHand) -> object:
    return rfsize.grow(RandomForestRegressor(3), at.X, at.X[:, 0], alpha=0.99)


@GROUP.refuses(
    "ranking, and objectives of your own",
    NotAForestError,
    "objective is 'cross_entropy_lambda', which rfsize does not read",
    why="nobody knows what such a tree would predict alone",
    instead="`binary`, `cross_entropy`, `multiclass`, `multiclassova`; `binary:logistic`, `multi:softprob`",
)
def other_objectives(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(objective="xentlambda"), at.X_val)


@GROUP.refuses(
    "`binary:logitraw`",
    NotAForestError,
    "the forest's objective is 'binary:logitraw'",
    why="it predicts no probability, by which a tree could vote",
    instead="`binary:logistic`, which grows the same trees",
)
def logitraw(at: AtHand) -> object:
    return rfsize.size(at.xgboost(objective="binary:logitraw"), at.X_val)


@GROUP.refuses(
    "several labels at once",
    NotAForestError,
    "the ensemble predicts several labels at once",
    why="a vote is one label",
    instead="one forest for each, as `sklearn.multioutput.MultiOutputClassifier` trains",
)
def several_labels(at: AtHand) -> object:
    return rfsize.size(RandomForestClassifier(3).fit(at.X, np.stack([at.y, at.three], axis=1)), at.X_val)


@GROUP.refuses(
    "one class only",
    NotAForestError,
    "knows one class only",
    why="there is nothing to vote on",
    instead="rows of two classes or more",
)
def one_class(at: AtHand) -> object:
    return rfsize.size(RandomForestClassifier(3).fit(at.X, np.zeros(400)), at.X_val)


@GROUP.refuses(
    "identical trees",
    NotAForestError,
    "all 10 trees of the forest are identical, because training sampled neither rows nor columns",
    why="they vote alike on every row, so they do not show how another forest would vote",
    instead="`subsample`, `colsample_bynode`; `bagging_fraction`, `feature_fraction`; `bootstrap`, `max_features`",
)
def identical_trees(at: AtHand) -> object:
    return rfsize.size(at.xgboost(subsample=1), at.X_val)


@GROUP.refuses(
    "a single tree, `VotingClassifier`, other estimators",
    NotAForestError,
    "found a VotingClassifier",
    why="its members are not drawn in the same way",
    instead="a random forest, extremely randomised trees, or bagging",
)
def other_estimators(at: AtHand) -> object:
    mixed = VotingClassifier([("tree", DecisionTreeClassifier()), ("neighbours", KNeighborsClassifier())])
    return rfsize.size(mixed.fit(at.X, at.y), at.X_val)


@GROUP.refuses(
    "a pipeline, or a search, around the forest",
    NotAForestError,
    "found a Pipeline; give the fitted model inside",
    why="the rows that the forest sees are those after the other steps",
    instead="`pipeline[-1]` and the rows that the other steps make; `search.best_estimator_`",
)
def a_pipeline(at: AtHand) -> object:
    return rfsize.size(make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(at.X, at.y), at.X_val)


@GROUP.refuses(
    "a class, or an object that is not a model",
    NotAForestError,
    "model is a builtins.dict",
    why="there is nothing to count",
    instead="a trained model",
)
def no_model(at: AtHand) -> object:
    return rfsize.size({"trees": 10}, at.X_val)


@GROUP.refuses(
    "a model without trees",
    NotAForestError,
    "has no trees: train it first",
    why="there is nothing to count",
    instead="train it",
)
def no_trees(at: AtHand) -> object:
    return rfsize.size(lgb.Booster(LIGHTGBM, lgb.Dataset(at.X, at.y)), at.X_val)


@GROUP.refuses(
    "`lgb.cv`'s booster",
    NotAForestError,
    "a CVBooster holds several forests",
    why="they were trained on different rows",
    instead="`rfsize.oob_score(cvbooster, X, y, cv=folds)`, or size each of `cvbooster.boosters`",
)
def cv_booster(at: AtHand) -> object:
    found = lgb.cv(LIGHTGBM, lgb.Dataset(at.X, at.y), 3, nfold=2, return_cvbooster=True)
    return rfsize.size(found["cvbooster"], at.X_val)


@GROUP.refuses(
    "bagged learners whose probabilities do not sum to 1",
    ValueError,
    "predict_proba of a member gives probabilities that sum to 0 on some rows",
    why="the probability of class 1 would not be 1 minus that of class 0",
    instead="a `CalibratedClassifierCV` around the learner",
)
def shares_that_do_not_sum_to_one(at: AtHand) -> object:
    without_neighbours = RadiusNeighborsClassifier(0.01, outlier_label=-1)
    return rfsize.size(BaggingClassifier(without_neighbours, 3).fit(at.X, at.y), at.X_val)


@GROUP.refuses(
    "compiling bagging over other learners than trees",
    NotAForestError,
    "no decision trees but KNeighborsClassifiers, which cannot be compiled",
    why="there are no trees",
    instead="`truncate` it; `StopTable.apply` takes the votes of its trees, `TreeOutputs.by_tree`",
)
def compiling_no_trees(at: AtHand) -> object:
    return rfsize.compile(BaggingClassifier(KNeighborsClassifier(), 3).fit(at.X, at.y))


@GROUP.refuses(
    "compiling a forest with a table that is certified for another",
    ValueError,
    "the table is certified for another forest with as many trees",
    why="the certificate holds for one forest only",
    instead="`StopTable.calibrate(model, X)` with this one",
)
def a_table_of_another_forest(at: AtHand) -> object:
    table = rfsize.StopTable.calibrate(at.model, at.X_val, alpha=0.9)
    return rfsize.compile(at.lightgbm(seed=2), table)


@GROUP.refuses(
    "certifying a table on training rows",
    ValueError,
    "X are the 400 rows that the forest was trained on, and a certificate from training rows",
    why="trees agree on rows that they have seen, and a certificate from them holds on no others",
    instead="rows that it was not trained on",
)
def a_table_of_training_rows(at: AtHand) -> object:
    return rfsize.StopTable.calibrate(at.model, at.X, alpha=0.9)


@GROUP.refuses(
    "compiling an XGBoost forest of categories that are not ASCII",
    NotAForestError,
    "holds categories that are not ASCII, and XGBoost does not say where each of their names ends",
    why="names would be cut in the wrong places",
    instead="categories of ASCII names, or their codes",
    needs=("xgboost", "3.1"),
)
def categories_beyond_ascii(at: AtHand) -> object:
    city = np.where(at.X[:, 0] > 0, "Köln", "Rom")
    return rfsize.compile(at.xgboost(at.frame.assign(a=city).astype({"a": "category"})))


@GROUP.refuses(
    "an XGBoost forest that was trained with a `base_margin`",
    NotAForestError,
    "did not begin at its base_score",
    why="its own `predict` knows nothing of the margin, so every tree would vote for something else",
    instead="`base_score` for a margin that is the same for all rows",
)
def base_margin(at: AtHand) -> object:
    data = xgb.DMatrix(at.X, at.y, base_margin=np.full(400, 1.5))
    return rfsize.tree_outputs(xgb.train(XGBOOST, data, 1), at.X_val)


@GROUP.refuses(
    "`booster[2:3]` of a boosted model",
    NotAForestError,
    "did not begin at its base_score",
    why="its trees correct those of the rounds before",
    instead="one round of `num_parallel_tree` trees",
)
def slice_of_boosting(at: AtHand) -> object:
    return rfsize.tree_outputs(at.xgboost(n_rounds=3, max_depth=0, min_child_weight=0.1)[2:3], at.X_val)


@GROUP.refuses(
    "a boosted LightGBM text that was edited to call itself a forest",
    NotAForestError,
    "says that it is a forest, but its trees have weights",
    why="each tree corrects the ones before it",
    instead='`boosting="rf"`',
)
def relabelled(at: AtHand) -> object:
    boosted = at.lightgbm(boosting="gbdt", learning_rate=0.1).model_to_string()
    text = boosted.replace("\nfeature_names=", "\naverage_output\nfeature_names=", 1)
    return rfsize.tree_outputs(
        lgb.Booster(model_str=text.replace("[boosting: gbdt]", "[boosting: rf]")), at.X_val
    ).votes


@GROUP.refuses(
    "`missing=` for a model that keeps its own",
    ValueError,
    "is only for an xgboost.Booster",
    why="the model has a value already, and yours may differ",
    instead="leave it out; a booster of XGBoost alone does not keep what its `DMatrix` was told",
)
def missing_of_lightgbm(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X_val, missing=0.0).votes
