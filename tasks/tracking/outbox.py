"""Outbox for a tracking store: what it has not accepted yet, and the thread that sends it.

A search must not wait for the store. Each new message starts an attempt to send all in order, which
ends at the first failure. The outbox is lost when its process ends; a resume, which replays the
search from the archive, logs again what the store lacks. The archive is the durable copy.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tasks.tracking.store import first_line

_LOGGER = logging.getLogger(__name__)
_AWAY = "The tracking store is not responding (%s); the search continues."
_REFUSED = "The tracking store refused %s (%s); it is skipped."
# A retry would fail too. A ValueError may come from a truncated response of a server that ends.
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_PAUSE_SECONDS = 1.0


class Message(NamedTuple):
    """A write that the store has not accepted yet."""

    owner: Any  # the log of its run
    what: str  # its name in warnings
    send: Callable[[], None]  # called again after a failure


class Outbox:
    """Messages for one store in order, of any number of runs.

    Messages should refer to data that the search keeps anyway instead of copying it. The first
    failure is a warning; `error` is the latest one.
    """

    def __init__(self, uri: str) -> None:
        self.error = ""
        self._uri = uri
        self._messages: deque[Message] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, message: Message) -> None:
        """Add a message, and try to send all."""
        self._messages.append(message)
        self._start()

    def flush(self, patience: float) -> list[Message]:
        """Send all messages; return those left after none was accepted for `patience` seconds."""
        left, deadline = len(self._messages), time.monotonic() + patience
        while self._messages and time.monotonic() < deadline:
            thread = self._start()
            thread.join(_PAUSE_SECONDS)
            if len(self._messages) < left:
                left, deadline = len(self._messages), time.monotonic() + patience
            elif not thread.is_alive():
                time.sleep(_PAUSE_SECONDS)
        return list(self._messages)

    def close(self, patience: float) -> list[Message]:
        """Send all messages, then drop and return those that are left."""
        left = self.flush(patience)
        self._messages.clear()
        return left

    def _start(self) -> threading.Thread:
        """Return the thread that sends, a new one if there is none."""
        with self._lock:
            if self._thread is None:
                # A call that hangs must not keep the process alive.
                thread = threading.Thread(target=self._send, name="outbox", daemon=True)
                thread.start()
                self._thread = thread
            return self._thread

    def _send(self) -> None:
        """Send all messages; end at the first failure that may pass."""
        with self._lock:
            # Ctrl-C may have interrupted `_start` between the start of this thread and its note.
            if self._thread is None:
                self._thread = threading.current_thread()
            if self._thread is not threading.current_thread():
                return
        while (message := self._next()) is not None:
            try:
                message.send()
            except Exception as error:
                line = first_line(error, self._uri)
                if getattr(error, "error_code", "") not in _REFUSALS:
                    if not self.error:
                        _LOGGER.warning(_AWAY, line)
                    self.error = line
                    with self._lock:
                        self._thread = None
                    return
                _LOGGER.warning(_REFUSED, message.what, line)
            # There is none if the outbox was closed meanwhile.
            with contextlib.suppress(IndexError):
                self._messages.popleft()

    def _next(self) -> Message | None:
        """Return the first message, or None and end the thread."""
        with self._lock:
            if not self._messages:
                self._thread = None
            return self._messages[0] if self._messages else None
