"""Bags that cannot be rebuilt, or that leave no row out."""

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier

import rfsize
from refusals.at_hand import LIGHTGBM, AtHand
from refusals.entry import Group
from rfsize.exceptions import FewVotesError, InbagError

GROUP = Group(
    "Out-of-bag votes",
    "With `oob=True`, and wherever forests are grown, the rows of each bag are rebuilt and proven against what the "
    "model keeps of them. What cannot be proven is not counted. Validation rows do without, and so does "
    "`rfsize.tree_outputs(estimator, X, y, cv=5)`.",
)
_VALIDATION = "validation rows, and `oob=False`"


@GROUP.refuses(
    "rows in another order than at training",
    InbagError,
    "does not match the leaf counts that LightGBM stored",
    why="other rows would be taken for out of bag",
    instead="the rows in the order of training",
)
def shuffled(at: AtHand) -> object:
    return rfsize.size(at.model, at.X[::-1], oob=True)


@GROUP.refuses(
    "other rows than at training",
    InbagError,
    "could not be proven",
    why="nobody knows which of them a tree saw",
    instead=_VALIDATION,
)
def other_rows(at: AtHand) -> object:
    return rfsize.size(at.booster, np.concatenate([at.X_val, at.X_val]), oob=True)


@GROUP.refuses(
    "some of the training rows",
    InbagError,
    "X has 300 rows, and the bags rebuilt for them do not have the sizes that LightGBM stored",
    why="the bags depend on how many rows there are",
    instead="all training rows",
)
def some_rows(at: AtHand) -> object:
    return rfsize.size(at.model, at.X[:300], oob=True)


@GROUP.refuses(
    "the same with scikit-learn",
    InbagError,
    "the ensemble was trained on 400 rows, but X has 300",
    why="the bags depend on how many rows there are",
    instead="all training rows",
)
def some_rows_of_sklearn(at: AtHand) -> object:
    return rfsize.size(at.forest, at.X[:300], oob=True)


@GROUP.refuses(
    "a forest without bagging",
    InbagError,
    "the forest was trained without bagging",
    why="every tree saw every row",
    instead="`bagging_fraction=0.632, bagging_freq=1`; or validation rows",
)
def no_bagging(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(bagging_fraction=1.0, bagging_freq=0, feature_fraction=0.5), at.X, oob=True)


@GROUP.refuses(
    "extra-trees, whose members see all rows by default",
    InbagError,
    "every member was trained on all rows",
    why="no row is out of bag",
    instead="`bootstrap=True`; or validation rows",
)
def extra_trees(at: AtHand) -> object:
    return rfsize.size(ExtraTreesClassifier(5, max_depth=3).fit(at.X, at.y), at.X, oob=True)


@GROUP.refuses(
    "bagging of scikit-learn that grew by `warm_start`",
    InbagError,
    "scikit-learn stored the samples of only 2 of the 5 members",
    why="it forgets the samples of the others",
    instead="`rfsize.grow`, which keeps them; or validation rows",
)
def warm_start(at: AtHand) -> object:
    bagging = BaggingClassifier(n_estimators=3, warm_start=True, random_state=0).fit(at.X, at.y)
    return rfsize.size(bagging.set_params(n_estimators=5).fit(at.X, at.y), at.X, oob=True)


@GROUP.refuses(
    "GOSS",
    InbagError,
    "rows were sampled by gradient (GOSS) (data_sample_strategy=goss)",
    why="the rows of a bag depend on their gradients",
    instead="bagging; or validation rows",
)
def goss(at: AtHand) -> object:
    forest = at.lightgbm(data_sample_strategy="goss", bagging_freq=0, feature_fraction=0.5)
    return rfsize.size(forest, at.X, oob=True)


@GROUP.refuses(
    "`bagging_by_query`, and forests of several machines whose rows lay nobody knows where",
    InbagError,
    "the forest was trained by several machines",
    why="the bags depend on where the rows lay",
    instead="`rfsize.dask.rows(X, layout=...)`; or validation rows, and `oob=False`",
)
def several_machines(at: AtHand) -> object:
    text = at.model.model_to_string().replace("[tree_learner: serial]", "[tree_learner: data]")
    return rfsize.size(type(at.model)(model_str=text), at.X, oob=True)


