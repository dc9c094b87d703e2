"""scikit-build-core, and Zig's compiler from the package index where a Linux machine has no compiler for C++."""

import os
import platform
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403 (all hooks but those at the end)

SET_BY_USER = "CXX", "CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE"  # each may say where the compiler is
HAVE_ZIG = {"x86_64", "aarch64"}  # Linux machines for which the index has ziglang
FOLDER = Path("build", "zig").absolute()  # kept from build to build, so that the next one compiles nothing
NO_COMPILER = """\
rfsize is compiled from C++ when you install it from its sources, and there is no compiler here: none of c++, g++ and
clang++ is on the PATH, and the variable CXX is not set. Install g++ 11 or later (Debian, Ubuntu: apt-get install g++;
Fedora: dnf install gcc-c++; conda: conda install cxx-compiler), or set CXX to the path of your compiler."""


def needs_zig() -> bool:
    """Whether there is no compiler. macOS and Windows keep theirs off the PATH."""
    names = "c++", "g++", "clang++", *shlex.split(sysconfig.get_config_var("CXX") or "")[:1]
    if sys.platform != "linux" or any(map(os.environ.get, SET_BY_USER)) or any(map(shutil.which, names)):
        return False
    if platform.machine() not in HAVE_ZIG:
        raise SystemExit(NO_COMPILER)
    return True


def requires(hook):
    """The hook, which asks for Zig as well. pip hides what a build prints, so a terminal is told directly."""

    def with_zig(config_settings=None):
        if not needs_zig() or (FOLDER / "ziglang").exists():
            return hook(config_settings)
        line = "rfsize: no C++ compiler is here. Zig's is downloaded (100 MB) to build with: about two minutes."
        try:
            Path("/dev/tty").write_text(f"\n{line}\n")
        except OSError:
            print(line, file=sys.stderr)
        return [*hook(config_settings), "ziglang"]

    return with_zig


def builds(hook):
    """The hook, after Zig's compiler was put on the PATH where there is no other."""

    def with_zig(*arguments, **named):
        if needs_zig():
            put_zig_on_path()
        return hook(*arguments, **named)

    return with_zig


def put_zig_on_path() -> None:
    """Keep a copy of Zig, and commands that call it by the names that CMake knows."""
    if not (FOLDER / "ziglang").exists():
        package = find_spec("ziglang")
        if package is None:
            raise SystemExit(NO_COMPILER)
        shutil.copytree(Path(package.origin).parent, FOLDER / "partial", dirs_exist_ok=True)
        (FOLDER / "partial").rename(FOLDER / "ziglang")
    program = shlex.quote(str(FOLDER / "ziglang" / "zig"))
    # Without -mcpu, Zig compiles for the processor of this machine alone; without -O, its library is built twice.
    for name, call in {"c++": "c++ -mcpu=baseline -O2", "ar": "ar", "ranlib": "ranlib"}.items():
        (FOLDER / name).write_text(f'#!/bin/sh\nexec {program} {call} "$@"\n')
        (FOLDER / name).chmod(0o755)
    os.environ["CXX"] = str(FOLDER / "c++")
    os.environ["PATH"] = os.pathsep.join([str(FOLDER), os.environ.get("PATH", os.defpath)])
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(FOLDER / "cache"))


get_requires_for_build_wheel = requires(build.get_requires_for_build_wheel)
get_requires_for_build_editable = requires(build.get_requires_for_build_editable)
build_wheel, build_editable = builds(build.build_wheel), builds(build.build_editable)
