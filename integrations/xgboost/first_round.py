"""Whether the trees of a forest begin at its booster's base_score, told by what XGBoost keeps at their nodes.

In the first round all rows have one prediction p, and with it one hessian h for each unit of weight. So a node whose
hessians sum to H has rows of weight H / h, and from the sum of its gradients, G = weight · (p − mean label), their mean
label is p − G · h / H: however rows were weighted, it lies where labels can lie. A base_margin, or rounds of boosting
before, give rows other gradients and hessians, from which mean labels follow that no labels have.

Of G the model keeps −G / (H + λ) at inner nodes and η times that at leaves. A file forgets λ and η. But what two
children have adds up to what their parent has, at each split: far more equations than unknowns. Where these have no
common solution, something else limits the weights (alpha, max_delta_step, monotone constraints), and then λ = 0 says at
least how near to p the mean labels of inner nodes are.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from rfsize.errors import NotAForestError
from rfsize.integrations.xgboost.model_json import CONSTANT_HESSIAN, LINKS, leaf_values, scores_per_leaf
from rfsize.utils.typing import Floats

_LARGEST_MARGIN = np.float32(1e30)

# Sums in single precision fulfil the equations to a few millionths.
_MISFIT = 1e-4
_SPARE_EQUATIONS = 5
# How far a mean label may lie beyond all labels, as a share of its distance from the start.
_SLACK = 0.01
# Nearer to 0 and 1, single precision does not tell a probability.
_NEAREST = 1e-5


class Start(NamedTuple):
    """What a booster predicts before any tree, by output.

    Attributes
    ----------
    prediction, hessian : ndarray of float64, shape (n_outputs,)
        Of each row, and the hessian of a row of unit weight.
    largest : float
        No label is larger, and none is negative.
    """

    prediction: Floats
    hessian: Floats
    largest: float

    @property
    def is_precise(self) -> NDArray[np.bool_]:
        """Outputs of which single precision tells enough."""
        return np.asarray(np.minimum(self.prediction, self.largest - self.prediction) > _NEAREST)


class Nodes(NamedTuple):
    """Nodes of all trees, one tree after another.

    Attributes
    ----------
    weight : ndarray of float64, shape (n_nodes,) or (n_nodes, n_outputs)
        What XGBoost calls so: a step against the gradient, at leaves times the learning rate.
    hessian : ndarray of float64, shape (n_nodes,)
        Sums over the rows of the bag that reach the node; 0 where the model keeps none.
    left, right : ndarray of int64, shape (n_nodes,)
        Children, as indices of nodes; -1 at leaves.
    output : ndarray of int64, shape (n_nodes,)
        Output that the tree is for.
    """

    weight: Floats
    hessian: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    output: NDArray[np.int64]

    @classmethod
    def of(cls, learner: dict[str, Any]) -> Nodes:
        """From a model that `check` found whole."""
        stored = learner["gradient_booster"]["model"]
        trees, width = stored["trees"], scores_per_leaf(learner)
        sizes = [len(tree["left_children"]) for tree in trees]
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        left, right = (np.concatenate([tree[f"{side}_children"] for tree in trees]) for side in ("left", "right"))
        inner = left != -1
        weight = leaf_values(learner).astype(np.float64)
        kept = np.concatenate([np.asarray(tree["base_weights"], dtype=np.float64) for tree in trees])
        weight[inner] = kept.reshape(weight.shape)[inner]
        hessian = [np.asarray(tree.get("sum_hessian", np.zeros(size))) for tree, size in zip(trees, sizes, strict=True)]
        return cls(
            weight,
            np.concatenate(hessian).astype(np.float64),
            np.where(inner, left + first, -1),
            np.where(inner, right + first, -1),
            np.repeat(np.zeros(len(trees), np.int64) if width > 1 else np.asarray(stored["tree_info"]), sizes),
        )


def base_margins(learner: dict[str, Any], n_outputs: int) -> NDArray[np.float32]:
    """What the booster adds to the trees of each output, shape (n_outputs,)."""
    stored = np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"])).astype(np.float32)
    link = LINKS[learner["objective"]["name"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        if link == "logistic":
            stored = -np.log(1.0 / stored - 1.0)
        elif link == "exp":
            stored = np.log(stored)
    # Where all rows have one label the margin is infinite; as large a number says the same, and can be averaged.
    return np.broadcast_to(np.clip(stored, -_LARGEST_MARGIN, _LARGEST_MARGIN), n_outputs)


def start_of(learner: dict[str, Any], margins: NDArray[np.float32]) -> Start | None:
    """Where the trees of a booster began; None where its objective's hessians differ, or say nothing of the start."""
    objective, margin = learner["objective"]["name"], margins.astype(np.float64)
    if objective not in CONSTANT_HESSIAN:
        return None
    if LINKS[objective] == "softmax":
        share = softmax(margin)
        return Start(share, 2.0 * share * (1.0 - share), 1.0)
    if LINKS[objective] == "logistic":
        return Start(expit(margin), expit(margin) * expit(-margin), 1.0)
    if LINKS[objective] == "exp":
        mean = np.exp(np.clip(margin, -80.0, 80.0))
        limit = float(learner["objective"]["poisson_regression_param"]["max_delta_step"])
        return Start(mean, mean * np.exp(limit), np.inf)
    return None


