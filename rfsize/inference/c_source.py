"""Writes a compiled forest as one C99 file, from the parts in rfsize/walking/forest.c.in.

Only splits are stored, tree by tree. A child is the number of a split of the same tree, or -1 - n for leaf n, so a walk
ends at a negative child. A tree has one leaf more than splits, so the place of its first split gives the place of its
first leaf. A tree of a single leaf is stored as one split with two such leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._files import written_whole
from rfsize._util import Int64s
from rfsize.inference.answers import settling_labels
from rfsize.models.conventions import Reading
from rfsize.models.ensemble import Missing
from rfsize.stopping.rules import Rule
from rfsize.walking import layout
from rfsize.walking.c_text import array, checked_name, lines, part, real, remark, smallest, text
from rfsize.walking.layout import Columns, PackedForest

_LARGEST_CATEGORY = 2.0**62  # larger categories do not fit a 64-bit integer

_EACH = "    for (int k = 0; k < SCORES; k++) {}\n"
_UNLESS_TAKEN = """    if (!is_taken(row)) {{
        {}
        return{};
    }}
"""
_LINKS = {
    "logistic": "score[k] = (sum)(1 / (sum)(1 + (sum)EXP(-score[k])));",
    "exp": "score[k] = (sum)EXP(score[k]);",
    "step": "score[k] = (sum)(score[k] > 0);",
    "softplus": "score[k] = (sum)log1p(EXP(score[k]));",
    "square": "score[k] = (sum)(score[k] * (score[k] < 0 ? -score[k] : score[k]));",
}


def write_c(path: Path, forest: PackedForest, stops: Rule | None, voting: str, name: str) -> None:
    """Write the file, whole or not at all.

    Raises
    ------
    ValueError
        If ``name`` is not an identifier, or the table is not for labels.
    """
    if stops is not None and stops.metric != "labels":
        raise ValueError(
            "the table stops where probabilities or scores are near enough, which is not written in C: compile the "
            "forest without it, or with a table of metric='labels'"
        )
    content = c_source(forest, stops, voting, checked_name(name))
    with written_whole(path) as partial:
        partial.write_bytes(content.encode("ascii"))


def c_source(forest: PackedForest, stops: Rule | None, voting: str, name: str) -> str:
    """The text of the C file."""
    of_classes, by_votes, taken = bool(forest.classes.size), voting == "hard", _refusal(forest)
    public = {"name": name, "n_classes": len(forest.classes), "last": len(forest.classes) - 1}
    answer = "class -1 after 0 trees, and NaN as probabilities" if of_classes else "NaN"
    refused = f" * A row that the framework of the forest refuses gets {answer}.\n" if taken else ""
    known = {"n_trees": forest.n_trees, "n_features": forest.n_features, "columns": _columns(forest)}
    about = part("about", **known, refused=refused)
    declared, predict = _of_predict(forest, public, bool(taken))
    code = [_trees(forest, votes=by_votes and forest.n_outputs == 1), _scores(forest), taken]
    if of_classes:
        declared = part("declared_of_classes", **public) + declared
        code += [_label(forest, stops, voting), _of_classes(forest, public, bool(taken))]
    body = "".join([*code, predict])
    needs_math = any(word in body for word in ("EXP(", "NAN", "INFINITY"))
    includes = f"#include <stddef.h>\n#include <stdint.h>\n{'#include <math.h>' * needs_math}\n"
    return f"{about}\n{includes}\n{declared}\n{body}"


def _columns(forest: PackedForest) -> str:
    """Lines of a comment: the names of the columns, where they have any, and the numbers of their categories."""
    conventions, numbers = forest.conventions, range(forest.n_features)
    places = conventions.category_features or () if conventions.categories else ()
    codes = dict(zip(places, conventions.categories, strict=False))
    if not (forest.feature_names or codes):
        return ""
    names = forest.feature_names or [""] * forest.n_features
    told = [" * The columns of a row, and the numbers of their categories:"]
    for at in numbers:
        known = ", ".join(f"{code} {remark(value)}" for code, value in enumerate(codes.get(at, ())))
        told.append(f" *   {at} {remark(names[at])}{f': {known}' if known else ''}")
    return "\n".join([*told, " *", ""])


_SAID = {
    "numbers": "The number that the forest predicts.",
    "probabilities": "The probability of class 1, as the model predicts it.",
    "class numbers": "The index of the row's class as a floating-point number, as the model predicts it.",
}


def _of_predict(forest: PackedForest, public: dict[str, object], refuses: bool) -> tuple[str, str]:
    """Declarations and code of the functions that return what the model's own ``predict`` returns."""
    gives = "labels" if forest.output == "labels" else "probabilities" if forest.predicts_each_class else "number"
    number = f"    return {public['name']}_predict_label(row);\n"
    if forest.output != "class numbers":
        refusal = "    if (!is_taken(row)) return NAN;\n" if refuses else ""
        number = f"    sum score[SCORES];\n{refusal}    predict_all(row, score);\n    return score[0];\n"
    known = {**public, "what": _SAID.get(forest.output, ""), "number": number}
    return part(f"declared_{gives}", **known), part(gives, **known)


