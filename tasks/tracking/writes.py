"""What is written to a run: names and values that MLflow accepts, and calls that can be repeated.

MLflow deduplicates points of a metric with the same step, time and value, and overwrites
everything else.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

# MLflow's limits of a value and a name; its client divides longer batches itself.
PARAM_LENGTH, TAG_LENGTH, _KEY_LENGTH = 6000, 8000, 250
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"


def accepted_key(name: str) -> str:
    """Replace every character that MLflow does not allow in a key by ``_``."""
    return re.sub(r"[^\w.\- :/]", "_", name)[:_KEY_LENGTH]


def truncate(value: object, length: int) -> str:
    """Return a value as text, strings unchanged and others as JSON, truncated to `length`."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else text[: length - 3] + "..."


def log_texts(
    client: Any, run_id: str, params: Mapping[str, object], tags: Mapping[str, str]
) -> None:
    """Log parameters and tags, truncated to MLflow's limits; null is no parameter."""
    from mlflow.entities import Param, RunTag

    values = {key: value for key, value in params.items() if value is not None}
    client.log_batch(
        run_id,
        params=[Param(accepted_key(key), truncate(values[key], PARAM_LENGTH)) for key in values],
        tags=[RunTag(accepted_key(key), truncate(tags[key], TAG_LENGTH)) for key in tags],
    )


def log_file(client: Any, run_id: str, path: str, data: bytes) -> None:
    """Write `data` as the artifact `path`, such as ``epochs/0007.parquet``."""
    inside = PurePosixPath(path)
    folder = None if str(inside.parent) == "." else str(inside.parent)
    with tempfile.TemporaryDirectory(prefix="swarm-artifact-") as scratch:
        file = Path(scratch) / inside.name
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
        log_texts(client, run_id, {}, {"error": error})
    client.set_terminated(run_id, status, end_ms)
