"""Megabytes of each package in an environment, and which packages require it.

    python benchmarks/environment.py

It describes the environment of the Python that runs it, and needs no packages. It counts the files that packages list,
including compiled Python files. 1 MB is 1,000,000 bytes.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions


def name_of(text: str) -> str:
    """The name of a package, or of what a requirement asks for, as it is compared."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", text).group()).lower()


def size_of(package: Distribution) -> float:
    """Megabytes of a package's files."""
    places = {package.locate_file(each).resolve() for each in package.files or ()}
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def main() -> None:
    """Print a line for each package above half a megabyte, the largest first."""
    packages = {name_of(each.metadata["Name"]): each for each in distributions()}
    asking: dict[str, list[str]] = {name: [] for name in packages}
    for name, package in packages.items():
        for requirement in package.requires or ():
            if "extra ==" not in requirement and name_of(requirement) in asking:
                asking[name_of(requirement)].append(name)
    sizes = {name: size_of(package) for name, package in packages.items()}
    print("| package | version | MB | asked for by |")
    print("|---|---|---|---|")
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if sizes[name] >= 0.5:
            wanted = ", ".join(sorted(asking[name])) or "-"
            print(f"| {name} | {packages[name].version} | {sizes[name]:.0f} | {wanted} |")
    print(f"| all | | {sum(sizes.values()):.0f} | |")


if __name__ == "__main__":
    main()
