"""What a person sees while a comparison runs: how many searches are done, and how long it takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flows.progress import say
from tasks.compare_cell import Cell, CellResult

__all__ = ["CellDisplay", "cell_display"]

_LINE_SECONDS = 5.0


class CellDisplay(Protocol):
    """Shows searches as they finish."""

    def finished(self, result: CellResult) -> None:
        """Show a search that found something."""

    def failed(self, cell: Cell, error: str) -> None:
        """Show a search that failed."""


@contextmanager
def cell_display(total: int, done: int, verbosity: int = 1) -> Iterator[CellDisplay]:
    """Choose the display: nothing when quiet, a bar on a terminal, else a line now and then.

    Parameters
    ----------
    total, done : int
        Searches there are, and those that were finished before.
    verbosity : int
        0 shows nothing, 1 the display, 2 a line for every search.
    """
    if verbosity == 0:
        yield _Quiet()
    elif verbosity == 1 and sys.stderr.isatty():
        columns = (
            TextColumn("[bold]searches"),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            number = progress.add_task("", total=total, completed=done)
            yield _Bar(progress, number)
    else:
        yield _Lines(total, done, 0.0 if verbosity > 1 else _LINE_SECONDS)


class _Quiet:
    def finished(self, result: CellResult) -> None:
        """Show nothing."""

    def failed(self, cell: Cell, error: str) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, progress: Progress, number: object) -> None:
        self._progress = progress
        self._number = number

    def finished(self, result: CellResult) -> None:
        self._move(f"{result.cell.name}: {result.cost:.5f}")

    def failed(self, cell: Cell, error: str) -> None:
        say(f"{cell.name} failed: {error}")
        self._move(f"{cell.name}: failed")

    def _move(self, text: str) -> None:
        self._progress.update(
            self._number,  # type: ignore[arg-type]
            advance=1,
            description=text,
        )


class _Lines:
    def __init__(self, total: int, done: int, every: float) -> None:
        self._total = total
        self._done = self._before = done
        self._every = every
        self._started = time.monotonic()
        self._last = float("-inf")

    def finished(self, result: CellResult) -> None:
        self._done += 1
        now = time.monotonic()
        if self._done < self._total and now - self._last < self._every:
            return
        self._last = now
        left = self._total - self._done
        each = (now - self._started) / (self._done - self._before)
        ahead = f", about {each * left:.0f} s left" if left else ""
        say(
            f"{self._done}/{self._total} {result.cell.name}: cost {result.cost:.5f} with "
            f"{result.size} features, {result.distinct} distinct evaluations{ahead}"
        )

    def failed(self, cell: Cell, error: str) -> None:
        self._done += 1
        say(f"{self._done}/{self._total} {cell.name} failed: {error}")
