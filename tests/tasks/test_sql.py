"""Tests of SQL queries: they only read, on real databases and as the owner of the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

from flows.run.checking import all_findings
from swarm.errors import DataError
from tasks.sources.sql import read_sql
from tests.postgres import Postgres

N_ROWS = 700
FUNCTION = """
CREATE FUNCTION clear() RETURNS int LANGUAGE plpgsql AS
$$ BEGIN PERFORM set_config('transaction_read_only', 'off', true); DELETE FROM t; RETURN 1; END $$
"""
PROCEDURE = """
CREATE PROCEDURE clear_all(INOUT n int) LANGUAGE plpgsql AS
$$ BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM t; COMMIT; END $$
"""

ANYWHERE = (
    "commit; delete from t; commit; select 1 as x",
    "select 1 as x; delete from t",
    "select 1 as x /* ; */; delete from t; -- select 1",
    "select 1) as u; commit; delete from t; commit; select * from (select 1 as x",
    "select ';' as x; drop table t",
    "delete from t returning *",
    "delete from t",
    "insert into t select * from t returning x",
    "create table u as select * from t",
    "drop table t",
    "begin; delete from t; commit",
    "",
    "-- nothing",
)
ON_POSTGRES = (
    "set transaction read write",
    "set transaction read write; delete from t; commit",
    "set session characteristics as transaction read write; commit; delete from t; commit",
    "copy t to program 'cat > {folder}/stolen'",
    "copy (select 1) to '{folder}/stolen'",
    "with gone as (delete from t returning *) select * from gone",
    "select * into u from t",
    "select clear() as x",
    "call clear_all(1)",
    "explain analyze delete from t",
    "select set_config('transaction_read_only', 'off', false) from t",
    "select nextval('s') as x",
    "do $$ begin commit; delete from t; end $$",
    "prepare p as delete from t",
    "$$; delete from t; $$",
    "'; commit; delete from t; select '",
)
ON_SQLITE = (
    "pragma query_only = off",
    "pragma writable_schema = on",
    "pragma journal_mode = delete",
    "attach '{folder}/stolen' as other",
    "vacuum into '{folder}/stolen'",
    "select load_extension('{folder}/stolen')",
    "create temp table u (x int)",
    "begin immediate",
)
READS = (
    "select * from t order by x desc",
    "select * from t order by x desc;",
    " -- the rows; all\nselect * /* ; delete */ from t order by x desc ; -- delete from t;\n",
    "with u as (select * from t) select * from u order by x desc",
    "select x, y from t where 'delete; commit' <> y and '%s :x' <> y order by x desc",
    'select x, y as "drop; table" from t order by x desc',
    "select a.x, b.x from t as a join t as b on a.x = b.x order by 1 desc",
)


def filled(url: str) -> sa.Engine:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    rows = pd.DataFrame({"x": range(N_ROWS), "y": ["a", "b"] * (N_ROWS // 2)})
    rows.to_sql("t", engine, index=False)
    return engine


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], object]]:
    """Return an address with the rights of the owner, and a function that counts the rows."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/t.db"
        engine = filled(url)
    else:
        url = request.getfixturevalue("postgres").database()
        engine = filled(url)
        with engine.begin() as connection:
            for statement in (FUNCTION, PROCEDURE, "CREATE SEQUENCE s"):
                connection.exec_driver_sql(statement)

    def state() -> list[object]:
        with engine.connect() as connection:
            tables = sorted(sa.inspect(connection).get_table_names())
            return [tables, connection.exec_driver_sql("select count(*) from t").scalar_one()]

    return url, state


def assert_refused(url: str, queries: tuple[str, ...], folder: Path) -> None:
    for query in queries:
        with pytest.raises(DataError, match="query"):
            read_sql(url, query.format(folder=folder) if "{" in query else query)


def test_what_writes_is_refused_and_changes_nothing(
    database: tuple[str, Callable[[], object]], tmp_path: Path
) -> None:
    url, state = database
    folder = tmp_path / "written"
    folder.mkdir()
    # The server runs as another user, who could write to this folder.
    folder.chmod(0o777)
    assert_refused(url, ANYWHERE + (ON_SQLITE if "sqlite" in url else ON_POSTGRES), folder)
    assert state() == [["t"], N_ROWS]
    assert not list(folder.iterdir())


def test_a_select_keeps_its_order_comments_and_strings(
    database: tuple[str, Callable[[], object]],
) -> None:
    for query in READS:
        frame = read_sql(database[0], query).frame
        assert len(frame) == N_ROWS
        assert frame.iloc[:, 0].tolist() == list(range(N_ROWS))[::-1]


def test_check_does_not_write_either(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.database()
    engine = filled(url)
    monkeypatch.setenv("DB_PASSWORD", postgres.password)
    data = {
        "data.source": "sql",
        "data.url": postgres.without_password(url, "DB_PASSWORD"),
        "data.target": "y",
        "data.query": "commit; delete from t; commit; select 1",
    }
    config = tmp_path / "a.yaml"
    lines = [f"  {key.removeprefix('data.')}: {value!r}" for key, value in data.items()]
    config.write_text(
        "\n".join(
            ["name: a", "data:", *lines, "model:", "  estimator: sklearn.naive_bayes.GaussianNB"]
        )
    )
    _, findings = all_findings(str(config))
    assert [finding.code for finding in findings if finding.severity == "error"] == ["SWM002"]
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select count(*) from t").scalar_one() == N_ROWS


def test_a_full_text_table_can_be_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    query = "select * from t where t match 'word'"
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create virtual table t using fts5(x)")
        connection.execute("insert into t values ('one word'), ('another')")
    assert read_sql(url, query).frame["x"].tolist() == ["one word"]


def test_a_database_that_cannot_be_kept_from_writing_is_refused() -> None:
    for url in ("mysql+pymysql://ann@h/d", "mssql+pyodbc://ann@h/d", "duckdb:///d.db"):
        with pytest.raises(DataError, match="Parquet"):
            read_sql(url, "select 1")
