"""Trains LightGBM forests tree by tree on one binned `lightgbm.Dataset`, continues them, and merges them."""

from __future__ import annotations

import copy
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from rfsize.counting.groups import ALONE, Groups
from rfsize.counting.leaves import asked_about
from rfsize.counting.tallied import Tallied
from rfsize.counting.tally import out_of_bag
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.integrations.lightgbm.bags import cautions, refuse_other_samplers
from rfsize.integrations.lightgbm.forest import LightGbmForest, booster_of
from rfsize.integrations.lightgbm.merging import check_alike, loaded, merged
from rfsize.integrations.lightgbm.model_text import ForestText, are_soft
from rfsize.integrations.lightgbm.parameters import IGNORED, SEEDS, value_of, without
from rfsize.integrations.lightgbm.score_noise import LightGbmLink
from rfsize.integrations.lightgbm.training_rows import Training, rows_of
from rfsize.integrations.lightgbm.training_votes import TrainingVoteReader
from rfsize.integrations.lightgbm.walked_votes import WalkedVotes
from rfsize.models.bags import Layout
from rfsize.models.training import ForestInTraining, Trainer, trained_on
from rfsize.utils import matrix
from rfsize.utils.typing import Floats
from rfsize.utils.validation import share, whole
from rfsize.utils.warn import give
from rfsize.utils.words import how_many

_DRAWING_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed")


_FEW_TIES = 0.01  # without the rows, ties of this share of the votes go to the lowest class


