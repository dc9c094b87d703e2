"""Every error and warning that rfsize raises of its own accord.

All errors are `RfsizeError`, which is a ``ValueError``; all warnings are `RfsizeWarning`, which is a ``UserWarning``.
So one ``except`` or one filter is enough, and the subclasses tell them apart.
"""


class RfsizeError(ValueError):
    """The root of all errors of rfsize's own. A wrong argument is a plain ``ValueError``."""


class RfsizeWarning(UserWarning):
    """The root of all warnings of rfsize's own."""


class NotAForestError(RfsizeError):
    """The model is not a forest of independently trained trees, so the theory of T*(α) does not hold.

    Give a random forest, extremely randomised trees or bagging. Boosted trees are none: each is trained on the errors
    of those before it.

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
    rfsize.exceptions.NotAForestError: found a GradientBoostingClassifier, ...
    """


class InbagError(RfsizeError):
    """The in-bag rows could not be rebuilt and proven, so no out-of-bag vote can be trusted.

    Give all training rows in the order of training, and what else the message asks for; or size the forest on rows that
    it was not trained on.
    """


class FewVotesError(RfsizeError):
    """Too few trees may vote on training rows, or on those of one kind, for out-of-bag votes to tell what is asked.

    Train more trees or with a smaller bagging fraction, or give rows that the forest was not trained on. Where bags
    were drawn by weight, ``class_weight="balanced_subsample"`` draws them evenly.

    Attributes
    ----------
    enough : int or None
        Trees that would tell; None where that is not known, or more trees do not help.
    """

    def __init__(self, message: str, *, enough: int | None = None) -> None:
        super().__init__(message)
        self.enough = enough


class ForestFileError(RfsizeError):
    """A file does not hold a compiled forest, or a damaged one.

    Compile the model again, and save it.
    """


class NotConvergedWarning(RfsizeWarning):
    """The forest has fewer trees than T*(α).

    Train more trees, or ask for a lower α.

    Examples
    --------
    As an error, so that no forest that is too small goes unnoticed:

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


class NotCertifiedWarning(RfsizeWarning):
    """The rows certify no fewer trees than the forest has.

    Give more rows that the forest was not trained on, or ask for a lower alpha.
    """


class TrainingRowsWarning(RfsizeWarning):
    """Rows that are given as fresh ones are those that the forest was trained on, as the proof of its bags says.

    Trees agree on rows that they have seen: give ``oob=True``, or rows that the forest was not trained on.

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
    """Training rows have copies, and T* depends on whether trees that saw a copy of a row may vote on it.

    Say which it is: ``groups="copies"`` where rows were repeated or oversampled before the training, ``groups="rows"``
    where they come again by nature, as rows of few values and popular ones do.
    """


class UndefinedMetricError(RfsizeError):
    """A metric has no value on the rows and predictions at hand, though both are as they should be.

    The logarithmic loss is infinite where a row's class gets no probability, and rankings need rows of both classes:
    take another metric, more rows, or trees whose leaves hold more of them.
    """


class InfiniteLossWarning(RfsizeWarning):
    """The logarithmic loss is finite on the rows at hand, and may be infinite on others.

    Some leaves of the trees hold rows of one class only, and give the others no probability. Take the Brier score, or
    train trees whose leaves hold more rows.
    """


class NoVotesWarning(RfsizeWarning):
    """Some training rows have no out-of-bag prediction, because every tree saw them, or hardly any votes.

    Train more trees, or use a smaller bagging fraction. If all these rows are of one class, a score of the predictions
    ignores that class.
    """


class LabelsOnlyWarning(RfsizeWarning):
    """The forest has enough trees for its labels, but too few for a rare class, its ranking or its probabilities.

    Size it for what you use: your metric, its probabilities, or labels with ``average="macro"``. The message names the
    call.
    """


class RareClassWarning(RfsizeWarning):
    """A stop table changes the labels of many rows of one class, though of few rows in all.

    Ask for ``average="macro"`` in `StopTable.calibrate`, which bounds each class by itself, or for a higher alpha.
    """


class SharedBagsWarning(RfsizeWarning):
    """Several trees were trained on the same bag, so their votes are not independent draws.

    Train with ``bagging_freq=1`` in LightGBM, or ``tree_method="hist"`` in XGBoost: each tree then draws its own bag.
    """


class SeedDependenceWarning(RfsizeWarning):
    """Because of how LightGBM samples features, forests of other seeds predict differently, whatever their size.

    Train with the larger feature fraction that the message names.
    """


class UnknownColumnsWarning(RfsizeWarning):
    """Rows have columns that the forest was not trained on. They are ignored; training columns are found by name.

    Leave them out yourself, or check that you use the forest that you mean.
    """


class ShrunkenScoresWarning(RfsizeWarning):
    """An XGBoost forest was trained with another learning rate than 1, which squeezes what it predicts.

    Train with ``learning_rate=1``; XGBoost's default, 0.3, is for boosting. With 0.3, each tree counts only 0.3 times
    what it learned. Probabilities and numbers then stay near ``base_score``, the prediction before the first tree, and
    their sizes come out too small. Labels stay the same only if ``base_score`` favours no class.

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
    """A stored stop table is damaged, or does not keep what it promises.

    Build the table again, and save it.
    """
