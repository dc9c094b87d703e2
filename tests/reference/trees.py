"""One row at a time down the trees of a `TreeEnsemble`, node by node, as its docstrings say."""

from __future__ import annotations

import math

import numpy as np

from rfsize.models.ensemble import Missing


def walk(ensemble, row):
    """Node that the row reaches in each tree; ``row`` holds what the framework reads, categories as codes."""
    nodes, reading = ensemble.nodes, ensemble.conventions.reading
    values = [_read(value, reading) for value in row]
    category = np.cumsum(nodes.missing == Missing.CATEGORY) - 1
    leaves = []
    for root in ensemble.tree_start.ravel().tolist():
        node = root
        while nodes.left[node] >= 0:
            value = values[nodes.feature[node]]
            if nodes.missing[node] == Missing.CATEGORY:
                goes_left = _in_set(value, nodes, category[node], reading)
            else:
                goes_left = _is_below(value, nodes.threshold[node], Missing(nodes.missing[node]))
            node = root + (nodes.left[node] if goes_left else nodes.right[node])
        leaves.append(node)
    return leaves


def raw_score(ensemble, leaves):
    """Base and leaf values of a row's leaves, added in the order of the trees, in the precision of the framework."""
    values, n_outputs = ensemble.nodes.value, ensemble.trees_per_iteration
    sums = np.zeros(max(n_outputs, values.shape[1]), dtype=values.dtype)
    sums += np.array(ensemble.conventions.base or 0.0, dtype=values.dtype)
    for tree, leaf in enumerate(leaves):
        if n_outputs > 1:
            sums[tree % n_outputs] += values[leaf, 0]
        else:
            sums += values[leaf]
    return sums


def _read(value, reading):
    value = float(np.float32(value)) if reading.single_precision else float(value)
    if value == reading.missing or math.isnan(value):
        return math.nan
    return 0.0 if abs(value) <= reading.zero_within else value


def _is_below(value, threshold, missing):
    if missing in (Missing.ZERO_RIGHT, Missing.ZERO_LEFT) and (math.isnan(value) or value == 0.0):
        return missing == Missing.ZERO_LEFT
    if missing in (Missing.NAN_RIGHT, Missing.NAN_LEFT) and math.isnan(value):
        return missing == Missing.NAN_LEFT
    return (0.0 if math.isnan(value) else value) <= threshold


def _in_set(value, nodes, category, reading):
    if math.isnan(value):
        return bool(nodes.missing_goes_left[category])
    if value <= reading.lowest_category or value >= 2.0**62:
        return False
    return int(value) in nodes.categories_left[category]
