"""Limit the numerical libraries to one thread, with little overhead."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Return a context that limits BLAS and OpenMP to one thread, as ``threadpool_limits(1)``.

    The result, which takes milliseconds, is cached until another module is imported.
    """
    limiter: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limiter


@lru_cache(maxsize=1)
def _controller(_n_modules: int) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
