"""Trains LightGBM forests tree by tree on one binned `lightgbm.Dataset`, continues them, and merges them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rfsize._util import give, how_many, share, whole
from rfsize.counting.count import out_of_bag
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.lightgbm.bags import BAGS_NOTE, FRACTION_NAMES, bags_note, refuse_other_samplers
from rfsize.integrations.lightgbm.model import (
    TREE_COUNT_NAMES,
    LightGbmForest,
    ModelText,
    booster_of,
    forest_of,
    loaded,
    trees_of,
    with_trees,
)
from rfsize.integrations.lightgbm.training_votes import (
    PredictedVotes,
    Voters,
    VotesInTraining,
    WalkedVotes,
    rows_of,
)
from rfsize.models.bags import Layout
from rfsize.models.model import dependence_of
from rfsize.models.training import ForestInTraining, Trainer, Training, refuse_differences, trained_on
from rfsize.walking.leaves import leaf_lookup

# Parameters that may differ between forests that are merged.
SEEDS = (
    *("seed", "bagging_seed", "feature_fraction_seed", "extra_seed"),
    *("data_random_seed", "drop_seed", "objective_seed"),
)
_DRAWING_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed")

# Parameters that a trainer sets itself, or does not use.
_IGNORED = ("num_iterations", "early_stopping_round", "metric", "is_provide_training_metric", "input_model")

# Parameters of files, machines and predictions, and not of trees or training.
_NOT_OF_TRAINING = (
    *("config", "task", "data", "valid", "output_model", "saved_feature_importance_type", "snapshot_freq"),
    *("save_binary", "header", "label_column", "weight_column", "group_column", "ignore_column", "two_round"),
    *("categorical_feature", "forcedbins_filename", "precise_float_parser", "parser_config_file"),
    *("refit_decay_rate", "start_iteration_predict", "num_iteration_predict", "predict_raw_score"),
    *("predict_leaf_index", "predict_contrib", "predict_disable_shape_check", "pred_early_stop", "metric_freq"),
    *("pred_early_stop_freq", "pred_early_stop_margin", "output_result", "convert_model_language", "convert_model"),
    *("eval_at", "multi_error_top_k", "auc_mu_weights", "first_metric_only", "early_stopping_min_delta"),
    *("local_listen_port", "time_out", "machine_list_filename", "machines"),
)
# Parameters in which forests with the same kind of trees may differ.
_NOT_OF_TREES = (*_NOT_OF_TRAINING, "num_threads", "force_col_wise", "force_row_wise", "verbosity")

_FEW_UNSURE = 0.01  # share of the votes that may go to another class, because LightGBM's predictions are rounded
_BALANCED = ("pos_bagging_fraction", "neg_bagging_fraction")


def without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    """The parameters without the named ones, under any of their names."""
    dropped = _aliases().get(*names)
    return {name: value for name, value in params.items() if name not in dropped}


def value_of(params: dict[str, Any], name: str, default: Any) -> Any:
    """The value of a parameter under any of its names, chosen as LightGBM does."""
    names = [name, *_aliases().get_sorted(name)]
    return next((params[alias] for alias in names if params.get(alias) is not None), default)


def _aliases() -> Any:
    try:
        from lightgbm.basic import _ConfigAliases  # LightGBM has no public name for them; models are read without
    except ImportError as error:
        raise ValueError(f"rfsize knows no parameters of LightGBM {lgb.__version__}: install 4.3 to 4.7") from error
    return _ConfigAliases


# Stored as 0 and 1, which LightGBM does not take back for these.
_SWITCHES = """
bagging_by_query boost_from_average deterministic enable_bundle extra_trees feature_pre_filter first_metric_only
force_col_wise force_row_wise gpu_use_dp header is_enable_sparse is_unbalance lambdarank_norm linear_tree pre_partition
precise_float_parser quant_train_renew_leaf reg_sqrt stochastic_rounding two_round uniform_drop use_missing
use_quantized_grad xgboost_dart_mode zero_as_missing
"""


class LightGbmTraining(Training):
    """How LightGBM trains forests."""

    fraction_names = FRACTION_NAMES

    def trainer(self, params: dict[str, Any], data: Any) -> LightGbmTrainer:
        return LightGbmTrainer(params, data)

    def params_of(self, model: Any) -> dict[str, Any]:
        booster = booster_of(model)
        params: dict[str, Any] = booster.params
        if not params:  # as in LightGBM 4.3, which does not read them when it loads a model from a string
            stored = ModelText.read(booster.model_to_string()).parameters
            switches = _SWITCHES.split()
            params = {name: value == "1" if name in switches else value for name, value in stored.items() if value}
        if not params:
            raise ValueError("the LightGBM model does not say how it was trained: give the params")
        return without(copy.deepcopy(params), *_IGNORED, *_NOT_OF_TRAINING)

    def accepts(self, params: dict[str, Any]) -> bool:
        return not params.keys().isdisjoint(("boosting", "boosting_type", "boost"))

    def rows_of(self, data: Any) -> Any:
        return rows_of(data) if isinstance(data, lgb.Dataset) else None

    def tree_count_names(self, estimator: Any) -> set[str]:
        return TREE_COUNT_NAMES

    def deterministic_data(self, params: dict[str, Any], X: Any, y: Any, weight: Any) -> tuple[dict[str, Any], Any]:
        # Otherwise each thread adds up the gradients of its own rows, and the rounding depends on the threads.
        one_sum = {"deterministic": True, "force_col_wise": True}
        return without(params, *one_sum, "force_row_wise") | one_sum, lgb.Dataset(X, y, weight=weight)

    def merged(self, boosters: Sequence[Any]) -> Any:
        return merged(boosters)


class LightGbmTrainer(Trainer):
    """Trains LightGBM forests on one Dataset, which is binned once.

    Parameters
    ----------
    params : dict
        As for ``lightgbm.train``, under any of their names, with ``boosting="rf"``. The number of trees, early
        stopping and metrics are ignored.
    dtrain : lightgbm.Dataset
        Training data. If it is not yet constructed, it is constructed with the parameters, as in ``lightgbm.train``.

    Raises
    ------
    NotAForestError
        If the parameters do not train a forest of independent trees.
    InbagError
        If the bags could not be rebuilt (GOSS, ``bagging_by_query``, several machines).
    ValueError
        If labels are missing or do not fit the objective.

    Warns
    -----
    ForestWarning
        If ``bagging_freq`` > 1, or if, because of how LightGBM samples features, forests of other seeds predict
        differently.
    """

    forest: LightGbmForest

    def __init__(self, params: dict[str, Any], dtrain: lgb.Dataset) -> None:
        params = without(copy.deepcopy(params), *_IGNORED)
        _refuse_what_cannot_be_trained(params, dtrain)
        self._params = {**without(params, "bagging_freq"), "bagging_freq": value_of(params, "bagging_freq", 1)}
        self.fraction = float(value_of(params, "bagging_fraction", 1.0))
        self.seed = int(value_of(params, "seed", 0))
        self.dtrain, given = dtrain, rows_of(dtrain)
        # One tree bins the data, and shows how LightGBM reads the parameters.
        given_label = dtrain.label
        forest = forest_of(lgb.train(self._with_bags(0.5 if self.fraction >= 1.0 else None, None), dtrain, 1))
        self.rows = rows_of(dtrain) if given is None else given
        weight = dtrain.get_weight()
        label = _labels(dtrain, given_label, forest.text)
        super().__init__(forest, label, None if weight is None else np.asarray(weight, dtype=np.float64))
        self.has_soft_labels = forest.text.are_soft(label)
        refuse_other_samplers(forest.sampling.parameters)
        give(dependence_of(forest))

    def start(self, *, fraction: float | None = None, seed: int | None = None) -> LightGbmInTraining:
        """A forest without trees, with another bagging fraction or seed if given.

        With ``seed=None`` it is the forest that ``lightgbm.train`` would train. Another seed changes the bags and the
        draws of features and thresholds, whatever seeds the parameters name for them.

        Raises
        ------
        InbagError
            If every bag would hold all rows.
        ValueError
            If ``fraction`` is not between 0 and 1, or the parameters name separate fractions for the two classes.
        """
        if fraction is None:
            self._refuse_full_bags()
        elif self._is_balanced():
            raise ValueError("with pos_/neg_bagging_fraction, bagging_fraction has no effect: leave one of them out")
        params = self._with_bags(None if fraction is None else share("fraction", fraction), seed)
        return LightGbmInTraining(self, params)

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        return self._with_bags(fraction, None)

    def start_after(self, number: int) -> LightGbmInTraining:
        used, params = [seed for seed, _ in self.forest.sampling.blocks], None
        for _ in range(number):
            params = self._drawing_otherwise(used)
            used.append(params["bagging_seed"])
        return self.start() if params is None else LightGbmInTraining(self, params)

    def resume(self, model: Any) -> LightGbmInTraining:
        """A forest that begins with a copy of the trees of ``model``; see `Trainer.resume`.

        The bags of these trees are proven, and their votes counted, on the raw rows.

        Raises
        ------
        NotAForestError
            If the model is not a forest, or was trained with other parameters or data.
        InbagError
            If the bags of its trees cannot be rebuilt and proven on the training data.
        ValueError
            If the Dataset no longer has its raw rows, or the classes are not 0 to K − 1.
        """
        self._refuse_full_bags()
        forest = forest_of(lgb.Booster(model_str=booster_of(model).model_to_string()))
        _check_alike([forest.text, self.forest.text])
        if self.rows is None:
            raise ValueError("the Dataset does not hold its rows, which adding trees takes: set free_raw_data=False")
        rows = forest.open(self.rows)
        bags = forest.bags(Layout.alone(rows.n_rows), self.label, None, None, None)
        params = self._drawing_otherwise([seed for seed, _ in forest.sampling.blocks])
        training = LightGbmInTraining(self, params)
        sums = out_of_bag(forest, bags, leaf_lookup(forest, rows), training.threshold, training.groups)
        training.first, training.of_first, training.out_of_bag = forest.booster, sums, sums
        training.n_trees = forest.n_trees
        return training

    def _drawing_otherwise(self, used: list[int]) -> dict[str, Any]:
        """Parameters with new seeds, which depend on the trainer's seed and on the number of seeds used before.

        ``used`` holds each ``bagging_seed`` used before; the new one is none of them.
        """
        draws = np.random.default_rng([abs(self.seed), len(used)])
        unused = (seeds for seeds in iter(lambda: draws.integers(2**31, size=3).tolist(), None) if seeds[0] not in used)
        params = without(self._with_bags(None, None), *_DRAWING_SEEDS)
        return params | dict(zip(_DRAWING_SEEDS, next(unused), strict=True))

    def _refuse_full_bags(self) -> None:
        if self.fraction >= 1.0 and not self._is_balanced():
            raise InbagError("without a bagging_fraction below 1 no row would be out of bag: give one, such as 0.632")

    def _is_balanced(self) -> bool:
        return any(float(value_of(self._params, name, 1.0)) < 1.0 for name in _BALANCED)

    def _with_bags(self, fraction: float | None, seed: int | None) -> dict[str, Any]:
        params = dict(self._params)
        if fraction is not None:
            params = {**without(params, "bagging_fraction"), "bagging_fraction": fraction}
        if seed is not None:
            params = {**without(params, *SEEDS), "seed": whole("seed", seed, at_least=0, at_most=2**31 - 1)}
        return params


class LightGbmInTraining(ForestInTraining):
    """A LightGBM forest that takes more trees.

    All bags are proven leaf by leaf; if the Dataset did not keep its rows, by their sizes.

    Attributes
    ----------
    first : lightgbm.Booster or None
        The finished forest that it began with.
    of_first : Sums
        The sums of the out-of-bag outputs of those trees.
    """

    def __init__(self, trainer: LightGbmTrainer, params: dict[str, Any]) -> None:
        super().__init__(trainer)
        self._booster, self._rows = lgb.Booster(params, trainer.dtrain), trainer.rows
        self._votes: VotesInTraining | None = None
        self.first: lgb.Booster | None = None
        self.of_first = self.out_of_bag

    def add(self, n_trees: int) -> None:
        for _ in range(whole("n_trees", n_trees, at_least=1)):
            self._booster.update()
            if self._votes is not None:
                self._votes.read()
                continue
            voters = Voters(self._booster, self.threshold, self.groups)
            self._votes = PredictedVotes(voters) if self._rows is None else WalkedVotes(voters, self._rows)
        votes = self._votes
        assert votes is not None
        self.n_trees, self.out_of_bag = self.n_trees + n_trees, self.of_first.plus(votes.sums())
        if votes.n_bounded or votes.n_unsure > _FEW_UNSURE * votes.n_votes:
            raise ValueError(
                f"rounded predictions hide single trees on {how_many(max(1, votes.n_bounded), 'row')}, as where a "
                "class is rare: let the Dataset keep its rows (free_raw_data=False)"
            )
        if not votes.is_proven:
            raise InbagError("no tree has several leaves, whose counts prove bags: set a smaller min_data_in_leaf")

    def booster(self) -> lgb.Booster:
        if self._votes is None:
            if self.first is None:
                raise ValueError("the forest has no trees yet: call add first")
            return copy.deepcopy(self.first)
        grown = loaded(self._booster.model_to_string())
        return grown if self.first is None else merged([self.first, grown])


def _labels(dtrain: lgb.Dataset, given: Any, text: ModelText) -> NDArray[Any]:
    """Class indices, numbers, or soft labels between 0 and 1 of a cross-entropy; ``given`` to the Dataset."""
    label = np.asarray(dtrain.get_label(), dtype=np.float64)
    # LightGBM takes missing labels for zeros. It does not return labels that it read from a file.
    if (given is None and not label.any()) or np.isnan(np.asarray(0 if given is None else given, float)).any():
        raise ValueError("labels of the Dataset are missing: give lightgbm.Dataset(X, label), without NaN")
    label = text.truth(label)
    return label if text.are_soft(label) else trained_on(label, text.n_classes)


def _refuse_what_cannot_be_trained(params: dict[str, Any], dtrain: lgb.Dataset) -> None:
    boosting = str(value_of(params, "boosting", "gbdt")).lower()
    if boosting not in {"rf", "random_forest"}:
        raise NotAForestError(f"boosting='{boosting}' trains trees that depend on each other: give boosting='rf'")
    if callable(value_of(params, "objective", None)):
        raise NotAForestError("LightGBM trains no random forest with a custom objective: name one of LightGBM's")
    if int(value_of(params, "bagging_freq", 1)) < 1:
        raise InbagError("bagging_freq=0 trains every tree on all rows, so no row is out of bag: give bagging_freq=1")
    if value_of(params, "machines", None) is not None:
        raise InbagError("bags drawn by several machines cannot be rebuilt: leave out machines")
    samplers = {name: value_of(params, name, None) for name in ("data_sample_strategy", "tree_learner", "num_machines")}
    refuse_other_samplers({name: str(value).lower() for name, value in samplers.items() if value is not None})
    if dtrain.init_score is not None:
        raise ValueError("LightGBM trains no random forest from an init_score: make the Dataset without it")


def merged(boosters: Sequence[lgb.Booster]) -> lgb.Booster:
    """Merge all trees of several forests into one booster, which predicts the mean of the trees.

    The booster keeps how the bags of each forest were drawn, also when it is saved, loaded and truncated. So
    `rfsize.inbag` works on it.

    Parameters
    ----------
    boosters : sequence of lightgbm.Booster
        Forests of the same data and parameters, trained with different seeds. They are not changed.

    Raises
    ------
    NotAForestError
        If a booster is not a forest, or its data or parameters differ from those of the first.
    """
    texts = [booster.model_to_string() for booster in boosters]
    forests = [forest_of(booster) for booster in boosters]
    _check_alike([forest.text for forest in forests])
    knows_bags = all(forest.text.parameters for forest in forests)
    note = bags_note([block for forest in forests for block in forest.sampling.blocks]) if knows_bags else None
    return loaded(with_trees(texts[0], [tree for text in texts for tree in trees_of(text)], note))


def _check_alike(texts: Sequence[ModelText]) -> None:
    """Raise `NotAForestError` if forests differ in data or parameters."""
    have_parameters, described = all(text.parameters for text in texts), []
    for text in texts:
        of_text: dict[str, Any] = text.header | {"tree_sizes": None, "pandas_categorical": text.categories}
        if have_parameters:
            of_training = without(text.parameters, *SEEDS, *_IGNORED, *_NOT_OF_TREES)
            of_text |= {name: value for name, value in of_training.items() if not name.startswith(BAGS_NOTE)}
        described.append(of_text)
    refuse_differences(described)
