"""Tests of the Prefect server of the command line: it starts, is shared, and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest

from flows.cli import servers as cli_servers
from flows.run.prefect_server import (
    RECORD,
    Server,
    answers,
    record,
    running_servers,
    server_settings,
    starting_prefect,
    use_running_prefect,
)
from swarm.errors import InputError, StoreError
from tests import ROOT
from tests.servers import free_port, happens, is_gone

SMALL = ["budget.epochs=2", "strategy.params.n_particles=4", "strategy.params.n_swarms=2"]
SMALL += ["model.params.n_estimators=5"]
OPTIONS = [word for setting in SMALL for word in ("--set", setting)]

Environment = dict[str, str]


@pytest.fixture
def new_user(tmp_path: Path) -> Environment:
    """Return the environment of a new user: no settings of Prefect, and an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    environment.pop("DO_NOT_TRACK")
    return {**environment, "HOME": str(home)}


@pytest.fixture
def command() -> str:
    path = Path(sys.executable).with_name("swarm")
    if not path.exists():
        pytest.skip("the project is not installed as a command in this environment")
    return str(path)


def servers_of(pid: int) -> list[psutil.Process]:
    """Return the Prefect servers among the children of a process."""
    children = psutil.Process(pid).children()
    # A child that has just ended has no command line.
    lines = [(child, child.as_dict(["cmdline"])["cmdline"] or []) for child in children]
    return [child for child, words in lines if "flows.run.prefect_server" in words]


def this_process(name: str, address: str, store: str = "") -> Server:
    """Return the record of a server that has the process id of the tests."""
    return Server(name, address, os.getpid(), psutil.Process().create_time(), store)


def run(
    command: str, options: list[str], folder: Path, environment: Environment
) -> CompletedProcess[str]:
    """Run `swarm select default`."""
    arguments = [command, "select", "default", *options]
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=290
    )


