"""The process of a run, by which other processes find out whether it was killed."""

import socket
from typing import Any

import psutil

# Tag of an MLflow run and label of a flow run: id, start time and machine of its process.
PROCESS = "swarm.process"


def own_process() -> str:
    """Return the value of :data:`PROCESS` for this process."""
    process = psutil.Process()
    return f"{process.pid} {process.create_time()} {socket.gethostname()}"


def process_of(pid: int, started: float) -> psutil.Process | None:
    """Return the process of this machine that started at a time, or None if it has ended."""
    try:
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - started) < 1.0
        return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def has_ended(mark: str) -> bool:
    """Whether a process of this machine has ended; False for one of another machine."""
    pid, started, host = mark.split(" ", 2) if mark else ("", "", "")
    return host == socket.gethostname() and process_of(int(pid), float(started)) is None


def status_of(run: Any) -> str:
    """Return the status of an MLflow run, ``KILLED`` if its process ended without ending it."""
    killed = run.info.status == "RUNNING" and has_ended(run.data.tags.get(PROCESS, ""))
    return "KILLED" if killed else str(run.info.status)
