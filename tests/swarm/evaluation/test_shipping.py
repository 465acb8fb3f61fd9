"""How a problem reaches the worker processes of a machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from swarm.evaluation import shipping
from swarm.evaluation.shipping import read_problem, write_problem
from swarm.problem.problem import Problem

_ROLLUP = Path("/proc/self/smaps_rollup")
# The table has 16 MiB of float32.
_N_ROWS = 1 << 16
_N_COLUMNS = 64


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setattr(shipping, "_cache", {})
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.random((_N_ROWS, _N_COLUMNS), dtype=np.float32)).add_prefix("x")
    return Problem.build(features, rng.integers(0, 2, _N_ROWS), GaussianNB(), folds=2)


def values(problem: Problem) -> NDArray[np.float32]:
    return problem.features.to_numpy()


def test_a_worker_reads_what_was_written_to_the_bit_and_keeps_what_it_changes(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_problem(problem, tmp_path)
    read = read_problem(str(tmp_path))
    assert read.fingerprint() == problem.fingerprint()
    pd.testing.assert_frame_equal(read.features, problem.features)
    assert values(read).strides == values(problem).strides
    assert all(np.array_equal(a, b) for a, b in zip(read.folds[1], problem.folds[1], strict=True))
    assert read_problem(str(tmp_path)) is read
    # Changes of a worker reach neither the file nor another worker.
    read.target[:] = -1
    monkeypatch.setattr(shipping, "_cache", {})
    assert np.array_equal(read_problem(str(tmp_path)).target, problem.target)


def test_a_problem_is_written_without_a_copy_of_its_data(problem: Problem, tmp_path: Path) -> None:
    tracemalloc.start()
    write_problem(problem, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < values(problem).nbytes / 16
    assert (tmp_path / "arrays").stat().st_size > values(problem).nbytes


@pytest.mark.skipif(not _ROLLUP.exists(), reason="needs the memory maps of Linux")
def test_a_worker_has_no_copy_of_the_data_of_its_own(problem: Problem, tmp_path: Path) -> None:
    def anonymous() -> int:
        """Bytes of this process that no file backs."""
        lines = _ROLLUP.read_text().splitlines()
        line = next(line for line in lines if "Anonymous:" in line)
        return int(line.split()[1]) * 1024

    write_problem(problem, tmp_path)
    before = anonymous()
    read = read_problem(str(tmp_path))
    assert values(read).sum(dtype=np.float64) > 0
    assert anonymous() - before < values(problem).nbytes / 8


_KILLED = """
import os, signal
import numpy as np, pandas as pd
from sklearn.naive_bayes import GaussianNB
from swarm.evaluation.executors import process_pool
from swarm.problem.problem import Problem

X = pd.DataFrame({"a": range(20), "b": range(20)})
problem = Problem.build(X, np.array([0, 1] * 10), GaussianNB(), folds=2)
with process_pool(1) as pool, pool.sending(problem):
    assert pool.executor.submit(len, [1]).result() == 1
    print(*os.listdir(os.environ["TMPDIR"]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_no_copy_of_the_data_behind(tmp_path: Path) -> None:
    """A copy is as large as the table, and most kills are for a lack of memory."""
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "swarm-problem-" in killed.stdout
    deadline = time.monotonic() + 240
    while folders := list(tmp_path.glob("swarm-problem-*")):
        assert time.monotonic() < deadline, folders
        time.sleep(0.1)
