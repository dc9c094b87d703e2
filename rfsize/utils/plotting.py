"""What the pictures have in common; matplotlib is imported only where one is drawn."""

from __future__ import annotations


def percent(share: float, _: int) -> str:
    """Label of a tick: only 1, 2 and 5 of each power of ten, so that the ticks do not crowd."""
    first_digit = f"{share:e}"[0]
    return f"{share:.3%}".rstrip("0%").rstrip(".") + " %" if first_digit in "125" else ""
