"""scikit-build-core, and Zig's compiler from the package index where a Linux machine has no compiler for C++."""

import os
import platform
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from scikit_build_core import build as cmake_build
from scikit_build_core.build import *  # noqa: F403 (all hooks but the four below)

SET_BY_USER = "CXX", "CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE"  # each may say where the compiler is
HAVE_ZIG = {"x86_64", "aarch64"}  # Linux machines for which the package ziglang exists
NO_COMPILER = """\
rfsize is compiled from C++ when you install it from its sources, and there is no compiler here: none of c++, g++ and
clang++ is on the PATH, and the variable CXX is not set. Install g++ 11 or later (Debian and Ubuntu: apt-get install g++;
Fedora: dnf install gcc-c++; conda: conda install cxx-compiler), or set CXX to the path of your compiler."""


def zig() -> list[str]:
    """What to install as a compiler: nothing where there is one; macOS and Windows keep theirs off the PATH."""
    of_python = shlex.split(sysconfig.get_config_var("CXX") or "")[:1]
    if sys.platform != "linux" or any(map(os.environ.get, SET_BY_USER)):
        return []
    if any(map(shutil.which, ("c++", "g++", "clang++", *of_python))):
        return []
    if platform.machine() not in HAVE_ZIG:
        raise SystemExit(NO_COMPILER)
    return ["ziglang"]


def tell(line: str) -> None:
    """Print a line past pip, which hides what a build prints: 100 MB are downloaded meanwhile."""
    try:
        with open("/dev/tty", "w") as terminal:
            print(f"\n{line}", file=terminal)
    except OSError:
        print(line, file=sys.stderr)


def find_compiler() -> None:
    """Where there is no compiler, put Zig's on the PATH, by commands whose paths stay the same in the next build."""
    if not zig():
        return
    package = find_spec("ziglang")
    if package is None or package.origin is None:
        raise SystemExit(NO_COMPILER)
    folder = Path("build", "zig").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    program = shlex.quote(str(Path(package.origin).with_name("zig")))
    # Without -mcpu, Zig compiles for the processor of this machine alone.
    for name, call in {"c++": "c++ -mcpu=baseline", "ar": "ar", "ranlib": "ranlib"}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {program} {call} "$@"\n')
        (folder / name).chmod(0o755)
    os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(folder / "cache"))


def _requires(hook, settings):
    if zig():
        tell("rfsize: there is no C++ compiler here. Downloading Zig's (100 MB) to build with; this takes two minutes.")
    return [*hook(settings), *zig()]


def get_requires_for_build_wheel(config_settings=None):
    return _requires(cmake_build.get_requires_for_build_wheel, config_settings)


def get_requires_for_build_editable(config_settings=None):
    return _requires(cmake_build.get_requires_for_build_editable, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    find_compiler()
    return cmake_build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    find_compiler()
    return cmake_build.build_editable(wheel_directory, config_settings, metadata_directory)
