"""Servers that go away or are slow."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.errors import StoreError
from tests.flaky_proxy import FlakyProxy
from tests.servers import free_port, happens
from tests.small_run import Bench
from tests.warm_swarm import WarmSwarm

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

LONG = os.environ.get("SWARM_FAULTS") == "long"
long_only = pytest.mark.skipif(
    not LONG, reason="starts MLflow servers, which takes minutes; set SWARM_FAULTS=long"
)
# A model without a fast path.
TREE = {
    "estimator": "sklearn.tree.DecisionTreeClassifier",
    "params": {"max_depth": 2, "random_state": 0},
}
# No figures; and a fit sleeps, so that how long a search takes depends on nobody else.
SLEEPY = """
import time
from sklearn.tree import DecisionTreeClassifier as Tree
from tasks.step import step
flows.answer.write_report = step("report")(lambda data: {})
fit = Tree.fit
def slow(self, *args, **options):
    time.sleep(0.05)
    return fit(self, *args, **options)
Tree.fit = slow
"""


@pytest.fixture(scope="module")
def prefect(prefect_server: str) -> Iterator[FlakyProxy]:
    with FlakyProxy(port_of(prefect_server)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def warm(prefect: FlakyProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmSwarm]:
    env = {
        "PREFECT_API_URL": f"http://127.0.0.1:{prefect.port}/api",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        # Of the five attempts the last waits longer than all before it.
        "PREFECT_CLIENT_MAX_RETRIES": "5" if LONG else "1",
    }
    with WarmSwarm(tmp_path_factory.mktemp("said"), env, SLEEPY) as started:
        yield started


def port_of(address: str) -> int:
    return int(address.split(":")[2].split("/")[0])


def sleepy(bench: Bench, epochs: int, uri: str | None = None) -> str:
    return bench.file(
        model=TREE,
        budget={"epochs": epochs},
        evaluation={"n_jobs": 1},
        tracking={"uri": uri or bench.uri},
    )


def test_prefect_that_goes_away_in_mid_run_costs_no_evaluation(
    warm: WarmSwarm, prefect: FlakyProxy, bench: Bench
) -> None:
    path = sleepy(bench, 8)
    command = warm.start("select", path, "-v")
    command.wait_for("epoch 2/")
    prefect.down()
    try:
        status = command.wait()
    finally:
        prefect.up()
    # The search needs no server to go on; the end of the flow cannot be reported.
    assert "epoch 8/8" in command.said()
    assert status == 2, command.said()
    assert "Traceback" not in command.said()
    last = command.said().splitlines()[-1]
    assert f"http://127.0.0.1:{prefect.port}/api" in last
    assert "swarm resume" in last
    (run,) = bench.runs()
    assert run.info.status == "FINISHED"
    answer = bench.answer(run.info.run_id)
    again = warm.start("resume", run.info.run_id, "--tracking-uri", bench.uri)
    assert again.wait() == 0, again.said()
    assert bench.answer(run.info.run_id) == answer
    assert bench.steps(run.info.run_id) == list(range(1, 9))
    assert (
        bench.tracking.run(run.info.run_id).data.metrics["work/fits"]
        == run.data.metrics["work/fits"]
    )


class Server:
    """An MLflow server of this test, on one port through its deaths; use as a context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        from tasks.tracking import open_tracking

        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

        def answers() -> bool:
            with contextlib.suppress(StoreError):
                return bool(open_tracking(self.uri, "ready", timeout=10))
            return False

        assert happens(answers, 120), (self.folder / "log").read_text()

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@long_only
def test_mlflow_that_is_killed_for_the_middle_half_has_everything_once_at_the_end(
    warm: WarmSwarm, mlflow: Server, tmp_path: Path
) -> None:
    epochs = 24
    bench = Bench(tmp_path, mlflow.uri)
    bench.tracking  # noqa: B018  the experiment is there before it is too late
    command = warm.start("select", sleepy(bench, epochs), "-v")
    command.wait_for(f"epoch {epochs // 4}/")
    mlflow.kill()
    command.wait_for(f"epoch {3 * epochs // 4}/")
    mlflow.start()
    assert command.wait() == 0, command.said()
    (run,) = bench.runs()
    run_id = run.info.run_id
    assert run.info.status == "FINISHED"
    for metric in ("epoch/best_accuracy", "spent/fits", "epoch/diversity", "work/fits"):
        points = bench.tracking.client.get_metric_history(run_id, metric)
        assert sorted(point.step for point in points) == list(range(1, epochs + 1)), metric
        told = [point.timestamp for point in sorted(points, key=lambda point: point.step)]
        assert told == sorted(told), metric
    for epoch in range(1, epochs + 1):
        assert bench.tracking.find_artifact(run_id, f"epochs/{epoch:04d}.parquet")
    assert bench.artifact(run_id, "features.json")


def test_mlflow_that_is_silent_at_the_start_is_told(warm: WarmSwarm, bench: Bench) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = warm.start("select", sleepy(bench, 2, uri))
        assert command.wait() == 2, command.said()
    assert uri in command.said().splitlines()[-1]
