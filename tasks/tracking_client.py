"""Runs in MLflow, written with a client and explicit run ids: no active run, so no stray one."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pandas as pd

from swarm.errors import InputError
from tasks.dataset_input import dataset_input
from tasks.run_fields import PARAM_LENGTH, TAG_LENGTH, accepted_key, batches, cut
from tasks.tracking_store import redact, store_errors
from tasks.writable import local_folder, require_writable

__all__ = ["RunRecord", "Tracking"]

STATUSES = ("FINISHED", "FAILED", "KILLED")


@dataclass(frozen=True)
class RunRecord:
    """What the store knows of one run; metrics are the last values."""

    run_id: str
    name: str
    status: str
    experiment_id: str
    artifact_uri: str
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Tracking:
    """One experiment of one tracking store.

    Attributes
    ----------
    client : mlflow.MlflowClient
        Client of the store and of the registry at the same address.
    uri : str
        Address, with secrets; `label` is the one to show.
    experiment_id, experiment : str
        Id and name of the experiment.
    """

    client: Any
    uri: str
    experiment_id: str
    experiment: str

    @property
    def label(self) -> str:
        """Address without secrets."""
        return redact(self.uri)

    def require_writable(self) -> None:
        """Refuse an experiment whose artifacts are in a folder here that cannot be written.

        Raises
        ------
        StoreError
            If it cannot; MLflow would go on trying for minutes.
        """
        with store_errors(self.uri, f"look up the experiment {self.experiment!r}"):
            address = self.client.get_experiment(self.experiment_id).artifact_location
        folder = local_folder(address)
        if folder is not None:
            require_writable(
                folder,
                f"the artifacts of the experiment {self.experiment!r}",
                "make it a folder that can be written, or set tracking.experiment to a new name",
            )

    def start_run(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        description: str | None = None,
        parent_run_id: str | None = None,
    ) -> str:
        """Create a running run and return its id.

        Parameters
        ----------
        name : str
            Name shown in the list of runs.
        params : mapping
            Flat parameters; long values are cut to what MLflow keeps.
        tags : mapping
            Tags; those of MLflow itself, such as ``mlflow.user``, may be given too.
        description : str, optional
            Text at the top of the run's page.
        parent_run_id : str, optional
            Run under which this one is nested.

        Raises
        ------
        StoreError
            If the store does not take it.
        """
        from mlflow.entities import Param, RunTag

        system = {"mlflow.user": _user(), "mlflow.source.name": "swarm"}
        system |= {"mlflow.source.type": "LOCAL"}
        if description:
            system["mlflow.note.content"] = description
        if parent_run_id:
            system["mlflow.parentRunId"] = parent_run_id
        written = [Param(accepted_key(k), cut(v, PARAM_LENGTH)) for k, v in params.items()]
        labels = [RunTag(accepted_key(k), cut(v, TAG_LENGTH)) for k, v in tags.items()]
        with store_errors(self.uri, f"start the run {name!r}"):
            run = self.client.create_run(self.experiment_id, tags=system, run_name=name)
            run_id: str = run.info.run_id
            for batch in batches(written):
                self.client.log_batch(run_id, params=batch)
            for some in batches(labels):
                self.client.log_batch(run_id, tags=some)
        return run_id

    def resume_run(self, run_id: str) -> None:
        """Set a run to running again.

        Raises
        ------
        InputError
            If there is no such run, or it was deleted.
        """
        self._found(run_id)
        with store_errors(self.uri, f"resume the run {run_id}"):
            self.client.update_run(run_id, status="RUNNING")

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run as ``FINISHED``, ``FAILED`` or ``KILLED``."""
        if status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {status!r}")
        with store_errors(self.uri, f"finish the run {run_id}"):
            self.client.set_terminated(run_id, status)

    def run(self, run_id: str) -> RunRecord:
        """Return what is known of a run; InputError if there is none of that id."""
        found = self._found(run_id)
        return RunRecord(
            run_id=found.info.run_id,
            name=found.info.run_name,
            status=found.info.status,
            experiment_id=found.info.experiment_id,
            artifact_uri=found.info.artifact_uri,
            params=dict(found.data.params),
            tags=dict(found.data.tags),
            metrics=dict(found.data.metrics),
        )

    def last_step(self, run_id: str, metric: str) -> int:
        """Return the highest step of a metric, -1 if it has none."""
        with store_errors(self.uri, f"read the metric {metric!r}"):
            history = self.client.get_metric_history(run_id, metric)
        return max((point.step for point in history), default=-1)

    def find_artifact(self, run_id: str, path: str) -> bool:
        """Return whether a run has an artifact, a file or a folder, at `path`."""
        parent = str(PurePosixPath(path).parent)
        with store_errors(self.uri, f"list the artifacts of the run {run_id}"):
            listed = self.client.list_artifacts(run_id, None if parent == "." else parent)
        return any(entry.path == path for entry in listed)

    def download(self, run_id: str, path: str) -> Path:
        """Return a local path of an artifact: a copy, or the original where it is local.

        Raises
        ------
        InputError
            If the run has no such artifact.
        """
        if not self.find_artifact(run_id, path):
            raise InputError(f"the run {run_id} has no artifact {path!r}; check that it ended well")
        root = urlparse(self.run(run_id).artifact_uri)
        if root.scheme in ("", "file"):
            return Path(url2pathname(root.path)) / path
        with store_errors(self.uri, f"fetch the artifact {path!r}"):
            return Path(self.client.download_artifacts(run_id, path))

    def log_dataset(
        self,
        run_id: str,
        frame: pd.DataFrame,
        target_name: str | None,
        name: str,
        source: str,
        context: str,
    ) -> None:
        """Attach a table to a run as a data set input: schema, size and digest, not the rows.

        Parameters
        ----------
        run_id : str
            The run.
        frame : DataFrame (n_rows, n_columns)
            The table, with the target as a column if `target_name` is given.
        target_name : str or None
            Column of the target.
        name, source : str
            Short name, and where it came from, without secrets.
        context : str
            What it was used for, such as ``training``.
        """
        entry = dataset_input(frame, target_name, name, source, context)
        with store_errors(self.uri, f"note the data set {name!r}"):
            self.client.log_inputs(run_id, datasets=[entry])

    def _found(self, run_id: str) -> Any:
        from mlflow.exceptions import MlflowException

        missing = InputError(
            f"there is no run {run_id!r} in {self.label}; `swarm ui` shows the ids of all runs"
        )
        with store_errors(self.uri, f"look up the run {run_id!r}"):
            try:
                found = self.client.get_run(run_id)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    raise missing from None
                raise
        if found.info.lifecycle_stage != "active":
            raise InputError(f"the run {run_id!r} was deleted; restore it in MLflow first")
        return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
