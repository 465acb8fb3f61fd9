"""The Prefect task runner of a comparison, and the submission of searches."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from swarm.errors import ConfigError
from swarm.interrupts import children_ignore_sigint

__all__ = ["as_they_finish", "one_server", "task_runner"]

T = TypeVar("T")


def task_runner(kind: str, workers: int) -> TaskRunner[Any]:
    """Make the task runner: ``threads``, ``processes``, ``dask`` or ``ray``.

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
        cluster = {"n_workers": workers, "threads_per_worker": 1}
        made = module.DaskTaskRunner(cluster_kwargs=cluster)
    else:
        made = module.RayTaskRunner(init_kwargs={"num_cpus": workers})
    return made


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


def as_they_finish(
    items: Sequence[T], submit: Callable[[T], PrefectFuture[Any]], at_once: int
) -> Iterator[tuple[T, PrefectFuture[Any]]]:
    """Submit items, at most `at_once` at a time, and yield each with its future when it is done.

    Other items are not submitted yet, so they need no memory and do not delay an interrupt.
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
            continue
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
