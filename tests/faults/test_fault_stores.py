"""Tests of a Prefect server that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import answers_soon, free_port
from tests.small_run import NO_REPORT, Bench
from tests.warm_swarm import WarmSwarm

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

# The last of five attempts waits longer than all before it.
RETRIES = "5" if os.environ.get("SWARM_FAULTS") == "long" else "1"
# A model without a fast path.
TREE = {
    "estimator": "sklearn.tree.DecisionTreeClassifier",
    "params": {"max_depth": 2, "random_state": 0},
}
# Every fit sleeps, so that the duration of a search does not depend on the machine.
SLEEPY = """
import time
from sklearn.tree import DecisionTreeClassifier as Tree
fit = Tree.fit
def slow(self, *args, **options):
    time.sleep(0.05)
    return fit(self, *args, **options)
Tree.fit = slow
"""


@contextmanager
def prefect(port: int, home: Path) -> Iterator[None]:
    """Run a Prefect server, and kill it without a warning."""
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    server = subprocess.Popen(
        command,
        env={**os.environ, "PREFECT_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        answers_soon(f"http://127.0.0.1:{port}/api/health", server)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_prefect_that_goes_away_in_mid_run_costs_no_evaluation(
    bench: Bench, tmp_path: Path
) -> None:
    port = free_port()
    home = tmp_path / "prefect"
    address = f"http://127.0.0.1:{port}/api"
    env = {"PREFECT_API_URL": address, "PREFECT_CLIENT_MAX_RETRIES": RETRIES}
    env["PREFECT_LOGGING_INTERNAL_LEVEL"] = "CRITICAL"
    path = bench.file(model=TREE, budget={"epochs": 8}, evaluation={"n_jobs": 1})
    with WarmSwarm(tmp_path, env, NO_REPORT + SLEEPY) as warm:
        with prefect(port, home):
            command = warm.start("select", path, "-v")
            command.wait_for("epoch 2/")
        # The search needs no server to go on; the end of the flow cannot be reported.
        assert command.wait() == 2, command.said()
        assert "epoch 8/8" in command.said()
        assert "Traceback" not in command.said()
        last = command.said().splitlines()[-1]
        assert address in last
        assert "swarm resume" in last
        (run,) = bench.runs()
        assert run.info.status == "FINISHED"
        answer = bench.answer(run.info.run_id)
        with prefect(port, home):
            again = warm.start("resume", run.info.run_id, "--tracking-uri", bench.uri)
            assert again.wait() == 0, again.said()
    assert bench.answer(run.info.run_id) == answer
    assert bench.steps(run.info.run_id) == list(range(1, 9))
    fits = bench.tracking.run(run.info.run_id).data.metrics["work/fits"]
    assert fits == run.data.metrics["work/fits"]
