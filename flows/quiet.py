"""How much of what the machinery and the models say reaches the terminal."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any

__all__ = ["calm_warnings", "let_logs_through", "no_notes"]

# Not those of the server, which notes every request.
_LOGS = ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_INTERNAL_LEVEL")

_plainly = warnings.showwarning


def calm_warnings() -> None:
    """Show each kind of warning once, in a line: models warn at every fit, for screens.

    In worker processes they are not shown at all; what they say the main process says too, as it
    trains the same models in the end.
    """
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    global _plainly
    _plainly = warnings.showwarning
    seen: set[tuple[type[Warning], str]] = set()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        first = (str(message).strip().splitlines() or [""])[0]
        # The same but for its numbers is the same.
        key = category, re.sub(r"\d+", "", first)
        if key not in seen:
            seen.add(key)
            sys.stderr.write(f"note: {category.__name__}: {first} (said once; -vv says all)\n")

    warnings.showwarning = show


def no_notes(quiet: bool) -> bool:
    """Show no warnings where only the answer is wanted."""
    if quiet:
        warnings.simplefilter("ignore")
    return quiet


def let_logs_through(count: int) -> int:
    """From -vv on let everything speak; runs before any of the machinery is imported."""
    if count > 1:
        for name in _LOGS:
            if os.environ.get(name) == "CRITICAL":
                os.environ[name] = "INFO"
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO")
        if os.environ.get("PYTHONWARNINGS") == "ignore":
            del os.environ["PYTHONWARNINGS"]
        warnings.showwarning = _plainly
    return count