def test_bad_input_does_not_wait_for_the_server_and_leaves_nothing(tmp_path, new_user, command):
    process = run(command, ["--set", "model.params={leaves: 3}"], tmp_path, new_user)
    assert process.returncode == 2
    assert len(process.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.faults
def test_a_server_that_dies_ends_in_its_own_last_words(tmp_path, new_user, command):
    database = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/no/x.db"}
    process = run(command, OPTIONS, tmp_path, {**new_user, **database})
    assert process.returncode == 2
    assert "PREFECT_API_URL" in process.stderr
    assert "unable to open database file" in process.stderr
    assert not (tmp_path / "mlruns" / "mlflow.db").exists()


@contextmanager
def started(code: str, home: Path, environment: Environment) -> Iterator[Any]:
    """Start a process that starts a server and then runs the code; yield it and its server."""
    up = "from flows.run.prefect_server import *; start_prefect(); print('up', flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", up + code],
        cwd=ROOT,
        env={**environment, "PREFECT_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "up\n"
        (server,) = servers_of(parent.pid)
        try:
            yield parent, server
        finally:
            parent.kill()
        assert happens(lambda: is_gone(server), 120)


@pytest.mark.faults
def test_the_server_ends_with_a_command_that_is_killed(tmp_path, new_user):
    with started("input()", tmp_path / "prefect", new_user) as (parent, server):
        assert not is_gone(server)
        parent.kill()
        parent.wait(timeout=120)


@pytest.mark.faults
def test_ctrl_c_leaves_the_server_to_the_command(tmp_path, new_user):
    # A process that a shell starts in the background ignores Ctrl-C by default.
    waits = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("waits", flush=True)
    threading.Event().wait()
except KeyboardInterrupt:
    # A server that heard it would need a moment to end.
    threading.Event().wait(2)
    print(answers(os.environ["PREFECT_API_URL"]), flush=True)
"""
    with started(waits, tmp_path / "prefect", new_user) as (parent, _):
        assert parent.stdout.readline() == "waits\n"
        # A terminal sends the signal to the whole group.
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == "True\n"
        assert parent.wait() == 0


def test_the_server_of_this_folder_is_used_and_no_other_one(
    monkeypatch, capsys, prefect_server, tmp_path
):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    # The variable is set and removed, so that monkeypatch removes it again at the end.
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.delenv("PREFECT_API_URL")
    monkeypatch.setattr("flows.run.prefect_server._reload_settings", lambda: None)
    monkeypatch.chdir(tmp_path)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        # A server answers, but it may belong to another project.
        assert not use_running_prefect()
    record([this_process("Prefect", prefect_server.removesuffix("/api"))])
    before = servers_of(os.getpid())
    with starting_prefect():
        assert os.environ["PREFECT_API_URL"] == prefect_server
        assert set(servers_of(os.getpid())) <= set(before)
    assert prefect_server.removesuffix("/api") in capsys.readouterr().err
    assert not answers(f"http://127.0.0.1:{free_port()}/api")


# ---------------------------------------------------------------- swarm up, swarm down


@pytest.fixture
def free_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Change to a folder and a home without servers; return free ports of MLflow and Prefect."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.chdir(tmp_path)
    return free_port(), free_port()


@pytest.mark.faults
def test_up_starts_prefect_and_mlflow_once_and_down_ends_them(free_ports, tracking_uri, capsys):
    try:
        cli_servers.up(tracking_uri, *free_ports)
        printed = capsys.readouterr().out
        servers = {server.name: server for server in running_servers()}
        assert f"Prefect  http://127.0.0.1:{free_ports[1]}" in printed
        assert f"MLflow   http://127.0.0.1:{free_ports[0]}" in printed
        pages = re.findall(r"(?m)^(runs|models) +(.+)$", printed)
        assert [name for name, _ in pages] == ["runs", "models"]
        assert all(page.startswith(f"http://127.0.0.1:{free_ports[0]}/#/") for _, page in pages)
        assert all(server.answers() for server in servers.values())
        processes = [server.process() for server in servers.values()]
        cli_servers.up(tracking_uri, *free_ports)
        assert re.findall(r"(?m)^(runs|models) +(.+)$", capsys.readouterr().out) == pages
        assert running_servers() == list(servers.values())
    finally:
        cli_servers.down()
    assert "has stopped" in capsys.readouterr().out
    assert all(is_gone(process) for process in processes)
    cli_servers.down()
    assert "nothing to stop" in capsys.readouterr().out


@pytest.mark.faults
def test_ctrl_c_while_up_waits_leaves_no_server(free_ports, tracking_uri, monkeypatch):
    started = []

    def interrupted(server: Server) -> None:
        started.extend(running_servers())
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_servers, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cli_servers.up(tracking_uri, *free_ports)
    assert {server.name for server in started} == {"Prefect", "MLflow"}
    assert not any(server.process() for server in started)
    assert not RECORD.exists()


def test_a_second_up_shows_no_pages_of_another_store(
    free_ports, prefect_server, tracking_uri, capsys
):
    address = prefect_server.removesuffix("/api")
    # The pages of another store would not have the runs of this one.
    for store, n_pages in ((tracking_uri, 2), ("sqlite:///another.db", 0)):
        record([this_process(name, address, store) for name in ("Prefect", "MLflow")])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Server, "answers", lambda _: True)
            cli_servers.up(tracking_uri, *free_ports)
        printed = capsys.readouterr().out
        assert len(re.findall(r"(?m)^(runs|models) ", printed)) == n_pages
        assert ("run `swarm down` before" in printed) == (n_pages == 0)


def test_up_refuses_a_port_that_is_taken(free_ports, tracking_uri):
    taken = socket.create_server(("127.0.0.1", free_ports[1]))
    with taken, pytest.raises(StoreError, match=f"Prefect.*{free_ports[1]}"):
        cli_servers.up(tracking_uri, *free_ports)
    assert not RECORD.exists()


def test_down_spares_a_process_that_only_has_the_number_of_a_server(free_ports, capsys):
    record([Server("MLflow", "http://x", os.getpid(), 1.0)])
    cli_servers.down()
    assert "nothing to stop" in capsys.readouterr().out


def test_a_home_that_cannot_be_made_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(InputError, match=r"file/home.*PREFECT_HOME"):
        server_settings()
