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
from swarm.evaluation.executors import (
    Loader,
    Pool,
    Source,
    WorkerDied,
    process_pool,
    thread_pool,
)
from swarm.evaluation.fitting import InvalidCost, Job, fit_mask
from swarm.evaluation.pruning import next_fold
from swarm.interrupts import children_ignore_sigint, silence_pool_thread
from swarm.problem.problem import Problem
from swarm.storage.records import Record
from swarm.threads import one_thread

_POOLS = {"loky": process_pool, "threading": thread_pool, "dask": dask_pool}
_MAX_DEATHS = 3
# Workers with several queued jobs never wait for this process. A retry would wait for many.
_MAX_JOBS_PER_WORKER = 4
# A pool is checked after this time without a result.
_POLL_SECONDS = 0.5

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

        _check_options(n_jobs, backend, address, timeout)
        self.n_jobs = cpu_count() if n_jobs == -1 else n_jobs
        needs_no_pool = self.n_jobs == 1 and address is None and timeout is None
        self.backend = "sequential" if needs_no_pool else backend
        self._address = address
        self._pool: Pool | None = None
        self._sent: dict[Problem, tuple[ExitStack, Source]] = {}
        self._pool_stack = ExitStack()
        self._deadline = None
        if timeout is not None:
            # A fit that times out breaks its pool; its report is read after that.
            self._reports = tempfile.TemporaryDirectory("-swarm-late")
            self._deadline = Deadline(timeout, Path(self._reports.name))
        if address is not None:
            self._open()

    def run(self, problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train every job and yield it with its result, in any order.

        A job whose worker died is trained again; TransientError after three deaths of workers, or
        repeated errors of the machine.
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
            return self._submit(_call, problem, function, self._deadline).result()
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
        self._pool_stack.close()
        for problem in list(self._sent):
            self.release(problem)

    def _open(self) -> Pool:
        if self._pool is None:
            pool = _POOLS[self.backend](self.n_jobs, self._address)
            self._pool = self._pool_stack.enter_context(pool)
        return self._pool

    def _submit(self, function: Callable[..., T], problem: Problem, *arguments: Any) -> Future[T]:
        """Submit a function of a problem, which is sent once, and of other arguments."""
        pool = self._open()
        if problem not in self._sent:
            stack = ExitStack()
            self._sent[problem] = stack, stack.enter_context(pool.sending(problem))
        _, source = self._sent[problem]
        load = source()
        try:
            with children_ignore_sigint():
                return pool.executor.submit(function, load, *arguments)
        except BrokenExecutor as error:
            future = Future[T]()
            future.set_exception(error)
            return future

    def _in_pool(self, problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train jobs in workers, and those whose worker died again."""
        pool = self._open()
        waiting = deque(in_turn(jobs, pool.width()))
        running: dict[Future[Record | InvalidCost], Job] = {}
        deaths = Counter[Key]()
        if self._deadline is not None:
            # Delete the reports of earlier calls.
            self._deadline.timed_out_folds()
        with _quiet(problem) if pool.is_local else nullcontext(), silence_pool_thread():
            try:
                while waiting or running:
                    pool = self._open()
                    is_apart = not pool.is_local
                    while waiting and len(running) < _MAX_JOBS_PER_WORKER * pool.width():
                        future = self._submit(_fit, problem, waiting[0], self._deadline, is_apart)
                        running[future] = waiting.popleft()
                    finished = wait(running, _POLL_SECONDS, FIRST_COMPLETED).done
                    lost = list[Job]()
                    is_broken = False
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
                        # A new executor has to train whatever this one has not finished.
                        lost += running.values()
                        running.clear()
                        self.close()
                    elif lost or not finished:
                        pool.check()
                    if lost:
                        timed_out, repeated = self._recovered(lost)
                        yield from timed_out
                        waiting.extendleft(repeated)
                        if not timed_out:
                            deaths.update(job.key for job in lost)
                        if max(deaths.values(), default=0) == _MAX_DEATHS:
                            untrained = [*waiting, *running.values()]
                            raise _too_many_deaths(untrained, reason) from reason
            finally:
                if running:
                    self.close()

    def _recovered(self, lost: Sequence[Job]) -> tuple[list[Fit], list[Job]]:
        """Return the failed fits of jobs that timed out, and the jobs to train again."""
        if self._deadline is None:
            return [], list(lost)
        folds = self._deadline.timed_out_folds()
        timed_out = list[Fit]()
        repeated = list[Job]()
        for job in lost:
            remaining: Job | None = job
            if job.key in folds:
                record, remaining = _timed_out_fit(job, folds[job.key], self._deadline.seconds)
                timed_out.append((job, record))
            if remaining is not None:
                repeated.append(remaining)
        return timed_out, repeated


def _check_options(n_jobs: int, backend: str, address: str | None, timeout: float | None) -> None:
    """Raise ConfigError for options that are out of range, or exclude each other."""
    check_known("worker backend", backend, (*_POOLS, "sequential"))
    if n_jobs != -1 and n_jobs < 1:
        raise ConfigError(f"n_jobs must be -1 or at least 1, got {n_jobs}")
    if backend == "dask":
        require_package("distributed", "dask", "the worker backend 'dask'")
    elif address is not None:
        raise ConfigError(
            f"the worker backend {backend!r} has no address, got {address!r}; use 'dask', or leave "
            "the address out"
        )
    if timeout is not None and (backend != "loky" or not timeout > 0):
        raise ConfigError(
            f"a timeout must be above 0 and needs the worker backend 'loky', got {timeout} s and "
            f"{backend!r}"
        )


def in_turn(jobs: Sequence[Job], n_workers: int) -> list[Job]:
    """Order jobs, the largest first, to balance the workers at the end of a batch.

    A mask with more than a worker's share of all units is split into folds, unless some of them may
    be pruned. So are the last masks: they are trained at the same time, and pruning skips no fold.
    """
    ordered = sorted(jobs, key=lambda job: -int(job.mask.sum()))
    if n_workers == 1:
        return ordered
    share = sum(int(job.mask.sum()) for job in jobs) / n_workers
    n_large = sum(int(job.mask.sum()) > share for job in ordered)
    large = [job for job in ordered[:n_large] if job.limit == np.inf]
    prunable = [job for job in ordered[:n_large] if job.limit < np.inf]
    rest = prunable + ordered[n_large:]
    n_whole = len(rest) - n_workers + 1
    if n_whole < n_workers:
        n_whole = len(rest)
    return [
        *(part for job in large for part in job.by_fold()),
        *rest[:n_whole],
        *(part for job in rest[n_whole:] for part in job.by_fold()),
    ]


def _in_process(problem: Problem, jobs: Sequence[Job]) -> Iterator[Fit]:
    for job in in_turn(jobs, 1):
        with _quiet(problem):
            result = fit_mask(problem, job)
        yield job, result


def _too_many_deaths(untrained: Sequence[Job], error: BaseException) -> TransientError:
    n_masks = len({job.number for job in untrained})
    doubt = "" if isinstance(error, MemoryError) else "perhaps "
    return TransientError(
        f"workers died {_MAX_DEATHS} times with {n_masks} masks left to train, {doubt}out of "
        "memory; use fewer workers, or give each more memory"
    )


@contextmanager
def _quiet(problem: Problem) -> Iterator[None]:
    """Fit on one thread, and silence warnings that are no errors."""
    # Warning filters and BLAS threads are per process: threads share those of their parent.
    with problem.settings.silenced(), one_thread():
        yield


def _call(load: Loader, function: Callable[[Problem], T], deadline: Deadline | None) -> T:
    with nullcontext() if deadline is None else deadline.watch():
        return function(load())


def _fit(load: Loader, job: Job, deadline: Deadline | None, is_apart: bool) -> Record | InvalidCost:
    """Train a job in a worker, which is apart if it is no thread of this process."""
    problem = load()
    with _quiet(problem) if is_apart else nullcontext():
        if deadline is None:
            return fit_mask(problem, job)
        return fit_mask(problem, job, partial(deadline.watch, *job.key))


@dataclass(frozen=True)
class Deadline:
    """Timeout of a fit, and the folder where workers report fits that exceed it.

    A fit that hangs in compiled code handles neither exceptions nor signals, so the watchdog thread
    of faulthandler writes into a file that was opened for this fit, and ends the process.
    """

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
                # Each fit starts the watchdog thread anew, which needs memory.
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
    n_units = int(job.mask.sum())
    error = (
        f"TimeoutError: the fit of fold {fold} with a subset of {n_units} units took longer than "
        f"{seconds:g} s and its worker was ended"
    )
    blank = Record.unknown(len(job.fold_costs), n_units)
    record = replace(blank, seconds=seconds, error=error)
    record.fold_costs[fold] = np.inf
    record.used[fold] = True
    fold_costs = job.fold_costs.copy()
    fold_costs[fold] = np.inf
    # The costs of earlier folds were lost with the worker; they decide whether the failure counts.
    is_decided = next_fold(fold_costs, job.fold_order, job.limit) is None
    return record, None if is_decided else replace(job, fold_costs=fold_costs)
