"""Names, tags, crashes and removal of flow runs, deployed or of the command line."""

import contextlib
import logging
import os
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any

from prefect import Flow, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, State, StateType
from prefect.states import Crashed

from conf.load import AnyConfig, from_yaml
from conf.schema import CompareConfig, RefreshConfig
from conf.sections import DataSection
from conf.yaml_text import render
from flows.run.tracking import tracking_as_configured
from tasks.flow_run import FLOW_RUN_TAG
from tasks.processes import PROCESS, has_ended, own_process
from tasks.secrets import expand
from tasks.sources import newest

# The name of a run lists this number of names; longer lists are counted.
_MAX_NAMES = 3


def flow_name(config: AnyConfig) -> str:
    """Return the name of the flow that runs a configuration."""
    if isinstance(config, CompareConfig):
        return "compare"
    return "refresh" if isinstance(config, RefreshConfig) else "select"


def configuration_of(value: object) -> AnyConfig:
    """Read the parameter `config` of a flow, as JSON or as a configuration."""
    if isinstance(value, AnyConfig):
        return value
    return from_yaml(render(value), "the parameter 'config'", (), {})


def run_name() -> str:
    """Return a name with data, strategy and seed; errors are left to the flow."""
    try:
        config = configuration_of(runtime.flow_run.parameters["config"])
    except Exception:
        return "unreadable configuration"
    if isinstance(config, CompareConfig):
        data = _few(list(config.datasets), "data sets")
        strategies = _few(list(config.strategies), "strategies")
        return f"{data}/{strategies}/{len(config.seed_list)} seeds"
    return f"{_data_name(config.data)}/{config.strategy.name}/seed {config.seed}"


def tags_of(config: AnyConfig, flow: str) -> list[str]:
    """Return the tags of the runs of a flow, by which Prefect's pages filter."""
    tags = ["swarm", flow]
    if flow == "refresh" and isinstance(config, RefreshConfig):
        tags.append(f"champion:{config.name}")
    return tags


def mark_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Tag a flow run as it starts, label it with its process, and end those that were killed.

    :func:`prefect.tags` would tag every task, and Prefect takes locks for such tasks.
    """
    with get_client(sync_client=True) as client:
        if flow_run.deployment_id is None:
            tags = tags_of(configuration_of(flow_run.parameters["config"]), flow.name)
            client.update_flow_run(flow_run.id, tags=tags)
        client.update_flow_run_labels(flow_run.id, {PROCESS: own_process()})
        is_running = FlowRunFilterStateType(any_=[StateType.RUNNING])
        running = FlowRunFilter(state=FlowRunFilterState(type=is_running))
        for run in client.read_flow_runs(flow_run_filter=running):
            if has_ended(str(run.labels.get(PROCESS, ""))):
                crashed: State[Any] = Crashed(message="its process was killed")
                client.set_flow_run_state(run.id, crashed, force=True)
                end_crashed(flow, run, crashed)


def prune_flow_runs(before: datetime, needed: Collection[str], dry_run: bool) -> int:
    """Delete the ended flow runs of this package that started before a time; return how many."""
    has_ended = FlowRunFilterStateType(any_=list(TERMINAL_STATES))
    old = FlowRunFilter(
        tags=FlowRunFilterTags(all_=["swarm"]),
        state=FlowRunFilterState(type=has_ended),
        start_time=FlowRunFilterStartTime(before_=before),  # type: ignore[arg-type]
    )
    with get_client(sync_client=True) as client:
        runs: list[FlowRun] = []
        while page := client.read_flow_runs(flow_run_filter=old, limit=200, offset=len(runs)):
            runs += page
        run_ids = [run.id for run in runs if str(run.id) not in needed]
        if not dry_run:
            for run_id in run_ids:
                client.delete_flow_run(run_id)
    return len(run_ids)


def end_crashed(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End the MLflow runs of a flow run whose process was killed."""
    config = configuration_of(flow_run.parameters["config"])
    tracking = tracking_as_configured(config.tracking)
    parents = tracking.runs(_running(FLOW_RUN_TAG, str(flow_run.id)))
    run_ids = dict.fromkeys(run.info.run_id for run in parents)
    for parent in list(run_ids):
        children = tracking.runs(_running("mlflow.parentRunId", parent))
        run_ids |= dict.fromkeys(run.info.run_id for run in children)
    for run_id in run_ids:
        tracking.finish(run_id, "KILLED", state.message or "the flow run crashed")
        logging.getLogger(__name__).info("The MLflow run %s was ended as killed.", run_id)


def _running(tag: str, value: str) -> str:
    return f"tags.`{tag}` = '{value}' and attributes.status = 'RUNNING'"


def _few(names: Sequence[str], what: str) -> str:
    return "+".join(names) if len(names) <= _MAX_NAMES else f"{len(names)} {what}"


def _data_name(data: DataSection) -> str:
    if data.path is None:
        is_id = isinstance(data.name, int)
        return f"{data.source} {data.name}" if is_id else str(data.name or data.source)
    path = data.path
    # A variable in the name of the file may be a secret.
    if "{date" in path and "$" not in PurePath(path).name:
        # The flow reports a missing file.
        with contextlib.suppress(Exception):
            path = newest(os.path.expandvars(os.path.expanduser(expand(path, "path"))))
    return PurePath(path).stem


_FLOW: dict[str, Any] = {
    "flow_run_name": run_name,
    "validate_parameters": False,
    "persist_result": False,
}
COMMAND_FLOW = {**_FLOW, "on_running": [mark_run]}
DEPLOYED_FLOW = {
    **COMMAND_FLOW,
    "on_crashed": [end_crashed],
    "on_cancellation": [end_crashed],
}
