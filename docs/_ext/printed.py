"""What a page's Python blocks print: ``python docs/_ext/printed.py docs/guide/size.md`` writes it below each block.

The blocks of a page run from the top down, as a reader pastes them: one after another, in an empty folder. What a block
prints stands in the ``text`` block below it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One block of Python, what stands below it, and what it printed."""

    code: str
    shown: str
    printed: str


@contextlib.contextmanager
def _empty_folder() -> Any:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def blocks(page: Path) -> list[Block]:
    """Run the blocks of a page in their order."""
    text, names = page.read_text("utf-8"), {"__name__": "__main__"}
    ran = []
    with _empty_folder():
        for number, match in enumerate(BLOCK.finditer(text), 1):
            written = io.StringIO()
            with contextlib.redirect_stdout(written):
                exec(compile(match[1], f"{page.name}, block {number}", "exec"), names)
            printed = "".join(line.rstrip() + "\n" for line in written.getvalue().splitlines())
            ran.append(Block(match[1], match[2] or "", printed))
    return ran


def fill(page: Path) -> None:
    """Write below each block of a page what it prints."""
    ran = iter(blocks(page))

    def with_output(match: re.Match[str]) -> str:
        block = next(ran)
        return f"```python\n{block.code}```\n" + (f"\n```text\n{block.printed}```\n" if block.printed else "")

    page.write_text(BLOCK.sub(with_output, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    for each in sys.argv[1:]:
        fill(Path(each).resolve())
