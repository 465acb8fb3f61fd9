"""What a run has to tell its tracking store, kept on disk until the store has taken it.

A search must not wait for the store, and a store that is away must cost nothing but time: each
message is one numbered file, written at once and sent in order by a background thread that
deletes it only after the store accepted it. A message that is sent again after a crash changes
nothing: MLflow keeps one point per metric, step, time and value, and the rest overwrites itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.errors import StoreError
from tasks.run_fields import accepted_key
from tasks.spool_entry import Entry, checked_path
from tasks.spool_queue import SpoolQueue
from tasks.spool_send import is_refusal, send
from tasks.tracking_store import first_line

__all__ = ["Spool"]

DRAIN_WAIT = 1.0


class Spool:
    """A durable, ordered outbox of one run; one process per folder at a time.

    Parameters
    ----------
    folder : Path
        Folder of the waiting messages, created if absent. Those that an earlier process left
        there are sent first.
    tracking : Tracking
        Where they go; only its `client` is used.
    run_id : str
        The run they belong to.
    first_wait, longest_wait : float
        Seconds before the first and the longest wait between two attempts, doubling in between.

    Attributes
    ----------
    last_error : str or None
        Why the last attempt failed; None after one that succeeded.
    refused : Path
        Folder of the messages that the store will never take, such as those of a deleted run.
    """

    def __init__(
        self,
        folder: Path,
        tracking: Any,
        run_id: str,
        *,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
    ) -> None:
        self.last_error: str | None = None
        self._queue = SpoolQueue(folder)
        self.refused = self._queue.refused
        self._changed = self._queue.changed
        self._client = tracking.client
        self._uri = tracking.uri
        self._run_id = run_id
        self._waits = (first_wait, longest_wait)
        self._drains = 0
        self._calls = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="tracking-spool", daemon=True)
        self._thread.start()

    def metrics(
        self, step: int, values: Mapping[str, float | None], timestamp_ms: int | None = None
    ) -> None:
        """Write the metrics of one step; None values are left out, NaN is kept.

        Parameters
        ----------
        step : int
            Step, such as the epoch.
        values : mapping
            Value of each metric.
        timestamp_ms : int, optional
            Milliseconds since 1970; now by default.
        """
        kept = {accepted_key(k): float(v) for k, v in values.items() if v is not None}
        now = int(time.time() * 1000) if timestamp_ms is None else int(timestamp_ms)
        if kept:
            self._add("metrics", {"step": int(step), "time": now, "values": kept})

    def tags(self, tags: Mapping[str, str]) -> None:
        """Write tags of the run."""
        self._add("tags", {"values": {accepted_key(k): str(v) for k, v in tags.items()}})

    def artifact(self, path_in_run: str, data: bytes) -> None:
        """Write `data` as the artifact ``path_in_run``, a relative path such as ``a/b.csv``."""
        self._add("artifact", {"path": checked_path(path_in_run)}, data)

    def artifact_file(self, path_in_run: str, file: Path | str) -> None:
        """Write a copy of `file` as the artifact ``path_in_run``."""
        self._add("artifact", {"path": checked_path(path_in_run)}, Path(file))

    def finish(self, status: str = "FINISHED") -> None:
        """Write that the run ended as ``FINISHED``, ``FAILED`` or ``KILLED``."""
        self._add("status", {"status": status})

    def last_step(self, metric: str) -> int:
        """Return the highest step of a metric among the waiting messages, -1 if none has it."""
        name = accepted_key(metric)
        waiting = [entry.fields for entry in self._queue.entries() if entry.kind == "metrics"]
        return max((fields["step"] for fields in waiting if name in fields["values"]), default=-1)

    def drain(self, timeout: float) -> int:
        """Try to send everything now; return how many messages are still waiting at the end."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._drains += 1
            self._calls += 1
            self._changed.notify_all()
            try:
                while len(self._queue) and not self._stopped:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
            finally:
                self._drains -= 1
            return len(self._queue)

    def close(self, timeout: float) -> int:
        """Drain, then stop sending; return how many messages wait for the next process."""
        left = self.drain(timeout)
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        # A call that hangs is left alone: the thread is a daemon, the message is still on disk.
        self._thread.join(1.0 if left else 5.0)
        return len(self._queue)

    def _add(self, kind: str, fields: dict[str, Any], payload: bytes | Path = b"") -> None:
        self._queue.add(Entry(kind, self._run_id, fields), payload)

    def _work(self) -> None:
        wait = self._waits[0]
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) or self._stopped)
                if self._stopped:
                    return
                calls = self._calls
            try:
                self._send_next()
            except Exception as error:
                self._report(error)
                self._rest(wait, calls)
                wait = min(2 * wait, self._waits[1])
            else:
                self._recovered()
                wait = self._waits[0]

    def _rest(self, wait: float, calls: int) -> None:
        deadline = time.monotonic() + wait
        with self._changed:
            while not self._stopped and self._calls == calls:
                # While somebody drains, every second counts.
                ceiling = min(DRAIN_WAIT, wait) if self._drains else wait
                left = min(deadline - time.monotonic(), ceiling)
                if left <= 0 or not self._changed.wait(left):
                    return

    def _send_next(self) -> None:
        entries = self._queue.head()
        if not entries:
            return
        try:
            send(self._client, entries)
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(entries) == 1:
                self._set_aside(entries[0], error)
                return
            for entry in entries:
                self._send_alone(entry)
        else:
            self._queue.done(entries)

    def _send_alone(self, entry: Entry) -> None:
        """Find out which of several messages the store refuses."""
        try:
            send(self._client, [entry])
        except Exception as error:
            if not is_refusal(error):
                raise
            self._set_aside(entry, error)
        else:
            self._queue.done([entry])

    def _set_aside(self, entry: Entry, error: Exception) -> None:
        if entry.path is not None:
            self._queue.refuse(entry.path, StoreError(first_line(error, self._uri)))

    def _report(self, error: Exception) -> None:
        first = self.last_error is None
        self.last_error = first_line(error, self._uri)
        if first:
            logging.getLogger(__name__).warning(
                "The tracking store does not answer (%s); the search goes on and %d messages "
                "wait in %s.",
                self.last_error,
                len(self._queue),
                self._queue.folder,
            )

    def _recovered(self) -> None:
        if self.last_error is not None:
            logging.getLogger(__name__).info("The tracking store answers again.")
        self.last_error = None
