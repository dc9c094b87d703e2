"""Rows that were asked by about as many trees, row by row."""

from __future__ import annotations

from collections import defaultdict


def strata(asked: list[int], fewest: int) -> list[set[int]]:
    """Rows by the doubling of their votes, from the fewest up, those of few rows put with the next."""
    by_doubling: dict[int, set[int]] = defaultdict(set)
    for row, votes in enumerate(asked):
        by_doubling[votes.bit_length()].add(row)
    found: list[set[int]] = [set()]
    for doubling in sorted(by_doubling):
        if len(found[-1]) >= fewest:
            found.append(set())
        found[-1] |= by_doubling[doubling]
    if len(found) > 1 and len(found[-1]) < fewest:
        last = found.pop()
        found[-1] |= last
    return found
