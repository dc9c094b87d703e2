"""Importances that cannot be had."""

import lightgbm as lgb
import numpy as np
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group
from rfsize.exceptions import NotAForestError

GROUP = Group(
    "Importances",
    "`oob_importance` goes by the trees that did not see the row, and needs what `oob_score` needs. Rows go down the "
    "trees with the columns of other rows.",
)


def _forest(at: AtHand) -> RandomForestClassifier:
    return RandomForestClassifier(40, max_depth=3, random_state=0).fit(at.X, at.y)


@GROUP.refuses(
    "a column that is not there",
    ValueError,
    "columns has 'x4', which is no column: the forest has 4 columns, 'x0' to 'x3'",
    why="there is nothing to permute",
    instead="names of columns as in `X`; of an array their numbers, or `x0`, `x1`, …",
)
def unknown_column(at: AtHand) -> object:
    return rfsize.oob_importance(_forest(at), at.X, at.y, columns=["x4"])


@GROUP.refuses(
    "a column in two sets",
    ValueError,
    "column 'x1' is in two sets, 'a' and 'b': leave it out of one, or make two calls",
    why="one pass permutes each column once",
    instead="a call for each set",
)
def column_in_two_sets(at: AtHand) -> object:
    return rfsize.oob_importance(_forest(at), at.X, at.y, columns={"a": [0, 1], "b": [1, 2]})


@GROUP.refuses(
    "rows that lie in pieces, or on workers",
    ValueError,
    "the rows are read in pieces, and shuffling a column takes all rows at once",
    why="a shuffled value may come from any other piece",
    instead="the rows in memory, as an array or a DataFrame",
)
def rows_in_pieces(at: AtHand) -> object:
    class Slices(lgb.Sequence):
        batch_size = 100

        def __getitem__(self, index: object) -> np.ndarray:
            return at.X[index]

        def __len__(self) -> int:
            return len(at.X)

    return rfsize.oob_importance(at.lightgbm(n_trees=40), [Slices()], at.y)


@GROUP.refuses(
    "a function that does not say whether larger values are better",
    ValueError,
    "does not say whether larger values are better: give a scorer",
    why="rfsize must know which direction is worse",
    instead="`sklearn.metrics.make_scorer(..., greater_is_better=...)`",
)
def function_without_direction(at: AtHand) -> object:
    return rfsize.oob_importance(_forest(at), at.X, at.y, metric=lambda y, p: float(np.mean(p[y == 1])))


@GROUP.refuses(
    "bagged learners that are no trees",
    NotAForestError,
    "importances send rows down trees, and the members of this ensemble are no trees",
    why="rfsize knows from a tree's splits which rows a shuffled column can move",
    instead="`sklearn.inspection.permutation_importance` with held-out rows",
)
def members_that_are_no_trees(at: AtHand) -> object:
    return rfsize.oob_importance(BaggingClassifier(KNeighborsClassifier(), 40).fit(at.X, at.y), at.X, at.y)


@GROUP.refuses(
    "the order of one column",
    ValueError,
    "one column has no order: give at least two columns or sets",
    why="there is nothing to compare it with",
    instead="two columns or sets",
)
def order_of_one_column(at: AtHand) -> object:
    return rfsize.oob_importance(_forest(at), at.X, at.y, columns=["x0"]).size()


@GROUP.refuses(
    "`size` by importances",
    ValueError,
    "metric='importance' takes more than the trees' predictions",
    why="the columns must be permuted first",
    instead="`rfsize.oob_importance(model, X, y).size(top=10)`",
)
def size_by_importances(at: AtHand) -> object:
    return rfsize.size(at.model, at.X, at.y, oob=True, metric="importance")
