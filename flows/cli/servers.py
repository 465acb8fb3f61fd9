"""The commands about servers: up, down, and serve, which runs schedules.

`up` starts each server by its own command. ``prefect server start --background`` records the id of
a process alone, so that its `stop` may end another process, and a start is refused after a machine
has lost power. MLflow has no such option.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import Set, Uri, warn_ignored_uri
from flows.run.prefect_server import (
    Server,
    last_lines,
    record,
    running_servers,
    server_settings,
    start_prefect,
    use_running_prefect,
)
from swarm.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from conf.load import AnyConfig

_LOGS = Path("mlruns", "logs")

Configs = Annotated[
    list[str], typer.Argument(help="YAML files, or names of shipped ones, each with a schedule.")
]
Limit = Annotated[
    int, typer.Option(min=1, help="Maximum number of concurrent runs on this machine.")
]


def up(
    tracking_uri: Uri = None,
    port: Annotated[int, typer.Option(help="Port of MLflow.")] = 5000,
    prefect_port: Annotated[int, typer.Option(help="Port of Prefect.")] = 4200,
) -> None:
    """Start Prefect and MLflow in the background.

    They listen on this machine only, and their addresses are printed. Commands in this folder then
    use Prefect's server, start faster, and show their progress there. `swarm down` stops both.

    Example: swarm up
    """
    from conf.load import default_tracking
    from tasks.tracking import models_page, open_tracking, runs_page

    section = default_tracking(tracking_uri)
    warn_ignored_uri(section)
    store = open_tracking(section.uri, section.experiment, section.artifacts)
    servers = {server.name: server for server in running_servers()}
    before = set(servers)
    try:
        if "Prefect" not in servers:
            command = ["prefect", "server", "start"]
            page = {"PREFECT_UI_API_URL": f"http://127.0.0.1:{prefect_port}/api"}
            servers["Prefect"] = _start("Prefect", command, prefect_port, server_settings() | page)
        if "MLflow" not in servers:
            # One worker is enough for one user: each imports all of MLflow. The URI is in the
            # environment, as it may contain a password and command lines are public.
            command = ["mlflow", "server", "--workers", "1"]
            uri = {"MLFLOW_BACKEND_STORE_URI": store.uri}
            servers["MLflow"] = _start("MLflow", command, port, uri, store.label)
        for server in servers.values():
            _wait(server)
    except BaseException:
        _stop([server for server in running_servers() if server.name not in before])
        raise
    for server in servers.values():
        typer.echo(f"{server.name:8} {server.address}")
    mlflow = servers["MLflow"]
    if mlflow.store == store.label:
        typer.echo(f"runs     {mlflow.address}{runs_page(store.experiment_id)}")
        typer.echo(f"models   {mlflow.address}{models_page(store.experiment_id)}")
    else:
        typer.echo(f"MLflow keeps showing {mlflow.store}: run `swarm down` before `swarm up`")
    typer.echo("`swarm down` stops them")


def down() -> None:
    """Stop the servers that `swarm up` started in this folder.

    Example: swarm down
    """
    servers = running_servers()
    _stop(servers)
    for server in servers:
        typer.echo(f"{server.name} at {server.address} has stopped")
    if not servers:
        typer.echo("nothing to stop: no server of `swarm up` is running in this folder")


def _start(
    name: str, command: list[str], port: int, environment: Mapping[str, str], store: str = ""
) -> Server:
    """Start a server of this machine in the background, and record it at once."""
    import psutil

    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise StoreError(f"{name} cannot use port {port} ({error}); pass another one") from None
    typer.echo(f"starting {name}; the first time takes up to a minute", err=True)
    _LOGS.mkdir(parents=True, exist_ok=True)
    with (_LOGS / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *command, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started = psutil.Process(process.pid).create_time()
    server = Server(name, f"http://127.0.0.1:{port}", process.pid, started, store)
    record([*running_servers(), server])
    return server


def _wait(server: Server) -> None:
    """Wait until a server answers; StoreError if it ends first."""
    while not server.answers():
        if server.process() is None:
            log = _LOGS / f"{server.name}.log"
            lines = last_lines(log.read_text(encoding="utf-8", errors="replace"))
            raise StoreError(f"{server.name} did not start; its last lines, of {log}:\n{lines}")
        time.sleep(0.2)


def _stop(servers: Sequence[Server]) -> None:
    """End servers with their workers, and remove them from the record."""
    import psutil

    processes = [process for server in servers if (process := server.process())]
    children = [child for process in processes for child in process.children(recursive=True)]
    for process in processes:
        process.terminate()
    _, alive = psutil.wait_procs([*processes, *children], timeout=15)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive)
    record(running_servers())


def serve(configs: Configs, set_: Set = None, limit: Limit = 1) -> None:
    """Run configurations on their schedules, until Ctrl-C.

    Each configuration needs schedule.cron. SIGTERM stops the command too.

    Example: swarm serve nightly.yaml weekly.yaml
    """
    # The logs of runs are on the pages of the server.
    if os.environ.get("PREFECT_LOGGING_LEVEL") == "CRITICAL":
        os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"
    from conf.check import check
    from conf.load import load
    from flows.run.flow_runs import flow_name

    loaded: dict[str, AnyConfig] = {}
    for origin in configs:
        config = load(origin, set_ or ())
        if config.schedule is None:
            raise ConfigError(
                f"{origin} has no schedule.cron; set it, such as to '0 4 * * 1' for Mondays at 4"
            )
        check(config)
        name = f"{flow_name(config)}/{config.name}"
        if name in loaded:
            raise ConfigError(f"{origin} is a second {name!r}; rename one, or serve one of them")
        loaded[name] = config
    if not use_running_prefect():
        raise StoreError(
            "schedules need a permanent Prefect server, and PREFECT_API_URL is not set; run"
            " `swarm up`, or set PREFECT_API_URL to the address of a running server"
        )
    start_prefect()
    from flows.deployed import deployment_of, serve_until_stopped

    deployments = [deployment_of(config) for config in loaded.values()]
    for name, config in loaded.items():
        schedule = config.schedule
        assert schedule is not None
        typer.echo(f"{name}  {schedule.cron}  ({schedule.timezone})")
    typer.echo(
        "waiting for the schedules (Ctrl-C stops and pauses them until the next `swarm serve`)"
    )
    serve_until_stopped(deployments, limit)
