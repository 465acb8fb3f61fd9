"""Distances between features from their rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numba import njit
from scipy import stats

from swarm.arrays import Float
from swarm.statistics.encoding import as_numbers
from swarm.statistics.units import columns_of_units

__all__ = ["centred_ranks", "spearman_distance", "unit_distance"]

# Cells that are ranked together, as ranking takes several copies of them.
_PANEL_CELLS = 2**20


def spearman_distance(features: pd.DataFrame) -> Float:
    """Distance ``1 - |rho|`` between all columns, rho being Spearman's rank correlation.

    Ties get their average rank. A constant column has distance 1 to all others.

    The present values of a column are ranked, and missing cells get the mean rank, which adds
    nothing to a correlation. This differs from the pairwise-complete coefficient, which would
    require new ranks for every pair of columns.

    Category and string columns are encoded by their codes, bool as 0 and 1 (see
    :func:`swarm.statistics.encoding.as_numbers`). The order of nominal codes is arbitrary, and so
    are the distances of nominal columns with more than two values.

    The ranks are centred on integers, so that their products are summed without rounding (up to
    about 200,000 rows) and the result is bit-identical for any BLAS and number of threads.

    Parameters
    ----------
    features : (n_rows, d)
        Table of features.

    Returns
    -------
    float64 (d, d)
        Within [0, 1], symmetric, zero diagonal, read-only.

    Raises
    ------
    DataError
        If the dtype of a column is not supported.
    """
    ranks = centred_ranks(as_numbers(features))
    distance: Float = ranks.T @ ranks
    del ranks
    # In place: at 10,000 columns, a further copy takes 800 MB.
    _to_distance(distance, np.diag(distance).copy())
    distance.setflags(write=False)
    return distance


@njit(nogil=True, cache=True)
def _to_distance(products: Float, squares: Float) -> None:  # pragma: no cover
    """Convert products (d, d) of columns, given their sums of squares, into distances in place."""
    for row in range(products.shape[0]):
        for column in range(products.shape[1]):
            scale = np.sqrt(squares[row] * squares[column])
            # The products of a constant column are zero; any divisor gives rho 0.
            distance = 1.0 - abs(products[row, column]) / (scale if scale != 0.0 else 1.0)
            products[row, column] = max(0.0, distance)
        products[row, row] = 0.0


def unit_distance(distance: Float, units: Sequence[Sequence[int]]) -> Float:
    """Distance between units: the root mean square over their pairs of columns.

    Parameters
    ----------
    distance : float64 (d, d)
        Distance between columns.
    units : n_units sequences of int
        Column positions of each unit. With one unit per column, the distance is unchanged.

    Returns
    -------
    float64 (n_units, n_units)
        Symmetric, zero diagonal, read-only.

    Raises
    ------
    InputError
        If a unit has no column.
    """
    columns, starts, sizes = columns_of_units(units)
    squares = distance[np.ix_(columns, columns)] ** 2
    sums = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    # Both triangles are summed in different orders, so they may differ in the last bit.
    means = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    between: Float = np.sqrt(means)
    np.fill_diagonal(between, 0.0)
    between.setflags(write=False)
    return between


def centred_ranks(values: Float) -> Float:
    """Rank every column of (n_rows, d): twice the centred average ranks, 0 for missing cells.

    Integers from ``1 - n_rows`` to ``n_rows - 1``; products of two columns are exact sums.
    """
    ranks = np.empty_like(values)
    width = max(1, _PANEL_CELLS // max(1, len(values)))
    for start in range(0, values.shape[1], width):
        # Contiguous columns are sorted faster.
        panel = np.ascontiguousarray(values[:, start : start + width].T)
        missing = np.isnan(panel)
        complete = ~missing.any(axis=1)
        found = np.zeros_like(panel)
        found[complete] = 2.0 * stats.rankdata(panel[complete], axis=1) - (len(values) + 1)
        for position in np.flatnonzero(~complete):
            present = ~missing[position]
            among = stats.rankdata(panel[position, present])
            found[position, present] = 2.0 * among - (int(present.sum()) + 1)
        ranks[:, start : start + width] = found.T
    return ranks
