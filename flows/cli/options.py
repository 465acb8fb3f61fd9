"""What commands share: arguments and options, the start of a flow, and access to a store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, overload

import typer

from flows.display.terminal import echo, enable_logs, hide_warnings, store_option
from flows.run.prefect_server import has_started_prefect, starting_prefect
from swarm.errors import InputError
from swarm.findings.registry import check_mute
from tasks.tracking.store import load_mlflow

if TYPE_CHECKING:
    from conf.load import AnyConfig
    from conf.schema import CompareConfig, RefreshConfig, SelectConfig
    from conf.stores import TrackingSection
    from tasks.tracking import Tracking

C = TypeVar("C", "SelectConfig", "CompareConfig", "RefreshConfig")

AsJson = Annotated[bool, typer.Option("--json", help="Print the full result as JSON.")]
Config = Annotated[
    str, typer.Argument(help="A YAML file, or the name of a shipped one such as 'default'.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key: --set budget.epochs=5; KEY+=VALUE appends to a list.",
    ),
]
Mute = Annotated[
    list[str] | None,
    typer.Option(
        "--mute", metavar="CODE", help="Do not report findings with this code: --mute SWM112."
    ),
]
RunId = Annotated[
    str, typer.Argument(help="Id of an MLflow run, or its first characters, at least four.")
]
Uri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri", help="MLflow tracking URI; default: that of the configuration `default`."
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        callback=enable_logs,
        help="Print a line for every epoch or search; -vv adds the logs of Prefect and MLflow."
        " Default: a live bar on a terminal, a line per minute elsewhere.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=hide_warnings,
        help="Print only the result, no progress or warnings.",
    ),
]


@overload
def load_config(
    command: Literal["select"], path: str, settings: Sequence[str] | None
) -> SelectConfig: ...
@overload
def load_config(
    command: Literal["compare"], path: str, settings: Sequence[str] | None
) -> CompareConfig: ...
@overload
def load_config(
    command: Literal["refresh"], path: str, settings: Sequence[str] | None
) -> RefreshConfig: ...
def load_config(command: str, path: str, settings: Sequence[str] | None) -> AnyConfig:
    """Load a configuration for a command."""
    from conf import load, schema

    return load.load_as(getattr(schema, f"{command.title()}Config"), path, settings or ())


def with_mute(config: C, codes: Sequence[str] | None) -> C:
    """Return a configuration with the codes of the command line added to its own.

    A code that does not exist, or is that of an error, is a ConfigError.
    """
    check_mute(codes or ())
    muted = dict.fromkeys((*config.mute, *(codes or ())))
    return config.model_copy(update={"mute": list(muted)})


@contextmanager
def start_command(
    load: Callable[[], C], verbosity: int, mute: Sequence[str] | None = None
) -> Iterator[C]:
    """Load and check a configuration; the block imports what is slow while Prefect starts."""
    config = with_mute(load(), mute)
    # The first start creates a database, which bad input is not to leave behind.
    is_first_start = not has_started_prefect()
    if is_first_start:
        check_config(config, verbosity)
    with starting_prefect(verbosity):
        if not is_first_start:
            check_config(config, verbosity)
        # Every flow needs MLflow, which is slow to import.
        load_mlflow()
        yield config


def check_config(config: AnyConfig, verbosity: int) -> None:
    """Check a configuration with all that it names."""
    from conf.check import check

    check(config)
    if verbosity:
        warn_ignored_uri(config.tracking)


@contextmanager
def interruptible(remedy: str) -> Iterator[None]:
    """Exit with a message after Ctrl-C; typer would exit without one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())
        typer.echo("; ".join(["interrupted", remedy, *notes]), err=True)
        raise typer.Exit(130) from None


def echo_json(data: object) -> None:
    """Print data as JSON."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def tracking_of(uri: str | None) -> Tracking:
    """Open a tracking store to read it; default: that of the configuration `default`.

    Nothing is created: an SQLite file that does not exist is an InputError.
    """
    from conf.load import default_tracking
    from tasks.secrets import expand
    from tasks.tracking import open_tracking
    from tasks.tracking.store import is_sqlite, resolve, sqlite_file

    # `flows.run.tracking` would import pandas, scikit-learn and Prefect.
    section = default_tracking(uri)
    warn_ignored_uri(section)
    address = resolve(expand(section.uri, "address of the tracking store"))
    if is_sqlite(address) and not sqlite_file(address).exists():
        raise InputError(
            f"there are no runs in {section.uri!r}, which does not exist; change to the folder of "
            "your runs, or pass --tracking-uri"
        )
    return replace(open_tracking(section.uri, None), option=store_option(section.uri))


def warn_ignored_uri(section: TrackingSection) -> None:
    """Warn that MLflow's own variable has no effect, if the tracking store is the default."""
    is_default = section.uri == type(section).model_fields["uri"].default
    if os.environ.get("MLFLOW_TRACKING_URI", section.uri) != section.uri and is_default:
        echo(
            "warning: MLFLOW_TRACKING_URI is ignored; set tracking.uri, or SWARM_TRACKING__URI in "
            "the environment",
            err=True,
        )


def searched_run(run_id: str, uri: str | None) -> tuple[Tracking, str]:
    """Return the store of a run of one search and its full id, of which the start is enough.

    A run of several searches is an InputError.
    """
    store = tracking_of(uri)
    run = store.run(run_id)
    kind = run.data.tags.get("kind")
    if kind in ("compare", "nested", "stability"):
        raise InputError(
            f"the run {run.info.run_id} is of `swarm {kind}`, which searches several times; use a"
            " run of `swarm select`, or repeat that command, which reuses all evaluations"
        )
    return store, run.info.run_id


def artifact_of(store: Tracking, run_id: str, path: str) -> str:
    """Read a text artifact of a run."""
    return store.download(run_id, path).read_text(encoding="utf-8")
