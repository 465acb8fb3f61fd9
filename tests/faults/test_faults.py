"""Tests of kills at any moment, dying workers and Ctrl-C: the answer is never lost.

``SWARM_FAULTS=long`` kills more often, with more workers.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conf.load import as_yaml
from flows.display.terminal import store_option
from swarm.storage.archive import Archive
from swarm.storage.features_file import read_published
from tests.flows.test_refresh import Desk, snapshot
from tests.small_run import NO_REPORT, Bench
from tests.warm_swarm import Command, WarmSwarm

LONG = os.environ.get("SWARM_FAULTS") == "long"
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and process groups"),
    # The first test waits for the servers and the undisturbed run.
    pytest.mark.timeout(3600 if LONG else 1800),
]

KILLS = 100 if LONG else 10
# A command dies while its archive commits: the order names the number of the commit, and the
# seconds after its start. A clock outside would hardly ever hit that moment.
COMMIT_KILLER = """
import pathlib, signal, sqlalchemy, threading, time
commits = 0

def die(seconds):
    time.sleep(seconds)
    os.killpg(0, signal.SIGKILL)

@sqlalchemy.event.listens_for(sqlalchemy.Engine, "commit")
def count(connection):
    global commits
    order = pathlib.Path({order!r})
    if order.exists() and str(connection.engine.url.database).endswith("archive.db"):
        commits += 1
        number, seconds = order.read_text().split()
        if commits == int(number):
            threading.Thread(target=die, args=(float(seconds),)).start()
"""
# The tracking store is away as long as a file exists. A command does not wait for it at its end for
# two minutes, as the product does: the test would show nothing more.
STORE_AWAY = """
import mlflow
from tasks.tracking.run_log import RunLog
RunLog.patience = property(lambda log: 0.0 if pathlib.Path({away!r}).exists() else 120.0)
def unless_away(plain):
    def call(self, *args, **options):
        if pathlib.Path({away!r}).exists():
            raise ConnectionError("the store is away")
        return plain(self, *args, **options)
    return call
for name in ("log_batch", "log_artifact", "set_terminated"):
    setattr(mlflow.MlflowClient, name, unless_away(getattr(mlflow.MlflowClient, name)))
"""
# A run is killed this often in a row before it may finish.
KILLS_PER_RUN = 5
EPOCHS = 5
# An epoch of this many trees takes long enough to be hit.
MODEL = {
    "estimator": "lightgbm.LGBMClassifier",
    "params": {"n_estimators": 150, "num_leaves": 4, "min_child_samples": 5},
}


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that orders the next command to die at a commit, after some seconds."""
    return tmp_path_factory.mktemp("orders") / "order"


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that hides the tracking store from every command while it exists."""
    return tmp_path_factory.mktemp("stores") / "away"


@pytest.fixture(scope="module")
def warm(
    prefect_server: str, order: Path, away: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WarmSwarm]:
    env = {"PREFECT_API_URL": prefect_server}
    prelude = COMMIT_KILLER.format(order=str(order)) + STORE_AWAY.format(away=str(away))
    # The report takes half of so small a run, and a kill cannot harm it.
    prelude += NO_REPORT
    with WarmSwarm(tmp_path_factory.mktemp("said"), env, prelude) as started:
        yield started


def configured(bench: Bench, n_jobs: int = 1, epochs: int = EPOCHS) -> str:
    return bench.file(model=MODEL, budget={"epochs": epochs}, evaluation={"n_jobs": n_jobs})


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing happened to.

    `stored` is what :func:`stored` returns; `searched` and `ended` are the seconds until the end of
    the search and of the run.
    """

    answer: dict[str, bytes]
    stored: tuple[dict[str, list[int]], set[str]]
    searched: float
    ended: float


