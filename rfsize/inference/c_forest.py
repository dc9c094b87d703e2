"""The trees of a `Forest` and what they read of a row, in C99.

Only splits are laid out, tree by tree. A child is the number of a split of the same tree, or of a leaf n, as -1 - n;
so a walk ends where a child is negative. A tree has one leaf more than splits: where its splits begin tells where its
leaves do. A tree of a single leaf has a split between two like it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize.adapters.trees import Missing, Reading
from rfsize.utils.c_literals import array, lines, real, smallest
from rfsize.utils.typing import Int64s
from rfsize.walking import layout
from rfsize.walking.layout import Columns, Forest

_LARGEST_CATEGORY = 2.0**62  # beyond which no whole number holds it

# ---------------------------------------------------------------------------------------------------------
# Reading a row


class _Read(NamedTuple):
    """The columns of a quantised row, those of categories last, and the new place of each."""

    columns: Columns
    place: Int64s
    n_numeric: int

    @property
    def n_numeric_columns(self) -> int:
        return int(self.columns.start[self.n_numeric])

    @property
    def highest(self) -> int:
        """The rank beyond all, in as few bytes as can be."""
        sizes, n = np.diff(self.columns.cut_start), self.n_numeric
        most = max(0, *sizes[:n].tolist(), *(sizes[n:] + 1).tolist())
        return 0xFF if most < 0xFF else layout.HIGHEST_RANK


def _read(columns: Columns) -> _Read:
    if columns.feature.size == 0:  # no tree splits; C knows no empty arrays
        one, zero = np.array([0, 1]), np.zeros(1, dtype=np.int64)
        columns = Columns(zero, one, np.zeros(1), one, np.array([Missing.NAN_LEFT], dtype=np.uint8), zero)
    is_category = columns.missing[columns.start[:-1]] == Missing.CATEGORY
    order = np.argsort(is_category, kind="stable")
    of_cuts, cut_start = _taken(columns.cut_start, order)
    of_columns, start = _taken(columns.start, order)
    reordered = Columns(
        feature=columns.feature[order],
        cut_start=cut_start,
        cuts=columns.cuts[of_cuts],
        start=start,
        missing=columns.missing[of_columns],
        base=columns.base[of_columns],
    )
    return _Read(reordered, np.argsort(of_columns), int(np.sum(~is_category)))


def _taken(start: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """What belongs to lists that are put into another order, and where each starts then."""
    index = np.concatenate([np.arange(start[one], start[one + 1]) for one in order])
    return index, np.append(0, np.cumsum(np.diff(start)[order]))


def _cuts(read: _Read, single_precision: bool) -> NDArray[np.floating]:
    """Thresholds and categories in single precision, where that compares alike."""
    cuts, n_numeric = read.columns.cuts, int(read.columns.cut_start[read.n_numeric])
    with np.errstate(over="ignore"):
        single = cuts.astype(np.float32)
    # Of two neighbours in single precision, no number is between a threshold and the lower one.
    below = np.where(single > cuts, np.nextafter(single, np.float32(-np.inf)), single)
    same = below == cuts
    if same.all() or (single_precision and same[n_numeric:].all()):
        return below if below.size else np.zeros(1, dtype=np.float32)
    return cuts


def _reading(reading: Reading) -> str:
    steps = ["double number = (double)(float)value;" if reading.single_precision else "double number = value;"]
    if not np.isnan(reading.missing):
        steps.append(f"if (number == {real(reading.missing)}) return NAN;")
    if reading.zero_within >= 0.0:
        near = real(reading.zero_within)
        steps.append(f"if (number >= -{near} && number <= {near}) return 0.0;")
    body = "\n    ".join([*steps, "return number;"])
    return f"""
/* A value as the framework of the forest reads it, NaN where it is missing. */
static double as_read(double value)
{{
    {body}
}}
"""


_RANKS = """
/* How many of the ascending cuts of an entry are below a number. */
static int32_t rank_among(int entry, double number)
{
    const cut *first = cuts + cut_start[entry];
    size_t size = (size_t)cut_start[entry + 1] - (size_t)cut_start[entry], below = 0;
    while (size > 1) {
        const size_t half = size / 2;
        below += first[below + half - 1] < number ? half : 0;
        size -= half;
    }
    return (int32_t)(below + (size_t)(size == 1 && first[below] < number));
}
"""

_NUMBERS = f"""
/* What a column holds of a value: its rank, or where missing values go. */
static level compared(double value, int32_t rank, int column)
{{
    const int is_missing = value != value, is_zero = is_missing || value == 0.0;
    switch (missing[column]) {{
    case {Missing.ZERO_RIGHT:d}: if (is_zero) return HIGHEST; break;
    case {Missing.ZERO_LEFT:d}: if (is_zero) return 0; break;
    case {Missing.NAN_RIGHT:d}: if (is_missing) return HIGHEST; break;
    case {Missing.NAN_LEFT:d}: if (is_missing) return 0; break;
    }}
    rank -= (int32_t)base[column];
    return (level)(rank < 0 ? 0 : rank > HIGHEST ? HIGHEST : rank);
}}

static void quantise_numbers(const double *row, level *q)
{{
    for (int entry = 0; entry < NUMERIC_ENTRIES; entry++) {{
        const double value = as_read(row[feature[entry]]);
        const int32_t rank = rank_among(entry, value != value ? 0.0 : value);
        for (int column = column_start[entry]; column < column_start[entry + 1]; column++)
            q[column] = compared(value, rank, column);
    }}
}}
"""

_CATEGORIES = """
/* The rank of a category: one more than those known where it is missing, two where it is none of them. */
static level category_rank(double value, int entry)
{
    const int32_t known = (int32_t)(cut_start[entry + 1] - cut_start[entry]);
    if (value != value) return (level)known;
    if (value > LOWEST_CATEGORY && value < LARGEST_CATEGORY) {
        const double whole = (double)(int64_t)value;
        const int32_t rank = rank_among(entry, whole);
        if (rank < known && cuts[(int32_t)cut_start[entry] + rank] == whole) return (level)rank;
    }
    return (level)(known + 1);
}

