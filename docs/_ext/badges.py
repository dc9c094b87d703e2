"""The badges of the README, drawn from pyproject.toml to hold offline: ``cd docs/_ext && python badges.py``."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
FOLDER = _ROOT / "docs" / "badges"

# Rough width of a letter at 11 px, and what is left around a word.
_LETTER, _MARGIN = 6.6, 12

_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">
<title>{name}: {value}</title>
<rect width="{width}" height="20" rx="3" fill="#555"/>
<path d="M{left} 0h{square}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="#2a6f97"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{name_at}" y="14">{name}</text>
<text x="{value_at}" y="14">{value}</text>
</g>
</svg>
"""


def badge(name: str, value: str) -> str:
    """One badge as SVG."""
    left, right = (round(len(text) * _LETTER) + _MARGIN for text in (name, value))
    at = {"name_at": left / 2, "value_at": left + right / 2}
    return _BADGE.format(name=name, value=value, width=left + right, left=left, square=right - 3, **at)


def drawn(pyproject: str) -> dict[str, str]:
    """Every badge by the name of its file, from the text of pyproject.toml."""
    version, licence = (re.findall(rf'^{key} = "(.*)"$', pyproject, re.M)[0] for key in ("version", "license"))
    pythons = re.findall(r"Programming Language :: Python :: (3\.\d+)", pyproject)
    values = {"version": version, "python": f"{pythons[0]} to {pythons[-1]}", "licence": licence}
    return {f"{name}.svg": badge(name, value) for name, value in values.items()}


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawn((_ROOT / "pyproject.toml").read_text(encoding="utf-8")).items():
        (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
