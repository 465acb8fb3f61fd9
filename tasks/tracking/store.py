"""Tracking store addresses: redaction of secrets, connection timeout, error messages."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import TypeVar
from urllib.parse import unquote, urlparse
from urllib.request import url2pathname

from swarm.errors import InputError, StoreError
from swarm.redaction import cause_without_secrets, redact, scrub, secrets_of
from swarm.storage.database import postgres_driver
from tasks.secrets import expand

__all__ = [
    "contact",
    "first_line",
    "is_postgres",
    "is_sqlite",
    "load_mlflow",
    "local_artifact",
    "local_folder",
    "redact",
    "require_writable",
    "resolve",
    "sqlite_file",
    "store_errors",
    "within",
]

T = TypeVar("T")

MESSAGE_LENGTH = 200
_SQLITE_SECONDS = 15.0

# MLflow reads these at every request. Its own retries would take minutes, and the outbox retries
# anyway.
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_UV_AUTO_DETECT": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def load_mlflow() -> ModuleType:
    """Import MLflow without telemetry and without its progress output.

    Environment variables set by the user are not changed.
    """
    chosen = "MLFLOW_LOGGING_LEVEL" in os.environ
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow

    logger = logging.getLogger("mlflow")
    if not chosen and logger.level < logging.WARNING:
        logger.setLevel(logging.WARNING)
    # It quotes the driver, which may quote the password; `store_errors` reports without it.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.ERROR)
    # It warns at every retry; the outbox warns once.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    return mlflow


def first_line(error: BaseException, uri: str = "") -> str:
    """Return the first line of an error message, without secrets and final punctuation.

    Removed are the secrets in `uri`, and those in any address within the message.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = redact(scrub(lines[0], secrets_of(uri))).rstrip(". :")
    return line if len(line) <= MESSAGE_LENGTH else line[:MESSAGE_LENGTH].rstrip() + "..."


def is_sqlite(uri: str) -> bool:
    """Return whether the store is an SQLite file."""
    return uri.startswith("sqlite:")


def sqlite_file(uri: str) -> Path:
    """Return the path of the SQLite file of a store."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def is_postgres(uri: str) -> bool:
    """Return whether the store is a PostgreSQL database."""
    return uri.startswith("postgresql")


def resolve(uri: str) -> str:
    """Complete the address of a store: absolute path for SQLite, driver for PostgreSQL.

    Raises
    ------
    InputError
        For a plain folder, a database in memory, or no address at all.
    """
    if not uri or "://" not in uri or uri.startswith("file:"):
        # Without a scheme `redact` finds nothing: user and password end at the last @.
        shown = redact(uri) if "://" in uri else uri.rpartition("@")[2]
        raise InputError(
            f"the tracking address {shown!r} is a plain folder, which MLflow no longer maintains; "
            "use sqlite:///mlruns/mlflow.db, a database or a tracking server"
        )
    if not is_sqlite(uri):
        driver = postgres_driver() if uri.startswith("postgresql:") else None
        if driver:
            uri = uri.replace("postgresql", f"postgresql+{driver}", 1)
        # Redaction finds addresses in text, where a blank would end them.
        return uri.rstrip("/").replace(" ", "%20")
    path, _, query = uri.partition("://")[2].removeprefix("/").partition("?")
    if not path or path == ":memory:":
        raise InputError(
            f"the tracking address {uri!r} is not persistent; name a file as in "
            "sqlite:///mlruns/mlflow.db"
        )
    return f"sqlite:///{Path(path).expanduser().absolute()}" + (f"?{query}" if query else "")


def contact(uri: str, timeout: float) -> None:
    """Connect to the store at the resolved address once, to fail early if it is unavailable.

    Raises
    ------
    Exception
        Any error of the driver or the network.
    """
    if uri.startswith(("http://", "https://")):
        load_mlflow()
        from mlflow.utils.credentials import get_default_host_creds
        from mlflow.utils.rest_utils import http_request

        # Any response is fine: a proxy may not serve this page.
        http_request(  # type: ignore[no-untyped-call]
            get_default_host_creds(uri),  # type: ignore[no-untyped-call]
            "/health",
            "GET",
            max_retries=0,
            timeout=timeout,
            raise_on_status=False,
        )
        return
    if not is_sqlite(uri) and not uri.startswith(("postgresql", "mysql", "mssql", "sqlite+")):
        return
    import sqlalchemy as sa

    engine = sa.create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("PRAGMA schema_version" if is_sqlite(uri) else "SELECT 1"))
    finally:
        engine.dispose()


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of `call`, or raise TimeoutError after `seconds`."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    # A daemon thread, so that a driver that hangs does not keep the process alive.
    threading.Thread(target=work, name="tracking-contact", daemon=True).start()
    return answer.result(timeout=seconds)


@contextlib.contextmanager
def store_errors(uri: str, doing: str) -> Iterator[None]:
    """Convert errors of a store into StoreError with a one-sentence message."""
    try:
        yield
    except (InputError, StoreError):
        raise
    except TimeoutError:
        raise StoreError(
            f"the tracking store {redact(uri)} timed out while trying to {doing}; "
            "check that it runs and that the address is right"
        ) from None
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the tracking store {redact(uri)} needs the package {error.name!r}; install it"
        ) from error
    except Exception as error:
        raise StoreError(
            f"the tracking store {redact(uri)} failed to {doing} ({first_line(error, uri)}); "
            "check that it runs and that the address is right"
        ) from cause_without_secrets(error, secrets_of(uri))


def require_writable(folder: Path, what: str, remedy: str) -> None:
    """Create `folder` if it is missing, and write a temporary file to it.

    Parameters
    ----------
    folder : Path
    what : str
        Content of the folder, for the error message.
    remedy : str
        What to do if it cannot be written, for the error message.

    Raises
    ------
    StoreError
        If the folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror or type(error).__name__
        raise StoreError(f"cannot write {what} to {str(folder)!r} ({why}); {remedy}") from error


def local_folder(address: str) -> Path | None:
    """Return the folder of a local artifact URI, None for a remote one."""
    parts = urlparse(address)
    if parts.scheme not in ("", "file"):
        return None
    return Path(url2pathname(parts.path))


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
        opened = sqlite3.connect(f"{file.as_uri()}?mode=ro", timeout=_SQLITE_SECONDS, uri=True)
        with contextlib.closing(opened) as store:
            found = store.execute(
                "SELECT artifact_uri FROM runs WHERE run_uuid = ? AND lifecycle_stage = 'active'",
                (run_id,),
            ).fetchone()
        folder = None if found is None else local_folder(found[0])
        return None if folder is None else (folder / path).read_text(encoding="utf-8")
    except (sqlite3.Error, OSError):
        return None
