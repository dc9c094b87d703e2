"""Complaints of ``rfsize``, which are one line on standard error and the exit status 2."""

from __future__ import annotations

import pickle
import re

import numpy as np

from refusals.at_hand import AtHand
from refusals.entry import Group

GROUP = Group(
    "The command line",
    "What Python refuses, `rfsize` refuses in one line on standard error, with exit status 2. It reads files, so that "
    "there is a little more.",
    ending="exit status 2",
)


@GROUP.refuses(
    "a pickle as the model",
    ValueError,
    "is a pickle. rfsize reads no pickles, because reading one can run any program",
    why="loading a pickle can run any program",
    instead="LightGBM's text, XGBoost's JSON or UBJ, scikit-learn's models as skops files",
)
def a_pickle(at: AtHand) -> None:
    at.shell("size", at.file("model.pkl", pickle.dumps(at.forest)), at.table())


@GROUP.refuses(
    "a file that is cut off",
    ValueError,
    "cut.txt: the model is damaged: it breaks off",
    why="some of its trees are lost",
    instead="the whole file",
)
def cut_off(at: AtHand) -> None:
    at.shell("size", at.file("cut.txt", at.model.model_to_string()[:700]), at.table())


@GROUP.refuses(
    "a model in which something is out of place",
    ValueError,
    "split_feature of tree 0 holds something other than whole numbers from 0 to",
    why="LightGBM and XGBoost read and write beyond their arrays, and end the process",
    instead="the file as its framework wrote it",
)
def out_of_place(at: AtHand) -> None:
    text = at.model.model_to_string().replace("tree_sizes=", "without_sizes=")
    text = re.sub("(?<=\nsplit_feature=)[0-9]+", "2147483647", text, count=1)
    at.shell("size", at.file("odd.txt", text), at.table())


@GROUP.refuses(
    "a table of an unknown kind",
    ValueError,
    "is not a known kind of table",
    why="the ending names the kind",
    instead="`.csv`, `.parquet`, `.npy`, `.npz`",
)
def unknown_table(at: AtHand) -> None:
    at.shell("size", at.saved_model(), at.file("rows.xlsx"))


@GROUP.refuses(
    "an array of objects",
    ValueError,
    "Object arrays cannot be loaded",
    why="such an array is stored as a pickle, which can run any program",
    instead="an array of numbers",
)
def array_of_objects(at: AtHand) -> None:
    np.save(at.folder / "objects.npy", np.array([{}]), allow_pickle=True)
    at.shell("size", at.saved_model(), at.folder / "objects.npy")


@GROUP.refuses(
    "rows of CSV that are wider than the header",
    ValueError,
    "the header has 4 names, but rows have 5 cells",
    why="rfsize cannot tell which cell belongs to which column",
    instead="a name for every column, and no comma at the end of a line",
)
def wider_than_the_header(at: AtHand) -> None:
    at.shell("size", at.saved_model(), at.file("wide.csv", "a,b,c,d\n0,0,0,0,\n1,1,1,1,\n"))


@GROUP.refuses(
    "an array that claims more than its file holds",
    ValueError,
    "it claims an array of shape (400, 4), 12,800 bytes, and holds 12,799",
    why="the file is damaged, or asks for memory that it never fills",
    instead="the whole file",
)
def array_that_breaks_off(at: AtHand) -> None:
    np.save(at.folder / "rows.npy", at.X)
    at.shell("size", at.saved_model(), at.file("cut.npy", (at.folder / "rows.npy").read_bytes()[:-1]))


@GROUP.refuses(
    "a column of labels that the table does not have",
    ValueError,
    "has no column 'target'",
    why="it would be taken for a feature",
    instead="one of the columns that the message lists",
)
def no_target(at: AtHand) -> None:
    at.shell("size", at.saved_model(), at.table(), "--labels", "target")


@GROUP.refuses(
    "a table without one of the features",
    ValueError,
    "the columns of X are not those of training: missing ['a']",
    why="the trees would test other columns",
    instead="the columns of training; others are passed over",
)
def no_feature(at: AtHand) -> None:
    at.frame.drop(columns="a").to_csv(at.folder / "three.csv", index=False)
    at.shell("size", at.saved_model(), at.folder / "three.csv")


@GROUP.refuses(
    "rows without a label",
    ValueError,
    "no label on",
    why="they would be a class of their own",
    instead="leave them out of the table",
)
def no_label(at: AtHand) -> None:
    table = at.table("few.csv", level=[None, *["a", "b"] * 199, "a"])
    at.shell("grow", table, "--labels", "level", "--framework", "lightgbm", "-o", at.folder / "out.txt")


@GROUP.refuses(
    "parameters that are no JSON object",
    ValueError,
    "the parameters must be a JSON object",
    why="they are names and values",
    instead="`--params '{\"max_depth\": 8}'`",
)
def parameters(at: AtHand) -> None:
    at.shell(
        *("grow", at.table(), "--labels", "label", "--framework", "lightgbm"),
        *("--params", at.file("list.json", "[1]"), "-o", at.folder / "out.txt"),
    )


@GROUP.refuses(
    "a framework that nobody taught rfsize",
    ValueError,
    "rfsize knows no framework 'catboost'",
    why="there is nothing to train with",
    instead="one of those that the message lists",
)
def unknown_framework(at: AtHand) -> None:
    at.shell("grow", at.table(), "--labels", "label", "--framework", "catboost", "-o", at.folder / "out.txt")


@GROUP.refuses(
    "writing over a file that is read",
    ValueError,
    "is one of the files read; write to another one",
    why="the model would be lost",
    instead="another name",
)
def overwriting(at: AtHand) -> None:
    model = at.saved_model()
    at.shell("compile", model, "-o", model)


@GROUP.refuses(
    "writing into a folder that is read",
    ValueError,
    "all files of which are read; write to another folder",
    why="the next command would read the predictions as rows",
    instead="another folder",
)
def writing_among_the_rows(at: AtHand) -> None:
    parts = at.folder / "parts"
    parts.mkdir(exist_ok=True)
    at.frame.to_parquet(parts / "0.parquet")
    at.shell("predict", at.saved_model(), parts, "-o", parts / "predictions.parquet")


@GROUP.refuses(
    "predictions in another kind of file",
    ValueError,
    "predictions are written to a .csv or .parquet file",
    why="the ending names the kind",
    instead="`-o predictions.csv`",
)
def predictions(at: AtHand) -> None:
    at.shell("compile", at.saved_model(), "-o", at.folder / "fast.npz")
    at.shell("predict", at.folder / "fast.npz", at.table(), "-o", at.folder / "out.txt")


@GROUP.refuses(
    "a score of a report without out-of-bag rows",
    ValueError,
    "--score is the out-of-bag score, which takes --oob and --labels",
    why="the score is that of the training rows, by trees that did not see them",
    instead="both, or no `--score`",
)
def score_of_other_rows(at: AtHand) -> None:
    at.shell("report", at.saved_model(), at.table(), "--score", "auc", "-o", at.folder / "page.html")
