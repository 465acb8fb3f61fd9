"""The command ``swarm check``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from flows.cli_options import Config, Set
from flows.findings import Mute
from flows.terminal import echo

__all__ = ["check"]


def check(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Read the data and list all errors and findings at once; nothing is searched or stored.

    Example: swarm check my.yaml --mute SWM112. Exit status: 0 without errors, 1 with errors.
    """
    from flows.checking import all_findings

    _, told = all_findings(config, set_ or (), mute or ())
    counts = {
        severity: sum(each.severity == severity for each in told)
        for severity in ("error", "warning", "note")
    }
    if as_json:
        data: dict[str, Any] = {"config": config, "counts": counts}
        data["findings"] = [each.as_dict() for each in told]
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        echo(*(f"{each.severity:<8}{each}" for each in told), indent=8)
        some = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items() if n]
        typer.echo(f"{config}: {', '.join(some) or 'no findings'}")
    if counts["error"]:
        raise typer.Exit(1)
