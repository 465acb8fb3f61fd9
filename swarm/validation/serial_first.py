"""Calls in this process for some seconds, and the rest in workers."""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from joblib import Parallel

from swarm.problem.settings import Settings

# Starting a worker takes about as long.
SERIAL_SECONDS = 3.0


def serial_first(calls: Sequence[Any], n_jobs: int) -> Iterator[Any]:
    """Yield the results of delayed calls in order: serially at first, the rest in workers."""
    # Workers have other settings than this process.
    settings = Settings.current()
    waiting = [(settings.call, (function, *args), options) for function, args, options in calls]
    end = perf_counter() + SERIAL_SECONDS
    expected = 0.0
    while waiting and (perf_counter() < end or expected < SERIAL_SECONDS):
        function, arguments, options = waiting.pop(0)
        started = perf_counter()
        result = function(*arguments, **options)
        # The other calls are expected to take as long as this one.
        expected = (perf_counter() - started) * len(waiting)
        yield result
    yield from Parallel(n_jobs=n_jobs, return_as="generator")(waiting)
