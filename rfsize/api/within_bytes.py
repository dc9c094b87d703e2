"""As many first trees of a model as fit into a file of some bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rfsize._util import Caution, give, how_many
from rfsize.api.report import Report
from rfsize.inference.api import compile as compiled
from rfsize.models.framework import read_model
from rfsize.models.model import Model, first_trees
from rfsize.showing.text import loss_phrase
from rfsize.showing.warnings import cut_warning


def first_trees_within(
    max_bytes: int, kept: int, forest: Model, report: Report | None = None, warnings: Sequence[Caution] = ()
) -> Any:
    """The ``kept`` first trees, which fit, after ``warnings``; warns if fewer than enough, or than half of all."""
    n_trees, lost = forest.n_trees, ""
    if report is None:
        if 2 * kept < n_trees:
            lost = f"less than half of the {n_trees:,}, and what that loses is not known"
    elif kept < report.n_kept or not report.enough:
        rest = f"fewer than the {report.n_kept:,} that are enough"
        if not report.enough:
            rest = f"of a forest whose {how_many(report.available, 'tree')} are not known to be enough"
        lost = f"{rest}: {loss_phrase(report.criterion, report.estimate, kept)}"
    give((*warnings, *([cut_warning(max_bytes, kept, lost, _compiled_bytes(forest))] if lost else [])))
    return first_trees(forest, kept)


def most_trees_within(max_bytes: int, forest: Model) -> int:
    """The largest number of first trees whose file has at most ``max_bytes``; ``ValueError`` if one tree takes more."""

    def n_bytes(n_trees: int) -> int:
        return read_model(forest.first(n_trees)).n_bytes

    if (of_one := n_bytes(1)) > max_bytes:
        raise ValueError(f"a file of one tree has {of_one:,} bytes, more than max_bytes={max_bytes:,}: allow more")
    if n_bytes(forest.n_trees) <= max_bytes:
        return forest.n_trees
    return bisect_right(range(1, forest.n_trees), max_bytes, key=n_bytes)


def _compiled_bytes(forest: Model) -> int | None:
    """Bytes of the compiled forest's file; None if there are members that are no trees."""
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "forest"
            compiled(first_trees(forest, forest.n_trees)).save(path)
            return path.stat().st_size
    except ValueError:
        return None
