"""What the studies print at their end: tables, sentences, and where to find more."""

import os
from typing import Any, Protocol

import rich.table
from rich.box import SIMPLE
from rich.console import Console
from rich.text import Text

from conf.load import AnyConfig
from flows.display.terminal import echo, pages_of
from swarm.report.table import TextTable

# Width of the output in a file.
_FILE_WIDTH = 120
# Tables have less in a row up to this width.
NARROW = 109
# Names have this width on a narrow terminal.
_MIN_NAME_WIDTH = 28


class StudyRun(Protocol):
    """The result of a study."""

    @property
    def run_id(self) -> str:
        """Id of the parent run."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings that are more than notes, a line each."""

    @property
    def artifacts(self) -> str:
        """What to look at among the artifacts of the run."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON data; undefined values are null."""

    def tables(self, width: int) -> list[TextTable]:
        """Return the tables for a terminal of `width` columns."""

    def sentences(self) -> list[str]:
        """Return what the tables show."""


def _console() -> Console:
    """Return a console as wide as the terminal, as ``COLUMNS``, or as a file is."""
    console = Console(highlight=False)
    is_set = os.environ.get("COLUMNS", "").isdigit()
    return console if console.is_terminal or is_set else Console(highlight=False, width=_FILE_WIDTH)


def print_table(table: TextTable) -> None:
    """Print a table."""
    _console().print(_as_rich(table))


def print_study(run: StudyRun, config: AnyConfig) -> None:
    """Print the tables of a study, what they show, and where to find more."""
    console = _console()
    for table in run.tables(console.width):
        console.print(_as_rich(table))
    for text in run.sentences():
        console.print(text, markup=False)
    for text in run.warnings:
        console.print(Text.assemble(("warning:", "yellow"), f" {text}"))
    console.print(f"\nrun      {run.run_id}  ({config.tracking.experiment})", markup=False)
    pages = pages_of(config.tracking.uri)
    echo(f"look     {pages}, then open {run.artifacts} among its artifacts", indent=9)


def _as_rich(table: TextTable) -> rich.table.Table:
    """Return a table as rich prints it; names may look like markup."""
    title = Text(table.title, "bold") if table.title else None
    rich_table = rich.table.Table(title=title, title_justify="left", box=SIMPLE)
    longest = max((len(row[0]) for row in table.rows), default=0)
    for column, name in enumerate(table.header):
        options: Any = {"justify": "left" if column < table.n_left else "right"}
        if column == 0:
            options |= {"overflow": "fold", "min_width": min(longest, _MIN_NAME_WIDTH)}
        rich_table.add_column(name, **options)
    for row in table.rows:
        rich_table.add_row(*map(Text, row))
    return rich_table
