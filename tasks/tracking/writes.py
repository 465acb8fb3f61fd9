"""What is written to MLflow: accepted names and values, and idempotent calls of its client.

MLflow deduplicates points of a metric with the same step, time and value, and overwrites
everything else. The exception is :func:`create_run`: before a retry, call :func:`find_child`.
"""

from __future__ import annotations

import getpass
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

# MLflow's limits of a value, a name and a request; its client divides longer batches itself.
PARAM_LENGTH, _TAG_LENGTH, _KEY_LENGTH = 6000, 8000, 250
_RUNS = 1000
_PARENT = "mlflow.parentRunId"

# MLflow groups the charts of metrics by prefix and sorts the groups by name, so that the cost,
# which is the most important, comes first. These are the names of the metrics of an epoch.
BEST_COST = "cost/best"
_NAMES = {
    "best_cost": BEST_COST,
    "pbest_cost_mean": "cost/pbest_mean",
    "pbest_cost_median": "cost/pbest_median",
    "best_size": "size/best",
    "size_mean": "size/mean",
    "diversity": "swarms/diversity",
    "evaluations": "spent/evaluations",
    "distinct_evaluations": "spent/distinct_evaluations",
    "fits": "spent/fits",
    "folds_pruned": "spent/folds_pruned",
    "failed_evaluations": "spent/failed_evaluations",
}


def metric_key(name: str) -> str:
    """Return the name of a metric of an epoch with its group as a prefix, others unchanged."""
    return _NAMES.get(name) or re.sub(r"^swarm_(\d+)_best_cost$", r"swarms/\1_best_cost", name)


def accepted_key(name: str) -> str:
    """Replace every character that MLflow does not allow in a key by ``_``."""
    return re.sub(r"[^\w.\- :/]", "_", name)[:_KEY_LENGTH]


def cut(value: object, length: int) -> str:
    """Return a value as text, strings unchanged and others as JSON, truncated to `length`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 3] + "..."


def create_run(
    client: Any,
    experiment_id: str,
    name: str,
    tags: Mapping[str, str],
    *,
    description: str | None = None,
    parent: str | None = None,
    start_ms: int | None = None,
) -> str:
    """Create a run with status RUNNING and its tags, and return its id."""
    system = {"mlflow.user": _user(), "mlflow.source.name": "swarm", "mlflow.source.type": "LOCAL"}
    if description:
        system["mlflow.note.content"] = description
    if parent:
        system[_PARENT] = parent
    labels = {accepted_key(key): cut(value, _TAG_LENGTH) for key, value in tags.items()}
    run = client.create_run(experiment_id, start_time=start_ms, tags=system | labels, run_name=name)
    return str(run.info.run_id)


def find_child(client: Any, experiment_id: str, parent: str, name: str) -> str | None:
    """Return the id of the latest child run with this name, None if there is none."""
    # Names are compared here, as a name with quotation marks cannot be used in a filter.
    found = client.search_runs(
        [experiment_id],
        filter_string=f"tags.`{_PARENT}` = '{parent}'",
        max_results=_RUNS,
        order_by=["attributes.start_time DESC"],
    )
    return next((str(run.info.run_id) for run in found if run.info.run_name == name), None)


def log_params(client: Any, run_id: str, params: Mapping[str, object]) -> None:
    """Log parameters; long values are truncated to MLflow's limit, and null is not logged."""
    from mlflow.entities import Param

    written = [
        Param(accepted_key(key), cut(value, PARAM_LENGTH))
        for key, value in params.items()
        if value is not None
    ]
    client.log_batch(run_id, params=written)


def log_tags(client: Any, run_id: str, tags: Mapping[str, str]) -> None:
    """Set tags of a run."""
    from mlflow.entities import RunTag

    written = [RunTag(accepted_key(key), cut(tags[key], _TAG_LENGTH)) for key in tags]
    client.log_batch(run_id, tags=written)


def log_points(
    client: Any,
    run_id: str,
    points: Iterable[tuple[str, float, int]],
    time_ms: int,
    *,
    model_id: str | None = None,
    dataset: tuple[str, str] | None = None,
) -> None:
    """Log points of metrics, each a tuple of name, value and step.

    With `model_id` they are metrics of this model too, on the data set of this name and digest.
    """
    from mlflow.entities import Metric

    data, digest = dataset or (None, None)
    metrics = [
        Metric(name, value, time_ms, step, model_id, data, digest) for name, value, step in points
    ]
    client.log_batch(run_id, metrics=metrics)


def log_file(client: Any, run_id: str, path: str, data: bytes) -> None:
    """Write `data` as the artifact `path`, such as ``epochs/0007.parquet``."""
    inside = PurePosixPath(path)
    folder = None if str(inside.parent) == "." else str(inside.parent)
    with tempfile.TemporaryDirectory(prefix="swarm-artifact-") as held:
        file = Path(held) / inside.name
        file.write_bytes(data)
        client.log_artifact(run_id, str(file), folder)


def reopen_run(client: Any, run_id: str) -> None:
    """Set a run to running again and remove its error."""
    if "error" in client.get_run(run_id).data.tags:
        client.delete_tag(run_id, "error")
    # Last, so that an error of the other call does not leave the run as RUNNING.
    client.update_run(run_id, status="RUNNING")


def end_run(
    client: Any, run_id: str, status: str, error: str | None = None, end_ms: int | None = None
) -> None:
    """End a run as ``FINISHED``, ``FAILED`` or ``KILLED``, with an optional error."""
    if error:
        log_tags(client, run_id, {"error": error})
    client.set_terminated(run_id, status, end_ms)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
