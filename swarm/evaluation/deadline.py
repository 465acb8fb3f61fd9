"""Timeout of a fit: a worker that hangs exits and leaves a file that identifies the fit.

A fit that hangs in compiled code handles neither exceptions nor signals. The process is ended by
the watchdog thread of :mod:`faulthandler`, which does not need the GIL: it writes into a file that
was opened for this fit, and exits. From the file, the parent process identifies the fit.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from swarm.evaluation.fitting import REFIT, Job
from swarm.storage.records import Record

__all__ = ["Deadline", "timed_out_fit"]

Key = tuple[int, int]


@dataclass(frozen=True)
class Deadline:
    """Timeout of a fit, and the folder where workers report fits that exceed it.

    Attributes
    ----------
    seconds : float
    folder : Path
    batch : int
        Number of the batch, to ignore reports of earlier batches.
    """

    seconds: float
    folder: Path
    batch: int

    @contextmanager
    def watch(self, job: Job, fold: int) -> Iterator[None]:
        """End this process if the fit in this context times out; `fold` may be ``REFIT``."""
        path = self.folder / f"late_{self.batch}_{job.number}_{job.part}_{fold}"
        with open(path, "w") as file:
            try:
                faulthandler.dump_traceback_later(self.seconds, exit=True, file=file)
            except RuntimeError as error:
                # The watchdog thread starts anew for each fit, and cannot where memory is short.
                raise MemoryError(str(error)) from error
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()
        path.unlink(missing_ok=True)

    def late(self) -> dict[Key, int]:
        """Return the fold that timed out, by number and part of the job, and delete the reports."""
        found: dict[Key, int] = {}
        for path in self.folder.glob("late_*"):
            batch, number, part, fold = (int(word) for word in path.name.split("_")[1:])
            if batch == self.batch and path.stat().st_size:
                found[number, part] = fold
            path.unlink(missing_ok=True)
        return found


def timed_out_fit(job: Job, fold: int, seconds: float) -> tuple[Record, Job | None]:
    """Return the failed fit of a job that timed out, and the rest of the job or None."""
    size = int(job.mask.sum())
    which = "on all rows" if fold == REFIT else f"of fold {fold}"
    error = (
        f"TimeoutError: the fit {which} with a subset of {size} units took longer than "
        f"{seconds:g} s and its worker was ended"
    )
    failed = replace(Record.unknown(len(job.fold_costs), len(job.mask)), error=error)
    if fold == REFIT:
        return failed, replace(job, refit=False)
    failed.fold_costs[fold] = np.inf
    failed.used[fold] = job.mask
    costs = job.fold_costs.copy()
    costs[fold] = np.inf
    # Earlier folds were lost with the worker, and whether the failure counts depends on them.
    is_decided = job.limit.next_fold(costs, job.fold_order) is None
    return replace(failed, seconds=seconds), None if is_decided else replace(job, fold_costs=costs)
