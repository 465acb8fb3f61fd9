"""The command line: ``swarm``."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.columns import columns
from flows.cli.diff import diff
from flows.cli.flows import compare, nested, refresh, resume, select, stability
from flows.cli.options import Config, Mute, Set, echo_json
from flows.cli.predict import predict
from flows.cli.servers import down, serve, up
from flows.cli.stored import champion, features, prune, report, rollback, runs
from flows.display.terminal import echo, show_warnings_once
from flows.run.garbage import collect_rarely
from flows.run.prefect_server import lost_connection
from swarm.errors import InputError, StoreError, SwarmError
from swarm.wording import counted, listed

if TYPE_CHECKING:
    from rich.console import Console

    from swarm.findings import Finding
    from swarm.strategies.catalogue import StrategyEntry

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_MAX_LINES = 10


def _print_version(wanted: bool) -> None:
    if wanted:
        from swarm import __version__

        typer.echo(f"swarm {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Select the features with which a model does best, and measure how good they are."""


def init(
    table: Annotated[str, typer.Argument(help="A text (CSV), Excel or Parquet file.")],
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to predict.")],
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
    if len(target) > 1:
        raise InputError(
            f"swarm init looks at one target, got {', '.join(target)}; for several labels write "
            f"data.target: [{', '.join(target)}] and model.estimator: swarm.MLkNN into a file"
        )
    file = out or Path(Path(table).name.split(".")[0] + ".yaml")
    if file.exists() and not force:
        raise InputError(f"{file} exists already; pass --force to overwrite it, or --out")
    from flows.run.initial_config import initial_config

    profile, text, findings = initial_config(table, target[0])
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}; pass another --out") from None
    echo(
        f"wrote {file}: {profile.task}, {profile.n_rows:,} rows, "
        f"{counted(profile.n_features, 'column')} to choose from, {len(profile.dropped):,} dropped"
    )
    dropped = [f"dropped {name}: {why}" for name, why in profile.dropped.items()]
    notes = [f"read {listed(names)}: {note}" for note, names in profile.notes.items()]
    for lines in (dropped, notes):
        echo(*lines[:_MAX_LINES], indent=8)
        if len(lines) > _MAX_LINES:
            echo(f"and {len(lines) - _MAX_LINES:,} more in {file}")
    if profile.group is not None:
        echo(f"group {profile.group.name}: {profile.group}", indent=8)
    if profile.time is not None:
        echo(f"time {profile.time}: the rows are in order of these dates", indent=8)
    _echo_findings(findings)
    quoted = shlex.quote(str(file))
    if any(finding.severity == "error" for finding in findings):
        echo(f"{file} cannot be run: correct its errors, then swarm check {quoted}")
        raise typer.Exit(2)
    echo(f"next: read {file}, then swarm check {quoted}; swarm select {quoted}")


