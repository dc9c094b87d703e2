"""Documents of stop tables, signed as their files are."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a checksum that fits it, as somebody hostile would write it."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**rest, "checksum": hashlib.sha256(text.encode()).hexdigest()}
