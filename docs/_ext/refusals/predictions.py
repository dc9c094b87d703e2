"""Out-of-bag predictions and scores that cannot be had."""

from sklearn.ensemble import BaggingClassifier
from sklearn.neighbors import KNeighborsClassifier

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group
from rfsize import FewVotesError, NotAForestError

GROUP = Group(
    "Out-of-bag predictions and scores",
    "`oob_predict`, `oob_predict_proba` and `oob_score` go by the trees that did not see the row, and need what "
    "`oob=True` needs.",
)


@GROUP.refuses(
    "labels of rows that every tree saw",
    FewVotesError,
    "no tree may be asked, since each saw them or others of their groups, and have no label: name one by fill=",
    why="any label would be made up; XGBoost puts two rows into every bag",
    instead="`fill=` with a label for them; or `oob_predict_proba`, which is NaN there",
)
def labels_of_all_rows(at: AtHand) -> object:
    return rfsize.oob_predict(at.booster, at.X)


@GROUP.refuses(
    "probabilities of a regression forest",
    ValueError,
    "a regression forest predicts no probabilities",
    why="it predicts numbers",
    instead="`oob_predict`",
)
def probabilities_of_numbers(at: AtHand) -> object:
    return rfsize.oob_predict_proba(at.lightgbm(y=at.X[:, 0], objective="regression"), at.X)


@GROUP.refuses(
    "probabilities of bagged learners that are no trees",
    NotAForestError,
    "only their votes are read, not the probabilities that predict averages",
    why="scikit-learn averages what rfsize does not read",
    instead="scikit-learn's own `oob_decision_function_`",
)
def probabilities_of_other_members(at: AtHand) -> object:
    return rfsize.oob_predict_proba(BaggingClassifier(KNeighborsClassifier()).fit(at.X, at.y), at.X)


@GROUP.refuses(
    "rows that were counted with `oob=False`",
    ValueError,
    "rows were counted with oob=False, which all trees were asked about",
    why="nobody knows which of the trees saw them",
    instead="`rfsize.count(model, X, y, oob=True)` with the training rows; or the model's own `predict`",
)
def counted_rows_given(at: AtHand) -> object:
    return rfsize.oob_predict(rfsize.count(at.model, at.X_val))


@GROUP.refuses(
    "rows and options beside what was counted",
    ValueError,
    "what rfsize.count counted is taken as it is: leave out X, seed",
    why="they say which trees to ask, and those have been asked",
    instead="`rfsize.count` with these options",
)
def options_beside_counted(at: AtHand) -> object:
    return rfsize.oob_predict_proba(rfsize.count(at.model, at.X, oob=True), at.X, seed=3)
