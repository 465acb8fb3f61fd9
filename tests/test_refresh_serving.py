"""The consumer's side of a refresh: a served champion, and memory that stays flat for a year."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.servers import answers_soon, free_port
from tests.small_run import Bench
from tests.test_refresh import Desk, snapshot

pytestmark = [
    pytest.mark.usefixtures("prefect_server", "plain"),
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform == "win32", reason="needs process groups"),
]

LONG = os.environ.get("SWARM_FAULTS") == "long"
REFRESHES = 50 if LONG else 6
# Refreshes until caches and tables have their size.
WARM = 5 if LONG else 3


def test_the_champion_is_served_and_takes_rows_of_full_width(bench: Bench) -> None:
    desk = Desk(bench)
    frame = snapshot(desk.snapshots, "2026-01-05", 3)
    done = desk.refresh()
    assert done.outcome is not None
    rows = frame.drop(columns=["y", "week"]).head(20)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    server = subprocess.Popen(
        [*command, f"models:/{desk.name}@champion", "--env-manager", "local", "-p", str(port)],
        # As in an activated environment: MLflow looks its server up by name.
        env={**os.environ, "MLFLOW_TRACKING_URI": bench.uri, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        answers_soon(f"{address}/ping", server)
        body = json.dumps({"dataframe_split": rows.to_dict(orient="split")}).encode()
        asked = urllib.request.Request(
            f"{address}/invocations", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=120) as answer:
            served = json.loads(answer.read())["predictions"]
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(120)
        assert server.stdout is not None
        server.stdout.close()
    assert np.array_equal(np.ravel(served), done.outcome.ensemble.predict(rows))


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
