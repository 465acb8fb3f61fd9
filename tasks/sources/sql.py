"""The rows of a SELECT, from SQLite or PostgreSQL.

Nothing here parses SQL. SQLite opens its file to read, and its driver sends one statement, which an
authorizer keeps from changing that. PostgreSQL gets the query as a value and opens a cursor for it
in a read-only transaction: it refuses anything but one statement that returns rows, whatever the
driver would send.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd

from swarm.errors import DataError, StoreError, SwarmError
from swarm.storage.database import open_engine
from tasks.secrets import expand, reason
from tasks.sources.raw import Raw, large_numbers

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, CursorResult

# Plans of a cursor favour its first rows, unless all of them will be fetched.
_SET_QUERY = """
SELECT set_config('swarm.query', :query, true), set_config('cursor_tuple_fraction', '1', true)
"""
_OPEN_CURSOR = """
DO $$
DECLARE swarm_rows refcursor := 'swarm_rows';
BEGIN OPEN swarm_rows FOR EXECUTE current_setting('swarm.query'); END $$
"""


def read_sql(url: str, query: str) -> Raw:
    """Run `query`, which may only read, and return its rows.

    The password appears in no message and no traceback.
    """
    address = _parse(url)
    # The query part may contain passwords too, under names that depend on the driver.
    shown = address.set(query={}).render_as_string(hide_password=True)
    _refuse_missing_sqlite_file(address)
    rows = _select(address, query, shown)
    if isinstance(rows, SwarmError):
        raise rows
    frame, texts = rows
    stem = Path(address.database).stem if address.database else ""
    name = stem.strip(":") or "query"
    return Raw(name=name, source=f"sql:{shown}", frame=frame, as_text=texts)


def _parse(text: str) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    expanded = expand(text.strip(), "database URL")
    try:
        address = make_url(expanded)
    except (ArgumentError, ValueError):
        address = None
    # The messages must not quote the URL: what cannot be parsed cannot be redacted.
    if address is None:
        raise DataError(
            "cannot parse the database URL; write it as dialect://user:${PASSWORD}@host/database"
        )
    if "@" in (address.host or ""):
        raise DataError(
            "the user or password in the database URL contains an '@'; "
            "put the password in an environment variable and write ${VARIABLE} in its place"
        )
    return address


def _refuse_missing_sqlite_file(address: URL) -> None:
    """Refuse a missing SQLite file, which SQLite would create."""
    file = address.database
    if address.get_backend_name() != "sqlite" or not file or file.startswith((":", "file:")):
        return
    if not Path(file).is_file():
        raise DataError(f"cannot reach the database: there is no file {file!r}; check the URL")


def _select(
    address: URL, query: str, shown: str
) -> tuple[pd.DataFrame, tuple[str, ...]] | SwarmError:
    """Return the rows, or an error without its cause, whose message may contain a password."""
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool

    secrets = _secrets(address)
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        return DataError(
            f"data.source 'sql' reads SQLite and PostgreSQL, got {address.drivername!r}, where"
            " writes cannot be ruled out; export the rows to a Parquet file and read that"
        )
    try:
        engine = open_engine(_read_only(address), poolclass=NullPool, hide_parameters=True)
    except NoSuchModuleError:
        return DataError(
            f"unknown driver {address.drivername!r} in the database URL; write sqlite, postgresql"
            " or postgresql+psycopg"
        )
    except ImportError as error:
        missing = reason(error, secrets)
        return DataError(f"the driver for {shown!r} is not installed ({missing}); install it")
    except Exception as error:
        return DataError(f"cannot use {shown!r}: {reason(error, secrets)}; check the URL")
    try:
        connection = engine.connect()
    except Exception as error:
        why = reason(getattr(error, "orig", None) or error, secrets)
        # A deployed flow tries again after a StoreError.
        return StoreError(
            f"cannot reach the database {shown!r}: {why}; check the URL and the server"
        )
    try:
        with connection:
            return _rows(connection, query)
    except Exception as error:
        why = reason(getattr(error, "orig", None) or error, secrets)
        return DataError(
            f"the query on {shown!r} failed: {why}; correct the query, which must be one SELECT"
        )
    finally:
        engine.dispose()


def _read_only(address: URL) -> URL:
    """Return the URL that opens an SQLite file read-only."""
    file = address.database
    is_plain = address.drivername in ("sqlite", "sqlite+pysqlite")
    if not is_plain or not file or file.startswith(":"):
        return address
    uri = file if file.startswith("file:") else Path(file).expanduser().absolute().as_uri()
    return address.set(database=uri).update_query_dict({"mode": "ro", "uri": "true"})


def _rows(connection: Connection, query: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of one statement, which the database lets read only; see :func:`_frame`."""
    from sqlalchemy import text

    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
        driver: Any = connection.connection.driver_connection
        driver.set_authorizer(_authorize)
        return _frame(connection.exec_driver_sql(query))
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    connection.execute(text(_SET_QUERY), {"query": query})
    connection.exec_driver_sql(_OPEN_CURSOR)
    return _frame(connection.exec_driver_sql("FETCH ALL FROM swarm_rows"))


def _frame(result: CursorResult[Any]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return rows, and the columns of long whole numbers, as text beside missing values."""
    names = list(result.keys())
    rows = [tuple(row) for row in result.fetchall()]
    frame = pd.DataFrame.from_records(rows, columns=names, coerce_float=True)
    texts = []
    for name in large_numbers(frame):
        values = pd.Series([row[names.index(name)] for row in rows], dtype=object)
        if values.map(lambda value: value is None or isinstance(value, int)).all():
            frame[name] = values.map(str, na_action="ignore").astype(str)
            texts.append(name)
    return frame, tuple(texts)


def _authorize(action: int, _name: str | None, value: str | None, *_: object) -> int:
    """Refuse what a read-only connection allows: to make it writable, and to create other files."""
    sets_pragma = action == sqlite3.SQLITE_PRAGMA and value is not None
    loads_extension = action == sqlite3.SQLITE_FUNCTION and value == "load_extension"
    if action == sqlite3.SQLITE_ATTACH or sets_pragma or loads_extension:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _secrets(address: URL) -> list[str]:
    secrets = [str(address.password)] if address.password else []
    for key, value in address.query.items():
        if re.search(r"pass|pwd|secret|token|key|credential|connect", key, re.IGNORECASE):
            secrets += [value] if isinstance(value, str) else list(value)
    return secrets + [quote(secret, safe="") for secret in secrets]
