"""The command that compares two runs."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.options import AsJson, Uri, echo_json, searched_run, tracking_of
from flows.display.terminal import echo
from swarm.errors import InputError


def diff(
    before: Annotated[str, typer.Argument(help="Id of a run, or its first characters.")],
    after: Annotated[str | None, typer.Argument(help="Id of the run to compare with it.")] = None,
    of_champion: Annotated[
        bool,
        typer.Option(
            "--champion",
            help="BEFORE is the name of a champion, and AFTER by default its challenger: the last"
            " refresh, or of a champion that this made, its predecessor is BEFORE.",
        ),
    ] = False,
    tracking_uri: Uri = None,
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, such as for a pull request.")
    ] = False,
) -> None:
    """Print what changed from one run, or a champion, to another.

    It compares columns, scores, data, model and configuration; scores in pairs where
    both runs have tested the same rows.

    Example: swarm diff --champion churn --markdown
    """
    if after is None and not of_champion:
        raise InputError("one run has no difference; name two, or a champion with --champion")
    if as_json and as_markdown:
        raise InputError("there are --json and --markdown, but one format is printed; choose one")
    from flows.run.difference import compare_runs, contenders
    from tasks.refresh.champion import Champions

    store = tracking_of(tracking_uri)
    if of_champion:
        champions = Champions(store)
        if after is None:
            before, after = contenders(champions, before)
        else:
            before = champions.require(before).run_id
    before, after = (searched_run(run, tracking_uri)[1] for run in (before, str(after)))
    found = compare_runs(store, before, after)
    if as_json:
        echo_json(found.as_dict())
    elif as_markdown:
        typer.echo(found.markdown(), nl=False)
    else:
        echo(*found.lines(), indent=8)
