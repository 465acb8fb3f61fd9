"""The server that flows of the command line run on: it starts on any machine and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest

from flows import cli_servers, server_process
from flows.prefect_server import RECORD, Server, answers, launch_prefect, prefect_is_there
from swarm.errors import StoreError
from tests.servers import free_port, happens, is_gone

SMALL = ["budget.epochs=2", "strategy.params.n_particles=4", "strategy.params.n_swarms=2"]
SMALL += ["model.params.n_estimators=5", "test.random_subsets=1", "test.bootstrap=50"]
OPTIONS = [part for each in SMALL for part in ("--set", each)]
PROCESS = Path(server_process.__file__)

# What a person who has just installed it has: no settings, and an empty home.
Environment = dict[str, str]


@pytest.fixture
def new_user(tmp_path: Path) -> Environment:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    kept.pop("DO_NOT_TRACK")
    return {**kept, "HOME": str(home)}


@pytest.fixture
def command() -> str:
    path = Path(sys.executable).with_name("swarm")
    if not path.exists():
        pytest.skip("the project is not installed as a command in this environment")
    return str(path)


def servers_of(pid: int) -> list[psutil.Process]:
    """Servers among the children of a process."""
    children = psutil.Process(pid).children()
    return [child for child in children if str(PROCESS) in child.cmdline()]


def run(arguments: list[str], folder: Path, environment: Environment) -> CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=290
    )


def select(command: list[str], folder: Path, environment: Environment) -> str:
    """Run `swarm select default`, and give the id of its run."""
    done = run([*command, "select", "default", *OPTIONS], folder, environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "of 30 features" in done.stdout
    run_id: str = re.search(r"(?m)^run +(\w{32})", done.stdout)[1]
    return run_id


@pytest.mark.slow
def test_a_new_user_selects_features_and_finds_everything_in_one_folder(
    tmp_path, new_user, command
):
    """What the lock has to be good for: `swarm select` with no server and no settings."""
    run_id = select([command], tmp_path, new_user)
    kept = tmp_path / "mlruns"
    assert (kept / "mlflow.db").exists()
    assert (kept / "archive.db").exists()
    assert (kept / "artifacts" / run_id / "artifacts" / "report.html").exists()
    with closing(sqlite3.connect(kept / "prefect" / "prefect.db")) as database:
        ((state,),) = database.execute("select state_type from flow_run").fetchall()
    assert state == "COMPLETED"
    assert not list(Path(new_user["HOME"], ".prefect").glob("*"))


@pytest.mark.faults
def test_a_machine_that_has_no_time_for_it_only_delays_the_start(tmp_path, new_user, command):
    """Two loops take all but three percent of two processors for three times Prefect's limit."""
    loop = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(os.cpu_count() or 2)]
    try:
        began = time.monotonic()
        select(["nice", "-n", "19", command], tmp_path, new_user)
        assert time.monotonic() - began > 20
    finally:
        for each in loops:
            each.kill()
            each.wait()


def test_bad_input_does_not_wait_for_the_server_and_leaves_nothing(tmp_path, new_user, command):
    done = run([command, "select", "default", "--set", "budget.epocs=2"], tmp_path, new_user)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.faults
def test_a_server_that_dies_ends_in_its_own_last_words(tmp_path, new_user, command):
    database = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/no/x.db"}
    done = run([command, "select", "default", *OPTIONS], tmp_path, {**new_user, **database})
    assert done.returncode == 2
    stage, first, *others = done.stderr.splitlines()
    assert stage.startswith("starting Prefect")
    assert first.startswith("swarm: the Prefect server of this command ended with status 3")
    assert "set PREFECT_API_URL" in first
    assert any("unable to open database file" in line for line in others)
    assert not (tmp_path / "mlruns" / "mlflow.db").exists()


