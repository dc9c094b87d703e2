"""The trees of a forest as its framework stores them, in the framework-free form that `Forest` is laid out from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.utils.typing import Bools, Floats, Int64s


class Missing(IntEnum):
    """What a split does with a missing value: the kinds of splits that compiled loops tell apart."""

    AS_ZERO = 0  # a missing value counts as zero
    ZERO_RIGHT = 1  # missing values and zeros go right
    ZERO_LEFT = 2
    NAN_RIGHT = 3  # missing values go right
    NAN_LEFT = 4
    CATEGORY = 5  # the split tests membership of a set of categories


@dataclass(frozen=True)
class TreeTable:
    """All nodes of all trees, one after another; a tree's root comes first.

    Children are counted within their tree. Trees are ordered by member and, within a multiclass member, by
    class.

    Attributes
    ----------
    n_nodes : ndarray of int64, shape (n_trees,)
        Nodes of each tree.
    left, right : ndarray of int64, shape (n_nodes,)
        Children, -1 at leaves. A value of at most the threshold goes left, and so do the members of the set
        of a categorical split.
    feature : ndarray of int64, shape (n_nodes,)
        Column that an inner node tests.
    threshold : ndarray of float64, shape (n_nodes,)
        What an inner node compares it with.
    missing : ndarray of uint8, shape (n_nodes,)
        `Missing` of an inner node.
    missing_is_member : ndarray of bool, shape (n_categorical,)
        Whether a missing value goes left, for each categorical split in the order of the nodes.
    members : list of ndarray of int64
        Their sets of categories.
    value : ndarray of float32 or float64, shape (n_nodes, n_scores)
        At leaves, what the tree adds to the framework's own sum of scores, in the precision in which it adds: one
        score, or one for each class.
    vote : ndarray of uint16, shape (n_nodes,)
        At leaves, the class index voted for; empty where several trees cast a vote together.
    leaf : ndarray of int64, shape (n_nodes,), or None
        At leaves, their numbers in `Adapter.leaf_index`; None where these are the places of the nodes in their tree.
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
    """How a framework reads a value.

    Attributes
    ----------
    single_precision : bool
        Values are rounded to float32 before they are compared.
    missing : float
        Value that means missing, besides NaN.
    zero_within : float
        Values of at most this size are zero; negative where only zero is.
    lowest_category : float
        Values of at most this are no category; others are the category of their whole part.
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
        Its name, for messages.
    reading : Reading
        How it reads a value.
    link : {"logistic", "softmax", "one-vs-all", "identity", "exp", "square"}
        From scores to what is predicted, as in `Link`.
    slope : float
        What the scores are multiplied by before the link.
    start : tuple of float
        What the sum of each score starts with, before any tree; empty where that is zero.
    averages : bool
        The sum is divided by the number of trees, else the sum itself is the score.
    absent_is_missing : bool
        Entries that a sparse matrix does not store are missing, else zero.
    spaces_become_underscores : bool
        In the names of features.
    reads_by_column : bool
        Each column of a DataFrame is converted alone; else all of them to one type, such as double precision where one
        column is of it.
    unknown_category_is_missing : bool
        Categories not seen at training are missing values, else an error.
    refuses_infinite, refuses_missing : bool
        Numbers beyond single precision are an error, and missing values of a sparse matrix; and so are those of others.
    labels_of_scores : bool
        Of several classes the label is that of the largest score, and not of the largest probability, which is rounded.
    takes_codes : bool
        The model keeps no categories, and takes the codes of a DataFrame's own.
    categories : tuple of tuples
        Categories that DataFrame columns had at training, in the order of their codes.
    category_features : tuple of int or None
        Features they belong to; None where only the order of the columns is known.
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
