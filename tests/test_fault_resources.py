"""Workers that hang or run out of memory, disks that are full, clocks that step back."""

from __future__ import annotations

import errno
import faulthandler
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm.errors import ConfigError, EvaluationError, StoreError, TransientError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.fitting import Job, fit_mask
from swarm.evaluation.workers import Deadline
from swarm.problem.hints import prepare_hints
from swarm.search.budget import Budget
from swarm.search.driver import Driver
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.run_log import RunLog
from tests.moody import HangsOnAll, Moody
from tests.servers import happens
from tests.small_run import Bench
from tests.test_workers import (
    MASKS,
    evaluate,
    needs_proc,
    nobody_left_behind,
    notes,
    problem_of,
    same,
)

pytestmark = pytest.mark.faults

# The one subset that hangs, or fails.
ONE = " ".join(f"x{i}" for i in np.flatnonzero(MASKS[4]))


@needs_proc
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_that_hangs_fails_and_everything_else_is_as_without_it(
    tmp_path: Path, n_jobs: int
) -> None:
    archive = Archive()
    hanging = problem_of(Moody(ONE, "hangs", str(tmp_path)))
    with nobody_left_behind():
        late = evaluate(hanging, archive, order=(2, 0, 1), n_jobs=n_jobs, timeout=60.0)
    same(late, evaluate(problem_of(Moody(ONE, "fails")), order=(2, 0, 1)))
    assert np.flatnonzero(late.failed).tolist() == [4]
    assert late.first_error.startswith("TimeoutError: ")
    assert f"fold 2 with a subset of {len(ONE.split())} units" in late.first_error
    assert str(os.getpid()) not in {pid for (pid,) in notes(tmp_path, "fit")}
    again = evaluate(hanging, archive, order=(2, 0, 1))
    assert np.array_equal(again.costs, late.costs)
    assert again.work.fits == 0


@needs_proc
def test_fits_in_time_are_left_alone() -> None:
    problem = problem_of(Moody())
    same(evaluate(problem), evaluate(problem, n_jobs=2, timeout=600.0))


@needs_proc
def test_a_refit_that_hangs_costs_its_importances_and_not_the_mask() -> None:
    problem = problem_of(HangsOnAll(), "refit")
    with CrossValidation(problem, n_jobs=1, timeout=60.0) as evaluator:
        found = evaluator.evaluate(MASKS[:1], np.full(1, np.inf), np.arange(3))
    assert np.isfinite(found.costs).all()
    assert not found.failed.any()
    assert not found.importances.any()


@pytest.mark.parametrize("backend", ["threading", "sequential", "dask"])
def test_a_timeout_is_refused_where_no_worker_can_be_ended(backend: str) -> None:
    with pytest.raises(ConfigError, match=f"'loky'.*'{backend}'"):
        CrossValidation(problem_of(GaussianNB()), backend=backend, timeout=5.0)


