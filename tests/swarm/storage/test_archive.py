"""The archive loses nothing, mistakes nothing, and touches no other program's file."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.naive_bayes import GaussianNB

from swarm.errors import StoreError
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive, ProblemEvaluations
from swarm.storage.records import Record, RecordCache, blank_record, costs_of
from tests import ROOT
from tests.fakes import calm

N_FOLDS = 3
N_UNITS = 11


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new archive, in SQLite or in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new' / 'a.db'}"
    return str(request.getfixturevalue("postgres").database())


def table(n_columns: int = 6) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, n_columns)), columns=[f"x{i}" for i in range(n_columns)])
    X["kind"] = pd.Categorical(np.where(rng.random(60) < 0.5, "a", "b"))
    X["count"] = rng.integers(0, 5, 60)
    return X, pd.Series((X["x0"] + rng.normal(size=60) > 0).astype(int))


def numbers() -> tuple[pd.DataFrame, pd.Series]:
    X, y = table()
    return X.drop(columns="kind"), y


def problem_of(**options: Any) -> Problem:
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(30, N_UNITS))).add_prefix("x")
    y = np.arange(30) % 2
    return Problem.build(X, y, GaussianNB(), folds=N_FOLDS, importance="none", **options)


def open_evaluations(archive: Archive) -> ProblemEvaluations:
    return archive.open_problem(problem_of())


@st.composite
def evaluated(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Record]:
    """A mask with a record as training leaves it: partial, failed, without importances."""
    mask = draw(hnp.arrays(bool, N_UNITS).filter(np.any))
    known = draw(hnp.arrays(bool, N_FOLDS))
    costs = draw(hnp.arrays(float, N_FOLDS, elements=st.floats(-1e300, 1e300)))
    failed = draw(hnp.arrays(bool, N_FOLDS)) & known & draw(st.booleans())
    explained = draw(hnp.arrays(bool, N_FOLDS))
    shape = (N_FOLDS, int(mask.sum()))
    values = draw(hnp.arrays(float, shape, elements=st.floats(-1e300, 1e300)))
    used = draw(hnp.arrays(bool, shape)) & known[:, None]
    return mask, Record(
        np.where(failed, np.inf, np.where(known, costs, np.nan)),
        np.where(explained[:, None], values, np.nan),
        used,
        draw(st.floats(0, 1e6)),
        draw(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
    )


def assert_equal(record: Record, expected: Record) -> None:
    for name in ("fold_costs", "importances", "used"):
        array = getattr(record, name)
        other = getattr(expected, name)
        assert array.dtype == other.dtype
        assert array.tobytes() == other.tobytes() or np.array_equal(array, other, equal_nan=True)
    assert (record.seconds, record.error) == (expected.seconds, expected.error)


@settings(calm, max_examples=15)
@given(evaluated())
def test_a_record_comes_back_bit_for_bit(pair: tuple[np.ndarray[Any, Any], Record]) -> None:
    evaluations = open_evaluations(Archive())
    evaluations.add([pair])
    assert_equal(evaluations.lookup(pair[0][None])[0], pair[1])
    ((mask, record),) = evaluations.all()
    assert np.array_equal(mask, pair[0])
    assert_equal(record, pair[1])


def record_on(folds: list[int], cost: float, n_selected: int = 1) -> Record:
    record = Record.unknown(N_FOLDS, n_selected)
    record.fold_costs[folds] = cost
    return replace(record, seconds=1.0)


def test_pieces_of_a_mask_are_merged_and_the_first_word_stays(url: str) -> None:
    evaluations = open_evaluations(Archive(url))
    mask = np.arange(N_UNITS) == 4
    evaluations.add([(mask, record_on([1], 0.25))])
    evaluations.add([(mask, record_on([0, 2], 0.5)), (mask, record_on([1, 2], 0.75))])
    evaluations.add([(mask, record_on([1], 0.99))])
    (record,) = evaluations.lookup(mask[None])
    assert record.fold_costs.tolist() == [0.5, 0.25, 0.5]
    assert record.seconds == 3.0
    assert record.complete


def test_a_sparse_mask_of_a_wide_table_is_stored_as_positions_and_a_dense_one_as_bits(
    url: str,
) -> None:
    n_units = 22_001
    archive = Archive(url)
    given = {"number": open_evaluations(archive)._number, "n_folds": N_FOLDS, "n_units": n_units}
    evaluations = ProblemEvaluations(archive, **given)
    rng = np.random.default_rng(0)
    # 2,751 bytes of bits, more than an index of PostgreSQL holds; 687 positions are shorter.
    masks = np.array([rng.permutation(n_units) < size for size in (1, 687, 688, 11_000)])
    evaluations.add([(mask, record_on([0, 1, 2], i, mask.sum())) for i, mask in enumerate(masks)])
    with archive._engine.connect() as connection:
        query = sa.text("SELECT length(mask) FROM archive_evaluations ORDER BY id")
        lengths = connection.execute(query)
        assert list(lengths.scalars()) == [4, 2748, 2751, 2751]
    again = ProblemEvaluations(Archive(url), **given)
    assert [record.cost for record in again.lookup(masks)] == [0, 1, 2, 3]
    assert [mask.tobytes() for mask, _ in again.all()] == [mask.tobytes() for mask in masks]


def test_masks_are_listed_in_the_order_of_their_first_evaluation_and_found_as_asked(
    url: str,
) -> None:
    evaluations = open_evaluations(Archive(url))
    bits = (np.arange(1, 1500)[::-1, None] >> np.arange(N_UNITS)) & 1 > 0
    evaluations.add([(mask, record_on([0], float(i), mask.sum())) for i, mask in enumerate(bits)])
    evaluations.add([(bits[7], record_on([1], 1.0, bits[7].sum()))])
    assert [record.fold_costs[0] for _, record in evaluations.all()] == list(range(len(bits)))
    order = np.random.default_rng(0).permutation(len(bits))
    records = evaluations.lookup(bits[order])
    assert [record.fold_costs[0] for record in records] == order.tolist()
    assert [record.seconds for record in records] == (1.0 + (order == 7)).tolist()


@pytest.mark.parametrize(
    ("costs", "is_final"),
    [
        ([0.1, 0.2, 0.3], True),
        # Folds may follow, and a failed fit may be tried again.
        ([0.1, np.nan, 0.3], False),
        ([0.1, 0.2, np.inf], False),
    ],
)
def test_a_record_is_read_once_unless_another_process_may_add_to_it(
    costs: list[float], is_final: bool
) -> None:
    archive = Archive()
    number = open_evaluations(archive)._number
    evaluations = ProblemEvaluations(archive, number, N_FOLDS, N_UNITS)
    mask, shape = np.arange(N_UNITS) < 3, (N_FOLDS, 3)
    used = np.broadcast_to(~np.isnan(costs)[:, None], shape)
    evaluations.add([(mask, Record(np.array(costs), np.zeros(shape), used))])
    assert evaluations.lookup(mask[None])[0] is not blank_record(*shape)
    with archive._engine.begin() as connection:
        connection.execute(sa.text("delete from archive_evaluations"))
    assert (evaluations.lookup(mask[None])[0] is not blank_record(*shape)) == is_final


def test_a_damaged_row_is_one_sentence() -> None:
    archive = Archive()
    evaluations = open_evaluations(archive)
    mask = np.arange(N_UNITS) < 3
    evaluations.add([(mask, record_on([0, 1, 2], 0.5, 3))])
    with archive._engine.begin() as connection:
        connection.execute(sa.text("update archive_evaluations set fold_costs = x'0102'"))
    with pytest.raises(StoreError, match="damaged"):
        evaluations.lookup(mask[None])
    with pytest.raises(StoreError, match="damaged"):
        list(evaluations.all())


def test_memory_is_bounded_and_lets_go_of_what_was_unused_for_longest() -> None:
    # A record has its arrays and an overhead of 1000 bytes.
    cache = RecordCache(3 * (1000 + 8 * N_FOLDS + 9 * N_FOLDS * N_UNITS))
    for number in range(3):
        cache.add(bytes([number]), Record.unknown(N_FOLDS, N_UNITS))
    assert all(cache.get(bytes([number])) is not None for number in (1, 2, 0))
    cache.add(bytes([3]), Record.unknown(N_FOLDS, N_UNITS))
    cached = [number for number in range(4) if cache.get(bytes([number])) is not None]
    assert cached == [0, 2, 3]
    cache.add(bytes([9]), Record.unknown(30, 100))
    assert cache.get(bytes([9])) is None
    # Rows that share memory count once.
    mask = np.ones(N_UNITS, dtype=bool)
    shape = (N_FOLDS, N_UNITS)
    shared = Record(np.zeros(N_FOLDS), *(np.broadcast_to(row, shape) for row in (0.0, mask)))
    for more, is_kept in ((0, True), (-1, False)):
        cache = RecordCache(1000 + 8 * N_FOLDS + 9 * N_UNITS + more)
        cache.add(b"", shared)
        assert (cache.get(b"") is not None) == is_kept


def test_the_cost_of_folds_that_failed_is_infinite_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert costs_of(np.array([[0.1, np.inf], [-np.inf, np.inf]])).tolist() == [np.inf] * 2


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_an_archive_in_memory_is_one_for_all_threads_and_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = Archive(url)
    mask = np.arange(N_UNITS) == 1
    # A problem without a name gets a random one.
    nameless = [problem_of(scoring=lambda *_: 0.5) for _ in range(2)]
    names = [archive.fingerprint(problem) for problem in (*nameless, nameless[0])]
    assert names[0] == names[2] != names[1]
    evaluations = open_evaluations(archive)
    evaluations.add([(mask, record_on([0], 0.5))])
    with ThreadPoolExecutor(1) as pool:
        (record,) = pool.submit(evaluations.lookup, mask[None]).result()
    assert record.fold_costs[0] == 0.5
    assert not list(tmp_path.iterdir())


def test_pruning_removes_what_is_not_used_and_leaves_the_rest(url: str) -> None:
    mask = np.arange(N_UNITS) == 1
    problems = {name: problem_of(scoring=name) for name in ("accuracy", "f1")}
    with closing(Archive(url)) as archive:
        for problem in problems.values():
            archive.open_problem(problem).add([(mask, record_on([0], 0.5))])
        with archive._engine.begin() as connection:
            connection.exec_driver_sql("update archive_problems set created = 1, used = 2")
        # This sets the time of its last use.
        archive.open_problem(problems["accuracy"])
        seen: list[tuple[float, float]] = []

        def is_used(created: float, used: float) -> bool:
            seen.append((created, used))
            return used > 2

        n_rows, n_bytes = archive.prune(is_used, dry_run=True)
        assert n_rows == 1
        assert n_bytes > 0
        assert archive.has_evaluations(problems["f1"])
        assert archive.prune(is_used) == (n_rows, n_bytes)
        assert archive.prune(is_used) == (0, 0)
        assert [used == 2 for _, used in sorted(seen[:2], key=lambda times: times[1])] == [1, 0]
        assert archive.has_evaluations(problems["accuracy"])
        assert not archive.has_evaluations(problems["f1"])


def test_an_archive_says_what_its_problems_are() -> None:
    archive = Archive()
    problem = problem_of()
    archive.open_problem(problem)
    with archive._engine.connect() as connection:
        about = connection.execute(sa.text("select about from archive_problems")).scalar_one()
    assert json.loads(about) == {
        "rows": 30,
        "columns": N_UNITS,
        "units": list(problem.features),
        "folds": N_FOLDS,
        "estimator": "GaussianNB",
        "scoring": "accuracy",
        "importance": "none",
    }


@pytest.mark.parametrize(
    ("message", "times", "opens", "waited"),
    [
        ("database is locked", 3, True, False),
        ("database is locked", 10**6, False, True),
        ("disk I/O error", 1, False, False),
    ],
)
def test_a_file_that_another_process_sets_up_is_waited_for_and_no_other_error_is(
    message: str, times: int, opens: bool, waited: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    now = 0.0
    n_errors = times
    execute = sa.Connection.exec_driver_sql

    def busy(connection: sa.Connection, statement: str, *values: Any, **options: Any) -> Any:
        nonlocal n_errors
        if "journal_mode" in statement and n_errors > 0:
            n_errors -= 1
            raise sa.exc.OperationalError(statement, {}, sqlite3.OperationalError(message))
        return execute(connection, statement, *values, **options)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    fake = SimpleNamespace(monotonic=lambda: now, sleep=sleep, time=time.time)
    monkeypatch.setattr("swarm.storage.archive.time", fake)
    monkeypatch.setattr(sa.Connection, "exec_driver_sql", busy)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    if opens:
        Archive(url).close()
        with sqlite3.connect(tmp_path / "a.db") as connection:
            assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
        connection.close()
    else:
        with pytest.raises(StoreError, match=message):
            Archive(url)
    assert (now > 59) == waited


def run_python(code: str, *arguments: str, **environment: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        check=True,
        text=True,
        capture_output=True,
        env={**os.environ, **environment},
    )
    return process.stdout.strip()


WRITER = """
import sys, time
import numpy as np
from swarm.storage.archive import Archive
from tests.swarm.storage.test_archive import N_UNITS, open_evaluations, record_on
start = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
evaluations = open_evaluations(Archive(sys.argv[1]))
for number in range(start, start + 200):
    mask = (number >> np.arange(N_UNITS)) & 1 > 0
    evaluations.add([(mask, record_on([0], float(number)))])
