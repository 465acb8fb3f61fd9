"""Deliver SIGINT (Ctrl-C) to the main process only, and not in the middle of a transaction."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def children_ignore_sigint() -> Iterator[None]:
    """Make child processes that are started in this context ignore SIGINT.

    A terminal sends SIGINT to the whole process group. Children inherit the signal mask of the
    thread that starts them; the parent process has to terminate them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # The resource tracker is started first, as that unblocks the signal up to Python 3.13.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Deferral:
    """A handler of SIGINT that stores signals for the `original` handler."""

    def __init__(self, original: Handler) -> None:
        self.original = original
        self._frames: list[FrameType | None] = []

    def __call__(self, _: int, frame: FrameType | None) -> None:
        self._frames.append(frame)

    def deliver(self) -> None:
        """Call the original handler, if a signal has arrived."""
        if self._frames and callable(self.original):
            frame = self._frames.pop()
            self._frames.clear()
            self.original(signal.SIGINT, frame)


@contextmanager
def _sigint_handled_by(handler: Handler) -> Iterator[None]:
    """Replace the handler of SIGINT; only the main thread may."""
    original = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, original)


def _replaceable_handler() -> Handler:
    """Return the handler of SIGINT; None outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return signal.getsignal(signal.SIGINT) if is_main else None


@contextmanager
def sigint_deferred() -> Iterator[None]:
    """Deliver a SIGINT that arrives in this context at its end, if in the main thread.

    If it were blocked, another thread of the process would accept it for the main thread.
    """
    original = _replaceable_handler()
    if original is None:
        yield
        return
    deferral = _Deferral(original)
    try:
        with _sigint_handled_by(deferral):
            yield
    finally:
        deferral.deliver()


@contextmanager
def sigint_delivered() -> Iterator[None]:
    """Deliver SIGINT at once within a context in which it is deferred, also one that waits."""
    deferral = _replaceable_handler()
    if not isinstance(deferral, _Deferral):
        yield
        return
    with _sigint_handled_by(deferral.original):
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
    original = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or "ExecutorManagerThread" not in args.thread.name:
            original(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = original


def within_model_selection() -> bool:
    """Whether scikit-learn's model selection is calling, of whose fits Ctrl-C has to end all."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back
    return False
