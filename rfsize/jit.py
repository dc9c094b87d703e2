"""numba's compiler, set up once. Only modules that are imported when needed import this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """``function`` compiled to machine code that releases the GIL, and kept on disk between sessions.

    numba refuses ``cache=True`` where it finds no folder to write to (a read-only image without a home); there
    the function is compiled anew in each process.
    """
    try:
        return cast(_Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(_Function, numba.njit(nogil=True)(function))
