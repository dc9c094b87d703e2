"""Merges LightGBM forests of the same data and parameters into one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import lightgbm as lgb

from rfsize.exceptions import NotAForestError
from rfsize.integrations.lightgbm.model_text import BAGS_NOTE, ForestText, bags_note
from rfsize.integrations.lightgbm.parameters import IGNORED, NOT_OF_TREES, SEEDS, without

_SAME_IN_HEADER = (
    *("objective", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"),
    *("feature_names", "feature_infos", "monotone_constraints"),
)


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
    forests = [ForestText.read(text, casts_votes=False) for text in texts]
    for forest in forests[1:]:
        check_alike(forest, forests[0])
    return loaded(_joined(texts, forests))


def loaded(text: str) -> lgb.Booster:
    """The booster of a model text, with its own number of iterations among its parameters."""
    head, end, tail = text.partition("\nend of trees\n")
    per_iteration = re.search(r"^num_tree_per_iteration=([0-9]+)$", head, re.MULTILINE)
    if per_iteration is not None:
        n_trees = head.count("\nTree=") // int(per_iteration[1])
        told = f"[num_iterations: {n_trees}]"
        tail = re.sub(r"^\[num_iterations: .*\]$", told, tail, count=1, flags=re.MULTILINE)
    return lgb.Booster(model_str=head + end + tail)


def check_alike(forest: ForestText, other: ForestText) -> None:
    """Raise `NotAForestError` if two forests differ in data or parameters."""
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


def _joined(texts: Sequence[str], forests: Sequence[ForestText]) -> str:
    """The model text of all trees, with the header and the parameters of the first forest."""
    trees = [tree for text in texts for tree in trees_of(text)]
    knows_bags = forests[0].parameters and all(forest.parameters for forest in forests)
    note = bags_note([block for forest in forests for block in forest.blocks()]) if knows_bags else None
    return with_trees(texts[0], trees, note)


def with_trees(text: str, trees: Sequence[str], note: str | None) -> str:
    """A model text with other trees, and with another note on its bags."""
    numbered = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    head = text.partition("\ntree_sizes=")[0]
    sizes = " ".join(str(len(tree.encode())) for tree in numbered)
    tail = text.partition("\nend of trees\n")[2]
    if note is not None:
        tail = re.sub(rf"^\[{BAGS_NOTE}.*\n", "", tail, flags=re.MULTILINE)
        tail = tail.replace("\nparameters:\n", f"\nparameters:\n[{note}: ]\n", 1)
    return f"{head}\ntree_sizes={sizes}\n\n{''.join(numbered)}end of trees\n{tail}"


def trees_of(text: str) -> list[str]:
    """The text of each tree, without its number."""
    start, stop = text.index("\nTree=0\n") + 1, text.index("\nend of trees\n") + 1
    return re.split(r"^Tree=[0-9]+\n", text[start:stop], flags=re.MULTILINE)[1:]
