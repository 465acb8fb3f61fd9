"""What runs have to tell their tracking store: a queue in memory, and a thread that sends it.

A search must not wait for the store, and a store that is away must cost nothing but time: messages
are sent in the order they were put, each until the store has accepted it. The queue ends with its
process. What it still holds then is told again by a resume, which replays the search from the
archive: the archive is the durable copy, not this.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tasks.tracking.store import first_line

__all__ = ["Outbox", "Send", "Unsendable"]

Send = Callable[[Any], None]

_DRAIN_WAIT = 1.0


class Unsendable(ValueError):
    """A message that has nothing to send, however often it is tried."""


class Outbox:
    """An ordered queue of messages for one store, shared by any number of runs.

    Messages are functions of a client. They should refer to what the search keeps anyway instead
    of copying it: then a store that is away for hours costs hardly any memory.

    Parameters
    ----------
    client : mlflow.MlflowClient
    uri : str
        Address of the store, for errors without its secrets.
    first_wait, longest_wait : float
        Seconds before the first and the longest wait between two attempts, doubling in between.

    Attributes
    ----------
    last_error : str or None
        Why the last attempt failed; None after one that succeeded.
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
        # Now, and ever: a drain that starts ends a wait between two attempts.
        self._draining = 0
        self._drains = 0
        self._thread = threading.Thread(target=self._work, name="tracking-outbox", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Messages that the store has not taken."""
        return len(self._queue)

    def put(self, what: str, send: Send) -> None:
        """Add a message to the end of the queue.

        Parameters
        ----------
        what : str
            Names it where the store refuses it.
        send : callable
            Given the client; must do no harm when it is called again after it failed.
        """
        with self._changed:
            self._queue.append((what, send))
            self._changed.notify_all()

    def drain(self, patience: float) -> int:
        """Wait until everything is sent, or nothing was for so many seconds.

        Returns
        -------
        left : int
            Messages that still wait.
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
        """Drain, then stop sending; return how many messages are lost from here."""
        left = self.drain(patience)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        # A call that hangs is left alone: the thread is a daemon.
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
                    "The tracking store will not take %s (%s); it is left out.",
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
                # While somebody drains, every second counts.
                ceiling = min(_DRAIN_WAIT, wait) if self._draining else wait
                left = min(deadline - time.monotonic(), ceiling)
                if left <= 0 or not self._changed.wait(left):
                    return

    def _report(self, error: Exception) -> None:
        first = self.last_error is None
        self.last_error = first_line(error, self._uri)
        if first:
            logging.getLogger(__name__).warning(
                "The tracking store does not answer (%s); the search goes on and %d messages wait.",
                self.last_error,
                len(self._queue),
            )

    def _recovered(self) -> None:
        if self.last_error is not None:
            logging.getLogger(__name__).info("The tracking store answers again.")
        self.last_error = None


def _is_refusal(error: Exception) -> bool:
    """Return whether sending the same message again can only fail again."""
    # Any other ValueError may come from half an answer of a server that is going down.
    if isinstance(error, Unsendable):
        return True
    return getattr(error, "error_code", None) in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
