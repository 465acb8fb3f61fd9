"""The output of ``swarm strategies``."""

from __future__ import annotations

from itertools import groupby

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swarm.strategies.catalogue import StrategyEntry, catalogue, describe


def print_strategies(name: str | None = None) -> None:
    """Print a line for each strategy, or the details of the one called `name`."""
    console = Console(highlight=False)
    if name is None:
        _print_all(console, catalogue())
    else:
        _print_one(console, describe(name))


def _print_all(console: Console, entries: tuple[StrategyEntry, ...]) -> None:
    table = Table("strategy", "what it is", "parameters", box=SIMPLE)
    table.columns[0].no_wrap = True
    table.columns[2].overflow = "fold"
    for entry in entries:
        given = ", ".join(f"{p.name}={_short(p.default)}" for p in entry.parameters)
        table.add_row(f"[bold]{entry.name}[/bold]", escape(_line(entry)), given or "none")
    console.print(table)
    console.print(
        "Start with multiswarm, the default. What the parameters do: swarm strategies NAME"
    )


def _print_one(console: Console, entry: StrategyEntry) -> None:
    console.print(f"[bold]{entry.name}[/bold]  {escape(_line(entry))}")
    for fact in entry.facts:
        console.print(f"- {fact}")
    if not entry.parameters:
        console.print("It has no parameters.")
        return
    table = Table("parameter", "default", "what it does", box=SIMPLE)
    # Parameters that are documented together share a row.
    for text, alike in groupby(entry.parameters, lambda parameter: parameter.text):
        together = list(alike)
        names = "\n".join(each.name for each in together)
        table.add_row(names, "\n".join(_short(each.default) for each in together), text)
    console.print(table)


def _line(entry: StrategyEntry) -> str:
    """Describe a strategy in one line, with its package if it is not ours."""
    return entry.line + (f" (package {entry.package})" if entry.package else "")


def _short(value: object) -> str:
    """Format a default as YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
