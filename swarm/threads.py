"""One thread for the numerical libraries, at the price of a function call."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[Any]:
    """Keep BLAS and OpenMP to one thread while it lasts, as ``threadpool_limits(limits=1)``.

    To look for the libraries takes milliseconds, so it is done anew only after an import: that
    is what loads another.
    """
    limiter: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limiter


@lru_cache(maxsize=1)
def _controller(_n_modules: int) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
