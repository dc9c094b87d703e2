"""Run the papers' experiments again and write the pages that compare them: ``python -m benchmarks.papers --help``.

    python -m benchmarks.papers --data tables
    python -m benchmarks.papers --papers 2013 --openml --papers-repetitions
    python -m benchmarks.papers --pages-only

Every run is a line of JSON in ``benchmarks/papers/results``. Runs in this folder are not repeated, so an interrupted
call continues where it stopped, and a call with more repetitions adds to them. The pages, ``docs/results``, are written
from the existing runs. FOLDER holds CSV files, features first, the class in the last column, named target. Tables that
are not in FOLDER, not drawn and not part of scikit-learn are fetched from OpenML with ``--openml``, and left out
without it.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.papers.comparing import HERE, REPETITIONS, table
from benchmarks.papers.grown import FRAMEWORKS
from benchmarks.papers.page import Finding, write_page
from benchmarks.papers.problems import NoDataError, rows_of
from benchmarks.papers.store import Results

# The main paper first; the module of its experiments, that of its page, the page and its template have this name.
PAPERS = {
    "2013": "hernandez_lobato_2013",
    "2016": "soto_2016",
    "2010": "martinez_munoz_2010",
    "2001": "latinne_2001",
}
PAGES = HERE.parents[1] / "docs" / "results"


def module_of(name: str) -> Any:
    return import_module(f"benchmarks.papers.{name}")


def run(year: str, options: argparse.Namespace) -> None:
    """All repetitions of a paper's cases that are still to be run."""
    paper, results = module_of(PAPERS[year]), Results(options.results / f"{year}.jsonl")
    table = partial(rows_of, folder=options.data, openml=options.openml)
    cases = [
        {"problem": problem, "framework": framework, **variant}
        for problem, framework, variant in product(paper.PROBLEMS, options.frameworks, paper.VARIANTS)
        if problem in (options.problems or paper.PROBLEMS)
        and (framework == "scikit-learn" or variant not in paper.NOT_ELSEWHERE)
    ]
    missing: set[str] = set()
    for repetition in range(options.repetitions):
        for case in tqdm(cases, desc=f"{year}, repetition {repetition}"):
            if case["problem"] in missing or results.of(**case, repetition=repetition):
                continue
            try:
                results.add({**case, "repetition": repetition, **paper.run(case, repetition, table)})
            except NoDataError as error:
                missing.add(case["problem"])
                tqdm.write(f"left out: {error}")


def write(folder: Path) -> None:
    """All pages, from the runs there are."""
    findings_of: dict[str, list[Finding]] = {}
    for year, name in PAPERS.items():
        if records := Results(folder / f"{year}.jsonl").records:
            findings_of[year] = module_of(f"{name}_page").write(records, PAGES)
    lines = [
        [f"{year}: {finding.paper}", *(finding.ours.get(framework, "") for framework in FRAMEWORKS)]
        for year, findings in findings_of.items()
        for finding in findings
    ]
    pages = "\n".join(PAPERS[year] for year in findings_of)
    write_page(PAGES, "index", pages=pages, findings=table(["finding", *FRAMEWORKS], lines))


def main() -> None:
    """Run, then write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--papers", nargs="+", choices=PAPERS, default=list(PAPERS))
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="of tables")
    parser.add_argument("--openml", action="store_true", help="fetch tables that are not in the folder")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--papers-repetitions", dest="repetitions", action="store_const", const=REPETITIONS, help="as the papers: 100"
    )
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS)
    parser.add_argument("--problems", nargs="+", help="only these")
    parser.add_argument("--results", type=Path, default=HERE / "results", metavar="FOLDER", help="of the runs")
    parser.add_argument("--pages-only", action="store_true", help="write the pages from the runs there are")
    options = parser.parse_args()
    for year in () if options.pages_only else options.papers:
        run(year, options)
    write(options.results)


if __name__ == "__main__":
    main()
