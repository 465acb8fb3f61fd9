"""Distances between units, summed over subsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from swarm.arrays import Bool, Float, read_only


@runtime_checkable
class Distances(Protocol):
    """Interface of distances between units."""

    def total(self, subsets: Bool) -> Float:
        """Sum ``d_total(S, j)^2 = sum_{i in S} d(i, j)^2`` for every subset S and unit j.

        Parameters
        ----------
        subsets : bool (n, n_units)

        Returns
        -------
        float64 (n, n_units)
        """


@dataclass(frozen=True)
class DenseDistances:
    """Distances as a full matrix.

    Attributes
    ----------
    squared : float64 (n_units, n_units)
        Read-only.
    """

    squared: Float

    def __post_init__(self) -> None:
        read_only(self.squared)

    def total(self, subsets: Bool) -> Float:
        """Sum the rows of each subset; see :class:`Distances`."""
        # The rounding of a matrix product depends on its blocking and on the number of BLAS
        # threads, and may differ for equal columns. With sums row by row, equal units tie on any
        # machine.
        total = np.zeros(subsets.shape)
        for row, subset in enumerate(subsets):
            total[row] = self.squared[subset].sum(axis=0)
        return total


def as_distances(given: Float | Distances) -> Distances:
    """Wrap a distance matrix (n_units, n_units); return anything else unchanged."""
    return DenseDistances(np.square(given)) if isinstance(given, np.ndarray) else given