static void quantise_categories(const double *row, level *q)
{
    for (int entry = NUMERIC_ENTRIES; entry < ENTRIES; entry++)
        q[column_start[entry]] = category_rank(as_read(row[feature[entry]]), entry);
}
"""


def _quantiser(read: _Read, reading: Reading) -> str:
    columns, cuts = read.columns, _cuts(read, reading.single_precision)
    n_entries, has_categories = columns.feature.size, read.n_numeric < columns.feature.size
    parts = [
        f"typedef {'float' if cuts.dtype == np.float32 else 'double'} cut;\n",
        f"typedef {smallest(read.highest)} level; /* a rank among the cuts of a feature */\n",
        f"enum {{ NUMERIC_ENTRIES = {read.n_numeric}, ENTRIES = {n_entries}, COLUMNS = {columns.missing.size} }};\n",
        f"enum {{ NUMERIC_COLUMNS = {read.n_numeric_columns}, HIGHEST = {read.highest} }};\n",
        array("feature", columns.feature),
        array("cut_start", columns.cut_start),
        array("cuts", cuts, "cut"),
        array("column_start", columns.start),
        _reading(reading),
        _RANKS,
    ]
    steps = []
    if read.n_numeric:
        numeric = slice(0, read.n_numeric_columns)
        parts += ["\n", array("missing", columns.missing[numeric]), array("base", columns.base[numeric]), _NUMBERS]
        steps.append("quantise_numbers(row, q);")
    if has_categories:
        lowest = real(max(reading.lowest_category, -_LARGEST_CATEGORY))
        parts.append(f"\nstatic const double LOWEST_CATEGORY = {lowest};\n")
        parts.append(f"static const double LARGEST_CATEGORY = {real(_LARGEST_CATEGORY)};\n{_CATEGORIES}")
        steps.append("quantise_categories(row, q);")
    body = "\n    ".join(steps)
    return "".join(parts) + f"\nstatic void quantise(const double *row, level *q)\n{{\n    {body}\n}}\n"


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


def _splits(forest: Forest, read: _Read, rank: Int64s) -> _Splits:
    """``rank`` is what each node compares with, or where it has a set, the number of that."""
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


def _sets(forest: Forest, read: _Read) -> tuple[Int64s, str]:
    """Ranks of all nodes, with the numbers of sets in place of those of categorical splits, and the sets."""
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
    sizes = np.array([one.size for one in sets])
    arrays = [
        "\n",
        array("sets", np.concatenate(sets)),
        array("set_start", np.cumsum(sizes) - sizes),
        array("set_bytes", np.array(n_bytes)),
    ]
    return rank, "".join(arrays)


_OF_NUMBERS = "    {}return q[at->column] > at->rank;\n"

_OF_SETS = """    const int category = at->column - NUMERIC_COLUMNS;
    const uint8_t *set = sets + set_start[category] + (size_t)at->rank * set_bytes[category];
    return !((set[q[at->column] >> 3] >> (q[at->column] & 7)) & 1);
"""

_WALK = """
/* Where the scores are of the leaf that a row reaches in a tree. */
static size_t leaf_of(const level *q, int tree)
{
    const split *of_tree = splits + tree_start[tree];
    int32_t at = 0;
    do {
        at = of_tree[at].child[goes_right(q, of_tree + at)];
    } while (at >= 0);
    {
        const size_t leaf = (size_t)tree_start[tree] + (size_t)tree + (size_t)(-1 - at);
        return %s;
    }
}
"""


def _walk(read: _Read, splits: _Splits, place_of_leaf: str) -> str:
    inner = zip(*(part.tolist() for part in splits[:4]), strict=True)
    items = [f"{{{{{left}, {right}}}, {rank}, {column}}}" for column, rank, left, right in inner]
    child = smallest(-1, *splits.left[[splits.left.argmin(), splits.left.argmax()]].tolist(), splits.right.min())
    is_number = "if (at->column < NUMERIC_COLUMNS) " if read.n_numeric < read.columns.feature.size else ""
    decision = _OF_NUMBERS.format(is_number) if read.n_numeric else ""
    return f"""
typedef struct {{
    {child} child[2];
    {smallest(int(splits.rank.max()))} rank;
    {smallest(int(splits.column.max()))} column;
}} split;
static const split splits[{len(items)}] = {{
{lines(items)}
}};
{array("tree_start", splits.tree_start)}
static int goes_right(const level *q, const split *at)
{{
{decision}{_OF_SETS if is_number else ""}}}
{_WALK % place_of_leaf}"""


# ---------------------------------------------------------------------------------------------------------
# Leaves


def _leaves(forest: Forest, leaf: Int64s, *, votes: bool) -> tuple[str, str]:
    """The scores of the leaves, with ``votes`` also their classes, and where those of a ``leaf`` are.

    Leaves that are alike share theirs where that takes less.
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


def trees_in_c(forest: Forest, *, votes: bool) -> str:
    """``quantise`` and ``leaf_of``, with the scores of the leaves, and with ``votes`` the classes they vote for."""
    read = _read(forest.columns)
    rank, sets = _sets(forest, read)
    splits = _splits(forest, read, rank)
    leaves, place = _leaves(forest, splits.leaf, votes=votes)
    return _quantiser(read, forest.conventions.reading) + sets + leaves + _walk(read, splits, place)
