"""Automations as shipped, on a server as users start it: each fires, and does what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed, Failed

from tasks.refresh.decision import announce
from tests.servers import answers_soon, free_port, happens

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

SHIPPED = Path(__file__).resolve().parents[1] / "deploy" / "automations.yaml"


@flow(name="refresh")
def refreshing() -> None:
    """A flow of the name that the automations look for."""


@flow(name="consumer")
def consumer(name: str, version: str) -> None:
    """What a team runs on a new champion."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`prefect server start`: a server of the test harness has no triggers."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    env = {**os.environ, "PREFECT_HOME": str(folder), "HOME": str(folder)}
    env.pop("PREFECT_API_URL", None)
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command, env=env, stdout=log, stderr=log, start_new_session=True, cwd=folder
        )
    address = f"http://127.0.0.1:{port}/api"
    try:
        answers_soon(f"{address}/health", process)
        # The events of a process go to the server of the first one until they are drained.
        EventsWorker.drain_all(at_exit=False)
        with temporary_settings({PREFECT_API_URL: address}):
            yield address
            EventsWorker.drain_all(at_exit=False)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[str, list[str]]]:
    """A place that notifications are sent to, and what was sent."""
    received: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    place = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{place.server_port}/", received
    finally:
        place.shutdown()


@pytest.fixture(scope="module")
def created(
    server: str, told: tuple[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The shipped automations, created as the page says; the id of the consumer."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    block = CustomWebhookNotificationBlock(
        name="told", url=told[0], json_data={"text": "{{subject}}: {{body}}"}
    )
    with get_client(sync_client=True) as api:
        made = api.create_flow(consumer)
        deployment = api.create_deployment(made, "downstream")
    ids = {"NOTIFY_BLOCK_ID": str(block.save("told")), "CONSUMER_DEPLOYMENT_ID": str(deployment)}
    fill = "import os, sys; print(os.path.expandvars(sys.stdin.read()))"
    file = tmp_path_factory.mktemp("filled") / "automations.yaml"
    with open(SHIPPED, "rb") as given, open(file, "wb") as filled:
        command = [sys.executable, "-c", fill]
        env = {**os.environ, **ids}
        subprocess.run(command, stdin=given, stdout=filled, env=env, check=True)
    command = [sys.executable, "-m", "prefect", "automation", "create", "--from-file", str(file)]
    env = {**os.environ, "PREFECT_API_URL": server}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with get_client(sync_client=True) as api:
        shipped = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["automations"]
        names = {automation["name"] for automation in shipped}
        known = api._client.post("/automations/filter", json={}).json()
    assert {each["name"] for each in known} >= names
    return deployment


def ended(flow: Any, state: Any, tags: list[str]) -> None:
    """Create a flow run and report its final state to the server, as engines and runners do."""
    with get_client(sync_client=True) as api:
        run = api.create_flow_run(flow, name="churn/multiswarm/seed 0", tags=tags)
        api.set_flow_run_state(run.id, state, force=True)


def heard(received: list[str], subject: str) -> bool:
    return happens(lambda: any(subject in text for text in received), 60)


@pytest.mark.usefixtures("created")
def test_a_refresh_that_fails_is_told_with_its_reason(told: tuple[str, list[str]]) -> None:
    ended(refreshing, Failed(message="the store is away; start it"), ["swarm", "refresh"])
    assert heard(told[1], "Refresh churn/multiswarm/seed 0 failed")
    assert any("the store is away; start it" in text for text in told[1])


@pytest.mark.usefixtures("created")
def test_a_run_that_crashed_is_told_whatever_its_flow(told: tuple[str, list[str]]) -> None:
    ended(consumer, Crashed(message="not of this product"), ["other"])
    ended(refreshing.with_options(name="select"), Crashed(message="killed"), ["swarm", "select"])
    assert heard(told[1], "Run churn/multiswarm/seed 0 crashed")
    assert not any("not of this product" in text for text in told[1])


def test_a_promotion_runs_the_consumer_with_the_new_version(created: Any) -> None:
    record = {
        "decision": "promoted",
        "why": "it is better",
        "champion": {"name": "churn", "version": "3"},
        "challenger": {"version": "3", "run": "0" * 32, "cost": 0.1},
        "duel": None,
        "data": "file:rows.parquet",
    }

    def started() -> list[Any]:
        with get_client(sync_client=True) as api:
            return [run for run in api.read_flow_runs() if run.deployment_id == created]

    announce(record)
    assert happens(lambda: bool(started()), 60)
    (run,) = started()
    assert json.loads(json.dumps(run.parameters)) == {"name": "churn", "version": "3"}
