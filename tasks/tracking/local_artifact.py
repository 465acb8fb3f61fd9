"""Read a text artifact of a run from an SQLite store and a local folder, without MLflow.

Importing MLflow takes two seconds of processor time, and opening its store another one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from tasks.secrets import expand
from tasks.tracking.store import is_sqlite, local_folder, resolve, sqlite_file

__all__ = ["local_artifact"]

_TIMEOUT_SECONDS = 15.0


def local_artifact(uri: str, run_id: str, path: str) -> str | None:
    """Return the text of an artifact, or None if only MLflow can read it or say what is wrong.

    Parameters
    ----------
    uri : str
        Address of the tracking store, see :func:`tasks.tracking.open_tracking`.
    run_id, path : str

    Raises
    ------
    InputError
        If the address is a plain folder.
    """
    address = resolve(expand(uri, "address of the tracking store"))
    file = Path(unquote(str(sqlite_file(address))))
    if not is_sqlite(address) or not file.exists():
        return None
    try:
        opened = sqlite3.connect(f"{file.as_uri()}?mode=ro", timeout=_TIMEOUT_SECONDS, uri=True)
        with closing(opened) as store:
            found = store.execute(
                "SELECT artifact_uri FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'",
                (run_id,),
            ).fetchone()
        folder = None if found is None else local_folder(found[0])
        return None if folder is None else (folder / path).read_text(encoding="utf-8")
    except (sqlite3.Error, OSError):
        return None
