"""Workers of a Dask cluster."""

from __future__ import annotations

import importlib
import logging
import queue
import time
import warnings
from contextlib import suppress
from typing import Any

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.cluster import PATIENCE, Key, Shipment
from swarm.evaluation.fitting import Fitted, Job, fit_mask
from swarm.interrupts import deaf_children
from swarm.problem.problem import Problem

__all__ = ["DaskCluster"]

# A worker's death is told at once and counted here, and no worker holds jobs it does not do: a
# mask is not blamed for the death of a worker where it only waited.
_LOCAL = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.log-format": "%(message)s",
}
_POLL = 0.5


class DaskCluster:
    """A Dask cluster at an address, or one of processes that is started here.

    On a cluster of one's own its scheduler tries a mask whose worker died again by itself, as
    ``distributed.scheduler.allowed-failures`` says, before it counts as one death here.

    Parameters
    ----------
    problem : Problem
    n_jobs : int
        Processes to start where there is no address, one thread each.
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
        # What goes wrong ends here in a sentence; its log would repeat it, line by line.
        self._logger.setLevel(logging.CRITICAL + 1)
        try:
            self._client = self._connected(address) if address else self._started(n_jobs)
        except BaseException:
            self._logger.setLevel(self._level)
            raise

    def width(self) -> int:
        """Count the threads of all workers there are now."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def submit(self, key: Key, job: Job) -> None:
        """Hand a job out; ship the problem again if no worker has it any more."""
        if self._shipped is None or self._shipped.status != "finished":
            shipment = Shipment(self._problem)
            self._shipped = self._client.scatter(shipment, broadcast=True, hash=False)
        future = self._client.submit(_fit_shipped, self._shipped, job, pure=False)
        self._futures[key] = future
        future.add_done_callback(lambda done: self._finished.put((key, done)))

    def next(self) -> tuple[Key, Fitted | None]:
        """Wait for a job; complain where there is nobody left to do it."""
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
                # The worker had finished, and died with the result before it was fetched.
                self._missed(None)
                return key, None
            return key, fitted

    def forget(self) -> None:
        """Cancel what is left; a fit that runs is finished and its result dropped."""
        futures, self._futures = list(self._futures.values()), {}
        if futures and self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)

    def close(self) -> None:
        """Disconnect; end the workers that were started here."""
        self.forget()
        self._shipped = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client.close(timeout=PATIENCE)
            if self._cluster is not None:
                self._cluster.close(timeout=PATIENCE)
        self._logger.setLevel(self._level)

    def _missed(self, since: float | None) -> float | None:
        """Return since when there has been no worker; None while there are some."""
        if self._client.status != "running":
            raise EvaluationError("the Dask scheduler went away; start it again and resume")
        if self._client.nthreads():
            return None
        since = time.monotonic() if since is None else since
        if time.monotonic() - since > PATIENCE:
            raise EvaluationError(
                f"the Dask cluster has had no worker for {PATIENCE:g} seconds; start some and "
                "resume"
            )
        return since

    def _connected(self, address: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                client = self._dask.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"no Dask scheduler answers at evaluation.address {address!r} within "
                f"{PATIENCE:g} seconds; start one with 'dask scheduler', or set it to null"
            ) from error
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            client.close()
            raise ConfigError(
                f"the Dask scheduler at evaluation.address {address!r} has had no worker for "
                f"{PATIENCE:g} seconds; start one with 'dask worker {address} --nthreads 1'"
            ) from error
        return client

    def _started(self, n_jobs: int) -> Any:
        import dask

        with dask.config.set(_LOCAL), deaf_children(), warnings.catch_warnings():
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
                    "its work under if __name__ == '__main__'"
                ) from error
            return self._dask.Client(self._cluster, timeout=PATIENCE, set_as_default=False)


def _fit_shipped(shipment: Shipment, job: Job) -> Fitted:
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")
        return fit_mask(shipment.problem, job)
