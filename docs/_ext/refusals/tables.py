"""Stop tables that would not keep what they promise."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import rfsize
from refusals.at_hand import AtHand
from refusals.entry import Group

GROUP = Group("Stop tables", "A table promises something about one number of trees and of classes.")


@GROUP.refuses(
    "a table for another number of trees or classes than the forest",
    ValueError,
    "the table is for 11 trees and 2 classes, the forest has 10 trees and 2 classes",
    why="its promise would be void",
    instead="`StopTable.build(10, …)`",
)
def another_forest(at: AtHand) -> object:
    return rfsize.compile(at.model, rfsize.StopTable.build(11, alpha=0.99))


@GROUP.refuses(
    "a table of labels above another threshold than the forest's",
    ValueError,
    "the table was made for a threshold of 0.2, found threshold=0.5",
    why="it promises something about other labels",
    instead="leave `threshold` out, which takes that of the table; or a table for the threshold",
)
def another_threshold(at: AtHand) -> object:
    votes = rfsize.tree_outputs(at.model, at.X_val, threshold=0.2).votes
    return rfsize.compile(at.model, rfsize.StopTable.build(10, prior=votes), threshold=0.5)


@GROUP.refuses(
    "a table for other classes than the forest's",
    ValueError,
    "the table is for the classes 'ash', 'elm', the forest has",
    why="it promises something about another forest",
    instead="a table from this forest",
)
def other_classes(at: AtHand) -> object:
    table = rfsize.StopTable.build(10, prior=rfsize.Votes([[3, 7], [8, 2]], classes=["ash", "elm"]))
    named = RandomForestClassifier(10, random_state=0).fit(at.X, np.array(["oak", "yew"])[at.y])
    return rfsize.compile(named, table)


@GROUP.refuses(
    "a threshold for a regression forest",
    ValueError,
    "threshold=0.3 decides labels, and the forest predicts numbers",
    why="it would have no effect",
    instead="leave it out",
)
def threshold_of_numbers(at: AtHand) -> object:
    return rfsize.compile(at.lightgbm(y=at.X[:, 0], objective="regression"), threshold=0.3)


@GROUP.refuses(
    "a threshold, or a `voting`, of a table of probabilities",
    ValueError,
    "threshold would have no effect: it decides labels, and metric='probabilities' does not",
    why="probabilities do not depend on how labels are decided",
    instead="leave it out",
)
def threshold_of_probabilities(at: AtHand) -> object:
    probabilities = {"metric": "probabilities", "tolerance": 0.1}
    return rfsize.StopTable.calibrate(at.forest, at.X_val, threshold=0.3, **probabilities)


@GROUP.refuses(
    "a prior of out-of-bag votes that are counts alone",
    ValueError,
    "the counts do not show how many trees there are: give rfsize.Votes(counts, n_trees=...)",
    why="no row has a vote of every tree",
    instead="`rfsize.Votes(counts, n_trees=…)`; in `rfsize.size` too",
)
def counts_out_of_bag(at: AtHand) -> object:
    counts = rfsize.tree_outputs(at.forest, at.X, oob=True).votes.counts
    return rfsize.StopTable.build(10, prior=rfsize.Votes(counts))


@GROUP.refuses(
    "a table for members with weights, with a forest",
    ValueError,
    "the table is for members with weights, but the trees of a forest count alike",
    why="its promise would be void",
    instead="`StopTable.build`",
)
def weighted(at: AtHand) -> object:
    return rfsize.compile(at.model, rfsize.StopTable.lossless(np.arange(1.0, 11.0)))


@GROUP.refuses(
    '`rule="robust"` for more than two classes',
    ValueError,
    "rule='robust' bounds the disagreement with all trees for every tally of two classes",
    why="more classes have no such bound",
    instead='`rule="optimal"` or `"threshold"`',
)
def robust(at: AtHand) -> object:
    return rfsize.StopTable.build(21, alpha=0.99, n_classes=3, rule="robust")


@GROUP.refuses(
    '`rule="optimal"` for more than three classes',
    ValueError,
    "are reduced to the two leading classes, on which rule='optimal'",
    why="the lattice of tallies is too large",
    instead='`rule="threshold"`',
)
def optimal(at: AtHand) -> object:
    return rfsize.StopTable.build(21, alpha=0.99, n_classes=5, rule="optimal")


@GROUP.refuses(
    "votes that are no class indices",
    ValueError,
    "tree_votes must hold class indices from 0 to 1; found 0 to 7",
    why="a table counts votes of known classes",
    instead="what `TreeOutputs.by_tree` returns",
)
def other_votes(at: AtHand) -> object:
    votes = np.zeros((5, 11), dtype=int)
    votes[0, 0] = 7
    return rfsize.StopTable.build(11, alpha=0.99).apply(votes)
