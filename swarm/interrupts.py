"""Deliver SIGINT (Ctrl-C) to the main process only, and not in the middle of a transaction."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any


@contextmanager
def children_ignore_sigint() -> Iterator[None]:
    """Make child processes that are started in this context ignore SIGINT.

    A terminal sends it to the whole process group. Children inherit the signal mask of the thread
    that starts them; the parent process has to terminate them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # Up to Python 3.13, starting the resource tracker unblocks the signal, so start it first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Deferral:
    """A handler of SIGINT that notes it for the handler `before`."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self._arrived: list[FrameType | None] = []

    def __call__(self, _: int, frame: FrameType | None) -> None:
        self._arrived.append(frame)

    def deliver(self) -> None:
        """Call the handler before, if a signal has arrived."""
        if self._arrived and callable(self.before):
            frame = self._arrived.pop()
            self._arrived.clear()
            self.before(signal.SIGINT, frame)


@contextmanager
def _sigint_handled_by(handler: Any) -> Iterator[None]:
    """Replace the handler of SIGINT; only the main thread may."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _replaceable_handler() -> Any:
    """Return the handler of SIGINT; None outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return signal.getsignal(signal.SIGINT) if is_main else None


@contextmanager
def sigint_deferred() -> Iterator[None]:
    """Deliver a SIGINT that arrives in this context at its end, if in the main thread.

    If it were blocked, another thread of the process would accept it for the main thread.
    """
    before = _replaceable_handler()
    if before is None:
        yield
        return
    deferral = _Deferral(before)
    try:
        with _sigint_handled_by(deferral):
            yield
    finally:
        deferral.deliver()


@contextmanager
def sigint_delivered() -> Iterator[None]:
    """Deliver SIGINT at once within a context in which it is deferred; one that waits, first."""
    deferral = _replaceable_handler()
    if not isinstance(deferral, _Deferral):
        yield
        return
    with _sigint_handled_by(deferral.before):
        deferral.deliver()
        yield


def sigint_ignored() -> AbstractContextManager[None]:
    """Ignore a SIGINT that arrives in this context, if in the main thread."""
    return nullcontext() if _replaceable_handler() is None else _sigint_handled_by(signal.SIG_IGN)


@contextmanager
def silence_pool_thread() -> Iterator[None]:
    """Suppress the traceback of loky's executor manager thread when its tasks are cancelled.

    It may be dispatching a task at that moment, but ends correctly.
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


def within_model_selection() -> bool:
    """Whether scikit-learn's model selection is calling: one fit of many, to end with them all."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back
    return False
