"""scikit-build-core, which is asked to build only where there is a compiler to build with."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from typing import Any

from scikit_build_core import build as cmake_build
from scikit_build_core.build import *  # noqa: F403 (all but the two hooks below)

# By any of these somebody says where the compiler is.
SAID_BY = "CXX", "CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE"


def expect_compiler() -> None:
    """End the build where CMake would find no compiler; macOS and Windows have theirs elsewhere than on the PATH."""
    of_python = shlex.split(sysconfig.get_config_var("CXX") or "")[:1]
    if sys.platform != "linux" or any(map(os.environ.get, SAID_BY)):
        return
    if not any(map(shutil.which, ("c++", "g++", "clang++", *of_python))):
        raise SystemExit(
            "rfsize is compiled from C++ when you install it from its sources, and there is no compiler here: none\n"
            "of c++, g++ and clang++ is on the PATH, and the variable CXX is not set. Install one of C++20, such as\n"
            "g++ 12 (Debian and Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; conda: conda install\n"
            "cxx-compiler), or set CXX to the path of yours."
        )


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """What a wheel is built with; the first that is asked of a backend."""
    expect_compiler()
    return cmake_build.get_requires_for_build_wheel(settings)


def get_requires_for_build_editable(settings: Any = None) -> list[str]:
    """What an editable install is built with."""
    expect_compiler()
    return cmake_build.get_requires_for_build_editable(settings)
