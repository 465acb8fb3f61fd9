"""A time limit on a fit: a worker that hangs ends itself, and says over which fit.

A fit that hangs inside compiled code hears neither an exception nor a signal handler. What ends
it is a watchdog thread of the interpreter (:mod:`faulthandler`), which needs no lock of Python's:
it writes into a file that was opened for this fit and ends the process. The file tells the
parent, who sees no more than a worker that died.
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

__all__ = ["Deadline", "given_up"]

Key = tuple[int, int]


@dataclass(frozen=True)
class Deadline:
    """How long a fit may take, and where a worker leaves word that one took longer.

    Attributes
    ----------
    seconds : float
    folder : Path
    batch : int
        Tells the words of this batch from those of a worker that was late in an earlier one.
    """

    seconds: float
    folder: Path
    batch: int

    @contextmanager
    def watch(self, job: Job, fold: int) -> Iterator[None]:
        """End this process if the fit inside is not done in time; `fold` may be ``REFIT``."""
        path = self.folder / f"late_{self.batch}_{job.number}_{job.part}_{fold}"
        with open(path, "w") as file:
            faulthandler.dump_traceback_later(self.seconds, exit=True, file=file)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()
        path.unlink(missing_ok=True)

    def late(self) -> dict[Key, int]:
        """Which fold of which job, by number and part, was not done in time; forgets it."""
        found: dict[Key, int] = {}
        for path in self.folder.glob("late_*"):
            batch, number, part, fold = (int(word) for word in path.name.split("_")[1:])
            if batch == self.batch and path.stat().st_size:
                found[number, part] = fold
            path.unlink(missing_ok=True)
        return found


def given_up(job: Job, fold: int, seconds: float) -> tuple[Fitted, Job | None]:
    """Return the failed fit of a job, and what is left to do of the job, None if nothing."""
    size = int(job.mask.sum())
    which = "on all rows" if fold == REFIT else f"of fold {fold}"
    error = (
        f"TimeoutError: the fit {which} with a subset of {size} units took longer than "
        f"{seconds:g} s and was ended with its worker"
    )
    if fold == REFIT:
        return Fitted(job.number, job.part, error=error), replace(job, refit=False)
    costs = job.fold_costs.copy()
    costs[fold] = np.inf
    fitted = Fitted(job.number, job.part, [fold], [np.inf], [None], [job.mask], error=error)
    fitted.seconds = seconds
    record = replace(Record.unknown(len(costs), len(job.mask)), fold_costs=costs)
    # The folds before it were lost with the worker, and whether it counts depends on them.
    again = job.limit.next_fold(record.fold_costs, job.fold_order) is not None
    return fitted, replace(job, fold_costs=costs) if again else None
