"""Integer columns, whose distances are exact, and trust in a tie-breaking rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, Int

__all__ = ["Trust", "sums_are_exact", "whole_columns"]

# Integers up to this limit are exact in float64.
_EXACT = 2.0**53
# Rows that fitted models have to confirm before a rule is trusted.
_ENOUGH = 64


def whole_columns(*tables: Float) -> Bool:
    """Whether columns of tables (n_columns, n_rows) contain only integers: bool (n_columns,)."""
    whole: Bool = np.all([(table == np.rint(table)).all(axis=1) for table in tables], axis=0)
    return whole


def sums_are_exact(whole: Bool, largest: Float, columns: Int) -> bool:
    """Whether squared distances over `columns` are exact in any order of summation.

    No term of ``|x|^2 - 2xy + |y|^2`` or of ``(x - y)^2`` exceeds twice the sum of the norms.

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
    """Trust in a tie-breaking rule, earned by comparison with fitted models.

    Both attributes change in one direction only, so that threads can share them.

    Attributes
    ----------
    confirmed : int
        Number of rows with the same result as a fitted model.
    broken : bool
        Whether a result ever differed from a fitted model; the rule is then disabled.
    """

    confirmed: int = 0
    broken: bool = False

    @property
    def earned(self) -> bool:
        """Whether comparisons with fitted models are no longer needed."""
        return not self.broken and self.confirmed >= _ENOUGH

    def holds(self, n_rows: int, agrees: Callable[[], bool]) -> bool:
        """Whether to trust the results of `n_rows` rows; compares with a model until earned."""
        if self.broken or self.earned:
            return not self.broken
        if agrees():
            self.confirmed += n_rows
        else:
            self.broken = True
        return not self.broken
