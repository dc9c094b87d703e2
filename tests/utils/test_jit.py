"""Machine code kept on disk: files that were damaged or exchanged are none."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import rfsize.integrations
from rfsize.utils import jit

# Two functions of the same bytecode, which numba's index cannot tell apart, and two kinds of argument.
_MODULE = """
from rfsize.utils.jit import compiled

@compiled
def double(x):
    return x * 2 + 1

@compiled
def triple(x):
    return x * 3 + 1
"""
# Prints a line for each module: what its functions answer, and how many of three calls were read from disk.
_CALLS = """
import importlib, sys
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    for name in sys.argv[1:]:
        module = importlib.import_module(name)
        double, triple = module.double, module.triple
        found = [pool.submit(function, x) for function, x in ((double, 2), (double, 2.5), (triple, 2)) * 4]
        print(*(each.result() for each in found[:3]), sum(sum(f.stats.cache_hits.values()) for f in (double, triple)))
"""
_RIGHT = "5 6.0 7"

_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "no pickle": lambda content: bytes(range(255, 0, -1)) * 9,
    "another pickle": lambda content: pickle.dumps((1, 2)),
    "zeros at the end": lambda content: content[:300] + bytes(len(content) - 300),
    "zeros in the middle": lambda content: content[: len(content) // 2] + bytes(99) + content[len(content) // 2 + 99 :],
    "one bit": lambda content: content[:-700] + bytes([content[-700] ^ 4]) + content[-699:],
}
_EXCHANGES = {
    "indexes": ("double-*.nbi", "triple-*.nbi"),
    "code": ("double-*.1.nbc", "triple-*.1.nbc"),
    "code of other arguments": ("double-*.1.nbc", "double-*.2.nbc"),
    "index and code": ("double-*.nbi", "double-*.1.nbc"),
}


class Modules:
    """Copies of the module with caches of their own, all called in one process."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.folder, self.names = folder, {name: name.replace(" ", "_") for name in names}
        for module in self.names.values():
            (folder / f"{module}.py").write_text(_MODULE)
        self.called()
        assert self.called() == dict.fromkeys(self.names, (_RIGHT, 3))

    def files(self, name: str, pattern: str) -> list[Path]:
        """The files kept for a module."""
        return sorted(self.folder.glob(f"cache/*/{self.names[name]}.{pattern}"))

    def called(self) -> dict[str, tuple[str, int]]:
        """What the functions of each module answer in a new process, and how many of three were read from disk."""
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(self.folder / "cache")}
        call = [sys.executable, "-c", _CALLS, *self.names.values()]
        run = subprocess.run(call, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        answers = [line.rsplit(" ", 1) for line in run.stdout.splitlines()]
        return {name: (said, int(hits)) for name, (said, hits) in zip(self.names, answers, strict=True)}

    def assert_healed(self) -> None:
        """All answer rightly at once, and soon from disk again."""
        assert {name: said for name, (said, _) in self.called().items()} == dict.fromkeys(self.names, _RIGHT)
        # An index that was written anew has forgotten the other kind of argument, which may take one more process.
        self.called()
        assert self.called() == dict.fromkeys(self.names, (_RIGHT, 3))


def test_files_that_are_damaged_exchanged_or_blocked_are_no_cache(tmp_path: Path) -> None:
    damaged = {f"{what} {ending}": (damage, ending) for what, damage in _DAMAGES.items() for ending in ("nbi", "nbc")}
    modules = Modules(tmp_path, [*damaged, *_EXCHANGES, "blocked"])
    for name, (damage, ending) in damaged.items():
        paths = modules.files(name, f"*.{ending}")
        assert len(paths) >= 2
        for path in paths:
            path.write_bytes(damage(path.read_bytes()))
    for name, exchanged in _EXCHANGES.items():
        (first,), (second,) = (modules.files(name, pattern) for pattern in exchanged)
        contents = first.read_bytes(), second.read_bytes()
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])
    # What can be neither read nor written does no harm.
    blocked = modules.files("blocked", "*.nb?")
    for path in blocked:
        path.unlink()
        path.mkdir()
    found = modules.called()
    assert {name: said for name, (said, _) in found.items()} == dict.fromkeys(modules.names, _RIGHT)
    assert found["blocked"] == (_RIGHT, 0)
    for path in blocked:
        path.rmdir()
    modules.assert_healed()


def _modules_of_kernels() -> list[str]:
    """All modules that hold compiled loops."""
    parts = {"rfsize": Path(jit.__file__).parents[1], "rfsize.integrations": Path(rfsize.integrations.__file__).parent}
    found = {
        ".".join([package, *path.relative_to(folder).with_suffix("").parts])
        for package, folder in parts.items()
        for path in folder.rglob("*.py")
        if "@compiled" in path.read_text(encoding="utf-8")
    }
    return sorted(found)


@pytest.mark.parametrize("name", _modules_of_kernels())
def test_every_kernel_has_such_a_cache(name: str) -> None:
    module = importlib.import_module(name)
    kernels = [found for found in vars(module).values() if isinstance(found, Dispatcher)]
    assert kernels
    assert all(isinstance(kernel._cache, jit._Cache) for kernel in kernels)


def test_code_is_of_all_sources(tmp_path: Path) -> None:
    """Machine code holds that of functions in other files, which may have changed."""
    changed = {"one": jit._stamp_of_sources()}
    copied = tmp_path / "rfsize"
    shutil.copytree(Path(jit.__file__).parents[1], copied, ignore=shutil.ignore_patterns("__pycache__"))
    spec = importlib.util.spec_from_file_location("copied_jit", copied / "utils" / "jit.py")
    assert spec is not None
    assert spec.loader is not None
    for name in ("same", "other"):
        if name == "other":
            with (copied / "walking" / "kernels.py").open("a") as file:
                file.write("\n")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        changed[name] = module._stamp_of_sources()
    assert changed["one"] == changed["same"] != changed["other"]
