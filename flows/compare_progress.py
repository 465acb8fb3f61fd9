"""Progress of a comparison: finished searches and the ETA."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn

from flows.progress import LiveLines, TimeLeft, plain_seconds, say
from tasks.search_cell import Cell, CellResult

__all__ = ["CellDisplay", "cell_display"]

# Interval of the lines where there is no terminal.
_LINE_SECONDS = 60.0


class CellDisplay:
    """Shows searches as they finish; this one shows nothing."""

    def finished(self, result: CellResult) -> None:
        """Show a finished search."""

    def failed(self, cell: Cell, error: str) -> None:
        """Show a failed search."""


@contextmanager
def cell_display(total: int, done: int, verbosity: int = 1) -> Iterator[CellDisplay]:
    """Choose the display: nothing when quiet, live lines on a terminal, else a line a minute.

    Parameters
    ----------
    total, done : int
        Number of searches, and of those already finished.
    verbosity : int
        0 shows nothing, 1 the display, 2 and more a line for every search.
    """
    if verbosity == 0:
        yield CellDisplay()
    elif verbosity == 1 and sys.stderr.isatty():
        columns = (
            TextColumn("[bold]searches {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TimeLeft(),
        )
        with LiveLines(*columns, console=Console(stderr=True, highlight=False)) as progress:
            number = progress.add_task("", total=total, completed=done)
            yield _Bar(progress, number, _Pace(total, done))
    else:
        yield _Lines(0.0 if verbosity > 1 else _LINE_SECONDS, _Pace(total, done))


class _Pace:
    """Counts searches and estimates the remaining time from those of this process."""

    def __init__(self, total: int, done: int) -> None:
        self.total = total
        self.done = self._before = done
        self._started = time.monotonic()

    def count(self) -> None:
        self.done += 1

    @property
    def ahead(self) -> float:
        """Estimated seconds until the last search ends."""
        each = (time.monotonic() - self._started) / max(1, self.done - self._before)
        return each * (self.total - self.done)


def _words(result: CellResult) -> str:
    spent = f", {result.distinct} distinct evaluations"
    if result.distinct is None:
        spent = "" if result.fits is None else f", {result.fits} fits"
    return (
        f"{result.cell.name}: cost {result.cost:.5f} with {result.size} "
        f"feature{'' if result.size == 1 else 's'}{spent}"
    )


class _Bar(CellDisplay):
    def __init__(self, progress: LiveLines, number: TaskID, pace: _Pace) -> None:
        self._progress, self._number, self._pace = progress, number, pace

    def finished(self, result: CellResult) -> None:
        self._move(_words(result))

    def failed(self, cell: Cell, error: str) -> None:
        # Above the bar, where it is not overwritten.
        self._progress.console.print(f"{cell.name} failed: {error}", soft_wrap=True)
        self._move(f"{cell.name}: failed")

    def _move(self, text: str) -> None:
        self._pace.count()
        self._progress.below = text
        self._progress.update(
            self._number, advance=1, ahead=self._pace.ahead, told=time.monotonic()
        )


class _Lines(CellDisplay):
    def __init__(self, every: float, pace: _Pace) -> None:
        self._every, self._pace = every, pace
        self._last = float("-inf")

    def finished(self, result: CellResult) -> None:
        pace = self._pace
        pace.count()
        now = time.monotonic()
        if pace.done < pace.total and now - self._last < self._every:
            return
        self._last = now
        left = f", about {plain_seconds(pace.ahead)} left" if pace.done < pace.total else ""
        say(f"{pace.done}/{pace.total} {_words(result)}{left}")

    def failed(self, cell: Cell, error: str) -> None:
        self._pace.count()
        say(f"{self._pace.done}/{self._pace.total} {cell.name} failed: {error}")
