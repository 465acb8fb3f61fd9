"""Ray clusters as executors."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from swarm.errors import ConfigError
from swarm.evaluation.executors import CLUSTER_TIMEOUT, Pool, Shipment
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

__all__ = ["ray_pool"]


@contextmanager
def ray_pool(problem: Problem, n_jobs: int, address: str | None) -> Iterator[Pool]:
    """Yield the Ray cluster at an address, or a local one of processes.

    A process has a single connection to Ray: an existing connection is used, regardless of the
    address, and left open. Several threads share the connection that the first of them opened.

    Parameters
    ----------
    problem : Problem
    n_jobs : int
        Processes to start if there is no address.
    address : str or None
        ``host:6379``, ``ray://host:10001`` or ``auto``.

    Raises
    ------
    ConfigError
        If the connection times out.
    """
    import ray
    from ray import exceptions

    with _Connection(n_jobs, address):
        # In a list, because Ray would otherwise deserialize the problem for every job.
        sent = partial(_received, [ray.put(Shipment(problem))])
        executor = _RayExecutor()
        try:
            yield Pool(
                executor,
                lambda: sent,
                lambda: max(1, int(ray.cluster_resources().get("CPU", 1))),
                (
                    exceptions.WorkerCrashedError,
                    exceptions.NodeDiedError,
                    exceptions.OutOfMemoryError,
                    exceptions.ObjectLostError,
                ),
            )
        finally:
            executor.shutdown(cancel_futures=True)


class _RayExecutor(Executor):
    """Executor that runs each call as a task, once."""

    def __init__(self) -> None:
        import ray

        self._call: Any = ray.remote(max_retries=0, num_cpus=1)(_call)
        self._running: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call."""
        task = self._call.remote(fn, *args, **kwargs)
        future: Future[Any] = task.future()
        self._running[future] = task
        future.add_done_callback(self._running.pop)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the tasks that are not finished."""
        import ray

        for task in list(self._running.values()) if cancel_futures else []:
            with suppress(Exception):
                ray.cancel(task)


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


@lru_cache(maxsize=1)
def _shipment(reference: Any) -> Shipment:
    import ray

    shipment: Shipment = ray.get(reference)
    return shipment


def _received(references: Sequence[Any]) -> Problem:
    return _shipment(references[0]).problem


class _Connection:
    """The connection of this process, closed by its last user if it was opened here."""

    _lock = threading.Lock()
    _users = 0

    def __init__(self, n_jobs: int, address: str | None) -> None:
        self._n_jobs, self._address = n_jobs, address

    def __enter__(self) -> None:
        import ray

        with _Connection._lock:
            self._is_ours = _Connection._users > 0 or not ray.is_initialized()
            if self._is_ours and _Connection._users == 0:
                _start(ray, self._n_jobs, self._address)
            _Connection._users += self._is_ours

    def __exit__(self, *_: object) -> None:
        import ray

        with _Connection._lock:
            _Connection._users -= self._is_ours
            if self._is_ours and _Connection._users == 0:
                ray.shutdown()


def _start(ray: Any, n_jobs: int, address: str | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        with children_ignore_sigint():
            ray.init("local", num_cpus=n_jobs, include_dashboard=False, **quiet)
        return
    unreachable = ConfigError(
        f"no Ray cluster answers at evaluation.address {address!r} within {CLUSTER_TIMEOUT:g} "
        "seconds; start one with 'ray start --head', or set it to null"
    )
    _reach(address, unreachable)
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise unreachable from error


def _reach(address: str, unreachable: ConfigError) -> None:
    """Test the connection first, because Ray itself would wait for minutes."""
    if address == "auto":
        return
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        with socket.create_connection((parts.hostname or "", parts.port or 6379), CLUSTER_TIMEOUT):
            pass
    except (OSError, ValueError) as error:
        raise unreachable from error
