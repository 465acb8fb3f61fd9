"""Limit the numerical libraries to one thread, with little overhead."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Return a context that limits BLAS and OpenMP to one thread, as ``threadpool_limits(1)``."""
    return _controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _controller(_n_modules: int) -> ThreadpoolController:
    """Find the loaded libraries, which takes milliseconds; again once a module is imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
