"""The commands that run a flow: select, resume, compare, refresh, nested, stability."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.options import (
    AsJson,
    Config,
    Mute,
    Quiet,
    RunId,
    Set,
    Uri,
    Verbose,
    artifact_of,
    check_config,
    echo_json,
    interruptible,
    load_config,
    searched_run,
    start_command,
    with_mute,
)
from flows.display.terminal import show_stage
from flows.run.prefect_server import starting_prefect, use_running_prefect
from swarm.errors import ConfigError, InputError
from tasks.tracking.store import load_mlflow

if TYPE_CHECKING:
    from conf.load import AnyConfig
    from conf.schema import SelectConfig
    from flows.display.study_table import StudyRun


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
    """Search for the best subset, evaluate it, and log the run.

    Example: swarm select default --set budget.epochs=20
    """
    settings = list(set_ or ())
    if warm is not None:
        settings.append(f"warm={json.dumps(warm)}")
    _select(
        lambda: load_config("select", config, settings), mute, None, _level(verbose, quiet), as_json
    )


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
    store, run_id = searched_run(run_id, tracking_uri)

    def load() -> SelectConfig:
        from conf.load import default_tracking, from_yaml
        from conf.schema import RefreshConfig, SelectConfig
        from conf.yaml_text import parse

        tags = store.run(run_id).data.tags
        if tags.get("kind") == "search":
            raise InputError(
                f"the run {run_id} is one search of the run {tags['mlflow.parentRunId']}; repeat "
                "the command of that run, which resumes it"
            )
        text = artifact_of(store, run_id, "config.yaml")
        origin = f"the configuration of run {run_id}"
        # The run is in this store now, wherever it was started.
        settings = [f"tracking.uri={json.dumps(default_tracking(tracking_uri).uri)}"]
        source = tags.get("data", "").removeprefix("file:")
        # A newer file is no part of the run; an address with a secret is not stored.
        if "{date" in (parse(text, origin)["data"].get("path") or "") and "***" not in source:
            settings.append(f"data.path={json.dumps(source)}")
        config = from_yaml(text, origin, [*settings, *(set_ or ())], {})
        if isinstance(config, RefreshConfig):
            raise ConfigError(
                f"run {run_id} is part of a refresh; run `swarm refresh CONFIG` again, which"
                " reuses all evaluations"
            )
        assert isinstance(config, SelectConfig)
        return config

    _select(load, mute, run_id, _level(verbose, quiet), as_json)


def _select(
    load: Callable[[], SelectConfig],
    mute: list[str] | None,
    run_id: str | None,
    verbosity: int,
    as_json: bool,
) -> None:
    with start_command(load, verbosity, mute) as checked:
        from flows.display import summary
        from flows.select import select as flow
    with interruptible("all evaluations so far are in the archive"):
        outcome = flow(checked, run_id, verbosity)
    if as_json:
        echo_json(summary.outcome_as_dict(outcome, checked))
    else:
        summary.print_summary(outcome, checked)


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
    """Compare strategies on data sets.

    Run it again to continue an unfinished comparison.

    Example: swarm compare compare
    """
    verbosity = _level(verbose, quiet)
    failure = None
    with start_command(lambda: load_config("compare", config, set_), verbosity, mute) as checked:
        from flows.compare import FailedSearches
        from flows.compare import compare as flow
    with interruptible("run the same command to continue"):
        try:
            comparison = flow(checked, new, verbosity)
        except FailedSearches as error:
            if error.compared is None:
                raise
            comparison = error.compared
            failure = error
    _show_study(comparison, checked, as_json)
    if failure is not None:
        raise failure


def refresh(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    force: Annotated[
        bool, typer.Option("--force", help="Search even if neither the data nor CONFIG changed.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the decision, winner and loser as JSON.")
    ] = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Search the newest rows, and promote the result if it is better.

    Example: swarm refresh my.yaml --force
    """
    verbosity = _level(verbose, quiet)
    checked = with_mute(load_config("refresh", config, set_), mute)
    check_config(checked, verbosity)
    with interruptible("the champion is unchanged"):
        from flows.display import summary
        from flows.refresh import refresh as flow
        from flows.refresh import unchanged

        run = None
        # A running server shows this as a flow run; a private one would only delay the answer.
        if not (force or use_running_prefect()):
            with show_stage("looking for changes", verbosity):
                run = unchanged(checked)
        if run is None:
            with starting_prefect(verbosity):
                load_mlflow()
            run = flow(checked, force, verbosity)
    if as_json:
        echo_json(run.as_dict())
    else:
        summary.print_refresh(run, checked, quiet=quiet)


def nested(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    folds: Annotated[int, typer.Option(help="Outer folds of a partition of the rows.")] = 5,
    repeats: Annotated[
        int, typer.Option(help="Partitions of the rows, each with its own seed.")
    ] = 1,
    rows: Annotated[
        Literal["all", "train"],
        typer.Option(
            help="Divide all rows of the table, or only its training rows, which leaves the test"
            " rows of the split unused."
        ),
    ] = "all",
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Evaluate the whole procedure by nested cross-validation.

    Needs no test part. After an interruption, run the same command to continue.

    Example: swarm nested default --folds 5
    """
    verbosity = _level(verbose, quiet)
    with start_command(lambda: load_config("select", config, set_), verbosity, mute) as checked:
        from flows.nested import OuterPlan
        from flows.nested import nested as flow

        outer = OuterPlan(folds, repeats, rows)
    with interruptible("run the same command to continue"):
        run = flow(checked, outer, verbosity)
    _show_study(run, checked, as_json)


def stability(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    seeds: Annotated[
        int, typer.Option(help="Searches on all training rows, each with its own seed.")
    ] = 10,
    resamples: Annotated[
        int, typer.Option(help="Searches on samples of the training rows, each with its own seed.")
    ] = 10,
    share: Annotated[
        float,
        typer.Option(help="Share of the rows in a sample; whole groups if data.group is set."),
    ] = 0.5,
    core: Annotated[
        float, typer.Option(help="Features in at least this share of searches are core.")
    ] = 0.8,
    noise: Annotated[
        float, typer.Option(help="Features in at most this share of searches are noise.")
    ] = 0.2,
    as_json: AsJson = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Measure how stable a result is over seeds and samples of rows.

    After an interruption, run the same command to continue.

    Example: swarm stability default --seeds 5 --resamples 20
    """
    verbosity = _level(verbose, quiet)
    with start_command(lambda: load_config("select", config, set_), verbosity, mute) as checked:
        from flows.stability import Repetitions
        from flows.stability import stability as flow

        plan = Repetitions(seeds, resamples, share, core, noise)
    with interruptible("run the same command to continue"):
        run = flow(checked, plan, verbosity)
    _show_study(run, checked, as_json)


def _show_study(run: StudyRun, config: AnyConfig, as_json: bool) -> None:
    """Print the result of a study, as JSON or for people."""
    from flows.display.study_table import print_study

    if as_json:
        echo_json(run.as_dict())
    else:
        print_study(run, config)


def _level(verbose: int, quiet: bool) -> int:
    """Return the verbosity of a flow: 0 for silence, 1 by default."""
    return 0 if quiet else 1 + verbose
