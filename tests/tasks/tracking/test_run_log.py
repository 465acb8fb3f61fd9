"""Tests of the run log: no write is lost or doubled, no outage blocks, and every run ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import get_scorer

from swarm.errors import StoreError
from swarm.evaluation.types import Work
from swarm.problem.scoring import Scoring
from swarm.search.history import EpochRecord
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.curves import epoch_metrics
from tasks.tracking.run_log import RunLog
from tasks.tracking.writes import Write, Writes
from tests.servers import happens

URI = "http://ann:s3cret@host"
LOG_LOSS = Scoring("neg_log_loss", get_scorer("neg_log_loss"), upper=0.0)
WRITES = ("log_batch", "log_artifact", "set_terminated")


class Disturbed:
    """A client of a real store that replaces calls by ``call(plain, *arguments)``."""

    def __init__(self, client: Any, **calls: Callable[..., Any]) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._client, name)
        if name not in self._calls:
            return plain
        return lambda *args, **options: self._calls[name](plain, *args, **options)


@pytest.fixture(scope="module")
def tracking(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    return open_tracking(tracking_uri, "log", tmp_path_factory.mktemp("log"))


def disturbed(tracking: Tracking, **calls: Callable[..., Any]) -> Tracking:
    return replace(tracking, client=Disturbed(tracking.client, **calls))


def away(*_: Any, **__: Any) -> None:
    raise ConnectionError(f"{URI} is away")


def once_lost(lost: list[Any]) -> Callable[..., Any]:
    """Return a call whose first answer is lost, though the store has carried it out."""

    def call(plain: Callable[..., Any], *args: Any, **options: Any) -> Any:
        answer = plain(*args, **options)
        if not lost:
            lost.append(answer)
            raise TimeoutError("the answer is lost")
        return answer

    return call


def history(tracking: Tracking, run_id: str, key: str) -> list[tuple[int, float]]:
    points = tracking.client.get_metric_history(run_id, key)
    return sorted((point.step, point.value) for point in points)


def stored_epochs(tracking: Tracking, run_id: str) -> list[str]:
    return [Path(entry.path).stem for entry in tracking.client.list_artifacts(run_id, "epochs")]


def record(epoch: int) -> EpochRecord:
    masks = np.random.default_rng(epoch).random((30, 4)) < 0.5
    counts = dict.fromkeys(("evaluations", "distinct_evaluations", "fits"), 0.0)
    metrics = {"best_cost": 1.0 / epoch, "pbest_cost_mean": 0.5, "best_size": 2.0, **counts}
    metrics |= {"diversity": 0.0, "size_mean": 2.0}
    return EpochRecord(epoch, metrics, {"mask": masks, "size": masks.sum(axis=1)}, Work())


# ------------------------------------------------------------------- stores that are away or slow


def test_a_store_that_is_away_for_most_of_a_run_has_everything_once_at_its_end(
    tracking: Tracking, caplog: pytest.LogCaptureFixture
) -> None:
    is_away = threading.Event()

    def unless_away(plain: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return away() if is_away.is_set() else plain(*args, **options)

    run_id = tracking.start_run("away", {})
    log = RunLog(disturbed(tracking, **dict.fromkeys(WRITES, unless_away)), run_id)
    for epoch in range(1, 21):
        if epoch in (1, 15):
            (is_away.set if epoch == 1 else is_away.clear)()
        log.epoch(record(epoch), LOG_LOSS)
        if epoch == 14:
            log.files({"report.html": b"<p>"})
            log.patience = 0.0
            with pytest.raises(StoreError, match="15 writes") as caught:
                log.settle()
            assert "s3cret" not in str(caught.value)
            assert history(tracking, run_id, "epoch/best_log_loss") == []
    log.patience = 120.0
    assert log.close() == ""
    assert history(tracking, run_id, "epoch/best_log_loss") == [(n, 1.0 / n) for n in range(1, 21)]
    for name in tracking.run(run_id).data.metrics:
        assert [step for step, _ in history(tracking, run_id, name)] == list(range(1, 21)), name
    assert stored_epochs(tracking, run_id) == [f"{n:04d}" for n in range(1, 21)]
    assert tracking.download(run_id, "report.html").read_bytes() == b"<p>"
    assert tracking.run(run_id).info.status == "FINISHED"
    assert sum("is not responding" in message for message in caplog.messages) == 1
    assert "s3cret" not in caplog.text


def test_attempts_at_a_store_that_is_away_take_a_tenth_of_a_search_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    attempts: list[float] = []

    def times_out() -> None:
        attempts.append(now[0])
        now[0] += 60.0
        raise TimeoutError

    monkeypatch.setattr("tasks.tracking.writes.monotonic", lambda: now[0])
    writes = Writes(URI)
    for epoch in range(2000):
        now[0] += 3.0
        writes.add(Write(None, f"epoch {epoch}", times_out))
    assert len(writes.unsent) == 2000
    assert 1 < len(attempts) <= 1 + now[0] / 600.0


def test_a_write_that_ctrl_c_interrupts_is_sent_before_later_ones() -> None:
    sent: list[int] = []
    interrupts = [KeyboardInterrupt()]

    def send(number: int) -> None:
        if interrupts:
            raise interrupts.pop()
        sent.append(number)

    writes = Writes(URI)
    with pytest.raises(KeyboardInterrupt):
        writes.add(Write(None, "", partial(send, 0)))
    for number in (1, 2):
        writes.add(Write(None, "", partial(send, number)))
    assert sent == [0, 1, 2]
    assert not writes.unsent


def test_an_answer_that_gets_lost_doubles_no_metric(tracking: Tracking) -> None:
    run_id = tracking.start_run("lost answer", {})
    lost: list[Any] = []
    log = RunLog(disturbed(tracking, log_batch=once_lost(lost)), run_id)
    for step in range(4):
        log.metrics({step: {"cost": float(step)}})
    assert log.close() == ""
    assert lost
    assert history(tracking, run_id, "cost") == [(step, float(step)) for step in range(4)]


def test_a_write_that_can_never_be_accepted_holds_up_no_other(
    tracking: Tracking, caplog: pytest.LogCaptureFixture
) -> None:
    log = RunLog(tracking, tracking.start_run("refusals", {}))
    # A value of None is left out, but NaN and infinity are logged.
    log.metrics({0: {"nothing": math.nan, "far": math.inf, "left out": None, "odd[key]": 1.0}})
    log.metrics({7: {"bad//name": 0.5}})
    log.metrics({1: {"cost": 0.4}})
    assert log.close() == ""
    assert set(tracking.run(log.run_id).data.metrics) == {"cost", "nothing", "far", "odd_key_"}
    (refused,) = [message for message in caplog.messages if "store refused" in message]
    assert "metrics of step 7" in refused


def test_the_variable_of_mlflow_measures_the_machine(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    with RunLog.start(tracking, "measured", {}, {}, "") as log:
        name = "system/cpu_utilization_percentage"
        assert happens(lambda: name in tracking.run(log.run_id).data.metrics, 120)


# ------------------------------------------------------------------------------ runs gone on with


def cut_short(tracking: Tracking, name: str) -> str:
    """Return the id of a run that was killed while it logged its last step."""
    run_id = tracking.start_run(name, {"kind": "select"})
    for step in (1, 2, 3):
        tracking.client.log_metric(run_id, "epoch/best_log_loss", 1.0 / step, step=step)
    for step in (1, 2):
        for key in epoch_metrics(record(step).metrics, LOG_LOSS) | {"work/fits": 0.0}:
            if key != "epoch/best_log_loss":
                tracking.client.log_metric(run_id, key, 0.0, step=step)
    tracking.client.set_tag(run_id, "error", "the power went")
    tracking.finish(run_id, "FAILED")
    return run_id


def test_a_resumed_run_gets_what_it_lacks_once_and_nothing_twice(tracking: Tracking) -> None:
    run_id = cut_short(tracking, "resumed")
    child_id = cut_short(tracking, "child")
    log = RunLog.resume(tracking, run_id, {}, "seed: 1\n")
    assert tracking.run(run_id).info.status == "RUNNING"
    with log:
        for epoch in range(1, 6):
            log.epoch(record(epoch), LOG_LOSS)
        child = log.child("child", {}, {}, child_id, tracking.values(child_id))
        child.metrics({step: {"epoch/best_log_loss": 1.0 / step} for step in range(1, 6)})
        child.finish()
    costs = [(step, 1.0 / step) for step in range(1, 6)]
    for resumed_id in (run_id, child_id):
        assert history(tracking, resumed_id, "epoch/best_log_loss") == costs
    assert history(tracking, run_id, "epoch/diversity") == [(step, 0.0) for step in range(1, 6)]
    # An epoch whose metrics are stored is not sent again: its artifact was sent before them.
    assert stored_epochs(tracking, run_id) == ["0003", "0004", "0005"]
    for run in (tracking.run(run_id), tracking.run(child_id)):
        assert run.info.status == "FINISHED"
        assert "error" not in run.data.tags
    assert tracking.download(run_id, "config.yaml").read_text() == "seed: 1\n"


def test_a_metric_of_the_whole_run_has_its_latest_value(tracking: Tracking) -> None:
    with RunLog(tracking, run_id := cut_short(tracking, "whole")) as log:
        log.metrics({0: {"test/f1": 0.5, "test/recall": 0.25}})
    for value in (0.5, 0.75, 0.75, 0.25):
        with RunLog.resume(tracking, run_id, {}) as log:
            log.metrics({0: {"test/f1": value, "test/recall": 0.25}})
        assert tracking.run(run_id).data.metrics["test/f1"] == value
    assert history(tracking, run_id, "test/recall") == [(0, 0.25)]


def test_a_child_is_one_run_though_the_answer_to_its_creation_was_lost(tracking: Tracking) -> None:
    lost: list[Any] = []
    run_id = tracking.start_run("parent of one", {})
    with RunLog(disturbed(tracking, create_run=once_lost(lost)), run_id) as parent:
        child = parent.child("it's one", {"a": 1}, {"kind": "search"})
        child.metrics({0: {"cost": 0.1}})
        child.finish()
    (run,) = tracking.runs(f"tags.`mlflow.parentRunId` = '{run_id}'")
    assert lost[0].info.run_id == run.info.run_id == child.run_id
    assert (run.info.status, run.info.run_name) == ("FINISHED", "it's one")
    assert (run.data.params, run.data.metrics) == ({"a": "1"}, {"cost": 0.1})
    assert run.data.tags["kind"] == "search"


# ------------------------------------------------------------------------- no run is left running


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError(f"at {URI}"), "FAILED", "RuntimeError: at http://***@host"),
        (KeyboardInterrupt(), "KILLED", "interrupted"),
    ],
)
def test_a_run_and_its_children_end_whatever_happens(
    tracking: Tracking, error: BaseException, status: str, reason: str
) -> None:
    parent = RunLog(tracking, tracking.start_run("ends", {}))
    children = [parent.child(f"search {i}", {}, {}) for i in range(3)]
    children[0].finish()
    children[1].finish("FAILED", "out of memory")
    with pytest.raises(type(error)), parent:
        raise error
    run = tracking.run(parent.run_id)
    assert (run.info.status, run.data.tags["error"]) == (status, reason)
    statuses = [tracking.run(child.run_id).info.status for child in children]
    assert statuses == ["FINISHED", "FAILED", "KILLED"]


def test_a_run_that_cannot_be_set_up_is_not_left_running(tracking: Tracking) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    with pytest.raises(StoreError, match="no space left"):
        RunLog.start(disturbed(tracking, log_artifact=full), "set up", {}, {}, "")
    (run,) = tracking.runs("attributes.run_name = 'set up'")
    assert run.info.status == "FAILED"


def test_a_run_whose_artifacts_are_not_taken_ends_and_says_how_to_send_them(
    tracking: Tracking,
) -> None:
    tags = {"kind": "select"}
    run_id = tracking.start_run("half a store", tags)
    store = replace(disturbed(tracking, log_artifact=away), option=" --tracking-uri here")
    log = RunLog(store, run_id, tags)
    children = [log.child(name, {}, {}) for name in ("whole", "cut off", "stopped")]
    children[0].finish()
    log.settle()
    log.files({"report.html": b"<p>"})
    children[1].finish()
    children[2].finish("KILLED")
    message = log.close(patience=0.0)
    assert message.startswith("4 writes")
    assert f"`swarm resume {run_id} --tracking-uri here`" in message
    run = tracking.run(run_id)
    assert (run.info.status, run.data.tags["error"]) == ("FAILED", message)
    statuses = [tracking.run(child.run_id).info.status for child in children]
    assert statuses == ["FINISHED", "FAILED", "KILLED"]
