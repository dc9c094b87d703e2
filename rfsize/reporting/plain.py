"""The account of a result that adds nothing to what it prints and draws."""

from __future__ import annotations

from typing import Any

from rfsize.reporting.account import Account, Picture, Section
from rfsize.reporting.words import sentence


def plain_account(result: Any, title: str, pictures: tuple[Picture, ...] = ()) -> Account:
    """Its first line is the verdict, and the others follow."""
    verdict, *lines = str(result).splitlines()
    return Account(title, sentence(verdict), sections=(Section("", tuple(map(sentence, lines)), pictures),))
