"""Tests of bundled, file and SQL sources: the tables that they give, and their errors."""

from __future__ import annotations

import socket
import sqlite3
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swarm.errors import DataError, StoreError
from swarm.problem.target import task_of
from tasks.profile import profile_of
from tasks.sources import fetch, newest, read_raw
from tasks.sources.assembly import parsed_dates
from tasks.sources.file import read_file
from tests.leaky import register

SECRET = "s3cr:t@/%p w"
ANN = "sqlite+leaky://ann"
LEAKY = f"{ANN}:${{DB_PASSWORD}}@h"
GERMAN = "n;Größe;tag\n1;0,5;31.01.2024 07:30\n2;k.A.;\n1;-1,25;01.02.2024 23:00\n"
ROLES = {"group": "mol", "time": "day", "weight": "w", "part": "side"}
STYLE = {"separator": ";", "decimal": ",", "encoding": "cp1252", "na_values": ["k.A."]}


def small(**more: Any) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "a": [1.0, 2.0, np.nan, 4.0],
            "b": ["x", "y", "x", "y"],
            "y": ["no", "yes", "no", "yes"],
            "mol": ["m", "m", "n", "n"],
            "day": ["2024-01-02", "2024-01-10", "2024-02-01", "2023-12-31"],
            "w": [1.0, 0.0, 2.0, 1.0],
            "side": ["train", "train", "test", "test"],
        }
    )
    return frame.assign(**more)


@pytest.fixture
def csv(tmp_path: Path) -> Callable[..., str]:
    def write(frame: pd.DataFrame | str) -> str:
        file = tmp_path / "own.csv"
        text = frame if isinstance(frame, str) else frame.to_csv(index=False)
        file.write_text(text, encoding="cp1252")
        return str(file)

    return write


def test_a_column_with_a_role_does_not_keep_the_table_in_memory(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.arange(50.0).reshape(5, 10)).add_prefix("x").assign(w=1.0, t=range(5))
    # pandas reads all columns of one type as one array.
    frame.to_parquet(tmp_path / "own.parquet")
    path = str(tmp_path / "own.parquet")
    table = fetch("file", path=path, target="x9", weight="w", time="t")
    for column in (table.target, table.weight, table.time):
        memory = column.to_numpy()
        while isinstance(memory.base, np.ndarray):
            memory = memory.base
        assert memory.nbytes == column.to_numpy().nbytes, column.name


def test_dropped_patterns_spare_columns_with_a_role_and_know_types(
    csv: Callable[..., str],
) -> None:
    frame = small(a_1=1.0, seen="2024-01-31")
    options: dict[str, Any] = {"target": "y", "dates": {"seen": None}, "categorical": ["b"]}

    def features_left(*drop: str) -> list[str]:
        table = fetch("file", path=csv(frame), drop=drop, **options, **ROLES)
        return list(table.features.columns)

    # The target is text, too, and so are the groups.
    with pytest.raises(DataError, match="drop: no column matches 'dtype:text'"):
        features_left("dtype:text")
    assert features_left("dtype:date", "a*") == ["b"]
    assert "b" not in features_left("dtype:category")


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [("digits", (1797, 64), "multiclass"), ("diabetes", (442, 10), "regression")],
)
def test_bundled_sets_need_no_network(name: str, shape: tuple[int, int], task: str) -> None:
    table = fetch("bundled", name=name, target=None)
    assert (table.features.shape, task_of(table.target)) == (shape, task)
    assert (table.name, table.source) == (name, f"bundled:{name}")


def test_the_newest_snapshot_is_the_one_of_the_latest_date(tmp_path: Path) -> None:
    for name in ("s_03-02-2026.csv", "s_01-12-2025.csv", "s_notes.csv", "t_01-01-2030.csv"):
        (tmp_path / name).write_text("a\n1\n")
    pattern = str(tmp_path / "s_{date:%d-%m-%Y}.csv")
    assert newest(pattern) == str(tmp_path / "s_03-02-2026.csv")
    assert newest(f"file://{pattern}") == f"file://{tmp_path}/s_03-02-2026.csv"
    assert newest("plain.csv") == "plain.csv"
    for wrong in ("u_{date}.csv", "s_{date:%H}.csv", "{date}/rows.csv"):
        with pytest.raises(DataError, match="date"):
            newest(str(tmp_path / wrong))


