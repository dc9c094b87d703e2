"""The size of this code base: lines of code, names, parameters, and the files that the main calls pass through.

    python benchmarks/weight.py
    python benchmarks/weight.py --files

Lines of code are those of Python without comments, docstrings, imports and empty lines, by package of ``rfsize`` and
``integrations``. Parameters are those of the functions in ``rfsize.__all__`` and of the methods of its classes, without
``self``; constructors of result classes, which only rfsize calls, are left out. Files visited are files of rfsize in
which a function is called while one of the four main calls runs, on a trained LightGBM forest; ``moves`` counts how
often a call goes from one file to another. Code that runs on import is left out. ``--files`` names the files in the
order of their first visit.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import lightgbm as lgb
import made

import rfsize

ROOT = Path(__file__).parents[1]
ROWS, TREES, MOST = 2000, 500, 12
FOREST = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "random_state": 0, "verbose": -1, "n_jobs": 1}


def code_lines(text: str) -> int:
    """Lines of a module without comments, docstrings, imports and empty ones."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out |= set(range(node.lineno, node.end_lineno + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return sum(bool(line) and not line.startswith("#") and number not in left_out for number, line in lines)


def print_lines() -> None:
    """A line for each package."""
    found: Counter[str] = Counter()
    for folder in (ROOT / "rfsize", ROOT / "integrations"):
        for path in folder.rglob("*.py"):
            inside = path.relative_to(ROOT).parts
            found[inside[0] if len(inside) == 2 else "/".join(inside[:2])] += code_lines(
                path.read_text(encoding="utf-8")
            )
    print("| package | lines of code |")
    print("|---|---:|")
    for name, lines in sorted(found.items()):
        print(f"| {name} | {lines:,} |")
    print(f"| all | {found.total():,} |")


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of the interface by name, and methods of its classes; without errors, which only rfsize makes."""
    for name in rfsize.__all__:
        thing = getattr(rfsize, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            continue
        if not is_dataclass(thing):
            yield name, thing
        for method in dir(thing) if inspect.isclass(thing) else ():
            function = getattr(thing, method)
            if not method.startswith("_") and inspect.isroutine(function) and is_own(function.__module__):
                yield f"{name}.{method}", function


def is_own(module: str) -> bool:
    """Whether a module is one of rfsize's."""
    return module.partition(".")[0] == "rfsize"


def n_parameters(function: Callable[..., Any]) -> int:
    """Parameters that a caller may give."""
    return sum(name != "self" for name in inspect.signature(function).parameters)


def print_interface() -> None:
    """Print the number of names, and the functions with the most parameters."""
    print(f"\nNames in rfsize.__all__: {len(rfsize.__all__)}\n")
    print("| function | parameters |")
    print("|---|---:|")
    counts = {name: n_parameters(function) for name, function in public_functions()}
    for name, count in sorted(counts.items(), key=lambda each: -each[1])[:MOST]:
        print(f"| {name} | {count} |")


def visited(call: Callable[[], object]) -> tuple[list[str], int]:
    """Modules of rfsize that a call passes through, in order of the first visit, and the moves between them."""
    places: list[str] = []

    def on_event(frame: FrameType, event: str, _: object) -> None:
        # Methods that a dataclass generates are in no file.
        is_written = event == "call" and frame.f_code.co_filename.endswith(".py")
        if is_written and is_own(module_of(frame)) and not is_importing(frame):
            places.append(module_of(frame))

    sys.setprofile(on_event)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(dict.fromkeys(places)), sum(one != other for one, other in pairwise(places))


def module_of(frame: FrameType) -> str:
    """The name of the module that a frame runs in."""
    return str(frame.f_globals.get("__name__", ""))


def is_importing(frame: FrameType | None) -> bool:
    """Whether a frame is the body of a module that is imported, or is called by one."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and is_own(module_of(frame)):
            return True
        frame = frame.f_back
    return False


def print_trips(names: bool) -> None:
    """A line for each of the main calls."""
    X, y = made.twonorm(2 * ROWS, seed=0)
    X_val = X[ROWS:]
    model = lgb.LGBMClassifier(n_estimators=TREES, **FOREST).fit(X[:ROWS], y[:ROWS])
    trips: dict[str, Callable[[], object]] = {
        "rfsize.size(model, X, oob=True)": lambda: rfsize.size(model, X[:ROWS], oob=True),
        "rfsize.truncate(model, X_val)": lambda: rfsize.truncate(model, X_val),
        "rfsize.compile(model).predict(X)": lambda: rfsize.compile(model).predict(X),
        "rfsize.StopTable.calibrate(model, X_val)": lambda: rfsize.StopTable.calibrate(model, X_val),
    }
    found = {name: visited(call) for name, call in trips.items()}
    print("\n| call | files visited | moves |")
    print("|---|---:|---:|")
    for name, (files, moves) in found.items():
        print(f"| `{name}` | {len(files)} | {moves} |")
    if names:
        for name, (files, _) in found.items():
            print(f"\n{name}")
            for file in files:
                print(f"  {file}")


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="name the files that each call visits")
    options = parser.parse_args()
    print_lines()
    print_interface()
    print_trips(options.files)


if __name__ == "__main__":
    main()
