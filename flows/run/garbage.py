"""Garbage collection in processes that mostly import."""

from __future__ import annotations

import atexit
import gc


def collect_rarely() -> None:
    """Look for garbage in cycles less often: imports leave hardly any.

    A fifth of the time of a short command passed with it.
    """
    gc.set_threshold(20_000, 20, 20)
    # Else the end of the process looks through all that was ever imported.
    atexit.register(gc.freeze)
