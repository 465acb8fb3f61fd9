"""The Prefect task runner of a comparison, and the submission of searches."""

import logging
import queue
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from swarm.errors import ConfigError, EvaluationError
from swarm.evaluation.dask_executor import quiet_dask
from swarm.evaluation.executors import CLUSTER_TIMEOUT
from swarm.interrupts import children_ignore_sigint

T = TypeVar("T")

# Default ports of schedulers.
_PORTS = {"dask": 8786, "ray": 6379}


def task_runner(kind: str, workers: int, address: str | None = None) -> TaskRunner[Any]:
    """Make a task runner, with an existing cluster of Dask or Ray if there is an address.

    The check of the configuration refuses a kind whose package is not installed.
    """
    if kind == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    if kind == "processes":
        return ProcessPoolTaskRunner(max_workers=workers, initializer=_one_thread)
    module = import_module(f"prefect_{kind}")
    if kind == "dask":
        cluster = {} if address else {"cluster_kwargs": _local_dask(workers)}
        return module.DaskTaskRunner(address=address, **cluster)
    local_ray = {} if address else {"num_cpus": workers, "include_dashboard": False}
    return module.RayTaskRunner(address, {"log_to_driver": False, **local_ray})


def _local_dask(workers: int) -> dict[str, Any]:
    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        "memory_limit": 0,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL + 1,
    }


@contextmanager
def reachable_cluster(kind: str, address: str | None) -> Iterator[None]:
    """Check that the cluster of a task runner answers, else ConfigError, and silence its log."""
    if address is not None and not is_reachable(address, _PORTS[kind], CLUSTER_TIMEOUT):
        raise ConfigError(
            f"no {kind.capitalize()} cluster answers at runner.address {address!r} within"
            f" {CLUSTER_TIMEOUT:g} seconds; start one, or set it to null"
        )
    with quiet_dask() if kind == "dask" else nullcontext():
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


def connection_check(kind: str) -> Callable[[], None]:
    """Return a function that raises EvaluationError if the Dask cluster of this flow is lost."""
    if kind != "dask":
        # Other task runners report their own failures.
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

    `check` is called before each result and twice a second, and raises if none can arrive any more.
    """
    done: queue.SimpleQueue[tuple[T, PrefectFuture[Any]]] = queue.SimpleQueue()
    waiting = iter(items)
    running = 0

    def submit_next(item: T) -> None:
        with children_ignore_sigint():
            future = submit(item)
        future.add_done_callback(lambda ended: done.put((item, ended)))

    for item in waiting:
        submit_next(item)
        running += 1
        if running == at_once:
            break
    while running:
        # The timeout is short because some platforms cannot interrupt a long wait.
        try:
            finished = done.get(timeout=0.5)
        except queue.Empty:
            check()
            continue
        # A lost connection fails all searches at once.
        check()
        running -= 1
        # An error of the caller ends the study, before another item is submitted.
        yield finished
        for item in waiting:
            submit_next(item)
            running += 1
            break


def _one_thread() -> None:
    """Limit the numerical libraries of a worker process to one thread."""
    from threadpoolctl import threadpool_limits

    # The import comes first: the limit does not apply to libraries that are loaded later.
    import swarm.search.driver  # noqa: F401

    threadpool_limits(limits=1)


def is_reachable(address: str, port: int, timeout: float) -> bool:
    """Whether something listens at ``host:port`` or a URL, within `timeout` seconds.

    The libraries of clusters retry for minutes. An address "auto" is left to them.
    """
    if address == "auto":
        return True
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        with socket.create_connection((parts.hostname or "", parts.port or port), timeout):
            return True
    except (OSError, ValueError):
        return False
