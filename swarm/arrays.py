"""Types of the arrays that pass between modules; docstrings give their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnyArray", "Bool", "Float", "Int"]

AnyArray = NDArray[Any]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
