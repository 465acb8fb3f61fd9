"""Claims on Dask and Ray: real clusters of processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.evaluation.workers import Workers
from swarm.storage.archive import Archive
from tests.test_workers import (
    MASKS,
    ROOT,
    Noted,
    evaluate,
    needs_proc,
    nobody_left_behind,
    notes,
    problem_of,
)

dask = pytest.param(
    "dask",
    marks=pytest.mark.skipif(find_spec("distributed") is None, reason="the extra dask is missing"),
)
ray = pytest.param(
    "ray",
    marks=[
        pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is missing"),
        pytest.mark.faults,
    ],
)
both = pytest.mark.parametrize("backend", [dask, ray])
needs_dask = dask.marks[0]


def same(one: Evaluations, other: Evaluations) -> None:
    for name in ("costs", "fold_costs", "needed", "failed"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@needs_proc
@both
def test_two_workers_are_two_processes_of_one_thread_that_load_the_data_once(
    backend: str, tmp_path: Path
) -> None:
    plain = evaluate(problem_of(Noted()))
    problem = problem_of(Noted(str(tmp_path)))
    inf, order = np.full(len(MASKS), np.inf), np.arange(3)
    with nobody_left_behind(), CrossValidation(problem, n_jobs=2, backend=backend) as evaluator:
        first = evaluator.evaluate(MASKS[:8], inf[:8], order)
        second = evaluator.evaluate(MASKS[8:], inf[8:], order)
    assert np.array_equal(np.concatenate([first.costs, second.costs]), plain.costs)
    fits = notes(tmp_path, "fit")
    workers = {pid for pid, *_ in fits}
    assert len(fits) == len(MASKS) * 3
    assert len(workers) == 2
    assert str(os.getpid()) not in workers
    assert {libraries for _, libraries, _ in fits} == {"1"}
    loads = [pid for pid, *_ in notes(tmp_path, "load")]
    assert sorted(loads) == sorted(workers)


@needs_proc
@both
def test_a_worker_killed_in_mid_epoch_changes_nothing(backend: str, tmp_path: Path) -> None:
    plain = evaluate(problem_of(Noted()))
    noted = Noted(str(tmp_path), dies="once", column="x3")
    with nobody_left_behind():
        survived = evaluate(problem_of(noted), n_jobs=2, backend=backend)
    assert (tmp_path / "died").exists()
    same(plain, survived)


@needs_proc
@both
def test_a_mask_that_kills_its_workers_is_given_up_and_what_was_finished_is_kept(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.evaluation.workers._DEATHS", 2)
    problem = problem_of(Noted(str(tmp_path), dies="always", column="x3"))
    archive = Archive()
    with (
        nobody_left_behind(),
        pytest.raises(EvaluationError, match="workers died 2 times on the same mask") as caught,
    ):
        evaluate(problem, n_jobs=2, backend=backend, archive=archive)
    assert "\n" not in str(caught.value)
    known = archive.open_problem(problem).lookup(MASKS)
    assert not any(known[row].known.any() for row in np.flatnonzero(MASKS[:, 3]))


def port_of(text: Path) -> str:
    patience = time.monotonic() + 20
    while time.monotonic() < patience:
        if text.exists() and text.read_text().strip():
            return text.read_text().strip()
        time.sleep(0.05)
    raise AssertionError("the scheduler did not start")


OWN = """
import sys, time
from pathlib import Path
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    Path(sys.argv[1]).write_text(cluster.scheduler_address)
    time.sleep(600)
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Give the address of a Dask cluster that somebody else runs."""
    script, told = tmp_path / "own.py", tmp_path / "address"
    script.write_text(OWN)
    running = subprocess.Popen(
        [sys.executable, str(script), str(told)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port_of(told)
    finally:
        running.send_signal(signal.SIGINT)
        try:
            running.wait(20)
        finally:
            running.kill()


@needs_dask
@needs_proc
def test_a_cluster_of_ones_own_is_used_and_left_running(address: str, tmp_path: Path) -> None:
    from distributed import Client

    plain = evaluate(problem_of(Noted()))
    problem = problem_of(Noted(str(tmp_path)))
    with Client(address, set_as_default=False) as client:
        before = set(client.scheduler_info()["workers"])
        with nobody_left_behind(), CrossValidation(problem) as evaluator:
            evaluator.workers = Workers(problem, backend="dask", address=address)
            limits = np.full(len(MASKS), np.inf)
            same(plain, evaluator.evaluate(MASKS, limits, np.arange(3)))
        assert set(client.scheduler_info()["workers"]) == before
        assert not any(client.who_has().values())
        assert client.submit(sum, [1, 2]).result(10) == 3
    assert str(os.getpid()) not in {pid for pid, *_ in notes(tmp_path, "fit")}


CTRL_C = """
import sys
import numpy as np
from swarm import CrossValidation
from tests.test_workers import Noted, problem_of

if __name__ == "__main__":
    problem = problem_of(Noted(sys.argv[1]))
    masks = (np.arange(1, 128)[:, None] >> np.arange(7)) % 2 == 1
    with CrossValidation(problem, n_jobs=2, backend=sys.argv[2]) as evaluator:
        evaluator.evaluate(masks, np.full(127, np.inf), np.arange(3))
"""


@needs_proc
@both
def test_ctrl_c_ends_every_process_that_was_started(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CTRL_C)
    running = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), backend],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    patience = time.monotonic() + 60
    while not (tmp_path / "notes").exists() or len(notes(tmp_path, "fit")) < 20:
        assert time.monotonic() < patience
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in said.splitlines()[-1]
    assert said.count("Traceback") <= 2
    for pid, *_ in notes(tmp_path, "fit"):
        assert not Path(f"/proc/{pid}").exists()


@both
def test_an_address_where_nobody_answers_is_one_sentence_in_time(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"swarm.evaluation.{backend}_cluster.CLUSTER_TIMEOUT", 1.0)
    started = time.monotonic()
    address = {"dask": "tcp://127.0.0.1:9", "ray": "127.0.0.1:9"}[backend]
    with pytest.raises(ConfigError, match=r"answers at evaluation.address .* within 1 seconds"):
        Workers(problem_of(GaussianNB()), backend=backend, address=address)
    assert time.monotonic() - started < 5.0


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_missing_extra_says_what_to_install(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.checks.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"pip install 'swarmselect\[{backend}\]'"):
        Workers(problem_of(GaussianNB()), backend=backend)


def test_an_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(ConfigError, match="the worker backend 'loky' does not support an address"):
        Workers(problem_of(GaussianNB()), address="tcp://127.0.0.1:1")
