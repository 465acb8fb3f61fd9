"""Writes to runs: names and values that MLflow accepts, and calls that can be repeated.

MLflow deduplicates points of a metric with the same step, time and value, and overwrites
everything else.
"""

import json
import logging
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from time import monotonic, sleep
from typing import Any, NamedTuple

from tasks.processes import PROCESS, own_process
from tasks.tracking.store import first_line

_LOGGER = logging.getLogger(__name__)
_AWAY = "The tracking store is not responding (%s); the search continues."
_REFUSED = "The tracking store refused %s (%s); it is skipped."
# Such a write would fail again. A ValueError is not one of them: it may come from a truncated
# response of a server that ends.
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_MIN_PAUSE_SECONDS = 1.0
# The pause after a failed attempt is so many times its duration, as it may be a timeout.
_PAUSE_FACTOR = 10.0

# MLflow limits values and names; its client divides longer batches itself.
PARAM_LENGTH = 6000
TAG_LENGTH = 8000
_KEY_LENGTH = 250
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


def log_feast_features(client: Any, run_id: str, references: str) -> None:
    """Write a JSON list of feature references where Feast looks for those of a run."""
    log_file(client, run_id, "feast_features.json", references.encode())
    text = ",".join(json.loads(references))
    if len(text) > TAG_LENGTH:
        # A reference that is cut off would be another one.
        text = text[: TAG_LENGTH + 1].rpartition(",")[0]
    client.set_tag(run_id, "feast.feature_refs", text)


def reopen_run(client: Any, run_id: str) -> None:
    """Set a run to running again, in this process, and remove its error."""
    if "error" in client.get_run(run_id).data.tags:
        client.delete_tag(run_id, "error")
    client.set_tag(run_id, PROCESS, own_process())
    # The status comes last, so that an error of another call does not leave the run as RUNNING.
    client.update_run(run_id, status="RUNNING")


def end_run(
    client: Any, run_id: str, status: str, error: str | None = None, end_ms: int | None = None
) -> None:
    """End a run as ``FINISHED``, ``FAILED`` or ``KILLED``, with an optional error."""
    if error:
        log_texts(client, run_id, {}, {"error": error})
    client.set_terminated(run_id, status, end_ms)


class Write(NamedTuple):
    """A call that the store has not accepted yet.

    Attributes
    ----------
    owner : RunLog
        Log of its run.
    what : str
        Name in warnings.
    send : callable
        The call, which is repeated after a failure.
    """

    owner: Any
    what: str
    send: Callable[[], None]


class Writes:
    """Writes to one store in order, of a run and its children.

    A write is sent at once. If the store is away, it and all later ones are kept and sent again
    with a later write, or at the end. They should refer to data that the search keeps anyway
    instead of copying it. They end with the process; a resume replays the search and logs what the
    store lacks. The first failure is a warning; `error` is the latest one.
    """

    def __init__(self, uri: str) -> None:
        self.error = ""
        self.unsent: list[Write] = []
        self._uri = uri
        self._next_attempt = 0.0

    def add(self, write: Write) -> None:
        """Send a write after those that are unsent, unless an attempt has just failed."""
        self.unsent.append(write)
        if monotonic() >= self._next_attempt:
            self._attempt()

    def flush(self, patience: float) -> None:
        """Send all, or give up after none was accepted for `patience` seconds."""
        deadline = monotonic() + patience
        while self.unsent and monotonic() < deadline:
            n_unsent = len(self.unsent)
            self._attempt()
            if len(self.unsent) < n_unsent:
                deadline = monotonic() + patience
            if self.unsent:
                sleep(_MIN_PAUSE_SECONDS)

    def _attempt(self) -> None:
        """Send all in order, up to the first failure that may pass."""
        while self.unsent:
            write = self.unsent[0]
            started = monotonic()
            try:
                write.send()
            except Exception as error:
                line = first_line(error, self._uri)
                if getattr(error, "error_code", "") not in _REFUSALS:
                    if not self.error:
                        _LOGGER.warning(_AWAY, line)
                    self.error = line
                    now = monotonic()
                    pause = max(_MIN_PAUSE_SECONDS, _PAUSE_FACTOR * (now - started))
                    self._next_attempt = now + pause
                    return
                _LOGGER.warning(_REFUSED, write.what, line)
            self.unsent.pop(0)
