"""Dask clusters as executors."""

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from swarm.errors import ConfigError, TransientError, as_clause, describe
from swarm.evaluation.executors import CLUSTER_TIMEOUT, Pool, Source, WorkerDied
from swarm.evaluation.shipping import Shipment
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

# The death of a worker is reported at once, as the caller counts deaths. Workers queue no jobs, so
# that a death is never attributed to a mask that was only queued.
_LOCAL_CONFIG = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.log-format": "%(message)s",
}
# A busy machine may need a while to end a connection, or its local workers.
_CLOSE_SECONDS = 60.0


@contextmanager
def dask_pool(n_jobs: int, address: str | None) -> Iterator[Pool]:
    """Yield the Dask cluster at an address, or a local one of processes with one thread each.

    An existing cluster retries a mask whose worker died distributed.scheduler.allowed-failures
    times, before it counts as one death here; ConfigError if it has no workers or does not
    answer.
    """
    with quiet_dask(), ExitStack() as stack:
        client = _connect(stack, address) if address else _start(stack, n_jobs)
        cluster = _Cluster(client)
        yield Pool(cluster, partial(_scatter, client), cluster.width, cluster.check)


class _Cluster(Executor):
    """Executor of a client.

    ``client.get_executor()`` never completes a future whose result was lost with its worker.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._no_workers_since: float | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call."""
        distributed: Any = importlib.import_module("distributed")
        future: Future[Any] = Future()
        task = self._client.submit(fn, *args, **kwargs, pure=False)

        async def resolve() -> None:
            try:
                future.set_result(await task)
            except (distributed.KilledWorker, distributed.CancelledError) as error:
                # Dask cancels a task whose result, or whose problem, was lost with a worker.
                future.set_exception(WorkerDied(str(error)))
            except BaseException as error:
                future.set_exception(error)

        # A callback of the task would have a thread of its own, which may wait for ever, and the
        # interpreter for it, if the client closes at that moment.
        self._client.loop.add_callback(resolve)
        return future

    def width(self) -> int:
        """Return the number of threads of all workers, at least 1."""
        n_threads = int(sum(self._client.nthreads().values()))
        if n_threads > 0:
            self._no_workers_since = None
        elif self._no_workers_since is None:
            self._no_workers_since = time.monotonic()
        return max(1, n_threads)

    def check(self) -> None:
        """Raise OSError if the scheduler, or all workers, are gone."""
        if self._client.status != "running":
            raise ConnectionError("the connection to the Dask scheduler is lost")
        self.width()
        since = self._no_workers_since
        if since is not None and time.monotonic() - since > CLUSTER_TIMEOUT:
            raise ConnectionError(
                f"the Dask cluster has had no workers for {CLUSTER_TIMEOUT:g} seconds"
            )


@contextmanager
def _scatter(client: Any, problem: Problem) -> Iterator[Source]:
    """Send a problem to all workers, again if no worker has it."""
    future: Any = None

    def send() -> Any:
        nonlocal future
        if future is None or future.status != "finished":
            future = client.scatter(Shipment(problem), broadcast=True, hash=False)
        return future

    yield send


def _connect(stack: ExitStack, address: str) -> Any:
    """Return the client of an existing cluster, which closes with the stack."""
    distributed: Any = importlib.import_module("distributed")
    try:
        client = distributed.Client(address, timeout=CLUSTER_TIMEOUT, set_as_default=False)
        stack.callback(client.close, timeout=_CLOSE_SECONDS)
        client.wait_for_workers(1, timeout=CLUSTER_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Dask cluster with workers answers at the address {address!r} within "
            f"{CLUSTER_TIMEOUT:g} seconds, {as_clause(describe(error))}; start one with "
            "'dask scheduler' and 'dask worker', or leave the address out"
        ) from error
    return client


def _start(stack: ExitStack, n_jobs: int) -> Any:
    """Start a local cluster; return its client. Both close with the stack."""
    import dask

    distributed: Any = importlib.import_module("distributed")
    with dask.config.set(_LOCAL_CONFIG), children_ignore_sigint(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cluster = distributed.LocalCluster(
                n_workers=n_jobs,
                threads_per_worker=1,
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
        stack.callback(cluster.close, timeout=_CLOSE_SECONDS)
        client = distributed.Client(cluster, timeout=CLUSTER_TIMEOUT, set_as_default=False)
    stack.callback(client.close, timeout=_CLOSE_SECONDS)
    return client


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