def _of_classes(forest: PackedForest, public: dict[str, object], refuses: bool) -> str:
    single, by_class = (
        "    probabilities[0] = (sum)(1 - score[0]);\n    probabilities[1] = score[0];\n",
        _EACH.format("probabilities[k] = score[k];"),
    )
    no_probability = "for (int k = 0; k < PROBABILITIES; k++) probabilities[k] = NAN;"
    return part(
        "of_classes",
        **public,
        labels=",\n".join(f"    {text(label)}" for label in forest.classes.tolist()),
        unless_taken=_UNLESS_TAKEN.format("*n_used = 0;", " -1") if refuses else "",
        unless_taken_proba=_UNLESS_TAKEN.format(no_probability, "") if refuses else "",
        probabilities=single if forest.n_scores == 1 else by_class,
    )


def _label(forest: PackedForest, stops: Rule | None, voting: str) -> str:
    label_of, n_classes = settling_labels(forest, stops, voting).label_in_c(), len(forest.classes)
    if voting == "soft":
        return label_of
    if forest.n_outputs == 1:
        return part("vote_of_leaf", n_classes=n_classes) + label_of
    return part("vote_of_trees", n_classes=n_classes, alone=array("alone", forest.alone)) + label_of


def _refusal(forest: PackedForest) -> str:
    """The C function that says whether the framework accepts a row; empty if it accepts all rows."""
    reading = forest.conventions.reading
    if not reading.refuses_infinite:
        return ""
    if reading.refuses_missing:
        what, is_refused = "missing value, or number beyond single precision", "single - single != 0"
    else:
        what, is_refused = "number beyond single precision", "single == single && single - single != 0"
    return part("is_taken", what=what, is_refused=is_refused)


def _scores(forest: PackedForest) -> str:
    """The C functions that sum scores, and predict from the sums."""
    kind, link = forest.precision, forest.conventions.link
    single = kind == np.float32
    declared, linked = "", ""
    if link == "softmax":
        declared, linked = "    sum largest = 0;\n    double whole = 0.0;\n", part("softmax")
    elif link != "identity":
        linked = _EACH.format(_LINKS["logistic" if link == "one-vs-all" else link])
    return part(
        "scores",
        sum="float" if single else "double",
        trees=forest.n_trees,
        outputs=forest.n_outputs,
        features=forest.n_features,
        width=forest.trees.value.shape[1],
        scores=forest.n_scores,
        divisor=real(float(kind.type(forest.divisor)), single=single),
        slope=real(float(kind.type(forest.conventions.slope)), single=single),
        start=array("start", forest.start),
        exp=f"#define EXP {'expf' if single else 'exp'}\n" if "EXP(" in linked else "",
        declared=declared,
        linked=linked,
    )


# ---------------------------------------------------------------------------------------------------------
# Reading a row


class _Read(NamedTuple):
    """The columns of a quantised row, with categorical columns last, and the new place of each column."""

    columns: Columns
    place: Int64s
    n_numeric: int

    @property
    def n_numeric_columns(self) -> int:
        return int(self.columns.start[self.n_numeric])

    @property
    def highest(self) -> int:
        """The rank above all others, in the smallest type that holds it."""
        sizes, n = np.diff(self.columns.cut_start), self.n_numeric
        most = max(0, *sizes[:n].tolist(), *(sizes[n:] + 1).tolist())
        return 0xFF if most < 0xFF else layout.HIGHEST_RANK


def _read(columns: Columns) -> _Read:
    if columns.feature.size == 0:  # no tree splits, and C has no empty arrays
        classes, zero = np.array([0, 1]), np.zeros(1, dtype=np.int64)
        columns = Columns(zero, classes, np.zeros(1), classes, np.array([Missing.NAN_LEFT], dtype=np.uint8), zero)
    is_category = columns.missing[columns.start[:-1]] == Missing.CATEGORY
    order = np.argsort(is_category, kind="stable")
    of_cuts, cut_start = _taken(columns.cut_start, order)
    of_columns, start = _taken(columns.start, order)
    of_each = columns.missing[of_columns], columns.base[of_columns]
    reordered = Columns(columns.feature[order], cut_start, columns.cuts[of_cuts], start, *of_each)
    return _Read(reordered, np.argsort(of_columns), int(np.sum(~is_category)))


