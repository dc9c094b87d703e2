"""The largest forest whose file has at most ``max_bytes``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rfsize._util import Caution, how_many
from rfsize.exceptions import NotConvergedWarning
from rfsize.inference.api import compile as compiled
from rfsize.models.framework import read_model
from rfsize.models.model import Forest, first_trees
from rfsize.sizing.report import Report


def bytes_of(model: Any) -> int:
    """Bytes of a model's file as its framework saves it."""
    return read_model(model).n_bytes


def most_trees_within(max_bytes: int, made: Callable[[int], Any], n_trees: int) -> int:
    """The largest number of trees, up to ``n_trees``, for which the model ``made`` has at most ``max_bytes``.

    Raises
    ------
    ValueError
        If one tree takes more bytes.
    """
    if bytes_of(made(n_trees)) <= max_bytes:
        return n_trees
    low, high = 0, n_trees
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_of(made(middle)) <= max_bytes else (low, middle)
    if low == 0:
        raise ValueError(
            f"a file of one tree has {bytes_of(made(1)):,} bytes, more than max_bytes={max_bytes:,}: allow more"
        )
    return low


def first_trees_within(max_bytes: int, adapter: Forest) -> int:
    """The largest number of first trees whose file has at most ``max_bytes``; ``ValueError`` if one tree takes more."""
    return most_trees_within(max_bytes, adapter.first, adapter.n_trees)


def lost_by(kept: int, report: Report, max_bytes: int, adapter: Forest) -> tuple[Caution, ...]:
    """A warning if ``max_bytes`` leaves fewer trees than the report calls enough."""
    if kept >= report.n_kept and report.enough:
        return ()
    if report.enough:
        rest = f"fewer than the {report.n_kept:,} that are enough"
    else:
        rest = f"of a forest whose {how_many(report.available, 'tree')} are not known to be enough"
    return (_cut(max_bytes, kept, f"{rest}: {report._answer.in_short(kept)}", adapter),)


def cut_deep(kept: int, max_bytes: int, adapter: Forest) -> tuple[Caution, ...]:
    """A warning if ``max_bytes`` leaves less than half of the trees, of which nothing else is known."""
    if 2 * kept >= adapter.n_trees:
        return ()
    unknown = f"less than half of the {adapter.n_trees:,}: give X to see what that loses"
    return (_cut(max_bytes, kept, unknown, adapter),)


def _cut(max_bytes: int, kept: int, what_is_lost: str, adapter: Forest) -> Caution:
    remedies = "Allow more bytes, or train smaller trees"
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "forest"
            compiled(first_trees(adapter, adapter.n_trees)).save(path)
            size = path.stat().st_size
    except ValueError:  # there are members that are no trees
        pass
    else:
        remedies = f"rfsize.compile(model).save(path) writes all trees, without loss, in {size:,} bytes. {remedies}"
    text = f"max_bytes={max_bytes:,} keeps {how_many(kept, 'tree')}, {what_is_lost}. {remedies}"
    return Caution(NotConvergedWarning, text)
