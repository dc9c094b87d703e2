"""C99 as text: numbers, arrays and strings, and the parts of ``forest.c.in``."""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from string import Template, ascii_letters, digits
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Width of a line of numbers, without the indent.
_WIDTH = 112
_IDENTIFIER = re.compile("[A-Za-z][A-Za-z0-9_]*")


@cache
def _parts() -> dict[str, str]:
    text = files("rfsize.walking").joinpath("forest.c.in").read_text(encoding="utf-8")
    parts = re.split("^//// (.*)\\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def part(which: str, /, **known: object) -> str:
    """A part of ``forest.c.in``, with its placeholders filled in, and of its lines after a flag those that it lets."""

    def line_after(flag: re.Match[str]) -> str:
        return flag[3] if bool(known[flag[2]]) != bool(flag[1]) else ""

    kept = re.sub(r"^\?(!?)(\w+)\|(.*\n)", line_after, _parts()[which], flags=re.MULTILINE)
    return Template(kept).substitute(known)


def checked_name(name: str) -> str:
    """Check a name that the functions are to begin with.

    Raises
    ------
    ValueError
        If C does not allow it.
    """
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"name must be a C identifier that begins with a letter, such as 'forest', found {name!r}")
    return name


def smallest(*numbers: int) -> str:
    """The smallest integer type that holds all of the numbers."""
    least, most = min(numbers), max(numbers)
    return f"{np.min_scalar_type(most if least >= 0 else min(least, -1 - most))}_t"


def array(name: str, numbers: NDArray[Any], kind: str = "") -> str:
    """A constant array of at least one number, in the smallest type or in ``kind``."""
    if numbers.dtype.kind == "f":
        kind = kind or ("float" if numbers.dtype == np.float32 else "double")
        items = [real(number, single=kind == "float") for number in numbers.tolist()]
    else:
        kind = kind or smallest(*numbers[[numbers.argmin(), numbers.argmax()]].tolist())
        items = list(map(str, numbers.tolist()))
    return f"static const {kind} {name}[{len(items)}] = {{\n{lines(items)}\n}};\n"


def lines(items: list[str]) -> str:
    """Items with commas between them, several per line."""
    per_line = max(1, _WIDTH // (max(map(len, items)) + 2))
    return ",\n".join("    " + ", ".join(items[first : first + per_line]) for first in range(0, len(items), per_line))


def real(number: float, *, single: bool = False) -> str:
    """A floating-point number to the last bit, or rounded to single precision."""
    number = float(np.float32(number) if single else number)
    if math.isinf(number):
        return "INFINITY" if number > 0.0 else "-INFINITY"
    mantissa, _, exponent = number.hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}{'f' if single else ''}"


def text(label: Any) -> str:
    """A C string literal equal to ``str(label)`` in UTF-8. Everything but letters and digits is escaped."""
    return f'"{_escaped(str(label).encode("utf-8", "surrogatepass"))}"'


def remark(name: Any) -> str:
    """``str(name)`` in UTF-8 for a comment in C, escaped as in `text`."""
    return _escaped(str(name).encode("utf-8", "surrogatepass"), "_ -.")


def _escaped(content: bytes, others: str = "") -> str:
    """Letters, digits and ``others`` as they are, all else as three octal digits, whatever character follows."""
    plain = {ord(letter) for letter in ascii_letters + digits + others}
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in content)
