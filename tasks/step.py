"""Prefect tasks without caching or persisted results, which can also be called outside a flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.utilities.annotations import quote

__all__ = ["Step", "step"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Step(Generic[P, R]):
    """A function that runs as a Prefect task within a flow, and directly elsewhere.

    Arguments are wrapped in :class:`prefect.utilities.annotations.quote`, because Prefect
    otherwise searches them for futures, which is slow for a table.

    Attributes
    ----------
    fn : callable
        The function itself.
    task : Task
    """

    fn: Callable[P, R]
    task: Task[..., R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function, as a task within a flow."""
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        answer: R = self.task(*map(quote, args), **_quoted(kwargs))
        return answer

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> PrefectFuture[R]:
        """Submit the function to the task runner of the flow."""
        future: PrefectFuture[R] = self.task.submit(*map(quote, args), **_quoted(kwargs))
        return future

    def with_options(self, **options: Any) -> Step[P, R]:
        """Return a copy of the step with other options of :class:`prefect.Task`."""
        return Step(self.fn, self.task.with_options(**options))


def step(name: str) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Decorate a function as a step with this name."""

    def made(function: Callable[P, R]) -> Step[P, R]:
        options: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
        return Step(function, task(name=name, **options)(function))

    return made


def _quoted(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: quote(value) for name, value in kwargs.items()}
