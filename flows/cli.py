"""The command line: ``swarm``."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli_champion import champion, refresh, rollback
from flows.cli_check import check
from flows.cli_flow import checked, interruptible
from flows.cli_init import init
from flows.cli_nested import nested
from flows.cli_options import (
    AsJson,
    Config,
    Quiet,
    RunId,
    Set,
    Uri,
    Verbose,
    artifact_of,
    tracking_of,
    warm_setting,
)
from flows.cli_plan import plan
from flows.cli_report import report
from flows.cli_runs import runs
from flows.cli_serve import serve
from flows.cli_servers import down, ui, up
from flows.cli_stability import stability
from flows.findings import Mute
from flows.prefect_server import PrefectServer, launch_prefect, lost_connection
from flows.terminal import echo
from flows.warnings_and_logs import show_warnings_once
from swarm.errors import ConfigError, InputError, StoreError, SwarmError

if TYPE_CHECKING:
    from conf.schema import SelectConfig

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Show and validate configurations.", no_args_is_help=True)
app.add_typer(config_app, name="config")


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


@app.command()
def select(
    config: Config,
    set_: Set = None,
    warm: Annotated[
        str | None,
        typer.Option(
            "--warm",
            metavar="FILE|RUN_ID",
            help="Start from the subsets of a features.json, or of an earlier run.",
        ),
    ] = None,
    mute: Mute = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Search for the best subset of features, evaluate it, and log the run to MLflow.

    Example: swarm select default --set budget.epochs=20
    """
    with launch_prefect() as server:
        from conf.load import load_select

        loaded = load_select(config, [*(set_ or ()), *warm_setting(warm)])
        _run(server, loaded, mute, None, 0 if quiet else 1 + verbose, as_json)


@app.command()
def compare(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start a new comparison, even if one is unfinished.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Compare strategies on data sets; run it again to continue an unfinished comparison.

    Example: swarm compare compare
    """
    verbosity = 0 if quiet else 1 + verbose
    with launch_prefect() as server:
        from conf.load import load_compare

        with checked(server, load_compare(config, set_ or ()), mute, verbosity) as loaded:
            from flows.compare import FailedSearches
            from flows.compare import compare as flow
            from flows.compare_summary import comparison_as_json, print_comparison
    failed = None
    with interruptible("run the same command to continue"):
        try:
            compared = flow(loaded, new, verbosity)
        except FailedSearches as error:
            if error.compared is None:
                raise
            compared, failed = error.compared, error
    if as_json:
        typer.echo(comparison_as_json(compared, loaded))
    else:
        print_comparison(compared, loaded)
    if failed is not None:
        raise failed


app.command()(init)
app.command()(check)
app.command()(refresh)
app.command()(champion)
app.command()(rollback)
app.command()(serve)
app.command()(report)
app.command()(runs)
app.command()(plan)
app.command()(nested)
app.command()(stability)
app.command()(up)
app.command()(down)
app.command()(ui)


@app.command()
def strategies(
    name: Annotated[
        str | None, typer.Argument(help="Show the parameters of this strategy.")
    ] = None,
) -> None:
    """List the search strategies, or the parameters of one.

    Example: swarm strategies multiswarm
    """
    from flows.strategy_list import print_strategies

    print_strategies(name)


@app.command()
def resume(
    run_id: RunId,
    set_: Set = None,
    mute: Mute = None,
    tracking_uri: Uri = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Resume an interrupted run, or extend a finished one.

    Example: swarm resume RUN_ID --set budget.epochs=200
    """
    with launch_prefect() as server:
        from conf.later_keys import earlier_values
        from conf.load import RefreshConfig, from_yaml, only_select
        from conf.text import parse

        text = artifact_of(run_id, "config.yaml", tracking_uri)
        origin = f"the configuration of run {run_id}"
        changes = [*earlier_values(parse(text, origin)), *(set_ or ())]
        loaded = only_select(from_yaml(text, origin, changes, {}), origin, "CONFIG")
        if isinstance(loaded, RefreshConfig):
            raise ConfigError(
                f"run {run_id} is part of a refresh; run `swarm refresh CONFIG` again, which"
                " reuses all evaluations"
            )
        _run(server, loaded, mute, run_id, 0 if quiet else 1 + verbose, as_json)


@app.command()
def features(
    run_id: RunId,
    of_champion: Annotated[
        bool, typer.Option("--champion", help="RUN_ID is the name of a champion.")
    ] = False,
    tracking_uri: Uri = None,
    as_json: AsJson = False,
) -> None:
    """Print the selected features of a run, one per line.

    Example: swarm features RUN_ID --json
    """
    if of_champion:
        from tasks.refresh.champion import Champions

        run_id = Champions(tracking_of(tracking_uri)).required(run_id).run_id
    text = artifact_of(run_id, "features.json", tracking_uri)
    typer.echo(text.rstrip() if as_json else "\n".join(json.loads(text)["features"]))


@config_app.command("show")
def config_show(config: Config, set_: Set = None) -> None:
    """Print a configuration with all defaults.

    Example: swarm config show default
    """
    from conf.load import as_yaml, load

    typer.echo(as_yaml(load(config, set_ or ())).rstrip())


@config_app.command("check")
def config_check(config: Config, set_: Set = None) -> None:
    """Validate a configuration without reading data.

    Example: swarm config check my.yaml
    """
    from conf.check import check as check_config
    from conf.load import load

    check_config(load(config, set_ or ()))
    typer.echo(f"{config} is fine")


@config_app.command("schema")
def config_schema(
    config: Annotated[str, typer.Argument(help="A configuration of the kind that is wanted.")] = (
        "default"
    ),
) -> None:
    """Print the JSON schema of a configuration, for editors.

    Example: swarm config schema default > schema.json
    """
    from conf.load import json_schema, load

    typer.echo(json.dumps(json_schema(type(load(config))), indent=2))


def main() -> None:
    """Run the command line; expected errors are printed as one sentence without a traceback.

    Exit status: 0 success, 1 a search that failed, 2 bad input, 130 Ctrl-C.
    """
    _quieten()
    show_warnings_once()
    try:
        app()
    except (InputError, StoreError) as error:
        _complain(error)
        sys.exit(2)
    except SwarmError as error:
        _complain(error)
        for note in getattr(error, "__notes__", ()):
            echo(note, err=True)
        sys.exit(1)
    except Exception as error:
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
    # It warns if a command ends right after it has emitted an event.
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)


def _run(
    server: PrefectServer,
    config: SelectConfig,
    mute: list[str] | None,
    run_id: str | None,
    verbosity: int,
    as_json: bool,
) -> None:
    with checked(server, config, mute, verbosity) as config:
        from flows.select import select as flow
        from flows.summary import print_summary, summary_as_json
    with interruptible("all evaluations so far are in the archive"):
        outcome = flow(config, run_id, verbosity)
    if as_json:
        typer.echo(summary_as_json(outcome, config))
    else:
        print_summary(outcome, config)


if __name__ == "__main__":
    main()
