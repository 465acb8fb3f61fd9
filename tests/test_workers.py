"""Claims on workers: real processes, one thread each, data shipped once, none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.fitting import Job
from swarm.evaluation.types import Evaluations
from swarm.evaluation.workers import Workers
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive

ROOT = Path(__file__).resolve().parents[1]
Bool = NDArray[np.bool_]


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
        time.sleep(0.005)
        return super().fit(X, y, **options)

    def _note(self, what: str, detail: str) -> None:
        if self.folder:
            with (Path(self.folder) / "notes").open("a") as notes:
                notes.write(f"{what} {os.getpid()} {detail}\n")


def notes(folder: Path, what: str) -> list[list[str]]:
    lines = (folder / "notes").read_text().splitlines()
    return [line.split()[1:] for line in lines if line.split()[0] == what]


def problem_of(model: Any, **options: Any) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 7)), columns=[f"x{i}" for i in range(7)])
    y = (X["x0"] + rng.normal(size=60) > 0).astype(int)
    return Problem.build(X, y, model, folds=3, importance="none", **options)


MASKS = np.unique(np.random.default_rng(1).random((16, 7)) < 0.5, axis=0)
MASKS = MASKS[MASKS.any(axis=1)]


def evaluate(problem: Problem, **options: Any) -> Evaluations:
    with CrossValidation(problem, **options) as evaluator:
        limits = np.full(len(MASKS), np.inf)
        return evaluator.evaluate(MASKS, limits, np.arange(problem.n_folds))


def children() -> set[int]:
    """Live processes that this one started, but for joblib's tracker of temporary files."""
    while True:
        try:
            lists = [(task / "children").read_text() for task in Path("/proc/self/task").iterdir()]
            break
        except OSError:
            # A thread ended while we looked, and its children went to another: look again.
            continue
    found = {int(pid) for pids in lists for pid in pids.split()}
    return {pid for pid in found if b"resource_tracker" not in _command(pid)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() or b"resource_tracker"
    except OSError:
        return b"resource_tracker"


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="children are counted in /proc"
)


@contextmanager
def nobody_left_behind() -> Iterator[None]:
    before = children()
    yield
    patience = time.monotonic() + 10
    while children() - before and time.monotonic() < patience:
        time.sleep(0.05)
    assert not children() - before


@needs_proc
def test_two_workers_are_two_processes_of_one_thread_that_load_the_data_once(
    tmp_path: Path,
) -> None:
    plain = evaluate(problem_of(Noted()))
    problem = problem_of(Noted(str(tmp_path)))
    inf, order = np.full(len(MASKS), np.inf), np.arange(3)
    with nobody_left_behind(), CrossValidation(problem, n_jobs=2) as evaluator:
        first = evaluator.evaluate(MASKS[:8], inf[:8], order)
        second = evaluator.evaluate(MASKS[8:], inf[8:], order)
        assert len(children()) >= 2
    costs = np.concatenate([first.costs, second.costs])
    assert np.array_equal(costs, plain.costs)
    fits = notes(tmp_path, "fit")
    workers = {pid for pid, *_ in fits}
    assert len(fits) == len(MASKS) * 3
    assert len(workers) == 2
    assert str(os.getpid()) not in workers
    assert {tuple(threads) for _, *threads in fits} == {("1", "1")}
    loads = [pid for pid, *_ in notes(tmp_path, "load")]
    assert sorted(loads) == sorted(workers)


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    evaluate(problem_of(Noted(str(tmp_path))))
    assert {(pid, libraries) for pid, libraries, _ in notes(tmp_path, "fit")} == {
        (str(os.getpid()), "1")
    }


@needs_proc
def test_threads_give_the_same_answer_and_leave_warnings_as_they_were(tmp_path: Path) -> None:
    filters = list(warnings.filters)
    plain = evaluate(problem_of(Noted()))
    with nobody_left_behind():
        threads = evaluate(problem_of(Noted(str(tmp_path))), n_jobs=2, backend="threading")
    assert np.array_equal(plain.fold_costs, threads.fold_costs)
    assert {pid for pid, *_ in notes(tmp_path, "fit")} == {str(os.getpid())}
    assert list(warnings.filters) == filters


