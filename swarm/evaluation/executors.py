"""Executors of this machine that train masks: processes and threads.

A backend is a context manager that yields a :class:`Pool`: an executor, and how its workers get a
problem. :mod:`swarm.evaluation.workers` lists the backends and submits the jobs.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swarm.evaluation.shipping import read_problem, write_problem
from swarm.problem.problem import Problem
from swarm.threads import one_thread

# Timeout, in seconds, of a connection, and of a cluster without workers.
CLUSTER_TIMEOUT = 10.0
# Seconds after which idle processes exit and free their copy of the data.
_IDLE_SECONDS = 300
# Interval at which a process checks whether its parent still runs.
_WATCH_SECONDS = 1.0
# joblib sets the same environment for its own pools.
_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMBA", "NUMEXPR")
}


# A loader returns the problem inside a worker; a source returns a loader before each job.
Loader = Callable[[], Problem]
Source = Callable[[], Loader]


class WorkerDied(Exception):
    """The worker of one job died; unlike with BrokenExecutor, its executor continues."""


def _check_nothing() -> None:
    """Check nothing: an executor of this machine reports its own failures."""


@dataclass(frozen=True)
class Pool:
    """An executor, and how its workers get a problem.

    Attributes
    ----------
    executor : Executor
    sending : callable
        Context manager that sends a problem to the workers and yields its source.
    width : callable
        Returns the number of fits that run in parallel, at least 1.
    check : callable
        Called while no result arrives; raises OSError if none can arrive any more.
    is_local : bool
        Whether jobs run in threads of this process.
    """

    executor: Executor
    sending: Callable[[Problem], AbstractContextManager[Source]]
    width: Callable[[], int]
    check: Callable[[], None] = _check_nothing
    is_local: bool = False


@contextmanager
def thread_pool(n_jobs: int, address: str | None = None) -> Iterator[Pool]:
    """Yield threads; running fits cannot be ended, and their results are dropped."""
    from concurrent.futures import ThreadPoolExecutor

    # OpenMP has a limit for each thread, BLAS one for the process.
    executor = ThreadPoolExecutor(n_jobs, initializer=one_thread)
    try:
        yield Pool(executor, _share, lambda: n_jobs, is_local=True)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _share(problem: Problem) -> AbstractContextManager[Source]:
    return nullcontext(lambda: lambda: problem)


@contextmanager
def process_pool(n_jobs: int, address: str | None = None) -> Iterator[Pool]:
    """Yield processes, which read a problem from private files once each."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(
        n_jobs,
        timeout=_IDLE_SECONDS,
        initializer=_exit_with_parent,
        initargs=(os.getpid(),),
        env=_ONE_THREAD,
    )
    try:
        yield Pool(executor, _write, lambda: n_jobs)
    finally:
        # Cancelling the futures would end the manager thread, but not the workers.
        executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _write(problem: Problem) -> Iterator[Source]:
    """Write a problem to a private folder, removed even if this process is killed."""
    from joblib.externals.loky.backend import resource_tracker

    with tempfile.TemporaryDirectory(prefix="swarm-problem-") as folder:
        resource_tracker.register(folder, "folder")
        try:
            write_problem(problem, Path(folder))
            yield lambda: partial(read_problem, folder)
        finally:
            resource_tracker.unregister(folder, "folder")


def _exit_with_parent(parent: int) -> None:
    """End this worker soon after its parent, even if that is killed during a fit."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
