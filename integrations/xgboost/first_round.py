"""Checks whether the trees of a forest begin at the base_score of its booster, from the numbers at their nodes.

In the first round all rows have the same prediction p, and the same hessian h per unit of weight. So if the hessians at
a node sum to H, its rows weigh H / h. Its gradients sum to G = weight · (p − mean label), so the mean label is
p − G · h / H. However rows are weighted, this mean lies in the range of labels. A base_margin, or earlier rounds of
boosting, give rows other gradients and hessians, and these lead to mean labels outside the range.

The model stores −G / (H + λ) at inner nodes, and η times this at leaves. A file does not store λ and η. But at each
split, G of the two children adds up to G of their parent: far more equations than unknowns. If the equations have no
common solution, something else limits the weights (alpha, max_delta_step, monotone constraints). Then λ = 0 at least
bounds how near the mean labels of inner nodes are to p.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from rfsize.exceptions import NotAForestError
from rfsize.integrations.xgboost.model_json import (
    CONSTANT_HESSIAN,
    LINKS,
    leaf_values,
    reason,
    scores_per_leaf,
    written,
)
from rfsize.models.damage import NUMBER, check_form, number, refuse
from rfsize.utils.typing import Bools, Floats, Int64s

_LARGEST_MARGIN = np.float32(1e30)
_ANY_ROW = np.zeros((1, 1))

# Sums in single precision satisfy the equations to a few millionths.
_MISFIT = 1e-4
_SPARE_EQUATIONS = 12
_ROUNDING = 1e-7
# In genuine forests, gradients were off by up to eight times the error that the misfit of the equations suggests.
_CAUTION = 30.0
# The learning rate is reported only if it is known to this relative error.
_TOLD = 0.002
# How far a mean label may lie outside the range of labels, as a share of its distance from the start.
_SLACK = 0.01
# Nearer to 0 and 1, single precision does not resolve a probability.
_NEAREST = 1e-5


class Start(NamedTuple):
    """The prediction of a booster before any tree, by output.

    Attributes
    ----------
    prediction, hessian : ndarray of float64, shape (n_outputs,)
        The prediction for every row, and the hessian of a row of unit weight.
    largest : float
        Upper bound of the labels. Their lower bound is 0.
    """

    prediction: Floats
    hessian: Floats
    largest: float

    @property
    def is_precise(self) -> Bools:
        """The outputs for which single precision is precise enough."""
        return np.asarray(np.minimum(self.prediction, self.largest - self.prediction) > _NEAREST)


class Nodes(NamedTuple):
    """Nodes of all trees, one tree after another.

    Attributes
    ----------
    weight : ndarray of float64, shape (n_nodes,) or (n_nodes, n_outputs)
        XGBoost's "weight": a step against the gradient, at leaves times the learning rate.
    hessian : ndarray of float64, shape (n_nodes,)
        Sums over the rows of the bag that reach the node; 0 if the model stores none.
    left, right : ndarray of int64, shape (n_nodes,)
        Children, as indices of nodes; -1 at leaves.
    output : ndarray of int64, shape (n_nodes,)
        Output that the tree belongs to.
    """

    weight: Floats
    hessian: Floats
    left: Int64s
    right: Int64s
    output: Int64s

    @classmethod
    def of(cls, learner: dict[str, Any]) -> Nodes:
        """Read the nodes of a model that passed `check`."""
        stored = learner["gradient_booster"]["model"]
        trees, width = stored["trees"], scores_per_leaf(learner)
        sizes = [len(tree["left_children"]) for tree in trees]
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        left, right = (np.concatenate([tree[f"{side}_children"] for tree in trees]) for side in ("left", "right"))
        inner = left != -1
        weight = leaf_values(learner).astype(np.float64)
        kept = np.concatenate([np.asarray(tree["base_weights"], dtype=np.float64) for tree in trees])
        weight[inner] = kept.reshape(weight.shape)[inner]
        # Before XGBoost 3.2, trees that score all classes store no hessians.
        hessian = [np.asarray(tree.get("sum_hessian", np.zeros(size))) for tree, size in zip(trees, sizes, strict=True)]
        return cls(
            weight,
            np.concatenate(hessian).astype(np.float64),
            np.where(inner, left + first, -1),
            np.where(inner, right + first, -1),
            np.repeat(np.zeros(len(trees), np.int64) if width > 1 else np.asarray(stored["tree_info"]), sizes),
        )


def base_margins(learner: dict[str, Any], n_outputs: int) -> NDArray[np.float32]:
    """What the booster adds to the trees of each output, shape (n_outputs,), to the last bit.

    They are the predictions of XGBoost for a booster without trees. XGBoost takes logarithms of ``base_score`` with its
    own C library, and another library can differ by one unit in the last place.
    """
    stored = _base_score(learner["learner_model_param"]["base_score"])
    if stored.size not in (1, n_outputs):
        refuse(f"base_score holds {stored.size} numbers, expected {n_outputs}")
    found = _of_no_trees(learner)
    if found.size != n_outputs or np.isnan(found).any():
        refuse(f"base_score is {stored[:3].tolist()}, from which XGBoost predicts {found[:3].tolist()}")
    # If all rows have one label, the margin is infinite. A large number has the same effect, and can be averaged.
    return np.clip(found, -_LARGEST_MARGIN, _LARGEST_MARGIN)


def _of_no_trees(learner: dict[str, Any]) -> NDArray[np.float32]:
    """XGBoost's prediction before the link for any row, with all trees removed."""
    booster = learner["gradient_booster"]
    sizes = booster["model"]["gbtree_model_param"] | {"num_trees": "0"}
    none = {"trees": [], "tree_info": [], "iteration_indptr": [0], "gbtree_model_param": sizes}
    kept = learner | {"gradient_booster": booster | {"model": booster["model"] | none}}
    # Otherwise XGBoost would still estimate base_score from labels.
    kept["learner_model_param"] = learner["learner_model_param"] | {"boost_from_average": "0"}
    try:
        empty = xgb.Booster(model_file=written(kept))
        return empty.predict(xgb.DMatrix(_ANY_ROW), output_margin=True, validate_features=False).ravel()
    except xgb.core.XGBoostError as error:
        refuse(f"XGBoost predicts nothing from its base_score ({reason(error)})", error)


