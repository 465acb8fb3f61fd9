"""Types of the arrays that pass between modules, whose docstrings give the shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
# Positions of columns.
Positions = Sequence[int] | Int


def read_only(*arrays: AnyArray) -> None:
    """Make arrays read-only, in place."""
    for array in arrays:
        array.setflags(write=False)
