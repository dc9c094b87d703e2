"""Rows that the two ways of voting, or two frameworks, would read differently."""

import datetime

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
import xgboost as xgb

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group

GROUP = Group(
    "The rows",
    "Rows are refused where they would be read otherwise than at training, or otherwise by the framework than by a "
    "compiled forest. The message names the column.",
)
_NAMES_KEPT = ("xgboost", "3.1")  # older models keep the codes of categories only
_NO_NUMBERS = "to the frameworks they are no numbers, or each takes them for another"


@GROUP.refuses(
    "no rows",
    ValueError,
    "X is missing: give rows the forest was not trained on",
    why="trees vote on rows",
    instead="validation rows, or the training rows with `oob=True`",
)
def no_rows(at: AtHand) -> object:
    return rfsize.size(at.model)


@GROUP.refuses(
    "an empty array",
    ValueError,
    "X has no rows",
    why="there is nothing to predict",
    instead="some rows",
)
def empty(at: AtHand) -> object:
    return rfsize.size(at.model, at.X[:0])


@GROUP.refuses(
    "a single row as a list of numbers",
    ValueError,
    "X must have two dimensions, rows and features, found shape (4,)",
    why="it could be one row or one feature",
    instead="`row.reshape(1, -1)`",
)
def one_row(at: AtHand) -> object:
    return rfsize.compile(at.model).predict(at.X[0])


@GROUP.refuses(
    "another number of features",
    ValueError,
    "X has 3 columns, but the forest was trained on 4 features",
    why="the trees would test other columns",
    instead="the columns of training",
)
def another_number_of_features(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X[:, :3]).votes


@GROUP.refuses(
    "columns of other names",
    ValueError,
    "the columns of X are not those of training: missing ['d'], unknown ['e']",
    why="the trees would test other columns",
    instead="the columns of training",
)
def other_names(at: AtHand) -> object:
    return rfsize.tree_outputs(at.named, at.frame.rename(columns={"d": "e"})).votes


@GROUP.refuses(
    "two columns of one name",
    ValueError,
    "X has columns of the same name: ['a']",
    why="nobody knows which of them is meant",
    instead="one name each",
)
def one_name_twice(at: AtHand) -> object:
    return rfsize.tree_outputs(at.named, at.frame.set_axis(list("aacd"), axis=1)).votes


@GROUP.refuses(
    "masked arrays",
    ValueError,
    "X is a masked array with masked values in the columns [1]",
    why="the frameworks look at the numbers below the mask",
    instead="`X.filled(np.nan)`",
)
def masked(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, np.ma.masked_array(at.X, np.tile([False, True, False, False], (400, 1)))).votes


@GROUP.refuses(
    "columns of dates",
    ValueError,
    "the columns 'a' (datetime64…) of X hold no numbers",
    why=_NO_NUMBERS,
    instead="numbers, such as the days since some date, at training too",
)
def dates(at: AtHand) -> object:
    return rfsize.tree_outputs(at.named, at.frame.assign(a=pd.Timestamp("2020-01-01"))).votes


@GROUP.refuses(
    "arrays of text, of dates, of complex numbers",
    ValueError,
    "X must hold numbers, found an array of <U",
    why=_NO_NUMBERS,
    instead="numbers",
)
def text(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, at.X.astype(str)).votes


@GROUP.refuses(
    "arrays of objects that are not all numbers",
    ValueError,
    "column 2 holds a date, in row 0",
    why=_NO_NUMBERS,
    instead="numbers; missing values as `np.nan`",
)
def objects(at: AtHand) -> object:
    X = at.X.astype(object)
    X[0, 2] = datetime.date(2020, 1, 1)
    return rfsize.tree_outputs(at.model, X).votes


@GROUP.refuses(
    "whole numbers that no double can hold, such as `10**400`",
    ValueError,
    "column 1 of X holds a whole number beyond double precision, in row 0",
    why="it would become infinite, or an error of NumPy's",
    instead="make it missing, or clip it",
)
def huge(at: AtHand) -> object:
    X = at.X.astype(object)
    X[0, 1] = 10**400
    return rfsize.tree_outputs(at.model, X).votes


@GROUP.refuses(
    "sparse matrices of complex numbers, or of text",
    ValueError,
    "X must hold numbers, found a sparse matrix of complex128",
    why=_NO_NUMBERS,
    instead="numbers; whole numbers are taken",
)
def sparse_objects(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, sp.csr_matrix(at.X.astype(complex))).votes


@GROUP.refuses(
    "Arrow columns of timestamps, of nothing, of lists",
    ValueError,
    "the Arrow columns 'a' (timestamp[s]) of X hold no numbers",
    why=_NO_NUMBERS,
    instead="numbers",
)
def arrow_timestamps(at: AtHand) -> object:
    return rfsize.tree_outputs(
        at.named, pa.table(at.frame).set_column(0, "a", pa.array([0] * 400, pa.timestamp("s")))
    ).votes


@GROUP.refuses(
    "Arrow columns of dictionaries",
    ValueError,
    "are dictionaries, which the frameworks do not take",
    why="their codes may differ from those at training",
    instead="`X.to_pandas()`",
)
def arrow_dictionaries(at: AtHand) -> object:
    return rfsize.tree_outputs(
        at.named, pa.table(at.frame).set_column(0, "a", pa.array(["x"] * 400).dictionary_encode())
    ).votes


