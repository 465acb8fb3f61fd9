"""Databases by their URL, with a driver that is installed and a bounded first contact."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import sqlalchemy as sa

__all__ = ["open_engine", "postgres_driver", "with_driver"]

_POSTGRES_DRIVERS = ("psycopg", "psycopg2")
# The system's own patience with a silent address is minutes.
_CONNECT_SECONDS = 15


def open_engine(url: sa.URL, **options: Any) -> sa.Engine:
    """Make an engine; nothing is connected yet.

    Parameters
    ----------
    url : URL
        Any database; PostgreSQL with or without a driver.
    **options
        For :func:`sqlalchemy.create_engine`.

    Raises
    ------
    ImportError
        If the driver is not installed.
    ArgumentError
        If the URL names an unknown one.
    """
    url = with_driver(url)
    if url.get_driver_name() in _POSTGRES_DRIVERS and "connect_timeout" not in url.query:
        options.setdefault("connect_args", {"connect_timeout": _CONNECT_SECONDS})
    return sa.create_engine(url, **options)


def with_driver(url: sa.URL) -> sa.URL:
    """Return the URL with a driver that is installed, where it names PostgreSQL and no driver.

    SQLAlchemy has a driver of its own choice for ``postgresql://``, which differs by its version
    and need not be there. The URL is unchanged where no driver is there at all.
    """
    driver = postgres_driver() if url.drivername == "postgresql" else None
    return url.set(drivername=f"postgresql+{driver}") if driver else url


def postgres_driver() -> str | None:
    """Name a driver for PostgreSQL that is installed."""
    return next((name for name in _POSTGRES_DRIVERS if find_spec(name) is not None), None)
