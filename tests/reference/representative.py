"""How unevenly rows were asked, row by row."""

from __future__ import annotations

from collections import defaultdict

from scipy.stats import chi2


def is_uneven(asked: list[int], sizes: list[int], n_trees: int) -> bool:
    """Whether votes of 30 rows or more scatter half as much again as binomial ones, and not by chance."""
    if len(asked) < 30:
        return False
    by_size: dict[int, list[int]] = defaultdict(list)
    for votes, size in zip(asked, sizes, strict=True):
        by_size[size].append(votes)
    squares = freedom = 0.0
    for of_size in by_size.values():
        kept = sorted(of_size)[2:]
        if not kept or not 0 < sum(kept) < len(kept) * n_trees:
            continue
        mean = sum(kept) / len(kept)
        share = mean / n_trees
        squares += sum((votes - mean) ** 2 for votes in kept) / (n_trees * share * (1.0 - share))
        freedom += len(kept) - 1
    return squares > 1.5 * freedom and chi2.sf(squares, freedom) < 1e-6


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