@GROUP.refuses(
    "an Arrow table for a forest of scikit-learn",
    ValueError,
    "X is an Arrow table, which scikit-learn does not take",
    why="its own `predict` would refuse it",
    instead="`X.to_pandas()`",
)
def arrow_for_sklearn(at: AtHand) -> object:
    return rfsize.tree_outputs(at.forest, pa.table(at.frame)).votes


@GROUP.refuses(
    "a Polars frame that is not there yet",
    ValueError,
    "X is a Polars LazyFrame, whose rows are not there yet",
    why="you know whether it fits in memory",
    instead="`X.collect()`",
    needs=("polars",),
)
def lazy(at: AtHand) -> object:
    import polars

    return rfsize.tree_outputs(at.named, polars.from_pandas(at.frame).lazy()).votes


@GROUP.refuses(
    "a `QuantileDMatrix`",
    ValueError,
    "X holds binned rows, or rows in external memory (QuantileDMatrix), of which rfsize cannot take a part",
    why="it has bins in place of numbers",
    instead="an array, a DataFrame, or a `DMatrix`",
)
def quantile_dmatrix(at: AtHand) -> object:
    return rfsize.tree_outputs(at.booster, xgb.QuantileDMatrix(at.X, at.y)).votes


@GROUP.refuses(
    "a `DMatrix` in which what an estimator takes for missing is a number",
    ValueError,
    "X is a DMatrix in which -1 is a number, and the XGBClassifier was fitted with missing=-1",
    why="a `DMatrix` decides itself what is missing",
    instead="`xgboost.DMatrix(X, missing=-1)`, or an array",
)
def numbers_that_are_missing(at: AtHand) -> object:
    X = np.where(at.X < 0.0, -1.0, at.X)
    forest = xgb.XGBClassifier(n_estimators=1, num_parallel_tree=10, learning_rate=1, subsample=0.6, missing=-1.0)
    return rfsize.size(forest.fit(X, at.y), xgb.DMatrix(X))


@GROUP.refuses(
    "rows with a `base_margin`",
    ValueError,
    "X has a base_margin, which moves every tree's vote",
    why="each tree would vote for the class that the margin favours",
    instead="the rows without one",
)
def base_margin(at: AtHand) -> object:
    return rfsize.tree_outputs(at.booster, xgb.DMatrix(at.X, base_margin=np.ones(400))).votes


@GROUP.refuses(
    "a `DMatrix` for LightGBM, or for a compiled forest",
    ValueError,
    "X is an XGBoost DMatrix",
    why="only XGBoost can read it",
    instead="the rows as an array or DataFrame",
)
def dmatrix_elsewhere(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, xgb.DMatrix(at.X)).votes


@GROUP.refuses(
    "in a compiled forest, numbers where categories were",
    ValueError,
    "hold numbers, but were categorical at training",
    why="they would be taken for codes",
    instead="`.astype('category')`",
)
def numbers_for_categories(at: AtHand) -> object:
    frame = at.frame.assign(a=np.where(at.X[:, 0] > 0, "x", "y")).astype({"a": "category"})
    return rfsize.compile(at.lightgbm(frame, min_data_per_group=1)).predict(at.frame)


@GROUP.refuses(
    "in a compiled forest of XGBoost, a category that it never saw",
    ValueError,
    "holds the category 'new', which was not in the training data",
    why="XGBoost refuses it too",
    instead="make it missing, or train with it",
    needs=_NAMES_KEPT,
)
def a_new_category(at: AtHand) -> object:
    frame = at.frame.assign(a=np.where(at.X[:, 0] > 0, "x", "y")).astype({"a": "category"})
    fast = rfsize.compile(at.xgboost(frame))
    return fast.predict(at.frame.assign(a="new").astype({"a": "category"}))


@GROUP.refuses(
    "in a compiled forest of scikit-learn, infinite values, or missing ones that it was not trained with",
    ValueError,
    "which scikit-learn refuses for this model",
    why="its own `predict` would refuse them",
    instead="fill them in as at training",
)
def infinite(at: AtHand) -> object:
    return rfsize.compile(at.forest).predict(np.full((1, 4), np.inf))


@GROUP.refuses(
    "an `lgb.Dataset`, or something else that is no table",
    ValueError,
    "X is a lightgbm.basic.Dataset",
    why="rfsize cannot read its rows",
    instead="a NumPy array, a DataFrame, an Arrow table, a SciPy sparse matrix",
)
def a_dataset(at: AtHand) -> object:
    return rfsize.tree_outputs(at.model, lgb.Dataset(at.X)).votes


@GROUP.refuses(
    "more rows than `max_memory` holds",
    ValueError,
    "and max_memory allows 0.001 GB",
    why="votes and scores take memory for each row, and half a gigabyte besides",
    instead="fewer rows at a time, `max_rows=` of `rfsize.size`, or more memory",
)
def little_memory(at: AtHand) -> object:
    return rfsize.tree_outputs(at.forest, at.X_val, max_memory=1e6).votes
