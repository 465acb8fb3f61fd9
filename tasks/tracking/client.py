"""Connection to a tracking store; runs are addressed by id, without MLflow's active run."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from filelock import FileLock

from swarm.errors import InputError, StoreError, check_known
from swarm.redaction import redact
from tasks.processes import PROCESS, own_process
from tasks.secrets import expand
from tasks.tracking.store import (
    Uninterrupted,
    contact,
    is_database,
    is_sqlite,
    load_mlflow,
    local_folder,
    require_writable,
    resolve,
    sqlite_file,
    store_errors,
    within,
)
from tasks.tracking.writes import PARENT, TAG_LENGTH, accepted_key, end_run, truncate

# MLflow's UI opens such an experiment as model training, with metric charts first.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
# A browser that is new to MLflow would show its pages for agents.
_WORKFLOW = "workflowType=machine_learning"
# One request reads so many runs.
_MAX_RUNS_PER_PAGE = 1000
# The terminal shows so many characters of an id; four or more are looked up.
SHORT_ID = 8
RUN_ID = re.compile(r"[0-9a-f]{4,32}")


def open_tracking(
    uri: str,
    experiment: str | None,
    artifacts: str | Path | None = None,
    timeout: float = 15.0,
) -> Tracking:
    """Connect to a tracking store and find or create an experiment.

    ``${NAME}`` in an address is replaced by an environment variable.

    Parameters
    ----------
    uri : str
        SQLite file (created with its folder), other database, or tracking server.
    experiment : str or None
        Name of the experiment; None to read runs by their ids, which leaves the store as it is.
    artifacts : str or Path, optional
        Folder or URI of the artifacts of a new experiment. Default: `artifacts` beside an SQLite
        file, `mlruns/artifacts` for another database, the default of a server.
    timeout : float
        Seconds to wait for a server.

    Raises
    ------
    InputError
        If the address is a plain folder.
    StoreError
        If the store cannot be reached or used.
    """
    address = resolve(expand(uri, "address of the tracking store"))
    location = _location(address, artifacts)
    with store_errors(address, "open the experiment"):
        if is_sqlite(address):
            _make_tables(sqlite_file(address))
        load_mlflow()
        if not is_database(address):
            return within(timeout, lambda: _open(address, experiment, location))
        within(timeout, lambda: contact(address))
        # In a new database, creating the tables takes seconds.
        return _open(address, experiment, location)


def _make_tables(file: Path) -> None:
    """Create a new file atomically: MLflow cannot complete a partly created database."""
    if file.exists():
        return
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    file.parent.mkdir(parents=True, exist_ok=True)
    incomplete = file.with_name(file.name + ".part")
    lock = file.with_name(f"{file.name}.lock")
    with FileLock(lock):
        # Another process may have created it meanwhile, or have died while it did.
        if not file.exists():
            for leftover in file.parent.glob(incomplete.name + "*"):
                leftover.unlink()
            create: Any = SqlAlchemyStore
            create(f"sqlite:///{incomplete}", "mlruns").engine.dispose()
            incomplete.replace(file)
        lock.unlink(missing_ok=True)


def _open(uri: str, experiment: str | None, location: str | None) -> Tracking:
    """Find or create an experiment."""
    mlflow = load_mlflow()
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    if is_sqlite(uri):
        client = Uninterrupted(client)
    if experiment is None:
        return Tracking(client, uri, "", "")
    entity = client.get_experiment_by_name(experiment)
    if entity is None:
        # The artifact location of an experiment cannot be changed later.
        remedy = "set tracking.artifacts to a folder that can be written"
        require_writable(location, "artifacts", remedy)
        try:
            client.create_experiment(experiment, artifact_location=location, tags=_EXPERIMENT_TAGS)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        entity = client.get_experiment_by_name(experiment)
    if entity.lifecycle_stage != "active":
        raise StoreError(
            f"the experiment {experiment!r} was deleted in {redact(uri)}; "
            "restore it in MLflow or choose another name"
        )
    return Tracking(client, uri, entity.experiment_id, experiment)


def runs_page(experiment_id: str) -> str:
    """Return the URL path, after the server, of the runs."""
    return f"/#/experiments/{experiment_id}/runs?{_WORKFLOW}"


def curves_page(experiment_id: str, parent: str) -> str:
    """Return the URL path of the charts with the curves of all child runs of a run.

    Only runs in the order of their start are nested, and hidden below their parents.
    """
    query = {
        "searchFilter": f"tags.`{PARENT}` = '{parent}'",
        "orderByKey": "attributes.`run_name`",
        "orderByAsc": "true",
        "compareRunsMode": "CHART",
    }
    return f"/#/experiments/{experiment_id}/runs?{_WORKFLOW}&{urlencode(query, quote_via=quote)}"


def models_page(experiment_id: str) -> str:
    """Return the URL path, after the server, of the models with their metrics."""
    return f"/#/experiments/{experiment_id}/models?{_WORKFLOW}"


def _location(uri: str, artifacts: str | Path | None) -> str | None:
    """Return the URI of the artifacts of a new experiment, None for the default of a server."""
    if artifacts is None:
        folder = sqlite_file(uri).parent if is_sqlite(uri) else Path("mlruns")
        artifacts = folder / "artifacts"
    text = expand(str(artifacts), "address of the artifacts")
    if "://" in text:
        return text
    is_server = uri.startswith(("http://", "https://"))
    return None if is_server else Path(text).expanduser().absolute().as_uri()


@dataclass(frozen=True)
class Tracking:
    """One experiment of one tracking store.

    Attributes
    ----------
    client : mlflow.MlflowClient
        Client of the store, and of the model registry in it.
    uri : str
        Address with secrets, unlike `label`.
    experiment_id, experiment : str
        Id and name of the experiment.
    option : str
        Option by which commands use this store, after a blank; empty for the default store.
    """

    client: Any
    uri: str
    experiment_id: str
    experiment: str
    option: str = ""

    @property
    def label(self) -> str:
        """Address without secrets."""
        return redact(self.uri)

    def page(self, run_id: str) -> str | None:
        """Return the address of the page of a run, None if the store is not a server."""
        parts = urlsplit(self.uri)
        if parts.scheme not in ("http", "https"):
            return None
        host_without_user = parts.netloc.rpartition("@")[2]
        inside = f"/experiments/{self.experiment_id}/runs/{run_id}?{_WORKFLOW}"
        folder = parts.path.rstrip("/") + "/"
        return urlunsplit((parts.scheme, host_without_user, folder, "", inside))

    def experiments(self) -> dict[str, str]:
        """Return the ids of the experiments of the store, by name."""
        with store_errors(self.uri, "list the experiments"):
            experiments = self.client.search_experiments()
        return {experiment.name: experiment.experiment_id for experiment in experiments}

    def of_experiment(self, name: str) -> Tracking:
        """Return another experiment of the store; InputError if there is none of this name."""
        ids = self.experiments()
        check_known("experiment", name, ids, InputError)
        return replace(self, experiment=name, experiment_id=ids[name])

    def require_writable(self) -> None:
        """Raise StoreError if a local artifact folder of the experiment cannot be written."""
        with store_errors(self.uri, f"look up the experiment {self.experiment!r}"):
            require_writable(
                self.client.get_experiment(self.experiment_id).artifact_location,
                f"the artifacts of the experiment {self.experiment!r}",
                "make it a folder that can be written, or set tracking.experiment to a new name",
            )

    def start_run(self, name: str, tags: Mapping[str, str], start_ms: int | None = None) -> str:
        """Create a running run with its tags and return its id, another one for every call."""
        user = "unknown"
        # The user of a container may have no name.
        with suppress(OSError, KeyError):
            user = getpass.getuser()
        system = {"mlflow.user": user, "mlflow.source.name": "swarm", "mlflow.source.type": "LOCAL"}
        system[PROCESS] = own_process()
        labels = {accepted_key(key): truncate(value, TAG_LENGTH) for key, value in tags.items()}
        with store_errors(self.uri, f"start the run {name!r}"):
            run = self.client.create_run(self.experiment_id, start_ms, system | labels, name)
        return str(run.info.run_id)

    def finish(self, run_id: str, status: str = "FINISHED", error: str | None = None) -> None:
        """End a run as ``FINISHED``, ``FAILED`` or ``KILLED``."""
        with store_errors(self.uri, f"finish the run {run_id}"):
            end_run(self.client, run_id, status, error)

    def run(self, run_id: str) -> Any:
        """Return an ``mlflow.entities.Run``, whose id may be abbreviated.

        InputError if it does not exist or was deleted.
        """
        from mlflow.exceptions import MlflowException

        with store_errors(self.uri, f"look up the run {run_id!r}"):
            try:
                run = self.client.get_run(run_id)
            except MlflowException as error:
                if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    raise
                run = self._run_that_begins(run_id)
        if run.info.lifecycle_stage != "active":
            raise InputError(f"the run {run_id!r} was deleted; restore it in MLflow first")
        return run

    def _run_that_begins(self, start: str) -> Any:
        """Return the one run whose id begins so; InputError if there is none, or more than one."""
        runs: list[Any] = []
        if RUN_ID.fullmatch(start):
            ids = [experiment.experiment_id for experiment in self.client.search_experiments()]
            filter_string = f"attributes.run_id LIKE '{start}%'"
            runs = list(self.client.search_runs(ids, filter_string, max_results=2))
        if len(runs) == 1:
            return runs[0]
        what = f"the ids of several runs begin with {start!r}"
        if not runs:
            what = f"there is no run {start!r}"
        option = f" --experiment {shlex.quote(self.experiment)}" if self.experiment else ""
        raise InputError(f"{what} in {self.label}; `swarm runs{option}{self.option}` lists them")

    def runs(self, filter_string: str, doing: str = "search the runs") -> Iterator[Any]:
        """Yield the runs of the experiment that match the filter, the latest first."""
        token = None
        while True:
            with store_errors(self.uri, doing):
                page = self.client.search_runs(
                    [self.experiment_id],
                    filter_string=filter_string,
                    max_results=_MAX_RUNS_PER_PAGE,
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
        """Return the latest value by step of the metrics of a run, of all or of those in `only`."""
        values = {}
        with store_errors(self.uri, f"read the metrics of the run {run_id!r}"):
            for name in self.run(run_id).data.metrics:
                if only is None or name in only:
                    points = self.client.get_metric_history(run_id, name)
                    points.sort(key=lambda point: point.timestamp)
                    values[name] = {point.step: point.value for point in points}
        return values

    def find_artifact(self, run_id: str, path: str) -> bool:
        """Return whether a run has an artifact file or folder at `path`."""
        parent = str(PurePosixPath(path).parent)
        with store_errors(self.uri, f"list the artifacts of the run {run_id}"):
            listed = self.client.list_artifacts(run_id, None if parent == "." else parent)
        return any(entry.path == path for entry in listed)

    def download(self, run_id: str, path: str) -> Path:
        """Return a local path of an artifact: a copy, or the original if it is local.

        InputError if the run has no such artifact.
        """
        if not self.find_artifact(run_id, path):
            raise InputError(f"the run {run_id} has no artifact {path!r}; check that it finished")
        folder = local_folder(self.run(run_id).info.artifact_uri)
        if folder is not None:
            return folder / path
        with store_errors(self.uri, f"fetch the artifact {path!r}"):
            return Path(self.client.download_artifacts(run_id, path))
