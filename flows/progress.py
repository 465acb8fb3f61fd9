"""Progress of a run: live lines on a terminal, plain lines elsewhere.

A stage is shown as it starts, and on a terminal its time until it ends. Every ETA is that of the
whole run: of the stage and of those after it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from flows.stages import Forecast, Stage

# The first line of a command is shown before any numerical library is imported.
if TYPE_CHECKING:
    from swarm.arrays import Bool
    from swarm.findings import Finding
    from swarm.search.budget import Budget
    from swarm.search.history import EpochRecord
    from swarm.storage.records import Record
    from tasks.search_cell import Cell, CellResult

# Interval of the lines where there is no terminal.
_LINE_SECONDS = 60.0
# Recent epochs used for the ETA: cached epochs are much faster than trained ones.
_RECENT = 5
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def say(text: str, verbosity: int = 1) -> None:
    """Write one line to the log of the flow run, and to the terminal unless quiet."""
    # Prefect takes seconds to import, and without it there is no flow.
    if "prefect" in sys.modules:
        from tasks.flow_run import log_line

        log_line(Text.from_markup(text).plain)
    if verbosity > 0:
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def tell(findings: Iterable[Finding], verbosity: int = 1) -> None:
    """Print findings on standard error, a line each."""
    for each in findings:
        colour = _COLOURS[each.severity]
        say(f"[{colour}]{each.severity}:[/{colour}] {escape(str(each))}", verbosity)


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the findings that are more than notes, a line each."""
    return tuple(str(each) for each in findings if each.severity != "note")


def plain_seconds(seconds: float | None) -> str:
    """Write a time span as ``0:01:20``."""
    return str(timedelta(seconds=round(seconds or 0.0)))


def _left(ahead: float | None) -> str:
    return f", about {plain_seconds(ahead)} left" if ahead and ahead >= 1 else ""


