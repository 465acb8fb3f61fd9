"""Connection to a tracking store; runs are addressed by id, without MLflow's active run."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse, urlsplit, urlunsplit
from urllib.request import url2pathname

from filelock import FileLock

from swarm.errors import InputError, StoreError, check_known
from tasks.secrets import expand
from tasks.tracking.store import (
    contact,
    is_postgres,
    is_sqlite,
    load_mlflow,
    local_folder,
    redact,
    require_writable,
    resolve,
    sqlite_file,
    store_errors,
    within,
)
from tasks.tracking.writes import accepted_key, create_run, end_run

# Creating the tables of a database server takes seconds; other processes wait meanwhile.
_MAKING_SECONDS = 120.0
_LOCK = 0x5A4C

# MLflow's UI opens such an experiment as model training, with metric charts first.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
# A shared view of the runs with the most useful columns; its name is part of its URL. Runs add the
# metric that they search by, on test rows.
_COLUMNS = (
    "tags.`headline`",
    "metrics.`confirm/cost`",
    "metrics.`cost/best`",
    "tags.`kind`",
    "tags.`strategy`",
    "tags.`seed`",
)
_VIEW_NAME = "swarm"
_VIEW_TAG = f"mlflow.sharedViewState.{_VIEW_NAME}"
# Otherwise a browser that is new to MLflow shows its pages for agents.
_WORKFLOW = "workflowType=machine_learning"
# Number of runs read per request.
_PAGE = 1000


def open_tracking(
    uri: str, experiment: str, artifacts: str | Path | None = None, timeout: float = 15.0
) -> Tracking:
    """Connect to a tracking store and find or create an experiment.

    Parameters
    ----------
    uri : str
        SQLite file ``sqlite:///...`` (created with its folder), database, or tracking server;
        ``${NAME}`` is replaced by an environment variable.
    artifacts : str or Path, optional
        Folder or URI of the artifacts of a new experiment. Default: ``artifacts`` beside an
        SQLite file, ``mlruns/artifacts`` for another database, the default of a server.
        Environment variables are replaced as in `uri`.
    timeout : float
        Connection timeout in seconds.

    Raises
    ------
    InputError
        If the address is a plain folder.
    StoreError
        If the store cannot be reached or used.
    """
    address = resolve(expand(uri, "address of the tracking store"))
    if artifacts is not None:
        artifacts = expand(str(artifacts), "address of the artifacts")
    location = _location(address, artifacts)
    with store_errors(address, "open the experiment"):
        if is_sqlite(address):
            file = sqlite_file(address)
            file.parent.mkdir(parents=True, exist_ok=True)
            # One process at a time creates the tables.
            with FileLock(file.with_name(f"{file.name}.lock")):
                _make_tables(address)
                contact(address, timeout)
                return _open(address, experiment, location)
        load_mlflow()
        deadline = time.monotonic() + timeout
        # The request gives up later, so that the limit is what is told, not MLflow's own message.
        within(timeout, lambda: contact(address, 2 * timeout))
        if is_postgres(address):
            within(_MAKING_SECONDS, lambda: _make_server_tables(address))
            deadline = time.monotonic() + timeout
        left = max(0.1, deadline - time.monotonic())
        return within(left, lambda: _open(address, experiment, location))


def _make_tables(address: str) -> None:
    """Create a new file atomically: MLflow cannot complete a partly created database."""
    file = sqlite_file(address)
    if file.exists():
        return
    load_mlflow()
    from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine_with_retry

    part = file.with_name(file.name + ".part")
    for half_made in file.parent.glob(part.name + "*"):
        half_made.unlink()
    engine = create_sqlalchemy_engine_with_retry(f"sqlite:///{part}")  # type: ignore[no-untyped-call]
    try:
        _initialize_tables(engine)  # type: ignore[no-untyped-call]
    finally:
        engine.dispose()
    part.replace(file)


def _make_server_tables(address: str) -> None:
    """Create the tables under a lock, as MLflow fails if two processes create them."""
    import mlflow.store.model_registry.sqlalchemy_store
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  import before the lock is taken
    import sqlalchemy as sa
    from mlflow import MlflowClient

    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if not sa.inspect(connection).has_table("alembic_version"):
            MlflowClient(address, address).search_experiments(max_results=1)


def _open(uri: str, experiment: str, location: str | None) -> Tracking:
    mlflow = load_mlflow()
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        # The artifact location of an experiment cannot be changed later.
        folder = None if location is None else local_folder(location)
        if folder is not None:
            remedy = "set tracking.artifacts to a folder that can be written"
            require_writable(folder, "artifacts", remedy)
        try:
            created = client.create_experiment(experiment, artifact_location=location, tags=_tags())
            return Tracking(client, uri, created, experiment)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(experiment)
    if found.lifecycle_stage != "active":
        raise StoreError(
            f"the experiment {experiment!r} was deleted in {redact(uri)}; "
            "restore it in MLflow or choose another name"
        )
    # Add the view to an older experiment: `swarm ui` opens it.
    missing = {key: text for key, text in _tags().items() if key not in found.tags}
    for key, text in missing.items():
        client.set_experiment_tag(found.experiment_id, key, text)
    return Tracking(client, uri, found.experiment_id, experiment)


def runs_page(experiment_id: str) -> str:
    """Return the URL path, after the server, of the shared view of the runs."""
    page = f"/#/experiments/{experiment_id}/runs"
    return f"{page}?{_WORKFLOW}&viewStateShareKey={_VIEW_NAME}"


def models_page(experiment_id: str) -> str:
    """Return the URL path, after the server, of the models with their metrics."""
    return f"/#/experiments/{experiment_id}/models?{_WORKFLOW}"


def _tags() -> dict[str, str]:
    order = {"orderByKey": "attributes.start_time", "orderByAsc": False}
    view = json.dumps({**order, "selectedColumns": list(_COLUMNS)})
    return {**_KIND, _VIEW_TAG: view}


def _location(uri: str, artifacts: str | None) -> str | None:
    if artifacts is not None and "://" in artifacts:
        return artifacts
    if uri.startswith(("http://", "https://")):
        return None
    if artifacts is not None:
        return Path(artifacts).expanduser().absolute().as_uri()
    folder = sqlite_file(uri).parent if is_sqlite(uri) else Path("mlruns").absolute()
    return (folder / "artifacts").as_uri()


@dataclass(frozen=True)
class RunRecord:
    """A run as stored; metrics are the last values."""

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
        Client of the store and of the model registry at the same address.
    uri : str
        Address with secrets; `label` is without.
    experiment_id, experiment : str
        Id and name of the experiment.
    system_metrics : bool
        Whether runs log the use of this machine.
    """

    client: Any
    uri: str
    experiment_id: str
    experiment: str
    system_metrics: bool = False

    @property
    def label(self) -> str:
        """Address without secrets."""
        return redact(self.uri)

    def page(self, run_id: str) -> str | None:
        """Return the address of the page of a run, None if the store is not a server."""
        parts = urlsplit(self.uri)
        if parts.scheme not in ("http", "https"):
            return None
        # Without user name and password.
        host = parts.netloc.rpartition("@")[2]
        inside = f"/experiments/{self.experiment_id}/runs/{run_id}?{_WORKFLOW}"
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/") + "/", "", inside))

    def of_experiment(self, name: str) -> Tracking:
        """Return another experiment of the store; InputError if there is none of this name."""
        with store_errors(self.uri, "list the experiments"):
            ids = {found.name: found.experiment_id for found in self.client.search_experiments()}
        check_known("experiment", name, ids, InputError)
        return replace(self, experiment=name, experiment_id=ids[name])

    def require_writable(self) -> None:
        """Verify that a local artifact folder of the experiment is writable.

        Raises
        ------
        StoreError
            If it is not; MLflow itself would retry for minutes.
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

    def start_run(self, name: str, tags: Mapping[str, str], description: str | None = None) -> str:
        """Create a running run and return its id; the description is at the top of its page.

        Raises
        ------
        StoreError
            If the store does not accept the run.
        """
        with store_errors(self.uri, f"start the run {name!r}"):
            if "scoring" in tags:
                self._add_to_view(tags["scoring"], tags.get("task", ""))
            return create_run(self.client, self.experiment_id, name, tags, description=description)

    def finish(self, run_id: str, status: str = "FINISHED", error: str | None = None) -> None:
        """End a run as ``FINISHED``, ``FAILED`` or ``KILLED``."""
        with store_errors(self.uri, f"finish the run {run_id}"):
            end_run(self.client, run_id, status, error)

    def run(self, run_id: str) -> RunRecord:
        """Return a run; InputError if there is none with this id, or it was deleted."""
        from mlflow.exceptions import MlflowException

        missing = InputError(f"there is no run {run_id!r} in {self.label}; `swarm runs` lists them")
        with store_errors(self.uri, f"look up the run {run_id!r}"):
            try:
                found = self.client.get_run(run_id)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    raise missing from None
                raise
        if found.info.lifecycle_stage != "active":
            raise InputError(f"the run {run_id!r} was deleted; restore it in MLflow first")
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

    def runs(self, filter_string: str, doing: str = "search the runs") -> Iterator[Any]:
        """Yield the runs of the experiment that match the filter, the latest first."""
        token = None
        while True:
            with store_errors(self.uri, doing):
                page = self.client.search_runs(
                    [self.experiment_id],
                    filter_string=filter_string,
                    max_results=_PAGE,
                    order_by=["attributes.start_time DESC"],
                    page_token=token,
                )
            yield from page
            token = page.token
            if not token:
                return

    def values(
        self, run_id: str, only: Collection[str] | None = None
    ) -> dict[str, dict[int, float]]:
        """Return the values by step of every metric of a run, or of some of them."""
        names = [name for name in self.run(run_id).metrics if only is None or name in only]
        with store_errors(self.uri, "read the metrics"):
            return {
                name: {
                    point.step: point.value
                    for point in self.client.get_metric_history(run_id, name)
                }
                for name in names
            }

    def steps(self, run_id: str) -> dict[str, set[int]]:
        """Return the logged steps of every metric of a run."""
        return {name: set(points) for name, points in self.values(run_id).items()}

    def find_artifact(self, run_id: str, path: str) -> bool:
        """Return whether a run has an artifact file or folder at `path`."""
        parent = str(PurePosixPath(path).parent)
        with store_errors(self.uri, f"list the artifacts of the run {run_id}"):
            listed = self.client.list_artifacts(run_id, None if parent == "." else parent)
        return any(entry.path == path for entry in listed)

    def download(self, run_id: str, path: str) -> Path:
        """Return a local path of an artifact: a copy, or the original if it is local.

        Raises
        ------
        InputError
            If the run has no such artifact.
        """
        if not self.find_artifact(run_id, path):
            raise InputError(f"the run {run_id} has no artifact {path!r}; check that it finished")
        root = urlparse(self.run(run_id).artifact_uri)
        if root.scheme in ("", "file"):
            return Path(url2pathname(root.path)) / path
        with store_errors(self.uri, f"fetch the artifact {path!r}"):
            return Path(self.client.download_artifacts(run_id, path))

    def _add_to_view(self, scorer: str, task: str) -> None:
        """Add the metric of a scorer on test rows to the shared view of the runs."""
        from swarm.validation.metrics import natural_name, tested_metric

        stored = self.client.get_experiment(self.experiment_id).tags.get(_VIEW_TAG, "{}")
        # MLflow stores the view that a user has saved under the name in a form of its own.
        view = json.loads(stored) if stored.startswith("{") else {}
        columns = view.get("selectedColumns", [])
        metric = tested_metric(natural_name(scorer), task)
        column = f"metrics.`test/{accepted_key(metric)}`"
        if columns and column not in columns:
            view["selectedColumns"] = [columns[0], column, *columns[1:]]
            self.client.set_experiment_tag(self.experiment_id, _VIEW_TAG, json.dumps(view))
