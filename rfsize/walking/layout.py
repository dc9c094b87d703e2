"""`PackedForest`: the trees of a booster as flat, quantised arrays.

Each threshold of the forest is replaced by its rank among the thresholds on the same feature. Each value of a row is
replaced, once, by the rank of the first threshold that is not below it. A split then compares two small whole numbers.
The quantised row also holds how splits treat missing values: one *column* of it is a feature together with one such
treatment. So a walk down a tree has one comparison per level and no branch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rfsize import _core
from rfsize._util import Bools, Floats, Int64s
from rfsize.exceptions import NotAForestError
from rfsize.models.conventions import Conventions
from rfsize.models.ensemble import Missing, TreeEnsemble, TreeNodes
from rfsize.models.link import LINKS, Link
from rfsize.models.model import Forest, Model

# A node is one word of three parts: its left child (the right child follows it), the column that it tests (the highest
# bit marks a categorical split), and the rank that it compares with. A leaf is its own left child and has the highest
# rank, so that further steps stay there.
LEFT_SHIFT, COLUMN_SHIFT = np.uint64(36), np.uint64(16)
COLUMN_MASK, CATEGORICAL, RANK_MASK = np.uint64(0x7FFFF), np.uint64(1 << 35), np.uint64(0xFFFF)

HIGHEST_RANK = 0xFFFF  # of a quantised value; it goes to the right everywhere except in leaves
RANKS_PER_COLUMN = HIGHEST_RANK  # a feature with more thresholds has several columns
MOST_CATEGORIES = HIGHEST_RANK - 1  # one rank each for a missing and an unknown category
MOST_COLUMNS = int(COLUMN_MASK) + 1
MOST_NODES = 1 << 28


class Nodes(NamedTuple):
    """The trees, one after another, each in breadth-first order. They are sorted by member, then by class.

    Attributes
    ----------
    nodes : ndarray of uint64, shape (n_nodes,)
        One word for each node.
    value : ndarray of float32 or float64, shape (n_nodes, n_scores)
        Scores that the leaves add to the sums: one score, or one for each class.
    vote : ndarray of uint16, shape (n_nodes,) or (0,)
        Class index that a leaf votes for. Empty if several trees cast one vote together, or trees cast no votes.
    tree_start : ndarray of int64, shape (n_trees + 1,)
        First node of each tree.
    bit_start : ndarray of int64, shape (n_nodes,) or (0,)
        Where the set of a categorical split begins in ``bits``.
    bits : ndarray of uint32
        Sets of categories, one bit for each rank.
    """

    nodes: NDArray[np.uint64]
    value: NDArray[np.floating[Any]]
    vote: NDArray[np.uint16]
    tree_start: Int64s
    bit_start: Int64s
    bits: NDArray[np.uint32]


class Columns(NamedTuple):
    """The columns of a quantised row, feature by feature.

    Attributes
    ----------
    feature : ndarray of int64, shape (n_features_used,)
        Features that the forest tests, in ascending order.
    cut_start : ndarray of int64, shape (n_features_used + 1,)
        First threshold or category of each feature.
    cuts : ndarray of float64
        Thresholds, or categories, of each feature in ascending order.
    start : ndarray of int64, shape (n_features_used + 1,)
        First column of each feature.
    missing : ndarray of uint8, shape (n_columns,)
        `Missing` of each column.
    base : ndarray of int64, shape (n_columns,)
        Rank among all thresholds of the feature that has rank 0 in the column.
    """

    feature: Int64s
    cut_start: Int64s
    cuts: Floats
    start: Int64s
    missing: NDArray[np.uint8]
    base: Int64s


@dataclass(frozen=True, eq=False)
class PackedForest:
    """A forest ready to predict, without the framework that trained it.

    The compiled code checks the arrays and reads them where they lie, so nobody may write to them.

    Attributes
    ----------
    trees : Nodes
        The trees.
    columns : Columns
        The columns that the trees test.
    n_outputs : int
        Trees per member: 1, or the number of classes if each tree scores one class.
    n_features : int
        Number of features of a row.
    feature_names : list of str or None
        Names of the features.
    classes : ndarray, shape (n_classes,)
        Class labels in the caller's encoding; empty for regression.
    conventions : Conventions
        How rows are read and scores become predictions.
    threshold : float
        Probability above which class 1 is predicted; two classes only.
    digest : str or None
        `Model.digest` of the model that was compiled; None if unknown.
    output : {"labels", "class numbers", "probabilities", "numbers"}
        `Forest.output` of the model.
    is_pruned : bool
        Whether `rfsize.shrink` made the model.
    is_forest : bool
        Whether the trees are independent draws, and not boosted.
    native : _core.Forest
        The forest as the compiled code holds it.

    Raises
    ------
    ValueError
        If the arrays are not those of a forest.
    """

    trees: Nodes
    columns: Columns
    n_outputs: int
    n_features: int
    feature_names: list[str] | None
    classes: NDArray[Any]
    conventions: Conventions
    threshold: float = 0.5
    digest: str | None = None
    output: str = "labels"
    is_pruned: bool = False
    is_forest: bool = True
    native: _core.Forest = field(init=False)

    def __post_init__(self) -> None:
        trees, columns = Nodes(*map(_kept, self.trees)), Columns(*map(_kept, self.columns))
        native = _core.Forest(trees, columns, self.conventions.reading, self.n_outputs, self.n_features)
        for name, value in {"native": native, "trees": trees, "columns": columns}.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling makes the forest again, with all checks.
        return PackedForest, tuple(getattr(self, argument.name) for argument in fields(self) if argument.init)

    @classmethod
    def of(cls, ensemble: TreeEnsemble, threshold: float = 0.5, **of_model: Any) -> Self:
        """Pack an ensemble; ``threshold`` decides the votes, ``of_model`` are ``output``, ``is_pruned``, ``is_forest``.

        Raises
        ------
        NotAForestError
            If the trees are damaged or too large for a node, or rfsize cannot read rows as the framework does.
        """
        nodes, conventions = ensemble.nodes, ensemble.conventions
        if conventions.unreadable is not None:
            raise NotAForestError(conventions.unreadable)
        tested = nodes.feature[nodes.left != -1]
        if tested.size and not 0 <= tested.min() <= tested.max() < ensemble.n_features:
            raise NotAForestError("the model is damaged: a tree tests a feature that the rows do not have")
        if threshold != 0.5:
            conventions = replace(conventions, labels_of_scores=False)
            if nodes.value.shape[1] == 2 and len(ensemble.classes) == 2:  # at 0.5 the larger of two rounded sums wins
                nodes = replace(nodes, value=nodes.value[:, 1:])
        trees, columns = packed(nodes, ensemble.votes(threshold).astype(np.uint16))
        described = ensemble.n_features, ensemble.feature_names, ensemble.classes, conventions
        return cls(trees, columns, ensemble.trees_per_iteration, *described, threshold, ensemble.digest, **of_model)

    @classmethod
    def of_model(cls, model: Model, threshold: float) -> Self:
        """Pack the trees of a model; errors as in `of`, and if its members are no trees."""
        if model.ensemble is None:
            raise NotAForestError(
                f"the members of this {model.framework} ensemble are no decision trees, which alone can be compiled: "
                "cut the ensemble with rfsize.truncate"
            )
        kind = {"output": model.output, "is_pruned": model.is_pruned, "is_forest": isinstance(model, Forest)}
        return cls.of(model.ensemble, threshold, **kind)

    @property
    def n_trees(self) -> int:
        """Number of members that vote."""
        return (self.trees.tree_start.size - 1) // self.n_outputs

    @property
    def n_scores(self) -> int:
        """Number of scores of a member: 1, or one for each class."""
        return self.n_outputs * self.trees.value.shape[1]

    @property
    def predicts_each_class(self) -> bool:
        """Whether ``predict`` returns a number for each class of a row, and not one number or label."""
        return self.output == "probabilities" and self.n_scores > 1

    @property
    def precision(self) -> np.dtype[np.floating[Any]]:
        """The precision in which the framework adds up scores and predicts."""
        return self.trees.value.dtype

    @property
    def start(self) -> NDArray[np.floating[Any]]:
        """The sums of scores before any tree, shape (n_scores,)."""
        return np.full(self.n_scores, self.conventions.base or 0.0, self.precision)

    @property
    def divisor(self) -> float:
        """The divisor of the sums of scores."""
        return self.conventions.divisor_of(self.n_trees)

    @property
    def largest(self) -> Floats:
        """The largest size of what each member adds to a sum, shape (n_trees,)."""
        sizes = np.abs(self.trees.value).max(axis=1)
        return np.maximum.reduceat(sizes, self.trees.tree_start[:-1]).reshape(self.n_trees, -1).max(axis=1)

    @property
    def shares(self) -> Floats:
        """How much of the whole score the first 1, …, T members stand for, shape (n_trees,).

        The mean of t trees stands for that of all, and so does the weighted vote of AdaBoost's. Other boosted trees add
        up: their sum so far is compared as it stands.
        """
        if not self.is_forest and self.conventions.divisor == 1.0:
            return np.ones(self.n_trees)
        weights = np.ones(self.n_trees) if self.is_forest else self.largest.astype(np.float64)
        return np.asarray(np.cumsum(weights) / np.cumsum(weights)[-1])

    @property
    def compiled_link(self) -> str:
        """The link that compiled code applies to sums of scores for predictions."""
        return "identity" if self.link_by_scipy else self.conventions.link

    @property
    def link_by_scipy(self) -> Link | None:
        """The link, if SciPy and NumPy make the predictions as in the framework: other code would round some otherwise.

        Compiled code then gives mean scores.
        """
        conventions = self.conventions
        by_scipy = conventions.labels_of_scores and conventions.link in ("softmax", "exp")
        return Link(conventions.link, conventions.slope) if by_scipy else None

    @property
    def label_link(self) -> str:
        """The link that compiled code applies to sums of scores for labels: the largest number wins.

        A single number must be above `label_threshold`.
        """
        return "identity" if self.conventions.labels_of_scores else self.conventions.link

    @property
    def label_threshold(self) -> float:
        """Number of `label_link` above which class 1 is predicted, if a single score decides."""
        return self.conventions.cut if self.conventions.labels_of_scores else self.threshold

    def predicting(self, link: str) -> _core.Predicting:
        """The compiled function that predicts from sums of scores what ``link`` predicts from their means."""
        # Labels of scores compare them before the slope, which could make different scores equal.
        slope = 1.0 if link == "identity" and self.conventions.labels_of_scores else self.conventions.slope
        return _core.Predicting(self.divisor, slope, LINKS.index(link))

    @property
    def n_columns(self) -> int:
        """Number of columns of a quantised row, at least one."""
        return max(1, self.columns.missing.size)


def _kept(array: Any) -> NDArray[Any]:
    """A read-only view of the array, or of a copy if its numbers do not lie one after another, or lie unaligned."""
    view = np.require(array, requirements=("C_CONTIGUOUS", "ALIGNED")).view()
    view.flags.writeable = False
    return view


def packed(table: TreeNodes, vote: NDArray[np.uint16]) -> tuple[Nodes, Columns]:
    """The arrays of a forest, from its trees as the framework stores them.

    Raises
    ------
    NotAForestError
        If the trees are damaged, or too large for a node.
    """
    tree, first = np.repeat(np.arange(table.n_nodes.size), table.n_nodes), np.cumsum(table.n_nodes) - table.n_nodes
    order = _breadth_first(table, tree, first)
    if order.size > MOST_NODES:
        raise NotAForestError(f"a forest of more than {MOST_NODES:,} nodes cannot be compiled: truncate it first")
    tree_start = np.append(np.searchsorted(tree[order], np.arange(first.size)), order.size).astype(np.int64)
    place = np.empty(tree.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    is_inner = table.left[order] != -1
    left = np.where(is_inner, place[first[tree[order]] + table.left[order]], place[order]).astype(np.uint64)
    inner = order[is_inner]
    is_category = table.missing[inner] == Missing.CATEGORY
    # The framework lists sets of categories in its own order of the nodes.
    with_set = np.flatnonzero((table.left != -1) & (table.missing == Missing.CATEGORY))
    listed = np.searchsorted(with_set, inner[is_category])
    sets = [table.categories_left[at] for at in listed]
    columns, entry, column, rank = _columns(table, inner, sets)
    tested = np.full(order.size, HIGHEST_RANK, dtype=np.uint64)
    tested[is_inner] = column.astype(np.uint64) << COLUMN_SHIFT | rank.astype(np.uint64)
    categorical = np.flatnonzero(is_inner)[is_category]
    tested[categorical] |= CATEGORICAL
    start, bits = _category_bits(sets, table.missing_goes_left[listed], columns, entry[is_category])
    bit_start = np.zeros(order.size if bits.size else 0, dtype=np.int64)
    bit_start[categorical] = start
    value = np.where(is_inner[:, None], table.value.dtype.type(0), table.value[order])
    votes = vote[order] if vote.size else vote
    return Nodes(left << LEFT_SHIFT | tested, value, votes, tree_start, bit_start, bits), columns


def _breadth_first(table: TreeNodes, tree: Int64s, first: Int64s) -> Int64s:
    """All nodes that can be reached, tree by tree and level by level, with siblings together.

    ``tree`` is the number of each node's tree, ``first`` the root of each tree.
    """
    inner, children = np.flatnonzero(table.left != -1), np.stack([table.left, table.right], axis=1)
    is_node = (children[inner] >= 1) & (children[inner] < table.n_nodes[tree[inner], None])
    children += first[tree, None]
    if not is_node.all() or np.bincount(children[inner].ravel()).max(initial=0) > 1:
        raise NotAForestError("the model is damaged: a split has a child outside of its tree, or one of another split")
    levels = [first]
    while (parents := levels[-1][table.left[levels[-1]] != -1]).size:
        levels.append(children[parents].ravel())
    nodes = np.concatenate(levels)
    return nodes[np.argsort(tree[nodes], kind="stable")]


def _columns(table: TreeNodes, inner: Int64s, sets: list[Int64s]) -> tuple[Columns, Int64s, Int64s, Int64s]:
    """The columns; then for each split the place of its feature in `Columns`, its column, and its rank there.

    ``inner`` are the splits in the order of the layout, ``sets`` the categories of the categorical ones.
    """
    missing = table.missing[inner].astype(np.int64)
    is_category, numeric = missing == Missing.CATEGORY, missing != Missing.CATEGORY
    threshold = table.threshold[inner[numeric]]
    if np.isnan(threshold).any():
        raise NotAForestError("the model is damaged: a split has no threshold")
    # A feature with both numeric and categorical splits, as in merged forests, is entered twice.
    feature, entry = np.unique(2 * table.feature[inner] + is_category, return_inverse=True)
    sizes = [categories.size for categories in sets]
    of_cut = np.concatenate([entry[numeric], np.repeat(entry[is_category], sizes)])
    cut_start, cuts, rank_of_cut = _ranked(of_cut, np.concatenate([threshold, *sets]), feature.size)
    if (np.diff(cut_start)[feature % 2 == 1] > MOST_CATEGORIES).any():
        raise NotAForestError(f"a feature of more than {MOST_CATEGORIES:,} categories cannot be compiled: group some")
    rank = np.zeros(entry.size, dtype=np.int64)
    rank[numeric] = rank_of_cut[: threshold.size]
    chunk, rank = np.divmod(rank, RANKS_PER_COLUMN)
    key, of_split = np.unique(np.stack([entry, chunk, missing]), axis=1, return_inverse=True)
    if key.shape[1] > MOST_COLUMNS:
        raise NotAForestError(f"a forest of more than {MOST_COLUMNS:,} features cannot be compiled: train on fewer")
    first_column = np.searchsorted(key[0], np.arange(feature.size + 1)).astype(np.int64)
    base = key[1] * RANKS_PER_COLUMN
    columns = Columns(feature // 2, cut_start, cuts, first_column, key[2].astype(np.uint8), base)
    return columns, entry, of_split.ravel(), rank


def _ranked(entry: Int64s, number: Floats, n_entries: int) -> tuple[Int64s, Floats, Int64s]:
    """The distinct numbers of each entry in ascending order, after their starts; then the rank of each given number."""
    order = np.lexsort((number, entry))
    entry_of, ascending = entry[order], number[order]
    is_new = np.ones(order.size, dtype=np.bool_)
    is_new[1:] = (np.diff(entry_of) != 0) | (ascending[1:] != ascending[:-1])
    start = np.searchsorted(entry_of[is_new], np.arange(n_entries + 1)).astype(np.int64)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1 - start[entry_of]
    return start, ascending[is_new].astype(np.float64), rank


def _category_bits(
    sets: list[Int64s], with_missing: Bools, columns: Columns, entries: Int64s
) -> tuple[Int64s, NDArray[np.uint32]]:
    """The start of the set of each categorical split, and the sets: one bit per rank, and one for a missing value."""
    words = []
    for entry, categories, has_missing in zip(entries, sets, with_missing, strict=True):
        known = columns.cuts[columns.cut_start[entry] : columns.cut_start[entry + 1]]
        mask = np.zeros(-(-(known.size + 2) // 32) * 32, dtype=np.bool_)
        mask[np.searchsorted(known, categories)] = True
        mask[known.size] = has_missing
        words.append(np.packbits(mask, bitorder="little").view(np.uint32))
    sizes = np.array([word.size for word in words], dtype=np.int64)
    return np.cumsum(sizes) - sizes, np.concatenate([np.zeros(0, dtype=np.uint32), *words])
