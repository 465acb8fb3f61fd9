"""Training on a Dask cluster."""

from __future__ import annotations

import importlib
import logging
import queue
import time
import warnings
from contextlib import suppress
from typing import Any

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.cluster import CLUSTER_TIMEOUT, Key, Shipment
from swarm.evaluation.fitting import Fitted, Job, fit_mask
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

__all__ = ["DaskCluster"]

# The death of a worker is reported at once and counted here. No worker queues jobs, so that a
# death is never attributed to a mask that was only queued.
_LOCAL = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.log-format": "%(message)s",
}
_POLL = 0.5


class DaskCluster:
    """A Dask cluster at an address, or a local one of processes.

    The scheduler of an existing cluster retries a mask whose worker died
    ``distributed.scheduler.allowed-failures`` times, before it counts as one death here.

    Parameters
    ----------
    problem : Problem
    n_jobs : int
        Processes to start if there is no address, with one thread each.
    address : str or None
        ``tcp://host:8786``.
    """

    def __init__(self, problem: Problem, n_jobs: int, address: str | None) -> None:
        self._problem = problem
        self._dask: Any = importlib.import_module("distributed")
        self._cluster: Any = None
        self._shipped: Any = None
        self._futures: dict[Key, Any] = {}
        self._finished: queue.SimpleQueue[tuple[Key, Any]] = queue.SimpleQueue()
        self._logger = logging.getLogger("distributed")
        self._level = self._logger.level
        # Failures are reported by exceptions; the log of Dask would repeat them.
        self._logger.setLevel(logging.CRITICAL + 1)
        try:
            self._client = self._connected(address) if address else self._started(n_jobs)
        except BaseException:
            self._logger.setLevel(self._level)
            raise

    def width(self) -> int:
        """Return the current number of threads of all workers."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def submit(self, key: Key, job: Job) -> None:
        """Submit a job; send the problem again if no worker has it."""
        if self._shipped is None or self._shipped.status != "finished":
            shipment = Shipment(self._problem)
            self._shipped = self._client.scatter(shipment, broadcast=True, hash=False)
        future = self._client.submit(_fit_shipped, self._shipped, job, pure=False)
        self._futures[key] = future
        future.add_done_callback(lambda done: self._finished.put((key, done)))

    def next(self) -> tuple[Key, Fitted | None]:
        """Wait for a job; raise EvaluationError if there are no workers left."""
        missed = None
        while True:
            try:
                key, future = self._finished.get(timeout=_POLL)
            except queue.Empty:
                missed = self._missed(missed)
                continue
            if key not in self._futures or self._futures[key] is not future:
                continue
            del self._futures[key]
            if future.status == "cancelled":
                self._missed(None)
                return key, None
            try:
                error = future.exception()
                if isinstance(error, self._dask.KilledWorker):
                    return key, None
                if error is not None:
                    raise error
                fitted: Fitted = future.result()
            except self._dask.CancelledError:
                # The worker finished, but died before the result was fetched.
                self._missed(None)
                return key, None
            return key, fitted

    def forget(self) -> None:
        """Cancel the remaining jobs; running fits finish, and their results are dropped."""
        futures, self._futures = list(self._futures.values()), {}
        if futures and self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)

    def close(self) -> None:
        """Disconnect, and shut down a local cluster."""
        self.forget()
        self._shipped = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client.close(timeout=CLUSTER_TIMEOUT)
            if self._cluster is not None:
                self._cluster.close(timeout=CLUSTER_TIMEOUT)
        self._logger.setLevel(self._level)

    def _missed(self, since: float | None) -> float | None:
        """Return the time since which there have been no workers; None if there are some."""
        if self._client.status != "running":
            raise EvaluationError(
                "the connection to the Dask scheduler is lost; restart the scheduler and resume"
            )
        if self._client.nthreads():
            return None
        since = time.monotonic() if since is None else since
        if time.monotonic() - since > CLUSTER_TIMEOUT:
            raise EvaluationError(
                f"the Dask cluster has had no workers for {CLUSTER_TIMEOUT:g} seconds; start "
                "workers and resume"
            )
        return since

    def _connected(self, address: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                client = self._dask.Client(address, timeout=CLUSTER_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"no Dask scheduler answers at evaluation.address {address!r} within "
                f"{CLUSTER_TIMEOUT:g} seconds; start one with 'dask scheduler', or set it to null"
            ) from error
        try:
            client.wait_for_workers(1, timeout=CLUSTER_TIMEOUT)
        except TimeoutError as error:
            client.close()
            raise ConfigError(
                f"the Dask scheduler at evaluation.address {address!r} has had no workers for "
                f"{CLUSTER_TIMEOUT:g} seconds; start one with 'dask worker {address} --nthreads 1'"
            ) from error
        return client

    def _started(self, n_jobs: int) -> Any:
        import dask

        with dask.config.set(_LOCAL), children_ignore_sigint(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self._cluster = self._dask.LocalCluster(
                    n_workers=n_jobs,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    host="127.0.0.1",
                    dashboard_address=None,
                    worker_dashboard_address=None,
                    silence_logs=logging.CRITICAL + 1,
                )
            except RuntimeError as error:
                raise EvaluationError(
                    f"the {n_jobs} Dask workers did not start; a script that starts them needs "
                    "an if __name__ == '__main__' guard"
                ) from error
            return self._dask.Client(self._cluster, timeout=CLUSTER_TIMEOUT, set_as_default=False)


def _fit_shipped(shipment: Shipment, job: Job) -> Fitted:
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")
        return fit_mask(shipment.problem, job)
