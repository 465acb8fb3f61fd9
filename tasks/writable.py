"""Write into a folder before a run depends on it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from swarm.errors import StoreError

__all__ = ["local_folder", "require_writable"]


def require_writable(folder: Path, what: str, remedy: str) -> None:
    """Create `folder` where it is missing, and write a file into it that is gone at once.

    Parameters
    ----------
    folder : Path
    what : str
        What the folder is for, as a sentence says it.
    remedy : str
        What to do where it cannot be written.

    Raises
    ------
    StoreError
        If it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror or type(error).__name__
        raise StoreError(f"cannot write {what} to {str(folder)!r} ({why}); {remedy}") from error


def local_folder(address: str) -> Path | None:
    """Return the folder that an artifact address names on this machine, None for any other."""
    parts = urlparse(address)
    if parts.scheme not in ("", "file"):
        return None
    return Path(url2pathname(parts.path))
