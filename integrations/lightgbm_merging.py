"""LightGBM forests of the same data and parameters, merged into one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import lightgbm as lgb
from lightgbm.basic import _ConfigAliases

from rfsize.errors import NotAForestError
from rfsize.integrations.lightgbm_text import BAGS_NOTE, ForestText, bags_note

# Parameters that may differ between forests that are merged.
SEEDS = (
    *("seed", "bagging_seed", "feature_fraction_seed", "extra_seed"),
    *("data_random_seed", "drop_seed", "objective_seed"),
)
# What a trainer decides itself, or has no use for.
IGNORED = ("num_iterations", "early_stopping_round", "metric", "is_provide_training_metric", "input_model")
# What belongs to files, machines and predictions, not to trees.
NOT_OF_TREES = (
    *("config", "task", "data", "valid", "output_model", "saved_feature_importance_type", "snapshot_freq"),
    *("save_binary", "header", "label_column", "weight_column", "group_column", "ignore_column", "two_round"),
    *("categorical_feature", "forcedbins_filename", "precise_float_parser", "parser_config_file", "num_threads"),
    *("refit_decay_rate", "start_iteration_predict", "num_iteration_predict", "predict_raw_score", "verbosity"),
    *("predict_leaf_index", "predict_contrib", "predict_disable_shape_check", "pred_early_stop", "metric_freq"),
    *("pred_early_stop_freq", "pred_early_stop_margin", "output_result", "convert_model_language", "convert_model"),
    *("eval_at", "multi_error_top_k", "auc_mu_weights", "first_metric_only", "early_stopping_min_delta"),
    *("local_listen_port", "time_out", "machine_list_filename", "machines", "force_col_wise", "force_row_wise"),
)
_SAME_IN_HEADER = (
    *("objective", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"),
    *("feature_names", "feature_infos", "monotone_constraints"),
)


def without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    """Parameters less those named, under any of their names."""
    dropped = _ConfigAliases.get(*names)
    return {name: value for name, value in params.items() if name not in dropped}


def merged(boosters: Sequence[lgb.Booster]) -> lgb.Booster:
    """One booster of all trees of several forests, which predicts the mean of them all.

    It remembers how the bags of each forest were drawn, also when saved, loaded and truncated, so that
    `rfsize.inbag` works on it.

    Parameters
    ----------
    boosters : sequence of lightgbm.Booster
        Forests of the same data and parameters, trained with different seeds; none is changed.

    Raises
    ------
    NotAForestError
        If one is no forest, or not of the same data and parameters as the first.
    ValueError
        If two of them share bags or trees.
    """
    if not boosters:
        raise ValueError("merged needs at least one booster, found none")
    texts = [booster.model_to_string() for booster in boosters]
    forests = [ForestText.read(text, casts_votes=False) for text in texts]
    for forest in forests[1:]:
        check_alike(forest, forests[0])
    _refuse_duplicates(forests)
    return lgb.Booster(model_str=_joined(texts, forests))


def check_alike(forest: ForestText, other: ForestText) -> None:
    """Raise `NotAForestError` where two forests are not of the same data and parameters."""
    found = {name: (forest.header.get(name), other.header.get(name)) for name in _SAME_IN_HEADER}
    found["pandas_categorical"] = str(forest.pandas_categorical), str(other.pandas_categorical)
    if forest.parameters and other.parameters:
        mine, others = (without(one.parameters, *SEEDS, *IGNORED, *NOT_OF_TREES) for one in (forest, other))
        notes = {name for name in (*mine, *others) if name.startswith(BAGS_NOTE)}
        found |= {name: (mine.get(name), others.get(name)) for name in (*mine, *others) if name not in notes}
    for name, (one, another) in found.items():
        if one != another:
            raise NotAForestError(
                f"the forests differ in {name}: '{str(one)[:60]}' and '{str(another)[:60]}'; only forests of the same "
                "data and parameters make one forest"
            )


def _refuse_duplicates(forests: Sequence[ForestText]) -> None:
    seeds: set[int] = set()
    trees: set[str] = set()
    for forest in forests:
        own = {seed for seed, _ in forest.blocks()} if forest.parameters else set()
        if own & seeds:
            raise ValueError(
                f"two of the forests were trained with the same bagging_seed={min(own & seeds)}, so their trees have "
                "the same bags; train one of them again with another seed"
            )
        # The text begins with the tree's number.
        split = {
            tree.partition("\n")[2].strip()
            for tree, value in zip(forest.trees, forest.leaf_value, strict=True)
            if value.size > 1
        }
        if split and (split <= trees or (trees and trees <= split)):
            raise ValueError("two of the forests have the same trees; train one of them again with another seed")
        seeds |= own
        trees |= split


def _joined(texts: Sequence[str], forests: Sequence[ForestText]) -> str:
    """The model text of all trees, under the first one's header and parameters."""
    trees = [tree for text in texts for tree in _trees(text)]
    numbered = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    head = texts[0].partition("\ntree_sizes=")[0]
    sizes = " ".join(str(len(tree.encode())) for tree in numbered)
    tail = texts[0].partition("\nend of trees\n")[2]
    if forests[0].parameters and all(forest.parameters for forest in forests):
        note = bags_note([block for forest in forests for block in forest.blocks()])
        tail = re.sub(rf"^\[{BAGS_NOTE}.*\n", "", tail, flags=re.MULTILINE)
        tail = tail.replace("\nparameters:\n", f"\nparameters:\n[{note}: ]\n", 1)
    return f"{head}\ntree_sizes={sizes}\n\n{''.join(numbered)}end of trees\n{tail}"


def _trees(text: str) -> list[str]:
    """Text of each tree, less its number."""
    start, stop = text.index("\nTree=0\n") + 1, text.index("\nend of trees\n") + 1
    return re.split(r"^Tree=[0-9]+\n", text[start:stop], flags=re.MULTILINE)[1:]
