"""Create database engines, with an installed driver and a connection timeout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

# Every command looks the drivers up; SQLAlchemy is slow to import.
if TYPE_CHECKING:
    import sqlalchemy as sa

_POSTGRES_DRIVERS = ("psycopg", "psycopg2")
# The default of the operating system is minutes.
_CONNECT_SECONDS = 15


def open_engine(url: sa.URL, **options: Any) -> sa.Engine:
    """Create an unconnected engine; ImportError or ArgumentError if its driver is unusable."""
    from sqlalchemy import create_engine

    url = with_driver(url)
    if url.get_driver_name() in _POSTGRES_DRIVERS and "connect_timeout" not in url.query:
        options.setdefault("connect_args", {"connect_timeout": _CONNECT_SECONDS})
    return create_engine(url, **options)


def with_driver(url: sa.URL) -> sa.URL:
    """Add an installed driver, if any, to a PostgreSQL URL without one."""
    # SQLAlchemy's default depends on its version and may not be installed.
    driver = postgres_driver() if url.drivername == "postgresql" else None
    return url.set(drivername=f"postgresql+{driver}") if driver else url


def postgres_driver() -> str | None:
    """Return the name of an installed PostgreSQL driver, or None."""
    return next((name for name in _POSTGRES_DRIVERS if find_spec(name) is not None), None)
