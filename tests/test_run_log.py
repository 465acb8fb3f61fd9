"""Nothing that a run logs is lost or doubled, no search waits for the store, and every run ends."""

from __future__ import annotations

import math
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.tracking import wait_for_log
from swarm.errors import EvaluationError, StoreError
from swarm.evaluation.types import Work
from swarm.search.history import EpochRecord
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.outbox import Outbox
from tasks.tracking.run_log import RunLog

RUN = "a" * 32
URI = "http://ann:s3cret@host"


class Store:
    """A client that writes down what it accepts, and can be away or slow."""

    def __init__(self) -> None:
        self.away = threading.Event()
        self.delay = 0.0
        self.calls: list[tuple[str, Any]] = []

    def _take(self, kind: str, what: Any) -> None:
        time.sleep(self.delay)
        if self.away.is_set():
            raise ConnectionError(f"{URI} is away")
        self.calls.append((kind, what))

    def log_batch(self, run_id: str, metrics: Any = (), tags: Any = ()) -> None:
        points = [(m.step, m.key, m.value) for m in metrics]
        self._take("batch", points or [(t.key, t.value) for t in tags])

    def log_artifact(self, run_id: str, path: str, folder: str | None = None) -> None:
        name = f"{folder}/{Path(path).name}" if folder else Path(path).name
        self._take("artifact", (name, Path(path).read_bytes()))

    def set_terminated(self, run_id: str, status: str, end_time: int | None = None) -> None:
        self._take("status", status)


class Disturbed:
    """A client of a real store, some calls of which are replaced by ``call(plain, *arguments)``."""

    def __init__(self, client: Any, **calls: Callable[..., Any]) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._client, name)
        if name not in self._calls:
            return plain
        return lambda *args, **options: self._calls[name](plain, *args, **options)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def log(store: Store) -> Iterator[RunLog]:
    """The log of a run in that store, which tries again at once."""
    yield (opened := log_of(Tracking(store, URI, "1", "away"), RUN))
    opened.outbox.close(0)


def log_of(tracking: Tracking, run_id: str, **options: Any) -> RunLog:
    outbox = Outbox(tracking.client, tracking.uri, first_wait=0.02, longest_wait=0.05)
    return RunLog(tracking, run_id, outbox=outbox, **options)


