"""numba's compiler, set up once. Only modules that are imported when needed import this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """``function`` compiled to machine code that releases the GIL, and kept on disk between sessions.

    numba refuses ``cache=True`` where it finds no folder to write to (a read-only image without a home); there
    the function is compiled anew in each process.
    """
    with _kept_in_the_users_cache():
        try:
            return cast(_Function, numba.njit(cache=True, nogil=True)(function))
        except RuntimeError:
            return cast(_Function, numba.njit(nogil=True)(function))


@contextmanager
def _kept_in_the_users_cache() -> Iterator[None]:
    """Have numba keep its files in the user's cache folder, unless the user has chosen another.

    By default they lie beside the source, where pip does not know of them: an uninstalled rfsize would leave a folder
    of its name behind, which Python takes for a package.
    """
    settings: Any = numba.config
    chosen, folder = settings.CACHE_DIR, _cache_folder()
    if not chosen and folder is not None:
        settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = chosen


def _cache_folder() -> Path | None:
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        return (Path(named) if named else Path.home() / ".cache") / "rfsize"
    except RuntimeError:  # nobody's home
        return None
