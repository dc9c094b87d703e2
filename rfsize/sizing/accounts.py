"""What reports on the size of a forest, and its score, say of themselves on a page."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from rfsize.reporting.account import Account, Figure, Grid, Picture, Section
from rfsize.reporting.words import sentence
from rfsize.sizing.named_metrics import CRITERIA
from rfsize.sizing.plots import Score, Sized, plot_score
from rfsize.sizing.price import Price, Pricing, grids_by_class, price_figures
from rfsize.sizing.words import in_a_sentence, in_percent, in_words
from rfsize.utils.words import how_many

_SOURCES = {
    "oob": "out of bag: each training row is judged by the trees that did not see it",
    "rows given": "as given: judged by all trees",
}
_GROUPS = {"given": "as given", "copies": "copies of a row", "rows": "each row alone", "unknown": "not looked for"}


class Wording(NamedTuple):
    """How a kind of report speaks on a page, in words that its account puts together.

    Attributes
    ----------
    aim : str
        What a forest of T* trees does, such as "give the label of infinitely many on 99 % of the rows".
    pictures : tuple of Picture
    options : dict of str to object
        By which arguments `rfsize.size` and `rfsize.grow` go for it.
    method : str
        How it was estimated.
    label_shares : dict of class label to float
        Share of the rows that each class is given, where that is known.
    """

    aim: str
    pictures: tuple[Picture, ...]
    options: dict[str, Any]
    method: str
    label_shares: dict[Any, float]


class SizedForest(Sized, Protocol):
    """What the account of a report reads."""

    @property
    def n_kept(self) -> int: ...
    @property
    def target(self) -> str: ...
    @property
    def pricing(self) -> Pricing: ...
    @property
    def source(self) -> str: ...
    @property
    def groups(self) -> str: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_dropped(self) -> int: ...
    @property
    def votes_per_row(self) -> float: ...
    def price(self, n_trees: int | None = None) -> Price: ...


def report_account(report: SizedForest, wording: Wording, remarks: list[str]) -> Account:
    """The account of a report, whatever its size is of."""
    price = report.price()
    return Account(
        title=f"Size of the forest, {report.target}",
        verdict=_verdict(report, wording.aim),
        is_good=_is_good(report),
        cautions=tuple(sentence(one.text) for one in report.warnings),
        figures=_figures(report, price),
        sections=(
            Section("", tuple(map(sentence, remarks))),
            Section(
                "What a forest costs",
                (_of_prices(price),),
                grids=(_prices(report), *grids_by_class(price, wording.label_shares)),
            ),
            Section("How the forest converges", pictures=wording.pictures),
        ),
        code=_code(report, wording.options),
        origin=_origin(report, wording.method),
    )


def _is_good(report: SizedForest) -> bool | None:
    if not report.converged or report.warnings:
        return False
    return None if report.likely else True


def _verdict(report: SizedForest, aim: str) -> str:
    available, kept = report.available, report.n_kept
    trees = how_many(available, "tree")
    if report.converged and kept < available:
        return f"{kept:,} of the {trees} {'is' if kept == 1 else 'are'} {report.likely}enough to {aim}."
    if report.converged:
        return f"All {trees} are needed, and {report.likely}enough, to {aim}."
    if report.n_trees <= available:
        return f"{trees} cannot tell yet whether as many are enough to {aim}."
    if math.isfinite(report.n_trees):
        are = "is" if available == 1 else "are"
        takes = "at most" if report.is_bound else "about"
        return f"{trees} {are} {report.likely}too few: it takes {takes} {in_words(report.n_trees)} to {aim}."
    return f"{trees} cannot tell how many it takes to {aim}."


def _figures(report: SizedForest, price: Price) -> tuple[Figure, ...]:
    low, high = report.interval
    return (
        Figure(
            report.target,
            ("at most " if report.is_bound else "") + in_a_sentence(report.n_trees),
            "95 %" if report.is_bound else _from_to(low, high),
        ),
        Figure(
            f"trees {'at hand' if report.sure is None else 'grown'}",
            f"{report.available:,}",
            report.likely + ("enough" if report.converged else "not enough"),
        ),
        *price_figures(price),
    )


def _from_to(low: int | float, high: int | float) -> str:
    if math.isinf(low):
        return ""
    return f"95 %: {in_words(low)} " + (f"to {in_words(high)}" if math.isfinite(high) else "or more")


def _of_prices(price: Price) -> str:
    what = "labels" if price.labels is not None else "predictions"
    return f"How far the {what} of so many trees are from those of infinitely many, on average over such forests."


def _prices(report: SizedForest) -> Grid:
    """The price of the forest to keep, of that at hand, and of some around them where they can be told."""
    kept, at_hand = report.n_kept, report.available
    sizes = [kept] if report.pricing.outputs is None else sorted({max(1, kept // 4), kept, at_hand, 4 * at_hand})
    prices = [report.price(size) for size in sizes]
    what = "predictions" if prices[0].labels is None else "probabilities"
    columns = {
        "trees": [f"{one.n_trees:,}" for one in prices],
        "labels that still change": [in_percent(one.labels) for one in prices if one.labels is not None],
        f"{what} off by (rms)": [f"{one.rms:.2g}" for one in prices if one.rms is not None],
        **{f"{name} worse by": [one.lost(name) for one in prices] for name in prices[0].metrics},
    }
    told = {head: cells for head, cells in columns.items() if cells}
    return Grid(tuple(told), tuple(zip(*told.values(), strict=True)), sizes.index(kept))


def _code(report: SizedForest, options: dict[str, Any]) -> str:
    # A forest that was grown has been cut when its training ended.
    if report.converged and report.n_kept < report.available and report.sure is None:
        return (
            f"small = rfsize.truncate(model, n_trees=report)  # {report.n_kept:,} trees, a model of the same type\n"
            "fast = rfsize.compile(small)  # predicts what small.predict does, many times faster"
        )
    if report.converged:
        return "fast = rfsize.compile(model)  # predicts what model.predict does, many times faster"
    given = "".join(f", {name}={_literal(name, value)}" for name, value in options.items())
    return f"# trains until the forest is large enough\nlarger = rfsize.grow(params, dtrain{given})"


def _literal(name: str, value: Any) -> str:
    """A value as one would type it; a scorer's name says nothing of how one gets it."""
    return "scorer" if name == "criterion" and value not in CRITERIA else repr(value)


