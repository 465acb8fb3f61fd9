"""Ctrl-C reaches the process a person looks at, not its helpers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["deaf_children", "quiet_pool"]


@contextmanager
def deaf_children() -> Iterator[None]:
    """Start child processes that a Ctrl-C does not reach.

    A terminal sends it to the whole process group: workers would die with a traceback each,
    and a server in mid-answer. Children inherit the signal mask of the thread that starts
    them, and whoever started them ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # Up to Python 3.13 its first start unblocks the signal, so it has to be running before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def quiet_pool() -> Iterator[None]:
    """Keep the pool's own thread from printing a traceback when an interrupt ends its work.

    Loky's manager may be handing out a task at the moment its tasks are taken away; it ends
    as it should, but not silently.
    """
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or "ExecutorManagerThread" not in args.thread.name:
            before(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
