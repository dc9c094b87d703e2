"""Links to other projects' documentation: writes the inventories of elsewhere.txt for sphinx.ext.intersphinx."""

import zlib
from pathlib import Path

_NAMES = Path(__file__).with_suffix(".txt")
_HEAD = "# Sphinx inventory version 2\n# Project: {}\n# Version: stable\n# The remainder is compressed using zlib.\n"


def mapping(folder: Path) -> dict[str, tuple[str, str]]:
    """``intersphinx_mapping``, with inventories that are written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for part in _NAMES.read_text("utf-8").split("\n\n")[1:]:
        first, *names = part.strip().splitlines()
        project, address, page = first.split()
        file = folder / f"{project}.inv"
        lines = "".join(f"{name} py:{kind} 1 {page.replace('$', name)} -\n" for kind, name in map(str.split, names))
        file.write_bytes(_HEAD.format(project).encode() + zlib.compress(lines.encode()))
        found[project] = (address, str(file))
    return found
