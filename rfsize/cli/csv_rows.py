"""Rows of CSV, none of which may be wider than the header."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from rfsize.utils.words import how_many


def csv_pieces(
    pandas: ModuleType, source: Path | IO[bytes], name: str, *, n_rows: int | None, is_zipped: bool
) -> Iterator[Any]:
    """DataFrames of ``n_rows`` rows each, or of all, from a file or from what comes through a pipe.

    Raises
    ------
    ValueError
        If a row has more cells than the header has names, or the text is no CSV; ``name`` is what it is called.
    """
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
        content = gzip.GzipFile(fileobj=file) if is_zipped else file
        text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        try:
            # pandas could take the first cells of rows for an index.
            with pandas.read_csv(_Checked(text), index_col=False, iterator=True, chunksize=n_rows) as reader:
                yield from reader
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{name} could not be read: {str(error).strip()}") from error
        finally:
            text.detach()  # which would close what the caller gave


class _Checked(io.TextIOBase):
    """Text of CSV whose first row is no wider than the header; of the rows after it pandas sees to that.

    Where the first is wider, pandas drops cells that are empty without a word.
    """

    def __init__(self, text: io.TextIOWrapper) -> None:
        kept: list[str] = []
        records = (cells for cells in csv.reader(_keeping(text, kept)) if not _is_blank(cells))
        header, first = next(records, []), next(records, [])
        if len(first) > len(header):
            raise ValueError(
                f"the header has {how_many(len(header), 'name')}, but rows have {len(first)} cells, so rfsize "
                "cannot tell which cell belongs to which column: name every column, and end no line with a comma"
            )
        self._begin, self._rest = io.StringIO("".join(kept)), text

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1) -> str:
        """What has been looked at, then the rest."""
        begin = self._begin.read(size)
        return begin + self._rest.read(size) if size is None or size < 0 else begin or self._rest.read(size)


def _keeping(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    for line in lines:
        kept.append(line)
        yield line


def _is_blank(cells: list[str]) -> bool:
    """Whether it is a line that pandas passes over."""
    return not "".join(cells).strip() and len(cells) <= 1
