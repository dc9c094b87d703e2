"""How a framework reads a row and turns scores into predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple


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
    absent_is_missing : bool
        True if entries that a sparse matrix does not store are missing, False if they are zero.
    reads_by_column : bool
        True if each column of a DataFrame is converted by itself. False if all columns are converted to one type: a
        single column in double precision then makes all columns double.
    integers_in_double : bool
        True if arrays of whole numbers are read in double precision, False if in single precision.
    refuses_infinite : bool
        Whether numbers beyond single precision are an error, and missing values of a sparse matrix too.
    refuses_missing : bool
        Whether missing values of other rows are an error as well.
    """

    single_precision: bool
    missing: float = math.nan
    zero_within: float = -1.0
    lowest_category: float = -1.0
    absent_is_missing: bool = False
    reads_by_column: bool = False
    integers_in_double: bool = False
    refuses_infinite: bool = False
    refuses_missing: bool = False


@dataclass(frozen=True)
class Conventions:
    """How a framework reads a row and turns scores into predictions.

    Attributes
    ----------
    framework : str
        Name of the framework, for messages.
    reading : Reading
        How the framework reads a value.
    link : str
        Function that turns scores into predictions, one of `rfsize.models.link.LINKS`.
    slope : float
        Factor of the scores before the link.
    base : tuple of float
        Score before any tree is added, one for each score; empty if zero.
    averages : bool
        True if the score is base plus the mean of the leaf values, False if it is base plus their sum.
    divisor : float
        Divisor of the sum, if it is no mean: the sum of the weights in AdaBoost.
    spaces_become_underscores : bool
        Whether the framework replaces spaces in feature names by underscores.
    unknown_category_is_missing : bool
        True if categories not seen at training are missing values, False if they are an error.
    labels_of_scores : bool
        True if the label is the class of the largest score, or class 1 for a single score above ``cut``; SciPy and
        NumPy then turn scores into predictions. False if probabilities, which are rounded, decide.
    cut : float
        Score above which class 1 is predicted, if a single score decides and the threshold is 0.5.
    takes_codes : bool
        True if the model stores no categories and uses the category codes of the DataFrame that you give.
    codes_numbers : bool
        True if ``categories`` code columns of numbers and arrays too, False if their values are codes.
    categories : tuple of tuples
        Categories that DataFrame columns had at training, in the order of their codes.
    category_features : tuple of int or None
        Features that the categories belong to; None if only the order of the columns is known.
    coded_features : tuple of int
        Further features that were categorical at training; their categories are known by their codes only.
    unreadable : str or None
        Why rfsize cannot read rows as the framework does, and what to do; such trees are not compiled.
    """

    framework: str
    reading: Reading
    link: str
    slope: float = 1.0
    base: tuple[float, ...] = ()
    averages: bool = True
    divisor: float = 1.0
    spaces_become_underscores: bool = False
    unknown_category_is_missing: bool = False
    labels_of_scores: bool = False
    cut: float = 0.0
    takes_codes: bool = False
    codes_numbers: bool = False
    categories: tuple[tuple[Any, ...], ...] = ()
    category_features: tuple[int, ...] | None = ()
    coded_features: tuple[int, ...] = ()
    unreadable: str | None = None

    def divisor_of(self, n_trees: int) -> float:
        """The divisor of the sum of the leaf values of ``n_trees`` iterations."""
        return n_trees if self.averages else self.divisor