def _taken(start: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Reorder lists that lie one after another: the new order of their items, and the new start of each list."""
    index = np.concatenate([np.arange(start[tree], start[tree + 1]) for tree in order])
    return index, np.append(0, np.cumsum(np.diff(start)[order]))


def _cuts(read: _Read, single_precision: bool) -> NDArray[np.floating]:
    """Thresholds and categories, in single precision if comparisons then give the same results."""
    cuts, n_numeric = read.columns.cuts, int(read.columns.cut_start[read.n_numeric])
    with np.errstate(over="ignore"):
        single = cuts.astype(np.float32)
    # The next lower number in single precision: no such number lies between it and the threshold.
    below = np.where(single > cuts, np.nextafter(single, np.float32(-np.inf)), single)
    same = below == cuts
    if same.all() or (single_precision and same[n_numeric:].all()):
        return below if below.size else np.zeros(1, dtype=np.float32)
    return cuts


def _quantiser(read: _Read, reading: Reading) -> str:
    columns, cuts, n_numeric = read.columns, _cuts(read, reading.single_precision), read.n_numeric
    text = part(
        "read",
        cut="float" if cuts.dtype == np.float32 else "double",
        level=smallest(read.highest),
        numeric_entries=n_numeric,
        entries=columns.feature.size,
        columns=columns.missing.size,
        numeric_columns=read.n_numeric_columns,
        highest=read.highest,
        feature=array("feature", columns.feature),
        cut_start=array("cut_start", columns.cut_start),
        cuts=array("cuts", cuts, "cut"),
        column_start=array("column_start", columns.start),
        steps="\n    ".join(_steps(reading)),
    )
    steps = []
    if n_numeric:
        numeric = slice(0, read.n_numeric_columns)
        missing, base = array("missing", columns.missing[numeric]), array("base", columns.base[numeric])
        text += part("numbers", missing=missing, base=base, **{kind.name: int(kind) for kind in Missing})
        steps.append("quantise_numbers(row, q);")
    if n_numeric < columns.feature.size:
        lowest = real(max(reading.lowest_category, -_LARGEST_CATEGORY))
        text += part("categories", lowest=lowest, largest=real(_LARGEST_CATEGORY))
        steps.append("quantise_categories(row, q);")
    return text + part("quantise", steps="\n    ".join(steps))


def _steps(reading: Reading) -> list[str]:
    """The C statements that turn a value into the number that the framework reads."""
    steps = ["double number = (double)(float)value;" if reading.single_precision else "double number = value;"]
    if not np.isnan(reading.missing):
        steps.append(f"if (number == {real(reading.missing)}) return NAN;")
    if reading.zero_within >= 0.0:
        near = real(reading.zero_within)
        steps.append(f"if (number >= -{near} && number <= {near}) return 0.0;")
    return [*steps, "return number;"]


# ---------------------------------------------------------------------------------------------------------
# Trees


class _Splits(NamedTuple):
    """The splits of all trees, and the nodes of their leaves."""

    column: Int64s
    rank: Int64s
    left: Int64s
    right: Int64s
    tree_start: Int64s
    leaf: Int64s


def _splits(forest: PackedForest, read: _Read, rank: Int64s) -> _Splits:
    """The splits; ``rank`` is the rank that a node compares with, or the number of its set of categories."""
    nodes, start = forest.trees.nodes, forest.trees.tree_start
    is_leaf = nodes & layout.RANK_MASK == layout.HIGHEST_RANK
    tree = np.repeat(np.arange(start.size - 1), np.diff(start))
    leaves, splits = np.cumsum(is_leaf) - is_leaf, np.cumsum(~is_leaf) - ~is_leaf
    child = np.where(is_leaf, -1 - (leaves - leaves[start[tree]]), splits - splits[start[tree]])
    inner, leaf = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    left = (nodes[inner] >> layout.LEFT_SHIFT).astype(np.int64)
    column = (nodes[inner] >> layout.COLUMN_SHIFT & layout.COLUMN_MASK).astype(np.int64)
    n_splits = np.bincount(tree[inner], minlength=start.size - 1)
    alone = np.flatnonzero(n_splits == 0)
    before = (np.cumsum(n_splits) - n_splits)[alone]
    return _Splits(
        column=np.insert(read.place[column], before, 0),
        rank=np.insert(rank[inner], before, 0),
        left=np.insert(child[left], before, -1),
        right=np.insert(child[left + 1], before, -2),
        tree_start=np.cumsum(np.maximum(n_splits, 1)) - np.maximum(n_splits, 1),
        leaf=np.repeat(leaf, 1 + (n_splits[tree[leaf]] == 0)),
    )


def _sets(forest: PackedForest, read: _Read) -> tuple[Int64s, str]:
    """The ranks of all nodes, where categorical splits have the number of their set, and the sets in C."""
    trees, columns = forest.trees, read.columns
    rank = (trees.nodes & layout.RANK_MASK).astype(np.int64)
    if read.n_numeric == columns.feature.size:
        return rank, ""
    is_set = trees.nodes & layout.CATEGORICAL != 0
    column = read.place[(trees.nodes >> layout.COLUMN_SHIFT & layout.COLUMN_MASK).astype(np.int64)]
    sets, n_bytes = [], []
    for entry in range(read.n_numeric, columns.feature.size):
        size = int(columns.cut_start[entry + 1] - columns.cut_start[entry]) + 2
        of_column = np.flatnonzero(is_set & (column == columns.start[entry]))
        words = trees.bits[trees.bit_start[of_column, None] + np.arange(-(-size // 32))]
        distinct, which = np.unique(words.astype("<u4").view(np.uint8), axis=0, return_inverse=True)
        rank[of_column] = which.ravel()
        n_bytes.append(-(-size // 8))
        sets.append(distinct[:, : n_bytes[-1]].ravel())
    sizes = np.array([categories.size for categories in sets])
    starts, n_each = array("set_start", np.cumsum(sizes) - sizes), array("set_bytes", np.array(n_bytes))
    return rank, "\n" + array("sets", np.concatenate(sets)) + starts + n_each


def _walk(read: _Read, splits: _Splits, place_of_leaf: str) -> str:
    inner = zip(*(values.tolist() for values in splits[:4]), strict=True)
    items = [f"{{{{{left}, {right}}}, {rank}, {column}}}" for column, rank, left, right in inner]
    child = smallest(-1, *splits.left[[splits.left.argmin(), splits.left.argmax()]].tolist(), splits.right.min())
    is_number = "if (at->column < NUMERIC_COLUMNS) " if read.n_numeric < read.columns.feature.size else ""
    of_numbers = f"    {is_number}return q[at->column] > at->rank;\n" if read.n_numeric else ""
    return part(
        "walk",
        child=child,
        rank=smallest(int(splits.rank.max())),
        column=smallest(int(splits.column.max())),
        n_splits=len(items),
        splits=lines(items),
        tree_start=array("tree_start", splits.tree_start),
        decision=of_numbers + (part("in_a_set") if is_number else ""),
        place_of_leaf=place_of_leaf,
    )


# ---------------------------------------------------------------------------------------------------------
# Leaves


def _leaves(forest: PackedForest, leaf: Int64s, *, votes: bool) -> tuple[str, str]:
    """The scores of the leaves in C, with ``votes`` also their classes, and the C expression for the place of a leaf.

    Equal leaves share one entry if that takes less memory.
    """
    value = np.ascontiguousarray(forest.trees.value[leaf])
    with np.errstate(over="ignore"):
        single = value.astype(np.float32)
    kept = single if (single == value).all() else value
    content = kept.view(np.uint8).reshape(leaf.size, -1)
    if votes:
        content = np.concatenate([content, forest.trees.vote[leaf, None].view(np.uint8)], axis=1)
    as_one = np.ascontiguousarray(content).view(f"V{content.shape[1]}").ravel()
    _, first, which = np.unique(as_one, return_index=True, return_inverse=True)
    width = 1 if first.size <= 1 << 8 else 2 if first.size <= 1 << 16 else 4
    is_shorter = first.size * content.shape[1] + leaf.size * width < content.size
    shared = first if is_shorter else np.arange(leaf.size)
    arrays = "\n" + array("scores", kept[shared].ravel())
    if votes:
        arrays += array("leaf_class", forest.trees.vote[leaf[shared]])
    return (arrays + array("which", which.ravel()), "which[leaf]") if is_shorter else (arrays, "leaf")


def _trees(forest: PackedForest, *, votes: bool) -> str:
    """The C functions ``quantise`` and ``leaf_of``, and the scores of the leaves; with ``votes`` also their classes."""
    read = _read(forest.columns)
    rank, sets = _sets(forest, read)
    splits = _splits(forest, read, rank)
    leaves, place = _leaves(forest, splits.leaf, votes=votes)
    return _quantiser(read, forest.conventions.reading) + sets + leaves + _walk(read, splits, place)
