"""Progress of a search: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from swarm.search.budget import Budget
from swarm.search.history import EpochRecord

__all__ = ["Display", "LiveLines", "TimeLeft", "display", "plain_seconds", "say"]

# Interval of the lines where there is no terminal.
_LINE_SECONDS = 60.0
# Recent epochs used for the ETA: cached epochs are much faster than trained ones.
_RECENT = 5


class Display(Protocol):
    """Shows epochs as they finish."""

    def epoch(self, record: EpochRecord) -> None:
        """Show one epoch."""


def say(text: str, verbosity: int = 1) -> None:
    """Write one line to the log of the flow run, and to the terminal unless quiet."""
    _log(text)
    if verbosity > 0:
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def _log(text: str) -> None:
    # Prefect takes seconds to import, and without it there is no flow.
    if "prefect" in sys.modules:
        from tasks.flow_run import log_line

        log_line(Text.from_markup(text).plain)


@contextmanager
def display(
    budget: Budget, verbosity: int = 1, clock: Callable[[], float] = time.monotonic
) -> Iterator[Display]:
    """Choose the display: nothing when quiet, live lines on a terminal, else a line a minute.

    Parameters
    ----------
    budget : Budget
        The bar shows progress to the nearest limit.
    verbosity : int
        0 shows nothing, 1 the display, 2 and more a line for every epoch.
    clock : callable
        Returns the time in seconds.
    """
    if verbosity == 0:
        yield _Quiet()
    elif verbosity == 1 and sys.stderr.isatty():
        columns = (
            TextColumn("[bold]epoch {task.fields[number]}"),
            BarColumn(bar_width=24),
            TimeLeft(),
        )
        with LiveLines(*columns, console=Console(stderr=True, highlight=False)) as progress:
            known = any(limit is not None for limit in _limits(budget).values())
            number = progress.add_task("", total=1.0 if known else None, number=_of(0, budget))
            bar = _Bar(progress, number, _Tally(budget, clock))
            yield bar
            bar.end()
    else:
        lines = _Lines(0.0 if verbosity > 1 else _LINE_SECONDS, _Tally(budget, clock))
        yield lines
        lines.end()


class LiveLines(Progress):
    """A bar with a line of text below, which wraps on a narrow terminal."""

    below = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bar and the text."""
        yield from super().get_renderables()
        if self.below:
            yield Text(self.below, overflow="fold")


class TimeLeft(ProgressColumn):
    """The elapsed time and the ETA, if the task has one in its field `ahead`."""

    def render(self, task: Task) -> Text:
        """Write both, as ``0:01:20, about 0:03:00 left``."""
        gone = plain_seconds(task.finished_time if task.finished else task.elapsed)
        ahead = task.fields.get("ahead")
        if ahead is None or task.finished:
            return Text(gone)
        # Count down between two updates.
        since = time.monotonic() - task.fields.get("told", time.monotonic())
        return Text(f"{gone}, about {plain_seconds(max(0.0, ahead - since))} left")


def plain_seconds(seconds: float | None) -> str:
    """Write a time span as ``0:01:20``."""
    return str(timedelta(seconds=round(seconds or 0.0)))


def _limits(budget: Budget) -> dict[str, float | None]:
    """Return the limits that measure progress, which patience does not."""
    names = ("epochs", "evaluations", "distinct", "fits", "seconds")
    return {name: getattr(budget, name) for name in names}


def _of(epoch: int, budget: Budget) -> str:
    return f"{epoch}/{budget.epochs}" if budget.epochs else str(epoch)


@dataclass
class _Tally:
    """Totals over all epochs, and the ETA."""

    budget: Budget
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self.hits = self.pruned = 0
        self.share = 0.0
        self._started = self.clock()
        self._seen = [(self._started, 0.0)]

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        metrics = record.metrics
        self.hits += record.work.hits
        self.pruned += round(metrics["folds_pruned"])
        spent = {
            "epochs": float(record.epoch),
            "evaluations": metrics["evaluations"],
            "distinct": metrics["distinct_evaluations"],
            "fits": metrics["fits"],
            "seconds": self.clock() - self._started,
        }
        limits = _limits(self.budget).items()
        shares = [spent[name] / limit for name, limit in limits if limit is not None]
        self.share = min(1.0, max(shares, default=0.0))
        self._seen = [*self._seen[-_RECENT:], (self.clock(), self.share)]

    def ahead(self) -> float | None:
        """Estimate the seconds to the nearest limit from recent epochs."""
        (before, less), (now, more) = self._seen[0], self._seen[-1]
        return None if more <= less else (1.0 - more) * (now - before) / (more - less)

    def words(self, record: EpochRecord) -> str:
        """Describe the state of the search in a line."""
        metrics = record.metrics
        cost, size = metrics["best_cost"], metrics["best_size"]
        best = (
            f"best cost {cost:.5f} with {size:.0f} feature{'' if size == 1 else 's'}"
            if size
            else "no subset has a cost yet"
        )
        failed = metrics["failed_evaluations"]
        return (
            f"{best}, {metrics['evaluations']:.0f} evaluations, {metrics['fits']:.0f} fits, "
            f"{self.pruned} folds pruned, {self.hits} from the archive"
            + (f", {failed:.0f} failed" if failed else "")
        )


class _Quiet:
    def epoch(self, record: EpochRecord) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, progress: LiveLines, number: TaskID, tally: _Tally) -> None:
        self._progress, self._number, self._tally = progress, number, tally

    def epoch(self, record: EpochRecord) -> None:
        self._tally.add(record)
        self._progress.below = self._tally.words(record)
        self._progress.update(
            self._number,
            completed=self._tally.share,
            number=_of(record.epoch, self._tally.budget),
            ahead=self._tally.ahead(),
            told=time.monotonic(),
        )

    def end(self) -> None:
        """Remove the ETA, as patience or the strategy may have ended the search early."""
        self._progress.update(self._number, ahead=None)


class _Lines:
    def __init__(self, every: float, tally: _Tally) -> None:
        self._every, self._tally = every, tally
        self._last = float("-inf")
        self._unsaid: EpochRecord | None = None

    def epoch(self, record: EpochRecord) -> None:
        self._tally.add(record)
        self._unsaid = record
        if self._tally.clock() - self._last >= self._every:
            self._last = self._tally.clock()
            ahead = self._tally.ahead() if self._every else None
            self._say(f", about {plain_seconds(ahead)} left" if ahead and ahead >= 1 else "")

    def end(self) -> None:
        """Print the last epoch, if it was not printed yet."""
        self._say("")

    def _say(self, left: str) -> None:
        record, self._unsaid = self._unsaid, None
        if record is not None:
            number = _of(record.epoch, self._tally.budget)
            say(f"epoch {number}: {self._tally.words(record)}{left}")
