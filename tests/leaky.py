"""A database behind a password, whose driver quotes that password whenever it fails."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


class LeakyDialect(SQLiteDialect_pysqlite):
    """SQLite that asks for a password, which has to be the value of an environment variable.

    A file called ``down`` is a server that is away.
    """

    driver = "leaky"
    supports_statement_cache = True

    def create_connect_args(self, url: sa.URL) -> Any:
        return [url.database], {"password": url.password, "check_same_thread": False}

    def connect(self, *args: Any, **options: Any) -> Any:
        password = options.pop("password")
        if str(args[0]).endswith("down") or password not in os.environ.values():
            raise sqlite3.OperationalError(f"login of ann with {password} failed")
        options.pop("timeout", None)
        return sqlite3.connect(str(args[0]), timeout=60, **options)


def register() -> None:
    """Make ``sqlite+leaky://`` known to SQLAlchemy."""
    registry.register("sqlite.leaky", __name__, "LeakyDialect")


def address(file: object, variable: str) -> str:
    """Return the URL of a database file whose password is in an environment variable."""
    return f"sqlite+leaky://ann:${{{variable}}}@h/{file}"
