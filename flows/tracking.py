"""The tracking store of a configuration, and what a run in it records of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from conf.load import AnyConfig, as_yaml, flatten, parse
from conf.schema import SelectConfig
from conf.sections import TrackingSection
from flows.progress import say
from swarm.problem.problem import Problem
from tasks.table import Table
from tasks.tracking import Tracking, open_tracking
from tasks.tracking.run_log import RunLog, describe_run
from tasks.tracking.system_metrics import wants_system_metrics

# Logged even at their defaults, as runs are filtered and compared by them.
_ALWAYS = ("seed", "strategy.name", "model.estimator", "folds.n_folds", "budget.epochs")
# Where a run is kept and what it is for, not what it does.
_NEVER = ("description", "tracking", "archive", "retries", "schedule", "mute")
# Messages that MLflow stores in about eight seconds.
_LONG_QUEUE = 200


def tracking_as_configured(section: TrackingSection) -> Tracking:
    """Open the tracking store of a configuration; see :func:`tasks.tracking.open_tracking`."""
    opened = open_tracking(section.uri, section.experiment, section.artifacts)
    return replace(opened, system_metrics=section.system_metrics or wants_system_metrics())


def logged_parameters(config: AnyConfig) -> dict[str, JsonValue]:
    """Return the parameters of a run: what differs from the defaults, and a few keys always.

    A page that compares runs shows every parameter of any of them. All ninety keys would hide the
    few that differ; ``config.yaml`` among the artifacts has them all.
    """
    every = flatten(config)
    chosen = {key: every[key] for key in _ALWAYS if key in every}
    chosen |= flatten(config, without_defaults=True)
    return {
        key: "none" if value is None and key not in _ALWAYS else value
        for key, value in chosen.items()
        if key.split(".")[0] not in _NEVER
    }


def start_repeated(
    config: SelectConfig,
    kind: str,
    settings: Mapping[str, object],
    n_seeds: int,
    problem: Problem,
    table: Table,
    tags: Mapping[str, str],
) -> RunLog:
    """Open the run of a flow that repeats one search, each time with the next seed."""
    # A range rather than a seed, so that this run cannot be resumed as a search.
    seeds = f"{config.seed} to {config.seed + n_seeds - 1}"
    return RunLog.start(
        tracking_as_configured(config.tracking),
        f"{config.name}-{config.strategy.name}-{kind}",
        logged_parameters(config) | {f"{kind}.{key}": value for key, value in settings.items()},
        describe_run(problem, table.source, config.strategy.name, config.seed)
        | {"kind": kind, "seed": seeds, **tags},
        as_yaml(config),
        table=table,
        description=config.description,
    )


def stored_configuration(tracking: Tracking, run_id: str) -> Mapping[str, JsonValue]:
    """Return the configuration of a run by dotted key, as it was written, without new keys.

    Raises
    ------
    InputError
        If the run has none.
    """
    text = tracking.download(run_id, "config.yaml").read_text(encoding="utf-8")
    return flatten(parse(text, f"the configuration of run {run_id}"))


def wait_for_log(log: RunLog, verbosity: int) -> None:
    """Wait until MLflow has stored everything, and say so where that takes more than a moment.

    Raises
    ------
    StoreError
        If it accepted no message for the patience of the log.
    """
    waiting = log.outbox.waiting
    if waiting >= _LONG_QUEUE:
        say(f"waiting until MLflow has stored {waiting:,} messages", verbosity)
    log.settle()
