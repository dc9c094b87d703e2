"""LightGBM's parameters under all their names: which decide bags, and which may differ between merged forests."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lightgbm.basic import _ConfigAliases

# Parameters that may differ between forests that are merged.
SEEDS = (
    *("seed", "bagging_seed", "feature_fraction_seed", "extra_seed"),
    *("data_random_seed", "drop_seed", "objective_seed"),
)


# Parameters that a trainer sets itself, or does not use.
IGNORED = ("num_iterations", "early_stopping_round", "metric", "is_provide_training_metric", "input_model")


# Parameters of the training that do not change the trees: threads, order, messages.
WAYS_OF_TRAINING = ("num_threads", "force_col_wise", "force_row_wise", "verbosity")

# Parameters of files, machines and predictions, and not of trees or training.
NOT_OF_TRAINING = (
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
NOT_OF_TREES = (*NOT_OF_TRAINING, *WAYS_OF_TRAINING)


def without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    """The parameters without the named ones, under any of their names."""
    dropped = _ConfigAliases.get(*names)
    return {name: value for name, value in params.items() if name not in dropped}


# All names of the number of trees.
TREE_COUNT_NAMES: set[str] = _ConfigAliases.get("num_iterations")


def value_of(params: dict[str, Any], name: str, default: Any) -> Any:
    """The value of a parameter under any of its names, chosen as LightGBM does."""
    names = [name, *_ConfigAliases.get_sorted(name)]
    return next((params[alias] for alias in names if params.get(alias) is not None), default)


_BAGGING_NAMES = re.compile(r"(pos_|neg_)?(bagging.*|sub_row|subsample|subsample_freq)")


@cache  # a callback asks after each tree
def _decides_bags(name: str) -> bool:
    return _BAGGING_NAMES.fullmatch(name) is not None


def bagging(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that decide the bags, under the user's names."""
    return {name: value for name, value in params.items() if _decides_bags(name)}


def exact_fractions(params: dict[str, Any]) -> dict[str, str]:
    """The bagging fractions as the user gave them, because the model text rounds them to six digits."""
    names = [f"{kind}bagging_fraction" for kind in ("", "pos_", "neg_")]
    given = {name: value_of(params, name, None) for name in names}
    return {name: repr(float(value)) for name, value in given.items() if value is not None}