"""


@pytest.mark.slow
def test_two_processes_writing_at_once_lose_nothing(url: str) -> None:
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    writers: list[Any] = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, start], cwd=ROOT, text=True, **pipes)
        for start in ("1", "151")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, stderr = writer.communicate(timeout=120)
        assert writer.returncode == 0, stderr
    archive = Archive(url)
    costs = [record.fold_costs[0] for _, record in open_evaluations(archive).all()]
    assert sorted(costs) == list(range(1, 351))
    archive.check()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An archive with evaluations."""
    file = tmp_path_factory.mktemp("full") / "archive.db"
    archive = Archive(f"sqlite:///{file}")
    open_evaluations(archive).add(
        [(np.arange(N_UNITS) == unit, record_on([0], 0.5)) for unit in range(9)]
    )
    archive.close()
    return file.read_bytes()


def of_another_program(path: Path, _: bytes) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table experiments (id integer)")
        connection.execute("create table runs (id integer)")
    connection.close()


@pytest.mark.parametrize(
    "spoil",
    [
        of_another_program,
        lambda path, full: path.write_text("a,b\n1,2\n" * 500),
        lambda path, full: path.write_bytes(full[: len(full) // 2]),
        lambda path, full: path.write_bytes(full[:1000]),
        lambda path, full: path.write_bytes(b"x" * 50 + full[50:]),
    ],
    ids=["of MLflow", "text", "half is gone", "below a page", "other header"],
)
def test_a_file_that_is_no_archive_or_damaged_is_refused_by_name_and_left_untouched(
    tmp_path: Path, full: bytes, spoil: Any
) -> None:
    path = tmp_path / "mlflow.db"
    spoil(path, full)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"mlflow\.db"):
        open_evaluations(Archive(f"sqlite:///{path}"))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["mlflow.db"]


def test_damage_inside_an_archive_is_found_by_its_check(tmp_path: Path, full: bytes) -> None:
    file = tmp_path / "archive.db"
    file.write_bytes(full)
    archive = Archive(f"sqlite:///{file}")
    archive.check()
    with archive._engine.connect() as connection:
        query = "select rootpage from sqlite_master where name like 'sqlite_autoindex%evaluations%'"
        page = connection.execute(sa.text(query)).scalar_one()
    archive.close()
    # An archive opens although an index lacks its rows.
    damaged = bytearray(file.read_bytes())
    damaged[4096 * (page - 1) + 3 : 4096 * (page - 1) + 5] = b"\0\0"
    file.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"archive\.db.* is damaged: .*database main"):
        Archive(f"sqlite:///{file}").check()


