"""A search whose cluster dies is resumed on this machine with the same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from swarm.errors import EvaluationError
from swarm.storage.archive import Archive
from tasks.task_runner import is_reachable
from tests.fakes import evaluated
from tests.servers import free_port, happens
from tests.swarm.evaluation.test_workers import ROOT, Noted, assert_same, needs_dask, problem_of

pytestmark = pytest.mark.faults

ALL_MASKS = (np.arange(1, 128)[:, None] >> np.arange(7)) % 2 == 1


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
def test_a_dask_scheduler_that_is_killed_is_one_sentence_and_the_search_is_resumed() -> None:
    port = str(free_port())
    address = f"tcp://127.0.0.1:{port}"
    archive = Archive()
    problem = problem_of(Noted())
    n_trained = 0
    with ExitStack() as cluster:
        scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", port)
        worker = dask("worker", address, "--nthreads", "1", "--nworkers", "2")
        cluster.callback(kill_group, worker)
        assert happens(lambda: is_reachable(address, 0, 1.0), 60)

        def kill_in_mid_batch(*_: Any) -> None:
            nonlocal n_trained
            n_trained += 1
            if n_trained == 10:
                kill_group(scheduler)

        options = {"backend": "dask", "address": address, "on_fit": kill_in_mid_batch}
        with pytest.raises(EvaluationError, match="Dask scheduler"):
            evaluated(problem, ALL_MASKS, archive, **options)
    # This machine trains the rest.
    finished = evaluated(problem, ALL_MASKS, archive)
    assert_same(finished, evaluated(problem, ALL_MASKS))
    assert finished.work.hits >= 10
