"""Calls in this process for some seconds, and the rest in workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from joblib import Parallel

from swarm.problem.settings import Settings

# Starting a worker takes about as long.
SERIAL_SECONDS = 3.0


def serial_first(calls: Sequence[Any], n_jobs: int) -> Iterator[Any]:
    """Yield the results of delayed calls in order: serially at first, the rest in workers."""
    until, ahead = perf_counter() + SERIAL_SECONDS, 0.0
    # Workers have other settings than this process.
    settings = Settings.current()
    left = [(settings.call, (function, *args), options) for function, args, options in calls]
    # What is left takes about as long as the last call each.
    while left and (perf_counter() < until or ahead < SERIAL_SECONDS):
        (function, arguments, options), started = left.pop(0), perf_counter()
        result = function(*arguments, **options)
        ahead = (perf_counter() - started) * len(left)
        yield result
    yield from Parallel(n_jobs=n_jobs, return_as="generator")(left)
