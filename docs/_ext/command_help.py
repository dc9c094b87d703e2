"""Writes what ``rfsize COMMAND --help`` prints to reference/generated, for the page on the command line."""

import contextlib
import io
import os
from pathlib import Path

from rfsize.cli import main

COMMANDS = ("demo", "size", "truncate", "shrink", "grow", "compile", "predict")


def write(app):
    """One text file a command."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["COLUMNS"] = "90"
    for command in COMMANDS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([command, "--help"])
        (folder / f"rfsize-{command}.txt").write_text(printed.getvalue(), encoding="utf-8")


def setup(app):
    """Before any page is read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
