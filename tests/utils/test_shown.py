"""What notebooks show of small objects."""

from __future__ import annotations

from typing import Any

import rfsize
from helpers.forests import Data, train_lightgbm
from helpers.pages import Page


def test_votes_show_the_majority_and_no_markup_of_strangers() -> None:
    html = rfsize.Votes([[3, 7], [9, 1], [2, 8]], classes=["<script>alert(1)</script>", "yes"])._repr_html_()
    page = Page(html)
    assert "script" not in page.tags
    assert "majority for class <script>alert(1)</script>1" in page.text
    assert "majority for class yes2" in page.text


def test_a_compiled_forest_shows_what_it_predicts(lgb_booster: Any, data: Data) -> None:
    fast = rfsize.compile(lgb_booster)
    text = Page(fast._repr_html_()).text
    assert f"{fast.n_trees}, of LightGBM" in text
    assert "predictprobabilities" in text
    assert "no stop table" in text


def test_a_mean_of_forests_is_shown(data: Data) -> None:
    html = rfsize.compile([train_lightgbm(data.X, data.y, trees) for trees in (5, 6)])._repr_html_()
    assert all(fact in html for fact in ("Mean of compiled forests", ">2</td>", ">11</td>", "probabilities"))
