"""The cores and the memory that this process may use."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Bytes of a process with numpy, pandas, scikit-learn and LightGBM.
_PROCESS = 300 * 2**20
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Machine:
    """Cores and memory that this process may use, within the limits of a container.

    Attributes
    ----------
    cores, cores_of_machine : int
    memory : int or None
        Bytes; None if unknown.
    process : int
        Peak memory of this process, in bytes.
    """

    cores: int
    cores_of_machine: int
    memory: int | None
    process: int


def this_machine() -> Machine:
    """Return the cores and memory of this machine."""
    from joblib import cpu_count

    limits = []
    # Windows has no sysconf.
    with suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _MEMORY_LIMITS:
        # There is no container, or it has no limit.
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text().strip()))
    try:
        import resource
    except ImportError:
        peak = _PROCESS
    else:
        # Kilobytes, except on macOS.
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return Machine(cpu_count(), os.cpu_count() or 1, min(limits, default=None), peak)
