"""The command ``swarm runs``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

import typer

from flows.cli_options import Uri, has_runs, tracking_of
from swarm.errors import InputError

__all__ = ["runs"]

KINDS = ("select", "refresh", "compare", "stability", "nested", "search")
STATUSES = ("RUNNING", "FINISHED", "FAILED", "KILLED")


def runs(
    kind: Annotated[
        str | None,
        typer.Option("--kind", help=f"Only runs of this kind: {', '.join(KINDS)}."),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help=f"Only runs of this status: {', '.join(STATUSES).lower()}."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Only runs on this data set.")
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
        found = list(islice(_listed(tracking_of(tracking_uri), conditions, kind), limit))
    if as_json:
        typer.echo(json.dumps([_record(run) for run in found], indent=2, ensure_ascii=False))
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
    from tasks.tracking.names import metric_key

    for name, said in (("confirmed_cost", "cost on fresh folds"), ("best_cost", "cost")):
        if metric_key(name) in metrics:
            return f", {said} {metrics[metric_key(name)]:.4f}"
    return ""


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _seconds(run: Any) -> float | None:
    end = run.info.end_time
    return None if end is None else (end - run.info.start_time) / 1000
