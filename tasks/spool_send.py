"""Hand messages of the spool to MLflow; sending one twice leaves what sending it once leaves."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.run_fields import TAG_LENGTH, batches, cut
from tasks.spool_entry import Entry, UnreadableEntry, unpack
from tasks.tracking_store import load_mlflow

__all__ = ["is_refusal", "send"]

MAX_METRICS = 1000


def send(client: Any, entries: list[Entry]) -> None:
    """Send one message, or several of metrics for one run, in as few calls as MLflow allows.

    Raises
    ------
    Exception
        Whatever the client raises.
    """
    load_mlflow()
    first = entries[0]
    run_id, fields = first.run_id, first.fields
    if first.kind == "metrics":
        _send_metrics(client, run_id, entries)
    elif first.kind == "tags":
        from mlflow.entities import RunTag

        tags = [RunTag(key, cut(value, TAG_LENGTH)) for key, value in fields["values"].items()]
        for batch in batches(tags):
            client.log_batch(run_id, tags=batch)
    elif first.kind == "artifact":
        folder = PurePosixPath(fields["path"]).parent
        with tempfile.TemporaryDirectory(prefix="spool-") as held:
            file = unpack(first, Path(held))
            client.log_artifact(run_id, str(file), None if str(folder) == "." else str(folder))
    else:
        client.set_terminated(run_id, fields["status"])


def is_refusal(error: Exception) -> bool:
    """Return whether sending the same message again can only fail again."""
    # Any other ValueError may come from half an answer of a server that is going down.
    if isinstance(error, UnreadableEntry):
        return True
    return getattr(error, "error_code", None) in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")


def _send_metrics(client: Any, run_id: str, entries: list[Entry]) -> None:
    from mlflow.entities import Metric

    points = [
        Metric(key, value, entry.fields["time"], entry.fields["step"])
        for entry in entries
        for key, value in entry.fields["values"].items()
    ]
    for batch in batches(points, MAX_METRICS):
        client.log_batch(run_id, metrics=batch)
