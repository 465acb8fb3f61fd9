"""Columns of units, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swarm.arrays import Int
from swarm.errors import InputError

__all__ = ["columns_of_units"]


def columns_of_units(units: Sequence[Sequence[int]]) -> tuple[Int, Int, Int]:
    """Concatenate the columns of all units.

    Parameters
    ----------
    units : n_units sequences of int
        Column positions of each unit.

    Returns
    -------
    columns : int (n_columns,)
    starts, sizes : int (n_units,)
        Position in `columns` of the first column of each unit, and its number of columns.

    Raises
    ------
    InputError
        If a unit has no column.
    """
    sizes = np.array([len(unit) for unit in units], dtype=np.int64)
    if not sizes.all():
        empty = int(np.argmin(sizes))
        raise InputError(f"unit {empty} has no column; give every unit at least one")
    columns = np.fromiter((column for unit in units for column in unit), dtype=np.int64)
    return columns, np.cumsum(sizes) - sizes, sizes
