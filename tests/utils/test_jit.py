"""Machine code kept on disk: files that were damaged or exchanged are none."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
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
_CALLS = """
from concurrent.futures import ThreadPoolExecutor
from functions import double, triple

with ThreadPoolExecutor(4) as pool:
    found = [pool.submit(function, x) for function, x in ((double, 2), (double, 2.5), (triple, 2)) * 4]
    print(*(each.result() for each in found[:3]), sum(sum(f.stats.cache_hits.values()) for f in (double, triple)))
"""
_RIGHT = "5 6.0 7"


def _called(folder: Path) -> tuple[str, int]:
    """What the functions answer in a new process, and how many of three were read from disk."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", _CALLS], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    *answers, hits = run.stdout.split()
    return " ".join(answers), int(hits)


def _assert_healed(folder: Path) -> None:
    assert _called(folder)[0] == _RIGHT
    # An index that was written anew has forgotten the other kind of argument, which may take one more process.
    assert (_RIGHT, 3) in (_called(folder) for _ in range(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jit")
    (folder / "functions.py").write_text(_MODULE)
    _called(folder)
    assert _called(folder) == (_RIGHT, 3)
    return folder


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "no pickle": lambda content: bytes(range(255, 0, -1)) * 9,
    "another pickle": lambda content: pickle.dumps((1, 2)),
    "zeros at the end": lambda content: content[:300] + bytes(len(content) - 300),
    "zeros in the middle": lambda content: content[: len(content) // 2] + bytes(99) + content[len(content) // 2 + 99 :],
    "one bit": lambda content: content[:-700] + bytes([content[-700] ^ 4]) + content[-699:],
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damages",
    [
        ("empty", "cut"),
        ("no pickle", "another pickle"),
        ("zeros at the end", "zeros in the middle"),
        ("one bit", "empty"),
    ],
)
def test_a_damaged_cache_is_no_cache(ending: str, damages: tuple[str, str], folder: Path) -> None:
    paths = sorted(folder.glob(f"cache/*/*.{ending}"))
    assert len(paths) >= 2
    for place, path in enumerate(paths):
        path.write_bytes(_DAMAGES[damages[place % 2]](path.read_bytes()))
    _assert_healed(folder)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("functions.double-*.nbi", "functions.triple-*.nbi"),
        ("functions.double-*.1.nbc", "functions.triple-*.1.nbc"),
        ("functions.double-*.1.nbc", "functions.double-*.2.nbc"),
        ("functions.double-*.nbi", "functions.double-*.1.nbc"),
    ],
)
def test_exchanged_files_are_no_cache(one: str, other: str, folder: Path) -> None:
    (first,), (second,) = (list(folder.glob(f"cache/*/{name}")) for name in (one, other))
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    _assert_healed(folder)


def test_files_that_can_be_neither_read_nor_written_do_no_harm(folder: Path) -> None:
    blocked = list(folder.glob("cache/*/*.nb?"))
    for path in blocked:
        path.unlink()
        path.mkdir()
    assert _called(folder) == (_RIGHT, 0)
    for path in blocked:
        path.rmdir()
    _assert_healed(folder)


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
