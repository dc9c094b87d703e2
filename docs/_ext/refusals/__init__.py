"""The table of what rfsize refuses: each entry is an attempt that can be run, and a row of docs/reference/refusals.md.

The attempts stand in one module for each kind of thing that is refused. A new refusal is a function there, under the
``refuses`` of its `Group`; ``python -m refusals``, run in docs/_ext, then writes the page again, and so does every
build of the documentation. tests/test_refusals.py runs every attempt, and compares the page.
"""

from pathlib import Path

from refusals import (
    command_line,
    estimators,
    files,
    importances,
    models,
    out_of_bag,
    predictions,
    questions,
    rows,
    tables,
)
from refusals.entry import Group

GROUPS: tuple[Group, ...] = (
    models.GROUP,
    rows.GROUP,
    out_of_bag.GROUP,
    predictions.GROUP,
    importances.GROUP,
    questions.GROUP,
    tables.GROUP,
    estimators.GROUP,
    files.GROUP,
    command_line.GROUP,
)
PAGE = Path(__file__).parents[2] / "reference" / "refusals.md"

_HEAD = """<!-- Written by docs/_ext/refusals, where each row is a function that a test runs: change it there. -->

# What is refused, and why

A number that nobody can trust is worse than none. So rfsize refuses whatever breaks the theory, with an error that
says what was found, why it matters and what to do instead. Search this page for the words of your message; messages are
shortened here. Where no class is named, the error is a `ValueError`; all others are [subclasses of it](exceptions.rst).
A test runs every row.
"""

_FOOT = """
## What only warns

Votes that are not quite independent still size a forest, though less well: `SharedBagsWarning` where several trees
share a bag (`bagging_freq` above 1, `tree_method="approx"`), `SeedDependenceWarning` where LightGBM samples few
features. XGBoost's default learning rate squeezes what a forest predicts: `ShrunkenScoresWarning`. A forest with fewer
than T*(α) trees is never called large enough: `NotConvergedWarning` says how many it would take, and keeps all trees.
[Errors and warnings](exceptions.rst) describes them all.
"""


def page() -> str:
    """The page of the documentation, as Markdown."""
    return "\n".join([_HEAD, *(group.section() for group in GROUPS)]) + _FOOT


def write() -> None:
    """Write it into the repository, where it can be read without a build."""
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        PAGE.write_text(page(), encoding="utf-8")


def setup(app):
    """Before any page is read."""
    app.connect("builder-inited", lambda app: write())
    return {"parallel_read_safe": True}
