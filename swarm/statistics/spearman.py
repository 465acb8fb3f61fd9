"""Distances between features from their rank correlation."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from swarm.arrays import Float, Int, read_only
from swarm.statistics.encoding import as_numbers, columns_of_units

# A panel of cells is limited, as work on it takes several copies.
_MAX_PANEL_CELLS = 2**20


def spearman_distance(features: pd.DataFrame) -> Float:
    """Distance ``1 - |rho|`` between all columns (d, d), rho being Spearman's rank correlation.

    Missing cells get the mean rank, which adds nothing to a correlation; a constant column has
    distance 1 to all others; codes of nominal columns have an arbitrary order. Ranks are integers,
    so that the result is bit-identical for any BLAS, up to about 200,000 rows.
    """
    ranks = centred_ranks(as_numbers(features))
    distance: Float = ranks.T @ ranks
    del ranks
    # A further copy would take 800 MB for 10,000 columns.
    _to_distance(distance, np.diag(distance).copy())
    read_only(distance)
    return distance


def _to_distance(products: Float, squares: Float) -> None:
    """Convert products (d, d) of columns, given their sums of squares, into distances in place."""
    height = max(1, _MAX_PANEL_CELLS // max(1, len(products)))
    for start in range(0, len(products), height):
        panel = products[start : start + height]
        scale = np.sqrt(squares[start : start + height, None] * squares)
        # The products of a constant column are zero; any divisor gives rho 0.
        scale[scale == 0.0] = 1.0
        np.abs(panel, out=panel)
        panel /= scale
        np.subtract(1.0, panel, out=panel)
        np.maximum(panel, 0.0, out=panel)
    np.fill_diagonal(products, 0.0)


def unit_distance(distance: Float, units: Sequence[Sequence[int]]) -> Float:
    """Root mean square of `distance` (d, d) over the columns of two units: (n_units, n_units)."""
    columns, starts, sizes = columns_of_units(units)
    if len(columns) == len(sizes):
        # The root of a square is exact, and the matrix may be the largest thing in memory.
        single = distance[np.ix_(columns, columns)]
        read_only(single)
        return single
    squares = distance[np.ix_(columns, columns)] ** 2
    sums = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    # Both triangles are summed in different orders, so they may differ in the last bit.
    means = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    between = np.sqrt(means)
    np.fill_diagonal(between, 0.0)
    read_only(between)
    return between


def centred_ranks(values: Float) -> Float:
    """Rank the columns: twice the centred average ranks, so integers; 0 for missing cells."""
    ranks = np.empty_like(values)
    width = max(1, _MAX_PANEL_CELLS // max(1, len(values)))
    for start in range(0, values.shape[1], width):
        # Contiguous columns are sorted faster.
        panel = np.ascontiguousarray(values[:, start : start + width].T)
        missing = np.isnan(panel)
        complete = ~missing.any(axis=1)
        centred = np.zeros_like(panel)
        centred[complete] = _ranks_of_rows(panel[complete])
        for position in np.flatnonzero(~complete):
            present = ~missing[position]
            average_ranks = stats.rankdata(panel[position, present])
            centred[position, present] = 2.0 * average_ranks - (int(present.sum()) + 1)
        ranks[:, start : start + width] = centred.T
    return ranks


def _ranks_of_rows(panel: Float) -> Float:
    """Return twice the centred average ranks within each row of a panel."""
    n = panel.shape[1]
    ranks = np.empty_like(panel)
    ordered = np.sort(panel, axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    del ordered
    ranks[tied] = 2.0 * stats.rankdata(panel[tied], axis=1) - (n + 1)
    # Averages of equal values take several passes; most measurements have none.
    for row in np.flatnonzero(~tied):
        ranks[row, np.argsort(panel[row])] = np.arange(1.0 - n, n, 2.0)
    return ranks


def spread_rows(n_rows: int, max_rows: int) -> Int:
    """Choose the positions of at most `max_rows` rows, spread by the golden ratio, ascending."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    order = np.argsort(np.arange(n_rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return np.sort(order[:max_rows])
