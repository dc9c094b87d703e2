"""Turn accounts into HTML. The templates escape all text, because names of classes may come from strangers."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rfsize._util import printable
from rfsize.reporting.account import Account

if TYPE_CHECKING:
    from jinja2 import Environment

_NEEDED = {"jinja2": "Jinja2", "matplotlib": "Matplotlib"}
_FRAMEWORKS = "rfsize.frameworks"  # its entry points have the names of the frameworks' packages


def can_be_drawn() -> bool:
    """Whether the packages that make pages are installed."""
    return not _missing()


def page(accounts: Sequence[Account]) -> str:
    """A complete page on the first result, followed by the others."""
    return _rendered("page.html", accounts)


def fragment(accounts: Sequence[Account]) -> str:
    """The contents of such a page as HTML that fits into another page."""
    return _rendered("fragment.html", accounts)


def _missing() -> list[str]:
    return [name for module, name in _NEEDED.items() if find_spec(module) is None]


def _rendered(template: str, accounts: Sequence[Account]) -> str:
    if missing := _missing():
        raise ImportError(f"a page of HTML needs {' and '.join(missing)}: pip install rfsize[report]")
    return (
        _environment().get_template(template).render(accounts=accounts, written=datetime.now(UTC), versions=_versions())
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from rfsize.reporting.drawing import as_svg

    environment = Environment(
        loader=PackageLoader("rfsize.reporting"),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["as_svg"] = as_svg
    environment.filters["unbroken"] = _unbroken
    return environment


def _plain(value: object) -> object:
    """Remove control characters except line ends from text; leave markup as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(map(printable, value.split("\n")))


def _unbroken(text: str) -> str:
    """Keep a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=%|[kMG]?B\b|[µmn]?s\b)", "\N{NO-BREAK SPACE}", text)


def _versions() -> str:
    """Versions of rfsize, the frameworks in use, NumPy and Python."""
    names = sorted({entry.name for entry in entry_points(group=_FRAMEWORKS)} & sys.modules.keys())
    used = [f"{name} {getattr(sys.modules[name], '__version__', '')}".rstrip() for name in names]
    return ", ".join(
        [f"rfsize {version('rfsize')}", *used, f"NumPy {version('numpy')}", f"Python {platform.python_version()}"]
    )
