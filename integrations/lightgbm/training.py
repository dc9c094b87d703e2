"""Trains LightGBM forests tree by tree on one binned `lightgbm.Dataset`, continues them, and merges them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rfsize._util import give, share, whole
from rfsize.counting.count import out_of_bag
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.bags import BAGS_NOTE, FRACTION_NAMES, bags_note, refuse_other_sampling
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
from rfsize.integrations.lightgbm.training_votes import Voters, WalkedVotes, rows_of
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

# Parameters of files, which neither the training on a Dataset nor the trees depend on.
_OF_FILES = (
    *("data", "valid", "header", "label_column", "weight_column", "group_column", "ignore_column"),
    *("categorical_feature", "two_round", "forcedbins_filename", "precise_float_parser", "parser_config_file"),
)
# Parameters in which forests with the same kind of trees may differ.
_NOT_OF_TREES = (*_OF_FILES, "num_threads", "force_col_wise", "force_row_wise", "verbosity")

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
    from lightgbm.basic import _ConfigAliases  # LightGBM has no public name for them; models are read without

    return _ConfigAliases


class LightGbmTraining(Training):
    """How LightGBM trains forests."""

    fraction_names = FRACTION_NAMES

    def trainer(self, params: dict[str, Any], data: Any) -> LightGbmTrainer:
        return LightGbmTrainer(params, data)

    def params_of(self, model: Any) -> dict[str, Any]:
        booster = booster_of(model)
        params: dict[str, Any] = booster.params
        if not params:  # before 4.7 LightGBM reads them from files alone, and not from strings
            with TemporaryDirectory() as folder:
                path = Path(folder, "model.txt")
                booster.save_model(path)
                params = lgb.Booster(model_file=path).params
        if not params:
            raise ValueError("the LightGBM model does not say how it was trained: give the params")
        return without(copy.deepcopy(params), *_IGNORED, *_OF_FILES)

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
        If the bags could not be rebuilt (``bagging_by_query``, several machines).
    ValueError
        If LightGBM does not train, labels are missing or do not fit the objective, or the Dataset dropped its rows.

    Warns
    -----
    ForestWarning
        If ``bagging_freq`` > 1, or if, because of how LightGBM samples features, forests of other seeds predict
        differently.
    """

    forest: LightGbmForest

    def __init__(self, params: dict[str, Any], dtrain: lgb.Dataset) -> None:
        params = without(copy.deepcopy(params), *_IGNORED)
        self._params = {**without(params, "bagging_freq"), "bagging_freq": value_of(params, "bagging_freq", 1)}
        self.fraction = float(value_of(params, "bagging_fraction", 1.0))
        self.seed = int(value_of(params, "seed", 0))
        self.dtrain, given = dtrain, rows_of(dtrain)
        given_label = dtrain.label
        forest = _first_tree(self._with_bags(0.5 if self.fraction >= 1.0 else None, None), dtrain)
        self.rows = rows_of(dtrain) if given is None else given
        if self.rows is None:
            raise ValueError("the Dataset dropped its rows, on which trees vote: make it with free_raw_data=False")
        weight = dtrain.get_weight()
        label = _labels(dtrain, given_label, forest.text)
        super().__init__(forest, label, None if weight is None else np.asarray(weight, dtype=np.float64))
        refuse_other_sampling(forest.sampling)
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
            If the classes are not 0 to K − 1.
        """
        self._refuse_full_bags()
        forest = forest_of(lgb.Booster(model_str=booster_of(model).model_to_string()))
        _check_alike([forest.text, self.forest.text])
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
        self._votes: WalkedVotes | None = None
        self.first: lgb.Booster | None = None
        self.of_first = self.out_of_bag

    def add(self, n_trees: int) -> None:
        for _ in range(whole("n_trees", n_trees, at_least=1)):
            self._booster.update()
            if self._votes is None:
                self._votes = WalkedVotes(Voters(self._booster, self.threshold, self.groups), self._rows)
            else:
                self._votes.read()
        votes = self._votes
        assert votes is not None
        self.n_trees, self.out_of_bag = self.n_trees + n_trees, self.of_first.plus(votes.sums())
        if not votes.is_proven:
            raise InbagError("no tree has several leaves, whose counts prove bags: set a smaller min_data_in_leaf")

    def booster(self) -> Any:
        if self._votes is None:
            return copy.deepcopy(self.first)
        grown = loaded(self._booster.model_to_string())
        return grown if self.first is None else merged([self.first, grown])


def _labels(dtrain: lgb.Dataset, given: Any, text: ModelText) -> NDArray[Any]:
    """Class indices, or numbers; ``given`` to the Dataset."""
    label = np.asarray(dtrain.get_label(), dtype=np.float64)
    # LightGBM takes missing labels for zeros. It does not return labels that it read from a file.
    if (given is None and not label.any()) or np.isnan(np.asarray(0 if given is None else given, float)).any():
        raise ValueError("labels of the Dataset are missing: give lightgbm.Dataset(X, label), without NaN")
    return trained_on(text.truth(label), text.n_classes)


def _first_tree(params: dict[str, Any], dtrain: lgb.Dataset) -> LightGbmForest:
    """One tree, which bins the data and shows how LightGBM reads the parameters."""
    if value_of(params, "machines", None) is not None:
        raise InbagError("bags drawn by several machines cannot be rebuilt: leave out machines")
    try:
        return forest_of(lgb.train(params, dtrain, 1))
    except lgb.basic.LightGBMError as error:
        raise ValueError(f"LightGBM does not train a forest ({error}): change params or the Dataset") from error


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
    note = bags_note([block for forest in forests for block in forest.sampling.blocks])
    return loaded(with_trees(texts[0], [tree for text in texts for tree in trees_of(text)], note))


def _check_alike(texts: Sequence[ModelText]) -> None:
    """Raise `NotAForestError` if forests differ in data or parameters."""
    described = []
    for text in texts:
        of_training = without(text.parameters, *SEEDS, *_IGNORED, *_NOT_OF_TREES)
        own = {name: value for name, value in of_training.items() if not name.startswith(BAGS_NOTE)}
        described.append({**text.header, "tree_sizes": None, "pandas_categorical": text.categories, **own})
    refuse_differences(described)
