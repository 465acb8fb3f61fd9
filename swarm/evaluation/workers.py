"""Workers that train the masks of a batch, on any executor."""

from __future__ import annotations

import faulthandler
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from swarm.checks import require_package
from swarm.errors import ConfigError, SwarmError, TransientError, as_clause
from swarm.evaluation.dask_executor import dask_pool
from swarm.evaluation.executors import Pool, process_pool, thread_pool
from swarm.evaluation.fitting import InvalidCost, Job, fit_mask
from swarm.evaluation.pruning import next_fold
from swarm.interrupts import children_ignore_sigint, silence_pool_thread
from swarm.problem.problem import Problem
from swarm.storage.records import Record
from swarm.threads import one_thread

_POOLS = {"loky": process_pool, "threading": thread_pool, "dask": dask_pool}
BACKENDS = ("loky", "threading", "sequential", "dask")
_DEATHS = 3
# Submitted jobs per worker, one running and one queued, where a retry should not wait for all.
_AHEAD = 2
# Seconds without a result after which a pool is checked.
_POLL = 0.5

T = TypeVar("T")
Key = tuple[int, int]
Fit = tuple[Job, Record | InvalidCost]


class Workers:
    """A pool that trains masks of one problem; its parameters are those of `CrossValidation`."""

    def __init__(
        self,
        problem: Problem,
        n_jobs: int = 1,
        backend: str = "loky",
        address: str | None = None,
        timeout: float | None = None,
        host: Workers | None = None,
    ) -> None:
        from joblib import cpu_count

        if backend not in BACKENDS:
            listed = ", ".join(BACKENDS)
            raise ConfigError(f"unknown worker backend {backend!r}; choose from {listed}")
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
        self.problem, self.address, self.timeout = problem, address, timeout
        self.n_jobs = cpu_count() if n_jobs == -1 else n_jobs
        alone = self.n_jobs == 1 and address is None and timeout is None
        self.backend = "sequential" if alone else backend
        self._host = host
        self._pool: Pool | None = None
        # That of the host, from which it was made.
        self._source: Pool | None = None
        self._opened = ExitStack()
        # The file of a fit that timed out outlives the pool, which breaks.
        self._reports = None if timeout is None else tempfile.TemporaryDirectory("-swarm-late")
        self._batches = 0
        if address is not None:
            self._open()

    def run(self, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train every job and yield it with its result, in any order.

        A mask whose worker died, also of memory, is trained again; TransientError after three
        deaths in a batch, or on a cluster with the same mask, and after repeated errors of the
        machine.
        """
        try:
            if self.backend == "sequential":
                yield from self._in_process(jobs)
            elif jobs:
                yield from self._in_rounds(jobs)
        except MemoryError as error:
            raise TransientError(
                f"training ran out of memory with {self.n_jobs} workers of kind {self.backend!r}; "
                "use fewer workers or a machine with more memory, then resume"
            ) from error

    def call(self, function: Callable[[Problem], T]) -> T | None:
        """Call a function of the problem in a worker; None if the worker dies.

        Raises
        ------
        ConfigError
            If the problem cannot be sent to workers.
        """
        if self.backend == "sequential":
            return function(self.problem)
        try:
            pool = self._open()
            with children_ignore_sigint():
                future = pool.executor.submit(_call, pool.send(), function)
            return future.result()
        except BrokenExecutor:
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

    def close(self) -> None:
        """Shut down the workers, or disconnect from those of a cluster; :meth:`run` reopens."""
        self._pool = None
        self._opened.close()

    def _open(self) -> Pool:
        if (
            self._host is not None
            and self._pool is not None
            and self._host._pool is not self._source
        ):
            # Another user of the host has closed the processes since.
            self.close()
        if self._pool is None:
            shared = None if self._host is None else self._host._open()
            if shared is None or shared.serve is None:
                pool = _POOLS[self.backend](self.problem, self.n_jobs, self.address)
                self._pool = self._opened.enter_context(pool)
            elif self._host is not None and self._host.problem is self.problem:
                self._pool = self._source = shared
            else:
                self._pool = self._opened.enter_context(shared.serve(self.problem))
                self._source = shared
        return self._pool

    def _in_turn(self, jobs: Sequence[Job], n_workers: int) -> list[Job]:
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

    def _in_process(self, jobs: Sequence[Job]) -> Iterator[Fit]:
        for job in self._in_turn(jobs, 1):
            with _quiet(self.problem):
                result = fit_mask(self.problem, job)
            yield job, result

    def _in_rounds(self, jobs: Sequence[Job]) -> Iterator[Fit]:
        """Train all jobs, with a new pool for those that are left when one breaks."""
        self._batches += 1
        deadline = None
        if self._reports is not None:
            deadline = Deadline(self.timeout or 0.0, Path(self._reports.name), self._batches)
        left = {(job.number, job.part): job for job in self._in_turn(jobs, self._open().width())}
        deaths = Counter[Key]()
        while left:
            error = yield from self._round(left, deadline)
            reports = deadline.timed_out_folds().items() if deadline else ()
            late = {key: fold for key, fold in reports if key in left}
            for key, fold in late.items():
                job = left.pop(key)
                failed, rest = _timed_out_fit(job, fold, self.timeout or 0.0)
                if rest is not None:
                    left[key] = rest
                yield job, failed
            if not late:
                deaths.update(left.keys())
            if any(deaths[key] == _DEATHS for key in left):
                raise _too_many_deaths(left, error) from error

    def _round(
        self, left: dict[Key, Job], deadline: Deadline | None
    ) -> Generator[Fit, None, BaseException | None]:
        """Train jobs and remove them, until none is left or the pool breaks; return the reason."""
        pool = self._open()
        finished: SimpleQueue[Future[Record | InvalidCost]] = SimpleQueue()
        waiting, running = deque(left), dict[Future[Record | InvalidCost], Key]()
        died = Counter[Key]()
        broken: BaseException | None = None
        with _quiet(self.problem) if pool.is_local else nullcontext(), silence_pool_thread():
            try:
                while waiting or running:
                    while waiting and (not pool.deaths or len(running) < _AHEAD * pool.width()):
                        job = left[waiting[0]]
                        with children_ignore_sigint():
                            future = pool.executor.submit(
                                _fit, pool.send(), job, deadline, not pool.is_local
                            )
                        running[future] = waiting.popleft()
                        future.add_done_callback(finished.put)
                    try:
                        future = finished.get(timeout=_POLL)
                    except Empty:
                        pool.check()
                        continue
                    key = running.pop(future)
                    try:
                        result = future.result()
                    except pool.deaths as error:
                        pool.check()
                        died[key] += 1
                        if died[key] == _DEATHS:
                            raise _too_many_deaths(left, error) from error
                        waiting.appendleft(key)
                    except (BrokenExecutor, MemoryError) as error:
                        # Others may finish; what does not is left to the next round.
                        broken = error
                        waiting.clear()
                    else:
                        yield left.pop(key), result
            except BrokenExecutor as error:
                # Broken while jobs were submitted.
                broken = error
            finally:
                if running or broken is not None:
                    self.close()
                    if self._host is not None:
                        # The executor is replaced.
                        self._host.close()
        return broken


def _too_many_deaths(left: Collection[Key], error: BaseException | None) -> TransientError:
    masks = len({number for number, _ in left})
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


def _call(load: Any, function: Callable[[Problem], T]) -> T:
    return function(load())


def _fit(load: Any, job: Job, deadline: Deadline | None, is_apart: bool) -> Record | InvalidCost:
    """Train a job in a worker; `load` returns the problem."""
    problem = load()
    with _quiet(problem) if is_apart else nullcontext():
        if deadline is None:
            return fit_mask(problem, job)
        return fit_mask(problem, job, partial(deadline.watch, job))


@dataclass(frozen=True)
class Deadline:
    """Timeout of a fit, and the folder where workers report fits that exceed it."""

    # A fit that hangs in compiled code handles neither exceptions nor signals, so the watchdog
    # thread of faulthandler writes into a file that was opened for this fit, and ends the process.
    seconds: float
    folder: Path
    batch: int  # number of the batch, to ignore reports of earlier batches

    @contextmanager
    def watch(self, job: Job, fold: int) -> Iterator[None]:
        """End this process if the fit in this context times out."""
        path = self.folder / f"late_{self.batch}_{job.number}_{job.part}_{fold}"
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
        """Return the fold that timed out, by number and part of the job, and delete the reports."""
        folds: dict[Key, int] = {}
        for path in self.folder.glob("late_*"):
            batch, number, part, fold = (int(word) for word in path.name.split("_")[1:])
            if batch == self.batch and path.stat().st_size:
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
