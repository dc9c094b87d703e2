"""A LightGBM booster in training, and the rows on which its trees vote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rfsize.counting.groups import ALONE, Groups
from rfsize.exceptions import InbagError
from rfsize.integrations.lightgbm.bags import LightGbmBags, rebuilt_bags
from rfsize.integrations.lightgbm.model_text import ForestText
from rfsize.integrations.lightgbm.parameters import bagging, exact_fractions
from rfsize.models.bags import Layout
from rfsize.models.model import checked_threshold
from rfsize.utils.pieces import pieces_of
from rfsize.utils.typing import Floats

OTHER_ROWS = "name a validation set: SizeCallback(validation='valid_0')"
"""What to do if bags cannot be rebuilt, for messages."""


@dataclass(frozen=True, eq=False)
class Training:
    """A booster that has just got its first tree.

    Attributes
    ----------
    booster : lightgbm.Booster
    params : dict
        The parameters of the training.
    forest : ForestText
        The forest of the first tree, with the bagging fractions to full precision.
    dataset : lightgbm.Dataset
        The rows on which trees vote.
    validation : str or None
        Name of the validation set that ``dataset`` is; None for the training rows, on which only trees vote that did
        not see them.
    bags : LightGbmBags or None
        The bags of the training rows; None for a validation set.
    threshold : float
        Probability above which a tree votes for class 1; two classes only.
    groups : Groups
        Training rows that belong together.
    """

    booster: lgb.Booster
    params: dict[str, Any]
    forest: ForestText
    dataset: lgb.Dataset
    validation: str | None
    bags: LightGbmBags | None
    threshold: float
    groups: Groups

    @classmethod
    def of(
        cls,
        booster: lgb.Booster,
        params: dict[str, Any],
        *,
        validation: str | None = None,
        threshold: float = 0.5,
        groups: Groups = ALONE,
    ) -> Training:
        """Check a booster that has its first tree.

        Raises
        ------
        NotAForestError
            If it is not a random forest.
        InbagError
            If the bags of the training rows cannot be rebuilt.
        ValueError
            If several machines train it, or the validation set is unknown, or the threshold does not fit.
        """
        forest = ForestText.read(booster.model_to_string(num_iteration=1), casts_votes=False)
        _refuse_several_machines(booster, forest.parameters)
        forest.parameters.update(exact_fractions(params))
        threshold = checked_threshold(threshold, casts_votes=forest.casts_votes, scores_each_class=forest.n_outputs > 1)
        if validation is not None:
            dataset = _validation_set(booster, validation)
            return cls(booster, dict(params), forest, dataset, validation, None, threshold, ALONE)
        dataset = booster.train_set
        positive = np.asarray(dataset.get_label()) > 0
        bags = rebuilt_bags(forest, Layout.alone(dataset.num_data()), positive)
        return cls(booster, dict(params), forest, dataset, None, bags, threshold, groups)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.dataset.num_data())

    @property
    def truth(self) -> NDArray[Any] | None:
        """The labels of the rows, as `ForestText.truth` reads them; None if the Dataset has none."""
        label = self.dataset.get_label()
        return None if label is None else self.forest.truth(np.asarray(label))

    @property
    def reads_training_rows(self) -> bool:
        """Whether the validation set holds the training rows: the same number of rows with the same predictions."""
        if self.validation is None or self.n_rows != self.booster.train_set.num_data():
            return False
        return np.allclose(self.predictions(), predictions_on(self.booster, None), rtol=1e-9, atol=1e-12)

    def predictions(self) -> Floats:
        """What all trees so far predict on the rows, shape (n_outputs, n_rows); a copy."""
        return predictions_on(self.booster, None if self.validation is None else (self.dataset, self.validation))

    def check_bagging(self, params: dict[str, Any]) -> None:
        """Raise `InbagError` if the bagging was changed during the training."""
        before, now = bagging(self.params), bagging(params)
        if self.bags is not None and before != now:
            raise InbagError(
                f"the bagging was changed during training, from {before} to {now}, and such bags cannot be rebuilt: "
                f"leave it as it is, or {OTHER_ROWS}"
            )


def predictions_on(booster: lgb.Booster, validation: tuple[lgb.Dataset, str] | None) -> Floats:
    """A copy of LightGBM's predictions on a validation set, or on the training rows, shape (n_outputs, n_rows)."""
    taken: list[Floats] = []

    def look(predicted: Floats, _: lgb.Dataset) -> tuple[str, float, bool]:
        taken.append(np.atleast_2d(predicted.T).copy())
        return "rfsize", 0.0, True

    # These public functions evaluate the metrics of the training too.
    if validation is None:
        booster.eval_train(look)
    else:
        booster.eval(*validation, look)
    return taken[0]


def rows_of(dataset: lgb.Dataset) -> Any:
    """The rows of a Dataset; None if it never had them, or dropped them when it was binned."""
    rows = dataset.data
    if rows is None:
        try:
            rows = dataset.get_data()
        except Exception:  # LightGBM raises this for a subset that is not binned yet
            return None
    if isinstance(rows, (str, Path)):  # a file that only LightGBM can read
        return None
    return rows if hasattr(rows, "shape") else pieces_of(rows)


def _refuse_several_machines(booster: lgb.Booster, parameters: dict[str, str]) -> None:
    """Raise ``ValueError`` if several machines train one forest, at the first tree on each of them."""
    machines = parameters.get("num_machines", "1")
    if machines != "1":
        # The error keeps the booster alive, and later trainings in this process would wait for its network.
        booster.free_network()
        raise ValueError(
            f"{machines} machines train this forest together, as lightgbm.dask has its workers do. SizeCallback "
            "would stop one of them and leave the others waiting for it: leave the callback out and take "
            "rfsize.dask.grow, or size the finished forest by rfsize.size"
        )


def _validation_set(booster: lgb.Booster, name: str) -> lgb.Dataset:
    names = list(booster.name_valid_sets)
    if name not in names:
        raise ValueError(
            f"validation names '{name}', but the training has {names or 'none'}; give a name from valid_names, or "
            "leave validation out to judge by the out-of-bag rows"
        )
    return booster.valid_sets[names.index(name)]
