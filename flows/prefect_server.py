"""The Prefect server that flows of the command line run on.

In this order: the one named by ``PREFECT_API_URL`` or Prefect's profile; that of ``swarm up`` in
the current folder; a private one, which starts while the command imports its modules, keeps its
database with the project's runs, and ends with the command.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import typer

from swarm.errors import StoreError
from tasks.tracking.store import load_mlflow

if TYPE_CHECKING:
    import psutil

# Folder of the database of a private server, unless PREFECT_HOME is set.
HOME = Path("mlruns", "prefect")
# Where `swarm up` starts Prefect, and the servers that it started in this folder.
LOCAL_API = "http://127.0.0.1:4200/api"
RECORD = Path("mlruns", "servers.json")

_PROCESS = Path(__file__).with_name("server_process.py")
# Timeout of a start that hangs; a slow one needs far less.
_MOST_SECONDS = 900.0
_LAST_LINES = 12
# Settings of every server that is started here: no telemetry, errors are logged.
SERVER_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class Server:
    """A background server, identified by its start time as well, as process ids are reused.

    Attributes
    ----------
    name : str
    address : str
    pid : int
    started : float
        Start time in seconds since the epoch, from the operating system.
    """

    name: str
    address: str
    pid: int
    started: float

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended."""
        return process_of(self.pid, self.started)


class PrefectServer:
    """A private server that is starting, or an existing server.

    Parameters
    ----------
    process : Popen or None
        The private server; None for an existing one.
    errors : file or None
        Standard error of the private server.
    """

    def __init__(
        self, process: subprocess.Popen[str] | None, errors: IO[bytes] | None = None
    ) -> None:
        self._process = process
        self._errors = errors
        self._in_use = False
        self._address: queue.SimpleQueue[str] = queue.SimpleQueue()
        if process is not None:
            atexit.register(self.stop)
            threading.Thread(target=self._read_address, daemon=True).start()

    @property
    def is_private(self) -> bool:
        """Whether the server ends with this process."""
        return self._process is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The command ended before it waited for the server, on bad input for example.
        if not self._in_use:
            self.stop()

    @contextmanager
    def starting(self, verbosity: int = 1) -> Iterator[None]:
        """Show that the server starts, while the block imports what a flow needs; then wait.

        Parameters
        ----------
        verbosity : int
            0 shows nothing.

        Raises
        ------
        StoreError
            If the private server ended, or an existing one does not answer.
        """
        from flows.progress import show_stage
        from flows.stages import Stage

        text = Stage.START.line if self.is_private else "connecting to Prefect"
        with show_stage(Stage.START, verbosity, text=text):
            yield
            self.wait()

    def wait(self) -> None:
        """Wait until the server answers, and use it in this process and its children.

        Raises
        ------
        StoreError
            If the private server ended, or an existing one does not answer.
        """
        # Every flow needs MLflow, which is slow to import: done while the server starts.
        load_mlflow()
        from prefect.settings import PREFECT_API_URL

        process = self._process
        if process is None or PREFECT_API_URL.value():
            # A profile may name a server, which only Prefect can read.
            self.stop()
            _require_answer()
            return
        self._in_use = True
        assert process.stdin is not None
        # If it has ended, the wait for its address reports why.
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(_all_settings()) + "\n")
            process.stdin.flush()
        address = self._wait_for_address()
        # It serves no pages.
        _use({"PREFECT_API_URL": address, "PREFECT_UI_ENABLED": "0"})

    def stop(self) -> None:
        """End a private server."""
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.stop)
        if not self._in_use:
            # It has only imported modules so far.
            process.kill()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read_address(self) -> None:
        process = self._process
        if process is not None and process.stdout is not None:
            self._address.put(process.stdout.readline().strip())

    def _wait_for_address(self) -> str:
        try:
            address = self._address.get(timeout=_MOST_SECONDS)
        except queue.Empty:
            address = ""
        if address:
            return address
        assert self._process is not None
        assert self._errors is not None
        try:
            state = f"ended with status {self._process.wait(timeout=5)}"
        except subprocess.TimeoutExpired:
            state = "does not answer"
        self.stop()
        self._errors.seek(0)
        lines = last_lines(self._errors.read().decode(errors="replace"))
        raise StoreError(
            f"the Prefect server of this command {state}; set PREFECT_API_URL to the address of a"
            f" running server, or fix the cause; its last lines:\n{lines}"
        )


def process_of(pid: int, started: float) -> psutil.Process | None:
    """Return the process of this machine that started at a time, or None if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - started) < 1.0 else None
    except psutil.NoSuchProcess:
        return None


def prefect_is_there() -> bool:
    """Return whether a server is named or `swarm up` started one here, and use it if so."""
    if "prefect" in sys.modules:
        from prefect.settings import PREFECT_API_URL

        if PREFECT_API_URL.value():
            return True
    if os.environ.get("PREFECT_API_URL"):
        return True
    for server in running():
        # Any other server may be that of another project.
        if server.name == "Prefect" and answers(f"{server.address}/api"):
            typer.echo(f"using the Prefect server at {server.address}", err=True)
            _use({"PREFECT_API_URL": f"{server.address}/api"})
            return True
    return False


def running() -> list[Server]:
    """Return the servers that `swarm up` started in this folder and that have not ended."""
    return [server for server in recorded() if server.process() is not None]


def recorded() -> list[Server]:
    """Return the servers that `swarm up` started in this folder, ended ones included."""
    try:
        return [Server(**each) for each in json.loads(RECORD.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"{RECORD} cannot be read ({error}); stop the servers by hand and remove the file"
        ) from None


def launch_prefect() -> PrefectServer:
    """Start a private server unless a server exists; return without waiting for it."""
    if prefect_is_there():
        return PrefectServer(None)
    errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
    process = subprocess.Popen(
        [sys.executable, "-P", "-u", str(_PROCESS)],
        env={**os.environ, **_own_settings()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        # In its own session: Ctrl-C must not reach the server before the search has ended.
        start_new_session=True,
    )
    return PrefectServer(process, errors)


def start_prefect() -> None:
    """Connect to the Prefect server, or start a private one, and wait for it."""
    launch_prefect().wait()


def prefect_home() -> Path:
    """Folder of the private server's database."""
    return Path(os.environ.get("PREFECT_HOME") or HOME).absolute()


def health(address: str, timeout: float = 2.0) -> tuple[int, bytes] | None:
    """Return status and text of the page ``/health`` below an address; None without an answer."""
    host, _, path = address.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", f"/{path}/health" if path else "/health")
        answer = connection.getresponse()
        return answer.status, answer.read().strip()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def answers(api: str) -> bool:
    """Return whether a Prefect API on this machine is healthy."""
    return health(api) == (200, b"true")


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


def _own_settings() -> dict[str, str]:
    return {
        **SERVER_SETTINGS,
        "PREFECT_HOME": str(prefect_home()),
        "PREFECT_UI_ENABLED": "0",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    }


def _all_settings() -> dict[str, str]:
    """Return the settings of environment, files and profiles; the server reads none of them."""
    from prefect.settings import get_current_settings

    given: dict[str, str] = get_current_settings().to_environment_variables(exclude_unset=True)
    return {**given, **_own_settings()}


def _use(variables: Mapping[str, str]) -> None:
    """Set variables for this process, its children, and Prefect if it is imported."""
    os.environ.update(variables)
    if "prefect" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


def _require_answer() -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            raise StoreError(
                f"the Prefect server at {client.api_url} does not answer ({problem}); "
                "start it, or unset PREFECT_API_URL to run without one"
            )
