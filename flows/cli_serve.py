"""``swarm serve``: run configurations on their schedules, on a machine without a work pool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli_options import Set
from flows.prefect_server import launch_prefect, prefect_is_there
from swarm.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from conf.load import AnyConfig

__all__ = ["serve"]

Configs = Annotated[
    list[str], typer.Argument(help="YAML files, or names of shipped ones, each with a schedule.")
]
Limit = Annotated[
    int, typer.Option(min=1, help="Maximum number of concurrent runs on this machine.")
]


def serve(configs: Configs, set_: Set = None, limit: Limit = 1) -> None:
    """Run configurations on their schedules (schedule.cron), until Ctrl-C or SIGTERM.

    Example: swarm serve nightly.yaml weekly.yaml
    """
    _tell_the_server()
    from conf.check import check
    from conf.load import load

    loaded = [(each, load(each, set_ or ())) for each in configs]
    for origin, config in loaded:
        if config.schedule is None:
            raise ConfigError(
                f"{origin} has no schedule.cron; set it, such as to '0 4 * * 1' for Mondays at 4"
            )
        check(config)
    _refuse_duplicates(loaded)
    _needs_a_server()
    from flows.serving import serve_until_stopped

    deployments = [_deployment(config) for _, config in loaded]
    for made in deployments:
        schedule = made.schedules[0].schedule
        typer.echo(f"{made.flow_name}/{made.name}  {schedule.cron}  ({schedule.timezone})")
    typer.echo(
        "waiting for the schedules (Ctrl-C stops and pauses them until the next `swarm serve`)"
    )
    serve_until_stopped(deployments, limit)


def _tell_the_server() -> None:
    """Let runs log to the server."""
    if os.environ.get("PREFECT_LOGGING_LEVEL") == "CRITICAL":
        os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"


def _refuse_duplicates(loaded: Sequence[tuple[str, AnyConfig]]) -> None:
    """Refuse configurations that share a deployment or a champion."""
    from conf.refresh_schema import RefreshConfig
    from flows.flow_runs import flow_name

    seen: dict[tuple[str, str], str] = {}
    for origin, config in loaded:
        marks = [("name", f"{flow_name(config)}/{config.name}")]
        if isinstance(config, RefreshConfig):
            marks.append(("champion", config.champion_name))
        for mark in marks:
            if mark in seen:
                raise ConfigError(
                    f"{seen[mark]} and {origin} have the same {mark[0]} {mark[1]!r}; rename one, or"
                    " serve only one of them"
                )
            seen[mark] = origin


def _needs_a_server() -> None:
    if not prefect_is_there():
        raise StoreError(
            "schedules need a permanent Prefect server, and PREFECT_API_URL is not set; run"
            " `swarm up`, or set PREFECT_API_URL to the address of a running server"
        )
    launch_prefect().wait()


def _deployment(config: AnyConfig) -> Any:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.types.entrypoint import EntrypointType

    from flows import deployed
    from flows.flow_runs import flow_name, tags_of

    assert config.schedule is not None
    kind = flow_name(config)
    return getattr(deployed, kind).to_deployment(
        name=config.name,
        description=config.description,
        tags=tags_of(config, kind),
        schedules=[CronSchedule(cron=config.schedule.cron, timezone=config.schedule.timezone)],
        parameters={"config": config.model_dump(mode="json", by_alias=True)},
        # A run that takes longer than its interval delays the next one.
        concurrency_limit=ConcurrencyLimitConfig(
            limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
        ),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
