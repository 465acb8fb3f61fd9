"""Create database engines, with an installed driver and a connection timeout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

# SQLAlchemy is slow to import, and every command looks the drivers up.
if TYPE_CHECKING:
    import sqlalchemy as sa

_POSTGRES_DRIVERS = ("psycopg", "psycopg2")
# The operating system's own timeout is minutes.
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
    if url.drivername != "postgresql":
        return url
    # SQLAlchemy's default driver depends on its version and may not be installed.
    driver = postgres_driver()
    return url if driver is None else url.set(drivername=f"postgresql+{driver}")


def postgres_driver() -> str | None:
    """Return the name of an installed PostgreSQL driver, or None."""
    return next((name for name in _POSTGRES_DRIVERS if find_spec(name) is not None), None)
