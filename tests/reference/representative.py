"""Rows that were asked by about as many trees, row by row."""

from __future__ import annotations

from collections import defaultdict


def strata(n_votes: list[int], fewest: int) -> list[set[int]]:
    """Rows by the doubling of their votes, from the fewest up, those of few rows put with the next."""
    by_doubling: dict[int, set[int]] = defaultdict(set)
    for row, votes in enumerate(n_votes):
        by_doubling[votes.bit_length()].add(row)
    parts: list[set[int]] = [set()]
    for doubling in sorted(by_doubling):
        if len(parts[-1]) >= fewest:
            parts.append(set())
        parts[-1] |= by_doubling[doubling]
    if len(parts) > 1 and len(parts[-1]) < fewest:
        last = parts.pop()
        parts[-1] |= last
    return parts
