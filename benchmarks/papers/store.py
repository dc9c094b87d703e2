"""Results of runs, one line of JSON each, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Results:
    """The records of a file, to which records can be added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[Record] = []
        if path.exists():
            # A killed run may leave an incomplete last line.
            whole = path.read_text("utf-8").rpartition("\n")[0]
            path.write_text(whole + "\n" if whole else "", "utf-8")
            self.records = [json.loads(line) for line in whole.splitlines()]

    def of(self, **key: Any) -> list[Record]:
        """The records with these values."""
        return [record for record in self.records if all(record.get(name) == value for name, value in key.items())]

    def add(self, record: Record) -> None:
        """Append a record, to the file at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.records.append(record)
