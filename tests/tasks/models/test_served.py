"""Tests of `swarm serve` under a service manager: signals, killed runs, and approval."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from tasks.refresh.champion import CHALLENGER, Champions
from tests.flows.test_refresh import snapshot
from tests.servers import happens, is_gone
from tests.small_run import BAYES, Bench

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

CRON = {"cron": "0 4 1 1 *"}
ENDLESS: dict[str, Any] = {"budget": {"epochs": 1_000_000}, "evaluation": {"n_jobs": 2}}


class Served:
    """A process of `swarm serve` with one configuration."""

    def __init__(self, bench: Bench, process: subprocess.Popen[bytes], log: Path) -> None:
        self.bench = bench
        self.process = process
        self._log = log

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, deployment: str) -> None:
        """Wait until the server knows a deployment."""

        def is_there() -> bool:
            with get_client(sync_client=True) as api, contextlib.suppress(ObjectNotFound):
                return bool(api.read_deployment_by_name(deployment))
            return False

        assert happens(is_there, 240), self.said()

    def trigger(self, deployment: str, **parameters: Any) -> Any:
        """Start a run; return its id."""
        self.wait_for(deployment)
        with get_client(sync_client=True) as api:
            deployment_id = api.read_deployment_by_name(deployment).id
            return api.create_flow_run_from_deployment(deployment_id, parameters=parameters).id

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def searches(self) -> None:
        """Wait until the search is in its epochs, with all its workers."""
        assert happens(lambda: "epoch 1/" in self.said(), 240), self.said()
        assert happens(lambda: len(self.family()) > 3, 240)


@contextmanager
def serving(
    bench: Bench, address: str, mapping: dict[str, Any], schedule: dict[str, str] = CRON
) -> Iterator[Served]:
    file = bench.folder / "served.yaml"
    file.write_text(yaml.safe_dump(mapping | {"schedule": schedule}), encoding="utf-8")
    log = bench.folder / "serve.log"
    env = {**os.environ, "PREFECT_API_URL": address, "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    command = [sys.executable, "-m", "flows.cli", "serve", str(file)]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, env=env, stdout=output, stderr=output, cwd=bench.folder)
    served = Served(bench, process, log)
    try:
        assert happens(lambda: "waiting for the schedules" in served.said(), 120), served.said()
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)


def state_of(run: Any) -> Any:
    with get_client(sync_client=True) as api:
        return api.read_flow_run(run).state


def test_sigterm_ends_runs_and_workers_and_leaves_nothing_running(
    prefect_server: str, bench: Bench
) -> None:
    mapping = bench.mapping(name="ended", **ENDLESS)
    with serving(bench, prefect_server, mapping) as served:
        run = served.trigger("select/ended")
        # This second run waits: there is no capacity for it yet.
        served.trigger("select/ended")
        served.searches()
        family = served.family()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(90) == 0
        assert not [process for process in family if not is_gone(process)]
        said = served.said()
        # A busy Prefect server may not take a task, and the run logs that it retries.
        said = "\n".join(line for line in said.splitlines() if "; retrying in" not in line)
        for word in ("Traceback", "note:", "WARNING", "Warning", "never awaited"):
            assert word not in said, said
    assert bench.statuses() == ["KILLED"]
    assert state_of(run).is_cancelled()


def test_the_mlflow_run_of_a_killed_process_is_ended(prefect_server: str, bench: Bench) -> None:
    mapping = bench.mapping(name="killed", **ENDLESS)
    with serving(bench, prefect_server, mapping) as served:
        flow_run = served.trigger("select/killed")
        served.searches()
        (process,) = psutil.Process(served.process.pid).children()
        process.kill()
        assert happens(lambda: bench.statuses() == ["KILLED"], 240), served.said()
        assert happens(lambda: state_of(flow_run).is_crashed(), 240)
        (run,) = bench.runs()
        assert run.data.tags["prefect.flow_run"] == str(flow_run)
        assert "status code: -9" in run.data.tags["error"]


def test_a_promotion_waits_for_the_form_and_shows_the_figures(
    prefect_server: str, bench: Bench
) -> None:
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    snapshots = bench.folder / "snapshots"
    snapshot(snapshots, "2026-01-05", 3)
    mapping = bench.mapping(
        name="asked",
        model=BAYES,
        split={"kind": "time"},
        budget={"epochs": 3},
        champion={"approve": True},
    )
    data = {"source": "file", "path": str(snapshots / "rows_{date}.parquet")}
    mapping["data"] = {**data, "target": "y", "time": "week"}
    champions = Champions(bench.tracking)
    with serving(bench, prefect_server, mapping) as served:
        first = served.trigger("refresh/asked")
        assert happens(lambda: state_of(first).is_final(), 300), served.said()
        # There is no champion to replace, so nobody is asked.
        assert state_of(first).message.startswith("first: "), state_of(first)
        snapshot(snapshots, "2026-02-02", 16, moved=1)
        second = served.trigger("refresh/asked")
        assert happens(lambda: state_of(second).is_paused(), 300), served.said()
        assert champions.require("asked").version == "1"
        challenger = bench.tracking.client.get_model_version_by_alias("asked", CHALLENGER)
        assert str(challenger.version) == "2"
        state = state_of(second)
        keys = state.state_details.run_input_keyset
        with get_client(sync_client=True) as api:
            description = api.read_flow_run_input(second, keys["description"])
            flow_run = api.read_flow_run(second)
            # The run is named after the file that was read, not after the pattern that matched it.
            assert flow_run.name == "rows_2026-02-02/multiswarm/seed 0"
            assert {"swarm", "refresh", "champion:asked"} <= set(flow_run.tags)
            of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[second]))
            # Prefect sends the lines of a run in the background, some seconds after its states.
            assert happens(
                lambda: any("MLflow run " in line.message for line in api.read_logs(of_run)), 120
            ), served.said()
        assert all(word in description for word in ("version 2", "asked", "accuracy 0.", "gain +"))
        with get_client(sync_client=True) as api:
            answer = {"approve": True, "reason": "seen"}
            api.resume_flow_run(second, run_input=answer)
        assert happens(lambda: state_of(second).is_final(), 120), served.said()
        assert state_of(second).message.startswith("promoted: "), state_of(second)
        assert state_of(second).message.endswith("(seen)")
        assert champions.require("asked").version == "2"