@needs_proc
def test_a_worker_killed_in_mid_batch_changes_nothing(tmp_path: Path) -> None:
    plain = evaluate(problem_of(Noted()))
    with nobody_left_behind():
        survived = evaluate(problem_of(Noted(str(tmp_path), dies="once", column="x3")), n_jobs=2)
    assert (tmp_path / "died").exists()
    for name in ("costs", "fold_costs", "needed", "failed"):
        assert np.array_equal(getattr(plain, name), getattr(survived, name)), name


@needs_proc
def test_workers_that_keep_dying_are_one_sentence_and_what_was_finished_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.evaluation.workers._DEATHS", 2)
    problem = problem_of(Noted(str(tmp_path), dies="always", column="x3"))
    archive = Archive()
    with (
        nobody_left_behind(),
        pytest.raises(EvaluationError, match=r"workers died 2 times with \d+ masks left") as caught,
    ):
        evaluate(problem, n_jobs=2, archive=archive)
    assert "\n" not in str(caught.value)
    known = archive.open_problem(problem).lookup(MASKS)
    assert not any(known[row].known.any() for row in np.flatnonzero(MASKS[:, 3]))
    assert all(record.complete for record in known if record.known.any())


def nan_without_x1(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return 0.5 if "x1" in X.columns else float("nan")


@needs_proc
@pytest.mark.filterwarnings("error")
def test_no_process_is_left_after_an_error() -> None:
    problem = problem_of(Noted(), scoring=nan_without_x1)
    with nobody_left_behind(), pytest.raises(EvaluationError, match="is NaN on fold 0"):
        evaluate(problem, n_jobs=2)


@needs_proc
def test_nothing_is_started_where_the_archive_knows_all_answers(tmp_path: Path) -> None:
    problem = problem_of(Noted())
    archive = Archive()
    known = evaluate(problem, archive=archive)
    with CrossValidation(problem, archive, n_jobs=2) as evaluator:
        before = children()
        again = evaluator.evaluate(MASKS, np.full(len(MASKS), np.inf), np.arange(3))
        assert children() == before
    assert np.array_equal(known.costs, again.costs)
    assert again.work.hits == len(MASKS)


SCRIPT = """
import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB
from swarm import CrossValidation, Problem

class Mine(GaussianNB):
    pass

bonus = 0.125

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd"))
    score = lambda model, X, y: model.score(X, y) + bonus
    problem = Problem.build(X, np.arange(40) % 2, Mine(), scoring=score, importance="none")
    masks = np.eye(4, dtype=bool)
    for n_jobs in (1, 2):
        with CrossValidation(problem, n_jobs=n_jobs) as evaluator:
            answers = evaluator.evaluate(masks, np.full(4, np.inf), np.arange(5))
        print(answers.costs.tolist())
"""


def test_a_lambda_and_a_class_of_a_script_work_in_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.splitlines()
    assert one == two
    assert all(cost < 0 for cost in map(float, one.strip("[]").split(",")))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "luky"}, "unknown worker backend 'luky'"),
        ({"n_jobs": 0}, "n_jobs must be -1 or at least 1, got 0"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Workers(problem_of(GaussianNB()), **options)


def test_minus_one_is_a_worker_for_each_core() -> None:
    from joblib import cpu_count

    assert Workers(problem_of(GaussianNB()), n_jobs=-1).n_jobs == cpu_count()


def test_the_last_mask_is_handed_out_fold_by_fold_to_keep_both_workers_busy() -> None:
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 6)), columns=list("abcdef"))
    problem = Problem.build(features, np.arange(60) % 2, GaussianNB(), folds=3)
    masks = np.tri(6, 6, dtype=bool)
    known = np.array([np.nan, 0.5, np.nan])
    jobs = [Job(row, masks[row], known, np.arange(3), np.inf) for row in range(6)]
    turns = [(job.number, *job.fold_order) for job in Workers(problem, 2)._in_turn(jobs)]
    assert turns[:5] == [(row, 0, 1, 2) for row in (5, 4, 3, 2, 1)]
    assert turns[5:] == [(0, 0), (0, 2)]
    assert len(Workers(problem, 1)._in_turn(jobs)) == 6
