"""What the commands and the summaries of all flows print alike."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

import typer
from rich.console import Console
from rich.markup import escape

__all__ = ["WIDE", "echo", "print_end", "print_warnings", "result_console"]

# Width of the output in a file.
WIDE = 110


def echo(*lines: str, indent: int = 0, err: bool = False) -> None:
    """Print lines; a terminal shows long ones on several rows, broken between words.

    Rows after the first are indented. In a file or a pipe each line stays one line.
    """
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        lines = tuple(
            textwrap.fill(
                line,
                width,
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line in lines
        )
    for line in lines:
        typer.echo(line, err=err)


def result_console(width: int = WIDE) -> Console:
    """Return a console as wide as the terminal or ``COLUMNS``, or of this width in a file."""
    console = Console(highlight=False)
    is_set = os.environ.get("COLUMNS", "").isdigit()
    return console if console.is_terminal or is_set else Console(highlight=False, width=width)


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print warnings, a line each."""
    for text in warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(text)}")


def print_end(
    console: Console, warnings: Iterable[str], run_id: str, experiment: str, *more: str
) -> None:
    """Print warnings, the run, and where to find more."""
    print_warnings(console, warnings)
    console.print(f"\nrun      {run_id}  ({experiment})")
    echo(*more, indent=9)