def gradients(nodes: Nodes) -> Floats | None:
    """Sum of the gradients at each node; None where no λ and η make those of all children add up to their parents'."""
    inner = np.flatnonzero(nodes.left != -1)
    if nodes.weight.ndim > 1 or not nodes.hessian.any():
        return None
    # Trees without bagging may be all the same, and say nothing new.
    splits = np.stack([nodes.weight[inner], nodes.hessian[inner], nodes.weight[nodes.left[inner]]], axis=1)
    if len(np.unique(splits, axis=0)) < 3 + _SPARE_EQUATIONS:
        return None
    weight, moved = nodes.weight, nodes.weight * nodes.hessian
    children = np.stack([nodes.left[inner], nodes.right[inner]])
    of_leaf = nodes.left[children] == -1

    def balance(value: Floats) -> Floats:
        """A parent's value less those of its children that are inner nodes."""
        return value[inner] - np.sum(value[children], axis=0, where=~of_leaf)

    # −G is moved + λ · weight at inner nodes and moved / η + λ / η · weight at leaves; unknown are λ, 1 / η and λ / η.
    at_leaves = (np.sum(value[children], axis=0, where=of_leaf) for value in (moved, weight))
    equations = np.stack([balance(weight), *(-value for value in at_leaves)], axis=1)
    ridge = 1.0
    for _ in range(2):  # the size of the terms, by which misfits are judged, depends on λ
        size = np.abs(weight) * (nodes.hessian + ridge)
        size = size[inner] + size[children].sum(axis=0)
        size = np.maximum(size, 1e-9 * size.max())
        if not size.all():
            return None
        solution, _, rank, _ = np.linalg.lstsq(equations / size[:, None], -balance(moved) / size, rcond=None)
        ridge = max(float(solution[0]), 0.0)
    misfit = np.abs(equations @ solution + balance(moved)) / size
    if rank < 3 or misfit.max() > _MISFIT or solution[0] < -_SLACK or solution[1] <= 0.0:
        return None
    at_leaf = -(solution[1] * moved + solution[2] * weight)
    return np.asarray(np.where(nodes.left == -1, at_leaf, -(moved + solution[0] * weight)))


def refuse_other_starts(start: Start, nodes: Nodes, gradient: Floats | None) -> None:
    """Raise `NotAForestError` where the trees of a booster cannot have begun at its base_score.

    Parameters
    ----------
    start, nodes
        Of the booster.
    gradient : ndarray of float64, shape (n_nodes,), or None
        What `gradients` found.
    """
    output = np.arange(len(start.prediction)) if nodes.weight.ndim > 1 else nodes.output
    prediction, hessian = start.prediction[output], start.hessian[output]
    if gradient is None:
        away = np.where(nodes.left.reshape(-1, *[1] * (nodes.weight.ndim - 1)) != -1, nodes.weight * hessian, 0.0)
    else:
        away = -gradient * hessian / np.maximum(nodes.hessian, 1e-300)
        away[nodes.hessian <= 0.0] = 0.0
    slack = 1.0 + _SLACK
    wrong = (away < -slack * prediction) | (away > slack * (start.largest - prediction))
    wrong &= start.is_precise[output]
    if wrong.any():
        mean = np.broadcast_to(prediction, wrong.shape)[wrong] + away[wrong]
        worst = mean[np.argmax(np.abs(mean - 0.5))]
        within = "from 0 to 1" if np.isfinite(start.largest) else "from 0 up"
        raise NotAForestError(
            f"the trees of the forest did not begin at its base_score: of {wrong.sum()} of {wrong.size} nodes the "
            f"gradients that XGBoost stored would be those of a mean label such as {worst:.3g}, where labels are "
            f"{within}. Either it was trained with a base_margin, which predict knows nothing of: give a constant one "
            "as base_score. Or it is a slice of the later rounds of a boosted model, whose trees correct those before: "
            "train one round of parallel trees"
        )