@pytest.mark.parametrize(
    ("where", "extension"),
    [
        ("${DATA_ROOM}/", ".csv.gz"),
        ("~/", ".parquet"),
        ("memory://", ".csv"),
        ("${DATA_ROOM}/", ".tsv"),
        ("memory://", ".TXT.xz"),
        ("${DATA_ROOM}/", ".csv.zip"),
        ("${DATA_ROOM}/", ".xlsx"),
    ],
)
def test_files_give_the_same_table_in_every_format_and_place(
    extension: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA_ROOM", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = where if "memory" in where else f"{tmp_path}/"
    file = f"{folder}own{extension}"
    if extension == ".parquet":
        small().to_parquet(file)
    elif extension == ".xlsx":
        pytest.importorskip("openpyxl")
        small().to_excel(file, index=False)
    else:
        separator = {".csv": ",", ".tsv": "\t"}.get(extension[:4], ";")
        small().to_csv(file, index=False, sep=separator)
    path = f"{where}own{extension}"
    table = fetch("file", path=path, target="y", categorical=["b"], **ROLES)
    assert table.name == "own"
    pd.testing.assert_frame_equal(
        table.features, small()[["a", "b"]].astype({"b": "category"}), check_categorical=False
    )
    assert list(table.target) == ["no", "yes", "no", "yes"]
    assert np.argmin(table.time) == 3
    assert list(table.groups) == ["m", "m", "n", "n"]
    assert list(table.weight) == [1.0, 0.0, 2.0, 1.0]
    rows = table.take(np.array([3, 0]))
    assert list(rows.part) == ["test", "train"]
    assert rows.features.index.tolist() == [0, 1]
    assert rows.features["a"].tolist() == [4.0, 1.0]


def test_a_saved_index_is_no_feature(tmp_path: Path, csv: Callable[..., str]) -> None:
    file = str(tmp_path / "own.parquet")
    small().set_index("mol").to_parquet(file)
    table = fetch("file", path=file, target="y", group="mol")
    assert table.groups is not None
    assert "mol" not in table.features
    table = fetch("file", path=csv(small().to_csv()), target="y")
    assert table.features.columns[0] == "a"


@pytest.mark.parametrize("labels", [[1, 0, 1, 0], [True, False, True, False], list("abab")])
def test_rows_without_a_target_can_be_left_out_and_change_no_label(
    labels: list[Any], csv: Callable[..., str]
) -> None:
    whole = fetch("file", path=csv(small(y=labels)), target="y")
    gaps = pd.concat([small(y=labels), small(y=[None] * 4), small(y=labels)]).iloc[:10]
    table = fetch("file", path=csv(gaps), target="y", on_missing_target="drop")
    assert table.n_unlabelled == 4
    assert table.target.tolist() == [*labels, *labels[:2]]
    assert table.target.dtype == whole.target.dtype
    assert list(table.features.index) == list(range(6))
    unlabelled = csv(small(y=[None] * 4))
    with pytest.raises(DataError, match="'y'"):
        fetch("file", path=unlabelled, target="y", on_missing_target="drop")


def test_several_targets_are_labels(csv: Callable[..., str]) -> None:
    path = csv(small(l1=[0, 1, 1, 0], l2=[True, False, True, True]))
    table = fetch("file", path=path, target=["l1", "l2"], drop=["y"])
    assert task_of(table.target) == "multilabel"
    assert "y" not in table.features
    with pytest.raises(DataError, match="'y' is not 0/1"):
        fetch("file", path=path, target=["l1", "y"])


def test_columns_keep_the_names_of_the_file(csv: Callable[..., str]) -> None:
    names = ["a b", 'q"[1]', "{x}:y", "p,q", "p:q", "ok"]
    frame = pd.DataFrame(np.eye(6), columns=names).assign(y=np.arange(6) % 2)
    assert list(fetch("file", path=csv(frame), target="y").features) == names


def test_booleans_with_gaps_decimals_and_durations_are_features_and_targets(
    tmp_path: Path,
) -> None:
    ids = [Decimal(10**18 + row) for row in range(60)]
    frame = pd.DataFrame(
        {
            "member": pd.Series([True, False, None] * 20, dtype=object),
            "price": [Decimal("1.5"), None, Decimal("2.25")] * 20,
            "wait": pd.to_timedelta([1, 2, 3] * 20, unit="h"),
            "id": ids,
            "day": pd.date_range("2024-01-01", periods=60).astype(str),
            "y": [Decimal(row) / 10 for row in range(60)],
        }
    )
    frame.to_parquet(path := tmp_path / "t.parquet")
    table = fetch("file", path=str(path), target="y", group="id", time="day", drop=["id"])
    assert list(map(str, table.features.dtypes)) == ["boolean", "float64", "float64"]
    assert table.features["wait"].tolist()[:2] == [3600.0, 7200.0]
    assert task_of(table.target) == "regression"
    assert table.groups is not None
    assert table.groups.tolist() == ids
    profile = profile_of(read_raw("file", path=str(path)), "y")
    assert profile.task == "regression"
    assert not profile.categorical


REFUSED: list[tuple[pd.DataFrame | str, dict[str, Any], str]] = [
    (small(), {"target": "yy"}, "'yy'.*did you mean 'y'"),
    (small(), {"group": "moll"}, "group.*'moll'.*did you mean 'mol'"),
    (small(), {"group": "y"}, "'y'.*target.*'group'"),
    (small(y=["a", None, "b", None]), {}, "'y'.*2 of 4 rows"),
    (small(y=1), {}, "'y'.*1 in every row"),
    (small(y=[1.0, np.inf, 2.0, 3.0]), {}, "'y' has infinite"),
    (small(c=[np.inf, -np.inf, 1, 2]), {}, "'c' has infinite"),
    (small(c=np.nan), {}, "'c' has no value"),
    (small().iloc[:0], {}, "no rows"),
    (small(), {"drop": [*"ab", "mol", "day", "w", "side"]}, "no features"),
    (small(w=[1, -1, 2, -3]), ROLES, "'w' is negative in 2"),
    (small(), {"weight": "b"}, "weight.*'b'"),
    (small(side="valid"), ROLES, "'valid' in 4.*'train' or 'test'"),
    (small(day="31/1/2024"), ROLES, "time.*'day'.*ISO"),
    (small(mol=["m", None, "n", "n"]), ROLES, "group.*'mol'.*1"),
    ("a,b,a,y\n1,2,3,0\n", {}, "own.csv.*'a'"),
    ("a,y\n1,2,3\n4,5,6\n", {}, "2 names"),
    ('a,y\n"1,2\n', {}, "own.csv"),
    (GERMAN, {"csv": {**STYLE, "encoding": "klingon"}}, "'klingon'.*data.csv.encoding"),
    (GERMAN, {"csv": {**STYLE, "encoding": "utf-8"}}, "data.csv.encoding.*cp1252"),
    (GERMAN, {"csv": {**STYLE, "separator": ","}}, "data.csv.separator to ';'"),
    (GERMAN, {"csv": STYLE, "dates": {"tag": "%Y"}}, "'tag'.*'31.01.2024 07:30' in 2.*data.dates"),
    ("", {"source": "fil"}, "'fil'.*did you mean 'file'"),
    ("", {"path": None}, "'file'.*'path'"),
    ("", {"path": "x.csv"}, "'x.csv'"),
    ("", {"path": "x.json"}, "x.json.*csv.*xlsx"),
    ("", {"path": "x.parquet.gz"}, "x.parquet.gz.*csv"),
    ("", {"path": "${NO_SUCH_VAR}/x.csv"}, "'NO_SUCH_VAR'.*path"),
    ("", {"path": "zzz://x/y.csv"}, "'zzz://x/y.csv'"),
    ("", {"source": "bundled", "name": "wines", "path": None}, "'wines'.*did you mean 'wine'"),
]


@pytest.mark.parametrize(("frame", "options", "words"), REFUSED)
def test_an_unusable_source_or_table_is_refused_by_its_column_or_key(
    frame: pd.DataFrame | str, options: dict[str, Any], words: str, csv: Callable[..., str]
) -> None:
    target = "n" if isinstance(frame, str) and frame == GERMAN else "y"
    arguments = {"source": "file", "path": csv(frame), "target": target, **options}
    with pytest.raises(DataError, match=words):
        fetch(arguments.pop("source"), **{key: value for key, value in arguments.items() if value})


def test_an_unusable_parquet_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"

    def assert_refused(message: str) -> None:
        with pytest.raises(DataError, match=message):
            fetch("file", path=str(file), target="y")

    file.write_text("hello")
    assert_refused("cannot read")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), file)
    assert_refused(r"duplicate column names in .*'a'")
    small(c=pd.array([1.0, np.inf, None, 2.0], dtype="Float64")).to_parquet(file)
    assert_refused("feature 'c' has infinite values")