@pytest.mark.faults
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "kill"])
def test_the_server_ends_with_the_command_however_it_ends(tmp_path, new_user, end):
    waits = "from flows.prefect_server import start_prefect; start_prefect(); print('up'); input()"
    with subprocess.Popen(
        [sys.executable, "-c", waits],
        cwd=Path(__file__).parents[1],
        env={**new_user, "PREFECT_HOME": str(tmp_path / "prefect")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout.readline() == "up\n"
        (server,) = servers_of(parent.pid)
        assert not is_gone(server)
        parent.send_signal(end)
        parent.wait(timeout=30)
        assert happens(lambda: is_gone(server), 20)


def test_the_server_of_this_folder_is_used_and_no_other_one(
    monkeypatch, capsys, prefect_server, tmp_path
):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    used: dict[str, str] = {}
    monkeypatch.setattr("flows.prefect_server._use", used.update)
    monkeypatch.setattr("flows.prefect_server.LOCAL_API", prefect_server)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        # It answers on the usual port, but may be that of another project.
        assert not prefect_is_there()
        started = psutil.Process().create_time()
        own = Server("Prefect", prefect_server.removesuffix("/api"), os.getpid(), started)
        RECORD.parent.mkdir()
        RECORD.write_text(json.dumps([asdict(own)]))
        server = launch_prefect()
    assert server.is_private is False
    assert used == {"PREFECT_API_URL": prefect_server}
    # The fixture's own setting stands for what was just recorded.
    server.wait()
    told = capsys.readouterr().err
    assert f"using the Prefect server at {prefect_server.removesuffix('/api')}" in told
    assert not answers(f"http://127.0.0.1:{free_port()}/api")


def test_the_template_has_prefects_tables_and_never_replaces_a_database(tmp_path, monkeypatch):
    template, home = tmp_path / "share" / "prefect.db", tmp_path / "home"
    home.mkdir()
    server_process.write_template(template)
    assert [path.name for path in template.parent.iterdir()] == [template.name]
    with closing(sqlite3.connect(template)) as database:
        names = {name for (name,) in database.execute("select name from sqlite_master")}
    assert {"flow_run", "task_run", "alembic_version"} <= names

    monkeypatch.setattr(server_process, "database_template", lambda: template)
    server_process.copy_template(home)
    assert (home / "prefect.db").read_bytes() == template.read_bytes()
    (home / "prefect.db").write_bytes(b"in use")
    server_process.copy_template(home)
    assert (home / "prefect.db").read_bytes() == b"in use"
    assert [path.name for path in home.iterdir()] == ["prefect.db"]


# ---------------------------------------------------------------- swarm up, swarm down


@pytest.fixture
def own_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Ports and a home that are nobody's, for `up`; give that of MLflow."""
    local = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setattr("flows.cli_servers.LOCAL_API", local)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.chdir(tmp_path)
    return free_port()


@pytest.mark.faults
def test_up_starts_prefect_and_mlflow_once_and_down_ends_them(
    own_ports, tracking_uri, tmp_path, capsys
):
    try:
        cli_servers.up(tracking_uri, own_ports)
        told = capsys.readouterr().out
        assert cli_servers.LOCAL_API.removesuffix("/api") in told
        assert f"MLflow   http://127.0.0.1:{own_ports}" in told
        assert answers(cli_servers.LOCAL_API)
        first = json.loads((tmp_path / "mlruns" / "servers.json").read_text())
        processes = [psutil.Process(server["pid"]) for server in first]
        cli_servers.up(tracking_uri, own_ports)
        assert json.loads((tmp_path / "mlruns" / "servers.json").read_text()) == first
    finally:
        cli_servers.down()
    assert "has stopped" in capsys.readouterr().out
    assert not answers(cli_servers.LOCAL_API)
    assert all(is_gone(process) for process in processes)
    cli_servers.down()
    assert "nothing to stop" in capsys.readouterr().out


@pytest.mark.faults
def test_up_says_what_a_server_that_does_not_start_said_last(own_ports, tracking_uri, monkeypatch):
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "sqlite+aiosqlite:////no/x.db")
    with pytest.raises(StoreError, match=r"Prefect did not start; .*prefect\.log") as told:
        cli_servers.up(tracking_uri, own_ports)
    assert "unable to open database file" in str(told.value)


@pytest.fixture
def up_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose servers, of which this process is both, run already."""
    monkeypatch.chdir(tmp_path)
    started = psutil.Process().create_time()
    running = [
        {"name": name, "address": address, "pid": os.getpid(), "started": started}
        for name, address in (("Prefect", "http://127.0.0.1:4"), ("MLflow", "http://127.0.0.1:5"))
    ]
    (tmp_path / "mlruns").mkdir()
    (tmp_path / "mlruns" / "servers.json").write_text(json.dumps(running))


@pytest.mark.usefixtures("up_already")
@pytest.mark.parametrize(
    ("uri", "port", "is_said"), [(None, 5, False), (None, 6, True), ("sqlite:///x.db", 5, True)]
)
def test_a_second_up_says_that_it_moves_no_server(capsys, uri, port, is_said):
    cli_servers.up(uri, port)
    told = capsys.readouterr()
    assert "MLflow   http://127.0.0.1:5" in told.out
    assert ("http://127.0.0.1:5; run `swarm down`" in told.err) == is_said


@pytest.mark.usefixtures("up_already")
def test_ui_shows_the_pages_of_up_and_refuses_a_port_that_is_taken(monkeypatch, capsys):
    monkeypatch.setattr(cli_servers, "_serves", lambda address: True)
    cli_servers.ui(None, port=5)
    assert "runs    http://127.0.0.1:5/#/experiments/" in capsys.readouterr().out
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:4 is in use by another program"):
        cli_servers.ui(None, port=4)


def test_down_spares_a_process_that_only_has_the_number_of_a_server(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").mkdir()
    other = [{"name": "MLflow", "address": "http://x", "pid": os.getpid(), "started": 1.0}]
    (tmp_path / "mlruns" / "servers.json").write_text(json.dumps(other))
    cli_servers.down()
    assert "MLflow has already stopped" in capsys.readouterr().out
