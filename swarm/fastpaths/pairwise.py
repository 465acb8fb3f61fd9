"""Sums in the order of NumPy, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from swarm.arrays import Float

# Longer sums are split in two.
_PAIRWISE_BLOCK = 128
# Splits of the longest array in memory.
_DEEPEST = 64


@njit(nogil=True, cache=True)
def pairwise_sum(values: Float, n: int) -> float:  # pragma: no cover
    """Sum the first `n` values as :func:`numpy.sum` does; recursive code could not be cached."""
    if n <= _PAIRWISE_BLOCK:
        return _block_sum(values, 0, n)
    # Parts that are left to sum, the next one last: start, length and number of splits.
    left = np.empty((_DEEPEST, 3), np.int64)
    left[0, 0], left[0, 1], left[0, 2] = 0, n, 0
    sums, depths = np.empty(_DEEPEST), np.empty(_DEEPEST, np.int64)
    n_left, n_sums = 1, 0
    while n_left > 0:
        n_left -= 1
        start, size, depth = left[n_left, 0], left[n_left, 1], left[n_left, 2]
        if size > _PAIRWISE_BLOCK:
            half = size // 2
            half -= half % 8
            left[n_left, 0], left[n_left, 1] = start + half, size - half
            left[n_left + 1, 0], left[n_left + 1, 1] = start, half
            left[n_left, 2] = left[n_left + 1, 2] = depth + 1
            n_left += 2
            continue
        total = _block_sum(values, start, size)
        # The last sum of the same depth is the other half.
        while n_sums > 0 and depths[n_sums - 1] == depth:
            n_sums -= 1
            total = sums[n_sums] + total
            depth -= 1
        sums[n_sums], depths[n_sums] = total, depth
        n_sums += 1
    return sums[0]  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _block_sum(values: Float, start: int, n: int) -> float:  # pragma: no cover
    total = 0.0
    if n < 8:
        for i in range(start, start + n):
            total += values[i]
        return total
    parts = values[start : start + 8].copy()
    whole = n - n % 8
    for i in range(8, whole, 8):
        for j in range(8):
            parts[j] += values[start + i + j]
    total = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + (
        (parts[4] + parts[5]) + (parts[6] + parts[7])
    )
    for i in range(start + whole, start + n):
        total += values[i]
    return total  # type: ignore[no-any-return]
