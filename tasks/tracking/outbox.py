"""Outbox for a tracking store: an in-memory queue of messages, and a thread that sends them.

A search must not wait for the store. Messages are sent in order, and each is retried until the
store has accepted it. The queue is lost when its process ends; a resume, which replays the search
from the archive, sends the missing messages again. The archive is the durable copy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tasks.tracking.store import first_line

Send = Callable[[Any], None]

_DRAIN_WAIT = 1.0


class UnsendableMessage(ValueError):
    """The content of a message cannot be created, so it is not retried."""


class Outbox:
    """An ordered queue of messages for one store, shared by any number of runs.

    Messages are functions of a client. They should refer to data that the search keeps anyway
    instead of copying it, so that hours without a connection need little memory.

    Parameters
    ----------
    client : mlflow.MlflowClient
    uri : str
        Address of the store, whose secrets are removed from errors.
    first_wait, longest_wait : float
        Exponential backoff: seconds before the first retry, doubled up to the longest wait.

    Attributes
    ----------
    last_error : str or None
        Error of the last attempt; None if it succeeded.
    closed : bool
    """

    def __init__(
        self, client: Any, uri: str, *, first_wait: float = 0.5, longest_wait: float = 30.0
    ) -> None:
        self.last_error: str | None = None
        self.closed = False
        self._client = client
        self._uri = uri
        self._waits = (first_wait, longest_wait)
        self._queue: deque[tuple[str, Send]] = deque()
        self._changed = threading.Condition()
        # Current and total number of drains: a new drain interrupts the wait before a retry.
        self._draining = 0
        self._drains = 0
        self._thread = threading.Thread(target=self._work, name="tracking-outbox", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of messages that the store has not accepted yet."""
        return len(self._queue)

    def put(self, what: str, send: Send) -> None:
        """Add a message to the end of the queue.

        Parameters
        ----------
        what : str
            Name of the message in warnings.
        send : callable
            Called with the client; must be idempotent, as it is called again after a failure.
        """
        with self._changed:
            self._queue.append((what, send))
            self._changed.notify_all()

    def drain(self, patience: float) -> int:
        """Wait until everything is sent, or no message was sent for `patience` seconds.

        Returns
        -------
        left : int
            Number of messages that are still in the queue.
        """
        with self._changed:
            self._draining += 1
            self._drains += 1
            self._changed.notify_all()
            try:
                left, deadline = len(self._queue), time.monotonic() + patience
                while self._queue and not self.closed:
                    rest = deadline - time.monotonic()
                    if rest <= 0 or not self._changed.wait(rest):
                        break
                    if len(self._queue) < left:
                        left, deadline = len(self._queue), time.monotonic() + patience
            finally:
                self._draining -= 1
            return len(self._queue)

    def close(self, patience: float) -> int:
        """Drain, then stop sending; return the number of unsent messages."""
        left = self.drain(patience)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        # A call that hangs is abandoned: the thread is a daemon.
        self._thread.join(1.0 if left else 5.0)
        return len(self._queue)

    def _work(self) -> None:
        wait, longest = self._waits
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self.closed)
                if self.closed:
                    return
                drains = self._drains
                what, send = self._queue[0]
            try:
                send(self._client)
            except Exception as error:
                if not _is_refusal(error):
                    self._report(error)
                    self._rest(wait, drains)
                    wait = min(2 * wait, longest)
                    continue
                logging.getLogger(__name__).warning(
                    "The tracking store refused %s (%s); it is skipped.",
                    what,
                    first_line(error, self._uri),
                )
            else:
                self._recovered()
            wait = self._waits[0]
            with self._changed:
                self._queue.popleft()
                self._changed.notify_all()

    def _rest(self, wait: float, drains: int) -> None:
        deadline = time.monotonic() + wait
        with self._changed:
            while not self.closed and self._drains == drains:
                # Retry more often while a caller waits in `drain`.
                ceiling = min(_DRAIN_WAIT, wait) if self._draining else wait
                left = min(deadline - time.monotonic(), ceiling)
                if left <= 0 or not self._changed.wait(left):
                    return

    def _report(self, error: Exception) -> None:
        first = self.last_error is None
        self.last_error = first_line(error, self._uri)
        if first:
            logging.getLogger(__name__).warning(
                "The tracking store is not responding (%s); the search continues, with %d messages "
                "queued.",
                self.last_error,
                len(self._queue),
            )

    def _recovered(self) -> None:
        if self.last_error is not None:
            logging.getLogger(__name__).info("The tracking store is responding again.")
        self.last_error = None


def _is_refusal(error: Exception) -> bool:
    """Return whether the store refused the message, so that a retry would fail too."""
    # Any other ValueError may come from a truncated response of a server that is shutting down.
    if isinstance(error, UnsendableMessage):
        return True
    return getattr(error, "error_code", None) in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
