"""The waiting messages of a run: numbered files in a folder, added at the end, taken in front."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from pathlib import Path
from typing import Any

from tasks.spool_entry import Entry, UnreadableEntry, read_entry, write_entry
from tasks.tracking_store import first_line

__all__ = ["SpoolQueue"]

MAX_METRICS = 1000


class SpoolQueue:
    """A first-in first-out queue that survives its process.

    Parameters
    ----------
    folder : Path
        Folder of the files, created if absent. What is in it already comes first.

    Attributes
    ----------
    changed : threading.Condition
        Held while the queue changes, and notified after.
    refused : Path
        Folder of the messages that were set aside.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.refused = self.folder / "refused"
        self.changed = threading.Condition()
        self.folder.mkdir(parents=True, exist_ok=True)
        for unfinished in self.folder.glob("*.part"):
            unfinished.unlink(missing_ok=True)
        left = _numbered(self.folder)
        used = [*left, *_numbered(self.refused)]
        self._next = 1 + max((int(path.stem) for path in used), default=0)
        self._pending: deque[Path] = deque(left)

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, entry: Entry, payload: bytes | Path = b"") -> None:
        """Write a message to the end of the queue; StoreError if it cannot be written."""
        with self.changed:
            path = self.folder / f"{self._next:010d}.entry"
            write_entry(path, entry, payload)
            self._next += 1
            self._pending.append(path)
            self.changed.notify_all()

    def entries(self) -> list[Entry]:
        """Return every readable message that waits."""
        found = []
        for path in self._snapshot():
            with contextlib.suppress(OSError, UnreadableEntry):
                found.append(read_entry(path))
        return found

    def head(self) -> list[Entry]:
        """Return the first message, with the metrics that follow it if it is metrics itself.

        Files that are gone are forgotten and those that are no messages are set aside, so the
        list is empty only if nothing waits.
        """
        taken: list[Entry] = []
        total = 0
        for path in self._snapshot():
            try:
                entry = read_entry(path)
            except (UnreadableEntry, FileNotFoundError) as error:
                if taken:
                    break
                self._drop(path, error)
                continue
            total += len(entry.fields["values"]) if entry.kind == "metrics" else 0
            joins = entry.kind == "metrics" and (not taken or entry.run_id == taken[0].run_id)
            if taken and (not joins or total > MAX_METRICS):
                break
            taken.append(entry)
            if not joins:
                break
        return taken

    def done(self, entries: list[Entry]) -> None:
        """Delete messages that were sent."""
        paths = [entry.path for entry in entries if entry.path is not None]
        for path in paths:
            path.unlink(missing_ok=True)
        self._forget(paths)

    def refuse(self, path: Path, error: Exception) -> None:
        """Set a message aside that can never be sent."""
        self.refused.mkdir(exist_ok=True)
        path.replace(self.refused / path.name)
        self._forget([path])
        logging.getLogger(__name__).warning(
            "The tracking store will not take one message (%s); it is kept in %s.",
            first_line(error),
            self.refused,
        )

    def _drop(self, path: Path, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):
            self._forget([path])
        else:
            self.refuse(path, error)

    def _snapshot(self) -> list[Path]:
        with self.changed:
            return list(self._pending)

    def _forget(self, paths: list[Any]) -> None:
        with self.changed:
            for path in paths:
                self._pending.remove(path)
            self.changed.notify_all()


def _numbered(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.entry") if path.stem.isdigit())
