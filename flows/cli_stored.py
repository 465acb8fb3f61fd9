"""The commands about what is stored: runs, features, report, champion, rollback."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_options import AsJson, RunId, Uri, artifact_of, echo_json, has_runs, tracking_of
from flows.prefect_server import prefect_is_there
from flows.terminal import echo
from swarm.errors import InputError

KINDS = ("select", "refresh", "compare", "stability", "nested", "search")
STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")

Name = Annotated[str, typer.Argument(help="Name of the champion in the model registry.")]


def runs(
    kind: Annotated[
        str | None, typer.Option("--kind", help=f"Only runs of this kind: {', '.join(KINDS)}.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help=f"Only runs of this status: {', '.join(STATUSES).lower()}."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Only runs on this data set.")
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            "--experiment",
            help="Experiment of the runs; default: that of the configuration `default`.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many runs.")] = 20,
    tracking_uri: Uri = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all parameters, metrics and tags as JSON.")
    ] = False,
) -> None:
    """List runs, the latest first. The searches of a comparison are listed by --kind search.

    Example: swarm runs --kind select --status finished
    """
    conditions = _conditions(kind, status, dataset)
    # A store that is named should exist; a new folder has no runs yet.
    found, exists = [], tracking_uri is not None or has_runs(tracking_uri)
    if exists:
        tracking = tracking_of(tracking_uri)
        if experiment is not None:
            tracking = tracking.of_experiment(experiment)
        found = list(islice(_listed(tracking, conditions, kind), limit))
    if as_json:
        echo_json([_record(run) for run in found])
    elif not found:
        typer.echo("no run matches" if exists and conditions else "there are no runs yet")
    else:
        _print(found)


def _conditions(kind: str | None, status: str | None, dataset: str | None) -> list[str]:
    """Return the conditions of MLflow's search, or refuse a value that no run has."""
    conditions = []
    if kind is not None:
        if kind not in KINDS:
            raise InputError(f"unknown kind {kind!r} (there are {', '.join(KINDS)})")
        conditions.append(f"tags.kind = '{kind}'")
    if status is not None:
        if status.upper() not in STATUSES:
            known = ", ".join(STATUSES).lower()
            raise InputError(f"unknown status {status!r} (there are {known})")
        conditions.append(f"attributes.status = '{status.upper()}'")
    if dataset is not None:
        if "'" in dataset:
            raise InputError(f"the name of the data set {dataset!r} must not contain a quote")
        conditions.append(f"tags.dataset = '{dataset}'")
    return conditions


def _listed(tracking: Any, conditions: list[str], kind: str | None) -> Any:
    for run in tracking.runs(" and ".join(conditions)):
        if kind is not None or run.data.tags.get("kind") in KINDS[:-1]:
            yield run


def _record(run: Any) -> dict[str, Any]:
    return {
        "run_id": run.info.run_id,
        "name": run.info.run_name,
        "status": run.info.status,
        "start": _moment(run.info.start_time).isoformat(timespec="seconds"),
        "seconds": _seconds(run),
        "params": dict(run.data.params),
        "metrics": dict(run.data.metrics),
        "tags": {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")},
    }


def _print(found: list[Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("run", "started", "name and result", box=SIMPLE, pad_edge=False)
    table.columns[2].overflow = "fold"
    # Whatever the width, an id can be copied.
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for run in found:
        tags, status = run.data.tags, run.info.status.lower()
        told = tags.get("headline", status) if status == "finished" else status
        told += _cost(run.data.metrics)
        table.add_row(
            run.info.run_id,
            _moment(run.info.start_time).astimezone().strftime("%d %b %H:%M"),
            f"{escape(run.info.run_name or '')}\n[dim]{escape(told)}[/dim]",
        )
    Console(highlight=False).print(table)


def _cost(metrics: dict[str, float]) -> str:
    """State the cost on fresh folds: the lowest one of the search may be another subset's."""
    for name, said in (("confirm/cost", "cost on fresh folds"), ("cost/best", "cost")):
        if name in metrics:
            return f", {said} {metrics[name]:.4f}"
    return ""


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
    stored: Annotated[
        bool,
        typer.Option(
            "--stored", help="Use the page stored with the run instead of rendering it again."
        ),
    ] = False,
    tracking_uri: Uri = None,
) -> None:
    """Write the report of a run or a comparison as one HTML file.

    Example: swarm report RUN_ID --out report.html --open
    """
    file = (out or Path(f"report-{run_id}.html")).expanduser().absolute()
    if file.is_dir():
        raise InputError(f"{file} is a folder; pass a file with --out")
    if not file.parent.is_dir():
        raise InputError(f"folder {file.parent} does not exist; create it, or pass another --out")
    from tasks.files import write_atomically
    from tasks.stored_report import page_of

    page = page_of(tracking_of(tracking_uri), run_id, stored=stored)
    # Permissions of a new file.
    mask = os.umask(0)
    os.umask(mask)
    try:
        write_atomically(file, page.html, 0o666 & ~mask)
    except OSError as error:
        raise InputError(
            f"cannot write {file} ({error.strerror or error}); pass another --out"
        ) from None
    typer.echo(f"{file} ({page.how})")
    if page.why:
        typer.echo(f"not rendered again: {page.why}", err=True)
    if open_:
        import webbrowser

        if not webbrowser.open(file.as_uri()):
            typer.echo("no browser found to open it", err=True)


def champion(name: Name, tracking_uri: Uri = None, as_json: AsJson = False) -> None:
    """Show the current version of a champion: since when, why, and its features.

    Example: swarm champion churn --json
    """
    from tasks.refresh.champion import Champions

    champions = Champions(tracking_of(tracking_uri))
    found = champions.required(name)
    answer = champions.answer(found)
    if as_json:
        rest = asdict(found)
        told = {"name": rest.pop("name"), "version": rest.pop("version"), "model": found.uri}
        echo_json({**told, "run": rest.pop("run_id"), **rest, "features": answer["features"]})
        return
    over = f", in place of version {found.over}" if found.over else ""
    back = f", in place of version {found.instead_of}" if found.instead_of else ""
    names = ", ".join(answer["features"])
    echo(
        f"{found.name} version {found.version} since {found.since or 'unknown'}{over}",
        *([f"restored  {found.restored}{back}"] if found.restored else []),
        f"why       {found.why or 'the alias was set by hand'}",
        f"run       {found.run_id}",
        f"published {found.published or 'nowhere'}",
        f"features  {len(answer['features'])} of {answer['n_available']}: {names}",
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
    from tasks.refresh.champion import Champions, publish_features
    from tasks.refresh.decision import emit_change

    champions = Champions(tracking_of(tracking_uri))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    before, now = champions.roll_back(name, to=to, when=when)
    if before == now:
        typer.echo(f"{name}: version {now.version} is already the champion")
    else:
        typer.echo(f"{name}: version {before.version} -> version {now.version}")
    publish_features(champions, now, now.published)
    if now.published:
        typer.echo(f"features published to {now.published}")
    if now.restored and prefect_is_there():
        why = f"rolled back from version {now.instead_of}"
        emit_change(name, now.version, now.run_id, "rolled_back", why)
