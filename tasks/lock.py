"""One refresh of a champion at a time, whoever starts it and wherever.

The lock is kept by what every refresh of a champion shares, its archive: a file beside an SQLite
one, an advisory lock of a PostgreSQL server. Both are let go when the process that holds them
ends, however it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock, Timeout

from swarm.errors import StoreError
from swarm.redaction import redact, secrets_of
from swarm.storage.database import open_engine
from tasks.secrets import reason

__all__ = ["champion_lock"]

_POLL_SECONDS = 0.5


@contextmanager
def champion_lock(archive_url: str, name: str, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of the champion `name`.

    Parameters
    ----------
    archive_url : str
        SQLAlchemy URL of the archive.
    name : str
        Name of the champion in the registry.
    wait_seconds : float
        How long to wait for another refresh to end; 0 to decline at once.

    Raises
    ------
    StoreError
        If another refresh holds it for longer, or the store is out of reach.
    """
    url = sa.make_url(archive_url)
    if url.get_backend_name() == "postgresql":
        with _advisory(url, name, wait_seconds):
            yield
        return
    held = FileLock(_beside(url, name))
    try:
        held.acquire(timeout=wait_seconds, poll_interval=_POLL_SECONDS)
    except Timeout:
        raise _taken(name, wait_seconds) from None
    try:
        yield
    finally:
        held.release()


def _beside(url: sa.URL, name: str) -> Path:
    """Where the lock file of an SQLite archive is."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    in_memory = not url.database or url.database == ":memory:"
    if in_memory:
        return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}-{safe}.lock"
    archive = Path(str(url.database)).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive.with_name(f"{archive.name}.{safe}.lock")


@contextmanager
def _advisory(url: sa.URL, name: str, wait_seconds: float) -> Iterator[None]:
    # A key is a signed number of 64 bits.
    digest = hashlib.sha256(f"swarm-champion:{name}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    engine = open_engine(url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    asked, deadline = sa.text("select pg_try_advisory_lock(:key)"), time.monotonic() + wait_seconds
    with contextlib.ExitStack() as held:
        held.callback(engine.dispose)
        try:
            connection = held.enter_context(engine.connect())
            while not connection.execute(asked, {"key": key}).scalar_one():
                if time.monotonic() >= deadline:
                    raise _taken(name, wait_seconds)
                time.sleep(_POLL_SECONDS)
        except sa.exc.DBAPIError as error:
            address = url.render_as_string(hide_password=False)
            told = reason(error.orig or error, secrets_of(address))
            raise StoreError(
                f"cannot lock the champion {name!r} in {redact(address)}: {told}; check the"
                " database"
            ) from None
        # What fails from here on is not the lock's.
        yield


def _taken(name: str, waited: float) -> StoreError:
    after = f" after {waited:g} s" if waited else ""
    return StoreError(
        f"another refresh of {name!r} still runs{after}; start again when it has ended, or set "
        "champion.wait_seconds higher"
    )
