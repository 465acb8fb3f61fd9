"""A process that has imported everything and starts `swarm` commands by forking itself.

Importing takes far longer than the small runs of the fault tests, which start a dozen of them.
Each command leads a process group, as a command does that a shell starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.servers import happens, is_gone

_PRELOADED = (
    "conf.check, conf.load, flows.cli, flows.select, flows.display.summary, lightgbm, "
    "matplotlib.figure, mlflow.pyfunc, mlflow.store.tracking.sqlalchemy_store, "
    "prefect.client.orchestration, "
    "sklearn.model_selection, skops.io"
)
_SERVE = """
import json, os, signal, sys
from tasks.tracking.store import load_mlflow
load_mlflow()
import {preloaded}
{prelude}

def run(job):
    os.setsid()
    for number, path in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    # A command in the foreground of a shell has the default handler of SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["swarm", *job["arguments"]]
    flows.cli.main()

print("ready", flush=True)
for line in sys.stdin:
    job = json.loads(line)
    if "poll" in job:
        pid, status = os.waitpid(job["poll"], os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        run(job)
        sys.exit(0)
    print(pid, flush=True)
"""


class WarmSwarm:
    """A context that starts commands, whose output goes to a folder.

    The prelude runs once everything is imported.
    """

    def __init__(self, folder: Path, env: dict[str, str], prelude: str = "") -> None:
        self._folder = folder
        self._number = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(preloaded=_PRELOADED, prelude=prelude)],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> WarmSwarm:
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, *arguments: str) -> Command:
        """Start ``swarm`` with these arguments."""
        self._number += 1
        out = self._folder / f"{self._number}.out"
        err = self._folder / f"{self._number}.err"
        pid = self.ask({"arguments": arguments, "out": str(out), "err": str(err)})
        return Command(self, pid, out, err)

    def ask(self, job: dict[str, Any]) -> Any:
        """Hand a job over and wait for the answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass
class Command:
    """A `swarm` command that was started.

    `pid` is the id of the process and of its group; `status` is negative for a signal, and None
    while the command runs.
    """

    warm: WarmSwarm
    pid: int
    out: Path
    err: Path
    status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self.status is None:
            self.status = self.warm.ask({"poll": self.pid})
        return self.status

    def wait(self, seconds: float = 600.0) -> int:
        """Wait for the end and return the exit status."""
        if not happens(lambda: self.poll() is not None, seconds):
            self.signal(signal.SIGKILL)
            raise TimeoutError(f"swarm ran longer than {seconds} s: {self.said()}")
        assert self.status is not None
        return self.status

    def wait_for(self, text: str) -> None:
        """Wait until standard error has `text`."""
        assert happens(lambda: text in self.said() or self.poll() is not None, 600, 0.01)
        assert text in self.said(), f"swarm ended before it said {text!r}: {self.said()}"

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group, as a terminal does."""
        os.killpg(self.pid, number)

    def said(self) -> str:
        """Return standard error so far."""
        return self.err.read_text(encoding="utf-8") if self.err.exists() else ""

    def family(self) -> dict[int, str]:
        """Return the command line of every living process of the group, by process id."""
        lines = {}
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getpgid(process.pid) == self.pid and not is_gone(process):
                    lines[process.pid] = " ".join(process.cmdline())
        return lines

    def left(self) -> dict[int, str]:
        """Return what is left of the group once its helpers have had time to notice the end."""
        happens(lambda: not self.family(), 120)
        return self.family()

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return [pid for pid, line in self.family().items() if "popen_loky" in line]
