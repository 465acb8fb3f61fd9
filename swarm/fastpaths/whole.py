"""Whole numbers: sums without rounding, so that rows as far away as each other are told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trust", "sums_are_exact", "whole_columns"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Whole numbers up to here are all float64.
_EXACT = 2.0**53
# Rows whose neighbours a model has to confirm before it is believed without being asked.
_ENOUGH = 64


def whole_columns(*tables: Float) -> Bool:
    """Which columns of tables (n_columns, n_rows) hold whole numbers only: bool (n_columns,)."""
    whole: Bool = np.all([(table == np.rint(table)).all(axis=1) for table in tables], axis=0)
    return whole


def sums_are_exact(whole: Bool, largest: Float, columns: Int) -> bool:
    """Whether squared distances over `columns` are exact in whatever order they are summed.

    No part of ``|x|^2 - 2xy + |y|^2`` or of ``(x - y)^2`` exceeds twice the norms together.

    Parameters
    ----------
    whole : bool (n_columns,)
        See :func:`whole_columns`.
    largest : float64 (n_columns,)
        See :func:`.neighbours.largest_squares`.
    """
    return bool(whole[columns].all()) and 2.0 * float(largest[columns].sum()) <= _EXACT


@dataclass
class Trust:
    """How far a rule on ties is believed: as long as fitted models have confirmed it.

    Both attributes go one way only, so that threads may share them.

    Attributes
    ----------
    confirmed : int
        Rows of which a model said the same.
    broken : bool
        Whether a model ever said something else: the rule is not used again.
    """

    confirmed: int = 0
    broken: bool = False

    @property
    def earned(self) -> bool:
        """Whether no model has to be asked any more."""
        return not self.broken and self.confirmed >= _ENOUGH

    def holds(self, n_rows: int, agrees: Callable[[], bool]) -> bool:
        """Whether to believe what the rule says of `n_rows` rows; at first a model is asked."""
        if self.broken or self.earned:
            return not self.broken
        if agrees():
            self.confirmed += n_rows
        else:
            self.broken = True
        return not self.broken