class _LiveLines(Progress):
    """A bar with a line of text below, which wraps on a narrow terminal."""

    below = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bar and the text."""
        yield from super().get_renderables()
        if self.below:
            yield Text(self.below, overflow="fold")

    def show(self, **changes: Any) -> None:
        """Change the bar."""
        if "ahead" in changes:
            changes["told"] = time.monotonic()
        self.update(self.task_ids[0], **changes)


class _TimeLeft(ProgressColumn):
    """The elapsed time and the ETA, if the task has one in its field `ahead`."""

    def render(self, task: Task) -> Text:
        """Write both, as ``0:01:20, about 0:03:00 left``."""
        gone = plain_seconds(task.finished_time if task.finished else task.elapsed)
        ahead = task.fields.get("ahead")
        if ahead is None or task.finished:
            return Text(gone)
        # Count down between two updates.
        since = time.monotonic() - task.fields["told"]
        return Text(f"{gone}, about {plain_seconds(max(0.0, ahead - since))} left")


@contextmanager
def _live_lines(
    verbosity: int, *columns: ProgressColumn, text: str = "", **fields: Any
) -> Iterator[_LiveLines | None]:
    """Show live lines on a terminal unless each step is to have a line; else yield None."""
    if verbosity != 1 or not sys.stderr.isatty():
        yield None
        return
    with _LiveLines(*columns, console=Console(stderr=True, highlight=False)) as live:
        live.add_task(text, told=time.monotonic(), **fields)
        yield live


class Display:
    """Shows epochs or searches as they finish; this one shows nothing."""

    def epoch(self, record: EpochRecord) -> None:
        """Show one epoch."""

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""

    def finished(self, result: CellResult) -> None:
        """Show a finished search."""

    def failed(self, cell: Cell, error: str) -> None:
        """Show a failed search."""


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
    shown = StageDisplay(
        stage, text or stage.line, total, unit, work, forecast, clock, verbosity > 0
    )
    # A long line wraps on a narrow terminal.
    column = TextColumn("{task.description}", table_column=Column(no_wrap=False, overflow="fold"))
    line = escape(shown.text)
    with _live_lines(
        verbosity, column, _TimeLeft(), text=line, total=None, ahead=shown.ahead()
    ) as live:
        shown.live = live
        if live is None and verbosity > 0:
            say(line)
        yield shown
        if live is not None:
            # Stop the clock, and remove the ETA.
            live.below = ""
            live.show(total=1.0, completed=1.0)


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
    is_shown: bool
    live: _LiveLines | None = None

    def __post_init__(self) -> None:
        self._done = 0
        self._work_done = 0.0
        self._started = self._last = self.clock()

    def count(self, done: int = 1, work: float = 0.0) -> None:
        """Count what is done, and its part of the work."""
        self._done += done
        self._work_done += work
        of = f" of {self.total:,}" if self.total else ""
        counted = f"{self._done:,}{of} {self.unit}"
        if self.live is not None:
            self.live.below = counted
            self.live.show(ahead=self.ahead())
        elif self.is_shown and self.clock() - self._last >= _LINE_SECONDS:
            self._last = self.clock()
            say(escape(f"{self.text}: {counted}{_left(self.ahead())}"))

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
    if verbosity == 0:
        yield Display()
        return
    columns = (
        TextColumn("[bold]epoch {task.fields[number]}"),
        BarColumn(bar_width=24),
        _TimeLeft(),
        TextColumn("{task.fields[fits]}"),
    )
    total = 1.0 if budget.limits else None
    with _live_lines(verbosity, *columns, total=total, number=_of(0, budget), fits="") as live:
        shown = _Epochs(budget, verbosity, clock, forecast, live)
        yield shown
        shown.end()


def _of(epoch: int, budget: Budget) -> str:
    return f"{epoch}/{budget.epochs}" if budget.epochs else str(epoch)


@dataclass
class _Epochs(Display):
    """Totals over all epochs and the ETA, on live lines or a line at a time."""

    budget: Budget
    verbosity: int
    clock: Callable[[], float]
    forecast: Forecast | None
    live: _LiveLines | None

    def __post_init__(self) -> None:
        self._hits = self._pruned = self._fits = 0
        self._shares: dict[str, float] = {}
        # Folds that were trained since the last epoch, and their units, counted for every fold.
        self._since = self._units = 0
        self._is_trained = False
        self._started = self._silent_since = self.clock()
        # Time, shares and trained folds at the end of recent epochs.
        self._seen = [(self._started, self._shares, 0)]
        self._last = float("-inf")
        self._number = 0
        self._unsaid: EpochRecord | None = None

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        if not self._is_trained:
            # The pace is that since the first fit began: starting workers takes several seconds.
            self._is_trained = True
            began = max(self._seen[-1][0], self.clock() - record.seconds)
            self._seen = [(began, self._shares, self._fits)]
        n_fits = int(record.known.sum())
        self._since += n_fits
        self._units += n_fits * int(mask.sum())
        if self.forecast is not None and n_fits:
            self.forecast.fitted(mask, record)
        # An epoch of an expensive model takes minutes.
        if self.live is not None:
            self.live.show(fits=f"+{self._since:,} fits")
        elif self.clock() - self._silent_since >= _LINE_SECONDS:
            self._silent_since = self.clock()
            number = _of(self._number + 1, self.budget)
            say(f"epoch {number} under way: {self._since:,} fits")

    def epoch(self, record: EpochRecord) -> None:
        """Add an epoch."""
        self._add(record)
        self._number = record.epoch
        if self.live is not None:
            self.live.below = self._words(record)
            share = min(1.0, max(self._shares.values(), default=0.0))
            number = _of(record.epoch, self.budget)
            self.live.show(completed=share, number=number, ahead=self.ahead(), fits="")
            return
        self._unsaid = record
        every = 0.0 if self.verbosity > 1 else _LINE_SECONDS
        if self.clock() - self._last >= every:
            self._last = self._silent_since = self.clock()
            self._say(_left(self.ahead()) if every else "")

    def _add(self, record: EpochRecord) -> None:
        self._hits += record.work.hits
        self._fits += record.work.fits
        units = self._units / self._since if self._since else None
        self._since = self._units = 0
        self._pruned += round(record.metrics["folds_pruned"])
        self._shares = record.shares(self.budget, self.clock() - self._started)
        if not self._is_trained and not record.work.fits:
            # Cached epochs tell nothing about those that have to be trained.
            self._seen = [(self.clock(), self._shares, self._fits)]
            return
        self._is_trained = True
        self._seen = [*self._seen[-_RECENT:], (self.clock(), self._shares, self._fits)]
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
        if not left or not self._is_trained:
            return None
        return min(left) + (0.0 if self.forecast is None else self.forecast.after(Stage.SEARCH))

    def _words(self, record: EpochRecord) -> str:
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
            f"{self._pruned} folds pruned, {self._hits} from the archive"
            + (f", {failed:.0f} failed" if failed else "")
        )

    def end(self) -> None:
        """Remove the ETA, as the search may have ended early; print what is not printed yet."""
        if self.live is not None:
            self.live.show(ahead=None, fits="")
        self._say("")

    def _say(self, left: str) -> None:
        record, self._unsaid = self._unsaid, None
        if record is not None:
            say(f"epoch {_of(record.epoch, self.budget)}: {self._words(record)}{left}")


@contextmanager
def cell_display(total: int, done: int, verbosity: int = 1) -> Iterator[Display]:
    """Choose the display: nothing when quiet, live lines on a terminal, else a line a minute.

    Parameters
    ----------
    total, done : int
        Number of searches, and of those already finished.
    verbosity : int
        0 shows nothing, 1 the display, 2 and more a line for every search.
    """
    if verbosity == 0:
        yield Display()
        return
    columns = (
        TextColumn("[bold]searches {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(bar_width=24),
        _TimeLeft(),
    )
    with _live_lines(verbosity, *columns, total=total, completed=done) as live:
        yield _Cells(total, done, verbosity, live)


@dataclass
class _Cells(Display):
    """Counts searches; the ETA follows from those of this process."""

    total: int
    done: int
    verbosity: int
    live: _LiveLines | None

    def __post_init__(self) -> None:
        self._before = self.done
        self._started = time.monotonic()
        self._last = float("-inf")

    def _ahead(self) -> float:
        each = (time.monotonic() - self._started) / max(1, self.done - self._before)
        return each * (self.total - self.done)

    def finished(self, result: CellResult) -> None:
        """Show a finished search."""
        self.done += 1
        spent = f", {result.distinct} distinct evaluations"
        if result.distinct is None:
            spent = "" if result.fits is None else f", {result.fits} fits"
        text = (
            f"{result.cell.name}: cost {result.cost:.5f} with {result.size} "
            f"feature{'' if result.size == 1 else 's'}{spent}"
        )
        every = 0.0 if self.verbosity > 1 else _LINE_SECONDS
        if self.live is not None:
            self._move(self.live, text)
        elif self.done == self.total or time.monotonic() - self._last >= every:
            self._last = time.monotonic()
            ahead = f", about {plain_seconds(self._ahead())} left"
            say(f"{self.done}/{self.total} {text}{ahead if self.done < self.total else ''}")

    def failed(self, cell: Cell, error: str) -> None:
        """Show a failed search."""
        self.done += 1
        if self.live is not None:
            # Above the bar, where it is not overwritten.
            self.live.console.print(f"{cell.name} failed: {error}", soft_wrap=True)
            self._move(self.live, f"{cell.name}: failed")
        else:
            say(f"{self.done}/{self.total} {cell.name} failed: {error}")

    def _move(self, live: _LiveLines, text: str) -> None:
        live.below = text
        live.show(advance=1, ahead=self._ahead())