def _base_score(text: str) -> NDArray[np.float32]:
    """One number, or since XGBoost 3.0 a list of one for each output."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        refuse(f"base_score is {text[:40]!r}, expected numbers")
    found = found if isinstance(found, list) else [found]
    check_form(found, [NUMBER], "base_score")
    return np.array(found, dtype=np.float32)


def start_of(learner: dict[str, Any], margins: NDArray[np.float32]) -> Start | None:
    """Where the trees of a booster began; None if hessians of the objective differ by row, or do not show the start."""
    objective, margin = learner["objective"]["name"], margins.astype(np.float64)
    if objective not in CONSTANT_HESSIAN:
        return None
    if LINKS[objective] in ("softmax", "logistic"):
        # In single precision, as in XGBoost: if p is near 1, then 1 − p is coarse.
        one, likely = np.float32(1.0), np.exp(margins - margins.max())
        if LINKS[objective] == "softmax":
            share, times = (likely / likely.sum(dtype=np.float64)).astype(np.float32), 2.0
        else:
            share, times = one / (one + np.exp(-margins)), 1.0
        return Start(share.astype(np.float64), times * (share * (one - share)).astype(np.float64), 1.0)
    if LINKS[objective] == "exp":
        mean = np.exp(np.clip(margin, -80.0, 80.0))
        told = learner["objective"].get("poisson_regression_param", {}).get("max_delta_step", 0.7)
        limit = number(told, "max_delta_step", 0.0, 80.0)
        return Start(mean, mean * np.exp(limit), np.inf)
    return None


class Gradients(NamedTuple):
    """Gradients of the first round, from the numbers at the nodes.

    Attributes
    ----------
    total, error : ndarray of float64, shape (n_nodes,)
        Sum of the gradients of the rows at each node, and its possible error.
    steps, steps_error : float
        1 / η, where η is the part of its step that each leaf takes, and its possible error.
    """

    total: Floats
    error: Floats
    steps: float
    steps_error: float

    def learning_rate(self, n_trees: int) -> float | None:
        """The learning rate of a forest of ``n_trees``, in which each tree counts 1 / ``n_trees``; None if unknown."""
        return None if self.steps_error > _TOLD * self.steps else n_trees / self.steps


def gradients(nodes: Nodes) -> Gradients | None:
    """The gradients at all nodes; None if no λ and η make the children of all splits add up to their parents."""
    inner = np.flatnonzero(nodes.left != -1)
    if nodes.weight.ndim > 1 or not nodes.hessian.any():
        return None
    # Trees without bagging can be equal, and equal splits give no new equations.
    splits = np.stack([nodes.weight[inner], nodes.hessian[inner], nodes.weight[nodes.left[inner]]], axis=1)
    if len(np.unique(splits, axis=0)) < 3 + _SPARE_EQUATIONS:
        return None
    # −G is moved + λ · weight at inner nodes, moved / η + λ / η · weight at leaves. Unknown are λ, 1 / η and λ / η.
    weight, moved = nodes.weight, nodes.weight * nodes.hessian
    is_leaf = nodes.left == -1
    terms = np.stack([np.where(is_leaf, 0.0, weight), np.where(is_leaf, moved, 0.0), np.where(is_leaf, weight, 0.0)], 1)
    known = np.where(is_leaf, 0.0, moved)
    left, right = nodes.left[inner], nodes.right[inner]
    equations, constant = (value[inner] - value[left] - value[right] for value in (terms, known))
    ridge = 1.0
    for _ in range(2):  # misfits are compared with the size of the terms, which depends on λ
        size = np.abs(weight) * (nodes.hessian + ridge)
        size = size[inner] + size[left] + size[right]
        size = np.maximum(size, 1e-9 * size.max())
        if not size.all():
            return None
        basis, singular, directions = np.linalg.svd(equations / size[:, None], full_matrices=False)
        if singular[-1] <= 1e-12 * singular[0]:
            return None
        solution = -directions.T @ (basis.T @ (constant / size) / singular)
        ridge = max(float(solution[0]), 0.0)
    misfit = float(np.max(np.abs(equations @ solution + constant) / size))
    if misfit > _MISFIT or solution[1] <= 0.0:
        return None
    # If the equations hardly separate λ from η, as in trees of one split, rounding decides the solution.
    doubt = _CAUTION * max(misfit, _ROUNDING)
    error = np.linalg.norm(terms @ directions.T / singular, axis=1) * doubt
    steps_error = float(np.linalg.norm(directions.T[1] / singular)) * doubt
    return Gradients(-(known + terms @ solution), error, float(solution[1]), steps_error)


def refuse_other_starts(start: Start, nodes: Nodes, found: Gradients | None) -> None:
    """Raise `NotAForestError` if the trees of a booster cannot have begun at its base_score.

    Parameters
    ----------
    start, nodes
        Start and nodes of the booster.
    found : Gradients or None
        The output of `gradients`.
    """
    output = np.arange(len(start.prediction)) if nodes.weight.ndim > 1 else nodes.output
    prediction, hessian = start.prediction[output], start.hessian[output]
    doubt: Floats | float = 0.0
    if found is None:
        away = np.where(nodes.left.reshape(-1, *[1] * (nodes.weight.ndim - 1)) != -1, nodes.weight * hessian, 0.0)
    else:
        of_hessian = np.divide(hessian, nodes.hessian, out=np.zeros_like(hessian), where=nodes.hessian > 0.0)
        away, doubt = -found.total * of_hessian, found.error * of_hessian
    slack = 1.0 + _SLACK
    wrong = (away < -slack * prediction - doubt) | (away > slack * (start.largest - prediction) + doubt)
    wrong &= start.is_precise[output]
    if wrong.any():
        mean = np.broadcast_to(prediction, wrong.shape)[wrong] + away[wrong]
        worst = mean[np.argmax(np.abs(mean - 0.5))]
        within = "from 0 to 1" if np.isfinite(start.largest) else "from 0 up"
        raise NotAForestError(
            f"the trees of the forest did not begin at its base_score: on {wrong.sum()} of {wrong.size} nodes "
            f"XGBoost stored the gradients of a mean label such as {worst:.3g}, and labels are {within}. Either "
            "the forest was trained with a base_margin, which predict does not know: give a constant one as "
            "base_score. Or it is a slice of the later rounds of a boosted model, whose trees correct those "
            "before: train one round of parallel trees"
        )
