"""Worker pools that train masks, with one thread per fit and the data sent once."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.cluster import CLUSTERS, Cluster, check_cluster, open_cluster, train
from swarm.evaluation.deadline import Deadline, timed_out_fit
from swarm.evaluation.fitting import Fitted, Job, fit_mask
from swarm.interrupts import children_ignore_sigint, silence_pool_thread
from swarm.problem.problem import Problem
from swarm.threads import one_thread

__all__ = ["BACKENDS", "Workers"]

BACKENDS = ("loky", "threading", "sequential", *CLUSTERS)
_DEATHS = 3
# Environment of the workers, as set by joblib for its own pools.
_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMBA", "NUMEXPR")
}


class Workers:
    """A pool that trains masks of one problem.

    Parameters
    ----------
    problem : Problem
    n_jobs : int
        Workers; -1 for one per core.
    backend : str
        ``loky`` (processes), ``threading``, ``sequential``, ``dask`` or ``ray``.
    address : str, optional
        Address of an existing Dask or Ray cluster, which is connected to at once; `n_jobs` is
        ignored. Default: a local cluster of `n_jobs` processes is started when needed.
    timeout : float, optional
        Timeout of a fit in seconds. A fit that exceeds it fails, and its worker is replaced.
        Requires ``loky``; a single worker is then a separate process too. Default: no timeout.
    """

    def __init__(
        self,
        problem: Problem,
        n_jobs: int = 1,
        backend: str = "loky",
        address: str | None = None,
        timeout: float | None = None,
    ) -> None:
        from joblib import cpu_count

        if backend not in BACKENDS:
            listed = ", ".join(BACKENDS)
            raise ConfigError(f"unknown worker backend {backend!r}; choose from {listed}")
        if n_jobs != -1 and n_jobs < 1:
            raise ConfigError(f"n_jobs must be -1 or at least 1, got {n_jobs}")
        if backend in CLUSTERS:
            check_cluster(backend)
        elif address is not None:
            raise ConfigError(
                f"evaluation.address is {address!r}, but the worker backend {backend!r} does not "
                "support an address; use 'dask' or 'ray', or set it to null"
            )
        if timeout is not None and (backend != "loky" or not timeout > 0):
            raise ConfigError(
                f"a timeout must be above 0 and needs the worker backend 'loky', got {timeout} s "
                f"and {backend!r}; set evaluation.backend to 'loky', or "
                "evaluation.timeout_seconds to null"
            )
        self.problem, self.address, self.timeout = problem, address, timeout
        self.n_jobs = cpu_count() if n_jobs == -1 else n_jobs
        alone = self.n_jobs == 1 and address is None and timeout is None
        self.backend = "sequential" if alone else backend
        self._shipment: str | None = None
        self._batches = 0
        self._cluster: Cluster | None = None
        if address is not None:
            self._cluster = open_cluster(backend, problem, self.n_jobs, address)

    def run(self, jobs: Sequence[Job]) -> Iterator[Fitted]:
        """Train every job and yield results as they finish, in any order.

        A mask whose worker died is trained again; finished results are kept. Three deaths in a
        batch, or on a cluster with the same mask, raise an error. A worker that runs out of memory
        counts as dead; a worker that timed out does not.

        Raises
        ------
        EvaluationError
            If workers keep dying, or there is not enough memory.
        """
        try:
            yield from self._run(jobs)
        except MemoryError as error:
            raise EvaluationError(
                f"training ran out of memory with {self.n_jobs} workers of kind {self.backend!r}; "
                "use fewer workers or a machine with more memory, then resume"
            ) from error

    def _run(self, jobs: Sequence[Job]) -> Iterator[Fitted]:
        if self.backend in CLUSTERS:
            yield from self._on_cluster(jobs)
            return
        left = {(job.number, job.part): job for job in self._in_turn(jobs)}
        if not left:
            return
        if self.backend == "sequential" or (len(left) == 1 and self.backend != "loky"):
            yield from self._in_process(left)
            return
        from joblib.externals.loky.process_executor import BrokenProcessPool

        self._batches += 1
        deaths = 0
        while left:
            try:
                for fitted in self._answers(list(left.values())):
                    del left[fitted.number, fitted.part]
                    yield fitted
            except (BrokenProcessPool, MemoryError) as error:
                late = list(self._late(left))
                yield from late
                deaths += not late
                if deaths == _DEATHS:
                    masks = len({number for number, _ in left})
                    doubt = "" if isinstance(error, MemoryError) else "perhaps "
                    raise EvaluationError(
                        f"workers died {deaths} times with {masks} masks left to "
                        f"train, {doubt}out of memory; use fewer workers"
                    ) from error

    def close(self) -> None:
        """Shut down the worker processes and delete the problem that was sent to them."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if self._shipment is not None:
            from joblib.externals.loky import get_reusable_executor

            # Without reuse, a pool of another size would be created just to be shut down.
            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
            shutil.rmtree(self._shipment, ignore_errors=True)
            self._shipment = None

    def _on_cluster(self, jobs: Sequence[Job]) -> Iterator[Fitted]:
        if not jobs:
            return
        if self._cluster is None:
            self._cluster = open_cluster(self.backend, self.problem, self.n_jobs, self.address)
        yield from train(self._cluster, self._in_turn(jobs, self._cluster.width()), _DEATHS)

    def _in_turn(self, jobs: Sequence[Job], n_workers: int | None = None) -> list[Job]:
        """Order jobs to balance the load of the workers at the end of a batch.

        Largest first: a large mask that starts last would keep a single core busy. The last
        masks, one fewer than there are workers, are split into folds. These are trained in
        parallel, so that pruning cannot skip any of them, which is a small cost.
        """
        ordered = sorted(jobs, key=lambda job: -int(job.mask.sum()))
        n_workers = self.n_jobs if n_workers is None else n_workers
        whole = len(ordered) - n_workers + 1
        if whole < n_workers or self.problem.importance == "refit":
            return ordered
        return ordered[:whole] + [part for job in ordered[whole:] for part in job.by_fold()]

    def _in_process(self, left: Mapping[tuple[int, int], Job]) -> Iterator[Fitted]:
        with one_thread():
            for job in left.values():
                yield _fit_quietly(self.problem, job)

    def _answers(self, jobs: Sequence[Job]) -> Iterator[Fitted]:
        deadline = self._deadline()
        return self._parallel(jobs) if deadline is None else self._watched(jobs, deadline)

    def _deadline(self) -> Deadline | None:
        if self.timeout is None:
            return None
        return Deadline(self.timeout, Path(self._ship()), self._batches)

    def _late(self, left: dict[tuple[int, int], Job]) -> Iterator[Fitted]:
        """Yield the fits that timed out, and update `left` in place."""
        deadline = self._deadline()
        for key, fold in (deadline.late() if deadline else {}).items():
            if key in left:
                fitted, rest = timed_out_fit(left.pop(key), fold, self.timeout or 0.0)
                if rest is not None:
                    left[key] = rest
                yield fitted

    def _watched(self, jobs: Sequence[Job], deadline: Deadline) -> Iterator[Fitted]:
        """Train in processes, even a single one, which joblib would not start."""
        from concurrent.futures import as_completed

        from joblib.externals.loky import get_reusable_executor

        shipped = self._ship()
        with silence_pool_thread():
            with children_ignore_sigint():
                pool = get_reusable_executor(max_workers=self.n_jobs, env=_ONE_THREAD, timeout=300)
                answers = [pool.submit(_fit_shipped, shipped, job, deadline) for job in jobs]
            try:
                yield from (answer.result() for answer in as_completed(answers))
            finally:
                # Cancelled futures would end loky's manager thread, but not the workers.
                if not all(answer.done() for answer in answers):
                    pool.shutdown(wait=True, kill_workers=True)

    def _parallel(self, jobs: Sequence[Job]) -> Iterator[Fitted]:
        from joblib import Parallel, delayed, parallel_config
        from threadpoolctl import threadpool_limits

        threads = {"inner_max_num_threads": 1} if self.backend == "loky" else {}
        with parallel_config(self.backend, n_jobs=self.n_jobs, **threads):
            pool = Parallel(
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch="all",
                max_nbytes=None,
            )
            if self.backend == "loky":
                shipped = self._ship()
                with silence_pool_thread():
                    with children_ignore_sigint():
                        answers = pool(delayed(_fit_shipped)(shipped, job) for job in jobs)
                    yield from _until_closed(answers)
            else:
                # Warning filters and BLAS threads are per process: set them from one thread.
                with warnings.catch_warnings(), threadpool_limits(limits=1):
                    warnings.simplefilter("ignore")
                    answers = pool(delayed(fit_mask)(self.problem, job) for job in jobs)
                    yield from _until_closed(answers)

    def _ship(self) -> str:
        """Write the problem to a folder from which each worker reads it once; return the folder."""
        if self._shipment is None:
            import cloudpickle

            folder = tempfile.mkdtemp(prefix="swarm-problem-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            # cloudpickle supports classes defined in a notebook.
            (Path(folder) / "problem").write_bytes(cloudpickle.dumps(self.problem))
            self._shipment = folder
        return self._shipment


def _until_closed(answers: Generator[Fitted, None, None]) -> Iterator[Fitted]:
    """Yield the results; if closed early, suppress the warning of joblib."""
    try:
        for fitted in answers:  # noqa: UP028  (would close before the filter is set)
            yield fitted
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.close()


def _fit_shipped(folder: str, job: Job, deadline: Deadline | None = None) -> Fitted:
    return _fit_quietly(_unpack(folder), job, deadline)


def _fit_quietly(problem: Problem, job: Job, deadline: Deadline | None = None) -> Fitted:
    """Fit without warnings, which would repeat for every mask of a search."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if deadline is None:
            return fit_mask(problem, job)
        return fit_mask(problem, job, partial(deadline.watch, job))


@lru_cache(maxsize=1)
def _unpack(folder: str) -> Problem:
    import cloudpickle

    problem: Problem = cloudpickle.loads((Path(folder) / "problem").read_bytes())
    return problem