@GROUP.refuses(
    "a layout of rows that is not that of the training",
    InbagError,
    "the in-bag rows could not be proven",
    why="each worker draws bags by the numbers that rows have there",
    instead="the `DaskDMatrix` of the training, or its `layout`",
    needs=("distributed",),
)
def other_layout(at: AtHand) -> object:
    return _on_workers(at, at.booster, layout=[[1], [0]])


@GROUP.refuses(
    "`layout` of a forest of LightGBM that one machine trained",
    InbagError,
    "one machine trained the forest, and layout names 2",
    why="its bags were drawn from all rows in their order",
    instead="no `layout`",
    needs=("distributed",),
)
def layout_of_one_machine(at: AtHand) -> object:
    return _on_workers(at, at.model, layout=[[0], [1]])


@GROUP.refuses(
    "a `layout` that leaves out a partition",
    ValueError,
    "Each of the 2 partitions must be named once",
    why="the bags depend on where every row lay",
    instead="the numbers of all partitions, in a list for each worker",
    needs=("distributed",),
)
def part_of_layout(at: AtHand) -> object:
    return _on_workers(at, at.booster, layout=[[0]])


@GROUP.refuses(
    "out-of-bag votes of scikit-learn's forests on Dask's workers",
    InbagError,
    "rfsize does not know which rows each worker of scikit-learn trains on",
    why="its training rows were in memory",
    instead="`rfsize` itself, with the rows in memory",
    needs=("distributed",),
)
def forest_of_scikit_learn_on_workers(at: AtHand) -> object:
    return _on_workers(at, at.forest)


def _on_workers(at: AtHand, model: object, layout: list[list[int]] | None = None) -> object:
    import dask.array as da
    from distributed import Client

    import rfsize.dask

    with Client(processes=False, dashboard_address=None) as client:
        X = da.from_array(at.X, chunks=(200, -1))
        return rfsize.tree_outputs(model, rfsize.dask.rows(X, layout=layout, client=client), oob=True)


@GROUP.refuses(
    "`SizeCallback` where several machines train one forest, as in `lightgbm.dask`",
    ValueError,
    "machines train this forest together",
    why="one that stops leaves the others waiting",
    instead="`rfsize.dask.grow`; or `rfsize.size` afterwards",
)
def callback_on_several_machines(at: AtHand) -> object:
    params = LIGHTGBM | {"tree_learner": "data", "num_machines": 2}
    return lgb.train(params, lgb.Dataset(at.X, at.y), 20, callbacks=[rfsize.SizeCallback()])


@GROUP.refuses(
    "balanced bagging without labels",
    InbagError,
    "so the bags depend on the labels: give y",
    why="each class is sampled with a fraction of its own",
    instead="`y`",
)
def balanced(at: AtHand) -> object:
    return rfsize.size(at.lightgbm(pos_bagging_fraction=0.5, neg_bagging_fraction=0.7), at.X, oob=True)


@GROUP.refuses(
    "XGBoost's `scale_pos_weight` without labels",
    InbagError,
    "so the proof of its bags needs the labels: give y",
    why="the sums that prove the bags are weighed by class",
    instead="`y`",
)
def scale_pos_weight(at: AtHand) -> object:
    return rfsize.size(at.xgboost(scale_pos_weight=2.0), at.X, oob=True)


@GROUP.refuses(
    '`tree_method="approx"`',
    InbagError,
    "gives all parallel trees the same bag",
    why="a row is out of bag for all trees or for none",
    instead='`tree_method="hist"`',
)
def approx(at: AtHand) -> object:
    return rfsize.size(at.xgboost(tree_method="approx"), at.X, oob=True)


@GROUP.refuses(
    '`tree_method="exact"`, gradient-based sampling, a GPU',
    InbagError,
    "could not be proven",
    why="these bags are drawn in a way that rfsize does not rebuild",
    instead='`tree_method="hist"`; or validation rows',
)
def exact(at: AtHand) -> object:
    return rfsize.size(at.xgboost(tree_method="exact"), at.X, oob=True)


@GROUP.refuses(
    "an XGBoost model from a JSON or UBJ file",
    InbagError,
    "Or it was loaded from a file, which does not store its settings",
    why="the file keeps neither seed nor subsample; pickles do, and so does what rfsize writes",
    instead="`seed=` and `subsample=` as at training",
)
def from_a_file(at: AtHand) -> object:
    loaded = xgb.Booster()
    loaded.load_model(at.booster.save_raw("json"))
    return rfsize.size(loaded, at.X, oob=True)


