"""Prints the lowest versions that pyproject.toml allows, as constraints for pip: ``python .ci/oldest.py >FILE``."""

import re
import tomllib
from pathlib import Path

TOOLS = {"test", "bench", "docs", "dev"}  # extras of developers, who take the newest

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]
extras = [listed for extra, listed in project["optional-dependencies"].items() if extra not in TOOLS]
for requirement in dict.fromkeys(sum(extras, project["dependencies"])):
    if lowest := re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)(.*)", requirement):
        print(f"{lowest[1]}=={lowest[2]}.*{lowest[3]}")
