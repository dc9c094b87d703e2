"""Out-of-bag outputs of the forests of a cross-validation, each on the training rows of its fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from rfsize.adapters.registry import adapter_for
from rfsize.counting.cross_validation import folds_of, rows_in_memory
from rfsize.counting.evidence import Evidence, asked_out_of_bag
from rfsize.exceptions import InbagError, NotAForestError
from rfsize.utils import matrix
from rfsize.utils.validation import one_per_row
from rfsize.utils.words import how_many
from rfsize.voting.groups import ALONE, Groups


def out_of_bag_of_folds(models: Sequence[Any], X: Any, y: Any, cv: Any, groups: Any) -> list[Evidence]:
    """Out-of-bag outputs of trained models, each on the training rows of its fold.

    Raises
    ------
    NotAForestError
        If members are not trees: then nothing proves their training rows.
    ValueError
        If the numbers of folds and models differ, some models classify and others do not, or the rows are not in
        memory.
    InbagError
        If a model was not trained on the rows of its fold, or its bags cannot be proven; the message says which model.
    """
    rows = rows_in_memory(X, "folds are taken of rows in memory: give an array or a table")
    n_rows = matrix.n_rows(rows)
    label, names = one_per_row(y, n_rows), isinstance(groups, str)
    belong = ALONE if groups is None or names else Groups.given(groups, n_rows)
    classifies = _all_classify(models)
    folds = folds_of(cv, label, belong, stratified=classifies)
    if len(folds) != len(models):
        raise ValueError(
            f"there are {how_many(len(models), 'model')} and {how_many(len(folds), 'fold')}: give as cv the folds that "
            "the models were trained by, in their order"
        )
    found = []
    for number, (model, (train, _)) in enumerate(zip(models, folds, strict=True)):
        of_train = np.asarray(groups)[train] if belong is not ALONE else groups
        try:
            found.append(asked_out_of_bag(model, _safe_indexing(rows, train), label[train], of_train))
        except InbagError as error:
            raise InbagError(
                f"model {number} on the training rows of fold {number}: {error}. Give as cv the folds that the models "
                "were trained by, in their order"
            ) from error
    return found


def _all_classify(models: Sequence[Any]) -> bool:
    """Whether the models are classifiers; an error if only some are, or if their members are not trees."""
    adapters = [adapter_for(model, casts_votes=False) for model in models]
    if not all(adapter.are_trees for adapter in adapters):
        raise NotAForestError(
            "nothing proves which folds these models were trained on, because their members are no trees: score each "
            "by rfsize.oob_score(model, X_train, y_train) on its own training rows"
        )
    classify = [len(adapter.classes) > 0 for adapter in adapters]
    if len(set(classify)) > 1:
        raise ValueError(
            f"model {classify.index(True)} is a classifier and model {classify.index(False)} a regression forest: "
            "their scores have no common mean, so give the models of one cross-validation"
        )
    return classify[0]
