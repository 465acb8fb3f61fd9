"""Training on a Ray cluster."""

from __future__ import annotations

import logging
import socket
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from swarm.errors import ConfigError
from swarm.evaluation.cluster import CLUSTER_TIMEOUT, Key, Shipment
from swarm.evaluation.fitting import Fitted, Job, fit_mask
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

__all__ = ["RayCluster"]


class RayCluster:
    """A Ray cluster at an address, or a local one of processes.

    A process has a single connection to Ray: an existing connection is used, regardless of the
    address, and left open. Several threads share the connection that the first of them opened.

    Parameters
    ----------
    problem : Problem
    n_jobs : int
        Processes to start if there is no address.
    address : str or None
        ``host:6379``, ``ray://host:10001`` or ``auto``.
    """

    _lock = threading.Lock()
    _users = 0

    def __init__(self, problem: Problem, n_jobs: int, address: str | None) -> None:
        import ray

        self._ray: Any = ray
        with RayCluster._lock:
            self._ours = RayCluster._users > 0 or not ray.is_initialized()
            if self._ours and RayCluster._users == 0:
                _start(ray, n_jobs, address)
            RayCluster._users += self._ours
        self._fit = ray.remote(max_retries=0, num_cpus=1)(_fit_shipped)
        self._shipped: Any = ray.put(Shipment(problem))
        self._keys: dict[Any, Key] = {}

    def width(self) -> int:
        """Return the current number of CPUs of the cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, key: Key, job: Job) -> None:
        """Submit a job."""
        # In a list, because Ray would otherwise deserialize the problem for every job.
        self._keys[self._fit.remote([self._shipped], job)] = key

    def next(self) -> tuple[Key, Fitted | None]:
        """Wait for a job; its result is None if its worker or machine died."""
        from ray import exceptions

        ready: list[Any] = []
        while not ready:
            ready, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=0.5)
        key = self._keys.pop(ready[0])
        try:
            fitted: Fitted = self._ray.get(ready[0])
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
        ):
            return key, None
        return key, fitted

    def forget(self) -> None:
        """Cancel the remaining jobs."""
        keys, self._keys = self._keys, {}
        for task in keys:
            with suppress(Exception):
                self._ray.cancel(task)

    def close(self) -> None:
        """Release the problem, and shut Ray down if it was started here and is not in use."""
        self.forget()
        self._shipped = None
        with RayCluster._lock:
            if self._ours:
                self._ours = False
                RayCluster._users -= 1
                if RayCluster._users == 0:
                    self._ray.shutdown()


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


def _fit_shipped(shipped: Sequence[Any], job: Job) -> Fitted:
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")
        return fit_mask(_received(shipped[0]).problem, job)


@lru_cache(maxsize=1)
def _received(reference: Any) -> Shipment:
    import ray

    shipment: Shipment = ray.get(reference)
    return shipment