def _origin(report: SizedForest, method: str) -> tuple[tuple[str, str], ...]:
    dropped = f"; {report.n_dropped:,} more could not be asked about" if report.n_dropped else ""
    return (
        ("rows", f"{how_many(report.n_rows, 'row')}, {_SOURCES.get(report.source, report.source)}{dropped}"),
        ("trees asked of a row", f"{report.votes_per_row:,.1f} of {report.available:,} on average"),
        ("rows that belong together", _GROUPS[report.groups]),
        ("method", method),
    )


def score_account(score: Score, in_digits: Callable[[float], str]) -> Account:
    """The account of an out-of-bag score."""
    low, high = map(in_digits, score.interval)
    trees = how_many(score.available, "tree")
    return Account(
        title="Out-of-bag score",
        verdict=f"On fresh rows the {score.metric} of all {trees} is {low} to {high} (95 %).",
        figures=(
            Figure(f"{score.metric}, out of bag", in_digits(score.value), f"of {score.votes_per_row:.1f} trees a row"),
            Figure(f"{score.metric}, all trees", in_digits(score.at_all_trees), f"95 %: {low} to {high}"),
        ),
        sections=(
            Section(
                "", pictures=(Picture(f"{score.metric} over the number of trees", lambda ax: plot_score(score, ax)),)
            ),
        ),
        origin=(("rows", f"{how_many(score.n_rows, 'row')}, {_SOURCES[score.source]}"),),
    )
