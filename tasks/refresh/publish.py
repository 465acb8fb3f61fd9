"""Atomic publishing of a features file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.errors import DataError, StoreError
from swarm.redaction import cause_without_secrets, redact, secrets_of
from swarm.storage.features_file import FORMAT, read_published
from tasks.files import write_atomically
from tasks.secrets import reason

__all__ = ["absolute", "publish", "published_version"]


def absolute(location: str) -> str:
    """Return a location that is the same from every folder; URLs and ``${VAR}`` are kept."""
    if "://" in location or "${" in location:
        return location
    return str(Path(location).expanduser().absolute())


def publish(location: str, content: Mapping[str, Any]) -> None:
    """Write a features file atomically: readers find the previous file or the new one.

    Parameters
    ----------
    location : str
        Path or fsspec URL.
    content : mapping
        Content of the file, with the key ``features``.

    Raises
    ------
    StoreError
        If the file cannot be written; the previous one is kept.
    """
    text = json.dumps({"format": FORMAT, **content}, indent=2, ensure_ascii=False) + "\n"
    try:
        if "://" in location and not location.startswith("file://"):
            _remote(location, text)
        else:
            _local(Path(location.removeprefix("file://")).expanduser(), text)
    except Exception as error:  # every fsspec backend has its own exceptions
        secrets = secrets_of(location)
        raise StoreError(
            f"cannot publish to {redact(location)!r} ({reason(error, secrets)}); check"
            " champion.publish"
        ) from cause_without_secrets(error, secrets)


def published_version(location: str) -> str | None:
    """Return the version of the model whose features are published, None if there is none."""
    try:
        return str(read_published(location).get("version"))
    except DataError:
        return None


def _local(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text, 0o644)


def _remote(location: str, text: str) -> None:
    """Write to a temporary object and move it: uploads of some stores are not atomic."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    store, path = fsspec.core.url_to_fs(location)
    if isinstance(store, LocalFileSystem):
        return _local(Path(path), text)
    with contextlib.suppress(Exception):
        store.makedirs(store._parent(path), exist_ok=True)
    aside = f"{path}.new"
    store.pipe_file(aside, text.encode())
    store.mv(aside, path)
