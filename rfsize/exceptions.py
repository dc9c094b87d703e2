"""All errors and warnings that rfsize defines.

Every error is an `RfsizeError`, which is a ``ValueError``. Every warning is an `RfsizeWarning`, which is a
``UserWarning``. So one ``except`` or one filter catches all, and the subclasses distinguish them.
"""


class RfsizeError(ValueError):
    """The base class of rfsize's own errors. A wrong argument raises a plain ``ValueError``."""


class RfsizeWarning(UserWarning):
    """The base class of rfsize's own warnings."""


class NotAForestError(RfsizeError):
    """The model is not a forest of independently trained trees, so the theory of T*(α) does not hold.

    Give a random forest, extremely randomised trees or bagging. Boosted trees do not qualify: each is trained on the
    errors of the trees before it.

    Examples
    --------
    >>> import rfsize
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> boosted = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    >>> rfsize.size(boosted, X)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.NotAForestError: each tree of this GradientBoostingClassifier corrects ...
    """


class InbagError(RfsizeError):
    """rfsize could not find out which rows each tree was trained on, so out-of-bag votes cannot be trusted.

    Give all training rows in the order of training, and whatever else the message asks for. Or size the forest on rows
    that it was not trained on.
    """


class FewVotesError(RfsizeError):
    """Too few trees may vote on the training rows, or on some kind of rows, for an out-of-bag result.

    Train more trees, use a smaller bagging fraction, or give rows that the forest was not trained on. If the rows of
    each tree were drawn by weight, ``class_weight="balanced_subsample"`` draws them evenly.

    Attributes
    ----------
    enough : int or None
        Number of trees that would be enough; None if it is not known, or if more trees do not help.
    """

    def __init__(self, message: str, *, enough: int | None = None) -> None:
        super().__init__(message)
        self.enough = enough


class ForestFileError(RfsizeError):
    """A file holds no compiled forest, or a damaged one.

    Compile the model again, and save it.
    """


class NotConvergedWarning(RfsizeWarning):
    """The forest has fewer trees than T*(α).

    Train more trees, or ask for a lower α.

    Examples
    --------
    Turn the warning into an error, so that you notice every forest that is too small:

    >>> import warnings
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    >>> warnings.simplefilter("error", rfsize.exceptions.NotConvergedWarning)
    >>> rfsize.truncate(forest, X, oob=True)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.NotConvergedWarning: ... train more trees or ask for a lower alpha
    """


class OpenSizeWarning(RfsizeWarning):
    """The forest is probably large enough, but the rows and trees leave open how many of its trees are.

    The interval of T*(α) ends beyond the trees at hand, or its upper end is more than four times its lower end. Give
    more rows, or train more trees.
    """


class NotCertifiedWarning(RfsizeWarning):
    """The rows do not certify that fewer trees than the forest has are enough.

    Give more rows that the forest was not trained on, or ask for a lower alpha.
    """


class TrainingRowsWarning(RfsizeWarning):
    """You gave training rows as if they were new to the forest.

    Trees agree more often on rows that they were trained on, so too few trees would seem enough. Give ``oob=True``, or
    rows that the forest was not trained on. rfsize recognises training rows by the bags (the rows that each tree was
    trained on), which it draws again and proves. It also recognises rows that begin with the first training rows, in
    the order of training, if trees that saw them answer them unlike the others. It cannot recognise training rows in
    another order, or members that are not trees.

    Examples
    --------
    >>> import warnings
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> warnings.simplefilter("error", rfsize.exceptions.TrainingRowsWarning)
    >>> rfsize.size(forest, X)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.TrainingRowsWarning: X are the 569 rows that the forest was trained on, ...
    """


class CopiesWarning(RfsizeWarning):
    """Training rows have copies, and ``groups`` does not say whether a tree may vote on a copy of a row that it saw.

    Give ``groups="copies"`` if rows were repeated or oversampled before training. Give ``groups="rows"`` if different
    cases just have equal values, as happens with few columns or common values.
    """


class UndefinedMetricError(RfsizeError):
    """A metric has no value on these rows and predictions, although both are valid.

    Rankings such as AUC need rows of both classes, and every metric needs rows with a weight above 0. Use another
    metric, or more rows.
    """


class ClippedLossWarning(RfsizeWarning):
    """Some rows get a probability of 0 for their class, and scikit-learn's clipping decides what they add to log loss.

    Some leaves hold rows of one class only, and give the other classes a probability of 0. Use the Brier score, or
    train trees with more rows in each leaf.
    """


class NoVotesWarning(RfsizeWarning):
    """Some training rows have no out-of-bag votes, because every tree was trained on them, or hardly any votes.

    Train more trees, or use a smaller bagging fraction. If all these rows belong to one class, a score of the
    predictions ignores that class.
    """


class LabelsOnlyWarning(RfsizeWarning):
    """The forest has enough trees for its labels, but too few for a rare class, its ranking or its probabilities.

    Size the forest for what you use: your metric, its probabilities, or labels with ``average="macro"``. The message
    names the call.
    """


class RareClassWarning(RfsizeWarning):
    """A stop table changes the labels of many rows of one class, although it changes few labels in all.

    Ask for ``average="macro"`` in `StopTable.calibrate`, which bounds each class separately, or for a higher alpha.
    """


class SharedBagsWarning(RfsizeWarning):
    """Several trees were trained on the same bag, so their votes are not independent draws.

    Train with ``bagging_freq=1`` in LightGBM, or ``tree_method="hist"`` in XGBoost: each tree then draws its own bag.
    """


class SeedDependenceWarning(RfsizeWarning):
    """LightGBM samples features in a way that makes forests with other seeds predict differently at any size.

    Train with the larger feature fraction that the message names.
    """


class UnknownColumnsWarning(RfsizeWarning):
    """Rows have columns that the forest was not trained on.

    rfsize ignores these columns, and finds the training columns by name. Leave the extra columns out yourself, or check
    that this is the forest that you mean.
    """


class ShrunkenScoresWarning(RfsizeWarning):
    """An XGBoost forest was trained with a learning rate other than 1, which distorts its predictions.

    Train with ``learning_rate=1``; XGBoost's default, 0.3, is for boosting. With 0.3, each tree counts only 0.3 times
    what it learned. Probabilities and numbers then stay near ``base_score``, the prediction before the first tree. The
    sizes that rfsize finds for them are too small. Labels stay the same only if ``base_score`` favours no class.

    Examples
    --------
    >>> import warnings
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import XGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = XGBClassifier(n_estimators=1, num_parallel_tree=30, subsample=0.632, n_jobs=1).fit(X, y)
    >>> warnings.simplefilter("error", rfsize.exceptions.ShrunkenScoresWarning)
    >>> rfsize.size(forest, X, oob=True, metric="probabilities", tolerance=0.01)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.ShrunkenScoresWarning: the forest was trained with learning_rate=0.3, ...
    """


class TableError(RfsizeError):
    """A stored stop table is damaged, or does not keep its promise.

    Build the table again, and save it.
    """
