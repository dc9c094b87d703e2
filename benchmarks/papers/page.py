"""Parts that the pages of all papers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.comparing import HERE, Compared, Table, share_near
from benchmarks.papers.store import Record

matplotlib.use("Agg")

Records = list[Record]

ROWS_ON_A_PAGE = 12


class Finding(NamedTuple):
    """A finding of a paper, and our result with each framework."""

    paper: str
    ours: dict[str, str]


def found_by(
    records: Records, papers: Sequence[str], told: Callable[[Records], Sequence[str]], **key: Any
) -> list[Finding]:
    """A paper's findings with ours: ``told`` of each framework's records that have these values."""
    texts = {framework: told(chosen(records, framework=framework, **key)) for framework in known(records, "framework")}
    return [
        Finding(paper, {framework: text[place] for framework, text in texts.items()})
        for place, paper in enumerate(papers)
    ]


def nested(records: Records, *names: str) -> Iterator[Records]:
    """The records with each combination of values of these fields that there is, the first field outermost."""
    for values in product(*(known(records, name) for name in names)):
        if runs := chosen(records, **dict(zip(names, values, strict=True))):
            yield runs


def lines(
    records: Records, names: Sequence[str], cells: Callable[[Records], Iterable[str | Compared]]
) -> list[list[str | Compared]]:
    """A line for each combination of values: these, the number of runs, and what ``cells`` makes of the runs."""
    return [
        [", ".join(runs[0][name] for name in names), str(len(runs)), *cells(runs)] for runs in nested(records, *names)
    ]


def chosen(records: Records, **key: Any) -> Records:
    """The records with these values."""
    return [record for record in records if all(record[name] == value for name, value in key.items())]


def known(records: Records, name: str) -> list[Any]:
    """The values of a field, each once, in the order of the records."""
    return list(dict.fromkeys(record[name] for record in records))


def repetitions(records: Records) -> str:
    """The number of runs behind each row of the tables, in words."""
    of_problem: dict[str, set[int]] = {}
    for record in records:
        of_problem.setdefault(record["problem"], set()).add(record["repetition"])
    counts = sorted({len(runs) for runs in of_problem.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def draw(figure: Figure, folder: Path, name: str) -> str:
    """Write a picture, and the Markdown that shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.png", dpi=80, metadata={"Software": None})
    return f"![{name.replace('_', ' ')}]({name}.png)"


def write_paper(
    folder: Path, name: str, ours: Records, tables: dict[str, Table], pictures: dict[str, Figure], **parts: str
) -> None:
    """Write the page of a paper, from its tables with our differences, its pictures and other parts."""
    parts |= {"repetitions": repetitions(ours), "problems": str(len(known(ours, "problem")))}
    for number, (text, differences) in tables.items():
        parts |= {f"table_{number}": text, f"near_{number}": share_near(differences)}
    parts |= {part: draw(figure, folder, f"{name}_{part}") for part, figure in pictures.items()}
    write_page(folder, name, **parts)


def write_page(folder: Path, name: str, **parts: str) -> None:
    """Write a page: the template next to this file with its parts filled in; long tables go to their own files."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    filled = {part: _beside(folder, f"{name}_{part}", text) for part, text in parts.items()}
    text = Template((HERE / f"{name}.md").read_text("utf-8")).substitute(filled)
    (folder / f"{name}.md").write_text(text, "utf-8")


def _beside(folder: Path, name: str, text: str) -> str:
    """The table, or a link to it if it is too long for the page."""
    rows = text.count("\n") - 1 if text.startswith("| problem") else 0
    if rows <= ROWS_ON_A_PAGE:
        return text
    path = folder / "tables" / f"{name}.txt"
    path.write_text(f"{text}\n", "utf-8")
    return f"[The table of {rows} lines](tables/{path.name})"


def percent(values: Sequence[float], digits: int = 2) -> str:
    """Mean of shares, in per cent."""
    return f"{100.0 * np.mean(values):.{digits}f}"
