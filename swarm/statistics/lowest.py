"""The lowest values of each row, with deterministic tie-breaking."""

import numpy as np

from swarm.arrays import AnyArray, Bool, Int


def lowest(values: AnyArray, count: int) -> Bool:
    """Mark the `count` lowest finite values of each row (n, m), ties broken by position."""
    n_columns = values.shape[1]
    if count >= n_columns:
        return np.isfinite(values)
    # The order of equal values in a partition is unspecified.
    limit = np.partition(values, count - 1, axis=1)[:, [count - 1]]
    marked: Bool = (values <= limit) & np.isfinite(values)
    tied = np.flatnonzero(marked.sum(axis=1) > count)
    if tied.size:
        is_limit = values[tied] == limit[tied]
        n_left = count - (values[tied] < limit[tied]).sum(axis=1, keepdims=True)
        marked[tied] &= ~is_limit | (np.cumsum(is_limit, axis=1) <= n_left)
    return marked


def first_of(orders: Int, counts: int | AnyArray) -> Bool:
    """Mark the first ``counts[i]`` of the columns that row i of `orders` (n, m) lists."""
    marked = np.empty(orders.shape, dtype=bool)
    rank = np.arange(orders.shape[1])[None, :]
    np.put_along_axis(marked, orders, rank < np.reshape(counts, (-1, 1)), axis=1)
    return marked
