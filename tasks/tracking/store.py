"""Tracking store addresses: redaction of secrets, connection timeout, error messages."""

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlparse
from urllib.request import url2pathname

from swarm.errors import InputError, StoreError
from swarm.redaction import cause_without_secrets, redact, secrets_of
from swarm.storage.database import postgres_driver
from tasks.secrets import reason

T = TypeVar("T")

_MAX_MESSAGE_LENGTH = 200
_REMEDY = "check that it runs and that the address is right"

# MLflow reads these at every request. Its own retries would take minutes; a run log tries again.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_UV_AUTO_DETECT": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def load_mlflow() -> ModuleType:
    """Import MLflow without telemetry and without its progress output.

    Environment variables set by the user are not changed.
    """
    is_level_set = "MLFLOW_LOGGING_LEVEL" in os.environ
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow

    logger = logging.getLogger("mlflow")
    if not is_level_set and logger.level < logging.WARNING:
        logger.setLevel(logging.WARNING)
    # These quote the driver, which may quote the password; `store_errors` reports without it.
    for name in ("mlflow.store.db.utils", "mlflow.system_metrics"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # urllib3 warns at every retry; a run log warns once.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    return mlflow


def first_line(error: BaseException, uri: str = "") -> str:
    """Return the first line of an error message, without the secrets in `uri` or any address."""
    line = redact(reason(error, secrets_of(uri)))
    if len(line) <= _MAX_MESSAGE_LENGTH:
        return line
    return line[:_MAX_MESSAGE_LENGTH].rstrip() + "..."


def is_sqlite(uri: str) -> bool:
    """Return whether the store is an SQLite file."""
    return uri.startswith("sqlite:")


def is_database(uri: str) -> bool:
    """Return whether MLflow uses the store as a database, without a server."""
    return uri.startswith(("sqlite", "postgresql", "mysql", "mssql"))


def sqlite_file(uri: str) -> Path:
    """Return the path of the SQLite file of a store."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def resolve(uri: str) -> str:
    """Complete the address of a store: absolute path for SQLite, driver for PostgreSQL.

    InputError for a plain folder, a database in memory, or no address at all.
    """
    if not uri or "://" not in uri or uri.startswith("file:"):
        # `redact` needs a scheme; in an address without one, user and password end at the last @.
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
    address = f"sqlite:///{Path(path).expanduser().absolute()}"
    return f"{address}?{query}" if query else address


def contact(uri: str) -> None:
    """Connect to a database once, or raise any error: MLflow itself would try for a minute."""
    import sqlalchemy as sa

    engine = sa.create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("PRAGMA schema_version" if is_sqlite(uri) else "SELECT 1"))
    finally:
        engine.dispose()


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of `call`, or raise TimeoutError after `seconds`."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    # A driver that hangs in a daemon thread does not keep the process alive.
    threading.Thread(target=work, name="tracking-contact", daemon=True).start()
    return future.result(timeout=seconds)


class Uninterrupted:
    """A client of MLflow whose calls no signal interrupts: an SQLite file would remain locked.

    Signals are handled in the main thread, so the calls run in another one. The handler of SIGTERM
    cannot be replaced, because Prefect takes its absence for a run that cannot be cancelled.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            # Leaving the context waits for the call, also after an exception.
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(method, *args, **kwargs).result()

        return call


@contextlib.contextmanager
def store_errors(uri: str, doing: str) -> Iterator[None]:
    """Convert errors of a store into StoreError with a one-sentence message."""
    try:
        yield
    except (InputError, StoreError):
        raise
    except TimeoutError:
        raise StoreError(
            f"the tracking store {redact(uri)} timed out while trying to {doing}; {_REMEDY}"
        ) from None
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the tracking store {redact(uri)} needs the package {error.name!r}; install it"
        ) from error
    except Exception as error:
        raise StoreError(
            f"the tracking store {redact(uri)} failed to {doing} ({first_line(error, uri)}); "
            f"{_REMEDY}"
        ) from cause_without_secrets(error, secrets_of(uri))


def require_writable(address: str | None, what: str, remedy: str) -> None:
    """Create a local folder if it is missing and write a temporary file, or raise StoreError.

    MLflow itself would retry for minutes. Nothing is done for a remote address.
    """
    folder = None if address is None else local_folder(address)
    if folder is None:
        return
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
    return Path(url2pathname(parts.path)) if parts.scheme in ("", "file") else None
