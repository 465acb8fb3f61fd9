"""Tests of the tracking store: runs by id, and fast errors without secrets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from sqlalchemy.orm import Session

from swarm.errors import InputError, StoreError
from swarm.interrupts import sigint_ignored
from tasks.table import Table
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.dataset import log_dataset
from tasks.tracking.run_log import RunLog
from tests.servers import free_port


@pytest.fixture(scope="module")
def tracking(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    """Return a store of this module: a copy of the store of the session."""
    folder = tmp_path_factory.mktemp("my store")
    shutil.copy(tracking_uri.removeprefix("sqlite:///"), folder)
    return open_tracking(f"sqlite:///{folder}/mlflow.db", "search")


def test_many_long_and_odd_parameters_are_all_kept(tracking: Tracking) -> None:
    params = {f"p{i}": i for i in range(250)} | {"odd[key]": "x" * 10_000, "no": None}
    tags = {f"t{i}": "y" * 9000 for i in range(120)}
    with RunLog.start(tracking, "wide", params, tags, "") as log:
        run = tracking.run(log.run_id)
    assert len(run.data.params) == 251
    assert run.data.params["odd_key_"] == "x" * 5997 + "..."
    assert sum(key.startswith("t") for key in run.data.tags) == 120


def test_the_first_characters_of_an_id_find_its_run_unless_several_begin_so(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [tracking.run(tracking.start_run("twin", {})) for _ in range(2)]
    run_id = runs[0].info.run_id
    assert tracking.run(run_id[:8]).info.run_id == run_id
    # Three characters are too few, even for a single run.
    with pytest.raises(InputError, match="no run"):
        tracking.run(run_id[:3])
    monkeypatch.setattr(tracking.client, "search_runs", lambda *_, **__: runs)
    with pytest.raises(InputError, match="'abcd'"):
        tracking.run("abcd")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, signal.default_int_handler) for name in names]
    yield
    for name, handler in zip(names, before, strict=True):
        signal.signal(name, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_write_of_a_file_does_not_leave_it_locked(
    tracking: Tracking, name: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = tracking.start_run("interrupted", {})
    commit = Session.commit
    monkeypatch.setattr(Session, "commit", lambda self: (os.kill(os.getpid(), name), commit(self)))
    with pytest.raises(KeyboardInterrupt):
        tracking.client.log_metric(run_id, "cost", 1.0)
    monkeypatch.undo()
    assert tracking.client.get_run(run_id).data.metrics == {"cost": 1.0}
    tracking.client.log_metric(run_id, "cost", 2.0)


def test_runs_are_read_by_id_without_a_change_of_the_store(tracking: Tracking) -> None:
    run_id = tracking.start_run("read", {})
    deleted = tracking.start_run("gone", {})
    tracking.client.delete_run(deleted)
    file = Path(tracking.uri.removeprefix("sqlite:///"))
    before = (file.read_bytes(), sorted(file.parent.iterdir()))
    store = open_tracking(tracking.uri, None)
    assert store.run(run_id).info.run_name == "read"
    assert (file.read_bytes(), sorted(file.parent.iterdir())) == before
    for unknown in ("0123456789abcdef", "no such run!", deleted):
        for method in (store.values, store.run):
            with pytest.raises(InputError, match=f"'{unknown}'"):
                method(unknown)


def test_runs_that_match_come_latest_first_however_many(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.tracking.client._MAX_RUNS_PER_PAGE", 2)
    run_ids = [tracking.start_run(f"page {i}", {"book": "one"}) for i in range(5)]
    matching = [run.info.run_id for run in tracking.runs("tags.book = 'one'")]
    assert matching == run_ids[::-1]


def test_artifacts_live_beside_the_database_and_come_back(tracking: Tracking) -> None:
    run_id = tracking.start_run("artifacts", {})
    tracking.client.log_text(run_id, "a,b\n", "tables/subsets.csv")
    path = tracking.download(run_id, "tables/subsets.csv")
    assert path.read_text() == "a,b\n"
    root = Path(tracking.uri.removeprefix("sqlite:///")).parent
    assert path.is_relative_to(root / "artifacts")
    assert tracking.find_artifact(run_id, "tables")
    assert not tracking.find_artifact(run_id, "tables/other.csv")
    with pytest.raises(InputError, match=r"no artifact 'other\.csv'"):
        tracking.download(run_id, "other.csv")


def test_a_data_set_is_an_input_of_the_run(tracking: Tracking) -> None:
    run_id = tracking.start_run("data", {})
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"])})
    named = pd.DataFrame(np.zeros((2, 5000)), columns=[f"{i:0240d}" for i in range(5000)])
    wide = pd.DataFrame(np.zeros((2, 30_000)))
    small = Table("small", "sql:postgresql://u:pw@h/db", frame, frame["a"].rename("y"))
    log_dataset(tracking, run_id, small, "small", "training")
    log_dataset(tracking, run_id, Table("named", "", named, frame["a"]), "named", "test")
    log_dataset(tracking, run_id, Table("wide", "", wide, frame["a"]), "wide", "test")
    inputs = tracking.client.get_run(run_id).inputs.dataset_inputs
    datasets = {entry.dataset.name: entry.dataset for entry in inputs}
    assert set(datasets) == {"small", "named", "wide"}
    assert "postgresql://u:***@h/db" in datasets["small"].source
    schema = json.loads(datasets["small"].schema)["mlflow_colspec"]
    assert [column["name"] for column in schema] == ["a", "b", "y"]
    assert json.loads(datasets["wide"].profile) == {"num_rows": 2, "num_elements": 60_002}
    for name in ("named", "wide"):
        assert datasets[name].schema in (None, "")


def test_a_table_that_another_run_adds_at_the_same_moment_is_attached(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = tracking.start_run("together", {})
    log_inputs = tracking.client.log_inputs
    errors = ["(sqlite3.IntegrityError) UNIQUE"]

    def late(*arguments: Any, **options: Any) -> None:
        if errors:
            raise MlflowException(errors.pop())
        log_inputs(*arguments, **options)

    monkeypatch.setattr(tracking.client, "log_inputs", late)
    table = Table("small", "file:x.csv", pd.DataFrame({"a": [1, 2]}), pd.Series([0, 1], name="y"))
    log_dataset(tracking, run_id, table, "small", "training")
    (entry,) = tracking.client.get_run(run_id).inputs.dataset_inputs
    assert entry.dataset.name == "small"


def test_a_store_that_cannot_hold_runs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlflow.db").write_text("not a database at all, but long enough for a header")
    for uri in ("mlruns", "file:///srv/mlruns", "sqlite://"):
        with pytest.raises(InputError, match=r"mlflow\.db"):
            open_tracking(uri, "search")
    with pytest.raises(StoreError, match=r"mlflow\.db"):
        open_tracking("sqlite:///mlflow.db", "search")


def test_an_error_of_a_database_is_one_sentence_and_nothing_else(
    tracking_uri: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(tracking_uri.removeprefix("sqlite:///"), tmp_path / "mlflow.db")
    tracking = open_tracking(f"sqlite:///{tmp_path}/mlflow.db", "search")
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("DROP TABLE runs")
    with pytest.raises(StoreError, match="no such table"):
        tracking.start_run("lost", {})
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "uri", ["http://ann:s3cret@127.0.0.1:%s", "postgresql://ann:s3cret@127.0.0.1:%s/m"]
)
def test_an_absent_server_is_told_without_its_password(uri: str) -> None:
    for call in (
        lambda: open_tracking(uri % free_port(), "search", timeout=120),
        lambda: open_tracking(uri % free_port(), None).run("0" * 32),
    ):
        with pytest.raises(StoreError, match=r"\*\*\*@127\.0\.0\.1") as caught:
            call()
        assert "s3cret" not in str(caught.value)


def test_a_server_that_is_silent_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StoreError, match=uri):
            open_tracking(uri, "search", timeout=0.5)


def test_an_experiment_whose_artifacts_cannot_be_written_is_refused_by_name(
    tracking_uri: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    tracking = open_tracking(tracking_uri, "not written", folder)
    tracking.require_writable()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    folder.write_text("a file")
    with pytest.raises(StoreError, match=r"'not written'.*kept'.*tracking\.experiment"):
        tracking.require_writable()
    with pytest.raises(StoreError, match=r"kept'.*tracking\.artifacts"):
        open_tracking(tracking_uri, "nor this", folder)
    assert tracking.client.get_experiment_by_name("nor this") is None
    assert folder.read_text() == "a file"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_ignored_while_a_server_ends_and_heard_after_it() -> None:
    with sigint_ignored():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
