"""Workers on a virtual clock, for synchronous and asynchronous searches without any waiting."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations, Evaluator, Work
from swarm.evaluation.workers import kept_in_flight


def heavy_tailed(sigma: float = 1.5, seed: int = 0) -> Callable[[Bool], float]:
    """Return a function that gives every mask a log-normal time: median 1 s, always the same."""

    def seconds(mask: Bool) -> float:
        content = np.packbits(mask).tobytes()
        rng = np.random.default_rng([seed, int.from_bytes(content, "little")])
        return float(rng.lognormal(0.0, sigma))

    return seconds


class SimulatedStream:
    """A :class:`swarm.evaluation.stream.Stream` whose workers take time on a virtual clock alone.

    Masks are evaluated by the evaluator of the search once they are finished.

    Parameters
    ----------
    n_workers : int
    seconds : callable
        Returns how long a worker takes for a mask (n_units,).
    capacity : int, optional
        Masks in flight from which no worker counts as idle; default: as of
        :class:`swarm.evaluation.workers.Workers`.

    Attributes
    ----------
    clock : float
        Seconds since the start.
    spans : list of (float, float)
        Start and end of every mask that a worker has begun.
    asked : list of bytes
        Content of every mask that was queued, repeated ones included.
    """

    def __init__(
        self, n_workers: int, seconds: Callable[[Bool], float], capacity: int | None = None
    ) -> None:
        self.n_workers, self._seconds = n_workers, seconds
        self._capacity = kept_in_flight(n_workers) if capacity is None else capacity
        self.clock, self.spans, self.asked = 0.0, list[tuple[float, float]](), list[bytes]()
        self._known = set[bytes]()
        self._drop()

    def _drop(self) -> None:
        self._queue = deque[tuple[int, Bool]]()
        self._running: list[tuple[float, int, bytes]] = []
        self._held: dict[bytes, list[int]] = {}
        self._ready: list[int] = []

    def ask(self, numbers: Int, masks: Bool, incumbents: Float, fold_order: Int) -> None:
        """Queue masks; those that were evaluated before are finished at once."""
        for number, mask in zip(numbers.tolist(), masks, strict=True):
            key = mask.tobytes()
            self.asked.append(key)
            if key in self._known:
                self._ready.append(number)
            elif key in self._held:
                self._held[key].append(number)
            else:
                self._held[key] = []
                self._queue.append((number, mask))
        self._begin()

    @property
    def has_idle_worker(self) -> bool:
        """Whether a worker is idle, or about to be, and no mask is queued."""
        return len(self._running) + len(self._queue) < self._capacity

    def finished(self) -> list[int]:
        """Return what is finished, and otherwise advance the clock until a mask is."""
        if not self._ready and self._running:
            self.clock, number, key = heapq.heappop(self._running)
            self._known.add(key)
            self._ready += [number, *self._held.pop(key)]
            self._begin()
        ready, self._ready = self._ready, []
        return ready

    def save(self) -> Work:
        """Return no work."""
        return Work()

    def close(self) -> None:
        """Drop all masks that are not finished."""
        self._drop()

    def utilisation(self, *, until_last_begins: bool = False) -> float:
        """Share of the time of all workers in which they had a mask, up to now or the last start.

        Masks that were dropped count as if they had ended now.
        """
        end = max(start for start, _ in self.spans) if until_last_begins else self.clock
        busy = sum(max(0.0, min(end, stop) - start) for start, stop in self.spans)
        return busy / (self.n_workers * end)

    def _begin(self) -> None:
        while self._queue and len(self._running) < self.n_workers:
            number, mask = self._queue.popleft()
            end = self.clock + self._seconds(mask)
            self.spans.append((self.clock, end))
            heapq.heappush(self._running, (end, number, mask.tobytes()))


class SimulatedBatches:
    """An evaluator of whole epochs, whose workers wait for the slowest mask on a virtual clock.

    Parameters
    ----------
    evaluator : Evaluator
        Evaluates the masks.
    n_workers, seconds
        As of :class:`SimulatedStream`.

    Attributes
    ----------
    clock : float
        Seconds since the start.
    busy : float
        Seconds in which a worker had a mask, summed over the workers.
    """

    def __init__(
        self, evaluator: Evaluator, n_workers: int, seconds: Callable[[Bool], float]
    ) -> None:
        self.evaluator, self.n_folds = evaluator, evaluator.n_folds
        self.n_workers, self._seconds = n_workers, seconds
        self.clock, self.busy = 0.0, 0.0
        self._known = set[bytes]()

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        """Evaluate a batch; each mask that is new begins on the first worker that is idle."""
        new = {mask.tobytes(): mask for mask in masks}
        free = np.zeros(self.n_workers)
        for key, mask in new.items():
            if key not in self._known:
                seconds = self._seconds(mask)
                free[free.argmin()] += seconds
                self.busy += seconds
        self._known |= set(new)
        self.clock += free.max()
        return self.evaluator.evaluate(masks, incumbents, fold_order, race)

    def utilisation(self) -> float:
        """Share of the time of all workers in which they had a mask."""
        return self.busy / (self.n_workers * self.clock)
