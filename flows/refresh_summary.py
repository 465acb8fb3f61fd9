"""Summary of a refresh on the terminal."""

from __future__ import annotations

from rich.console import Console

from conf.refresh_schema import RefreshConfig
from flows.refresh import RefreshRun
from flows.summary import print_summary

__all__ = ["print_refresh"]

_TOLD = {
    "first": "first champion",
    "promoted": "challenger promoted",
    "replaced": "champion replaced",
    "kept": "champion kept",
    "declined": "challenger not approved, champion kept",
    "unchanged": "nothing changed",
}


def print_refresh(done: RefreshRun, config: RefreshConfig, *, quiet: bool = False) -> None:
    """Print the search, if there was one, and the decision."""
    if done.outcome is not None and not quiet:
        print_summary(done.outcome, config)
    console = Console(highlight=False, soft_wrap=True)
    champion = done.champion
    console.print(f"\n[bold]{_TOLD[done.decision]}[/bold]: {done.why}")
    for text in done.warnings:
        console.print(f"[yellow]warning:[/yellow] {text}")
    console.print(f"champion {champion.uri}  (since {champion.since or 'unknown'})")
    if config.champion.publish:
        console.print(f"features {config.champion.publish}")
