"""What reaches the terminal: lines, progress, commands to paste, warnings and logs.

Progress is a bar on a terminal, and plain lines elsewhere.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from swarm.wording import counted

# Numerical libraries would delay the first line of a command.
if TYPE_CHECKING:
    from swarm.arrays import Bool
    from swarm.findings import Finding
    from swarm.search.budget import Budget
    from swarm.search.history import EpochRecord
    from swarm.storage.records import Record
    from tasks.study import Cell, CellResult

# The server has a level of its own, as it logs every request.
_LOG_LEVELS = ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_INTERNAL_LEVEL")
# A worker whose memory has grown by 300 MB, as with a wide table, is replaced; nothing is lost.
_REPLACED = "A worker stopped while some jobs were given to the executor"

# Interval of the lines where there is no terminal.
_LINE_SECONDS = 60.0
# Time that the speed is estimated from, as an epoch may take minutes.
_SPEED_SECONDS = 3600.0
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}

_original_showwarning = warnings.showwarning


def echo(*lines: str, indent: int = 0, err: bool = False) -> None:
    """Print lines; a terminal shows long ones on several indented rows, broken between words."""
    width = terminal_width(err)
    for line in lines:
        rows = [line]
        if width is not None:
            # An option is copied as a whole.
            line = line.replace("--set ", "--set\0")
            # rich would break words that are longer than a row, such as paths.
            rows = textwrap.wrap(
                line,
                width,
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        typer.echo("\n".join(rows).replace("\0", " "), err=err)


def echo_row(line: str) -> None:
    """Print a line; a terminal shows as much of it as one row has."""
    if terminal_width() is None:
        typer.echo(line)
    else:
        _console().print(line, no_wrap=True, overflow="ellipsis")


def terminal_width(err: bool = False) -> int | None:
    """Return the columns of the terminal that shows the output; None if it is no terminal."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _console(err: bool = False) -> Console:
    """Return a console for plain text: names of columns and folders may look like markup."""
    return Console(stderr=err, highlight=False, markup=False, emoji=False)


def store_option(uri: str) -> str:
    """Return the option, after a blank, by which a command uses a store; empty for the default.

    Variables in the address are kept.
    """
    from conf.load import default_tracking
    from tasks.secrets import expand
    from tasks.tracking.store import is_sqlite, resolve

    def address_of(store: str) -> str:
        return resolve(expand(store, "address of the tracking store"))

    address = address_of(uri)
    if address == address_of(default_tracking().uri):
        return ""
    # A file is found from any folder by its absolute path.
    return f" --tracking-uri {shlex.quote(address if is_sqlite(address) else uri)}"


def pages_of(uri: str) -> str:
    """Return the address of a tracking server, or the command that starts one for a store."""
    from swarm.redaction import redact
    from tasks.secrets import expand

    address = expand(uri, "address of the tracking store")
    # MLflow cannot show the runs of another server.
    is_server = address.startswith(("http://", "https://"))
    return redact(address) if is_server else f"swarm up{store_option(uri)}"


def show_warnings_once() -> None:
    """Show each kind of warning once, in one line, and none of those of worker processes.

    The main process trains the same models at the end, and shows the same warnings.
    """
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    # A command says once that a server is lost, Prefect for every batch of lines that it logs.
    logging.raiseExceptions = False
    global _original_showwarning
    _original_showwarning = warnings.showwarning
    seen: set[tuple[type[Warning], str]] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        line = (str(message).strip().splitlines() or [""])[0]
        if line.startswith(_REPLACED):
            return
        # Warnings that differ in numbers are equal.
        key = category, re.sub(r"\d+", "", line)
        if key not in seen:
            seen.add(key)
            sys.stderr.write(f"note: {category.__name__}: {line} (shown once; -vv shows all)\n")

    warnings.showwarning = show


def hide_warnings(quiet: bool) -> bool:
    """Hide all warnings with `--quiet`."""
    if quiet:
        warnings.simplefilter("ignore")
    return quiet


def enable_logs(count: int) -> int:
    """Enable all logs and warnings from -vv on, before Prefect and MLflow are imported."""
    if count > 1:
        for name in _LOG_LEVELS:
            if os.environ.get(name) == "CRITICAL":
                os.environ[name] = "INFO"
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO")
        if os.environ.get("PYTHONWARNINGS") == "ignore":
            del os.environ["PYTHONWARNINGS"]
        warnings.showwarning = _original_showwarning
    return count


def say(text: str | Text, verbosity: int = 1) -> None:
    """Write one line to the log of the flow run, and to the terminal unless quiet."""
    # Prefect takes seconds to import, and without it there is no flow.
    if "prefect" in sys.modules:
        from tasks.flow_run import log_line

        log_line(str(text))
    if verbosity > 0:
        _console(err=True).print(text, soft_wrap=True)


