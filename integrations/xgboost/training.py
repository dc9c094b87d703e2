"""XGBoost forests in training: blocks of parallel trees, each from its own seed, proven block by block and merged."""

from __future__ import annotations

import itertools
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xgboost as xgb

from rfsize._util import give, share, whole
from rfsize.counting.count import out_of_bag
from rfsize.counting.sums import Sums
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.xgboost.model import (
    ForestPart,
    XgboostForest,
    boosted_rounds,
    booster_of,
    booster_of_forests,
    forest_of,
    holds_rows,
    tree_count_parameter,
)
from rfsize.integrations.xgboost.model_json import VERSION, VOTING, document, reason, scores_per_leaf, tree_model
from rfsize.models.bags import Layout
from rfsize.models.ensemble import LeafIds
from rfsize.models.model import learning_rate_of
from rfsize.models.training import (
    CollectionOnWorkers,
    ForestInTraining,
    Trainer,
    Training,
    refuse_differences,
    trained_on,
)

# The most cells of (rows × trees) of predicted leaves in memory. XGBoost predicts them in single precision.
_PREDICTED_CELLS = 1 << 26

_FIRST_WITH_QUANTILE_LEAVES = (3, 1)

# Settings of a booster that also stand there under another name, or that must not be given to train more trees.
_OTHER_NAMES = {"reg_alpha", "learning_rate", "reg_lambda", "min_split_loss", "process_type", "updater", "updater_seq"}


