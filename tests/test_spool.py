"""Nothing a run has to tell is lost, doubled or out of order, and telling it takes no time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import StoreError
from tasks.spool import Spool
from tasks.tracking import Tracking, open_tracking

RUN = "a" * 32


class Store:
    """A client that writes down what it accepts, can be away, slow, or die after accepting."""

    uri = "http://ann:s3cret@host"

    def __init__(self) -> None:
        self.client = self
        self.away = threading.Event()
        self.delay = 0.0
        self.calls: list[tuple[str, Any]] = []

    def _take(self, kind: str, what: Any) -> None:
        time.sleep(self.delay)
        if self.away.is_set():
            raise ConnectionError("http://ann:s3cret@host is away")
        self.calls.append((kind, what))

    def log_batch(self, run_id: str, metrics: Any = (), tags: Any = ()) -> None:
        points = [(m.step, m.key, m.value) for m in metrics]
        self._take("batch", points or [(t.key, t.value) for t in tags])

    def log_artifact(self, run_id: str, path: str, folder: str | None = None) -> None:
        name = f"{folder}/{Path(path).name}" if folder else Path(path).name
        self._take("artifact", (name, Path(path).read_bytes()))

    def set_terminated(self, run_id: str, status: str) -> None:
        self._take("status", status)

    def points(self) -> list[Any]:
        return [point for kind, what in self.calls if kind == "batch" for point in what]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def spools() -> Iterator[list[Spool]]:
    opened: list[Spool] = []
    yield opened
    for spool in opened:
        spool.close(0)


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Tracking:
    return open_tracking(f"sqlite:///{tmp_path_factory.mktemp('spool')}/mlflow.db", "spool")


def history(tracking: Tracking, run_id: str, key: str) -> list[tuple[int, float]]:
    found = tracking.client.get_metric_history(run_id, key)
    return sorted((point.step, point.value) for point in found)


def test_what_was_told_while_the_store_was_away_arrives_in_order_and_once(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.away.set()
    spool = Spool(tmp_path / "spool", store, RUN, first_wait=0.02, longest_wait=0.05)
    spools.append(spool)
    for step in range(5):
        spool.metrics(step, {"cost": step / 10})
        spool.artifact(f"epochs/{step:04d}.parquet", bytes([step]) * 3)
    spool.tags({"best": "yes"})
    spool.finish("FINISHED")
    assert spool.drain(0.3) == 12
    assert store.calls == []
    assert "s3cret" not in str(spool.last_error)
    store.away.clear()
    assert spool.drain(5) == 0
    expected: list[Any] = []
    for step in range(5):
        expected.append(("batch", [(step, "cost", step / 10)]))
        expected.append(("artifact", (f"epochs/{step:04d}.parquet", bytes([step]) * 3)))
    assert store.calls == [*expected, ("batch", [("best", "yes")]), ("status", "FINISHED")]
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_slow_store_does_not_slow_the_search(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.delay = 0.2
    spool = Spool(tmp_path, store, RUN)
    spools.append(spool)
    started = time.monotonic()
    for step in range(40):
        spool.metrics(step, {"cost": 1.0, "size": 2.0})
    assert time.monotonic() - started < 40 * 0.2 / 4
    assert spool.drain(10) == 0
    assert len(store.points()) == 80
    assert len(store.calls) <= 5


def test_leftovers_of_a_dead_process_are_sent_before_anything_new(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.away.set()
    dead = Spool(tmp_path, store, RUN)
    dead.metrics(0, {"cost": 0.3})
    dead.artifact("a.txt", b"first")
    assert dead.close(0) == 2
    (tmp_path / "0000000003.part").write_bytes(b"half a mess")
    store.away.clear()
    spool = Spool(tmp_path, store, RUN)
    spools.append(spool)
    spool.metrics(1, {"cost": 0.2})
    assert spool.drain(5) == 0
    assert [kind for kind, _ in store.calls] == ["batch", "artifact", "batch"]
    assert store.points() == [(0, "cost", 0.3), (1, "cost", 0.2)]


def test_a_crash_between_sending_and_deleting_doubles_no_metric(
    tmp_path: Path, store: Store, tracking: Tracking
) -> None:
    run_id = tracking.start_run("crash", {}, {})
    store.away.set()
    dead = Spool(tmp_path, store, run_id)
    for step in range(3):
        dead.metrics(step, {"cost": step / 10, "nothing": math.nan, "far": math.inf})
    dead.artifact("epochs/0000.parquet", b"rows")
    dead.close(0)
    sent_but_not_deleted = {path: path.read_bytes() for path in tmp_path.glob("*.entry")}
    assert Spool(tmp_path, tracking, run_id).close(20) == 0
    for path, data in sent_but_not_deleted.items():
        path.write_bytes(data)
    again = Spool(tmp_path, tracking, run_id)
    again.metrics(3, {"cost": 0.9})
    assert again.close(20) == 0
    assert history(tracking, run_id, "cost") == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.9)]
    assert len(history(tracking, run_id, "nothing")) == 3
    assert len(history(tracking, run_id, "far")) == 3
    assert tracking.download(run_id, "epochs/0000.parquet").read_bytes() == b"rows"


def test_an_answer_that_gets_lost_doubles_no_metric(tmp_path: Path, tracking: Tracking) -> None:
    run_id = tracking.start_run("lost answer", {}, {})

    class Forgetful:
        client: Any
        uri = ""
        lost = 0

        def log_batch(self, *args: Any, **kwargs: Any) -> None:
            tracking.client.log_batch(*args, **kwargs)
            self.lost += 1
            if self.lost <= 2:
                raise TimeoutError("the answer is lost")

    forgetful = Forgetful()
    forgetful.client = forgetful
    spool = Spool(tmp_path, forgetful, run_id, first_wait=0.01)
    for step in range(4):
        spool.metrics(step, {"cost": float(step)})
    assert spool.close(20) == 0
    assert forgetful.lost >= 3
    assert history(tracking, run_id, "cost") == [(step, float(step)) for step in range(4)]


def test_more_metrics_than_one_call_takes_go_in_several(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.away.set()
    spool = Spool(tmp_path, store, RUN, first_wait=0.02)
    spools.append(spool)
    spool.metrics(0, {f"m{i}": 1.0 for i in range(2300)})
    for step in range(1, 4):
        spool.metrics(step, {f"m{i}": 1.0 for i in range(400)})
    store.away.clear()
    assert spool.drain(5) == 0
    assert [len(what) for _, what in store.calls] == [1000, 1000, 300, 800, 400]


def test_a_message_that_can_never_be_accepted_holds_up_no_other(
    tmp_path: Path, tracking: Tracking
) -> None:
    run_id = tracking.start_run("refusals", {}, {})
    (tmp_path / "0000000001.entry").write_bytes(b"no message at all\n")
    spool = Spool(tmp_path, tracking, run_id)
    spool.metrics(0, {"cost": 0.5})
    spool.metrics(0, {"bad//name": 0.5})
    spool.metrics(1, {"cost": 0.4})
    assert spool.close(20) == 0
    assert history(tracking, run_id, "cost") == [(0, 0.5), (1, 0.4)]
    assert sorted(path.name for path in spool.refused.iterdir()) == [
        "0000000001.entry",
        "0000000003.entry",
    ]


def test_waiting_metrics_count_for_the_last_step(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.away.set()
    spool = Spool(tmp_path, store, RUN)
    spools.append(spool)
    assert spool.last_step("cost") == -1
    spool.metrics(4, {"cost": 0.1, "left out": None})
    spool.metrics(5, {"size": 3.0})
    spool.metrics(6, {"left out": None})
    assert (spool.last_step("cost"), spool.last_step("left out")) == (4, -1)


def test_a_file_is_copied_when_it_is_told(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    store.away.set()
    spool = Spool(tmp_path / "spool", store, RUN, first_wait=0.02)
    spools.append(spool)
    file = tmp_path / "report.html"
    file.write_bytes(b"as it was\n\x00")
    spool.artifact_file("report/index.html", file)
    file.unlink()
    store.away.clear()
    assert spool.drain(5) == 0
    assert store.calls == [("artifact", ("report/index.html", b"as it was\n\x00"))]


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../up.txt", "a/../../b"])
def test_an_artifact_stays_inside_its_run(
    tmp_path: Path, store: Store, spools: list[Spool], path: str
) -> None:
    spool = Spool(tmp_path, store, RUN)
    spools.append(spool)
    with pytest.raises(ValueError, match="path_in_run"):
        spool.artifact(path, b"")


def test_a_message_that_cannot_be_written_is_told(
    tmp_path: Path, store: Store, spools: list[Spool]
) -> None:
    spool = Spool(tmp_path, store, RUN)
    spools.append(spool)
    with pytest.raises(StoreError, match="cannot be written"):
        spool.artifact_file("a.txt", tmp_path / "absent.txt")
    assert spool.drain(1) == 0
