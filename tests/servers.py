"""Ports and processes of the servers of tests, and waiting until one answers."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from urllib.request import urlopen

import psutil


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def happens(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Whether a condition, asked for every so many seconds, comes true within some seconds."""
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
    """Whether a process has ended."""
    try:
        # A zombie has ended; whoever adopted it has not looked yet.
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
