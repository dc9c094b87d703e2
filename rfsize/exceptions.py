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
    >>> rfsize.size(boosted, X, oob=True)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.NotAForestError: this is a GradientBoostingClassifier, where each tree corrects ...
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


class FileError(RfsizeError):
    """A file holds no compiled forest or no stop table, or a damaged one; or a table does not keep its promise.

    Compile the model or build the table again, and save it.
    """


class NotConvergedWarning(RfsizeWarning):
    """The forest may have fewer trees than you ask for, or the rows do not show that it has enough.

    The forest has fewer trees than T*(α); or the interval of T*(α) ends beyond them, or its upper end is more than four
    times its lower end; or the rows certify no smaller forest. Train more trees, give more rows, or ask for a lower α.

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


class LabelsOnlyWarning(RfsizeWarning):
    """A result holds for the labels in all, but a rare class, the ranking or the probabilities would suffer.

    Ask for what you use: your metric, the probabilities, or ``average="macro"``, which counts each class alike. The
    message names the call.
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


class ForestWarning(RfsizeWarning):
    """How the forest was trained, or on what, limits what a result tells.

    - Its trees are not independent draws: several share a bag, or LightGBM samples features in a way that makes forests
      of other seeds predict differently at any size. Train as the message says.
    - XGBoost trained it with a learning rate other than 1 (its default, 0.3, is for boosting), so probabilities and
      numbers stay near ``base_score``. Train with ``learning_rate=1``.
    - Training rows have copies, and ``groups`` does not say whether a tree may vote on a copy of a row that it saw.
      Give ``groups="copies"`` or ``groups="rows"``.
    - Training rows have no out-of-bag votes, or hardly any. Train more trees, or use a smaller bagging fraction.
    - Leaves hold rows of one class only, and scikit-learn's clipping decides what their probability of 0 adds to log
      loss. Use the Brier score, or train trees with more rows in each leaf.
    - Rows have columns that it was not trained on, which are left out.

    Examples
    --------
    >>> import warnings
    >>> import rfsize
    >>> from sklearn.datasets import load_breast_cancer
    >>> from xgboost import XGBClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = XGBClassifier(n_estimators=1, num_parallel_tree=30, subsample=0.632, n_jobs=1).fit(X, y)
    >>> warnings.simplefilter("error", rfsize.exceptions.ForestWarning)
    >>> rfsize.size(forest, X, oob=True, metric="probabilities", tolerance=0.01)
    Traceback (most recent call last):
        ...
    rfsize.exceptions.ForestWarning: the forest was trained with learning_rate=0.3, ...
    """
