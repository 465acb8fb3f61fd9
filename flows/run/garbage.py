"""Garbage collection in processes that mostly import."""

import atexit
import gc


def collect_rarely() -> None:
    """Collect garbage in cycles less often, which took a fifth of the time of a short command.

    Imports leave hardly any.
    """
    gc.set_threshold(20_000, 20, 20)
    # The last collection would look through everything that was imported.
    atexit.register(gc.freeze)
