"""The Prefect task runner of a comparison, and the submission of searches."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar, cast

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.dask_executor import quiet_dask
from swarm.evaluation.executors import CLUSTER_TIMEOUT, is_reachable
from swarm.evaluation.ray_executor import RayConnection, RayHead
from swarm.interrupts import children_ignore_sigint

T = TypeVar("T")


def task_runner(kind: str, workers: int, address: str | None = None) -> TaskRunner[Any]:
    """Make the task runner: ``threads``, ``processes``, ``dask`` or ``ray``.

    Parameters
    ----------
    kind : str
    workers : int
        Threads or processes to start if there is no address.
    address : str, optional
        Scheduler of an existing Dask or Ray cluster.

    Raises
    ------
    ConfigError
        If its package is not installed.
    """
    if kind == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    if kind == "processes":
        return ProcessPoolTaskRunner(max_workers=workers, initializer=_one_thread)
    try:
        # Optional packages.
        module = import_module(f"prefect_{kind}")
    except ImportError:
        raise ConfigError(
            f"runner.kind {kind!r} needs the package prefect-{kind}, which is not installed;"
            f" run `pip install prefect-{kind}`, or set runner.kind to 'threads'"
        ) from None
    made: TaskRunner[Any]
    if kind == "dask":
        made = module.DaskTaskRunner(address=address, **({} if address else _local_dask(workers)))
    else:
        made = module.RayTaskRunner()
    return made


def _local_dask(workers: int) -> dict[str, Any]:
    options = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "memory_limit": 0,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL + 1,
    }
    return {"cluster_kwargs": options}


@contextmanager
def connected(kind: str, workers: int, address: str | None) -> Iterator[None]:
    """Connect to the cluster of a task runner, or see that it can be.

    Raises
    ------
    ConfigError
        If nothing answers at the address.
    """
    if kind == "ray":
        # Prefect's task runner uses the connection of its process.
        with RayConnection(workers, address, "runner.address"):
            yield
    elif kind == "dask":
        if address is not None and not is_reachable(address, 8786, CLUSTER_TIMEOUT):
            raise ConfigError(
                f"no Dask scheduler answers at runner.address {address!r} within "
                f"{CLUSTER_TIMEOUT:g} seconds; start one with 'dask scheduler', or set it to null"
            )
        with quiet_dask():
            yield
    else:
        yield


@contextmanager
def one_server() -> Iterator[None]:
    """Pass the address of the Prefect server to worker processes, which would start their own."""
    with get_client(sync_client=True) as client:
        address = str(client.api_url)
    if not address.startswith("http"):
        yield
        return
    with temporary_settings({PREFECT_API_URL: address.rstrip("/")}):
        yield


def connection_check(kind: str, address: str | None) -> Callable[[], None]:
    """Return a function that raises EvaluationError if the cluster of this flow is lost.

    Other kinds of task runners have no connection.
    """
    if kind == "ray":
        return RayHead(address).check
    if kind != "dask":
        # Threads and processes of this machine report their own failures.
        return lambda: None
    context = FlowRunContext.get()
    assert context is not None
    with children_ignore_sigint():
        client = cast(Any, context.task_runner).client

    def check() -> None:
        if client.status != "running":
            raise EvaluationError(
                "the connection to the Dask scheduler is lost; restart the scheduler and run the "
                "same command to resume"
            )

    return check


def as_they_finish(
    items: Sequence[T],
    submit: Callable[[T], PrefectFuture[Any]],
    at_once: int,
    check: Callable[[], None],
) -> Iterator[tuple[T, PrefectFuture[Any]]]:
    """Submit items, at most `at_once` at a time, and yield each with its future when it is done.

    Other items are not submitted yet, so they need no memory and do not delay an interrupt.
    `check` is called before each result and twice a second, and raises if none can arrive any more.
    """
    done: queue.SimpleQueue[tuple[T, PrefectFuture[Any]]] = queue.SimpleQueue()
    waiting, running = iter(items), 0

    def hand_out(item: T) -> None:
        with children_ignore_sigint():
            future = submit(item)
        future.add_done_callback(lambda ended: done.put((item, ended)))

    for item in waiting:
        hand_out(item)
        running += 1
        if running == at_once:
            break
    while running:
        # Short timeouts, as some platforms cannot interrupt a long wait.
        try:
            finished = done.get(timeout=0.5)
        except queue.Empty:
            check()
            continue
        # A lost connection fails all searches at once.
        check()
        running -= 1
        for item in waiting:
            hand_out(item)
            running += 1
            break
        yield finished


def _one_thread() -> None:
    """Limit the numerical libraries of a worker process to one thread."""
    from threadpoolctl import threadpool_limits

    # Imported first: the limit does not apply to libraries that are loaded later.
    import swarm.search.driver  # noqa: F401

    threadpool_limits(limits=1)
