"""The command line: ``swarm``."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from swarm.errors import InputError, StoreError, SwarmError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Choose the features with which a model does best, and believe the answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
config_app = typer.Typer(help="Look at configurations.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Config = Annotated[
    str, typer.Argument(help="A YAML file, or the name of one that ships, such as 'default'.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key: --set budget.epochs=5."),
]
RunId = Annotated[str, typer.Argument(help="Id of an MLflow run.")]
Uri = Annotated[
    str | None,
    typer.Option("--tracking-uri", help="Where MLflow keeps the runs; default: as `default` says."),
]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="A line per epoch.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer.")]


@app.command()
def select(config: Config, set_: Set = None, verbose: Verbose = 0, quiet: Quiet = False) -> None:
    """Select features as CONFIG says; everything is kept in MLflow."""
    from conf.check import check
    from conf.load import load_select

    loaded = load_select(config, set_ or ())
    check(loaded)
    _run(loaded, None, 0 if quiet else 1 + verbose)


@app.command()
def compare(
    config: Config,
    set_: Set = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start afresh, whatever was left unfinished.")
    ] = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Compare strategies on data sets as CONFIG says; the same command again goes on with it."""
    from conf.compare_check import check_compare
    from conf.load import load_compare

    loaded = load_compare(config, set_ or ())
    check_compare(loaded)
    from flows.compare import compare as flow
    from flows.compare_summary import print_comparison

    _start_prefect()
    try:
        compared = flow(loaded, new, 0 if quiet else 1 + verbose)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on with what is left", err=True)
        raise typer.Exit(130) from None
    print_comparison(compared, loaded)


@app.command()
def strategies(
    name: Annotated[str | None, typer.Argument(help="One of them, with its parameters.")] = None,
) -> None:
    """List the search algorithms, or the parameters of one."""
    from flows.strategy_list import print_strategies

    print_strategies(name)


@app.command()
def resume(
    run_id: RunId,
    set_: Set = None,
    tracking_uri: Uri = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, or extend one: --set budget.epochs=200."""
    from conf.check import check
    from conf.load import from_yaml, only_select

    text = _artifact(run_id, "config.yaml", tracking_uri)
    origin = f"the configuration of run {run_id}"
    loaded = only_select(from_yaml(text, origin, set_ or (), {}), origin, "CONFIG")
    check(loaded)
    _run(loaded, run_id, 0 if quiet else 1 + verbose)


@app.command()
def features(
    run_id: RunId,
    tracking_uri: Uri = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON.")] = False,
) -> None:
    """Print the features that a run chose, one a line."""
    text = _artifact(run_id, "features.json", tracking_uri)
    typer.echo(text.rstrip() if as_json else "\n".join(json.loads(text)["features"]))


@app.command()
def ui(
    tracking_uri: Uri = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 5000,
) -> None:
    """Open the MLflow UI over the runs."""
    from tasks.tracking import open_tracking

    section = _tracking_section(tracking_uri)
    store = open_tracking(section.uri, section.experiment, section.artifacts)
    typer.echo(f"MLflow UI over {store.label} on http://{host}:{port} (Ctrl-C ends it)")
    sys.stdout.flush()
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store.uri]
    # Become the server: whoever ends this process ends it, and no child is left behind.
    os.execv(sys.executable, [*command, "--host", host, "--port", str(port)])


@config_app.command("show")
def config_show(config: Config, set_: Set = None) -> None:
    """Print CONFIG with every key, defaults included."""
    from conf.load import as_yaml, load

    typer.echo(as_yaml(load(config, set_ or ())).rstrip())


@config_app.command("check")
def config_check(config: Config, set_: Set = None) -> None:
    """Check CONFIG without reading any data."""
    from conf.load import check, load

    check(load(config, set_ or ()))
    typer.echo(f"{config} is fine")


@config_app.command("schema")
def config_schema(
    config: Annotated[str, typer.Argument(help="The configuration an editor should help with.")] = (
        "default"
    ),
) -> None:
    """Print the JSON schema that CONFIG has to follow, for editors."""
    from conf.load import json_schema, load

    typer.echo(json.dumps(json_schema(type(load(config))), indent=2))


def main() -> None:
    """Run the command line; errors made on purpose end in one sentence, not in a traceback.

    Exit status: 0 success, 1 a search that failed, 2 bad input, 130 Ctrl-C.
    """
    _quieten()
    try:
        app()
    except (InputError, StoreError) as error:
        _complain(error)
        sys.exit(2)
    except SwarmError as error:
        _complain(error)
        for note in getattr(error, "__notes__", ()):
            typer.echo(note, err=True)
        sys.exit(1)


def _complain(error: Exception) -> None:
    typer.echo(f"swarm: {error}", err=True)


def _quieten() -> None:
    """Keep the logs of the machinery out of the terminal; the environment can ask for them."""
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")


def _run(config: Any, run_id: str | None, verbosity: int) -> None:
    from flows.select import select as flow
    from flows.summary import print_summary

    _start_prefect()
    try:
        outcome = flow(config, run_id, verbosity)
    except KeyboardInterrupt:
        # Here, as typer would turn it into a silent exit.
        typer.echo("interrupted; what was evaluated is in the archive", err=True)
        raise typer.Exit(130) from None
    print_summary(outcome, config)


def _start_prefect() -> None:
    """Reach the Prefect server, or start one of our own that a Ctrl-C does not end."""
    from prefect.client.orchestration import get_client

    from swarm.interrupts import deaf_children

    try:
        with deaf_children(), get_client(sync_client=True) as client:
            problem = client.api_healthcheck()
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise StoreError(
            f"Prefect's own server did not start ({reason}); try again with "
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=300, or set PREFECT_API_URL to a "
            "server that runs"
        ) from error
    if problem is not None:
        raise StoreError(
            f"the Prefect server at {client.api_url} does not answer ({problem}); "
            "start it, or unset PREFECT_API_URL to run without one"
        )


def _tracking_section(uri: str | None) -> Any:
    from conf.load import load_select

    return load_select(
        "default", [] if uri is None else [f"tracking.uri={json.dumps(uri)}"]
    ).tracking


def _artifact(run_id: str, path: str, uri: str | None) -> str:
    from tasks.tracking import open_tracking

    section = _tracking_section(uri)
    store = open_tracking(section.uri, section.experiment, section.artifacts)
    store.run(run_id)  # says in a sentence that there is no such run
    return store.download(run_id, path).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
