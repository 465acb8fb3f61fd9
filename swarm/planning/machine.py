"""The cores and the memory that this process may use."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "this_machine"]

# What a process with numpy, pandas, scikit-learn and LightGBM takes, where it cannot be asked.
_USUAL_PROCESS = 300 * 2**20
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Machine:
    """What there is to compute with.

    Attributes
    ----------
    cores : int
        That this process may use, a container's limit and the affinity considered.
    cores_of_machine : int
    memory : int or None
        Bytes, a container's limit considered; None where it cannot be told.
    process : int
        Bytes that this process has taken at the most.
    """

    cores: int
    cores_of_machine: int
    memory: int | None
    process: int


def this_machine() -> Machine:
    """Ask the operating system."""
    from joblib import cpu_count

    return Machine(cpu_count(), os.cpu_count() or 1, _memory(), _process())


def _memory() -> int | None:
    limits = []
    # Not every system can be asked this way.
    with suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _MEMORY_LIMITS:
        try:
            limits.append(int(Path(path).read_text().strip()))
        except (OSError, ValueError):
            continue  # no container, or one without a limit
    return min(limits, default=None)


def _process() -> int:
    try:
        import resource
    except ImportError:
        return _USUAL_PROCESS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes, but on macOS.
    return peak if sys.platform == "darwin" else peak * 1024
