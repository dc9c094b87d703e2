"""numba's compiler, set up once. Only modules that are imported when needed import this one."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

try:
    import numba
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.sigutils import normalize_signature
except ImportError as failed:
    raise ImportError(
        f"this part of rfsize is compiled by numba, which cannot be imported ({failed}): install it with pip install "
        "numba, in a version for this Python and NumPy"
    ) from failed

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """``function`` compiled to machine code that releases the GIL, and kept on disk between sessions.

    Where no folder can be written to (a read-only image without a home), it is compiled anew in each process.
    """
    found: Any = numba.njit(nogil=True)(function)
    if found is not function:  # as it is under NUMBA_DISABLE_JIT
        with suppress(RuntimeError), _kept_in_the_users_cache():
            found._cache = _Cache(found.py_func)  # as Dispatcher.enable_caching does, with numba's own class
    return cast(_Function, found)


class _SignedCode(CompileResultCacheImpl):  # type: ignore[misc]
    """Machine code on disk, signed: of a damaged or exchanged file numba notices nothing, votes wrongly or crashes."""

    def reduce(self, code: Any) -> tuple[bytes, bytes]:
        content = pickle.dumps(super().reduce(code))
        return self._signature(code.codegen, content), content

    def rebuild(self, target_context: Any, reduced: tuple[bytes, bytes]) -> Any:
        signature, content = reduced
        if signature != self._signature(target_context.codegen(), content):
            raise ValueError("damaged, or of another function, version of its source or processor")
        return super().rebuild(target_context, pickle.loads(content))

    def _signature(self, codegen: Any, content: bytes) -> bytes:
        of = self.filename_base, self.locator.get_source_stamp(), _stamp_of_sources(), codegen.magic_tuple()
        return hashlib.sha256(repr(of).encode() + content).digest()


@lru_cache(maxsize=1)
def _stamp_of_sources() -> str:
    """Changes with any file of rfsize: numba looks at a function's own, not at those whose functions it calls."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, where files that cannot be read or written are none.

    Whatever unpickling raises, and whatever the disk does, the function can still be compiled.
    """

    _impl_class = _SignedCode

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
            if found is None or found.signature.args == normalize_signature(sig)[0]:
                return found
        except Exception:
            pass
        with suppress(Exception):
            self.flush()  # an index that cannot be read, or names another's files, would stand in the way of saving
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


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
