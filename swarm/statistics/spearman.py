"""Distance between features by the strength of their rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from swarm.errors import InputError
from swarm.statistics.encoding import as_numbers

__all__ = ["centred_ranks", "spearman_distance", "unit_distance"]

FloatArray = NDArray[np.float64]

# Columns that are ranked at a time.
_PANEL = 512


def spearman_distance(features: pd.DataFrame) -> FloatArray:
    """Distance ``1 - |rho|`` between all columns, rho being Spearman's rank correlation.

    Equal values share their average rank. A constant column has distance 1 to all others.

    Missing values: a column is ranked among its present values, and its missing cells get the
    mean rank, so they pull no correlation up or down. This is not the pairwise-complete
    coefficient, which needs the ranks anew for every pair of columns: quadratic in passes.

    Category and string columns enter by their codes, bool as 0 and 1 (see
    :func:`swarm.statistics.encoding.as_numbers`). The order of nominal codes is arbitrary, and
    so is the distance between a nominal column of more than two values and any other.

    The ranks are centred on integers, so their products are summed without rounding (up to
    about 200,000 rows): the result is the same to the last bit for any BLAS and thread count.

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
        If a column can neither be ranked nor coded.
    """
    ranks = _centred_ranks(as_numbers(features))
    distance: FloatArray = ranks.T @ ranks
    del ranks
    # In place: at 10,000 columns each copy more would take 800 MB, and seconds to fill.
    _to_distance(distance, np.diag(distance).copy())
    distance.setflags(write=False)
    return distance


@njit(nogil=True, cache=True)
def _to_distance(products: FloatArray, squares: FloatArray) -> None:  # pragma: no cover
    """Turn products (d, d) of columns with these sums of squares into distances."""
    for row in range(products.shape[0]):
        for column in range(products.shape[1]):
            scale = np.sqrt(squares[row] * squares[column])
            # A constant column has only zero products; any divisor gives rho 0.
            distance = 1.0 - abs(products[row, column]) / (scale if scale != 0.0 else 1.0)
            products[row, column] = max(0.0, distance)
        products[row, row] = 0.0


def unit_distance(distance: FloatArray, units: Sequence[Sequence[int]]) -> FloatArray:
    """Distance between units: the root mean square over their pairs of columns.

    Parameters
    ----------
    distance : float64 (d, d)
        Distance between columns.
    units : n_units sequences of int
        Column positions of each unit. With one unit per column the distance stays as it is.

    Returns
    -------
    float64 (n_units, n_units)
        Symmetric, zero diagonal, read-only.

    Raises
    ------
    InputError
        If a unit has no column.
    """
    sizes = np.array([len(unit) for unit in units])
    if not sizes.all():
        empty = int(np.argmin(sizes))
        raise InputError(f"unit {empty} has no column; give every unit at least one")
    columns = np.concatenate([np.asarray(unit, dtype=np.intp) for unit in units])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    squares = distance[np.ix_(columns, columns)] ** 2
    sums = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    # The two halves are summed in different orders, so they may differ in the last bit.
    means = (sums + sums.T) / (2.0 * sizes[:, None] * sizes[None, :])
    between: FloatArray = np.sqrt(means)
    np.fill_diagonal(between, 0.0)
    between.setflags(write=False)
    return between


def centred_ranks(values: FloatArray) -> FloatArray:
    """Rank every column of (n_rows, d): twice the centred average ranks, 0 for missing cells.

    Whole numbers from ``1 - n_rows`` to ``n_rows - 1``; products of two columns are exact sums.
    """
    return _centred_ranks(values)


def _centred_ranks(values: FloatArray) -> FloatArray:
    """Twice the centred average ranks: integers, 0 for missing cells."""
    ranks = np.empty_like(values)
    for start in range(0, values.shape[1], _PANEL):
        # Columns one after the other in memory, where sorting them is faster.
        panel = np.ascontiguousarray(values[:, start : start + _PANEL].T)
        missing = np.isnan(panel)
        complete = ~missing.any(axis=1)
        found = np.zeros_like(panel)
        found[complete] = 2.0 * stats.rankdata(panel[complete], axis=1) - (len(values) + 1)
        for position in np.flatnonzero(~complete):
            present = ~missing[position]
            among = stats.rankdata(panel[position, present])
            found[position, present] = 2.0 * among - (int(present.sum()) + 1)
        ranks[:, start : start + _PANEL] = found.T
    return ranks