def test_a_token_in_a_file_url_shows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET_TOKEN", "t0ken")
    path = "zzz://u:hunter2@h/${BUCKET_TOKEN}/x.csv?sig=abcdef"
    with pytest.raises(DataError) as caught:
        fetch("file", path=path, target="y")
    shown = "".join(traceback.format_exception(caught.value))
    assert "zzz://***@h/${BUCKET_TOKEN}/x.csv?***" in str(caught.value)
    assert not any(secret in shown for secret in ("t0ken", "hunter2", "abcdef"))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        small().to_sql("orders", connection, index=False)
    monkeypatch.setenv("DB_FILE", str(file))
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    register()
    return file


def test_sql_gives_the_rows_of_the_query_and_takes_a_password_literally(database: Path) -> None:
    query = "select * from orders where b like '%x%' or a > 3"
    table = fetch("sql", url="sqlite:///${DB_FILE}", query=query, target="y", drop=["w", "day"])
    assert table.features.shape == (3, 4)
    assert table.name == "shop"
    assert table.source.startswith("sql:sqlite://")
    table = fetch("sql", url=f"{LEAKY}/${{DB_FILE}}", query="select * from orders", target="y")
    assert table.source == f"sql:sqlite+leaky://ann:***@h/{database}"


def test_a_server_that_is_away_is_no_bad_input(database: Path) -> None:
    """A deployed flow tries again after a StoreError, but not after a DataError."""
    wrong = f"{ANN}:hunter{2}@h/${{DB_FILE}}"
    with pytest.raises(StoreError, match="login of ann with") as caught:
        fetch("sql", url=wrong, query="select 1", target="y")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/rows.csv"
        with pytest.raises(StoreError, match="refused"):
            fetch("file", path=url, target="y")