@GROUP.refuses(
    "`seed` or `subsample` of a LightGBM forest",
    InbagError,
    "stores its own bagging_seed and bagging_fraction",
    why="the setting exists already, and yours may differ",
    instead="leave them out",
)
def seed_of_lightgbm(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X, oob=True, seed=1)


@GROUP.refuses(
    "objectives in which the second derivative of the loss (hessian) differs from row to row",
    InbagError,
    "rows may count differently, so the sums cannot prove the bags",
    why="leaves keep sums of hessians, which then do not prove how many rows they hold",
    instead=_VALIDATION,
)
def other_hessians(at: AtHand) -> object:
    forest = at.xgboost(y=np.exp(at.X[:, 0]), objective="reg:gamma")
    return rfsize.size(forest, at.X, oob=True, metric="scores", tolerance=0.1)


@GROUP.refuses(
    "so few trees that rows have no votes",
    FewVotesError,
    "no row",
    why="nothing is known of a row that every tree saw",
    instead="more trees, a smaller bagging fraction, or validation rows",
)
def few_votes(at: AtHand) -> object:
    return rfsize.size(at.xgboost(num_parallel_tree=1, subsample=0.9999), at.X, oob=True)


@GROUP.refuses(
    "groups without `oob=True`",
    ValueError,
    "groups say on which training rows a tree may not vote, and oob=False asks all trees",
    why="all trees may vote on rows that no tree saw",
    instead="leave `groups` out, or give the training rows with `oob=True`",
)
def groups_of_fresh_rows(at: AtHand) -> object:
    return rfsize.size(at.model, at.X_val, groups="copies")


@GROUP.refuses(
    "groups that are not one label for each row",
    ValueError,
    "groups must hold one label for each of the 400 training rows, found an array of shape (300,)",
    why="rfsize cannot match labels and rows",
    instead="an array of shape (n_rows,), `'copies'` or `'rows'`",
)
def too_few_groups(at: AtHand) -> object:
    return rfsize.size(at.model, at.X, oob=True, groups=np.arange(300))


@GROUP.refuses(
    "copies of rows that the training data do not hold any more",
    ValueError,
    "groups='copies' compares the training rows, and the data do not hold them",
    why="a `Dataset` gives up its rows when it is binned",
    instead="`free_raw_data=False`, a `DMatrix` in place of a `QuantileDMatrix`, or the groups themselves",
)
def copies_of_nothing(at: AtHand) -> object:
    return rfsize.grow(LIGHTGBM, lgb.Dataset(at.X, at.y, params=LIGHTGBM).construct(), groups="copies")


@GROUP.refuses(
    "groups so large that every tree sees some of each",
    FewVotesError,
    "trees would leave 99.75 % of the rows without out-of-bag votes, since they belong to groups of up to 21 rows",
    why="no tree is left to vote on a group",
    instead="validation rows, `cv=5`, a smaller bagging fraction, or each row once with weights for its copies",
)
def large_groups(at: AtHand) -> object:
    groups = np.where(np.arange(400) < 20, np.arange(400), np.arange(400) // 20)
    return rfsize.grow(LIGHTGBM, lgb.Dataset(at.X, at.y), groups=groups)


@GROUP.refuses(
    "groups in `lgb.cv`",
    ValueError,
    "in lgb.cv the folds say which rows belong together",
    why="the setting exists already, and yours may differ",
    instead="`folds=GroupKFold().split(X, y, groups)`",
)
def groups_in_folds(at: AtHand) -> object:
    callback = rfsize.SizeCallback(groups=np.arange(400))
    return lgb.cv(LIGHTGBM, lgb.Dataset(at.X, at.y), 20, callbacks=[callback])


@GROUP.refuses(
    "leaves that were changed after the training, where `y` is given",
    InbagError,
    "the leaves differ from what their bags and the labels y give",
    why="after `refit` they know rows that their bags left out",
    instead="the model as it was trained, or validation rows",
)
def refitted(at: AtHand) -> object:
    return rfsize.size(at.model.refit(at.X, 1 - at.y, decay_rate=0.5), at.X, at.y, oob=True)
