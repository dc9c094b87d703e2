"""The calls that a text advises, such as ``rfsize.size(model, X, oob=True)``, and whether they exist as written."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import rfsize
import rfsize.dask
import rfsize.integrations.sklearn

_OWNERS = {
    "report": rfsize.Report,
    "outputs": rfsize.TreeOutputs,
    **{
        name: getattr(rfsize, name)
        for name in ("Report", "StopTable", "TreeOutputs", "CompiledForest", "Votes", "OobScore", "Importances")
    },
}
_CALL = re.compile(rf"(?<![\w.])(?:rfsize(?:\.\w+)+|(?:{'|'.join(_OWNERS)})\.\w+)(?=\()")


def advised_calls(text: str) -> Iterator[tuple[str, Callable[..., Any] | None, set[str]]]:
    """The calls in ``text``: the name, what it names (None if nothing) and the keywords that it is given."""
    for match in _CALL.finditer(text):
        inside = _inside(text[match.end() :])
        yield match[0], _named(match[0]), set() if inside is None else _keywords(inside)


def keywords_of(function: Callable[..., Any]) -> set[str]:
    """What ``function`` may be given by name."""
    return {name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in (1, 3)}


def without_calls(text: str) -> str:
    """The text without any call's arguments: what remains in it is said to the reader's own call."""
    previous = None
    while previous != text:
        previous, text = text, re.sub(r"[\w.\])]+\([^()]*\)", " ", text)
    return text


def _named(path: str) -> Callable[..., Any] | None:
    first, *rest = path.split(".")
    named: Any = _OWNERS.get(first, rfsize)
    for name in rest:
        named = getattr(named, name, None)
    return named


def _inside(text: str) -> str | None:
    """What stands between the first parenthesis and the one that closes it."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:place]
    return None


def _keywords(arguments: str) -> set[str]:
    try:
        call = ast.parse(f"f({arguments.replace('…', '...')})", mode="eval").body
    except SyntaxError:  # it is said in words, such as "fraction of the rows"
        return set(re.findall(r"(\w+)=", arguments))
    return {keyword.arg for keyword in call.keywords if keyword.arg} if isinstance(call, ast.Call) else set()
