"""The Prefect server that flows of the command line run on.

In this order: the one that ``PREFECT_API_URL`` or Prefect's profile names; one that answers on
Prefect's usual port, such as that of ``swarm up``; a private one, which starts while the command
imports what it needs, keeps its database with the project's runs, and ends with the command.
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
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Self

import typer

from swarm.errors import StoreError
from tasks.tracking.store import load_mlflow

__all__ = [
    "HOME",
    "LOCAL_API",
    "SERVER_SETTINGS",
    "PrefectServer",
    "answers",
    "launch_prefect",
    "lost_prefect",
    "prefect_home",
    "prefect_is_there",
    "start_prefect",
]

# Where a private server keeps its database, unless PREFECT_HOME says otherwise.
HOME = Path("mlruns", "prefect")
LOCAL_API = "http://127.0.0.1:4200/api"

_PROCESS = Path(__file__).with_name("server_process.py")
# After which a start that still waits is explained.
_SAY_SECONDS = 1.0
# A server that is alive gets all the time it needs; this only ends a hang.
_MOST_SECONDS = 900.0
_LAST_LINES = 12
# Of every server that is started here: nothing is sent home, and errors are written down.
SERVER_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
}


class PrefectServer:
    """A server that is on its way, or the one that is there already.

    Parameters
    ----------
    process : Popen or None
        The private server; None for one that runs without this command.
    errors : file or None
        What the private server writes to standard error.
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
        # Nobody waited for it, as the command ended before: on bad input, for example.
        if not self._in_use:
            self.stop()

    def wait(self, quiet: bool = False) -> None:
        """Wait until the server answers, and have this process and its children use it.

        Raises
        ------
        StoreError
            If the private server ended, or a server that was named does not answer.
        """
        # Every flow logs to it and it is slow to import: better while the server starts.
        load_mlflow()
        from prefect.settings import PREFECT_API_URL

        process = self._process
        if process is None or PREFECT_API_URL.value():
            # A profile may name a server, which is known only once Prefect is imported.
            self.stop()
            _require_answer()
            return
        self._in_use = True
        self._send(_all_settings())
        address = self._wait_for_address(quiet)
        # It has no pages, so nothing is prepared for them.
        _use({"PREFECT_API_URL": address, "PREFECT_UI_ENABLED": "0"})

    def stop(self) -> None:
        """End a private server."""
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.stop)
        if not self._in_use:
            # It has only imported modules.
            process.kill()
        self._close_input(process)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read_address(self) -> None:
        process = self._process
        if process is not None and process.stdout is not None:
            self._address.put(process.stdout.readline().strip())

    def _send(self, settings: Mapping[str, str]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(settings) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It ended; waiting for its address says why.
            return

    def _wait_for_address(self, quiet: bool) -> str:
        try:
            address = self._address.get(timeout=_SAY_SECONDS)
        except queue.Empty:
            if not quiet:
                typer.echo("Starting Prefect; the first time takes up to a minute", err=True)
            try:
                address = self._address.get(timeout=_MOST_SECONDS)
            except queue.Empty:
                address = ""
        if address:
            return address
        assert self._process is not None
        try:
            state = f"ended with status {self._process.wait(timeout=5)}"
        except subprocess.TimeoutExpired:
            state = "does not answer"
        self.stop()
        raise StoreError(
            f"the Prefect server of this command {state}; set PREFECT_API_URL to the address of a"
            f" server that runs, or mend what it says last:\n{self._last_lines()}"
        )

    def _last_lines(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:]) or "(nothing)"

    @staticmethod
    def _close_input(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.close()
        except BrokenPipeError:
            return


def prefect_is_there() -> bool:
    """Tell whether a server is named, or answers on this machine; that one is used from then on."""
    if "prefect" in sys.modules:
        from prefect.settings import PREFECT_API_URL

        if PREFECT_API_URL.value():
            return True
    if os.environ.get("PREFECT_API_URL"):
        return True
    if not answers(LOCAL_API):
        return False
    typer.echo(f"using the Prefect server at {LOCAL_API.removesuffix('/api')}", err=True)
    _use({"PREFECT_API_URL": LOCAL_API})
    return True


def launch_prefect() -> PrefectServer:
    """Begin to start a private server, unless there is one already; return at once."""
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
        # A terminal sends Ctrl-C to a whole session; the server must outlive the search.
        start_new_session=True,
    )
    return PrefectServer(process, errors)


def start_prefect(quiet: bool = False) -> None:
    """Reach the Prefect server, or start a private one, and wait for it."""
    launch_prefect().wait(quiet)


def prefect_home() -> Path:
    """Folder of the private server's database."""
    return Path(os.environ.get("PREFECT_HOME") or HOME).absolute()


def answers(api: str, timeout: float = 2.0) -> bool:
    """Tell whether a Prefect API on this machine is healthy."""
    host, _, path = api.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", f"/{path}/health")
        answer = connection.getresponse()
        return answer.status == 200 and answer.read().strip() == b"true"
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def lost_prefect(error: Exception) -> StoreError | None:
    """Say in a sentence that the server went away in mid-run, if this is what `error` tells."""
    # No client but Prefect's is built on httpx; where it was never imported it raised nothing.
    httpx = sys.modules.get("httpx")
    if httpx is None or not isinstance(error, httpx.HTTPError):
        return None
    from prefect.settings import PREFECT_API_URL

    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return StoreError(
        f"the Prefect server at {PREFECT_API_URL.value()} went away in mid-run ({reason}); what "
        "was evaluated is in the archive, and the same command, or `swarm resume` with the id "
        "of the run, goes on from there once the server is back or PREFECT_API_URL is unset"
    )


def _own_settings() -> dict[str, str]:
    return {
        **SERVER_SETTINGS,
        "PREFECT_HOME": str(prefect_home()),
        "PREFECT_UI_ENABLED": "0",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    }


def _all_settings() -> dict[str, str]:
    """Give what the environment, files and profiles set, as the server reads none of them again."""
    from prefect.settings import get_current_settings

    given: dict[str, str] = get_current_settings().to_environment_variables(exclude_unset=True)
    return {**given, **_own_settings()}


def _use(variables: Mapping[str, str]) -> None:
    """Set variables for this process, its children, and Prefect if it was imported already."""
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
