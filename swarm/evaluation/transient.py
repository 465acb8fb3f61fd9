"""Errors that depend on the machine, the network or a file, and not on the subset of a fit."""

import errno
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import TypeVar

from swarm.errors import TransientError, as_clause, describe

T = TypeVar("T")
_MAX_ATTEMPTS = 3
_TRANSIENT = (OSError, ImportError, BrokenExecutor, TransientError)


def is_transient(error: BaseException) -> bool:
    """Whether an error, or its explicit cause, may be absent from another attempt."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _TRANSIENT) or is_out_of_memory(cause):
            return True
        cause = cause.__cause__
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error was raised for lack of memory, whatever its type."""
    # Threads, files and modules that lack memory fail to open with exceptions of their own.
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and "start new thread" in text)
        or (isinstance(error, ImportError) and "allocate memory" in text)
        or "bad_alloc" in text
        or "bad allocation" in text
    )


def retry_transient(fit: Callable[[], T]) -> T:
    """Call `fit` up to three times, then raise its TransientError; MemoryError at once."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            return fit()
        except Exception as error:
            if is_out_of_memory(error):
                raise MemoryError(str(error)) from error
            if not is_transient(error):
                raise
            if attempt == _MAX_ATTEMPTS:
                raise TransientError(
                    f"a fit failed {_MAX_ATTEMPTS} times with an error of the machine, "
                    f"{as_clause(describe(error))}; remove its cause, then run the search again"
                ) from error
    raise AssertionError
