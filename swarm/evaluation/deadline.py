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

from swarm.evaluation.fitting import REFIT, Fitted, Job
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
            faulthandler.dump_traceback_later(self.seconds, exit=True, file=file)
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


def timed_out_fit(job: Job, fold: int, seconds: float) -> tuple[Fitted, Job | None]:
    """Return the failed fit of a job that timed out, and the rest of the job or None."""
    size = int(job.mask.sum())
    which = "on all rows" if fold == REFIT else f"of fold {fold}"
    error = (
        f"TimeoutError: the fit {which} with a subset of {size} units took longer than "
        f"{seconds:g} s and its worker was ended"
    )
    if fold == REFIT:
        return Fitted(job.number, job.part, error=error), replace(job, refit=False)
    costs = job.fold_costs.copy()
    costs[fold] = np.inf
    fitted = Fitted(job.number, job.part, [fold], [np.inf], [None], [job.mask], error=error)
    fitted.seconds = seconds
    record = replace(Record.unknown(len(costs), len(job.mask)), fold_costs=costs)
    # Earlier folds were lost with the worker, and whether the failure counts depends on them.
    again = job.limit.next_fold(record.fold_costs, job.fold_order) is not None
    return fitted, replace(job, fold_costs=costs) if again else None