def test_an_archive_of_another_version_is_refused_by_its_format(url: str) -> None:
    Archive(url).close()
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("update archive_about set format = 'swarm-archive-9'"))
    for _ in range(2):
        with pytest.raises(StoreError, match="'swarm-archive-9'"):
            Archive(url)
    with sa.create_engine(url).begin() as connection:
        formats = connection.execute(sa.text("select format from archive_about")).scalars().all()
    assert formats == ["swarm-archive-9"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.db").mkdir()
    for place in ("file/a.db", "folder.db"):
        with pytest.raises(StoreError, match=rf"{place}"):
            Archive(f"sqlite:///{tmp_path / place}")


def test_an_archive_that_became_read_only_says_so_when_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    archive = Archive(f"sqlite:///{path}")
    evaluations = open_evaluations(archive)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "create trigger full before insert on archive_evaluations "
            "begin select raise(abort, 'disk is full'); end"
        )
    connection.close()
    with pytest.raises(StoreError, match="disk is full"):
        evaluations.add([(np.arange(N_UNITS) == 1, record_on([0], 1.0))])


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@127.0.0.1:1/db",
        "postgresql+nodriver://me:hush@127.0.0.1/db",
        "postgresql:///db?password=hush",
        "me:hush@127.0.0.1/db",
        "postgresql://me:hush@127.0.0.1:port/db",
    ],
)
def test_a_database_out_of_reach_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Archive(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hush" not in str(error)
        error = None if error.__suppress_context__ and not error.__cause__ else error.__cause__


def test_an_archive_may_be_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    Archive("sqlite:///~/kept/a.db").close()
    assert (tmp_path / "kept" / "a.db").exists()
