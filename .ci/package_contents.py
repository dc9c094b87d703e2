"""Compares an sdist and a wheel with the folder they were built from: python package_contents.py FOLDER SDIST WHEEL."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

# Folders all files of which are installed, and where.
INSTALLED = {"rfsize": "rfsize", "integrations": "rfsize/integrations"}
OF_THE_REPOSITORY_ALONE = (".github/", ".gitignore")
WRITTEN_BY_THE_BUILD = r"PKG-INFO|rfsize/_core\.[\w.-]+\.(so|pyd)|(.*/)?__pycache__/.*"
# What the wheel is compiled from.
SOURCES = "rfsize/_native/"


def written_by_us(names: Iterable[str]) -> set[str]:
    """The paths but those of what the build writes."""
    return {name for name in names if not re.fullmatch(WRITTEN_BY_THE_BUILD, name)}


def in_folder(folder: Path) -> set[str]:
    """Paths inside a folder."""
    return written_by_us(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def in_sdist(path: Path) -> set[str]:
    """Paths inside an sdist's one folder."""
    with tarfile.open(path) as sdist:
        return written_by_us(member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile())


def in_wheel(path: Path) -> set[str]:
    """Paths that a wheel installs, without what describes it."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert len(names - written_by_us(names)) == 1, "the wheel has not one compiled module"
    return written_by_us(names)


def compare(what: str, names: set[str], expected: set[str]) -> bool:
    """Whether they are the same; prints how they differ."""
    for title, differing in (("lacks", expected - names), ("has, which nobody expects,", names - expected)):
        if differing:
            print(f"{what} {title} {', '.join(sorted(differing))}")
    return names == expected


def main(folder: Path, sdist: Path, wheel: Path) -> int:
    """Zero where both hold what they should."""
    there = in_folder(folder)
    shipped = {name for name in there if not name.startswith(OF_THE_REPOSITORY_ALONE)}
    parts = (name.partition("/") for name in there)
    installed = {f"{INSTALLED[top]}/{rest}" for top, _, rest in parts if top in INSTALLED}
    installed = {name for name in installed if not name.startswith(SOURCES)}
    assert {"LICENSE", "tests/docs/test_docs.py"} <= shipped
    assert "rfsize/py.typed" in installed
    same = compare(sdist.name, in_sdist(sdist), shipped), compare(wheel.name, in_wheel(wheel), installed)
    print(f"{sdist.name}: {len(shipped)} files; {wheel.name}: {len(installed)} files")
    return 0 if all(same) else 1


if __name__ == "__main__":
    source, *built = map(Path, sys.argv[1:])
    wheels = [path for path in built if path.suffix == ".whl"]
    sdists = [path for path in built if path not in wheels]
    sys.exit(main(source, *sdists, *wheels))
