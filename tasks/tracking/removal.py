"""What a tracking store keeps of each run, and its removal.

MLflow only marks runs and models as deleted, so their artifacts are removed first; `mlflow gc`
removes the marked rows of a database.
"""

from __future__ import annotations

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
    """A run with its child runs, their models, and the versions registered from these."""

    run: Any  # an mlflow.entities.Run, as the next ones
    children: list[Any] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    versions: list[Any] = field(default_factory=list)
    is_needed: bool = False  # it is running, has a model with an alias, or is the last refresh

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
    experiments = (replace(tracking, experiment_id=each) for each in ids)
    runs = {run.info.run_id: run for each in experiments for run in each.runs("", "list runs")}

    def root(run_id: str) -> str:
        """Return the outermost parent that was not deleted in MLflow."""
        while run_id in runs and (above := runs[run_id].data.tags.get(PARENT)) in runs:
            run_id = above
        return run_id

    stored = {run_id: StoredRun(run) for run_id, run in runs.items() if root(run_id) == run_id}
    for run_id, run in runs.items():
        if run_id not in stored:
            stored[root(run_id)].children.append(run)
    with store_errors(tracking.uri, "list the models"):
        _add_models(tracking.client, ids, stored, root)
        needed = _needed_versions(tracking)
    refreshes: set[str] = set()
    latest = sorted(stored.values(), key=lambda each: each.seconds[0], reverse=True)
    for each in latest:
        versions = {(version.name, str(version.version)) for version in each.versions}
        each.is_needed = status_of(each.run) == "RUNNING" or bool(versions & needed)
        name = each.run.data.tags.get("refresh")
        if name and each.run.info.status == "FINISHED" and name not in refreshes:
            # By the last one, the next finds out whether anything has changed.
            refreshes.add(name)
            each.is_needed = True
    return latest


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

    def files(path: str | None) -> Iterator[int]:
        for each in repository.list_artifacts(path):
            yield from files(each.path) if each.is_dir else [each.file_size or 0]

    with store_errors(tracking.uri, "list the artifacts"):
        return sum(files(None))


def remove(tracking: Tracking, stored: StoredRun) -> None:
    """Remove a run with all that it has; an interrupted removal can be repeated."""
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
        # The folder of the run has nothing else.
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def _repository(tracking: Tracking, location: str) -> Any:
    load_mlflow()
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=tracking.uri)


def _pages(request: Callable[..., Any]) -> Iterator[Any]:
    """Yield what all pages of a list contain."""
    token = None
    while True:
        page = request(page_token=token)
        yield from page
        token = page.token
        if not token:
            return
