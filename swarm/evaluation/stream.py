"""Evaluate masks one by one as workers become idle, instead of in batches.

Masks are queued in the order in which they are asked for. Their results go to the archive, where
:meth:`swarm.evaluation.crossval.CrossValidation.evaluate` finds them; the stream only tells which
masks are finished, in the order in which they finish.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.evaluation.crossval import COMMIT_SECONDS, CrossValidation
from swarm.evaluation.fitting import InvalidCost, Job
from swarm.evaluation.types import Work
from swarm.storage.records import Record


class Stream(Protocol):
    """Evaluates masks in any order, and tells which are finished."""

    def ask(self, numbers: Int, masks: Bool, incumbents: Float, fold_order: Int) -> None:
        """Queue masks (n, n_units) under their numbers (n,), none of which occurs twice."""

    @property
    def has_idle_worker(self) -> bool:
        """Whether a worker is idle, or about to be, and no mask is queued."""

    def finished(self) -> list[int]:
        """Return the numbers of masks that have finished since, in that order; wait for one."""

    def save(self) -> Work:
        """Archive the results of the finished masks; return the work since the last call."""

    def close(self) -> None:
        """Drop all masks that are not finished."""


@dataclass(frozen=True, eq=False)
class _Row:
    """A mask under its number."""

    number: int
    mask: Bool
    incumbent: float
    fold_order: Int

    @property
    def key(self) -> bytes:
        return self.mask.tobytes()


class MaskStream:
    """A :class:`Stream` on the workers of an evaluator.

    A mask that is asked for again while it is trained waits for that result: it needs further folds
    only if its own incumbent is worse.

    Parameters
    ----------
    evaluator : CrossValidation
        Stays open.
    """

    def __init__(self, evaluator: CrossValidation) -> None:
        self._evaluator = evaluator
        self._training: Iterator[tuple[Job, Record | InvalidCost]] | None = None
        self._clear()

    def _clear(self) -> None:
        self._queue = deque[Job]()
        # Read by the workers, who take all of it.
        self._submitted = deque[Job]()
        self._n_in_flight = 0
        self._busy: dict[int, bytes] = {}
        self._held: dict[bytes, list[_Row]] = {}
        self._ready: list[int] = []
        self._unsaved: list[tuple[Bool, Record]] = []
        self._saved_at = time.monotonic()
        self._work, self._work_since = Work(), time.perf_counter()

    def ask(self, numbers: Int, masks: Bool, incumbents: Float, fold_order: Int) -> None:
        """Queue masks; those in the archive, or with a fast path, are finished at once.

        Raises
        ------
        EvaluationError
            As :meth:`swarm.evaluation.crossval.CrossValidation.evaluate`.
        """
        rows = zip(numbers.tolist(), masks, incumbents.tolist(), strict=True)
        with self._evaluator.clock():
            self._add([_Row(number, mask, limit, fold_order) for number, mask, limit in rows])

    @property
    def has_idle_worker(self) -> bool:
        """Whether a worker is idle, or about to be, and no mask is queued."""
        if self._queue:
            return False
        return not self._n_in_flight or self._n_in_flight < self._evaluator.workers.capacity

    def finished(self) -> list[int]:
        """Return the numbers of masks that have finished since, in that order; wait for one.

        Empty if no mask is left.

        Raises
        ------
        EvaluationError
            If a cost is NaN or below the lower bound of its scorer, or workers keep dying.
        """
        with self._evaluator.clock():
            while not self._ready and self._busy:
                self._train_next()
        ready, self._ready = self._ready, []
        return ready

    def _train_next(self) -> None:
        """Submit what the workers have room for, and wait for the next result."""
        while self._queue and self._n_in_flight < self._evaluator.workers.capacity:
            self._submitted.append(self._queue.popleft())
            self._n_in_flight += 1
        if self._training is None:
            self._training = self._evaluator.workers.run([], self._submitted)
        found = next(self._training, None)
        if found is None:
            self._training = None
        else:
            self._take(*found)

    def save(self) -> Work:
        """Archive the results of the finished masks; return the work since the last call."""
        with self._evaluator.clock():
            self._save()
        now = time.perf_counter()
        done = replace(self._work, seconds=now - self._work_since)
        self._work, self._work_since = Work(), now
        return done

    def close(self) -> None:
        """Drop all masks that are not finished; fits that are running are ended or ignored."""
        training, self._training = self._training, None
        if training is not None:
            training.close()  # type: ignore[attr-defined]
        self._save()
        self._clear()

    def _add(self, rows: Sequence[_Row]) -> None:
        """Queue rows: of equal masks one at a time."""
        busy = set(self._busy.values())
        while rows:
            self._save()
            again, first = list[_Row](), dict[bytes, _Row]()
            for row in rows:
                if row.key in busy:
                    self._held.setdefault(row.key, []).append(row)
                elif row.key in first:
                    again.append(row)
                else:
                    first[row.key] = row
            for _, same in groupby(first.values(), key=lambda row: id(row.fold_order)):
                busy |= self._open(list(same))
            rows = again

    def _open(self, rows: list[_Row]) -> set[bytes]:
        """Queue the jobs of different masks; return the keys of those that are not finished."""
        jobs, work = self._evaluator.jobs_of(
            np.stack([row.mask for row in rows]),
            np.array([row.incumbent for row in rows]),
            rows[0].fold_order,
        )
        self._work = self._work.plus(work, with_hits=True)
        unfinished = {}
        for job in jobs:
            row = rows[job.number]
            unfinished[row.number] = row.key
            self._queue.append(replace(job, number=row.number))
        self._busy |= unfinished
        self._ready += [row.number for row in rows if row.number not in unfinished]
        return set(unfinished.values())

    def _take(self, job: Job, found: Record | InvalidCost) -> None:
        """Keep the result of a job, and finish its mask unless a timeout left some of it."""
        if isinstance(found, InvalidCost):
            record = replace(self._evaluator.known.blank, fold_costs=job.fold_costs)
            self._evaluator.refuse_if_needed(job, record, found)
            return
        self._unsaved.append((job.mask, found))
        self._work = self._work.plus(
            Work(self._evaluator.fits_in(found), training_seconds=found.seconds), with_hits=True
        )
        if self._evaluator.on_fit is not None:
            self._evaluator.on_fit(job.mask, found)
        if time.monotonic() - self._saved_at > COMMIT_SECONDS:
            self._save()
        costs = np.where(np.isnan(job.fold_costs), found.fold_costs, job.fold_costs)
        is_decided = job.limit.next_fold(costs, job.fold_order) is None
        if is_decided and job.number in self._busy:
            key = self._busy.pop(job.number)
            self._n_in_flight -= 1
            self._ready.append(job.number)
            self._add(self._held.pop(key, []))

    def _save(self) -> None:
        self._evaluator.known.add(self._unsaved)
        self._unsaved, self._saved_at = [], time.monotonic()