@needs_proc
@pytest.mark.parametrize(
    "options", [{"n_jobs": 2}, {"n_jobs": 1, "timeout": 600.0}], ids=["two", "timeout"]
)
def test_workers_out_of_memory_are_one_sentence_and_blame_no_subset(
    options: dict[str, Any],
) -> None:
    problem, archive = problem_of(Moody("x3", "memory")), Archive()
    with nobody_left_behind(), pytest.raises(EvaluationError, match="memory"):
        evaluate(problem, archive, **options)
    archive.check()
    known = archive.open_problem(problem).lookup(MASKS)
    assert not any(record.failed for record in known)
    assert not any(known[row].has_cost.any() for row in np.flatnonzero(MASKS[:, 3]))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ImportError("x.so: cannot allocate memory in static TLS block"),
        ValueError("std::bad_alloc"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_this_process_out_of_memory_is_one_sentence_too(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(GaussianNB, "fit", full)
    archive = Archive()
    problem = problem_of(GaussianNB())
    with pytest.raises(EvaluationError, match="out of memory"):
        evaluate(problem, archive, exact=False)
    assert not any(record.has_cost.any() for record in archive.open_problem(problem).lookup(MASKS))


@needs_proc
@pytest.mark.parametrize(
    "options",
    [
        {"n_jobs": 2},
        {"n_jobs": 1, "timeout": 600.0},
        {"n_jobs": 2, "backend": "threading"},
        {"n_jobs": 2, "backend": "dask"},
    ],
    ids=["loky", "timeout", "threading", "dask"],
)
def test_a_connection_that_workers_lack_fails_no_subset_and_a_later_run_trains_them(
    options: dict[str, Any], tmp_path: Path
) -> None:
    problem, archive = problem_of(Moody("", "away", str(tmp_path))), Archive()
    with pytest.raises(TransientError, match="ConnectionError: the store is away"):
        evaluate(problem, archive, **options)
    assert not any(record.failed for record in archive.open_problem(problem).lookup(MASKS))
    (tmp_path / "back").touch()
    same(evaluate(problem, archive, **options), evaluate(problem_of(GaussianNB())))


def test_a_watchdog_that_no_memory_is_left_for_fails_no_subset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("unable to start watchdog thread")

    monkeypatch.setattr(faulthandler, "dump_traceback_later", full)
    problem = problem_of(GaussianNB())
    job = Job(0, MASKS[0], np.full(problem.n_folds, np.nan), np.arange(3), np.inf)
    with pytest.raises(MemoryError, match="watchdog"):
        fit_mask(problem, job, partial(Deadline(1.0, tmp_path, 1).watch, job))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, where this user may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command to make a small file system with")
    if made.returncode:
        pytest.skip(f"a small file system cannot be made: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65536, 4096, 512, 1):
            try:
                while filler.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    return file


def search_of(archive: Archive, strategy: str = "random") -> Driver:
    problem = problem_of(Moody())
    evaluator = CrossValidation(problem, archive, exact=False)
    hints = prepare_hints(problem.features, problem.space, needs=())
    search = Search(problem, make(strategy, {}), hints=hints, budget=Budget(epochs=6))
    return search.driver(evaluator)


def test_a_full_disk_stops_the_search_and_it_goes_on_once_there_is_room(small_disk: Path) -> None:
    undisturbed = search_of(Archive()).run()
    archive = Archive(f"sqlite:///{small_disk}/archive.db")
    filler = None

    def fills(record: Any, _: Any) -> None:
        nonlocal filler
        if record.epoch == 2:
            filler = fill(small_disk)

    with pytest.raises(StoreError, match=r"archive.*disk"):
        search_of(archive).run(fills)
    archive.close()
    assert filler is not None
    filler.unlink()
    archive = Archive(f"sqlite:///{small_disk}/archive.db")
    archive.check()
    resumed = search_of(archive).run()
    assert resumed.history.equals(undisturbed.history)
    assert np.array_equal(resumed.best_mask, undisturbed.best_mask)
    archive.check()
    archive.close()


def test_artifacts_on_a_full_disk_wait_and_are_written_once_there_is_room(
    small_disk: Path, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    tracking = open_tracking(bench.uri, "full disk", small_disk / "artifacts")
    log = RunLog(tracking, tracking.start_run("full", {}))
    filler = fill(small_disk)
    log.files({"large.bin": b"\1" * 100_000})
    log.metrics({0: {"cost": 0.5}})
    assert happens(lambda: "no space" in caplog.text.lower(), 120)
    log.patience = 0.0
    with pytest.raises(StoreError, match=r"2 messages are queued for .*[Nn]o space"):
        log.settle()
    log.patience = 120.0
    filler.unlink()
    assert log.close() == ""
    assert tracking.download(log.run_id, "large.bin").read_bytes() == b"\1" * 100_000
    assert tracking.values(log.run_id) == {"cost": {0: 0.5}}


def test_a_clock_that_steps_back_puts_nothing_out_of_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps order what is logged, and no cost depends on a clock."""
    tracking: Tracking = bench.tracking
    run_id = tracking.start_run("clock", {})
    true, offset = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true() + offset[0])
    log = RunLog(tracking, run_id)
    for step in range(6):
        offset[0] = -86_400.0 * (step % 3)
        log.metrics({step: {"cost": 1.0 - step / 10}})
        log.files({f"epochs/{step:04d}.parquet": bytes([step])})
    assert log.close() == ""
    found = tracking.client.get_metric_history(run_id, "cost")
    assert sorted((point.step, point.value) for point in found) == [
        (step, 1.0 - step / 10) for step in range(6)
    ]
    assert set(tracking.values(run_id)["cost"]) == set(range(6))
    assert tracking.run(run_id).data.metrics["cost"] == 0.5

    archive = Archive()
    undisturbed = search_of(Archive()).run()

    def steps_back(record: Any, _: Any) -> None:
        offset[0] -= 3600.0

    shaken = search_of(archive).run(steps_back)
    assert shaken.history.equals(undisturbed.history)
