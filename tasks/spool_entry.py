"""One message of the spool as one file: a line of JSON, then the bytes of an artifact if any."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from swarm.errors import StoreError

__all__ = ["Entry", "UnreadableEntry", "checked_path", "read_entry", "unpack", "write_entry"]

FIELDS = {
    "metrics": {"step", "time", "values"},
    "tags": {"values"},
    "artifact": {"path"},
    "status": {"status"},
}


class UnreadableEntry(ValueError):
    """A file among the messages that is none."""


@dataclass(frozen=True)
class Entry:
    """A message: its kind, the run it is for, its fields, and the file whose rest is its bytes."""

    kind: str
    run_id: str
    fields: dict[str, Any]
    path: Path | None = None


def checked_path(path_in_run: str) -> str:
    """Return the path of an artifact; ValueError unless it is relative and stays in the run."""
    path = PurePosixPath(path_in_run)
    if not path.name or path.is_absolute() or ".." in path.parts or "\\" in path_in_run:
        raise ValueError(
            f"path_in_run must be a relative path such as 'epochs/0007.parquet', "
            f"got {path_in_run!r}"
        )
    return str(path)


def write_entry(path: Path, entry: Entry, payload: bytes | Path = b"") -> None:
    """Write a message so that it is there whole or not at all, whenever the process dies.

    Raises
    ------
    StoreError
        If the file cannot be written.
    """
    line = json.dumps({"kind": entry.kind, "run_id": entry.run_id, "fields": entry.fields})
    part = path.with_suffix(".part")
    try:
        with open(part, "wb") as file:
            file.write(line.encode() + b"\n")
            if isinstance(payload, bytes):
                file.write(payload)
            else:
                with open(payload, "rb") as source:
                    shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(
            f"the message for the tracking store cannot be written to {path.parent} ({error}); "
            "free some space or make the folder writable"
        ) from error


def read_entry(path: Path) -> Entry:
    """Read a message without its bytes; UnreadableEntry if the file is not one."""
    with open(path, "rb") as file:
        line = file.readline()
    try:
        found = json.loads(line)
        entry = Entry(found["kind"], found["run_id"], found["fields"], path)
        whole = FIELDS[entry.kind] <= entry.fields.keys()
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise UnreadableEntry(f"the file {path.name} is not a message of the spool")
    return entry


def unpack(entry: Entry, folder: Path) -> Path:
    """Write the bytes of a message that was read into `folder` under the artifact's own name."""
    target = folder / PurePosixPath(entry.fields["path"]).name
    if entry.path is None:
        raise UnreadableEntry("the message was never written to a file")
    with open(entry.path, "rb") as source, open(target, "wb") as file:
        source.readline()
        shutil.copyfileobj(source, file)
    return target
