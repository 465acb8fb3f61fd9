"""Workers are real processes of one thread each, get the data once, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.executors import thread_pool
from swarm.evaluation.fitting import Job
from swarm.evaluation.types import Evaluations
from swarm.evaluation.workers import Workers, _timed_out_fit, in_turn
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive
from tests import ROOT
from tests.fakes import evaluated
from tests.servers import happens

Bool = NDArray[np.bool_]

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="no extra dask")
in_processes = pytest.mark.parametrize("backend", ["loky", pytest.param("dask", marks=needs_dask)])


class Noted(GaussianNB):
    """Notes each unpickling and fit in a folder, and dies or fails there on demand."""

    def __init__(self, folder: str = "", dies: str = "never", column: str = "") -> None:
        super().__init__()
        self.folder = folder
        self.dies = dies
        self.column = column

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._note("load", str(threading.get_ident()))

    def fit(self, X: Any, y: Any, **options: Any) -> Noted:
        from threadpoolctl import threadpool_info

        libraries = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        self._note("fit", f"{libraries} {os.environ.get('OMP_NUM_THREADS')}")
        if self.column in X.columns and self.dies != "never":
            flag = Path(self.folder) / "died"
            if self.dies == "always" or not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        warnings.warn("nobody reads this", UserWarning, stacklevel=1)
        # A parameter would make slow and fast fits different problems.
        time.sleep(float(os.environ.get("NOTED_FIT_SECONDS", "0.005")))
        return super().fit(X, y, **options)

    def _note(self, event: str, detail: str) -> None:
        if self.folder:
            with (Path(self.folder) / "notes").open("a") as notes:
                notes.write(f"{event} {os.getpid()} {detail}\n")


def notes(folder: Path, event: str) -> list[list[str]]:
    lines = (folder / "notes").read_text().splitlines()
    return [line.split()[1:] for line in lines if line.split()[0] == event]


def problem_of(model: Any, importance: Any = "none", **options: Any) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 7)), columns=[f"x{i}" for i in range(7)])
    y = (X["x0"] + rng.normal(size=60) > 0).astype(int)
    return Problem.build(X, y, model, folds=3, importance=importance, **options)


MASKS = np.unique(np.random.default_rng(1).random((8, 7)) < 0.5, axis=0)
MASKS = MASKS[MASKS.any(axis=1)]


def evaluate(problem: Problem, archive: Archive | None = None, **options: Any) -> Evaluations:
    return evaluated(problem, MASKS, archive, **options)


def assert_same(actual: Evaluations, expected: Evaluations) -> None:
    for name in ("costs", "fold_costs", "needed", "failed", "censored", "used"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), name)


def children() -> set[int]:
    """Live processes that this one started, but for joblib's tracker of temporary files."""
    pids = set()
    for process in psutil.Process().children():
        # A process that has just ended has no command line.
        command = " ".join(process.as_dict(["cmdline"])["cmdline"] or ())
        if command and "resource_tracker" not in command:
            pids.add(process.pid)
    return pids


@contextmanager
def nobody_left_behind() -> Iterator[None]:
    before = children()
    yield
    assert happens(lambda: not children() - before, 120)


@pytest.mark.slow
@in_processes
def test_two_workers_are_two_processes_of_one_thread_that_load_the_data_once(
    backend: str, tmp_path: Path
) -> None:
    plain = evaluate(problem_of(Noted()))
    problem = problem_of(Noted(str(tmp_path)))
    inf = np.full(len(MASKS), np.inf)
    order = np.arange(3)
    half = len(MASKS) // 2
    with nobody_left_behind(), CrossValidation(problem, n_jobs=2, backend=backend) as evaluator:
        first = evaluator.evaluate(MASKS[:half], inf[:half], order)
        second = evaluator.evaluate(MASKS[half:], inf[half:], order)
    assert np.array_equal(np.concatenate([first.costs, second.costs]), plain.costs)
    fits = notes(tmp_path, "fit")
    workers = {pid for pid, *_ in fits}
    assert len(fits) == len(MASKS) * 3
    assert len(workers) == 2
    assert str(os.getpid()) not in workers
    assert {libraries for _, libraries, _ in fits} == {"1"}
    # Libraries that a worker has not loaded yet read the environment; Dask's is its own.
    assert backend != "loky" or {environment for *_, environment in fits} == {"1"}
    loads = Counter(pid for pid, *_ in notes(tmp_path, "load"))
    assert set(loads) == workers
    # Dask may copy the data of one worker to another that has got them already.
    assert max(loads.values()) <= (1 if backend == "loky" else 2)


def test_problems_share_processes_and_their_copies_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plain = evaluate(problem_of(Noted()))
    with nobody_left_behind(), closing(Workers(2)) as workers:
        for column in ("x1", "x2"):
            noted = Noted(str(tmp_path), column=column)
            assert_same(plain, evaluate(problem_of(noted), workers=workers))
            assert not list(tmp_path.glob("swarm-problem-*"))
    fits = notes(tmp_path, "fit")
    assert len(fits) == 2 * len(MASKS) * 3
    assert len({pid for pid, *_ in fits}) == 2


