"""Calls of the command line in the same process."""

from __future__ import annotations

from pathlib import Path

from rfsize.cli import main


def run(folder: Path, *arguments: str) -> int:
    return main([str(folder / part) if (folder / part).exists() else part for part in arguments])


def only_line(printed: str) -> str:
    """The one line that rfsize has among all that was printed."""
    (line,) = [line for line in printed.splitlines() if line.startswith("rfsize: ")]
    return line