_BALANCED = ("pos_bagging_fraction", "neg_bagging_fraction")


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
        If the parameters do not train a forest of independent trees, or the scores of its trees cannot be read.
    InbagError
        If the bags could not be rebuilt (GOSS, ``bagging_by_query``, several machines).
    ValueError
        If labels are missing or do not fit the objective.

    Warns
    -----
    SharedBagsWarning
        If ``bagging_freq`` > 1.
    SeedDependenceWarning
        If, because of how LightGBM samples features, forests of other seeds predict differently.
    """

    framework = "LightGBM"

    def __init__(self, params: dict[str, Any], dtrain: lgb.Dataset) -> None:
        params = without(copy.deepcopy(params), *IGNORED)
        _refuse_what_cannot_be_trained(params, dtrain)
        self._params = {**without(params, "bagging_freq"), "bagging_freq": value_of(params, "bagging_freq", 1)}
        self.fraction = float(value_of(params, "bagging_fraction", 1.0))
        self.seed = int(value_of(params, "seed", 0))
        self.dtrain = dtrain
        given = rows_of(dtrain)
        bags = self._with_bags(0.5 if self.fraction >= 1.0 else None, None)
        self._forest, self.label, self.weight = one_tree(bags, dtrain)
        self.rows = rows_of(dtrain) if given is None else given
        self.link, self.n_outputs = LightGbmLink.of(self._forest, params), self._forest.n_outputs
        refuse_other_samplers(self._forest.parameters)
        self.has_soft_labels = are_soft(self._forest, self.label)
        self.classes = np.arange(self._forest.n_classes)
        give(cautions(self._forest))

    def start(
        self, *, fraction: float | None = None, seed: int | None = None, threshold: float = 0.5, groups: Groups = ALONE
    ) -> LightGbmInTraining:
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
        if fraction is not None and self._is_balanced():
            raise ValueError(
                "the parameters name pos_/neg_bagging_fraction, and then bagging_fraction has no effect; leave "
                "one or the other out"
            )
        params = self._with_bags(None if fraction is None else share("fraction", fraction), seed)
        return LightGbmInTraining(self, params, threshold, groups)

    def with_fraction(self, fraction: float) -> dict[str, Any]:
        return self._with_bags(fraction, None)

    def start_after(self, number: int, *, threshold: float = 0.5, groups: Groups = ALONE) -> LightGbmInTraining:
        if number == 0:
            return self.start(threshold=threshold, groups=groups)
        used = [seed for seed, _ in self._forest.blocks()]
        for _ in range(number):
            params = self._drawing_otherwise(used)
            used.append(params["bagging_seed"])
        return LightGbmInTraining(self, params, threshold, groups)

    def resume(self, model: Any, *, threshold: float = 0.5, groups: Groups = ALONE) -> LightGbmInTraining:
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
        first = lgb.Booster(model_str=booster_of(model).model_to_string())
        adapter = LightGbmForest(first, casts_votes=False)
        forest = ForestText.read(first.model_to_string(), casts_votes=False)
        check_alike(forest, self._forest)
        if self.rows is None:
            raise ValueError(
                "adding trees takes the raw training rows, and the Dataset does not hold them; give a new "
                "lightgbm.Dataset of the rows, or one made with free_raw_data=False"
            )
        X = adapter.check(self.rows)
        bags = adapter.bags(Layout.alone(matrix.n_rows(X)), self.label, None, None, None)
        found = out_of_bag(adapter, bags, asked_about(adapter, X), threshold, groups)
        params = self._drawing_otherwise([seed for seed, _ in forest.blocks()])
        return LightGbmInTraining(self, params, threshold, groups, first, found)

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
            raise InbagError(
                "the parameters name no bagging_fraction below 1, so every tree would be trained on all rows, and "
                "no row would be out of bag; give bagging_fraction, such as 0.632"
            )

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
    """A LightGBM forest that takes more trees; see `ForestInTraining`."""

    def __init__(
        self,
        trainer: LightGbmTrainer,
        params: dict[str, Any],
        threshold: float,
        groups: Groups,
        first: lgb.Booster | None = None,
        of_first: Tallied | None = None,
    ) -> None:
        self.link, self.cut = trainer.link, float(logit(threshold)) / trainer.link.slope
        self.threshold, self.groups = threshold, groups
        self._params, self._rows = params, trainer.rows
        self._booster = lgb.Booster(params, trainer.dtrain)
        self._reader: TrainingVoteReader | WalkedVotes | None = None
        nothing = Tallied.nothing(len(trainer.label), len(trainer.classes), trainer.n_outputs)
        self._first, self._of_first = first, of_first or nothing
        self.out_of_bag = self._of_first
        self.n_trees = 0 if first is None else first.current_iteration()

    def add(self, n_trees: int) -> None:
        """Train ``n_trees`` more trees, prove some of their bags, and add up the outputs of all of them.

        All bags are proven leaf by leaf; if the Dataset did not keep its rows, those of the first three trees, of one
        tree in 128, and of the newest tree.

        Raises
        ------
        InbagError
            If the bags cannot be rebuilt and proven.
        """
        for _ in range(whole("n_trees", n_trees, at_least=1)):
            self._booster.update()
            if self._reader is None:
                training = Training.of(self._booster, self._params, threshold=self.threshold, groups=self.groups)
                rows = self._rows
                self._reader = (
                    TrainingVoteReader(training) if rows is None else WalkedVotes(training, rows, score_all=True)
                )
            else:
                self._reader.read()
            self.n_trees += 1
        reader = self._reader
        assert reader is not None
        tallied = counted(reader)
        if not reader.proven:
            raise InbagError(
                "no tree has more than one leaf, so no leaf count can prove which rows were in the bags; allow smaller "
                "leaves (min_data_in_leaf, min_gain_to_split)"
            )
        self.out_of_bag = self._of_first.plus(tallied)

    def booster(self) -> lgb.Booster:
        """All trees so far as one new booster."""
        if self._reader is None:
            if self._first is None:
                raise ValueError("the forest has no trees yet: call add first")
            return copy.deepcopy(self._first)
        grown = loaded(self._booster.model_to_string())
        return grown if self._first is None else merged([self._first, grown])


def counted(reader: TrainingVoteReader | WalkedVotes) -> Tallied:
    """What was counted of all trees so far; ``ValueError`` if rounding hides some of it."""
    if isinstance(reader, WalkedVotes):
        reader.count()
        return reader.tallied
    reader.prove_newest()
    if reader.n_bounded or reader.n_unsure > _FEW_TIES * reader.n_votes:
        raise ValueError(
            "LightGBM's rounded predictions hide the votes or the scores of single trees on "
            f"{how_many(max(1, reader.n_bounded), 'row')}, as happens where a class is rare. Let the Dataset keep its "
            "rows (free_raw_data=False), or train first, then rfsize.size(model, X, oob=True)"
        )
    return Tallied(reader.counts.T, reader.scores, reader.blocks)


def one_tree(params: dict[str, Any], dtrain: lgb.Dataset) -> tuple[ForestText, NDArray[Any], Floats | None]:
    """Train one tree, which bins the data and shows how LightGBM reads the parameters; return its text.

    The labels and the weights of the data follow. Labels are class indices, or numbers if trees cast no votes, or soft
    labels between 0 and 1 of a cross-entropy.

    Raises
    ------
    NotAForestError
        If the parameters do not train a random forest.
    ValueError
        If labels are missing or do not fit the objective.
    """
    are_labels_given = dtrain.label is not None
    if are_labels_given and np.isnan(np.asarray(dtrain.label, dtype=np.float64)).any():
        raise ValueError("some labels of the Dataset are missing (NaN), which LightGBM would take for zeros")
    forest = ForestText.read(lgb.train(params, dtrain, 1).model_to_string(), casts_votes=False)
    given = np.asarray(dtrain.get_label(), dtype=np.float64)
    label = forest.truth(given)
    if not are_soft(forest, label):
        label = trained_on(label, forest.n_classes)
    if not are_labels_given and not given.any():
        # LightGBM takes missing labels for zeros. It does not return labels that it read from a file.
        raise ValueError("the Dataset has no labels: give lightgbm.Dataset(X, label)")
    weight = dtrain.get_weight()
    return forest, label, None if weight is None else np.asarray(weight, dtype=np.float64)


def _refuse_what_cannot_be_trained(params: dict[str, Any], dtrain: lgb.Dataset) -> None:
    boosting = str(value_of(params, "boosting", "gbdt")).lower()
    if boosting not in {"rf", "random_forest"}:
        raise NotAForestError(
            f"the parameters train boosting='{boosting}', where each tree corrects the ones before it; T*(α) needs "
            "independent trees: give boosting='rf'"
        )
    if callable(value_of(params, "objective", None)):
        raise NotAForestError("LightGBM trains no random forest with a custom objective; name an objective of LightGBM")
    if int(value_of(params, "bagging_freq", 1)) < 1:
        raise InbagError("bagging_freq=0 trains every tree on all rows, so no row is out of bag; give bagging_freq=1")
    if value_of(params, "machines", None) is not None:
        raise InbagError("bags drawn by several machines cannot be rebuilt; leave out machines")
    samplers = {name: value_of(params, name, None) for name in ("data_sample_strategy", "tree_learner", "num_machines")}
    refuse_other_samplers({name: str(value).lower() for name, value in samplers.items() if value is not None})
    if dtrain.init_score is not None:
        raise ValueError("LightGBM trains no random forest from an init_score; make the Dataset without it")
