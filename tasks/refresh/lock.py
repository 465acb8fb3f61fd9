"""Locks that allow one refresh of a champion and one process per run at a time, on any machine.

All refreshes of a champion, and all processes of a run, share an archive, so the lock belongs to
the archive: a lock file beside an SQLite file, an advisory lock of a PostgreSQL server. Both are
released when the process that holds them ends, even if it is killed; only then a file stays.
"""

import contextlib
import glob
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock, Timeout

from swarm.errors import StoreError
from swarm.redaction import redact, secrets_of
from swarm.storage.database import open_engine
from tasks.secrets import reason


def champion_lock(archive_url: str, name: str) -> AbstractContextManager[None]:
    """Return the lock of the champion `name` of the registry, for one refresh at a time."""
    conflict = StoreError(
        f"another refresh of {name!r} is still running; try again when it has ended"
    )
    return _lock(archive_url, name, f"the champion {name!r}", conflict)


def run_lock(archive_url: str, run_id: str) -> AbstractContextManager[None]:
    """Return the lock of a run, to which two processes would log their steps twice."""
    conflict = StoreError(
        f"another process is working on the run {run_id}; wait until it has ended, or stop it"
    )
    return _lock(archive_url, f"run-{run_id}", f"the run {run_id}", conflict)


@contextmanager
def _lock(archive_url: str, name: str, what: str, conflict: StoreError) -> Iterator[None]:
    """Hold a lock; StoreError if another process does, or the database cannot be reached."""
    url = sa.make_url(archive_url)
    with contextlib.ExitStack() as stack:
        try:
            if url.get_backend_name() == "postgresql":
                _lock_in_database(stack, url, name, conflict)
            else:
                file = _beside(url, name)
                stack.enter_context(FileLock(file).acquire(timeout=0))
                # The file is removed before its release: a process that has opened it meanwhile
                # locks a file that is no longer there.
                stack.callback(file.unlink, missing_ok=True)
        except Timeout:
            raise conflict from None
        except sa.exc.DBAPIError as error:
            address = url.render_as_string(hide_password=False)
            why = reason(error.orig or error, secrets_of(address))
            raise StoreError(
                f"cannot lock {what} in {redact(address)}: {why}; check the database"
            ) from None
        # Errors of the caller are not errors of the lock, hence no `try` around them.
        yield


def remove_free_locks(archive_url: str) -> None:
    """Remove the lock files of an SQLite archive whose holders were killed."""
    url = sa.make_url(archive_url)
    if url.get_backend_name() == "sqlite" and url.database:
        archive = Path(url.database).absolute()
        for file in archive.parent.glob(f"{glob.escape(archive.name)}.*.lock"):
            with contextlib.suppress(Timeout), FileLock(file).acquire(timeout=0):
                file.unlink(missing_ok=True)


def _beside(url: sa.URL, name: str) -> Path:
    """Return the path of the lock file of an SQLite archive."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    if not url.database or url.database == ":memory:":
        return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}-{safe}.lock"
    archive = Path(url.database).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive.with_name(f"{archive.name}.{safe}.lock")


def _lock_in_database(
    stack: contextlib.ExitStack, url: sa.URL, name: str, conflict: StoreError
) -> None:
    engine = open_engine(url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    try_lock = sa.text("select pg_try_advisory_lock(:key)")
    stack.callback(engine.dispose)
    connection = stack.enter_context(engine.connect())
    if not connection.execute(try_lock, {"key": advisory_key(name)}).scalar_one():
        raise conflict


def advisory_key(name: str) -> int:
    """Return the key of an advisory lock, a signed 64-bit integer."""
    digest = hashlib.sha256(f"swarm-lock:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
