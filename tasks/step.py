"""Prefect tasks without caching or persisted results, which can also be called outside a flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture

from swarm.errors import SwarmError
from swarm.evaluation.transient import is_transient
from swarm.interrupts import sigint_deferred, sigint_delivered

P = ParamSpec("P")
R = TypeVar("R")
# A step of a search is deterministic, so only an error of the machine is worth a retry.
RETRIES = 2
_RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Step(Generic[P, R]):
    """A function that runs as a Prefect task within a flow, and directly elsewhere.

    Arguments are sealed, because Prefect and Dask otherwise search them for futures, which is slow
    for a table.
    """

    fn: Callable[P, R]
    task: Task[..., R]
    upstream: tuple[object, ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, as a task within a flow.

        Ctrl-C interrupts the function, but not Prefect's own work around it, which fails by that.
        """
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        with sigint_deferred():
            return self.task(*map(_Sealed, args), **_sealed(kwargs), wait_for=self.upstream)

    def after(self, *results: object) -> Step[P, R]:
        """Return a copy that Prefect shows behind the steps that gave these results."""
        return replace(self, upstream=results)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> PrefectFuture[R]:
        """Submit the function to the task runner of the flow."""
        return self.task.submit(*map(_Sealed, args), **_sealed(kwargs))

    def with_options(self, **options: Any) -> Step[P, R]:
        """Return a copy of the step with other options of :class:`prefect.Task`."""
        return replace(self, task=self.task.with_options(**options))


class SearchInterrupted(SwarmError):
    """The searches were interrupted; finished evaluations are in the archive."""


def _is_retryable(_task: object, _run: object, state: Any) -> bool:
    """Retry condition: a step is deterministic, so that other errors would be raised again."""
    try:
        state.result(raise_on_failure=True)
    except Exception as error:
        return is_transient(error)
    return True


def step(name: str, *, retries: int = 0) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Decorate a function as a step with this name.

    It is tried again up to `retries` times after an error that may be transient.
    """

    def decorator(function: Callable[P, R]) -> Step[P, R]:
        @wraps(function)
        def with_opened_arguments(*args: Any, **kwargs: Any) -> R:
            with sigint_delivered():
                return function(*map(_opened, args), **{k: _opened(v) for k, v in kwargs.items()})

        options: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
        if retries:
            options |= {
                "retries": retries,
                "retry_delay_seconds": _RETRY_SECONDS,
                "retry_condition_fn": _is_retryable,
            }
        return Step(function, task(name=name, **options)(with_opened_arguments))

    return decorator


class _Sealed:
    """An argument that neither Prefect nor Dask looks into.

    Not Prefect's ``quote``: it is a named tuple, which Dask rebuilds as a plain one.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


def _sealed(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _Sealed(value) for name, value in kwargs.items()}


def _opened(argument: Any) -> Any:
    """Return the value of a sealed argument; defaults are not sealed."""
    return argument.value if isinstance(argument, _Sealed) else argument