def test_a_stage_that_ends_leaves_no_copy_of_its_problem_to_shared_workers() -> None:
    with closing(Workers(2, "threading")) as workers:
        evaluate(problem_of(Noted()), workers=workers)
        assert not workers._sent


@pytest.mark.parametrize(("n_jobs", "backend"), [(1, "loky"), (2, "sequential"), (2, "threading")])
def test_results_and_warning_filters_do_not_depend_on_processes(
    n_jobs: int, backend: str, tmp_path: Path
) -> None:
    filters = list(warnings.filters)
    plain = evaluate(problem_of(Noted()))
    with nobody_left_behind():
        here = evaluate(problem_of(Noted(str(tmp_path))), n_jobs=n_jobs, backend=backend)
    assert_same(plain, here)
    fits = notes(tmp_path, "fit")
    assert {(pid, libraries) for pid, libraries, _ in fits} == {(str(os.getpid()), "1")}
    assert list(warnings.filters) == filters


@in_processes
@pytest.mark.slow
def test_a_worker_killed_in_mid_batch_changes_nothing(backend: str, tmp_path: Path) -> None:
    plain = evaluate(problem_of(Noted()))
    noted = Noted(str(tmp_path), dies="once", column="x3")
    with nobody_left_behind():
        survived = evaluate(problem_of(noted), n_jobs=2, backend=backend)
    assert (tmp_path / "died").exists()
    assert_same(plain, survived)


