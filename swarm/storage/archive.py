"""The archive: a persistent cache of all evaluations, keyed by problem and mask.

The archive is the only durable state of a search. It is append-only until it is pruned: a mask
that was trained on two folds and later on the other three has two rows, which are merged on
reading. See :mod:`swarm.storage.records` for the contents of a row.

A problem without a name, see :mod:`swarm.problem.description`, is cached in memory until the
archive is closed.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import sqlalchemy as sa

from swarm.arrays import Bool
from swarm.errors import StoreError, as_clause
from swarm.interrupts import sigint_deferred
from swarm.problem.description import Unnamed
from swarm.redaction import cause_without_secrets, redact, scrub, secrets_of
from swarm.storage.database import open_engine
from swarm.storage.records import Record, RecordCache, blank_record, decode, encode, mask_key

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

    from swarm.problem.problem import Problem

_FORMAT = "swarm-archive-3"
_MAX_KEYS_PER_QUERY = 400
# Size of the in-memory cache of final records.
_MAX_CACHED_BYTES = 1 << 26
# The key of an advisory lock on PostgreSQL begins with this number; the other half is the problem.
_LOCK = 0x5A4B
# Timeout for the lock of a SQLite file.
_SQLITE_SECONDS = 60
_META = sa.MetaData()
_ABOUT = sa.Table(
    "archive_about",
    _META,
    sa.Column("format", sa.String(40), primary_key=True),
)
_PROBLEMS = sa.Table(
    "archive_problems",
    _META,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("fingerprint", sa.String(64), unique=True, nullable=False),
    # The times at which it was opened first and last, in seconds since the epoch.
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("used", sa.Float, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
)
_EVALUATIONS = sa.Table(
    "archive_evaluations",
    _META,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("problem", sa.ForeignKey("archive_problems.id"), nullable=False),
    sa.Column("mask", sa.LargeBinary, nullable=False),
    sa.Column("folds", sa.LargeBinary, nullable=False),
    sa.Column("fold_costs", sa.LargeBinary, nullable=False),
    sa.Column("used", sa.LargeBinary, nullable=False),
    sa.Column("importance_folds", sa.LargeBinary, nullable=False),
    sa.Column("importances", sa.LargeBinary, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("problem", "mask", "folds").ddl_if(dialect="sqlite"),
)
# PostgreSQL rejects keys above 2.7 kB, the size of a mask of 21,000 units.
_DIGEST = sa.func.sha256(_EVALUATIONS.c.mask, type_=sa.LargeBinary)
_UNIQUE = sa.Index(
    "archive_evaluations_key",
    _EVALUATIONS.c.problem,
    _DIGEST,
    _EVALUATIONS.c.folds,
    unique=True,
).ddl_if(dialect="postgresql")


def _rows_among(key: sa.ColumnElement[bytes]) -> sa.Select[Any]:
    """Select the rows of a problem with one of many keys, using an index."""
    return (
        sa.select(_EVALUATIONS)
        .where(_EVALUATIONS.c.problem == sa.bindparam("number"))
        .where(key.in_(sa.bindparam("keys", expanding=True)))
        .order_by(_EVALUATIONS.c.id)
    )


_BY_MASK = _rows_among(_EVALUATIONS.c.mask)
_BY_DIGEST = _rows_among(_DIGEST)


class Archive:
    """Persistent cache of evaluations.

    Parameters
    ----------
    url : str
        SQLAlchemy URL of a SQLite or PostgreSQL database. Default: in memory. The evaluations of a
        problem without a name are always in memory.

    Raises
    ------
    StoreError
        If the database is unreachable, or is not an archive.
    """

    def __init__(self, url: str = "sqlite://") -> None:
        try:
            self._url = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            # Both the value and the parser's message may contain a password.
            raise StoreError(
                "the address of the archive is not a database URL; use one such as sqlite:///archive.db"
            ) from None
        self._name = redact(self._url.render_as_string(hide_password=True))
        self._secrets = secrets_of(self._url.render_as_string(hide_password=False))
        if "@" in (self._url.host or ""):
            raise StoreError(
                "the user or password in the address of the archive contains an '@'; "
                "write %40 instead"
            )
        # Problems without a name get a random one, and an archive in memory.
        self._random_names = WeakKeyDictionary["Problem", str]()
        self._memory_archive: Archive | None = None
        self._engine = self._create_engine()
        try:
            self._create()
        except sa.exc.DBAPIError as error:
            raise StoreError(
                f"cannot open the archive {self._name}: {_reason(error, self._secrets)}; "
                "check the address, or name another archive"
            ) from cause_without_secrets(error, self._secrets)
        except StoreError:
            self.close()
            raise

    def open_problem(self, problem: Problem) -> ProblemEvaluations:
        """Return the known evaluations of `problem`; a new problem is added to the archive.

        A problem without a name is cached until the archive is closed, with one UserWarning.
        """
        archive = self._archive_of(problem)
        if archive is not self:
            return archive.open_problem(problem)
        now = time.time()
        about = {
            "rows": len(problem.target),
            "columns": problem.space.n_columns,
            "units": list(problem.space.names),
            "folds": problem.n_folds,
            "estimator": type(problem.estimator).__name__,
            "scoring": problem.scoring.name,
            "importance": problem.importance,
        }
        row = {
            "fingerprint": self.fingerprint(problem),
            "created": now,
            "used": now,
            "about": json.dumps(about),
        }
        insert = self._insert(_PROBLEMS)
        upsert = insert.on_conflict_do_update(index_elements=["fingerprint"], set_={"used": now})
        with self._connected("write to") as connection:
            connection.execute(upsert, row)
            query = sa.select(_PROBLEMS.c.id).where(_PROBLEMS.c.fingerprint == row["fingerprint"])
            number = connection.execute(query).scalar_one()
        return ProblemEvaluations(self, number, problem.n_folds, problem.space.n_units)

    def has_evaluations(self, problem: Problem) -> bool:
        """Whether the archive contains a successful evaluation of `problem`; nothing is written."""
        archive = self._archive_of(problem)
        if archive is not self:
            return archive.has_evaluations(problem)
        query = (
            sa.select(_EVALUATIONS.c.id)
            .join(_PROBLEMS, _PROBLEMS.c.id == _EVALUATIONS.c.problem)
            .where(_PROBLEMS.c.fingerprint == self.fingerprint(problem))
            .where(_EVALUATIONS.c.error.is_(None))
            .limit(1)
        )
        with self._connected("read") as connection:
            return connection.execute(query).first() is not None

    def prune(
        self, is_used: Callable[[float, float], bool], dry_run: bool = False
    ) -> tuple[int, int]:
        """Remove the evaluations of problems that are not used.

        Parameters
        ----------
        is_used : callable
            Called with the times, in seconds since the epoch, at which a problem was opened first
            and last.
        dry_run : bool
            Whether to remove nothing.

        Returns
        -------
        n_evaluations, n_bytes : int
            Number of evaluations removed, and their size.
        """
        arrays = [c for c in _EVALUATIONS.c if isinstance(c.type, sa.LargeBinary)]
        size = sum((sa.func.length(c) for c in arrays), sa.literal(0))
        count = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(size), 0))
        with self._connected("read" if dry_run else "write to") as connection:
            if not dry_run:
                # This locks out other processes: none can open a problem, or write to SQLite.
                connection.execute(sa.update(_ABOUT).values(format=_FORMAT))
            query = sa.select(_PROBLEMS) if dry_run else sa.select(_PROBLEMS).with_for_update()
            problems = connection.execute(query).all()
            unused = [row.id for row in problems if not is_used(row.created, row.used)]
            is_unused = _EVALUATIONS.c.problem.in_(sa.bindparam("ids", unused, expanding=True))
            n_rows, n_bytes = connection.execute(count.where(is_unused)).one()
            if unused and not dry_run:
                connection.execute(sa.delete(_EVALUATIONS).where(is_unused))
                connection.execute(sa.delete(_PROBLEMS).where(_PROBLEMS.c.id.in_(unused)))
        if unused and not dry_run and not self._on_server:
            self._shrink()
        return int(n_rows), int(n_bytes)

    def _shrink(self) -> None:
        """Give the space of deleted rows back, unless another process uses the SQLite file."""
        with suppress(sa.exc.OperationalError), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 1000")
            connection.commit()
            connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM")

    def check(self) -> None:
        """Raise StoreError if the integrity check of a SQLite database fails."""
        if self._url.get_backend_name() != "sqlite":
            return
        with self._connected("check") as connection:
            # SQLite returns a row for each fault, or one with "ok".
            fault = connection.execute(sa.text("PRAGMA integrity_check")).scalars().first()
        if fault != "ok":
            message = " ".join(str(fault).split())
            raise StoreError(f"the archive {self._name} is damaged: {message}; restore a backup")

    def close(self) -> None:
        """Close all connections, and forget the problems without a name."""
        self._engine.dispose()
        if self._memory_archive is not None:
            self._memory_archive.close()
            self._memory_archive = None

    @contextmanager
    def _connected(self, action: str) -> Iterator[sa.Connection]:
        """Open a transaction; errors of the database driver become StoreError."""
        try:
            # SQLAlchemy drops a connection that Ctrl-C interrupts, and a database in memory ends
            # with its connection.
            with sigint_deferred() if self._in_memory else nullcontext():
                open_ = self._engine.begin if action == "write to" else self._engine.connect
                with open_() as connection:
                    yield connection
        except sa.exc.DBAPIError as error:
            raise StoreError(
                f"cannot {action} the archive {self._name}: {_reason(error, self._secrets)}; "
                "free disk space, restore access or restore a backup, then resume"
            ) from cause_without_secrets(error, self._secrets)

    @property
    def _on_server(self) -> bool:
        return self._url.get_backend_name() == "postgresql"

    @property
    def _in_memory(self) -> bool:
        sqlite = self._url.get_backend_name() == "sqlite"
        return sqlite and self._url.database in (None, "", ":memory:")

    def fingerprint(self, problem: Problem) -> str:
        """Return the name of a problem; a random one of this object if it has none."""
        try:
            return problem.fingerprint()
        except Unnamed:
            return self._random_names.setdefault(problem, uuid.uuid4().hex)

    def _archive_of(self, problem: Problem) -> Archive:
        """Return the archive of a problem: this one, or one in memory if nothing may be stored."""
        if self._in_memory:
            return self
        try:
            problem.fingerprint()
        except Unnamed as reason:
            if self._memory_archive is None:
                warnings.warn(str(reason), UserWarning, stacklevel=3)
                self._memory_archive = Archive()
            return self._memory_archive
        return self

    def _create_engine(self) -> sa.Engine:
        backend = self._url.get_backend_name()
        if backend not in ("sqlite", "postgresql"):
            raise StoreError(
                f"the archive {self._name} is on {backend!r}; use SQLite or PostgreSQL"
            )
        if backend == "postgresql":
            return self._create_server_engine()
        if self._in_memory:
            return sa.create_engine(
                self._url,
                poolclass=sa.StaticPool,
                connect_args={"check_same_thread": False},
            )
        file = Path(str(self._url.database)).expanduser()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot create the folder of the archive {self._name}: {error.strerror}; "
                "use a writable location"
            ) from error
        url = self._url.set(database=str(file))
        engine = sa.create_engine(url, connect_args={"timeout": _SQLITE_SECONDS})
        sa.event.listen(engine, "connect", _tune_sqlite)
        return engine

    def _create_server_engine(self) -> sa.Engine:
        try:
            return open_engine(self._url, pool_pre_ping=True)
        except (ImportError, sa.exc.ArgumentError) as error:
            driver = getattr(error, "name", None) or self._url.drivername
            raise StoreError(
                f"the archive {self._name} needs the driver {driver!r}, which is not installed; "
                "install it with pip"
            ) from error

    def _create(self) -> None:
        with self._engine.begin() as connection:
            tables = set(sa.inspect(connection).get_table_names())
        if tables and _ABOUT.name not in tables:
            raise StoreError(
                f"the database {self._name} is not an archive "
                f"(it has the table {min(tables)!r}); name another archive"
            )
        if self._url.get_backend_name() == "sqlite":
            # The mode is written into the file, which therefore has to be an archive.
            self._write_ahead()
        with self._engine.begin() as connection:
            if self._on_server:
                # Concurrent processes can collide on PostgreSQL despite IF NOT EXISTS.
                self._lock(connection, 0)
            for table in _META.sorted_tables:
                connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
                if self._on_server and table is _EVALUATIONS:
                    connection.execute(sa.schema.CreateIndex(_UNIQUE, if_not_exists=True))
        with self._engine.begin() as connection:
            insert = self._insert(_ABOUT).on_conflict_do_nothing()
            connection.execute(insert, {"format": _FORMAT})
            formats = set(connection.execute(sa.select(_ABOUT.c.format)).scalars())
            if formats != {_FORMAT}:
                # The exception rolls the insertion back.
                raise StoreError(
                    f"the archive {self._name} has the format {min(formats - {_FORMAT})!r} of "
                    f"another version, not {_FORMAT!r}; name another archive, or delete this one, "
                    "and its evaluations are repeated"
                )

    def _write_ahead(self) -> None:
        """Use a write-ahead log; SQLite does not wait while another process sets it up."""
        deadline = time.monotonic() + _SQLITE_SECONDS
        while True:
            try:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
            except sa.exc.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _lock(self, connection: sa.Connection, problem: int) -> None:
        """Lock a problem for writing until the transaction ends; PostgreSQL only."""
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, problem)))

    def _insert(self, table: sa.Table) -> Any:
        """Return the INSERT of the dialect, which has a clause for existing rows."""
        from sqlalchemy.dialects import postgresql, sqlite

        insert = postgresql.insert if self._on_server else sqlite.insert
        return insert(table)


class ProblemEvaluations:
    """The evaluations of one problem in an archive, see :meth:`Archive.open_problem`."""

    def __init__(self, archive: Archive, number: int, n_folds: int, n_units: int) -> None:
        self._archive = archive
        self._number = number
        self.n_folds = n_folds
        self.n_units = n_units
        self._cache = RecordCache(_MAX_CACHED_BYTES)

    def lookup(self, masks: Bool) -> list[Record]:
        """Return the read-only record of each mask (n, n_units), some without results."""
        keys = [mask_key(mask) for mask in masks]
        cached = {key: self._cache.get(key) for key in keys}
        records = {key: record for key, record in cached.items() if record is not None}
        stored = self._read([key for key, record in cached.items() if record is None])
        for key, record in stored.items():
            if self._is_final(record):
                self._cache.add(key, record)
        records |= stored
        return [
            records.get(key) or blank_record(self.n_folds, int(np.count_nonzero(mask)))
            for key, mask in zip(keys, masks, strict=True)
        ]

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Record]:
        """Return the records of masks, by their keys."""
        records: dict[bytes, Record] = {}
        query = _BY_DIGEST if self._archive._on_server else _BY_MASK
        with self._archive._connected("read") as connection:
            for start in range(0, len(keys), _MAX_KEYS_PER_QUERY):
                chunk = keys[start : start + _MAX_KEYS_PER_QUERY]
                if self._archive._on_server:
                    chunk = [hashlib.sha256(key).digest() for key in chunk]
                for row in connection.execute(query, {"number": self._number, "keys": chunk}):
                    _, record = self._decode(row)
                    earlier = records.get(row.mask)
                    records[row.mask] = record if earlier is None else earlier.merge(record)
        return records

    def _decode(self, row: Any) -> tuple[Bool, Record]:
        """Decode the mask of a row and its record; StoreError if the row is damaged."""
        try:
            return decode(row, self.n_folds, self.n_units)
        except ValueError as error:
            raise StoreError(
                f"the archive {self._archive._name} is damaged: an evaluation cannot be read "
                f"({as_clause(str(error))}); restore a backup"
            ) from error

    def _is_final(self, record: Record) -> bool:
        """Whether further rows cannot change the record."""
        return record.error is None and bool(record.has_cost.all()) and not record.failed

    def add(self, evaluations: Sequence[tuple[Bool, Record]]) -> None:
        """Add evaluations of masks; existing rows stay unchanged."""
        rows = [{"problem": self._number, **encode(mask, record)} for mask, record in evaluations]
        if not rows:
            return
        for row in rows:
            self._cache.remove(row["mask"])
        insert = self._archive._insert(_EVALUATIONS).on_conflict_do_nothing()
        with self._archive._connected("write to") as connection:
            if self._archive._on_server:
                # Two writers with the same masks in another order would deadlock.
                self._archive._lock(connection, self._number)
            connection.execute(insert, rows)

    def all(self) -> Iterator[tuple[Bool, Record]]:
        """Yield every mask (n_units,) and its record, in the order of the first evaluation."""
        table = _EVALUATIONS
        query = sa.select(table).where(table.c.problem == self._number).order_by(table.c.id)
        records: dict[bytes, tuple[Bool, Record]] = {}
        with self._archive._connected("read") as connection:
            for row in connection.execute(query):
                mask, record = self._decode(row)
                if row.mask in records:
                    record = records[row.mask][1].merge(record)
                records[row.mask] = (mask, record)
        yield from records.values()


def _tune_sqlite(connection: DBAPIConnection, _record: object) -> None:
    """Set ``synchronous=NORMAL``, which is fast and, with a write-ahead log, safe against kills."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _reason(error: sa.exc.DBAPIError, secrets: Iterable[str]) -> str:
    """Return the driver's message without the statement, which SQLAlchemy's repeats."""
    return as_clause(scrub(str(error.orig or error), secrets))
