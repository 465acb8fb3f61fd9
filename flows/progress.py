"""What a person sees while a search runs: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from swarm.budget import Budget
from swarm.history import EpochRecord

__all__ = ["Display", "display", "say"]

_LINE_SECONDS = 5.0


class Display(Protocol):
    """Shows epochs as they finish."""

    def epoch(self, record: EpochRecord) -> None:
        """Show one epoch."""


def say(text: str, verbosity: int = 1) -> None:
    """Write one line to the terminal, unless quiet."""
    if verbosity > 0:
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)


@contextmanager
def display(budget: Budget, verbosity: int = 1) -> Iterator[Display]:
    """Choose the display: nothing when quiet, a live line on a terminal, else a line now and then.

    Parameters
    ----------
    budget : Budget
        Its number of epochs is the length of the bar.
    verbosity : int
        0 shows nothing, 1 the display, 2 a line for every epoch.
    """
    if verbosity == 0:
        yield _Quiet()
    elif verbosity == 1 and sys.stderr.isatty():
        console = Console(stderr=True)
        columns = (
            TextColumn("[bold]epoch"),
            TextColumn("{task.completed:.0f}" + (f"/{budget.epochs}" if budget.epochs else "")),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as progress:
            number = progress.add_task("first subsets", total=budget.epochs)
            yield _Bar(progress, number)
    else:
        yield _Lines(0.0 if verbosity > 1 else _LINE_SECONDS, budget.epochs)


def _summary(record: EpochRecord) -> str:
    metrics, work = record.metrics, record.work
    return (
        f"best cost {metrics['best_cost']:.5f} with {metrics['best_size']:.0f} features, "
        f"{metrics['evaluations']:.0f} evaluations, {metrics['fits']:.0f} fits, "
        f"{metrics['folds_pruned']:.0f} folds pruned, {work.hits} from the archive"
    )


class _Quiet:
    def epoch(self, record: EpochRecord) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, progress: Progress, number: object) -> None:
        self._progress = progress
        self._number = number

    def epoch(self, record: EpochRecord) -> None:
        self._progress.update(
            self._number,  # type: ignore[arg-type]
            completed=record.epoch,
            description=_summary(record),
        )


class _Lines:
    def __init__(self, every: float, epochs: int | None) -> None:
        self._every = every
        self._epochs = epochs
        self._last = float("-inf")

    def epoch(self, record: EpochRecord) -> None:
        last = record.epoch == self._epochs
        if not last and time.monotonic() - self._last < self._every:
            return
        self._last = time.monotonic()
        of = f"/{self._epochs}" if self._epochs else ""
        say(f"epoch {record.epoch}{of}: {_summary(record)}")
