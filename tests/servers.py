"""Functions for the servers of tests: free ports, and waiting for an answer or an end."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from urllib.request import urlopen

import psutil


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def happens(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Return whether a condition becomes true within some seconds."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(every)
    return condition()


def answers_soon(address: str, server: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    """Wait until the address of a server answers."""

    def answers() -> bool:
        assert server.poll() is None, "the server ended"
        try:
            with urlopen(address, timeout=5):
                return True
        except OSError:
            return False

    assert happens(answers, seconds), f"no answer in {seconds:.0f} s"


def is_gone(process: psutil.Process) -> bool:
    """Return whether a process has ended."""
    try:
        # A zombie has ended; its parent has not waited for it yet.
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
