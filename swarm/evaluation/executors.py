"""Executors that train masks: processes and threads of this machine, and what all backends share.

A backend is a context manager that yields a :class:`Pool`: an executor, and how the problem is
sent to its workers once. :mod:`swarm.evaluation.workers` lists the backends and does the rest.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from swarm.evaluation.shipping import read_problem, write_problem
from swarm.problem.problem import Problem
from swarm.threads import one_thread

# Timeout, in seconds, of a connection, and of a cluster without workers.
CLUSTER_TIMEOUT = 10.0
# Seconds after which idle processes exit and free their copy of the data.
_IDLE_SECONDS = 300
# Interval at which a process looks whether its parent still runs.
_WATCH_SECONDS = 1.0
# Environment of the workers, as set by joblib for its own pools.
_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMBA", "NUMEXPR")
}


def _nothing() -> None:
    """Check nothing: an executor of this machine reports its own failures."""


@dataclass(frozen=True)
class Pool:
    """An executor whose workers have the problem."""

    # starts one fit per worker; a future whose worker died raises BrokenExecutor if the executor
    # has to be replaced, otherwise one of `deaths`
    executor: Executor
    # returns, before each job, the argument from which a worker gets the problem
    send: Callable[[], Any]
    width: Callable[[], int]  # number of fits that run in parallel; at least 1
    deaths: tuple[type[BaseException], ...] = ()
    # called while no result arrives; raises TransientError if none can arrive any more
    check: Callable[[], None] = _nothing
    is_local: bool = False  # whether jobs run in threads of this process
    # returns a context manager of a pool for another problem on the same executor
    serve: Callable[[Problem], AbstractContextManager[Pool]] | None = None


@contextmanager
def thread_pool(problem: Problem, n_jobs: int, address: str | None = None) -> Iterator[Pool]:
    """Yield threads; running fits cannot be ended, and their results are dropped."""
    from concurrent.futures import ThreadPoolExecutor

    # The limit of OpenMP is one of each thread, that of BLAS one of the process.
    executor = ThreadPoolExecutor(n_jobs, initializer=one_thread)
    try:
        yield Pool(executor, lambda: lambda: problem, lambda: n_jobs, is_local=True)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def process_pool(problem: Problem, n_jobs: int, address: str | None = None) -> Iterator[Pool]:
    """Yield processes, which read the problem from private files once each."""
    from joblib.externals.loky import ProcessPoolExecutor

    with _written(problem) as folder:
        executor = ProcessPoolExecutor(
            n_jobs,
            timeout=_IDLE_SECONDS,
            initializer=_exit_with_parent,
            initargs=(os.getpid(),),
            env=_ONE_THREAD,
        )
        pool = Pool(executor, lambda: partial(read_problem, folder), lambda: n_jobs)
        try:
            yield replace(pool, serve=partial(_in_other_file, pool))
        finally:
            # Futures are not cancelled: that would end the manager thread, but not the workers.
            executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _in_other_file(pool: Pool, problem: Problem) -> Iterator[Pool]:
    """Yield the processes of a pool with another problem, which they read when it changes."""
    with _written(problem) as folder:
        yield replace(pool, send=lambda: partial(read_problem, folder))


@contextmanager
def _written(problem: Problem) -> Iterator[str]:
    """Yield a private folder with the problem, removed even if this process is killed."""
    from joblib.externals.loky.backend import resource_tracker

    with tempfile.TemporaryDirectory(prefix="swarm-problem-") as folder:
        resource_tracker.register(folder, "folder")
        try:
            write_problem(problem, Path(folder))
            yield folder
        finally:
            resource_tracker.unregister(folder, "folder")


def _exit_with_parent(parent: int) -> None:
    """End this worker soon after its parent, even if that is killed during a fit."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