def print_findings(findings: Iterable[Finding], verbosity: int = 1) -> None:
    """Print findings on standard error, a line each."""
    for finding in findings:
        label = (f"{finding.severity}:", _COLOURS[finding.severity])
        say(Text.assemble(label, f" {finding}"), verbosity)


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the findings that are more than notes, a line each."""
    return tuple(str(finding) for finding in findings if finding.severity != "note")


class Display:
    """Shows the progress of a block: a bar on a terminal, elsewhere a line a minute.

    A `verbosity` above 1 shows a line for every step instead, and 0 shows nothing.
    """

    def __init__(
        self, verbosity: int, text: str, total: float | None, unit: str, *, done: int = 0
    ) -> None:
        self.text = text
        self.total = total
        self.unit = unit
        self.done = done
        self.verbosity = verbosity
        is_bar = verbosity == 1 and sys.stderr.isatty()
        self.is_plain = verbosity > 0 and not is_bar
        # A long text wraps on a narrow terminal.
        wrapped = Column(overflow="fold")
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False, table_column=wrapped)
        ]
        if total is not None:
            columns += [BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[unit]}")]
            columns += [TimeRemainingColumn()]
        self.bar = Progress(
            *columns,
            TimeElapsedColumn(),
            console=_console(err=True),
            speed_estimate_period=_SPEED_SECONDS,
            disable=not is_bar,
        )
        self.task = self.bar.add_task(text, total=total, completed=done, unit=unit)
        self._line_due = _LINE_SECONDS
        self._is_first = True
        self._pending_line = ""

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.bar.stop()
        if self._pending_line and error is None:
            say(self._pending_line)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.bar.tasks[0].elapsed or 0.0

    def show(self, line: str, text: str, *, is_step: bool = False, **changes: Any) -> None:
        """Show the short text beside the bar; without one write the line, at most one a minute."""
        description = line if self.total is None else text
        self.bar.update(self.task, description=description, **changes)
        if not self.is_plain:
            return
        is_due_step = is_step and (self._is_first or self.verbosity > 1)
        if is_due_step or self.elapsed >= self._line_due:
            say(line)
            self._line_due = self.elapsed + _LINE_SECONDS
            self._pending_line = ""
        elif is_step:
            self._pending_line = line
        self._is_first &= not is_step

    def count(self, done: int = 1) -> None:
        """Count finished units."""
        self.done += done
        total = f" of {self.total:,}" if self.total else ""
        line = f"{self.text}: {self.done:,}{total} {self.unit}"
        self.show(line, self.text, completed=self.done)

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        self.count(int(record.has_cost.sum()))


def show_stage(
    text: str, verbosity: int = 1, *, total: int | None = None, unit: str = "fits"
) -> Display:
    """Show a stage of `total` units while it lasts, unless `verbosity` is 0.

    A line announces it if there is no bar.
    """
    display = Display(verbosity, text, total or None, unit)
    if display.is_plain:
        say(text)
    return display


class EpochDisplay(Display):
    """Shows the epochs of a search, and how much of the nearest limit is spent.

    `score` describes a cost in the user's metric.
    """

    def __init__(self, budget: Budget, score: Callable[[float], str], verbosity: int = 1) -> None:
        # Early stopping is no measure of progress.
        unit, total = next(iter(budget.limits.items()), ("epochs", None))
        super().__init__(verbosity, "epoch 1", total, unit)
        self.budget = budget
        self._score = score
        # Folds that were trained since the last epoch are counted here.
        self._n_fits = 0

    def fit(self, mask: Bool, record: Record) -> None:
        """Count the folds of a mask that was trained."""
        # An epoch of an expensive model takes minutes.
        self._n_fits += int(record.has_cost.sum())
        fits = f"{self._n_fits:,} fits"
        line = f"{self._name(self.done + 1)} under way: {fits}"
        self.show(line, self.text, unit=f"{self.unit}, +{fits}")

    def epoch(self, record: EpochRecord) -> None:
        """Show one epoch: the best subset so far, and how many evaluations failed."""
        metrics = record.metrics
        changes: dict[str, Any] = {}
        self._n_fits = 0
        self.done = record.epoch
        shares = record.shares(self.budget, self.elapsed)
        if shares:
            self.unit = max(shares, key=lambda name: shares[name])
            total = self.budget.limits[self.unit]
            changes = {"total": total, "completed": round(shares[self.unit] * total)}
        self.text = "no subset has a score yet"
        if size := metrics["best_size"]:
            self.text = f"{self._score(metrics['best_cost'])} with {counted(size, 'column')}"
        line = f"{self._name(record.epoch)}: {self.text}"
        if n_failed := metrics["failed_evaluations"]:
            line += f", {n_failed:.0f} failed"
        self.show(line, self.text, is_step=True, unit=self.unit, **changes)

    def _name(self, epoch: int) -> str:
        return f"epoch {epoch}/{self.budget.epochs}" if self.budget.epochs else f"epoch {epoch}"


class CellDisplay(Display):
    """Shows the searches of a comparison, of outer folds or of repetitions, as they finish."""

    def __init__(self, total: int, done: int, verbosity: int = 1) -> None:
        super().__init__(verbosity, "searching", total, "searches", done=done)

    def finish(self, result: CellResult, score: str) -> None:
        """Show a finished search and the score of its best subset."""
        text = f"{result.cell.name}: {score} with {counted(result.size, 'column')}"
        self.done += 1
        self.show(f"{self.done}/{self.total} {text}", text, is_step=True, completed=self.done)

    def fail(self, cell: Cell, error: str) -> None:
        """Show a failed search, above the bar, where it is not overwritten."""
        self.done += 1
        self._pending_line = ""
        self.bar.update(self.task, completed=self.done)
        if self.verbosity > 0:
            say(f"{self.done}/{self.total} {cell.name} failed: {error}")