@pytest.fixture(scope="module")
def undisturbed(
    warm: WarmSwarm, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    bench = Bench(tmp_path_factory.mktemp("undisturbed"), tracking_uri)
    path = configured(bench)
    # The experiment is created before the clock starts.
    bench.tracking  # noqa: B018
    started = time.monotonic()
    command = warm.start("select", path, "-v")
    command.wait_for(f"epoch {EPOCHS}/")
    searched = time.monotonic() - started
    assert command.wait() == 0, command.said()
    ended = time.monotonic() - started
    (run,) = bench.runs()
    return Undisturbed(
        bench.answer(run.info.run_id), stored(bench, run.info.run_id), searched, ended
    )


def stored(bench: Bench, run_id: str) -> tuple[dict[str, list[int]], set[str]]:
    """Return the step of every point of every metric, and the path of every artifact."""
    names = bench.tracking.run(run_id).data.metrics
    tracking = bench.tracking.client
    points = {
        name: sorted(point.step for point in tracking.get_metric_history(run_id, name))
        for name in names
    }
    paths = {entry.path for entry in tracking.list_artifacts(run_id)}
    return points, paths | {entry.path for entry in tracking.list_artifacts(run_id, "epochs")}


def resumable(bench: Bench) -> str | None:
    """Return the run to resume, if any: one that has stored its configuration."""
    for run in bench.runs():
        if bench.tracking.find_artifact(run.info.run_id, "config.yaml"):
            return str(run.info.run_id)
    return None


def go_on(warm: WarmSwarm, bench: Bench, path: str) -> Command:
    run_id = resumable(bench)
    if run_id is None:
        return warm.start("select", path)
    return warm.start("resume", run_id, "--tracking-uri", bench.uri)


def resume(warm: WarmSwarm, bench: Bench, *options: str) -> None:
    (run,) = bench.runs()
    resumed = warm.start("resume", run.info.run_id, "--tracking-uri", bench.uri, *options)
    assert resumed.wait() == 0, resumed.said()


def check_archive(bench: Bench) -> None:
    if (bench.folder / "archive.db").exists():
        archive = Archive(bench.archive)
        archive.check()
        archive.close()


def assert_as_if_nothing_had_happened(bench: Bench, undisturbed: Undisturbed) -> None:
    run_id = resumable(bench)
    assert run_id is not None
    run = bench.tracking.run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["stopped"] == "epochs"
    assert "error" not in run.data.tags
    assert bench.answer(run_id) == undisturbed.answer
    assert stored(bench, run_id) == undisturbed.stored


def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_happened(
    warm: WarmSwarm, undisturbed: Undisturbed, order: Path, tracking_uri: str, tmp_path: Path
) -> None:
    rng = random.Random(20)
    kills = 0
    runs = 0
    in_commit = 0
    while kills < KILLS:
        runs += 1
        bench = Bench(tmp_path / f"run{runs}", tracking_uri)
        bench.folder.mkdir()
        path = configured(bench, n_jobs=2 if LONG and runs % 2 else 1)
        for number in range(min(KILLS_PER_RUN, KILLS - kills)):
            if number % 2:
                order.write_text(f"{rng.randint(1, 6)} {rng.choice([0, 0.0003, 0.001, 0.003])}")
            command = go_on(warm, bench, path)
            if number % 2:
                died = command.wait() == -signal.SIGKILL
                order.unlink()
                assert died or command.status == 0, command.said()
                check_archive(bench)
                kills += died
                in_commit += died
                if not died:
                    break
                continue
            # Most kills are aimed at the search, whose results can be lost, though it is short.
            latest = undisturbed.ended if rng.random() < 0.4 else undisturbed.searched
            time.sleep(rng.uniform(0.0, latest))
            if command.poll() is not None:
                assert command.status == 0, command.said()
                break
            command.signal(signal.SIGKILL)
            if command.wait() == 0:
                # The run ended at the very moment of the kill.
                break
            assert command.status == -signal.SIGKILL, command.said()
            kills += 1
            check_archive(bench)
        command = go_on(warm, bench, path)
        assert command.wait() == 0, command.said()
        assert_as_if_nothing_had_happened(bench, undisturbed)
    assert in_commit >= KILLS // 5
    print(f"{kills} kills, {in_commit} of them while committing, over {runs} runs")


STEPS = ["training an ensemble", "judging", "sending the rest", "storing the models"]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_after_its_search_is_completed_by_a_resume(
    step: str, warm: WarmSwarm, undisturbed: Undisturbed, bench: Bench
) -> None:
    command = warm.start("select", configured(bench), "-v")
    command.wait_for(step)
    command.signal(signal.SIGKILL)
    assert command.wait() == -signal.SIGKILL, command.said()
    resume(warm, bench)
    assert_as_if_nothing_had_happened(bench, undisturbed)


def test_a_refresh_killed_while_it_promotes_and_publishes_is_completed_by_the_next(
    warm: WarmSwarm, bench: Bench
) -> None:
    desk = Desk(bench)
    snapshot(desk.snapshots, "2026-01-05", 3)
    (bench.folder / "desk.yaml").write_text(as_yaml(desk.config()))
    command = warm.start("refresh", str(bench.folder / "desk.yaml"))
    command.wait_for("comparing with the champion")
    command.signal(signal.SIGKILL)
    command.wait()
    command = warm.start("refresh", str(bench.folder / "desk.yaml"))
    assert command.wait() == 0, command.said()
    champion = desk.champions.require(desk.name)
    assert champion.pending is None
    assert read_published(str(desk.published))["version"] == champion.version
    assert "RUNNING" not in bench.statuses()


def test_a_run_that_ends_while_its_store_is_away_says_so_and_is_sent_by_a_resume(
    warm: WarmSwarm, undisturbed: Undisturbed, away: Path, bench: Bench
) -> None:
    command = warm.start("select", configured(bench), "-v")
    command.wait_for("epoch 2/")
    away.touch()
    try:
        assert command.wait() == 2, command.said()
    finally:
        away.unlink()
    assert f"epoch {EPOCHS}/{EPOCHS}" in command.said(), "the search was to go on"
    (run,) = bench.runs()
    last = command.said().splitlines()[-1]
    assert f"`swarm resume {run.info.run_id}{store_option(bench.uri)}`" in last
    assert "Traceback" not in command.said()
    resume(warm, bench)
    assert_as_if_nothing_had_happened(bench, undisturbed)


def test_a_worker_that_dies_in_mid_epoch_changes_nothing(
    warm: WarmSwarm, undisturbed: Undisturbed, bench: Bench
) -> None:
    command = warm.start("select", configured(bench, n_jobs=2), "-v")
    command.wait_for("epoch 2/")
    workers = command.workers()
    assert workers, command.family()
    os.kill(workers[0], signal.SIGKILL)
    assert command.wait() == 0, command.said()
    assert "Traceback" not in command.said()
    assert_as_if_nothing_had_happened(bench, undisturbed)


def interrupted(
    warm: WarmSwarm, bench: Bench, text: str, n_jobs: int, by: int = signal.SIGINT
) -> tuple[Command, Any]:
    """Start an endless search, and send it a signal as soon as it prints `text`."""
    command = warm.start("select", configured(bench, n_jobs, epochs=100_000), "-v")
    command.wait_for(text)
    command.signal(by)
    command.wait()
    (run,) = bench.runs()
    return command, bench.tracking.run(run.info.run_id)


def test_ctrl_c_ends_the_search_with_a_usable_answer(warm: WarmSwarm, bench: Bench) -> None:
    command, run = interrupted(warm, bench, "epoch 2/", n_jobs=2)
    assert command.status == 0, command.said()
    assert "Traceback" not in command.said()
    assert f"`swarm resume {run.info.run_id}{store_option(bench.uri)}`" in command.said()
    assert not command.left()
    assert run.info.status == "FINISHED"
    assert run.data.tags["stopped"] == "interrupted"
    assert run.data.tags["model"].startswith("models:/m-")
    assert bench.answer(run.info.run_id)["features.json"]


def test_ctrl_c_before_the_first_epoch_leaves_a_killed_run_that_can_be_resumed(
    warm: WarmSwarm, undisturbed: Undisturbed, bench: Bench
) -> None:
    command, run = interrupted(warm, bench, "run ", n_jobs=1)
    assert command.status == 130, command.said()
    last = command.said().splitlines()[-1]
    assert f"`swarm resume {run.info.run_id}{store_option(bench.uri)}`" in last
    assert not command.left()
    assert run.info.status == "KILLED"
    resume(warm, bench, "--set", f"budget.epochs={EPOCHS}")
    assert_as_if_nothing_had_happened(bench, undisturbed)


def test_sigterm_ends_a_run_as_killed_with_its_own_status(warm: WarmSwarm, bench: Bench) -> None:
    command, run = interrupted(warm, bench, "epoch 2/", n_jobs=2, by=signal.SIGTERM)
    # A shell reports a signal as 128 and its number.
    assert command.status in (-signal.SIGTERM, 128 + signal.SIGTERM), command.said()
    assert "Traceback" not in command.said()
    assert not command.left()
    assert run.info.status == "KILLED"
