"""Enumeration of all subsets of a space, with random access."""

from __future__ import annotations

from math import comb

import numpy as np

from swarm.arrays import Bool
from swarm.problem.space import SearchSpace

__all__ = ["batch_of_subsets"]


def batch_of_subsets(space: SearchSpace, start: int, count: int) -> Bool:
    """Return up to `count` allowed subsets from number `start` on: bool (n, n_units).

    Subsets are numbered from 0 by ascending size, and those of a size in lexicographic order of
    their units, like :func:`itertools.combinations`. Each contains the fixed units.
    """
    free = np.flatnonzero(~space.fixed & ~space.forbidden)
    n_fixed = int(space.fixed.sum())
    masks: list[Bool] = []
    for size in range(space.min_size - n_fixed, space.max_size - n_fixed + 1):
        there = comb(len(free), size)
        if start >= there:
            start -= there
            continue
        chosen = _combination(len(free), size, start)
        for _ in range(min(there - start, count - len(masks))):
            mask = space.fixed.copy()
            mask[free[chosen]] = True
            masks.append(mask)
            _advance(chosen, len(free))
        start = 0
        if len(masks) == count:
            break
    return np.array(masks, dtype=bool).reshape(len(masks), space.n_units)


def _combination(n: int, size: int, number: int) -> list[int]:
    """Return combination `number`, in lexicographic order, of `size` out of n items."""
    chosen: list[int] = []
    item = 0
    while len(chosen) < size:
        with_item = comb(n - item - 1, size - len(chosen) - 1)
        if number < with_item:
            chosen.append(item)
        else:
            number -= with_item
        item += 1
    return chosen


def _advance(chosen: list[int], n: int) -> None:
    """Advance a combination to the next one, in place; the last stays unchanged."""
    for place in reversed(range(len(chosen))):
        if chosen[place] < n - len(chosen) + place:
            chosen[place:] = range(chosen[place] + 1, chosen[place] + 1 + len(chosen) - place)
            return
