"""The Prefect server that flows of the command line run on.

It is the first of these: the one named by ``PREFECT_API_URL``; that of ``swarm up`` in the current
folder; the one of Prefect's profile; a private one, which keeps its database with the project's
runs.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

import typer

from flows.run.garbage import collect_rarely
from swarm.errors import InputError, StoreError
from swarm.interrupts import sigint_ignored
from tasks.files import write_atomically
from tasks.processes import process_of

if TYPE_CHECKING:
    import psutil

# Folder of the database of a server of this project, unless PREFECT_HOME is set.
HOME = Path("mlruns", "prefect")
# The servers that `swarm up` started in this folder.
RECORD = Path("mlruns", "servers.json")
# A start on a machine that is busy with a search takes minutes.
_MAX_START_SECONDS = 3600.0
# Open requests are answered for this time once the command has ended.
_GRACE_SECONDS = 5
_LAST_LINES = 12


@dataclass(frozen=True)
class Server:
    """A background server, identified by its start time as well, as process ids are reused.

    Attributes
    ----------
    name
        "Prefect" or "MLflow".
    address
        URL of its pages.
    pid
        Id of its process.
    started
        Start time in seconds since the epoch, from the operating system.
    store
        Address without secrets of the tracking store that MLflow shows.
    """

    name: str
    address: str
    pid: int
    started: float
    store: str = ""

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended."""
        return process_of(self.pid, self.started)

    def answers(self) -> bool:
        """Return whether it accepts requests."""
        return answers(f"{self.address}/api" if self.name == "Prefect" else self.address)


class _PrivateServer:
    """A child process that serves Prefect's API until this process ends, however it ends.

    Prefect's own temporary server ends at Ctrl-C, before the run does, outlives a command that is
    killed, and is started again and again if its database cannot be opened.
    """

    def __init__(self) -> None:
        from prefect.settings import get_current_settings

        # The server has another home, and reads none of the user's profiles.
        settings = get_current_settings().to_environment_variables(exclude_unset=True)
        overrides = {"PREFECT_UI_ENABLED": "0", "PREFECT_API_BLOCKS_REGISTER_ON_START": "false"}
        # The file is closed with the process.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        # Requests to a port that listens wait until the server accepts them.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.address = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(listener.fileno())],
                env={**os.environ, **settings, **server_settings(), **overrides},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                pass_fds=[listener.fileno()],
                # Ctrl-C must not reach the server before the run has ended.
                start_new_session=True,
            )
        atexit.register(self.stop)

    def wait(self) -> None:
        """Wait until the server answers, else StoreError with its last lines."""
        if answers(self.address, _MAX_START_SECONDS):
            return
        self.stop()
        self._log.seek(0)
        lines = last_lines(self._log.read().decode(errors="replace"))
        raise StoreError(
            "the Prefect server of this command did not start; set PREFECT_API_URL to the address"
            f" of a running server, or fix the cause; its last lines:\n{lines}"
        )

    def stop(self) -> None:
        """End the server, which takes a moment; Ctrl-C is ignored meanwhile."""
        atexit.unregister(self.stop)
        assert self._process.stdin is not None
        with sigint_ignored():
            self._process.stdin.close()
            try:
                self._process.wait(timeout=2 * _GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _serve(listener: socket.socket) -> None:
    """Serve Prefect's API, in a process of its own, until standard input ends."""

    def end_with_parent() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    collect_rarely()
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    config = uvicorn.Config(
        app, log_level="error", lifespan="on", timeout_graceful_shutdown=_GRACE_SECONDS
    )
    uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def starting_prefect(verbosity: int = 1) -> Iterator[None]:
    """Start a private server unless a server exists, run the block meanwhile, then wait for it.

    Raises StoreError if the server does not answer. This process and its children use it.
    """
    from flows.display.terminal import show_stage

    _use_local_server()
    text = "starting Prefect; the first time takes up to a minute"
    if os.environ.get("PREFECT_API_URL"):
        text = "connecting to Prefect"
    with show_stage(text, verbosity):
        private = None if use_running_prefect() else _PrivateServer()
        yield
        if private is None:
            _require_response()
            return
        private.wait()
        os.environ.update({"PREFECT_API_URL": private.address, "PREFECT_UI_ENABLED": "0"})
        _reload_settings()


def has_started_prefect() -> bool:
    """Whether a private server has started in this folder before."""
    return (_home() / "prefect.db").exists()


def start_prefect() -> None:
    """Connect to the Prefect server, or start a private one, and wait for it."""
    with starting_prefect(0):
        pass


def use_running_prefect() -> bool:
    """Return whether a server is named, or was started here by `swarm up`, and use it if so."""
    _use_local_server()
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


def _use_local_server() -> None:
    """Use the server of `swarm up` in this folder, unless the environment names one.

    Any other server on the usual port may be that of another project.
    """
    if os.environ.get("PREFECT_API_URL"):
        return
    for server in running_servers():
        if server.name == "Prefect" and server.answers():
            typer.echo(f"using the Prefect server at {server.address}", err=True)
            os.environ["PREFECT_API_URL"] = f"{server.address}/api"
            _reload_settings()


def _reload_settings() -> None:
    """Let Prefect read the environment again if it was imported."""
    if "prefect" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


def _require_response() -> None:
    """Raise StoreError if the server in use does not answer."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise StoreError(
                f"the Prefect server at {client.api_url} does not answer ({problem}); "
                "start it, or unset PREFECT_API_URL to run without one"
            )


def running_servers() -> list[Server]:
    """Return the servers that `swarm up` started in this folder and that have not ended."""
    try:
        servers = [Server(**fields) for fields in json.loads(RECORD.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"{RECORD} cannot be read ({error}); stop the servers by hand and remove the file"
        ) from None
    return [server for server in servers if server.process() is not None]


def record(servers: Sequence[Server]) -> None:
    """Replace the record of the servers of this folder."""
    if not servers:
        RECORD.unlink(missing_ok=True)
        return
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(RECORD, json.dumps([asdict(server) for server in servers], indent=1), 0o644)


def _home() -> Path:
    return Path(os.environ.get("PREFECT_HOME") or HOME).absolute()


def server_settings() -> dict[str, str]:
    """Return variables of a server that is started here: its home, no telemetry, few logs."""
    home = _home()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot create the folder {str(home)!r} for Prefect ({error.strerror}); run where you "
            "may write, or set PREFECT_HOME to another folder"
        ) from None
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }


def answers(address: str, timeout: float = 2.0) -> bool:
    """Return whether the page ``/health`` below an address of this machine answers."""
    try:
        # The proxy that the environment may name does not serve this machine.
        build_opener(ProxyHandler({})).open(f"{address}/health", timeout=timeout).close()
    except (OSError, HTTPException):
        return False
    return True


def last_lines(text: str) -> str:
    """Return the end of the log of a server."""
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:]) or "(nothing)"


def lost_connection(error: Exception) -> StoreError | None:
    """Return an error of one sentence if `error` is a lost connection to the server."""
    # Only Prefect's client uses httpx.
    httpx = sys.modules.get("httpx")
    if httpx is None or not isinstance(error, httpx.HTTPError):
        return None
    from prefect.settings import PREFECT_API_URL

    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return StoreError(
        f"the Prefect server at {PREFECT_API_URL.value()} was lost during the run ({reason}); all "
        "evaluations so far are in the archive; start the server or unset PREFECT_API_URL, then "
        "continue with the same command, or with `swarm resume` and the id of the run"
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