@pytest.fixture(scope="module")
def tracking(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    return open_tracking(tracking_uri, "log", tmp_path_factory.mktemp("log"))


def disturbed(tracking: Tracking, **calls: Callable[..., Any]) -> Tracking:
    client = Disturbed(tracking.client, **calls)
    return Tracking(client, tracking.uri, tracking.experiment_id, tracking.experiment)


def history(tracking: Tracking, run_id: str, key: str) -> list[tuple[int, float]]:
    found = tracking.client.get_metric_history(run_id, key)
    return sorted((point.step, point.value) for point in found)


def record(epoch: int, n_units: int = 4) -> EpochRecord:
    masks = np.random.default_rng(epoch).random((30, n_units)) < 0.5
    metrics = {"best_cost": 1.0 / epoch, **{f"figure_{i}": float(i) for i in range(15)}}
    return EpochRecord(epoch, metrics, {"mask": masks, "size": masks.sum(axis=1)}, Work())


# ------------------------------------------------------------------- stores that are away or slow


def test_what_was_told_while_the_store_was_away_arrives_in_order_and_once(
    store: Store, log: RunLog
) -> None:
    store.away.set()
    for step in range(5):
        log.files({f"epochs/{step:04d}.parquet": bytes([step]) * 3})
        log.metrics({step: {"cost": step / 10}})
    log.tag({"best": "yes"})
    log.finish()
    assert log.outbox.drain(0.3) == 12
    assert store.calls == []
    log.patience = 0.1
    with pytest.raises(StoreError, match=r"12 messages .* the same command completes") as told:
        log.settle()
    assert "s3cret" not in str(told.value)
    store.away.clear()
    log.patience = 5.0
    log.settle()
    expected: list[Any] = []
    for step in range(5):
        expected.append(("artifact", (f"epochs/{step:04d}.parquet", bytes([step]) * 3)))
        expected.append(("batch", [(step, "cost", step / 10)]))
    assert store.calls == [*expected, ("batch", [("best", "yes")]), ("status", "FINISHED")]


def test_a_slow_store_is_waited_for_and_does_not_slow_the_search(store: Store, log: RunLog) -> None:
    store.delay = 0.05
    started = time.monotonic()
    for epoch in range(1, 21):
        log.epoch(record(epoch))
    assert time.monotonic() - started < 20 * 0.05
    # Less than all messages take, but more than one does.
    log.patience = 0.6
    log.settle()
    assert len(store.calls) == 40


def test_a_store_that_is_away_for_hours_costs_hardly_any_memory(store: Store, log: RunLog) -> None:
    """What waits refers to the epochs that the search keeps anyway."""
    store.away.set()
    epochs = [record(epoch, n_units=4000) for epoch in range(1, 301)]
    tracemalloc.start()
    try:
        for one in epochs:
            log.epoch(one)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert log.outbox.waiting == 600
    assert taken < 300 * 12_000
    store.away.clear()
    log.settle()
    written = [len(what[1]) for kind, what in store.calls if kind == "artifact"]
    assert sum(written) > 300 * 24_000, "the artifacts are small enough to be kept"


def test_a_run_that_waits_for_a_slow_store_says_how_many_messages_are_left(
    store: Store, log: RunLog, capsys: pytest.CaptureFixture[str]
) -> None:
    store.away.set()
    for step in range(250):
        log.metrics({step: {"cost": 0.1}})
    back = threading.Timer(0.2, store.away.clear)
    back.start()
    wait_for_log(log, verbosity=1)
    assert capsys.readouterr().err == "waiting until MLflow has stored 250 messages\n"
    assert len(store.calls) == 250
    log.metrics({250: {"cost": 0.1}})
    wait_for_log(log, verbosity=1)
    assert capsys.readouterr().err == "", "a moment is not worth a line"


def test_an_answer_that_gets_lost_doubles_no_metric(tracking: Tracking) -> None:
    run_id = tracking.start_run("lost answer", {})
    lost = []

    def forgotten(log_batch: Callable[..., None], *args: Any, **options: Any) -> None:
        log_batch(*args, **options)
        if len(lost) < 2:
            lost.append(1)
            raise TimeoutError("the answer is lost")

    log = log_of(disturbed(tracking, log_batch=forgotten), run_id)
    for step in range(4):
        log.metrics({step: {"cost": float(step)}})
    assert log.close() == ""
    assert len(lost) == 2
    assert history(tracking, run_id, "cost") == [(step, float(step)) for step in range(4)]


def test_more_metrics_than_one_request_takes_are_all_stored(tracking: Tracking) -> None:
    run_id = tracking.start_run("many", {})
    log = log_of(tracking, run_id)
    log.metrics({step: {f"m{i}": 1.0 for i in range(1150)} for step in (0, 1)})
    assert log.close() == ""
    assert len(tracking.run(run_id).metrics) == 1150
    assert history(tracking, run_id, "m1149") == [(0, 1.0), (1, 1.0)]


def test_a_message_that_can_never_be_accepted_holds_up_no_other(
    tracking: Tracking, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = tracking.start_run("refusals", {})
    log = log_of(tracking, run_id)

    def broken() -> bytes:
        raise KeyError("no such column")

    log.metrics({0: {"cost": 0.5}})
    # What is not known is left out, and what is not a number is kept.
    log.metrics({0: {"nothing": math.nan, "far": math.inf, "left out": None, "odd[key]": 1.0}})
    log.metrics({0: {"bad//name": 0.5}})
    log.files({"broken.csv": broken})
    log.metrics({1: {"cost": 0.4}})
    assert log.close() == ""
    assert history(tracking, run_id, "cost") == [(0, 0.5), (1, 0.4)]
    assert set(tracking.run(run_id).metrics) == {"cost", "nothing", "far", "odd_key_"}
    refused = [message for message in caplog.messages if "store refused" in message]
    assert len(refused) == 2
    assert "metrics of step 0" in refused[0]
    assert "'broken.csv'" in refused[1]


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../up.txt", "a/../../b", "a\\b"])
def test_an_artifact_stays_inside_its_run(log: RunLog, path: str) -> None:
    with pytest.raises(ValueError, match="path of an artifact must be relative"):
        log.files({path: b""})


# ------------------------------------------------------------------------------ runs gone on with


def started(tracking: Tracking, name: str) -> str:
    """Id of a run that was killed in mid-run: the store has part of its last step."""
    run_id = tracking.start_run(name, {"kind": "select"})
    for step in (1, 2, 3):
        tracking.client.log_metric(run_id, "cost/best", 1.0 / step, step=step)
    for step in (1, 2):
        tracking.client.log_metric(run_id, "figure_0", 0.0, step=step)
    tracking.client.set_tag(run_id, "error", "the power went")
    tracking.finish(run_id, "FAILED")
    return run_id


def test_a_resumed_run_gets_what_it_lacks_once_and_nothing_twice(tracking: Tracking) -> None:
    run_id, left = started(tracking, "resumed"), started(tracking, "child")
    log = RunLog.resume(tracking, run_id, {}, "seed: 1\n")
    assert tracking.run(run_id).status == "RUNNING"
    with log:
        for epoch in range(1, 6):
            log.epoch(record(epoch))
            # As a retried step would.
            log.epoch(record(epoch))
        child = log.child("child", {}, {}, left, tracking.steps(left))
        child.metrics({step: {"best_cost": 1.0 / step} for step in range(1, 6)})
        child.finish()
    costs = [(step, 1.0 / step) for step in range(1, 6)]
    assert history(tracking, run_id, "cost/best") == history(tracking, left, "cost/best") == costs
    assert history(tracking, run_id, "figure_0") == [(step, 0.0) for step in range(1, 6)]
    # What the store has the metrics of, it has: an artifact is sent before them.
    listed = {entry.path for entry in tracking.client.list_artifacts(run_id, "epochs")}
    assert listed == {"epochs/0004.parquet", "epochs/0005.parquet"}
    for found in (tracking.run(run_id), tracking.run(left)):
        assert found.status == "FINISHED"
        assert "error" not in found.tags
    assert tracking.download(run_id, "config.yaml").read_text() == "seed: 1\n"


def test_a_child_is_one_run_though_the_answer_to_its_creation_was_lost(
    tracking: Tracking,
) -> None:
    lost = []

    def forgotten(create_run: Callable[..., Any], *args: Any, **options: Any) -> Any:
        created = create_run(*args, **options)
        if not lost:
            lost.append(created)
            raise TimeoutError("the answer is lost")
        return created

    run_id = tracking.start_run("parent of one", {})
    with log_of(disturbed(tracking, create_run=forgotten), run_id) as parent:
        child = parent.child("it's one", {"a": 1}, {"kind": "search"})
        child.metrics({0: {"cost": 0.1}})
        child.finish()
    (found,) = tracking.runs(f"tags.`mlflow.parentRunId` = '{run_id}'")
    assert lost[0].info.run_id == found.info.run_id == child.run_id
    assert (found.info.status, found.info.run_name) == ("FINISHED", "it's one")
    assert (found.data.params, found.data.metrics) == ({"a": "1"}, {"cost": 0.1})
    assert found.data.tags["kind"] == "search"


# ------------------------------------------------------------------------- no run is left running


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (EvaluationError("no fit\nworked"), "FAILED", "no fit"),
        (RuntimeError(f"at {URI}"), "FAILED", "RuntimeError: at http://***@host"),
        (KeyboardInterrupt(), "KILLED", "interrupted"),
        (SystemExit(3), "KILLED", "interrupted"),
    ],
)
def test_a_run_and_its_children_end_whatever_happens(
    tracking: Tracking, error: BaseException, status: str, reason: str
) -> None:
    parent_id = tracking.start_run("ends", {})
    parent = log_of(tracking, parent_id)
    children = [parent.child(f"search {i}", {}, {}) for i in range(3)]
    children[0].finish()
    children[1].finish("FAILED", "out of memory")
    with pytest.raises(type(error)), parent:
        raise error
    found = tracking.run(parent_id)
    assert (found.status, found.tags["error"]) == (status, reason)
    statuses = [tracking.run(child.run_id).status for child in children]
    assert statuses == ["FINISHED", "FAILED", "KILLED"]


