"""A search whose cluster dies is resumed on this machine with the same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.storage.archive import Archive
from tasks.task_runner import is_reachable
from tests.servers import free_port, happens
from tests.test_workers import ROOT, Noted, needs_dask, notes, problem_of, same

pytestmark = pytest.mark.faults

# Enough subsets that a cluster is hit in the middle of a batch.
MANY = (np.arange(1, 128)[:, None] >> np.arange(7)) % 2 == 1
# Fits after which a part of the cluster is killed.
SOON = 30


def evaluated(folder: Path | str = "", archive: Archive | None = None, **options: Any) -> Any:
    with CrossValidation(problem_of(Noted(str(folder))), archive, **options) as evaluator:
        return evaluator.evaluate(MANY, np.full(len(MANY), np.inf), np.arange(3))


@contextmanager
def in_mid_batch(folder: Path, kill: Callable[[], None]) -> Iterator[None]:
    """Kill when some fits have been noted in the folder, and not later than this context."""
    killed = threading.Event()

    def wait() -> None:
        file = folder / "notes"
        if happens(lambda: file.exists() and len(notes(folder, "fit")) > SOON, 120):
            kill()
            killed.set()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
    assert killed.is_set(), "nothing was killed"


def dask(*arguments: str) -> subprocess.Popen[Any]:
    """Start a scheduler or a worker of Dask, in a process group of its own."""
    module = f"distributed.cli.dask_{arguments[0]}"
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments[1:], "--no-dashboard"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[Any]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@needs_dask
def test_a_dask_scheduler_that_is_killed_is_one_sentence_and_the_search_is_resumed(
    tmp_path: Path,
) -> None:
    port = str(free_port())
    address, file = f"tcp://127.0.0.1:{port}", f"sqlite:///{tmp_path}/archive.db"
    archive = Archive(file)
    with ExitStack() as cluster:
        scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", port)
        worker = dask("worker", address, "--nthreads", "1", "--nworkers", "2")
        cluster.callback(kill_group, worker)
        assert happens(lambda: is_reachable(address, 0, 1.0), 60)
        with (
            pytest.raises(EvaluationError, match="Dask scheduler"),
            in_mid_batch(tmp_path, lambda: kill_group(scheduler)),
        ):
            evaluated(tmp_path, archive, backend="dask", address=address)
    archive.close()
    # On this machine, what the archive does not have.
    finished = evaluated(tmp_path, Archive(file))
    same(finished, evaluated())
    assert finished.work.hits > 0, "nothing was kept"
