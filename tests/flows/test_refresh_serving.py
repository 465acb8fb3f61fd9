"""Memory that stays flat however many refreshes a process has made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.flows.test_refresh import Desk, snapshot
from tests.small_run import Bench

pytestmark = [
    pytest.mark.usefixtures("prefect_server", "plain"),
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
]

LONG = os.environ.get("SWARM_FAULTS") == "long"
REFRESHES = 50 if LONG else 6
# Refreshes until caches and tables have their size.
WARM = 5 if LONG else 3


def resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_refresh_after_refresh_memory_and_open_files_stay_flat(bench: Bench) -> None:
    desk = Desk(bench)
    memory, files = [], []
    for week in range(REFRESHES):
        day = (pd.Timestamp("2026-01-05") + pd.Timedelta(weeks=week)).strftime("%Y-%m-%d")
        snapshot(desk.snapshots, day, 3 + week % 2, seed=week)
        assert desk.refresh().decision in ("first", "kept", "promoted")
        memory.append(resident())
        files.append(len(os.listdir("/proc/self/fd")))
    steps = np.arange(REFRESHES - WARM)
    grown = np.polyfit(steps, memory[WARM:], 1)[0]
    print(f"\n{REFRESHES} refreshes: {grown:.2f} MiB each, files {files[WARM]} to {files[-1]}")
    assert grown < (1.0 if LONG else 8.0)
    assert files[-1] <= files[WARM] + 3
