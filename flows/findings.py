"""Print findings, and mute them by code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from swarm.findings import Finding
from swarm.findings.registry import check_mute

__all__ = ["Mute", "tell", "warnings_of", "with_mute"]

Mute = Annotated[
    list[str] | None,
    typer.Option(
        "--mute", metavar="CODE", help="Do not report findings with this code: --mute SWM112."
    ),
]
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def tell(findings: Iterable[Finding], verbosity: int = 1) -> None:
    """Print findings on standard error, a line each."""
    from rich.markup import escape

    from flows.progress import say

    for each in findings:
        colour = _COLOURS[each.severity]
        say(f"[{colour}]{each.severity}:[/{colour}] {escape(str(each))}", verbosity)


def warnings_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the findings that are more than notes, a line each."""
    return tuple(str(each) for each in findings if each.severity != "note")


def with_mute(config: Any, codes: Sequence[str] | None) -> Any:
    """Return a configuration of any kind with the codes of the command line added to its own.

    Raises
    ------
    ConfigError
        If there is no such code, or it is that of an error.
    """
    given = codes or ()
    check_mute(given)
    return config.model_copy(update={"mute": list(dict.fromkeys([*config.mute, *given]))})
