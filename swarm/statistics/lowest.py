"""The lowest values of each row, with deterministic tie-breaking."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Bool, Int


def lowest(values: NDArray[Any], count: int) -> Bool:
    """Mark the `count` lowest finite values of each row (n, m), ties broken by position."""
    n_columns = values.shape[1]
    if count >= n_columns:
        finite: Bool = np.isfinite(values)
        return finite
    # The order of equal values in a partition is unspecified.
    limit = np.partition(values, count - 1, axis=1)[:, [count - 1]]
    marked: Bool = (values <= limit) & np.isfinite(values)
    tied = np.flatnonzero(marked.sum(axis=1) > count)
    if tied.size:
        edge = values[tied] == limit[tied]
        room = count - (values[tied] < limit[tied]).sum(axis=1, keepdims=True)
        marked[tied] &= ~edge | (np.cumsum(edge, axis=1) <= room)
    return marked


def first_of(orders: Int, counts: Any) -> Bool:
    """Mark the first ``counts[i]`` of the columns that row i of `orders` (n, m) lists."""
    marked = np.empty(orders.shape, dtype=bool)
    place = np.arange(orders.shape[1])[None, :]
    np.put_along_axis(marked, orders, place < np.reshape(counts, (-1, 1)), axis=1)
    return marked
