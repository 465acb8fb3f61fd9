"""Comparisons of numbers that may be equal but for rounding errors."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# Relative to the operands, larger than the error of a score of a million rows.
TOLERANCE = 1e-10


def rounding_error(*operands: ArrayLike) -> Any:
    """Return the largest rounding error of a difference of these operands, element by element."""
    return TOLERANCE * np.max(np.abs(np.broadcast_arrays(*operands)), axis=0)


def difference(a: ArrayLike, b: ArrayLike) -> Any:
    """Return ``a - b``, exactly 0 where it is a rounding error."""
    with np.errstate(invalid="ignore"):
        gap = np.subtract(a, b)
        is_noise = np.isfinite(gap) & (np.abs(gap) <= rounding_error(a, b))
        return np.where(is_noise, 0.0, gap)[()]
