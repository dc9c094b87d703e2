"""The forests of all kinds, for promises that hold of each."""

from __future__ import annotations

import pytest

from helpers.models import CLASSES, KINDS, NO_TREES, Forest, model


@pytest.fixture(params=KINDS)
def forest(request: pytest.FixtureRequest) -> Forest:
    """A forest of each kind."""
    return model(request.param)


@pytest.fixture(params=[kind for kind in KINDS if kind not in NO_TREES])
def of_trees(request: pytest.FixtureRequest) -> Forest:
    """A forest of each kind whose members are trees."""
    return model(request.param)


@pytest.fixture(params=CLASSES)
def of_classes(request: pytest.FixtureRequest) -> Forest:
    """A forest of each kind that casts votes."""
    return model(request.param)
