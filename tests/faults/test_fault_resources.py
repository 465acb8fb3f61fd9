"""Tests of workers that hang or lack memory, of full disks, and of memory that stays flat."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm.errors import EvaluationError, StoreError, TransientError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.fitting import Job, fit_mask
from swarm.evaluation.workers import Deadline
from swarm.problem.hints import prepare_hints
from swarm.search.budget import Budget
from swarm.search.driver import Driver
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from tests.flows.test_refresh import Desk, snapshot
from tests.moody import Moody
from tests.small_run import Bench
from tests.swarm.evaluation.test_workers import (
    MASKS,
    assert_same,
    evaluate,
    nobody_left_behind,
    notes,
    problem_of,
)

pytestmark = pytest.mark.faults

LONG = os.environ.get("SWARM_FAULTS") == "long"
REFRESHES = 50 if LONG else 6
# After this many refreshes, caches and tables have their final size.
WARM = 5 if LONG else 3
# One subset hangs, or fails.
TROUBLED = " ".join(f"x{i}" for i in np.flatnonzero(MASKS[4]))


def test_a_fit_that_hangs_fails_and_everything_else_is_as_without_it(tmp_path: Path) -> None:
    archive = Archive()
    hanging = problem_of(Moody(TROUBLED, "hangs", str(tmp_path)))
    with nobody_left_behind():
        late = evaluate(hanging, archive, order=(2, 0, 1), n_jobs=2, timeout=60.0)
    assert_same(late, evaluate(problem_of(Moody(TROUBLED, "fails")), order=(2, 0, 1)))
    assert np.flatnonzero(late.failed).tolist() == [4]
    assert late.first_error.startswith("TimeoutError: ")
    assert f"with a subset of {len(TROUBLED.split())} units" in late.first_error
    assert str(os.getpid()) not in {pid for (pid,) in notes(tmp_path, "fit")}
    again = evaluate(hanging, archive, order=(2, 0, 1))
    assert np.array_equal(again.costs, late.costs)
    assert again.work.fits == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory it has from /proc")
def test_workers_out_of_memory_are_one_sentence_and_blame_no_subset() -> None:
    problem = problem_of(Moody("x3", "memory"))
    archive = Archive()
    with nobody_left_behind(), pytest.raises(EvaluationError, match="memory"):
        evaluate(problem, archive, n_jobs=2)
    archive.check()
    records = archive.open_problem(problem).lookup(MASKS)
    assert not any(record.failed for record in records)
    assert not any(records[row].has_cost.any() for row in np.flatnonzero(MASKS[:, 3]))


def test_this_process_out_of_memory_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(GaussianNB, "fit", full)
    archive = Archive()
    problem = problem_of(GaussianNB())
    with pytest.raises(EvaluationError, match="out of memory"):
        evaluate(problem, archive, exact=False)
    assert not any(record.has_cost.any() for record in archive.open_problem(problem).lookup(MASKS))


@pytest.mark.parametrize(
    "options",
    [{"n_jobs": 1, "timeout": 600.0}, {"n_jobs": 2, "backend": "dask"}],
    ids=["timeout", "dask"],
)
def test_a_connection_that_workers_lack_fails_no_subset_and_a_later_run_trains_them(
    options: dict[str, Any], tmp_path: Path
) -> None:
    problem = problem_of(Moody("", "away", str(tmp_path)))
    archive = Archive()
    with pytest.raises(TransientError, match="ConnectionError: the store is away"):
        evaluate(problem, archive, **options)
    assert not any(record.failed for record in archive.open_problem(problem).lookup(MASKS))
    (tmp_path / "back").touch()
    assert_same(evaluate(problem, archive, **options), evaluate(problem_of(GaussianNB())))


def test_a_watchdog_that_no_memory_is_left_for_fails_no_subset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("unable to start watchdog thread")

    monkeypatch.setattr(faulthandler, "dump_traceback_later", full)
    problem = problem_of(GaussianNB())
    job = Job(0, MASKS[0], np.full(problem.n_folds, np.nan), np.arange(3), np.inf)
    with pytest.raises(MemoryError, match="watchdog"):
        fit_mask(problem, job, partial(Deadline(1.0, tmp_path).watch, *job.key))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of two megabytes, or skip the test where this user may not."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command to make a small file system with")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be made: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk of a folder to the last byte, and return the file that fills it."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65536, 4096, 512, 1):
            try:
                while filler.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    return file


def search_of(archive: Archive) -> Driver:
    problem = problem_of(Moody())
    evaluator = CrossValidation(problem, archive, exact=False)
    hints = prepare_hints(problem.features, problem.space, needs=())
    search = Search(problem, make("random", {}), hints=hints, budget=Budget(epochs=6))
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


def resident() -> float:
    """Return the memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="reads memory and open files from /proc")
@pytest.mark.usefixtures("prefect_server", "plain")
def test_refresh_after_refresh_memory_and_open_files_stay_flat(bench: Bench) -> None:
    desk = Desk(bench)
    memory = []
    files = []
    for week in range(REFRESHES):
        day = (pd.Timestamp("2026-01-05") + pd.Timedelta(weeks=week)).strftime("%Y-%m-%d")
        snapshot(desk.snapshots, day, 3 + week % 2, seed=week)
        assert desk.refresh().decision in ("first", "kept", "promoted")
        memory.append(resident())
        files.append(len(os.listdir("/proc/self/fd")))
    steps = np.arange(REFRESHES - WARM)
    grown = np.polyfit(steps, memory[WARM:], 1)[0]
    print(f"\n{REFRESHES} refreshes: {grown:.2f} MiB each, files {files[WARM]} to {files[-1]}")
    assert grown < (1.0 if LONG else 8.0)
    assert files[-1] <= files[WARM] + 3
