"""The trees of a forest in one form for all frameworks; rfsize compiles a `Forest` from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.columns import Categorical
from rfsize.utils.typing import Bools, Floats, Int64s


class Missing(IntEnum):
    """Kind of a split, by what it does with missing values; compiled loops distinguish these kinds."""

    AS_ZERO = 0  # a missing value counts as zero
    ZERO_RIGHT = 1  # missing values and zeros go right
    ZERO_LEFT = 2
    NAN_RIGHT = 3  # missing values go right
    NAN_LEFT = 4
    CATEGORY = 5  # the split tests membership of a set of categories


@dataclass(frozen=True)
class TreeTable:
    """All nodes of all trees, tree after tree; each tree begins with its root.

    Children are numbered within their tree. Trees are ordered by member and, within a multiclass member, by class.

    Attributes
    ----------
    n_nodes : ndarray of int64, shape (n_trees,)
        Number of nodes of each tree.
    left, right : ndarray of int64, shape (n_nodes,)
        Children, -1 at leaves. A value of at most the threshold goes left. At a categorical split, the categories in
        the split's set go left.
    feature : ndarray of int64, shape (n_nodes,)
        Column that an inner node tests.
    threshold : ndarray of float64, shape (n_nodes,)
        Value that an inner node compares the column with.
    missing : ndarray of uint8, shape (n_nodes,)
        Kind of an inner node's split, see `Missing`.
    missing_is_member : ndarray of bool, shape (n_categorical,)
        Whether a missing value goes left, for each categorical split in the order of the nodes.
    members : list of ndarray of int64
        Set of categories of each categorical split, in the same order.
    value : ndarray of float32 or float64, shape (n_nodes, n_scores)
        At leaves, what the tree adds to the framework's sum of scores: one score, or one for each class. The precision
        is the one in which the framework adds.
    vote : ndarray of uint16, shape (n_nodes,)
        At leaves, the class index that the tree votes for; empty if several trees cast one vote together.
    leaf : ndarray of int64, shape (n_nodes,), or None
        At leaves, the leaf's number in `Adapter.leaf_index`; None if that is the node's number in its tree.
    """

    n_nodes: Int64s
    left: Int64s
    right: Int64s
    feature: Int64s
    threshold: Floats
    missing: NDArray[np.uint8]
    missing_is_member: Bools
    members: list[Int64s]
    value: NDArray[np.floating[Any]]
    vote: NDArray[np.uint16]
    leaf: Int64s | None = None


class Reading(NamedTuple):
    """How a framework reads a value of a row.

    Attributes
    ----------
    single_precision : bool
        Whether the framework rounds values to float32 before it compares them.
    missing : float
        Value that means missing, besides NaN.
    zero_within : float
        Values of at most this size count as zero; negative if only zero does.
    lowest_category : float
        Values up to this one are no category. The category of a higher value is its whole part.
    """

    single_precision: bool
    missing: float
    zero_within: float
    lowest_category: float


@dataclass(frozen=True)
class Conventions:
    """How a framework reads a row and turns scores into probabilities.

    Attributes
    ----------
    framework : str
        Name of the framework, for messages.
    reading : Reading
        How the framework reads a value.
    link : {"logistic", "softmax", "one-vs-all", "identity", "exp", "square"}
        Function that turns scores into predictions, as in `Link`.
    slope : float
        Factor of the scores before the link.
    start : tuple of float
        Sum of each score before any tree is added; empty if zero.
    averages : bool
        True if the score is the sum divided by the number of trees, False if it is the sum.
    absent_is_missing : bool
        True if entries that a sparse matrix does not store are missing, False if they are zero.
    spaces_become_underscores : bool
        Whether the framework replaces spaces in feature names by underscores.
    reads_by_column : bool
        True if each column of a DataFrame is converted by itself. False if all columns are converted to one type: a
        single column in double precision then makes all columns double.
    unknown_category_is_missing : bool
        True if categories not seen at training are missing values, False if they are an error.
    refuses_infinite : bool
        Whether numbers beyond single precision are an error, and missing values of a sparse matrix too.
    refuses_missing : bool
        Whether missing values of other rows are an error as well.
    labels_of_scores : bool
        With several classes, True if the label is the class of the largest score, and probabilities are made by
        `scipy.special.softmax`. False if the label is the class of the largest probability, which is rounded.
    takes_codes : bool
        True if the model stores no categories and uses the category codes of the DataFrame that you give.
    categories : tuple of tuples
        Categories that DataFrame columns had at training, in the order of their codes.
    category_features : tuple of int or None
        Features that the categories belong to; None if only the order of the columns is known.
    coded_features : tuple of int
        Further features that were categorical at training; their categories are known by their codes only.
    """

    framework: str
    reading: Reading
    link: str
    slope: float = 1.0
    start: tuple[float, ...] = ()
    averages: bool = True
    absent_is_missing: bool = False
    spaces_become_underscores: bool = False
    reads_by_column: bool = False
    unknown_category_is_missing: bool = False
    refuses_infinite: bool = False
    refuses_missing: bool = False
    labels_of_scores: bool = False
    takes_codes: bool = False
    categories: tuple[tuple[Any, ...], ...] = ()
    category_features: tuple[int, ...] | None = ()
    coded_features: tuple[int, ...] = ()

    @property
    def categorical(self) -> Categorical:
        """The features that were categorical at training."""
        return Categorical(self.category_features, len(self.categories), self.coded_features, self.takes_codes)
