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
    n_classes, refuses = len(forest.classes), forest.conventions.reading.refuses_infinite
    known = {
        "name": name,
        "n_trees": forest.n_trees,
        "n_features": forest.n_features,
        "columns": _columns(forest),
        "of_classes": n_classes > 0,
        "n_classes": n_classes,
        "last": n_classes - 1,
        "labels": ",\n".join(f"    {text(label)}" for label in forest.classes.tolist()),
        "one_score": forest.n_scores == 1,
        "refuses": refuses,
        "refuses_missing": forest.conventions.reading.refuses_missing,
        "answer_of_refused": "class -1 after 0 trees, and NaN as probabilities" if n_classes else "NaN",
    }
    predicts_labels = forest.output in ("labels", "class numbers")
    predict = forest.output if predicts_labels or forest.predicts_each_class else "number"
    declared = part(f"declared {predict}", **known)
    code = [_trees(forest, votes=voting == "hard" and forest.n_outputs == 1), _scores(forest)]
    if refuses:
        code.append(part("is_taken", **known))
    if n_classes:
        declared = part("declared_of_classes", **known) + declared
        code += [settling_labels(forest, stops, voting).label_in_c(), part("of_classes", **known)]
    body = "".join([*code, part(predict, **known)])
    needs_math = any(word in body for word in ("EXP(", "NAN", "INFINITY"))
    includes = f"#include <stddef.h>\n#include <stdint.h>\n{'#include <math.h>' * needs_math}\n"
    return f"{part('about', **known)}\n{includes}\n{declared}\n{body}"


def _columns(forest: PackedForest) -> str:
    """Lines of a comment: the names of the columns, where they have any, and the numbers of their categories."""
    conventions = forest.conventions
    codes = dict(zip(conventions.category_features or (), conventions.categories, strict=False))
    if not (forest.feature_names or codes):
        return ""
    told = [" * The columns of a row, and the numbers of their categories:"]
    for at, name in enumerate(forest.feature_names or [""] * forest.n_features):
        known = ", ".join(f"{code} {remark(value)}" for code, value in enumerate(codes.get(at, ())))
        told.append(f" *   {at} {remark(name)}{f': {known}' if known else ''}")
    return "\n".join([*told, " *", ""])


def _scores(forest: PackedForest) -> str:
    """The C functions that sum scores, and predict from the sums."""
    link, single = forest.conventions.link, forest.precision == np.float32
    return part(
        "scores",
        sum="float" if single else "double",
        exp_function="expf" if single else "exp",
        uses_exp=link not in ("identity", "square", "step"),
        logistic=link in ("logistic", "one-vs-all"),
        **{flag: link == flag for flag in ("softmax", "exp", "step", "softplus", "square")},
        trees=forest.n_trees,
        outputs=forest.n_outputs,
        features=forest.n_features,
        width=forest.trees.value.shape[1],
        scores=forest.n_scores,
        divisor=real(forest.divisor, single=single),
        slope=real(forest.conventions.slope, single=single),
        start=array("start", forest.start),
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
    numeric = slice(0, read.n_numeric_columns)
    known = {
        "cut": "float" if cuts.dtype == np.float32 else "double",
        "level": smallest(read.highest),
        "numeric_entries": n_numeric,
        "entries": columns.feature.size,
        "columns": columns.missing.size,
        "numeric_columns": read.n_numeric_columns,
        "highest": read.highest,
        "feature": array("feature", columns.feature),
        "cut_start": array("cut_start", columns.cut_start),
        "cuts": array("cuts", cuts, "cut"),
        "column_start": array("column_start", columns.start),
        "single_precision": reading.single_precision,
        "has_missing": not np.isnan(reading.missing),
        "missing_value": real(reading.missing),
        "has_zeros": reading.zero_within >= 0.0,
        "zero": real(reading.zero_within),
        "has_numbers": n_numeric > 0,
        "has_categories": n_numeric < columns.feature.size,
    }
    code = part("read", **known)
    if known["has_numbers"]:
        missing, base = array("missing", columns.missing[numeric]), array("base", columns.base[numeric])
        code += part("numbers", missing=missing, base=base, **{kind.name: int(kind) for kind in Missing})
    if known["has_categories"]:
        lowest = real(max(reading.lowest_category, -_LARGEST_CATEGORY))
        code += part("categories", lowest=lowest, largest=real(_LARGEST_CATEGORY))
    return code + part("quantise", **known)


# ---------------------------------------------------------------------------------------------------------
# Trees


def _splits(forest: PackedForest, read: _Read, rank: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The splits of all trees, shape (n_splits, 4), the first of each tree, and the nodes of the leaves.

    A split has its children, then what it compares with: ``rank``, or the number of its set of categories, and its
    column.
    """
    nodes, start = forest.trees.nodes, forest.trees.tree_start
    is_leaf = nodes & layout.RANK_MASK == layout.HIGHEST_RANK
    tree = np.repeat(np.arange(start.size - 1), np.diff(start))
    leaves, splits = np.cumsum(is_leaf) - is_leaf, np.cumsum(~is_leaf) - ~is_leaf
    child = np.where(is_leaf, -1 - (leaves - leaves[start[tree]]), splits - splits[start[tree]])
    inner, leaf = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    left = (nodes[inner] >> layout.LEFT_SHIFT).astype(np.int64)
    column = (nodes[inner] >> layout.COLUMN_SHIFT & layout.COLUMN_MASK).astype(np.int64)
    n_splits = np.bincount(tree[inner], minlength=start.size - 1)
    first = np.cumsum(n_splits) - n_splits
    of_splits = np.stack([child[left], child[left + 1], rank[inner], read.place[column]], axis=1)
    of_splits = np.insert(of_splits, first[n_splits == 0], (-1, -2, 0, 0), axis=0)
    n_stored = np.maximum(n_splits, 1)
    return of_splits, np.cumsum(n_stored) - n_stored, np.repeat(leaf, 1 + (n_splits[tree[leaf]] == 0))


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


def _walk(read: _Read, splits: Int64s, tree_start: Int64s, place_of_leaf: str) -> str:
    most, has_categories = splits.max(axis=0).tolist(), read.n_numeric < read.columns.feature.size
    items = [f"{{{{{left}, {right}}}, {rank}, {column}}}" for left, right, rank, column in splits.tolist()]
    return part(
        "walk",
        child=smallest(-1, *splits[:, :2].min(axis=0).tolist(), most[0]),
        rank=smallest(most[2]),
        column=smallest(most[3]),
        n_splits=len(items),
        splits=lines(items),
        tree_start=array("tree_start", tree_start),
        has_categories=has_categories,
        has_both=has_categories and read.n_numeric > 0,
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
    splits, tree_start, leaf = _splits(forest, read, rank)
    leaves, place = _leaves(forest, leaf, votes=votes)
    return _quantiser(read, forest.conventions.reading) + sets + leaves + _walk(read, splits, tree_start, place)
