"""Ray clusters as executors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.executors import CLUSTER_TIMEOUT, Pool, is_reachable
from swarm.evaluation.shipping import Shipment
from swarm.interrupts import children_ignore_sigint
from swarm.problem.problem import Problem

# Seconds between two checks of the head, and until one fails.
_CHECK_SECONDS = 1.0


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

    with RayConnection(n_jobs, address):
        # In a list, because Ray would otherwise deserialize the problem for every job.
        sent = partial(_received, [ray.put(Shipment(problem))])
        head = RayHead(address)
        executor = _RayExecutor(head)
        try:
            yield Pool(
                executor,
                lambda: sent,
                head.width,
                (
                    exceptions.WorkerCrashedError,
                    exceptions.NodeDiedError,
                    exceptions.OutOfMemoryError,
                    exceptions.ObjectLostError,
                ),
                head.check,
            )
        finally:
            if not head.is_lost:
                executor.shutdown(cancel_futures=True)


class RayHead:
    """The head of the connected cluster, which is watched.

    Ray ends the process, without an exception, when it has not reached the head for a minute.

    Parameters
    ----------
    address : str or None
        Address that was connected to.
    """

    def __init__(self, address: str | None) -> None:
        import ray

        self._address: str = ray.get_runtime_context().gcs_address
        if address is not None and address.startswith("ray://"):
            self._address = address
        self._checked = 0.0
        self._lost_since: float | None = None
        self._width = 1
        self.is_lost = False
        self.check()

    def width(self) -> int:
        """Return the processors of the cluster, as of the last check."""
        self.check()
        return self._width

    def check(self) -> None:
        """Raise EvaluationError if the head has been unreachable for some seconds."""
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return
        self._checked = now
        if is_reachable(self._address, 6379, _CHECK_SECONDS):
            import ray

            self._lost_since = None
            # Only now: without a head this call does not return.
            self._width = max(1, int(ray.cluster_resources().get("CPU", 1)))
            return
        self._lost_since = self._lost_since or now
        if now - self._lost_since >= CLUSTER_TIMEOUT:
            self.is_lost = True
            raise EvaluationError(
                "the connection to the head of the Ray cluster is lost; restart the head and resume"
            )


class _RayExecutor(Executor):
    """Executor that runs each call as a task, once."""

    def __init__(self, head: RayHead) -> None:
        import ray

        self._head = head
        self._call: Any = ray.remote(max_retries=0, num_cpus=1)(_call)
        self._running: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call, unless the head is lost."""
        self._head.check()
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


class RayConnection:
    """The connection of this process, closed by its last user if it was opened here.

    Parameters
    ----------
    n_jobs : int
        Processes to start if there is no address.
    address : str or None
    key : str
        Configuration key of the address, for errors.
    """

    _lock = threading.Lock()
    _users = 0

    def __init__(self, n_jobs: int, address: str | None, key: str = "evaluation.address") -> None:
        self._n_jobs, self._address, self._key = n_jobs, address, key

    def __enter__(self) -> None:
        import ray

        with RayConnection._lock:
            self._is_ours = RayConnection._users > 0 or not ray.is_initialized()
            if self._is_ours and RayConnection._users == 0:
                _start(ray, self._n_jobs, self._address, self._key)
            RayConnection._users += self._is_ours

    def __exit__(self, *_: object) -> None:
        import ray

        with RayConnection._lock:
            RayConnection._users -= self._is_ours
            if self._is_ours and RayConnection._users == 0:
                ray.shutdown()


def _start(ray: Any, n_jobs: int, address: str | None, key: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        with children_ignore_sigint():
            ray.init("local", num_cpus=n_jobs, include_dashboard=False, **quiet)
        return
    unreachable = ConfigError(
        f"no Ray cluster answers at {key} {address!r} within {CLUSTER_TIMEOUT:g} seconds; "
        "start one with 'ray start --head', or set it to null"
    )
    if not is_reachable(address, 6379, CLUSTER_TIMEOUT):
        raise unreachable
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        # Something listens there: a wrong token, or another version of Ray.
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"the Ray cluster at {key} {address!r} does not accept the connection: {reason}"
        ) from error
