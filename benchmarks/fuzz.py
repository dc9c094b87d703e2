"""Damaged files: the loaders must refuse them by rfsize's own errors, or read them and predict finite numbers.

Each case has a seed and a number, which are printed if it fails; ``--seed SEED --only NUMBER`` repeats it. The cases
run in a fork of this process, which is restarted after a crash, because LightGBM and XGBoost themselves crash on some
damaged models. A crash counts as theirs only if Python was last inside their packages. In a build with sanitizers
(`.ci/native`), compiled loops also check every index.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # threads of OpenMP do not outlive a fork

import argparse
import faulthandler
import multiprocessing
import re
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fuzz_loaders import LOADERS, FrameworkError, Loader, some

import rfsize

OURS = (
    rfsize.exceptions.NotAForestError,
    rfsize.exceptions.InbagError,
    rfsize.exceptions.ForestFileError,
    rfsize.exceptions.TableError,
)
FRAMEWORKS = ("/lightgbm/", "/xgboost/")
MEMORY = 1 << 30  # bytes that a process may take above its start
PATIENCE = 60.0  # seconds for one case
LAST_RESORT = "reading it raises a "  # a refusal that no check foresaw


def content_of(loader: Loader, seed: int, number: int) -> bytes:
    """The damaged file of one case."""
    rng = np.random.default_rng([seed, number])
    return loader.damaged(some(rng, [*loader.whole, *loader.other]), rng)


def outcome_of(loader: Loader, content: bytes) -> str:
    """The outcome of one case; a failure is named by its exception."""
    try:
        loader.read(content)
    except FrameworkError:
        return "the framework refuses"
    except OURS as error:
        cause = error.__cause__
        if isinstance(cause, MemoryError):
            return f"FAILURE asks for memory: {str(error)[:150]}"
        return "refused as a last resort" if LAST_RESORT in str(error) else "refused"
    except Exception as error:
        return f"FAILURE {type(error).__name__}: {str(error)[:150]}"
    return "read"


def work(loader: Loader, seed: int, numbers: range, results: Any, trace: str) -> None:
    """Send the outcome of each case, its seconds, and the peak of memory so far."""
    warnings.simplefilter("ignore")
    faulthandler.enable(open(trace, "w"), all_threads=False)  # noqa: SIM115 (open until the crash)
    for stream in (1, 2):  # frameworks print complaints here
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    at_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        content, started = content_of(loader, seed, number), time.process_time()
        outcome = outcome_of(loader, content)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_start
        results.send((outcome, time.process_time() - started, taken * 1024))


def crash(trace: str) -> str:
    """Which package crashed, by the file that Python ran last."""
    places = re.findall('  File "(.*)", line (.*)', Path(trace).read_text())
    if places and any(framework in places[0][0] for framework in FRAMEWORKS):
        return "the framework crashes"
    return f"FAILURE crash: {places[:3]}"


class Summary(NamedTuple):
    """Cases by outcome, seconds and number of the slowest case, and the peak of memory."""

    counts: Counter[str]
    slowest: tuple[float, int]
    memory: int


def fuzzed(name: str, loader: Loader, seed: int, numbers: range) -> Summary:
    """Run the cases, and print each failure."""
    context, counts, at = multiprocessing.get_context("fork"), Counter[str](), numbers.start
    slowest, memory = (0.0, 0), 0
    trace = str(Path(tempfile.mkdtemp()) / "trace")
    while at < numbers.stop:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(loader, seed, range(at, numbers.stop), sender, trace))
        process.start()
        sender.close()
        outcome, seconds, taken = "", 0.0, 0
        while at < numbers.stop and "hangs" not in outcome and "crash" not in outcome:
            try:
                outcome, seconds, taken = receiver.recv() if receiver.poll(PATIENCE) else ("FAILURE hangs", PATIENCE, 0)
            except EOFError:
                process.join()
                outcome, seconds, taken = crash(trace), 0.0, 0
            if outcome.startswith("FAILURE") or "crashes" in outcome:
                print(f"{name}: --seed {seed} --only {at}: {outcome}", flush=True)
            counts["FAILURE" if outcome.startswith("FAILURE") else outcome] += 1
            slowest, memory = max(slowest, (seconds, at)), max(memory, taken)
            at += 1
        process.kill()
        process.join()
        receiver.close()
    return Summary(counts, slowest, memory)


def main() -> None:
    """Print the failures and the counts of each loader; exit with 1 if there are failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of each loader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--loader", choices=LOADERS, nargs="+", default=list(LOADERS), help="all by default")
    given = parser.parse_args()
    numbers = range(given.cases) if given.only is None else range(given.only, given.only + 1)
    failures = 0
    for name in given.loader:
        loader = LOADERS[name]()
        for content in loader.whole:
            loader.read(content)
        found = fuzzed(name, loader, given.seed, numbers)
        failures += found.counts["FAILURE"]
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.counts.most_common())
        print(
            f"{name}: seed {given.seed}, {numbers.stop - numbers.start:,} cases: {counts}; slowest "
            f"{found.slowest[0]:.2f} s (number {found.slowest[1]}), {found.memory / 1e6:.0f} MB",
            flush=True,
        )
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
