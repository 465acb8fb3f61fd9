"""The command that compares two runs."""

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
    _, before_id = searched_run(before, tracking_uri)
    _, after_id = searched_run(str(after), tracking_uri)
    difference = compare_runs(store, before_id, after_id)
    if as_json:
        echo_json(difference.as_dict())
    elif as_markdown:
        typer.echo(difference.markdown(), nl=False)
    else:
        echo(*difference.lines(), indent=8)