def check(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Read the data and list all errors and findings at once.

    Nothing is searched or stored.

    Example: swarm check my.yaml --mute SWM112.
    Exit status: 0 without errors, 1 with errors, 2 if the data cannot be reached.
    """
    from flows.run.checking import all_findings

    times: list[str] = []
    _, findings = all_findings(config, set_ or (), mute or (), times.append)
    severities = [finding.severity for finding in findings]
    counts = {name: severities.count(name) for name in ("error", "warning", "note")}
    if as_json:
        records = [finding.as_dict() for finding in findings]
        time = times[0] if times else None
        echo_json({"config": config, "counts": counts, "findings": records, "time": time})
    else:
        _echo_findings(findings)
        summary = ", ".join(counted(count, word) for word, count in counts.items() if count)
        typer.echo(f"{config}: {summary or 'no findings'}")
        echo(*times)
    if counts["error"]:
        raise typer.Exit(1)


def _echo_findings(findings: Iterable[Finding]) -> None:
    echo(*(f"{finding.severity:<8}{finding}" for finding in findings), indent=8)


def strategies(
    name: Annotated[
        str | None, typer.Argument(help="Show the parameters of this strategy.")
    ] = None,
) -> None:
    """List the search strategies, or the parameters of one.

    Example: swarm strategies multiswarm
    """
    from rich.console import Console

    from swarm.strategies.catalogue import catalogue, describe

    console = Console(highlight=False)
    if name is None:
        _print_all(console, catalogue())
    else:
        _print_one(console, describe(name))


def _print_all(console: Console, entries: tuple[StrategyEntry, ...]) -> None:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    table = Table("strategy", "what it is", "parameters", box=SIMPLE)
    table.columns[0].no_wrap = True
    table.columns[2].overflow = "fold"
    for entry in entries:
        defaults = ", ".join(f"{p.name}={_short(p.default)}" for p in entry.parameters)
        table.add_row(f"[bold]{entry.name}[/bold]", escape(_line(entry)), defaults or "none")
    console.print(table)
    console.print(
        "Start with auto, the default: multiswarm, or rankings where columns outnumber rows by ten "
        "times. What the parameters do: swarm strategies NAME"
    )


def _print_one(console: Console, entry: StrategyEntry) -> None:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{entry.name}[/bold]  {escape(_line(entry))}")
    for fact in entry.facts:
        console.print(f"- {fact}")
    if not entry.parameters:
        console.print("It has no parameters.")
        return
    table = Table("parameter", "default", "what it does", box=SIMPLE)
    # Parameters that are documented together share a row.
    for text, group in groupby(entry.parameters, lambda parameter: parameter.text):
        parameters = list(group)
        names = "\n".join(parameter.name for parameter in parameters)
        defaults = "\n".join(_short(parameter.default) for parameter in parameters)
        table.add_row(names, defaults, text)
    console.print(table)


def _line(entry: StrategyEntry) -> str:
    """Describe a strategy in one line, with its package if it is not ours."""
    return entry.line + (f" (package {entry.package})" if entry.package else "")


def _short(value: object) -> str:
    """Format a default as YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def config(
    config: Config,
    set_: Set = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of its kind, for editors.")
    ] = False,
) -> None:
    """Print a configuration with all defaults.

    Its first line names the keys that differ from them.

    Example: swarm config default
    """
    from conf.load import as_yaml, flatten, load

    loaded = load(config, set_ or ())
    if schema:
        echo_json(loaded.model_json_schema())
        return
    changed = ", ".join(flatten(loaded, without_defaults=True))
    typer.echo(f"# Other than the defaults: {changed}\n{as_yaml(loaded).rstrip()}")


# The help lists the commands in this order.
_GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Search": (init, check, select, resume, compare, nested, stability),
    "Look": (runs, report, features, columns, diff, strategies, config),
    "Production": (predict, refresh, champion, rollback, serve, prune),
    "Set-up": (up, down),
}
for _group, _commands in _GROUPS.items():
    for _command in _commands:
        app.command(rich_help_panel=_group)(_command)


def main() -> None:
    """Run the command line; expected errors are printed as one sentence without a traceback.

    Exit status: 0 success, 1 a search that failed, 2 bad input or an unreachable store, 130 Ctrl-C.
    """
    _quieten()
    collect_rarely()
    show_warnings_once()
    try:
        app()
    except SwarmError as error:
        _complain(error)
        if isinstance(error, InputError | StoreError):
            sys.exit(2)
        for note in getattr(error, "__notes__", ()):
            echo(note, err=True)
        sys.exit(1)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _complain(StoreError(f"cannot write ({error.strerror}); free some space"))
            sys.exit(2)
        lost = lost_connection(error)
        if lost is None:
            raise
        _complain(lost)
        sys.stdout.flush()
        sys.stderr.flush()
        # Prefect would retry for minutes to report to the lost server.
        os._exit(2)


def _complain(error: Exception) -> None:
    echo(f"swarm: {error}", err=True)


def _quieten() -> None:
    """Hide the logs of Prefect, unless the environment sets their level."""
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    # Prefect warns if a command ends right after it has emitted an event.
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)
