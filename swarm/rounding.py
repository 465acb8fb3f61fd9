"""Comparisons of numbers that may be equal but for rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# Relative to the operands: above the error of a score of a million rows, below any that matters.
TOLERANCE = 1e-10


def rounding_error(*operands: ArrayLike) -> Any:
    """Return the largest rounding error of a difference of these operands, element by element."""
    return TOLERANCE * np.max(np.abs(np.broadcast_arrays(*operands)), axis=0)


def difference(a: ArrayLike, b: ArrayLike) -> Any:
    """Return ``a - b``, exactly 0 where it is a rounding error."""
    with np.errstate(invalid="ignore"):
        gap = np.subtract(a, b)
        noise = np.isfinite(gap) & (np.abs(gap) <= rounding_error(a, b))
        return np.where(noise, 0.0, gap)[()]
