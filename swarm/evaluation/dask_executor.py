"""Dask clusters as executors."""

from __future__ import annotations

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from swarm.errors import ConfigError, TransientError
from swarm.evaluation.executors import CLUSTER_TIMEOUT, Pool
from swarm.evaluation.shipping import Shipment
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

# The death of a worker is reported at once and counted by the caller. No worker queues jobs, so
# that a death is never attributed to a mask that was only queued.
_LOCAL = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.log-format": "%(message)s",
}

# Timeout of the end of a connection, and of local workers: a busy machine may need a while.
_CLOSE_SECONDS = 60.0


@contextmanager
def dask_pool(problem: Problem, n_jobs: int, address: str | None) -> Iterator[Pool]:
    """Yield the Dask cluster at an address, or a local one of processes with one thread each.

    An existing cluster retries a mask whose worker died distributed.scheduler.allowed-failures
    times, before it counts as one death here; ConfigError if it has no workers or does not
    answer.
    """
    distributed: Any = importlib.import_module("distributed")
    with quiet_dask(), _connected(address) if address else _started(n_jobs) as client:
        executor = _DaskExecutor(client)
        yield Pool(
            executor,
            _scattering(client, problem),
            lambda: max(1, _threads(client)),
            # Cancelled if the worker died before its result was fetched, or with the problem.
            (distributed.KilledWorker, distributed.CancelledError),
            executor.check,
        )


class _DaskExecutor(Executor):
    """Executor of a client that also completes a future whose result died with its worker."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._no_workers_since: float | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call."""
        future: Future[Any] = Future()

        def resolve(task: Any) -> None:
            self._no_workers_since = None
            try:
                with _scheduler_answers():
                    result = task.result()
                future.set_result(result)
            except BaseException as error:
                future.set_exception(error)

        with _scheduler_answers():
            self._client.submit(fn, *args, **kwargs, pure=False).add_done_callback(resolve)
        return future

    def check(self) -> None:
        """Raise TransientError if the scheduler, or all workers, are gone."""
        if self._client.status != "running":
            raise _no_scheduler()
        if _threads(self._client):
            self._no_workers_since = None
            return
        since = self._no_workers_since = self._no_workers_since or time.monotonic()
        if time.monotonic() - since > CLUSTER_TIMEOUT:
            raise _no_workers()


@contextmanager
def _scheduler_answers() -> Iterator[None]:
    """Raise TransientError if the scheduler ends before it answers."""
    distributed: Any = importlib.import_module("distributed")
    try:
        yield
    except distributed.comm.CommClosedError as error:
        raise _no_scheduler() from error


def _threads(client: Any) -> int:
    """Return the number of threads of all workers; TransientError if the scheduler is gone."""
    try:
        return int(sum(client.nthreads().values()))
    except OSError as error:
        # The connection was closed, or the client tried in vain to open another one.
        raise _no_scheduler() from error


def _no_scheduler() -> TransientError:
    return TransientError(
        "the connection to the Dask scheduler is lost; restart the scheduler and resume"
    )


def _no_workers() -> TransientError:
    return TransientError(
        f"the Dask cluster has had no workers for {CLUSTER_TIMEOUT:g} seconds; start workers and "
        "resume"
    )


def _scattering(client: Any, problem: Problem) -> Callable[[], Any]:
    """Return a function that sends the problem to all workers, again if no worker has it."""
    sent: Any = None

    def send() -> Any:
        nonlocal sent
        if sent is None or sent.status != "finished":
            try:
                sent = client.scatter(Shipment(problem), broadcast=True, hash=False)
            except TimeoutError as error:
                raise _no_workers() from error
            except OSError as error:
                raise _no_scheduler() from error
        return sent

    return send


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    distributed: Any = importlib.import_module("distributed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = distributed.Client(address, timeout=CLUSTER_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at the address {address!r} within "
            f"{CLUSTER_TIMEOUT:g} seconds; start one with 'dask scheduler', or leave it out"
        ) from error
    try:
        try:
            client.wait_for_workers(1, timeout=CLUSTER_TIMEOUT)
        except TimeoutError as error:
            raise ConfigError(
                f"the Dask scheduler at the address {address!r} has had no workers for "
                f"{CLUSTER_TIMEOUT:g} seconds; start one with 'dask worker {address} --nthreads 1'"
            ) from error
        yield client
    finally:
        _close(client)


@contextmanager
def _started(n_jobs: int) -> Iterator[Any]:
    import dask

    distributed: Any = importlib.import_module("distributed")
    with dask.config.set(_LOCAL), children_ignore_sigint(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cluster = distributed.LocalCluster(
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
            raise TransientError(
                f"the {n_jobs} Dask workers did not start; a script that starts them needs "
                "an if __name__ == '__main__' guard"
            ) from error
        client = distributed.Client(cluster, timeout=CLUSTER_TIMEOUT, set_as_default=False)
    try:
        yield client
    finally:
        _close(client)
        _close(cluster)


def _close(connection: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connection.close(timeout=_CLOSE_SECONDS)


@contextmanager
def quiet_dask() -> Iterator[None]:
    """Silence the log of Dask, which would repeat what exceptions report."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
