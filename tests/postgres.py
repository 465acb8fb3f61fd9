"""A PostgreSQL server for tests: the one that a variable names, or a temporary one."""

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
    """There is no server here; the message says why."""


@dataclass
class Postgres:
    """A server on which databases may be created.

    Attributes
    ----------
    admin : URL
        The address of an existing database, whose user may create databases.
    databases : list of str
        The names of the databases that were created.
    """

    admin: sa.URL
    databases: list[str] = field(default_factory=list)

    @property
    def password(self) -> str:
        """The password, which must show nowhere."""
        return str(self.admin.password or "")

    def database(self) -> str:
        """Create a database and return its URL, password included."""
        name = f"swarm_test_{secrets.token_hex(6)}"
        self._run(f"CREATE DATABASE {name}")
        self.databases.append(name)
        return self.admin.set(database=name).render_as_string(hide_password=False)

    def without_password(self, url: str, variable: str) -> str:
        """Return the URL with a variable of the environment in place of the password."""
        plain = sa.make_url(url).set(password="PLACE").render_as_string(hide_password=False)
        return plain.replace(":PLACE@", f":${{{variable}}}@")

    def drop(self) -> None:
        """Remove every database that was created, even one that is in use."""
        for name in self.databases:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.databases.clear()

    def _run(self, statement: str) -> None:
        engine = sa.create_engine(self.admin, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(statement))


@contextmanager
def running() -> Iterator[Postgres]:
    """Yield a server, or raise NoPostgres."""
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
    """Return the folder of `initdb` and `postgres`, which Debian keeps out of the search path."""
    initdb = shutil.which("initdb")
    places = [Path(initdb).resolve().parent] if initdb else []
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(versions, key=lambda place: int(place.parent.name), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise NoPostgres(f"no PostgreSQL server is installed, and {VARIABLE} names none")


@contextmanager
def _started(programs: Path, folder: Path) -> Iterator[Postgres]:
    # The password has characters that a URL has to escape.
    password = f"p@:/% {secrets.token_hex(8)}"
    (folder / "password").write_text(password + "\n", encoding="utf-8")
    owner = _owner(folder)
    data = folder / "data"
    log = folder / "log"
    command = [programs / "initdb", "-D", data, "-U", "swarm", "-A", "scram-sha-256", "-E", "UTF8"]
    process = subprocess.run(
        [*command, "--pwfile", folder / "password", "--no-sync", "--locale=C"],
        cwd=folder,
        capture_output=True,
        text=True,
        **owner,
    )
    if process.returncode:
        raise NoPostgres(f"initdb failed: {process.stderr.strip().splitlines()[-1]}")
    port = free_port()
    # The system keeps what was written when a process is killed, so fsync is not needed.
    settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off -c max_connections=200"
    control = [programs / "pg_ctl", "-D", data, "-w", "-t", "240", "-l", log]
    options = {"cwd": folder, "stdout": subprocess.DEVNULL, "start_new_session": True, **owner}
    process = subprocess.run(
        [*control, "start", "-o", f"{settings} -c unix_socket_directories=''"], **options
    )
    if process.returncode:
        raise NoPostgres(f"PostgreSQL did not start: {log.read_text(errors='replace')[-200:]}")
    try:
        yield Postgres(
            sa.URL.create("postgresql+psycopg", "swarm", password, "127.0.0.1", port, "postgres")
        )
    finally:
        # A fast shutdown closes the connections that are still open.
        subprocess.run([*control, "stop", "-m", "fast"], check=True, **options)


def _owner(folder: Path) -> dict[str, Any]:
    """Return the user of the server, who owns its folder: it refuses to run as root."""
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
