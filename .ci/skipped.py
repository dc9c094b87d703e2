"""Lists what stages of CI did not run, and why: python skipped.py STAGE.log …, of stages that ran ``pytest -rs``.

A skipped test says nothing of what the project claims. So each reason is either one of those below, where there is
nothing to claim or another stage looks, or CI has failed: install what is missing, or take the claim back.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Reasons, and why each may stand.
MAY_BE_SKIPPED = {
    r"\b(before|since) (XGBoost )?\d+\.\d+": "what this version of a framework cannot do, or no longer",
    r"this (XGBoost|LightGBM) (does not|keeps no more|has)": "what this version of a framework cannot do, or no longer",
    r"^SCIPY_ARRAY_API is not set": "scikit-learn's check of arrays of other libraries",
    r"has __version__": "what this version of a framework cannot do, or no longer",
    r"^compiling with .*, which is not installed": "compilers beside the one of the builds",
    r"on this system|Windows|a shell's pipes|on Linux alone": "other systems",
}
# Folders of tests whose packages are in no extra of the others, and the stage that runs them, here or in another job.
ELSEWHERE = {"tests/spark/": "spark"}

_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] ([^:]+)(?::\d+)?: (.*)$")
_NOT_RUN = re.compile(r"^NOT RUN: (.*)$")


def skipped(logs: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """The place, the reason and the number of tests of each skip."""
    for stage, text in logs.items():
        for line in text.splitlines():
            if match := _NOT_RUN.match(line):
                yield stage, match[1], 1
            elif match := _SKIPPED.match(line):
                yield f"{stage}: {match[2]}", match[3], int(match[1])


def excuse(place: str, reason: str, failed: set[str]) -> str | None:
    """Why a skip may stand, or None."""
    for folder, stage in ELSEWHERE.items():
        if folder in place and stage not in failed:
            return f"run in the stage {stage}"
    return next((why for known, why in MAY_BE_SKIPPED.items() if re.search(known, reason)), None)


def main(paths: list[Path]) -> int:
    """Print the list; zero where each skip may stand."""
    logs = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in paths}
    failed = {stage for stage, text in logs.items() if not re.search(r"\b\d+ passed", text)}
    tests: Counter[tuple[str | None, str, str]] = Counter()
    for place, reason, count in skipped(logs):
        tests[excuse(place, reason, failed), place, reason] += count
    unexcused = 0
    for (why, place, reason), count in sorted(tests.items(), key=lambda item: (item[0][0] or "", *item[0][1:])):
        unexcused += why is None
        print(f"  {count:>3} × {place}: {reason} [{why or 'MUST RUN'}]")
    print(f"{sum(tests.values())} skipped, {unexcused} for a reason that must not be")
    return 1 if unexcused else 0


if __name__ == "__main__":
    sys.exit(main(list(map(Path, sys.argv[1:]))))