def test_a_run_that_cannot_be_set_up_is_not_left_running(tracking: Tracking) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    with pytest.raises(StoreError, match="no space left"):
        RunLog.start(disturbed(tracking, log_artifact=full), "set up", {}, {}, "")
    (run,) = tracking.runs("attributes.run_name = 'set up'")
    assert run.info.status == "FAILED"
    assert "no space left" in run.data.tags["error"]


def test_a_run_whose_artifacts_are_not_taken_ends_and_says_how_to_send_them(
    tracking: Tracking,
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("the bucket is away")

    tags = {"kind": "select"}
    run_id = tracking.start_run("half a store", tags)
    log = log_of(disturbed(tracking, log_artifact=away), run_id, tags=tags)
    children = [log.child(name, {}, {}) for name in ("whole", "cut off", "stopped")]
    children[0].finish()
    log.files({"report.html": b"<p>"})
    children[1].finish()
    children[2].finish("KILLED")
    told = log.close(patience=0.5)
    assert told == (
        f"4 messages are queued for {tracking.label} (the bucket is away); when it is "
        f"available again, `swarm resume {run_id}` sends them"
    )
    found = tracking.run(run_id)
    assert (found.status, found.tags["error"]) == ("FAILED", told)
    statuses = [tracking.run(child.run_id).status for child in children]
    assert statuses == ["FINISHED", "FAILED", "KILLED"]
