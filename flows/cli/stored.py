"""The commands about what is stored: runs, features, report, champion, rollback, prune."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from flows.cli.options import (
    AsJson,
    RunId,
    Uri,
    artifact_of,
    echo_json,
    searched_run,
    tracking_of,
)
from flows.display.terminal import echo
from flows.run.prefect_server import use_running_prefect
from swarm.errors import InputError
from swarm.storage.features_file import kept_key
from swarm.wording import counted
from tasks.processes import status_of

if TYPE_CHECKING:
    from tasks.tracking import Tracking

_PAGES = ("report.html", "comparison.html")

# `swarm.storage.exports` has these names too, but imports pandas.
Format = Literal["txt", "json", "yaml", "sql", "pandera", "feast"]
Kind = Literal["select", "refresh", "compare", "stability", "nested", "search"]
Status = Literal["running", "finished", "failed", "killed"]
Experiment = Annotated[
    str | None,
    typer.Option(help="Experiment of the runs; default: that of the configuration `default`."),
]
Name = Annotated[str, typer.Argument(help="Name of the champion in the model registry.")]


def runs(
    kind: Annotated[Kind | None, typer.Option(help="Only runs of this kind.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only runs of this status.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only runs on this data set.")] = None,
    experiment: Experiment = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs.")
    ] = 20,
    tracking_uri: Uri = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all parameters, metrics and tags as JSON.")
    ] = False,
) -> None:
    """List runs, the latest first.

    The searches of a comparison are listed by --kind search.

    Example: swarm runs --kind select --status finished
    """
    if dataset is not None and "'" in dataset:
        raise InputError(f"the name of the data set {dataset!r} must not contain a quote")
    tags = {"kind": kind, "dataset": dataset}
    conditions = [f"tags.{key} = '{value}'" for key, value in tags.items() if value is not None]
    found = _matching_runs(_tracking(experiment, tracking_uri), conditions, kind)
    with_status = (run for run in found if status is None or status_of(run) == status.upper())
    matches = list(islice(with_status, limit))
    if as_json:
        echo_json([_record(run) for run in matches])
    elif not matches:
        typer.echo("no run matches")
    else:
        _print(matches)


def _tracking(experiment: str | None, uri: str | None) -> Tracking:
    from conf.load import default_tracking

    return tracking_of(uri).of_experiment(experiment or default_tracking(uri).experiment)


def _matching_runs(tracking: Tracking, conditions: list[str], kind: str | None) -> Iterator[Any]:
    """Yield runs, without the searches of a comparison unless they are asked for."""
    for run in tracking.runs(" and ".join(conditions)):
        if kind is not None or run.data.tags.get("kind") in get_args(Kind)[:-1]:
            yield run


def _record(run: Any) -> dict[str, Any]:
    return {
        "run_id": run.info.run_id,
        "name": run.info.run_name,
        "status": status_of(run),
        "start": _moment(run.info.start_time).isoformat(timespec="seconds"),
        "seconds": _seconds(run),
        "params": dict(run.data.params),
        "metrics": dict(run.data.metrics),
        "tags": {
            key: value for key, value in run.data.tags.items() if not key.startswith("mlflow.")
        },
    }


def _print(matches: list[Any]) -> None:
    from tasks.tracking.client import SHORT_ID
    from tasks.tracking.overview import score_of

    for run in matches:
        status = status_of(run).lower()
        headline = run.data.tags.get("headline", status) if status == "finished" else status
        started = _moment(run.info.start_time).astimezone().strftime("%d %b %H:%M")
        line = f"{run.info.run_id[:SHORT_ID]}  {started}  {run.info.run_name or ''}"
        score = score_of(run)
        if score is not None:
            headline += f"; {score.metric} of the subset {score.value:.4g} {score.where}"
        echo(line, f"  {headline}", indent=2)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _seconds(run: Any) -> float | None:
    end = run.info.end_time
    return None if end is None else (end - run.info.start_time) / 1000


def features(
    run_id: RunId,
    of_champion: Annotated[
        bool, typer.Option("--champion", help="RUN_ID is the name of a champion.")
    ] = False,
    model_inputs: Annotated[
        bool,
        typer.Option(
            "--model-inputs",
            help="Print the columns that the served model needs instead: of an ensemble those of"
            " all subsets.",
        ),
    ] = False,
    derived: Annotated[
        bool,
        typer.Option(
            "--derived",
            help="Print what is made of the columns, such as the month of a date, in their place.",
        ),
    ] = False,
    form: Annotated[
        Format,
        typer.Option(
            "--as",
            help="Format: txt, json and yaml are lists of names; sql is a SELECT from the table or"
            " query of the run; pandera is a schema in Python, with the types, ranges and"
            " categories of the training rows; feast is feast_features.json, which is also logged"
            " to the run with its tag.",
        ),
    ] = "txt",
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Table for sql and pandera, or feature view for feast; default: the data set.",
        ),
    ] = None,
    tracking_uri: Uri = None,
    as_json: AsJson = False,
) -> None:
    """Print the columns of the table to keep, one per line.

    All of them if fewer are worse. The model of the run may need more columns than those to keep,
    which --model-inputs prints.

    Example: swarm features RUN_ID --model-inputs --as sql
    """
    if of_champion:
        from tasks.refresh.champion import Champions

        run_id = Champions(tracking_of(tracking_uri)).require(run_id).run_id
    store, run_id = searched_run(run_id, tracking_uri)
    text = artifact_of(store, run_id, "features.json")
    if as_json:
        typer.echo(text.rstrip())
        return
    content = json.loads(text)
    key = "model_inputs" if model_inputs else "features"
    if content.get(key) is None:
        raise InputError(f"the run {run_id} has no model; omit --model-inputs")
    if store.find_artifact(run_id, "evaluation.json"):
        head = json.loads(artifact_of(store, run_id, "evaluation.json"))["headline"]
        if head["verdict"] == "worse" or not head["beats_guessing"]:
            echo(f"warning {head['title']}", err=True)
        if not model_inputs:
            key = kept_key(head)
    names = content[key] if derived else content.get(f"raw_{key}", content[key])
    if form in ("sql", "pandera") and derived:
        raise InputError(f"--as {form} is about columns of the table; omit --derived")
    typer.echo(_exported(store, run_id, names, form, table), nl=False)


def _exported(
    store: Tracking, run_id: str, names: list[str], form: Format, table: str | None
) -> str:
    """Return columns of a run in a format; references of Feast are logged to the run too."""
    from swarm.storage.exports import export_columns
    from tasks.tracking.writes import log_feast_features

    table = table or store.run(run_id).data.tags["dataset"]
    options: dict[str, Any] = {}
    if form == "pandera":
        options = json.loads(artifact_of(store, run_id, "schema.json"))
    elif form == "sql":
        from conf.yaml_text import parse

        text = artifact_of(store, run_id, "config.yaml")
        options = {"query": parse(text, f"the configuration of run {run_id}")["data"]["query"]}
    content = export_columns(names, form, table=table, **options)
    if form == "feast":
        log_feast_features(store.client, run_id, content)
    return content


def report(
    run_id: RunId,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write; default: report-RUN_ID.html in this folder.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    tracking_uri: Uri = None,
) -> None:
    """Write the report of a run or a comparison as one HTML file.

    Example: swarm report RUN_ID --out report.html --open
    """
    file = (out or Path(f"report-{run_id}.html")).expanduser().absolute()
    page = _page_of(tracking_of(tracking_uri), run_id)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {file} ({error.strerror}); pass another --out") from None
    typer.echo(str(file))
    if open_:
        import webbrowser

        if not webbrowser.open(file.as_uri()):
            typer.echo("no browser found to open it", err=True)


def _page_of(tracking: Tracking, run_id: str) -> str:
    """Return the page of a run or a comparison; InputError if there is none."""
    run = tracking.run(run_id)
    for page in _PAGES:
        if tracking.find_artifact(run.info.run_id, page):
            return artifact_of(tracking, run.info.run_id, page)
    resume = f"`swarm resume {run.info.run_id}{tracking.option}`"
    parent = run.data.tags.get("mlflow.parentRunId")
    kind = run.data.tags.get("kind")
    status = status_of(run)
    # The first reason that applies is stated.
    ended = f"it ended as {status}"
    reasons = (
        (parent and kind != "compare", f": it is a child of the run {parent}; use that run id"),
        (status == "RUNNING", f" yet: it is still running or was killed; wait, or {resume}"),
        (
            kind in ("nested", "stability"),
            f"; the figures and plots of `swarm {kind}` are in MLflow",
        ),
        (kind == "compare", f": {ended}; repeat the `swarm compare` command to resume it"),
        (True, f": {ended}; {resume} completes it"),
    )
    reason = next(text for applies, text in reasons if applies)
    raise InputError(f"the run {run.info.run_id} has no report{reason}")


def champion(name: Name, tracking_uri: Uri = None, as_json: AsJson = False) -> None:
    """Show a champion: since when, why, its features and inputs.

    Example: swarm champion churn --json
    """
    from tasks.refresh.champion import Champions

    champions = Champions(tracking_of(tracking_uri))
    current = champions.require(name)
    answer = champions.features_json(current)
    if as_json:
        fields = asdict(current)
        record = {
            "name": fields.pop("name"),
            "version": fields.pop("version"),
            "model": current.uri,
            "run": fields.pop("run_id"),
            **fields,
            "features": answer["features"],
            "model_inputs": answer["model_inputs"],
        }
        echo_json(record)
        return
    over = f", in place of version {current.over}" if current.over else ""
    instead = f", in place of version {current.instead_of}" if current.instead_of else ""
    names = ", ".join(answer["features"])
    inputs = ", ".join(answer["model_inputs"])
    echo(
        f"{current.name} version {current.version} since {current.since or 'unknown'}{over}",
        *([f"restored  {current.restored}{instead}"] if current.restored else []),
        f"why       {current.why or 'the alias was set by hand'}",
        f"run       {current.run_id}",
        f"answer    {champions.tracking.run(current.run_id).data.tags.get('headline', 'unknown')}",
        f"published {current.published or 'nowhere'}",
        f"features  {answer['n_features']} of {answer['n_available']} columns to keep: {names}",
        f"inputs    {answer['n_model_inputs']} columns that the model needs: {inputs}",
        indent=10,
    )


def rollback(
    name: Name,
    to: Annotated[
        str | None, typer.Option("--to", help="Version to restore; default: the previous champion.")
    ] = None,
    tracking_uri: Uri = None,
) -> None:
    """Restore the previous champion and publish its features.

    Example: swarm rollback churn --to 3
    """
    from tasks.refresh.champion import Champions
    from tasks.refresh.decision import complete_change

    champions = Champions(tracking_of(tracking_uri))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    old, new = champions.roll_back(name, to=to, when=when)
    if old == new:
        typer.echo(f"{name}: version {new.version} is already the champion")
    else:
        old_version = f"version {old.version}" if old else "no champion"
        typer.echo(f"{name}: {old_version} -> version {new.version}")
    complete_change(champions, new, events=use_running_prefect())
    if new.published:
        typer.echo(f"features published to {new.published}")


def prune(
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE|DATE",
            help="Remove runs that started earlier: 30d, 12h, 8w or 2026-01-31.",
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Remove runs before the last N.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and change nothing.")
    ] = False,
    experiment: Experiment = None,
    tracking_uri: Uri = None,
) -> None:
    """Remove old runs and their artifacts, models and evaluations.

    Their flow runs go too. With both options, those runs go to which both apply. A running run
    stays, and one that has a model with an alias, such as the champion or the previous one.

    Example: swarm prune --older-than 30d --keep 10 --dry-run
    """
    from flows.run.prefect_server import has_started_prefect, start_prefect
    from flows.run.pruning import moment_of
    from flows.run.pruning import prune as remove
    from tasks.tracking.client import SHORT_ID

    if older_than is None and keep is None:
        raise InputError(
            "nothing says which runs are old; pass --older-than 30d, --keep 10, or both"
        )
    before = None if older_than is None else moment_of(older_than, datetime.now().astimezone())
    tracking = _tracking(experiment, tracking_uri)
    has_prefect = use_running_prefect()
    if not dry_run and (has_prefect or has_started_prefect()):
        # A server that does not answer is an error before anything is removed.
        start_prefect()
        has_prefect = True
    kinds = get_args(Kind)[:-1]
    pruned = remove(
        tracking, before=before, keep=keep, kinds=kinds, has_prefect=has_prefect, dry_run=dry_run
    )
    if pruned.before is None:
        typer.echo(f"nothing to remove: there are at most {keep} runs")
        return
    verb = "would remove" if dry_run else "removed"
    needed = f"; {counted(pruned.n_needed, 'earlier one')} needed" if pruned.n_needed else ""
    n_runs = counted(len(pruned.runs), "run")
    typer.echo(f"{verb} {n_runs} from before {pruned.before:%Y-%m-%d %H:%M}{needed}")
    for stored, size in pruned.runs:
        info = stored.run.info
        started = f"{_moment(info.start_time).astimezone():%d %b %H:%M}"
        line = f"{info.run_id[:SHORT_ID]}  {started}  {info.run_name}, {_megabytes(size)}"
        echo(line, indent=2)
    n_models = sum(len(stored.models) for stored, _ in pruned.runs)
    n_versions = sum(len(stored.versions) for stored, _ in pruned.runs)
    typer.echo(f"{verb} {counted(n_models, 'model')}, {counted(n_versions, 'registered version')}")
    archive_size = _megabytes(pruned.evaluation_bytes)
    typer.echo(f"{verb} {counted(pruned.n_evaluations, 'evaluation')}, {archive_size}")
    if pruned.n_flow_runs is not None:
        typer.echo(f"{verb} {counted(pruned.n_flow_runs, 'flow run')} of Prefect")
    elif has_started_prefect():
        typer.echo("the flow runs of Prefect are counted only while `swarm up` runs")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