class XgboostTraining(Training):
    """How XGBoost trains forests: one round of parallel trees, from parameters and a DMatrix."""

    labels_are_indices = True
    fraction_names = ("subsample",)

    def trainer(self, params: dict[str, Any], data: Any) -> XgboostTrainer:
        return XgboostTrainer(params, data)

    def params_of(self, model: Any) -> dict[str, Any]:
        learner = forest_of(booster_of(model)).settings
        grown = learner["gradient_booster"]["tree_train_param"]
        if float(grown["subsample"]) == 1.0:
            raise InbagError("the model says subsample=1: give the params of its training, with a subsample below 1")
        settings = {**learner["learner_train_param"], **learner["gradient_booster"]["gbtree_train_param"], **grown}
        for name, content in learner["objective"].items():
            if name != "name":
                settings.update(content)
        settings = {name: setting(text) for name, text in settings.items() if name not in _OTHER_NAMES and text != ""}
        intercept = learner["learner_model_param"]
        if intercept["boost_from_average"] == "0":
            given = np.unique(np.atleast_1d(json.loads(intercept["base_score"])))
            settings["base_score"] = given.item() if given.size == 1 else intercept["base_score"]
        generic = learner["generic_param"]
        return settings | {name: setting(generic[name]) for name in ("seed", "nthread", "device")}

    def accepts(self, params: dict[str, Any]) -> bool:
        return "subsample" in params and params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def rows_of(self, data: Any) -> Any:
        return data if isinstance(data, xgb.DMatrix) and holds_rows(data) else None

    def missing_in(self, data: Any) -> float | None:
        missing = getattr(data, "missing", None)
        return None if missing is None or np.isnan(missing) else float(missing)

    def tree_count_names(self, estimator: Any) -> set[str]:
        return {tree_count_parameter(estimator)}

    def check_estimator(self, estimator: Any) -> None:
        rounds = estimator.get_num_boosting_rounds()
        if rounds > 1:
            kind = type(estimator).__name__
            raise NotAForestError(boosted_rounds(f"the {kind} would be boosted for {rounds} rounds"))

    def deterministic_data(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        # Each thread sums up its own gradients. Unweighted classes have few different gradients, and all sums are exact
        # in double precision. Other sums are rounded, so that all machines need the same number of threads.
        is_exact = weight is None and str(params.get("objective")) in VOTING
        if not is_exact and params.keys().isdisjoint(("nthread", "n_jobs")):
            params = params | {"nthread": 1}
        return params, xgb.DMatrix(X, y, weight=weight, enable_categorical=True)

    def merged(self, boosters: Sequence[Any]) -> xgb.Booster:
        # The booster has the names, attributes and settings of the first.
        forests = [forest_of(booster) for booster in boosters]
        _check_alike(forests)
        return booster_of_forests([(forest.booster, forest.tree_of, forest.drawn_bags()) for forest in forests])

    def held_on_workers(self, X: Any) -> CollectionOnWorkers | None:
        if not any((kind.__module__, kind.__name__) == ("xgboost.dask", "DaskDMatrix") for kind in type(X).__mro__):
            return None
        from dask import delayed

        number = X.partition_order
        held = sorted((part for parts in X.worker_map.values() for part in parts), key=lambda part: number[part.key])
        rows = delayed(operator.itemgetter("data"))
        machines = [[number[part.key] for part in parts] for parts in X.worker_map.values()]
        return CollectionOnWorkers([rows(part) for part in held], machines, int(X.num_col()), X.missing)


class XgboostTrainer(Trainer):
    """Trains forests with the parameters of ``xgboost.train`` on a `DMatrix` or `QuantileDMatrix`.

    ``num_parallel_tree`` is ignored, and ``eta`` is 1 if ``params`` do not name it. The arguments are never changed.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees, or rfsize cannot read its predictions.
    InbagError
        If the bags could not be rebuilt or proven.
    ValueError
        If the labels do not fit the objective, or the data have a base margin or are of the wrong kind.
    """

    forest: XgboostForest

    def __init__(self, params: dict[str, Any], dtrain: xgb.DMatrix) -> None:
        _refuse_other_data(dtrain)
        self.dtrain = dtrain
        self.params = {name: value for name, value in params.items() if name != "num_parallel_tree"}
        if not self.params.keys() & {"eta", "learning_rate"}:
            self.params["eta"] = 1.0
        try:  # one tree shows how XGBoost reads the parameters
            forest = forest_of(xgb.train(self.params | {"num_parallel_tree": 1}, dtrain, 1))
        except xgb.core.XGBoostError as error:
            raise ValueError(f"XGBoost does not train on dtrain ({reason(error)}): change params or dtrain") from error
        forest.refuse_other_sampling()
        label, weight = trained_on(dtrain.get_label(), len(forest.classes)), dtrain.get_weight()
        super().__init__(forest, label, weight.astype(np.float64) if weight.size else None)
        give(learning_rate_of(forest))
        self.fraction = float(setting(forest.settings["gradient_booster"]["tree_train_param"]["subsample"]))
        self.seed = int(forest.settings["generic_param"]["seed"])

    def start(self, *, fraction: float | None = None, seed: int | None = None) -> XgboostInTraining:
        fraction = self.fraction if fraction is None else share("fraction", fraction)
        if fraction == 1.0:
            raise InbagError("with subsample=1 no row is out of bag: give a subsample below 1, such as 0.632")
        seed = self.seed if seed is None else whole("seed", seed, at_least=0)
        return XgboostInTraining(self, fraction, seed)

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        return {**self.params, "subsample": fraction}

    def start_after(self, number: int) -> XgboostInTraining:
        seed = next(itertools.islice(_seeds(self.seed), number, None))
        return self.start(seed=seed)

    def resume(self, model: Any) -> XgboostInTraining:
        forest, training = forest_of(booster_of(model)), self.start()
        _check_alike([forest, self.forest])
        ours, theirs = (trees.settings["gradient_booster"]["tree_train_param"] for trees in (self.forest, forest))
        other = {name: theirs[name] for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
        if float(theirs["subsample"]) < 1.0 and other:  # else the settings were lost in a file
            raise NotAForestError(f"the forest was trained with other parameters, {other}: give those to train more")
        lost = (self.seed, self.fraction) if forest.drawn_bags() is None else ()  # in a file
        outputs = training.taken(forest, *lost)
        training.n_trees, training.out_of_bag = forest.n_trees, outputs
        return training


class XgboostInTraining(ForestInTraining):
    """A forest in blocks, each trained by XGBoost from its own seed."""

    def __init__(self, trainer: XgboostTrainer, fraction: float, seed: int) -> None:
        super().__init__(trainer)
        self._trainer = trainer
        self._params = {name: value for name, value in trainer.params.items() if name != "random_state"}
        self._params["subsample"] = fraction
        self._parts: list[ForestPart] = []
        self._seeds = self._unused_seeds(seed)

    def train(self, n_trees: int) -> Iterator[tuple[int, Sums]]:
        most = max(1, _PREDICTED_CELLS // (len(self._trainer.label) * self._trainer.forest.tree_of.shape[1]))
        for start in range(0, n_trees, most):
            n_more = min(most, n_trees - start)
            params = {**self._params, "seed": next(self._seeds), "num_parallel_tree": n_more}
            yield n_more, self.taken(forest_of(xgb.train(params, self._trainer.dtrain, 1)))

    def booster(self) -> xgb.Booster:
        return booster_of_forests(self._parts)

    def taken(self, forest: XgboostForest, seed: int | None = None, subsample: float | None = None) -> Sums:
        """Take the trees of a finished forest; ``seed`` and ``subsample`` replace what a file does not keep."""
        trainer = self._trainer
        bags = forest.bags(Layout.alone(len(trainer.label)), trainer.label, trainer.weight, seed, subsample)
        # All rows at once, because a QuantileDMatrix cannot be cut into blocks of rows.
        predicted = forest.booster.predict(trainer.dtrain, pred_leaf=True)

        def leaves(start: int, stop: int, _: Any) -> LeafIds:
            return LeafIds(forest.leaf_ids(predicted[start:stop]), forest.ensemble.tree_scores)

        outputs = out_of_bag(forest, bags, leaves, self.threshold, self.groups)
        self._parts.append((forest.booster, forest.tree_of, bags.drawn))
        return outputs

    def _unused_seeds(self, seed: int) -> Iterator[int]:
        """New seeds, without those of the trees that the forest already has."""
        for candidate in _seeds(seed):
            # One of these outputs seeds the first bag; which one depends on the version of XGBoost.
            first = np.random.RandomState(candidate % 2**32).randint(0, 2**32, size=2, dtype=np.uint32)
            if not any(drawn is not None and np.isin(first, drawn.tree_seed).any() for _, _, drawn in self._parts):
                yield candidate


def _seeds(seed: int) -> Iterator[int]:
    """The seed itself, then others derived from it."""
    derived = (np.random.SeedSequence([seed % 2**64, block]).generate_state(1)[0] for block in itertools.count(1))
    return itertools.chain([seed], map(int, derived))


# Parameters and data


def setting(text: str) -> Any:
    """A setting of a booster, as a number if it is one. XGBoost stores numbers in single precision."""
    for read in (int, lambda number: float(str(np.float32(number)))):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _refuse_other_data(dtrain: Any) -> None:
    if not isinstance(dtrain, xgb.DMatrix):
        raise ValueError(f"dtrain must be an xgboost.DMatrix or QuantileDMatrix, found {type(dtrain).__name__}")
    if isinstance(dtrain, xgb.QuantileDMatrix) and VERSION < _FIRST_WITH_QUANTILE_LEAVES:
        raise ValueError("before XGBoost 3.1, leaves of a QuantileDMatrix are not known: give a DMatrix")
    if dtrain.get_base_margin().size:
        raise ValueError("dtrain has a base_margin, which moves every tree's vote: give the rows without one")


def _check_alike(forests: Sequence[XgboostForest]) -> None:
    """Raise `NotAForestError` if forests were not trained with the same data and parameters."""
    described, base_scores = [], []
    for forest in forests:
        learner = document(forest.booster)
        parameters, described_by = learner["learner_model_param"], ("objective", "feature_names", "feature_types")
        of_forest = {name: learner[name] for name in described_by} | {"categories": tree_model(learner).get("cats")}
        of_forest |= {name: parameters[name] for name in ("num_class", "num_feature")}
        described.append(of_forest | {"scores of a tree": scores_per_leaf(learner)})
        base_scores.append(np.atleast_1d(json.loads(parameters["base_score"])))
    refuse_differences(described)
    fractions = [np.float32(bags.subsample) for forest in forests if (bags := forest.drawn_bags()) is not None]
    if fractions and np.ptp(fractions) > 0.0:
        raise NotAForestError(f"the forests differ in subsample, {sorted(map(float, fractions))}: train them alike")
    if not all(np.allclose(scores, base_scores[0], rtol=1e-6, atol=0.0) for scores in base_scores):
        raise NotAForestError("the forests differ in base_score: train them on the same rows, with the same parameters")