@pytest.mark.parametrize(
    ("url", "query", "message"),
    [
        (f"{LEAKY}/${{DB_FILE}}", "select * from gone", "no such table: gone"),
        (f"{LEAKY}/${{DB_FILE}}", "select * from orders where 0", "no rows"),
        ("postgresql+psycopg2://ann:${DB_PASSWORD}@h/d", "select 1", "psycopg2"),
        ("postgres+no://ann:${DB_PASSWORD}@h/d", "select 1", r"'postgres\+no'"),
        ("sqlite+leaky://ann:hunter2@x@h/d", "select 1", "'@'"),
        (f"{ANN}:${{NO_PW}}@h/d", "select 1", "'NO_PW'.*database URL"),
        ("sqlite:///gone.db", "select 1", "'gone.db'"),
    ],
)
def test_sql_failures_are_one_sentence_without_the_password(
    url: str, query: str, message: str, database: Path
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        fetch("sql", url=url, query=query, target="y")
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert "hunter2" not in shown
    assert "s3cr%3At" not in shown
    assert not Path("gone.db").exists()


WRITES = (
    "delete from orders returning *",
    "create table copy as select * from orders",
    "pragma user_version = 7",
    "vacuum into '{file}.copy'",
    "attach database '{file}.other' as other",
)


@pytest.mark.parametrize("query", WRITES)
@pytest.mark.parametrize("url", ["sqlite:///{file}", "sqlite:///file:{file}?uri=true"])
def test_a_query_that_writes_is_refused_and_changes_nothing(
    query: str, url: str, database: Path
) -> None:
    before = database.read_bytes()
    with pytest.raises(DataError, match="query"):
        fetch("sql", url=url.format(file=database), query=query.format(file=database), target="y")
    assert database.read_bytes() == before
    assert [file.name for file in database.parent.iterdir()] == [database.name]


def test_a_database_in_use_is_read_whatever_its_name_and_its_journal(tmp_path: Path) -> None:
    file = tmp_path / "a b%20c#d.db"
    with sqlite3.connect(file) as connection:
        connection.execute("pragma journal_mode = wal")
        small().to_sql("orders", connection, index=False)
        connection.commit()
        table = fetch("sql", url=f"sqlite:///{file}", query="select * from orders", target="y")
    assert len(table.features) == len(small())


def test_a_csv_is_read_as_it_is_written_and_dates_become_numbers(csv: Callable[..., str]) -> None:
    dates = {"tag": "%d.%m.%Y %H:%M"}
    features = fetch("file", path=csv(GERMAN), target="n", csv=STYLE, dates=dates).features
    assert features["Größe"].tolist()[::2] == [0.5, -1.25]
    assert features.isna().sum().tolist() == [1] * 6
    parts = {name: features[f"tag_{name}"].tolist()[::2] for name in ("year", "hour", "weekday")}
    assert parts == {"year": [2024, 2024], "hour": [7, 23], "weekday": [2, 3]}
    assert features.shape == (3, 6)


@pytest.mark.parametrize("decimal", [".", ","])
def test_percentages_are_numbers_if_all_values_are(decimal: str, csv: Callable[..., str]) -> None:
    text = "n;rate;some;grouped;y\n1;69.1%;5%;1,200%;0\n2;;high;7%;1\n3;-3 %;6%;8%;1\n"
    path = csv(text.replace(".", decimal) if decimal == "," else text)
    style = {"separator": ";", "decimal": decimal}
    options = {"drop": ["some", "grouped"], "csv": style}
    rate = fetch("file", path=path, target="y", **options).features["rate"]
    assert rate.tolist()[::2] == [69.1, -3.0]
    assert rate.isna().tolist() == [False, True, False]
    raw = read_raw("file", path=path, csv=style).frame
    assert raw["some"].tolist() == ["5%", "high", "6%"]
    assert raw["grouped"].tolist()[0] == (1200.0 if decimal == "." else 1.2)


@pytest.mark.parametrize("source", ["csv", "parquet", "sql"])
def test_long_numbers_beside_empty_cells_keep_their_digits(source: str, tmp_path: Path) -> None:
    ids = [2**60, 2**60 + 1, None, 2**60]
    sizes = {"size": [1.5e19, np.nan, -2.25e18, 3.0], "rank": [1.0, np.nan, 2.0, 3.0]}
    frame = pd.DataFrame({"account": pd.array(ids, dtype="Int64"), **sizes})
    file = tmp_path / f"own.{source}"
    if source == "sql":
        with sqlite3.connect(file) as connection:
            connection.execute("create table t (account integer, size real, rank real)")
            rows = zip(ids, *frame[["size", "rank"]].to_numpy().T.tolist(), strict=True)
            connection.executemany("insert into t values (?, ?, ?)", rows)
        raw = read_raw("sql", url=f"sqlite:///{file}", query="select * from t")
    else:
        # A table of pyarrow has no metadata of pandas, which would name the types.
        plain = pa.table({"account": ids, **sizes})
        pq.write_table(plain, file) if source == "parquet" else frame.to_csv(file, index=False)
        raw = read_raw("file", path=str(file))
    assert raw.as_text == ("account",)
    assert raw.frame["account"].dropna().tolist() == [str(account) for account in ids if account]
    assert raw.frame[["size", "rank"]].dtypes.tolist() == [np.float64, np.float64]


def test_codes_that_are_one_number_are_texts(csv: Callable[..., str]) -> None:
    raw = read_file(csv("code,one\n1,1\n01,1\n1.0,1\n"))
    assert raw.frame["code"].tolist() == ["1", "01", "1.0"]
    assert raw.frame["one"].tolist() == [1, 1, 1]


def test_a_date_that_looks_like_a_number_is_a_date(csv: Callable[..., str]) -> None:
    months = ["2024.01", "2024.10", "2023.11", "2024.02"]
    path = csv(small(month=months, y=[0, 1, 0, 1]).to_csv(index=False, sep=";"))
    style = {"separator": ";", "decimal": ","}
    table = fetch("file", path=path, target="y", csv=style, dates={"month": "%Y.%m"}, drop=["w"])
    assert table.features["month_month"].tolist() == [1, 10, 11, 2]


def test_dates_may_be_numbers_with_gaps_and_have_a_zone() -> None:
    days = parsed_dates(pd.Series([20240131.0, np.nan, 20240201.0], name="day"), "%Y%m%d")
    assert days.dt.day.tolist()[::2] == [31, 1]
    moments = pd.Series(pd.date_range("2024-01-01 23:00", periods=2, freq="h", tz="Europe/Paris"))
    converted = parsed_dates(moments, None)
    assert (converted.dt.hour.tolist(), converted.dt.tz) == ([22, 23], None)


def test_a_date_orders_the_rows_in_its_own_format(csv: Callable[..., str]) -> None:
    path = csv(small(day=["31.01.2024", "01.02.2024", "15.01.2024", "02.02.2024"]))
    table = fetch("file", path=path, target="y", time="day", dates={"day": "%d.%m.%Y"})
    assert table.time is not None
    assert np.argsort(table.time).tolist() == [2, 0, 1, 3]
    assert not [name for name in table.features if name.startswith("day")]
