"""What the summaries of all flows print alike."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

__all__ = ["WIDE", "print_end", "print_warnings", "result_console"]

# Width of the output in a file.
WIDE = 110


def result_console(width: int = WIDE) -> Console:
    """Return a console as wide as the terminal, or of this width in a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


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
    for line in more:
        console.print(line, soft_wrap=True)
