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
HAVE_ZIG = {"x86_64", "aarch64"}  # Linux machines that get ziglang from the index
NO_COMPILER = """\
rfsize is compiled from C++ when you install it from its sources, and there is no compiler here: none of c++, g++ and
clang++ is on the PATH, and the variable CXX is not set. Install g++ 11 or later (Debian, Ubuntu: apt-get install g++;
Fedora: dnf install gcc-c++; conda: conda install cxx-compiler), or set CXX to the path of your compiler."""


def zig() -> list[str]:
    """What to install as a compiler: nothing where there is one. macOS and Windows keep theirs off the PATH."""
    names = "c++", "g++", "clang++", *shlex.split(sysconfig.get_config_var("CXX") or "")[:1]
    if sys.platform != "linux" or any(map(os.environ.get, SET_BY_USER)) or any(map(shutil.which, names)):
        return []
    if platform.machine() not in HAVE_ZIG:
        raise SystemExit(NO_COMPILER)
    return ["ziglang"]


def requires(hook):
    """The hook, which asks for Zig as well. pip hides what a build prints, so a terminal is told directly."""

    def with_zig(config_settings=None):
        if zig():
            line = "rfsize: no C++ compiler is here. Zig's is downloaded (100 MB) to build with: about two minutes."
            try:
                Path("/dev/tty").write_text(f"\n{line}\n")
            except OSError:
                print(line, file=sys.stderr)
        return [*hook(config_settings), *zig()]

    return with_zig


def builds(hook):
    """The hook, after Zig was put on the PATH where it is needed, at paths that stay from build to build."""

    def with_zig(*arguments, **named):
        if zig():
            if find_spec("ziglang") is None:
                raise SystemExit(NO_COMPILER)
            package = Path(find_spec("ziglang").origin).parent
            folder = Path("build", "zig").absolute()
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "lib").unlink(missing_ok=True)
            (folder / "lib").symlink_to(package / "lib")
            # Without -mcpu, Zig compiles for the processor of this machine alone; without -O, it builds the standard
            # library once more.
            for name, call in {"c++": "c++ -mcpu=baseline -O2", "ar": "ar", "ranlib": "ranlib"}.items():
                (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(package / "zig"))} {call} "$@"\n')
                (folder / name).chmod(0o755)
            os.environ["ZIG_LIB_DIR"] = str(folder / "lib")
            os.environ["CXX"] = str(folder / "c++")
            os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
            os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(folder / "cache"))
        return hook(*arguments, **named)

    return with_zig


get_requires_for_build_wheel = requires(build.get_requires_for_build_wheel)
get_requires_for_build_editable = requires(build.get_requires_for_build_editable)
build_wheel, build_editable = builds(build.build_wheel), builds(build.build_editable)
