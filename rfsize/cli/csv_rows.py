"""Reads rows of CSV, and refuses rows that are wider than the header."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from rfsize._util import how_many


def csv_pieces(
    pandas: ModuleType, source: Path | IO[bytes], name: str, *, n_rows: int | None, is_zipped: bool
) -> Iterator[Any]:
    """DataFrames of ``n_rows`` rows each, or one of all rows, from a file or a pipe; ``name`` is for messages.

    Raises
    ------
    ValueError
        If a row has more cells than the header has names, or the text is not CSV.
    """
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
        content = gzip.GzipFile(fileobj=file) if is_zipped else file
        text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        try:
            # Without index_col, pandas can take the first cells of rows as an index.
            with pandas.read_csv(_Checked(text), index_col=False, iterator=True, chunksize=n_rows) as reader:
                yield from reader
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{name} could not be read: {str(error).strip()}") from error
        finally:
            text.detach()  # otherwise the caller's file would be closed


class _Checked(io.TextIOBase):
    """Text of CSV, with a check that the first row is not wider than the header. pandas checks the other rows.

    If the first row is wider, pandas drops empty cells without a warning.
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
        """True."""
        return True

    def read(self, size: int | None = -1) -> str:
        """The lines that the check has read, then the rest."""
        begin = self._begin.read(size)
        return begin + self._rest.read(size) if size is None or size < 0 else begin or self._rest.read(size)


def _keeping(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    for line in lines:
        kept.append(line)
        yield line


def _is_blank(cells: list[str]) -> bool:
    """Whether pandas skips the line as blank."""
    return not "".join(cells).strip() and len(cells) <= 1
