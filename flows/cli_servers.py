"""The commands about servers: up, down, ui, and serve, which runs schedules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli_options import Set, Uri, tracking_of
from flows.prefect_server import (
    LOCAL_API,
    RECORD,
    SERVER_SETTINGS,
    Server,
    answers,
    health,
    last_lines,
    prefect_home,
    prefect_is_there,
    recorded,
    running,
    start_prefect,
)
from swarm.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from conf.load import AnyConfig

# Logs of the servers that `swarm up` starts.
_LOGS = Path("mlruns", "logs")
_MOST_SECONDS = 600.0

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on.")]
Configs = Annotated[
    list[str], typer.Argument(help="YAML files, or names of shipped ones, each with a schedule.")
]
Limit = Annotated[
    int, typer.Option(min=1, help="Maximum number of concurrent runs on this machine.")
]


def up(
    tracking_uri: Uri = None, port: Annotated[int, typer.Option(help="Port of MLflow.")] = 5000
) -> None:
    """Start Prefect and MLflow in the background, on this machine only; `swarm down` stops them.

    Commands in this folder then use Prefect's server, start faster, and show their progress there.

    Example: swarm up
    """
    prefect = LOCAL_API.removesuffix("/api")
    kept = running()
    before = {server.name: server.address for server in kept}
    _LOGS.mkdir(parents=True, exist_ok=True)
    if "Prefect" not in before and answers(LOCAL_API):
        typer.echo(
            f"the Prefect server at {prefect} is not of this folder: commands use it only if"
            f" PREFECT_API_URL is {LOCAL_API}",
            err=True,
        )
    elif "Prefect" not in before:
        host, _, number = prefect.removeprefix("http://").partition(":")
        command = ["prefect", "server", "start", "--host", host, "--port", number]
        home = {"PREFECT_HOME": str(prefect_home())}
        prefect_home().mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **SERVER_SETTINGS, **home, "PREFECT_UI_API_URL": LOCAL_API}
        kept.append(_start("Prefect", prefect, command, environment, lambda: answers(LOCAL_API)))
        _write(kept)
    if "MLflow" not in before:
        mlflow = f"http://127.0.0.1:{port}"
        _require_free(mlflow)
        command, environment = _mlflow(
            "127.0.0.1", port, tracking_of(tracking_uri, create=True).uri
        )
        kept.append(_start("MLflow", mlflow, command, environment, lambda: _serves(mlflow)))
        _write(kept)
    elif tracking_uri is not None or not before["MLflow"].endswith(f":{port}"):
        typer.echo(
            f"MLflow keeps running at {before['MLflow']}; run `swarm down` before `swarm up` to"
            " change its port or store",
            err=True,
        )
    addresses = {server.name: server.address for server in kept}
    for name in sorted(addresses, reverse=True):
        typer.echo(f"{name:8} {addresses[name]}")
    typer.echo("`swarm down` stops them")


def down() -> None:
    """Stop the servers that `swarm up` started in this folder.

    Example: swarm down
    """
    import psutil

    servers = recorded()
    if not servers:
        typer.echo("nothing to stop: `swarm up` started no server in this folder")
    for server in servers:
        process = server.process()
        if process is None:
            typer.echo(f"{server.name} has already stopped")
            continue
        family = [process, *process.children(recursive=True)]
        process.terminate()
        _, alive = psutil.wait_procs(family, timeout=15)
        for one in alive:
            one.kill()
        psutil.wait_procs(alive, timeout=5)
        typer.echo(f"{server.name} at {server.address} has stopped")
    RECORD.unlink(missing_ok=True)


def ui(
    tracking_uri: Uri = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    browser: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser once it answers.")
    ] = False,
) -> None:
    """Serve the MLflow UI, and print the address of the page with the runs.

    Example: swarm ui --open --port 5001
    """
    from tasks.tracking import models_page, runs_page

    address = f"http://{host}:{port}"
    served = [each.address for each in running() if each.name == "MLflow"]
    is_up = tracking_uri is None and address in served
    if not is_up:
        _require_free(address)
    store = tracking_of(tracking_uri, create=True)
    page = f"{address}{runs_page(store.experiment_id)}"
    stopper = "`swarm down`" if is_up else "Ctrl-C"
    typer.echo(f"MLflow UI of {store.label} ({stopper} stops it)")
    typer.echo(f"runs    {page}")
    typer.echo(f"models  {address}{models_page(store.experiment_id)}")
    sys.stdout.flush()
    if browser:
        _open_later(host, port, page)
    if is_up:
        return
    command, environment = _mlflow(host, port, store.uri)
    # Replace this process by the server, so that no child process can be left behind.
    os.execve(sys.executable, [sys.executable, "-m", *command], environment)


def _mlflow(host: str, port: int, store: str) -> tuple[list[str], dict[str, str]]:
    # One worker is enough for one user. Four start at once otherwise, each of which imports all of
    # MLflow, and are killed and started again on a machine that is busy with a search.
    command = ["mlflow", "ui", "--host", host, "--port", str(port), "--workers", "1"]
    # In the environment, as the URI may contain a password and command lines are public.
    return command, {**os.environ, "MLFLOW_BACKEND_STORE_URI": store}


def _open_later(host: str, port: int, page: str) -> None:
    """Open a page once the server answers, from a process that does not outlive the wait."""
    code = (
        "import sys, time, urllib.request, webbrowser\n"
        "end = time.monotonic() + 120\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        urllib.request.urlopen(sys.argv[1] + '/health', timeout=2)\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.5)\n"
        "webbrowser.open(sys.argv[2])\n"
    )
    address = f"http://{host}:{port}"
    command = [sys.executable, "-P", "-c", code, address, page]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def _start(
    name: str,
    address: str,
    command: list[str],
    environment: Mapping[str, str],
    is_ready: Callable[[], bool],
) -> Server:
    """Start a module in the background, and wait until it answers."""
    import psutil

    typer.echo(f"starting {name}; the first time takes up to a minute", err=True)
    log = _LOGS / f"{name.lower()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    server = Server(name, address, process.pid, psutil.Process(process.pid).create_time())
    end = time.monotonic() + _MOST_SECONDS
    while not is_ready():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            lines = last_lines(log.read_text(encoding="utf-8", errors="replace"))
            raise StoreError(f"{name} did not start; its last lines, of {log}:\n{lines}")
        time.sleep(0.2)
    return server


def _require_free(address: str) -> None:
    if _serves(address):
        raise StoreError(f"{address} is in use by another program; stop it, or pass another --port")


def _serves(address: str) -> bool:
    found = health(address)
    return found is not None and found[0] < 500


def _write(servers: list[Server]) -> None:
    text = json.dumps([asdict(server) for server in servers], indent=1)
    RECORD.write_text(text, encoding="utf-8")


def serve(configs: Configs, set_: Set = None, limit: Limit = 1) -> None:
    """Run configurations on their schedules (schedule.cron), until Ctrl-C or SIGTERM.

    Example: swarm serve nightly.yaml weekly.yaml
    """
    # Runs log to the server.
    if os.environ.get("PREFECT_LOGGING_LEVEL") == "CRITICAL":
        os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"
    from conf.check import check
    from conf.load import load

    loaded = [(each, load(each, set_ or ())) for each in configs]
    for origin, config in loaded:
        if config.schedule is None:
            raise ConfigError(
                f"{origin} has no schedule.cron; set it, such as to '0 4 * * 1' for Mondays at 4"
            )
        check(config)
    _refuse_duplicates(loaded)
    if not prefect_is_there():
        raise StoreError(
            "schedules need a permanent Prefect server, and PREFECT_API_URL is not set; run"
            " `swarm up`, or set PREFECT_API_URL to the address of a running server"
        )
    start_prefect()
    from flows.deployed import deployment_of, serve_until_stopped

    deployments = [deployment_of(config) for _, config in loaded]
    for made in deployments:
        schedule = made.schedules[0].schedule
        typer.echo(f"{made.flow_name}/{made.name}  {schedule.cron}  ({schedule.timezone})")
    typer.echo(
        "waiting for the schedules (Ctrl-C stops and pauses them until the next `swarm serve`)"
    )
    serve_until_stopped(deployments, limit)


def _refuse_duplicates(loaded: Sequence[tuple[str, AnyConfig]]) -> None:
    """Refuse configurations that share a deployment or a champion."""
    from conf.schema import RefreshConfig
    from flows.flow_runs import flow_name

    seen: dict[tuple[str, str], str] = {}
    for origin, config in loaded:
        marks = [("name", f"{flow_name(config)}/{config.name}")]
        if isinstance(config, RefreshConfig):
            marks.append(("champion", config.champion_name))
        for mark in marks:
            if mark in seen:
                raise ConfigError(
                    f"{seen[mark]} and {origin} have the same {mark[0]} {mark[1]!r}; rename one, or"
                    " serve only one of them"
                )
            seen[mark] = origin