@in_processes
@pytest.mark.slow
def test_workers_that_keep_dying_are_one_sentence_and_what_was_finished_is_kept(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both workers may start again at the same time, which takes long on a busy machine.
    monkeypatch.setattr("swarm.evaluation.dask_executor.CLUSTER_TIMEOUT", 120.0)
    problem = problem_of(Noted(str(tmp_path), dies="always", column="x3"))
    archive = Archive()
    with (
        nobody_left_behind(),
        pytest.raises(EvaluationError, match=r"died 3 times with \d+ masks"),
    ):
        evaluate(problem, archive, n_jobs=2, backend=backend)
    records = archive.open_problem(problem).lookup(MASKS)
    assert not any(records[row].has_cost.any() for row in np.flatnonzero(MASKS[:, 3]))
    assert all(record.complete for record in records if record.has_cost.any())


class Greedy(GaussianNB):
    """Needs more memory than there is."""

    def fit(self, X: Any, y: Any) -> Greedy:
        raise MemoryError


def test_fits_that_lack_memory_end_the_search_at_their_third_attempt() -> None:
    with pytest.raises(EvaluationError, match=r"died 3 times with \d+ masks .*, out of memory"):
        evaluate(problem_of(Greedy()), n_jobs=2, backend="threading")


@pytest.mark.filterwarnings("error")
def test_no_process_is_left_after_an_error_and_what_a_script_defines_works_in_processes() -> None:
    class Mine(GaussianNB):
        pass

    def nan_without_x1(estimator: Any, X: pd.DataFrame, y: Any) -> float:
        return 0.5 if "x1" in X.columns else float("nan")

    problem = problem_of(Mine(), scoring=nan_without_x1)
    with nobody_left_behind(), pytest.raises(EvaluationError, match="is NaN on fold 0"):
        evaluate(problem, n_jobs=2)


def test_nothing_is_started_where_the_archive_knows_all_answers() -> None:
    problem = problem_of(Noted())
    archive = Archive()
    first = evaluate(problem, archive)
    with CrossValidation(problem, archive, n_jobs=2) as evaluator:
        before = children()
        repeated = evaluator.evaluate(MASKS, np.full(len(MASKS), np.inf), np.arange(3))
        assert children() == before
    assert_same(repeated, first)
    assert repeated.work.hits == len(MASKS)


# A background job of a shell, such as these tests may be, ignores SIGINT otherwise.
CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
from swarm import CrossValidation
from tests.swarm.evaluation.test_workers import Noted, problem_of

if __name__ == "__main__":
    problem = problem_of(Noted(sys.argv[1]))
    masks = (np.arange(1, 128)[:, None] >> np.arange(7)) % 2 == 1
    with CrossValidation(problem, n_jobs=2, backend=sys.argv[2]) as evaluator:
        evaluator.evaluate(masks, np.full(127, np.inf), np.arange(3))
"""


@in_processes
@pytest.mark.slow
def test_ctrl_c_ends_every_process_that_was_started(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CTRL_C)
    running = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), backend],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    file = tmp_path / "notes"
    assert happens(lambda: file.exists() and len(notes(tmp_path, "fit")) >= 20, 240)
    os.killpg(running.pid, signal.SIGINT)
    _, stderr = running.communicate(timeout=240)
    # The exception is not always last, as joblib's resource tracker may warn of a missing folder.
    assert any(line.startswith("KeyboardInterrupt") for line in stderr.splitlines())
    assert stderr.count("Traceback") <= 2
    for pid, *_ in notes(tmp_path, "fit"):
        assert not psutil.pid_exists(int(pid))


@pytest.mark.slow
@needs_dask
def test_a_cluster_of_ones_own_is_used_and_left_running(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    plain = evaluate(problem_of(Noted()))
    problem = problem_of(Noted(str(tmp_path)))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before = set(client.scheduler_info()["workers"])
        address = cluster.scheduler_address
        with nobody_left_behind():
            assert_same(plain, evaluate(problem, backend="dask", address=address))
        assert set(client.scheduler_info()["workers"]) == before
        assert not any(client.who_has().values())
        assert client.submit(sum, [1, 2]).result(240) == 3
    assert str(os.getpid()) not in {pid for pid, *_ in notes(tmp_path, "fit")}


@needs_dask
def test_an_address_where_nobody_answers_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swarm.evaluation.dask_executor.CLUSTER_TIMEOUT", 1.0)
    with pytest.raises(ConfigError, match=r"tcp://127\.0\.0\.1:9"):
        Workers(backend="dask", address="tcp://127.0.0.1:9")


@needs_dask
@pytest.mark.slow
def test_a_cluster_whose_workers_all_leave_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("swarm.evaluation.dask_executor.CLUSTER_TIMEOUT", 1.0)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        with CrossValidation(problem_of(Noted()), backend="dask", address=address) as evaluator:
            cluster.scale(0)
            with pytest.raises(EvaluationError, match="workers"):
                evaluator.evaluate(MASKS, np.full(len(MASKS), np.inf), np.arange(3))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"backend": "luky"}, "'luky'"),
        ({"n_jobs": 0}, "n_jobs"),
        # No thread can be ended.
        ({"backend": "threading", "timeout": 5.0}, "'loky'.*'threading'"),
        ({"address": "tcp://127.0.0.1:1"}, "address"),
        ({"backend": "dask"}, r"swarmselect\[dask\]"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(
    options: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No extra seems to be installed.
    monkeypatch.setattr("swarm.checks.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=name):
        Workers(**options)


def test_threads_that_hang_are_left_behind_when_a_pool_ends() -> None:
    has_begun = threading.Event()
    may_end = threading.Event()

    def hang() -> None:
        has_begun.set()
        may_end.wait(240)

    with thread_pool(1) as pool:
        future = pool.executor.submit(hang)
        assert has_begun.wait(240)
        assert pool.is_local
    assert not future.done()
    may_end.set()


def test_a_fit_that_timed_out_has_failed_on_its_fold_and_the_rest_is_trained() -> None:
    job = Job(4, np.arange(7) < 3, np.full(3, np.nan), np.array([2, 0, 1]), np.inf)
    record, rest = _timed_out_fit(job, 0, 1.5)
    assert np.isinf(record.fold_costs).tolist() == [True, False, False]
    assert record.used.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert (record.seconds, record.failed) == (1.5, True)
    assert "of 3 units" in str(record.error)
    # The fold before it in the order decides whether it was needed.
    assert rest is not None
    assert np.isinf(rest.fold_costs).tolist() == [True, False, False]
    assert _timed_out_fit(job, 2, 1.5)[1] is None


def turns(rows: list[int], masks: Bool, known: Any, limit: float = np.inf, n: int = 2) -> Any:
    """Return the number and the folds of each job, in the order of two workers."""
    jobs = [Job(row, masks[row], np.array(known), np.arange(3), limit) for row in rows]
    return [(job.number, *job.fold_order) for job in in_turn(jobs, n)]


def test_the_last_mask_is_handed_out_fold_by_fold_to_keep_both_workers_busy() -> None:
    masks = np.tri(6, 7, dtype=bool)
    rows = list(range(6))
    known = [np.nan, 0.5, np.nan]
    whole = [(row, 0, 1, 2) for row in (5, 4, 3, 2, 1)]
    assert turns(rows, masks, known) == [*whole, (0, 0), (0, 2)]
    assert len(turns(rows, masks, known, n=1)) == 6


def test_a_mask_as_large_as_all_others_is_handed_out_fold_by_fold_first() -> None:
    masks = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 0, 0]], dtype=bool)
    known = [np.nan] * 3
    parts = [(1, 0), (1, 1), (1, 2)]
    whole = (1, 0, 1, 2)
    assert turns([0, 1, 2], masks, known) == [*parts, (2, 0, 1, 2), (0, 0, 1, 2)]
    assert turns([1], masks, known) == parts
    # Its later folds may never be trained.
    assert turns([1], masks, known, 0.5) == [whole]
    assert turns([1, 1], masks, known) == [whole, whole]
