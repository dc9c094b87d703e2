"""Trains XGBoost forests: blocks of parallel trees, each from its own seed, proven block by block and merged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from scipy.special import logit

from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.tallied import Tallied
from rfsize.counting.tally import out_of_bag
from rfsize.exceptions import InbagError, NotAForestError, ShrunkenScoresWarning
from rfsize.integrations.xgboost.bags import DrawnBags
from rfsize.integrations.xgboost.forest import HISTOGRAM_UPDATER, XgboostForest, booster_of
from rfsize.integrations.xgboost.learning_rate import shrinking
from rfsize.integrations.xgboost.merging import put_together, refuse_differences
from rfsize.integrations.xgboost.model_json import CONSTANT_HESSIAN, LINKS, VERSION, VOTING
from rfsize.models.bags import Layout
from rfsize.models.leaves import Answers
from rfsize.models.link import Link
from rfsize.models.training import ForestInTraining, Trainer, trained_on
from rfsize.utils.typing import Floats, Int64s
from rfsize.utils.validation import share, whole
from rfsize.utils.warn import warn

# The most cells of (rows × trees) of predicted leaves in memory. XGBoost predicts them in single precision.
_PREDICTED_CELLS = 1 << 26

_FIRST_WITH_QUANTILE_LEAVES = (3, 1)


def setting(text: str) -> Any:
    """A setting of a booster, as a number if it is one. XGBoost stores numbers in single precision."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(str(np.float32(text)))
    except ValueError:
        return text


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

    framework = "XGBoost"

    def __init__(self, params: dict[str, Any], dtrain: xgb.DMatrix) -> None:
        if not isinstance(params, dict):
            raise ValueError(f"params must be a dict, as xgboost.train takes it, found {type(params).__name__}")
        refuse_other_data(dtrain)
        self.dtrain = dtrain
        self.params = {name: value for name, value in params.items() if name != "num_parallel_tree"}
        if not self.params.keys() & {"eta", "learning_rate"}:
            self.params["eta"] = 1.0
        self.settings = understood(self.params, dtrain)
        _refuse_other_training(self.settings, self.params.get("booster", "gbtree"))
        objective = self.settings["objective"]["name"]
        self.casts_votes = objective in VOTING
        self.link = Link(LINKS[objective])
        n_classes = n_classes_of(self.settings)
        self.classes = np.arange(n_classes)
        self.n_outputs = n_classes if self.link.kind == "softmax" else 1
        one_for_all = self.settings["learner_train_param"]["multi_strategy"] == "multi_output_tree"
        self.trees_per_vote = 1 if one_for_all else self.n_outputs
        self.label, self.weight = truth_of(dtrain, n_classes)
        growing = self.settings["gradient_booster"]["tree_train_param"]
        shrunken = shrinking(float(growing["learning_rate"]), objective)
        if shrunken is not None:
            warn(shrunken.caveat, ShrunkenScoresWarning)
        self.fraction = float(setting(growing["subsample"]))
        self.seed = int(self.settings["generic_param"]["seed"])

    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5, groups: Groups = ALONE
    ) -> XgboostInTraining:
        fraction = self.fraction if fraction is None else share("fraction", fraction)
        if fraction == 1.0:
            raise InbagError("with subsample=1 no row is out of bag: give a subsample below 1, such as 0.632")
        seed = self.seed if seed is None else whole("seed", seed, at_least=0)
        return XgboostInTraining(self, fraction, seed, threshold, groups)

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        return {**self.params, "subsample": fraction}

    def start_after(self, number: int, *, threshold: float = 0.5, groups: Groups = ALONE) -> XgboostInTraining:
        seed = next(itertools.islice(_seeds(self.seed), number, None))
        return self.start(seed=seed, threshold=threshold, groups=groups)

    def resume(self, model: Any, *, threshold: float = 0.5, groups: Groups = ALONE) -> XgboostInTraining:
        booster = booster_of(model)
        forest = XgboostForest(booster, casts_votes=self.casts_votes)
        drawn = forest.drawn_bags()
        fraction = self.fraction if drawn is None else float(setting(str(drawn.subsample)))
        if np.float32(fraction) != np.float32(self.fraction):
            raise NotAForestError(
                f"the forest was trained with subsample={fraction:g}, and params say {self.fraction:g}: give the "
                "parameters of its training"
            )
        training = self.start(threshold=threshold, groups=groups)
        self._refuse_another(booster, training.block(1, self.seed))
        training.begin_with(booster.copy(), forgotten=drawn is None)
        return training

    def _refuse_another(self, booster: xgb.Booster, tree: xgb.Booster) -> None:
        """Raise `NotAForestError` if a forest was trained with other parameters or data than ``tree``."""
        try:
            refuse_differences([booster, tree])
        except NotAForestError as error:
            raise NotAForestError(
                f"the forest was not trained on these data with these parameters: {error} (forest 1 is what they train)"
            ) from error
        here, there = (
            json.loads(one.save_config())["learner"]["gradient_booster"]["tree_train_param"] for one in (tree, booster)
        )
        other = {name: there[name] for name in here.keys() & there.keys() if here[name] != there[name]}
        if float(there["subsample"]) < 1.0 and other:  # else the settings were lost in a file
            raise NotAForestError(f"the forest was trained with other parameters: {other}; give those to train more")


