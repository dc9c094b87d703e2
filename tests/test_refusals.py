"""The table of what is refused, and the page of the documentation that is written from it."""

from __future__ import annotations

import re

import pytest

import refusals
from refusals.at_hand import AtHand
from refusals.entry import Refusal

ATTEMPTS = [
    pytest.param(refusal, id=f"{group.title}: {refusal.attempt.__name__}")
    for group in refusals.GROUPS
    for refusal in group.refusals
]


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> AtHand:
    return AtHand(tmp_path_factory.mktemp("refusals"))


@pytest.mark.parametrize("refusal", ATTEMPTS)
@pytest.mark.filterwarnings("ignore")
def test_it_is_refused_as_the_page_says(refusal: Refusal, at: AtHand) -> None:
    if refusal.needs:
        pytest.importorskip(*refusal.needs)
    with pytest.raises(ValueError, match=".*".join(map(re.escape, refusal.says.split("…")))) as refused:
        refusal.attempt(at)
    assert type(refused.value) is refusal.error


def test_no_two_refusals_are_alike() -> None:
    for group in refusals.GROUPS:
        assert len({refusal.what for refusal in group.refusals}) == len(group.refusals)
        assert len({refusal.attempt.__name__ for refusal in group.refusals}) == len(group.refusals)


def test_the_page_is_that_of_the_table() -> None:
    """``python -m refusals``, run in docs/_ext, writes it again."""
    assert refusals.PAGE.read_text("utf-8") == refusals.page()
