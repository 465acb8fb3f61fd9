"""The command `columns`: why each column of a run is in or out."""

import json
from typing import Annotated

import typer

from flows.cli.options import AsJson, RunId, Uri, artifact_of, echo_json, searched_run
from flows.display.terminal import echo
from swarm.errors import InputError, suggestion


def columns(
    run_id: RunId,
    name: Annotated[
        str | None, typer.Argument(help="Only this column, or the columns of this group.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of columns.")
    ] = 50,
    tracking_uri: Uri = None,
    as_json: AsJson = False,
) -> None:
    """Print why each column is in or out.

    Whether it was chosen, in how many measured subsets it was, the best score of a subset with it
    and without it, and on which folds; the nearest column on the other side of the choice, and the
    score if the two change places, where that was measured. Nothing is trained.

    Example: swarm columns RUN_ID 'mean radius'
    """
    from flows.display.study_table import print_table
    from swarm.report.columns import columns_in_rows, describe_column

    store, run_id = searched_run(run_id, tracking_uri)
    content = json.loads(artifact_of(store, run_id, "columns.json"))
    table = content["columns"]
    if name is not None:
        names = [row["column"] for row in table]
        table = [row for row in table if name in (row["column"], row["group"])]
        if not table:
            raise InputError(f"the run {run_id} has no column {name!r}{suggestion(name, names)}")
    if as_json:
        echo_json({**content, "columns": table})
    elif name is not None:
        for row in table:
            title, *lines = describe_column(row, content["metric"])
            echo(title, *(f"  {line}" for line in lines), indent=4)
    else:
        print_table(columns_in_rows(table[:limit]))
        if len(table) > limit:
            echo(f"{len(table) - limit:,} more columns: --limit {len(table)}, or name one")
