"""Commands about the champion: refresh, rollback, champion."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from flows.cli_flow import checked, interruptible
from flows.cli_options import AsJson, Config, Quiet, Set, Uri, Verbose, tracking_of
from flows.findings import Mute
from flows.prefect_server import launch_prefect, prefect_is_there
from flows.terminal import echo

__all__ = ["champion", "refresh", "rollback"]

Name = Annotated[str, typer.Argument(help="Name of the champion in the model registry.")]


def refresh(
    config: Config,
    set_: Set = None,
    mute: Mute = None,
    force: Annotated[
        bool, typer.Option("--force", help="Search even if neither the data nor CONFIG changed.")
    ] = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Search the newest rows, and promote the result if it beats the champion.

    Example: swarm refresh my.yaml --force
    """
    verbosity = 0 if quiet else 1 + verbose
    with launch_prefect() as server:
        from conf.load import load_refresh

        with checked(server, load_refresh(config, set_ or ()), mute, verbosity) as loaded:
            from flows.refresh import refresh as flow
            from flows.summary import print_refresh
    with interruptible("the champion is unchanged"):
        done = flow(loaded, force, verbosity)
    print_refresh(done, loaded, quiet=quiet)


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
    from tasks.refresh.decision import emit_change, publish_features

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


def champion(name: Name, tracking_uri: Uri = None, as_json: AsJson = False) -> None:
    """Show the current version of a champion: since when, why, and its features.

    Example: swarm champion churn --json
    """
    from tasks.refresh.champion import Champions

    champions = Champions(tracking_of(tracking_uri))
    found = champions.required(name)
    answer = champions.answer(found)
    told: dict[str, Any] = {
        "name": found.name,
        "version": found.version,
        "model": found.uri,
        "run": found.run_id,
        "since": found.since,
        "why": found.why,
        "over": found.over,
        "published": found.published,
        "restored": found.restored,
        "instead_of": found.instead_of,
        "features": answer["features"],
    }
    if as_json:
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
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