class XgboostInTraining(ForestInTraining):
    """A forest in blocks, each trained by XGBoost from its own seed."""

    def __init__(self, trainer: XgboostTrainer, fraction: float, seed: int, threshold: float, groups: Groups) -> None:
        n_rows = trainer.dtrain.num_row()
        self.threshold, self.cut, self.groups = threshold, float(logit(threshold)), groups
        self.link, self.n_trees = trainer.link, 0
        self.out_of_bag = Tallied.nothing(n_rows, len(trainer.classes), trainer.n_outputs)
        self._trainer = trainer
        self._params = {name: value for name, value in trainer.params.items() if name != "random_state"}
        self._params["subsample"] = fraction
        self._parts: list[tuple[xgb.Booster, Int64s]] = []
        self._drawn: list[DrawnBags] = []
        self._seeds = self._unused_seeds(seed)

    def add(self, n_trees: int) -> None:
        left = whole("n_trees", n_trees, at_least=1)
        most = max(1, _PREDICTED_CELLS // (self.out_of_bag.scores.asked.size * self._trainer.trees_per_vote))
        while left > 0:
            block = min(left, most)
            self._take(self.block(block, next(self._seeds)))
            left -= block

    def booster(self) -> xgb.Booster:
        if not self._parts:
            raise ValueError("the forest has no trees yet: add some")
        return put_together(self._parts, self._drawn)

    def block(self, n_trees: int, seed: int) -> xgb.Booster:
        """One round of parallel trees."""
        return xgb.train({**self._params, "seed": seed, "num_parallel_tree": n_trees}, self._trainer.dtrain, 1)

    def begin_with(self, booster: xgb.Booster, *, forgotten: bool) -> None:
        """Take the trees of a finished forest; the parameters replace bag settings that it has ``forgotten``."""
        if not forgotten:
            self._take(booster)
            return
        try:
            self._take(booster, seed=self._trainer.seed, subsample=self._trainer.fraction)
        except InbagError as error:
            raise InbagError(
                "the forest was loaded from a file, which does not store its settings; give params with the seed "
                f"and subsample of its training, or keep boosters as pickles. With those of params, {error}"
            ) from error

    def _take(self, booster: xgb.Booster, *, seed: int | None = None, subsample: float | None = None) -> None:
        trainer = self._trainer
        forest = XgboostForest(booster, casts_votes=trainer.casts_votes)
        layout = Layout.alone(trainer.dtrain.num_row())
        bags = forest.bags(layout, trainer.label, trainer.weight, seed, subsample)
        # All rows at once, because a QuantileDMatrix cannot be cut into blocks of rows.
        predicted = booster.predict(trainer.dtrain, pred_leaf=True)

        def ask(start: int, stop: int, _: Any) -> Answers:
            return Answers(forest.arranged(predicted[start:stop]) + forest.leaves.offset, forest.leaves)

        self.out_of_bag = self.out_of_bag.plus(out_of_bag(forest, bags, ask, self.threshold, self.groups))
        self.n_trees += forest.n_trees
        self._parts.append((booster, forest.tree_of))
        self._drawn.append(bags.drawn)

    def _unused_seeds(self, seed: int) -> Iterator[int]:
        """New seeds, without those of the trees that the forest already has."""
        for candidate in _seeds(seed):
            # One of these outputs seeds the first bag; which one depends on the version of XGBoost.
            first = np.random.RandomState(candidate % 2**32).randint(0, 2**32, size=2, dtype=np.uint32)
            if not any(np.intersect1d(first, drawn.tree_seed).size for drawn in self._drawn):
                yield candidate


def _seeds(seed: int) -> Iterator[int]:
    """The seed itself, then others derived from it."""
    derived = (np.random.SeedSequence([seed % 2**64, block]).generate_state(1)[0] for block in itertools.count(1))
    return itertools.chain([seed], map(int, derived))


def refuse_other_data(dtrain: Any) -> None:
    if not isinstance(dtrain, xgb.DMatrix):
        raise ValueError(f"dtrain must be an xgboost.DMatrix or QuantileDMatrix, found {type(dtrain).__name__}")
    if isinstance(dtrain, xgb.QuantileDMatrix) and VERSION < _FIRST_WITH_QUANTILE_LEAVES:
        raise ValueError(
            f"XGBoost {xgb.__version__} does not say which leaves the rows of a QuantileDMatrix reach; give a "
            "DMatrix, or install XGBoost 3.1 or newer"
        )
    if dtrain.get_base_margin().size:
        raise ValueError("dtrain has a base_margin, which moves every tree's vote; give the rows without one")


def _refuse_other_training(settings: dict[str, Any], kind: str) -> None:
    """Raise an error if the parameters, as XGBoost reads them, give no forest with bags that can be rebuilt."""
    objective = settings["objective"]["name"]
    if kind != "gbtree":
        raise NotAForestError(f"params say booster={kind!r}, which makes no independent trees: leave booster out")
    if objective not in CONSTANT_HESSIAN:
        raise NotAForestError(
            f"params say objective={objective!r}, whose trees rfsize cannot read; train with one of "
            f"{', '.join(sorted(CONSTANT_HESSIAN))}"
        )
    updater = settings["gradient_booster"]["gbtree_train_param"]["updater"]
    if updater == "grow_histmaker":
        raise InbagError("tree_method='approx' gives all parallel trees the same bag: train with tree_method='hist'")
    if updater != HISTOGRAM_UPDATER or settings["generic_param"]["device"] != "cpu":
        raise InbagError(
            f"the bags that XGBoost's {updater!r} draws on device={settings['generic_param']['device']!r} cannot be "
            "rebuilt: train with tree_method='hist' and device='cpu'"
        )
    grown = settings["gradient_booster"]["tree_train_param"]
    if grown["sampling_method"] != "uniform":
        raise InbagError("bags sampled by gradient cannot be rebuilt: train with sampling_method='uniform'")
    if settings["generic_param"]["seed_per_iteration"] != "0":
        raise InbagError("bags of seed_per_iteration cannot be rebuilt: leave it out")
    weight = float(settings["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1))
    if weight != 1.0 and objective not in VOTING:
        raise NotAForestError(
            f"scale_pos_weight={weight:g} is for classes, and objective={objective!r} has none: leave it out"
        )


def understood(params: dict[str, Any], dtrain: xgb.DMatrix) -> dict[str, Any]:
    """The parameters as XGBoost reads them, with all aliases and defaults resolved."""
    settings: dict[str, Any] = json.loads(xgb.Booster(params, [dtrain]).save_config())["learner"]
    return settings


def n_classes_of(settings: dict[str, Any]) -> int:
    """Number of classes, by the parameters as XGBoost reads them; 0 for a regression."""
    is_voting = settings["objective"]["name"] in VOTING
    return max(2, int(settings["learner_model_param"]["num_class"])) if is_voting else 0


def truth_of(dtrain: xgb.DMatrix, n_classes: int) -> tuple[NDArray[Any], Floats | None]:
    """Training labels, which are class indices, or numbers for a regression; and the weights, if there are any."""
    label, weight = dtrain.get_label(), dtrain.get_weight()
    if label.shape != (dtrain.num_row(),):
        raise ValueError(
            f"dtrain must have one label for each of its {dtrain.num_row()} rows, found labels of shape {label.shape}"
        )
    return trained_on(label, n_classes), weight.astype(np.float64) if weight.size else None
