"""Progress of a run: live lines on a terminal, plain lines elsewhere.

A stage is shown as it starts, and on a terminal its time until it ends. Every ETA is that of the
whole run: of the stage and of those after it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from flows.stages import Forecast, Stage

# The first line of a command is shown before any numerical library is imported.
if TYPE_CHECKING:
    from swarm.arrays import Bool
    from swarm.search.budget import Budget
    from swarm.search.history import EpochRecord
    from swarm.storage.records import Record

__all__ = [
    "Display",
    "LiveLines",
    "StageDisplay",
    "TimeLeft",
    "display",
    "plain_seconds",
    "say",
    "show_stage",
]

# Interval of the lines where there is no terminal.
_LINE_SECONDS = 60.0
# Recent epochs used for the ETA: cached epochs are much faster than trained ones.
_RECENT = 5


class Display:
    """Shows epochs as they finish; this one shows nothing."""

    def epoch(self, record: EpochRecord) -> None:
        """Show one epoch."""

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""


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
def show_stage(
    stage: Stage,
    verbosity: int = 1,
    *,
    text: str = "",
    total: int = 0,
    unit: str = "fits",
    work: float = 0.0,
    forecast: Forecast | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[StageDisplay]:
    """Show a stage while it lasts.

    Parameters
    ----------
    stage : Stage
    verbosity : int
        0 shows nothing.
    text : str
        The line; default: that of the stage.
    total : int
        What the stage has to do, in `unit`; 0 if unknown.
    work : float
        Training time of all that, as the forecast knows it; 0 if all units take equally long.
    forecast : Forecast, optional
        Seconds of this stage and of those after it.
    clock : callable
        Returns the time in seconds.
    """
    shown = StageDisplay(stage, text or stage.line, total, unit, work, forecast, clock)
    if verbosity == 0:
        yield shown
    elif verbosity == 1 and sys.stderr.isatty():
        # A long line wraps on a narrow terminal.
        column = Column(no_wrap=False, overflow="fold")
        columns = TextColumn("{task.description}", table_column=column), TimeLeft()
        console = Console(stderr=True, highlight=False)
        with LiveLines(*columns, console=console, refresh_per_second=4) as progress:
            shown.show_on(progress)
            yield shown
            shown.end()
    else:
        say(escape(shown.text))
        shown.tell = lambda line: say(escape(line))
        yield shown


@dataclass
class StageDisplay:
    """The line of a stage; see :func:`show_stage`."""

    stage: Stage
    text: str
    total: int
    unit: str
    work: float
    forecast: Forecast | None
    clock: Callable[[], float]
    tell: Callable[[str], None] = lambda line: None

    def __post_init__(self) -> None:
        self._done = 0
        self._work_done = 0.0
        self._started = self._last = self.clock()
        self._progress: LiveLines | None = None

    def show_on(self, progress: LiveLines) -> None:
        """Show the stage on live lines."""
        self._progress = progress
        self._number = progress.add_task(
            escape(self.text), total=None, ahead=self.ahead(), told=time.monotonic()
        )

    def count(self, done: int = 1, work: float = 0.0) -> None:
        """Count what is done, and its part of the work."""
        self._done += done
        self._work_done += work
        if self._progress is not None:
            self._progress.below = self._counted()
            self._progress.update(self._number, ahead=self.ahead(), told=time.monotonic())
        elif self.clock() - self._last >= _LINE_SECONDS:
            self._last = self.clock()
            ahead = self.ahead()
            left = f", about {plain_seconds(ahead)} left" if ahead and ahead >= 1 else ""
            self.tell(f"{self.text}: {self._counted()}{left}")

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        n_fits, work = int(record.known.sum()), 0.0
        if self.forecast is not None and n_fits:
            work = n_fits * self.forecast.fit_seconds.of(int(mask.sum()))
            if self.work:
                elapsed = self.clock() - self._started
                self.forecast.correct(elapsed / (self._work_done + work))
        self.count(n_fits, work)

    def ahead(self) -> float | None:
        """Estimate the seconds until the run ends; None if unknown."""
        forecast = self.forecast
        if self.stage is Stage.SEARCH and forecast is not None and not forecast.has_learned:
            # Before the epochs, whose pace is not known yet.
            return None
        after = 0.0 if forecast is None else forecast.after(self.stage)
        if self._done and self.total:
            share = self._work_done / self.work if self.work else self._done / self.total
            share, elapsed = min(1.0, share), self.clock() - self._started
            left = (1.0 - share) / share * elapsed
            if forecast is not None and not self.work:
                # Models of all features may come last.
                left = max(left, forecast.of(self.stage) - elapsed)
            return left + after
        return None if forecast is None else forecast.of(self.stage) + after

    def end(self) -> None:
        """Stop the clock, and remove the ETA."""
        assert self._progress is not None
        self._progress.below = ""
        self._progress.update(self._number, total=1.0, completed=1.0)

    def _counted(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        return f"{self._done:,}{of} {self.unit}"


@contextmanager
def display(
    budget: Budget,
    verbosity: int = 1,
    clock: Callable[[], float] = time.monotonic,
    forecast: Forecast | None = None,
) -> Iterator[Display]:
    """Choose the display of a search: nothing when quiet, live lines on a terminal, else lines.

    Parameters
    ----------
    budget : Budget
        The bar shows progress to the nearest limit.
    verbosity : int
        0 shows nothing, 1 the display, 2 and more a line for every epoch.
    clock : callable
        Returns the time in seconds.
    forecast : Forecast, optional
        The stages after the search, which learn here how long a fit takes.
    """
    tally = _Tally(budget, clock, forecast)
    if verbosity == 0:
        yield Display()
    elif verbosity == 1 and sys.stderr.isatty():
        columns = (
            TextColumn("[bold]epoch {task.fields[number]}"),
            BarColumn(bar_width=24),
            TimeLeft(),
            TextColumn("{task.fields[fits]}"),
        )
        with LiveLines(*columns, console=Console(stderr=True, highlight=False)) as progress:
            known = any(limit is not None for limit in _limits(budget).values())
            total = 1.0 if known else None
            number = progress.add_task("", total=total, number=_of(0, budget), fits="")
            bar = _Bar(progress, number, tally)
            yield bar
            bar.end()
    else:
        lines = _Lines(0.0 if verbosity > 1 else _LINE_SECONDS, tally)
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
    forecast: Forecast | None = None

    def __post_init__(self) -> None:
        self.hits = self.pruned = self.fits = 0
        self.shares: dict[str, float] = {}
        # Folds that were trained since the last epoch.
        self.since = 0
        # Their units, each counted for every fold.
        self._units = 0
        self.is_trained = False
        self._started = self.clock()
        # Time, shares and trained folds at the end of recent epochs.
        self._seen = [(self._started, self.shares, 0)]

    @property
    def share(self) -> float:
        """Share of the nearest limit."""
        return min(1.0, max(self.shares.values(), default=0.0))

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        if not self.is_trained:
            # The pace is that since the first fit began: starting workers takes several seconds.
            self.is_trained = True
            began = max(self._seen[-1][0], self.clock() - record.seconds)
            self._seen = [(began, self.shares, self.fits)]
        n_fits = int(record.known.sum())
        self.since += n_fits
        self._units += n_fits * int(mask.sum())
        if self.forecast is not None and n_fits:
            self.forecast.fitted(mask, record)

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        metrics = record.metrics
        self.hits += record.work.hits
        self.fits += record.work.fits
        units = self._units / self.since if self.since else None
        self.since = self._units = 0
        self.pruned += round(metrics["folds_pruned"])
        spent = {
            "epochs": float(record.epoch),
            "evaluations": metrics["evaluations"],
            "distinct": metrics["distinct_evaluations"],
            "fits": metrics["fits"],
            "seconds": self.clock() - self._started,
        }
        limits = _limits(self.budget).items()
        self.shares = {name: spent[name] / limit for name, limit in limits if limit is not None}
        if not self.is_trained and not record.work.fits:
            # Cached epochs tell nothing about those that have to be trained.
            self._seen = [(self.clock(), self.shares, self.fits)]
            return
        self.is_trained = True
        self._seen = [*self._seen[-_RECENT:], (self.clock(), self.shares, self.fits)]
        (before, _, fewer), (now, _, more) = self._seen[0], self._seen[-1]
        if self.forecast is not None and more > fewer:
            self.forecast.learn((now - before) / (more - fewer), units)

    def ahead(self) -> float | None:
        """Estimate the seconds until the run ends, from recent epochs."""
        (before, less, _), (now, more, _) = self._seen[0], self._seen[-1]
        left = [
            (1.0 - min(1.0, share)) * (now - before) / (share - less.get(name, 0.0))
            for name, share in more.items()
            if name != "seconds" and share > less.get(name, 0.0) and now > before
        ]
        if self.budget.seconds is not None:
            left.append(max(0.0, self.budget.seconds - (now - self._started)))
        if not left or not self.is_trained:
            return None
        return min(left) + (0.0 if self.forecast is None else self.forecast.after(Stage.SEARCH))

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


class _Bar(Display):
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
            fits="",
        )

    def fit(self, mask: Bool, record: Record) -> None:
        self._tally.fit(mask, record)
        # An epoch of an expensive model takes minutes.
        self._progress.update(self._number, fits=f"+{self._tally.since:,} fits")

    def end(self) -> None:
        """Remove the ETA, as patience or the strategy may have ended the search early."""
        self._progress.update(self._number, ahead=None, fits="")


class _Lines(Display):
    def __init__(self, every: float, tally: _Tally) -> None:
        self._every, self._tally = every, tally
        self._last = float("-inf")
        self._silent_since = tally.clock()
        self._number = 0
        self._unsaid: EpochRecord | None = None

    def epoch(self, record: EpochRecord) -> None:
        self._tally.add(record)
        self._unsaid, self._number = record, record.epoch
        if self._tally.clock() - self._last >= self._every:
            self._last = self._silent_since = self._tally.clock()
            ahead = self._tally.ahead() if self._every else None
            self._say(f", about {plain_seconds(ahead)} left" if ahead and ahead >= 1 else "")

    def fit(self, mask: Bool, record: Record) -> None:
        self._tally.fit(mask, record)
        # An epoch of an expensive model takes minutes.
        if self._tally.clock() - self._silent_since >= _LINE_SECONDS:
            self._silent_since = self._tally.clock()
            number = _of(self._number + 1, self._tally.budget)
            say(f"epoch {number} under way: {self._tally.since:,} fits")

    def end(self) -> None:
        """Print the last epoch, if it was not printed yet."""
        self._say("")

    def _say(self, left: str) -> None:
        record, self._unsaid = self._unsaid, None
        if record is not None:
            number = _of(record.epoch, self._tally.budget)
            say(f"epoch {number}: {self._tally.words(record)}{left}")
