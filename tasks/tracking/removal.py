"""What a tracking store keeps of each run, and its removal.

MLflow only marks runs and models as deleted, so their artifacts are removed first; `mlflow gc`
removes the marked rows of a database.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tasks.processes import status_of
from tasks.refresh.champion import ALIAS, Champions
from tasks.tracking.client import Tracking
from tasks.tracking.store import load_mlflow, local_folder, store_errors
from tasks.tracking.writes import PARENT


@dataclass
class StoredRun:
    """A run with its child runs, their models, and the versions registered from these.

    Attributes
    ----------
    run : mlflow.entities.Run
    children : list of mlflow.entities.Run
    models : list of mlflow.entities.LoggedModel
    versions : list of mlflow.entities.model_registry.ModelVersion
    is_needed : bool
        Whether it is running, has a model with an alias, or is the last refresh.
    """

    run: Any
    children: list[Any] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    versions: list[Any] = field(default_factory=list)
    is_needed: bool = False

    @property
    def seconds(self) -> tuple[float, float | None]:
        """Start and end in seconds since the epoch."""
        end = self.run.info.end_time
        return self.run.info.start_time / 1000, end and end / 1000

    @property
    def locations(self) -> list[str]:
        """The URIs of all artifacts."""
        runs = [run.info.artifact_uri for run in (*self.children, self.run)]
        return [*(model.artifact_location for model in self.models), *runs]


def stored_runs(tracking: Tracking) -> list[StoredRun]:
    """Return the runs of all experiments that are no children, the latest first."""
    ids = list(tracking.experiments().values())
    runs = {
        run.info.run_id: run
        for experiment_id in ids
        for run in replace(tracking, experiment_id=experiment_id).runs("", "list runs")
    }

    def root(run_id: str) -> str:
        """Return the outermost parent that was not deleted in MLflow."""
        while run_id in runs and (parent := runs[run_id].data.tags.get(PARENT)) in runs:
            run_id = parent
        return run_id

    stored = {run_id: StoredRun(run) for run_id, run in runs.items() if root(run_id) == run_id}
    for run_id, run in runs.items():
        if run_id not in stored:
            stored[root(run_id)].children.append(run)
    with store_errors(tracking.uri, "list the models"):
        _add_models(tracking.client, ids, stored, root)
        needed = _needed_versions(tracking)
    refreshed: set[str] = set()
    latest_first = sorted(
        stored.values(), key=lambda stored_run: stored_run.seconds[0], reverse=True
    )
    for stored_run in latest_first:
        run = stored_run.run
        versions = {(version.name, str(version.version)) for version in stored_run.versions}
        stored_run.is_needed = status_of(run) == "RUNNING" or bool(versions & needed)
        champion = run.data.tags.get("refresh")
        if champion and run.info.status == "FINISHED" and champion not in refreshed:
            # The next refresh compares its data with the last one.
            refreshed.add(champion)
            stored_run.is_needed = True
    return latest_first


def _add_models(
    client: Any, experiments: list[str], stored: dict[str, StoredRun], root: Callable[[str], str]
) -> None:
    """Add the models and their versions to the runs."""
    owners: dict[str, StoredRun] = {}
    for model in _pages(partial(client.search_logged_models, experiments)):
        owner = stored.get(root(model.source_run_id or ""))
        if owner is not None:
            owner.models.append(model)
            owners[model.model_id] = owner
    for version in _pages(client.search_model_versions):
        source = str(version.source).removeprefix("models:/")
        owner = owners.get(source) or stored.get(root(version.run_id or ""))
        if owner is not None:
            owner.versions.append(version)


def _needed_versions(tracking: Tracking) -> set[tuple[str, str]]:
    """Return the versions with an alias, and those that champions have replaced."""
    needed: set[tuple[str, str]] = set()
    for model in _pages(tracking.client.search_registered_models):
        versions = [*model.aliases.values()]
        champion = Champions(tracking).current(model.name) if ALIAS in model.aliases else None
        if champion is not None:
            versions += [champion.over, champion.instead_of]
        needed |= {(model.name, str(version)) for version in versions if version}
    return needed


def size_of(tracking: Tracking, location: str) -> int:
    """Return the bytes of the artifacts at a URI."""
    folder = local_folder(location)
    if folder is not None:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    repository = _repository(tracking, location)

    def file_sizes(path: str | None) -> Iterator[int]:
        for entry in repository.list_artifacts(path):
            if entry.is_dir:
                yield from file_sizes(entry.path)
            else:
                yield entry.file_size or 0

    with store_errors(tracking.uri, "list the artifacts"):
        return sum(file_sizes(None))


def remove(tracking: Tracking, stored: StoredRun) -> None:
    """Remove a run with everything in `stored`; an interrupted removal can be repeated."""
    client = tracking.client
    with store_errors(tracking.uri, f"remove the run {stored.run.info.run_id}"):
        for version in stored.versions:
            client.delete_model_version(version.name, str(version.version))
        for location in stored.locations:
            _remove_artifacts(tracking, location)
        for model in stored.models:
            client.delete_logged_model(model.model_id)
        for run in (*stored.children, stored.run):
            client.delete_run(run.info.run_id)


def _remove_artifacts(tracking: Tracking, location: str) -> None:
    folder = local_folder(location)
    if folder is None:
        _repository(tracking, location).delete_artifacts()
    elif folder.exists():
        shutil.rmtree(folder)
        # The folder of the run is empty now, unless it contains other files.
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def _repository(tracking: Tracking, location: str) -> Any:
    load_mlflow()
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=tracking.uri)


def _pages(request: Callable[..., Any]) -> Iterator[Any]:
    """Yield the items of all pages of a list."""
    token = None
    while True:
        page = request(page_token=token)
        yield from page
        token = page.token
        if not token:
            return
