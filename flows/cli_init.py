"""The command ``swarm init``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.terminal import echo
from swarm.errors import InputError

if TYPE_CHECKING:
    from swarm.findings import Finding
    from tasks.profile import Profile
    from tasks.sources._sniff import CsvStyle

__all__ = ["init"]

_MOST_DROPPED = 10


def init(
    table: Annotated[str, typer.Argument(help="A CSV or Parquet file.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write; default: the name of the table with .yaml, in this folder.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Look at a table and write a commented configuration for it.

    Example: swarm init my.csv --target y, then swarm check my.yaml and swarm select my.yaml.
    Exit status: 0 without errors, 2 with errors.
    """
    file = out or Path(Path(table).name.split(".")[0] + ".yaml")
    if file.exists() and not force:
        raise InputError(f"{file} exists already; pass --force to overwrite it, or --out")
    from tasks.profile import profile_of
    from tasks.sources import read_raw
    from tasks.sources._sniff import CsvStyle, sniffed

    is_csv = table.lower().endswith((".csv", ".csv.gz"))
    style = sniffed(table) if is_csv and "://" not in table else CsvStyle()
    raw = read_raw("file", path=table, csv=vars(style))
    profile = profile_of(raw, target)
    text, told = _first_without_errors(table, style, profile, set(map(str, raw.frame.columns)))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}; pass another --out") from None
    echo(
        f"wrote {file}: {profile.task}, {profile.n_rows:,} rows, {profile.n_features:,} "
        f"column{'s' * (profile.n_features != 1)} to choose from, {len(profile.dropped):,} dropped"
    )
    reasons = list(profile.dropped.items())
    echo(*(f"dropped {name}: {why}" for name, why in reasons[:_MOST_DROPPED]), indent=8)
    if len(reasons) > _MOST_DROPPED:
        echo(f"and {len(reasons) - _MOST_DROPPED:,} more in {file}")
    echo(*(f"{each.severity:<8}{each}" for each in told), indent=8)
    if any(each.severity == "error" for each in told):
        echo(f"{file} cannot be run: correct its errors, then swarm check {file}")
        raise typer.Exit(2)
    echo(f"next: read {file}, then swarm check {file}; swarm select {file}")


def _first_without_errors(
    table: str, style: CsvStyle, profile: Profile, columns: Collection[str]
) -> tuple[str, list[Finding]]:
    """Return the first configuration that can run, and its findings; else the last one tried."""
    from conf.load import from_yaml
    from flows.checking import findings_of
    from flows.initial_config import initial_config, plans_of
    from swarm.findings import Finding, unmuted

    def tried(plan: str, forbidden: Sequence[str] = ()) -> tuple[str, list[Finding]]:
        text = initial_config(table, style, profile, plan, forbidden)
        config = from_yaml(text, "the new configuration", (), {})
        return text, list(unmuted(findings_of(config)))

    text, told = "", list[Finding]()
    for plan in plans_of(profile):
        text, told = tried(plan)
        # Constant parts of dates, which no column of the table has as its name.
        constant = [name for each in told if each.code == "SWM112" for name in each.columns]
        parts = [name for name in constant if name not in columns]
        if parts:
            text, told = tried(plan, parts)
        if not any(each.severity == "error" for each in told):
            break
    return text, told
