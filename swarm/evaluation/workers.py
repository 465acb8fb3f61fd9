"""Workers that train the masks of a batch, on any executor."""

from __future__ import annotations

import faulthandler
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from swarm.checks import require_package
from swarm.errors import (
    ConfigError,
    SwarmError,
    TransientError,
    as_clause,
    check_known,
    describe,
)
from swarm.evaluation.dask_executor import dask_pool
from swarm.evaluation.executors import Pool, WorkerDied, process_pool, thread_pool
from swarm.evaluation.fitting import InvalidCost, Job, fit_mask
from swarm.evaluation.pruning import next_fold
from swarm.interrupts import children_ignore_sigint, silence_pool_thread
from swarm.problem.problem import Problem
from swarm.storage.records import Record
from swarm.threads import one_thread

_POOLS = {"loky": process_pool, "threading": thread_pool, "dask": dask_pool}
_DEATHS = 3
# Submitted jobs per worker, so that none waits for this process, and a retry not for all others.
_AHEAD = 4
# Seconds without a result after which a pool is checked.
_POLL = 0.5

T = TypeVar("T")
Key = tuple[int, int]
Fit = tuple[Job, Record | InvalidCost]


class Workers:
    """Workers that train masks, of one problem or of several.

    The parameters are those of :class:`.CrossValidation`.
    """

    def __init__(
        self,
        n_jobs: int = 1,
        backend: str = "loky",
        address: str | None = None,
        timeout: float | None = None,
    ) -> None:
        from joblib import cpu_count

        check_known("worker backend", backend, (*_POOLS, "sequential"))
        if n_jobs != -1 and n_jobs < 1:
            raise ConfigError(f"n_jobs must be -1 or at least 1, got {n_jobs}")
        if backend == "dask":
            require_package("distributed", "dask", "the worker backend 'dask'")
        elif address is not None:
            raise ConfigError(
                f"the address is {address!r}, but the worker backend {backend!r} does not "
                "support an address; use 'dask', or leave it out"
            )
        if timeout is not None and (backend != "loky" or not timeout > 0):
            raise ConfigError(
                f"a timeout must be above 0 and needs the worker backend 'loky', got {timeout} s "
                f"and {backend!r}; use 'loky', or no timeout"
            )
        self.n_jobs = cpu_count() if n_jobs == -1 else n_jobs
        alone = self.n_jobs == 1 and address is None and timeout is None
        self.backend = "sequential" if alone else backend
        self._address = address
        self._pool: Pool | None = None
        self._sent: dict[Problem, tuple[ExitStack, Callable[[], Any]]] = {}
        self._opened = ExitStack()
        self._deadline = None
        if timeout is not None:
            # The report of a fit that timed out outlives the pool, which breaks.
            self._reports = tempfile.TemporaryDirectory("-swarm-late")
            self._deadline = Deadline(timeout, Path(self._reports.name))
        if address is not None:
            self._open()

    def run(self, problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train every job and yield it with its result, in any order.

        A job whose worker died, also of memory, is trained again; TransientError after three
        deaths, and after repeated errors of the machine.
        """
        try:
            if self.backend == "sequential":
                yield from _in_process(problem, jobs)
            elif jobs:
                yield from self._in_pool(problem, jobs)
        except MemoryError as error:
            raise TransientError(
                f"training ran out of memory with {self.n_jobs} workers of kind {self.backend!r}; "
                "use fewer workers or a machine with more memory, then resume"
            ) from error
        except OSError as error:
            raise TransientError(
                f"the workers of kind {self.backend!r} are lost, {as_clause(describe(error))}; "
                "start them again, then resume"
            ) from error

    def call(self, problem: Problem, function: Callable[[Problem], T]) -> T | None:
        """Call a function of the problem in a worker; None if the worker dies, or is too late.

        Raises
        ------
        ConfigError
            If the problem cannot be sent to workers.
        """
        if self.backend == "sequential":
            return function(problem)
        try:
            result: T = self._submit(_call, problem, function, self._deadline).result()
            return result
        except (BrokenExecutor, WorkerDied, MemoryError):
            self.close()
            return None
        except SwarmError:
            raise
        except Exception as error:
            self.close()
            raise ConfigError(
                f"the estimator or the scorer cannot be sent to workers ({as_clause(str(error))}); "
                "define it in a module that workers can import, or use one worker"
            ) from error

    def release(self, problem: Problem) -> None:
        """Remove the copies of a problem that is no longer needed."""
        if problem in self._sent:
            self._sent.pop(problem)[0].close()

    def close(self) -> None:
        """Shut down the workers, or disconnect from those of a cluster; :meth:`run` reopens."""
        self._pool = None
        self._opened.close()
        for problem in list(self._sent):
            self.release(problem)

    def _open(self) -> Pool:
        if self._pool is None:
            pool = _POOLS[self.backend](self.n_jobs, self._address)
            self._pool = self._opened.enter_context(pool)
        return self._pool

    def _submit(self, function: Callable[..., T], problem: Problem, *arguments: Any) -> Future[T]:
        """Submit a function of a problem, which is sent once, and of other arguments."""
        pool = self._open()
        if problem not in self._sent:
            opened = ExitStack()
            self._sent[problem] = opened, opened.enter_context(pool.sending(problem))
        load = self._sent[problem][1]()
        try:
            with children_ignore_sigint():
                return pool.executor.submit(function, load, *arguments)
        except BrokenExecutor as error:
            future = Future[T]()
            future.set_exception(error)
            return future

    def _in_pool(self, problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train jobs in workers, those whose worker died again."""
        pool = self._open()
        waiting = deque(in_turn(jobs, pool.width()))
        running: dict[Future[Record | InvalidCost], Job] = {}
        deaths = Counter[Key]()
        if self._deadline is not None:
            # Forget those of other calls.
            self._deadline.timed_out_folds()
        with _quiet(problem) if pool.is_local else nullcontext(), silence_pool_thread():
            try:
                while waiting or running:
                    pool = self._open()
                    while waiting and len(running) < _AHEAD * pool.width():
                        arguments = waiting[0], self._deadline, not pool.is_local
                        running[self._submit(_fit, problem, *arguments)] = waiting.popleft()
                    finished = wait(running, _POLL, FIRST_COMPLETED).done
                    lost, is_broken = list[Job](), False
                    for future in finished:
                        job = running.pop(future)
                        try:
                            result = future.result()
                        except (WorkerDied, BrokenExecutor, MemoryError) as error:
                            lost.append(job)
                            reason = error
                            is_broken |= not (pool.is_local or isinstance(error, WorkerDied))
                        else:
                            yield job, result
                    if is_broken:
                        # The executor is replaced, and with it what it has not finished.
                        lost += running.values()
                        running.clear()
                        self.close()
                    elif lost or not finished:
                        pool.check()
                    if lost:
                        timed_out, again = self._recovered(lost)
                        yield from timed_out
                        waiting.extendleft(again)
                        if not timed_out:
                            deaths.update(job.key for job in lost)
                        if max(deaths.values(), default=0) == _DEATHS:
                            left = [*waiting, *running.values()]
                            raise _too_many_deaths(left, reason) from reason
            finally:
                if running:
                    self.close()

    def _recovered(self, lost: Sequence[Job]) -> tuple[list[Fit], list[Job]]:
        """Return the failed fits of jobs that timed out, and the jobs to train again."""
        if self._deadline is None:
            return [], list(lost)
        folds = self._deadline.timed_out_folds()
        failed, again = list[Fit](), list[Job]()
        for job in lost:
            rest: Job | None = job
            if job.key in folds:
                record, rest = _timed_out_fit(job, folds[job.key], self._deadline.seconds)
                failed.append((job, record))
            if rest is not None:
                again.append(rest)
        return failed, again


def in_turn(jobs: Sequence[Job], n_workers: int) -> list[Job]:
    """Order jobs, the largest first, to balance the workers at the end of a batch."""
    # Masks with more than a worker's share of all units are split into folds unless some may be
    # pruned, and so are the last masks, of which pruning then skips none.
    ordered = sorted(jobs, key=lambda job: -int(job.mask.sum()))
    if n_workers == 1:
        return ordered
    share = sum(int(job.mask.sum()) for job in jobs) / n_workers
    n_large = sum(int(job.mask.sum()) > share for job in ordered)
    large = [job for job in ordered[:n_large] if job.limit == np.inf]
    others = [job for job in ordered[:n_large] if job.limit < np.inf] + ordered[n_large:]
    whole = len(others) - n_workers + 1
    if whole < n_workers:
        whole = len(others)
    return [
        *(part for job in large for part in job.by_fold()),
        *others[:whole],
        *(part for job in others[whole:] for part in job.by_fold()),
    ]


def _in_process(problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
    for job in in_turn(jobs, 1):
        with _quiet(problem):
            result = fit_mask(problem, job)
        yield job, result


def _too_many_deaths(left: Sequence[Job], error: BaseException) -> TransientError:
    masks = len({job.number for job in left})
    doubt = "" if isinstance(error, MemoryError) else "perhaps "
    return TransientError(
        f"workers died {_DEATHS} times with {masks} masks left to train, {doubt}out of memory; "
        "use fewer workers, or give each more memory"
    )


@contextmanager
def _quiet(problem: Problem) -> Iterator[None]:
    """Fit on one thread, and silence warnings that are no errors."""
    # Warning filters and BLAS threads are per process: threads share those of their parent.
    with problem.settings.silenced(), one_thread():
        yield


def _call(load: Any, function: Callable[[Problem], T], deadline: Deadline | None) -> T:
    with nullcontext() if deadline is None else deadline.watch():
        return function(load())


def _fit(load: Any, job: Job, deadline: Deadline | None, is_apart: bool) -> Record | InvalidCost:
    """Train a job in a worker; `load` returns the problem."""
    problem = load()
    with _quiet(problem) if is_apart else nullcontext():
        if deadline is None:
            return fit_mask(problem, job)
        return fit_mask(problem, job, partial(deadline.watch, *job.key))


@dataclass(frozen=True)
class Deadline:
    """Timeout of a fit, and the folder where workers report fits that exceed it."""

    # A fit that hangs in compiled code handles neither exceptions nor signals, so the watchdog
    # thread of faulthandler writes into a file that was opened for this fit, and ends the process.
    seconds: float
    folder: Path

    @contextmanager
    def watch(self, number: int = -1, part: int = 0, fold: int = 0) -> Iterator[None]:
        """End this process if the fit in this context times out."""
        path = self.folder / f"late_{number}_{part}_{fold}"
        with open(path, "w") as file:
            try:
                faulthandler.dump_traceback_later(self.seconds, exit=True, file=file)
            except RuntimeError as error:
                # The watchdog thread starts anew for each fit, and cannot where memory is short.
                raise MemoryError(str(error)) from error
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()
        path.unlink(missing_ok=True)

    def timed_out_folds(self) -> dict[Key, int]:
        """Return the fold that timed out, by the key of the job, and delete the reports."""
        folds: dict[Key, int] = {}
        for path in self.folder.glob("late_*"):
            number, part, fold = (int(word) for word in path.name.split("_")[1:])
            if path.stat().st_size:
                folds[number, part] = fold
            path.unlink(missing_ok=True)
        return folds


def _timed_out_fit(job: Job, fold: int, seconds: float) -> tuple[Record, Job | None]:
    """Return the failed fit of a job that timed out, and the rest of the job or None."""
    size = int(job.mask.sum())
    error = (
        f"TimeoutError: the fit of fold {fold} with a subset of {size} units took longer than "
        f"{seconds:g} s and its worker was ended"
    )
    failed = replace(Record.unknown(len(job.fold_costs), size), error=error)
    failed.fold_costs[fold] = np.inf
    failed.used[fold] = True
    costs = job.fold_costs.copy()
    costs[fold] = np.inf
    # Earlier folds were lost with the worker, and whether the failure counts depends on them.
    is_decided = next_fold(costs, job.fold_order, job.limit) is None
    return replace(failed, seconds=seconds), None if is_decided else replace(job, fold_costs=costs)
