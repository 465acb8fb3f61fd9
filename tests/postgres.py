"""A PostgreSQL server for tests: the one that is named, or a temporary one of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.servers import free_port

VARIABLE = "SWARM_TEST_POSTGRES"


class NoPostgres(Exception):
    """Why there is no server here."""


@dataclass
class Postgres:
    """A server on which databases may be created.

    Attributes
    ----------
    admin : URL
        Of a database that is there already; its user may create others.
    """

    admin: sa.URL
    made: list[str] = field(default_factory=list)

    @property
    def password(self) -> str:
        """The one thing that must show nowhere."""
        return str(self.admin.password or "")

    def database(self) -> str:
        """Create a database and return its URL, password included."""
        name = f"swarm_test_{secrets.token_hex(6)}"
        self._run(f"CREATE DATABASE {name}")
        self.made.append(name)
        return self.admin.set(database=name).render_as_string(hide_password=False)

    def without_password(self, url: str, variable: str) -> str:
        """The URL as a configuration holds it: the password is read from the environment."""
        plain = sa.make_url(url).set(password="PLACE").render_as_string(hide_password=False)
        return plain.replace(":PLACE@", f":${{{variable}}}@")

    def drop(self) -> None:
        """Remove every database that was made, whoever is still connected to it."""
        for name in self.made:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.made.clear()

    def _run(self, statement: str) -> None:
        engine = sa.create_engine(self.admin, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(statement))


@contextmanager
def running() -> Iterator[Postgres]:
    """Give a server, or raise NoPostgres."""
    named = os.environ.get(VARIABLE)
    if named:
        url = sa.make_url(named)
        server = Postgres(url.set(drivername="postgresql+psycopg"))
        try:
            yield server
        finally:
            server.drop()
        return
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="swarm-postgres-"))
    try:
        with _started(programs, folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of `initdb` and `postgres`, which Debian keeps out of the search path."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(versions, key=lambda place: int(place.parent.name), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise NoPostgres(f"no PostgreSQL server is installed, and {VARIABLE} names none")


@contextmanager
def _started(programs: Path, folder: Path) -> Iterator[Postgres]:
    # Characters that a URL has to escape.
    password = f"p@:/% {secrets.token_hex(8)}"
    (folder / "password").write_text(password + "\n", encoding="utf-8")
    owner = _owner(folder)
    data, log = folder / "data", folder / "log"
    making = [programs / "initdb", "-D", data, "-U", "swarm", "-A", "scram-sha-256", "-E", "UTF8"]
    made = subprocess.run(
        [*making, "--pwfile", folder / "password", "--no-sync", "--locale=C"],
        cwd=folder,
        capture_output=True,
        text=True,
        **owner,
    )
    if made.returncode:
        raise NoPostgres(f"initdb failed: {made.stderr.strip().splitlines()[-1]}")
    port = free_port()
    # fsync: what is left in the system's hands outlives every kill of ours.
    settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off -c max_connections=200"
    control = [programs / "pg_ctl", "-D", data, "-w", "-t", "240", "-l", log]
    options = {"cwd": folder, "stdout": subprocess.DEVNULL, "start_new_session": True, **owner}
    started = subprocess.run(
        [*control, "start", "-o", f"{settings} -c unix_socket_directories=''"], **options
    )
    if started.returncode:
        raise NoPostgres(f"PostgreSQL did not start: {log.read_text(errors='replace')[-200:]}")
    try:
        yield Postgres(
            sa.URL.create("postgresql+psycopg", "swarm", password, "127.0.0.1", port, "postgres")
        )
    finally:
        # A fast shutdown: whoever is still connected is sent away.
        subprocess.run([*control, "stop", "-m", "fast"], check=True, **options)


def _owner(folder: Path) -> dict[str, Any]:
    """The server refuses to run as root: there its folder, and its processes, are another's."""
    if os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        for place in (folder, *folder.iterdir()):
            os.chown(place, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid}
    raise NoPostgres("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")
