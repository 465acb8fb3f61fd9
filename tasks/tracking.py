"""Open the tracking store that a search writes its run to."""

from __future__ import annotations

import json
import time
from pathlib import Path

from swarm.errors import StoreError
from tasks.secrets import expand
from tasks.tracking_client import RunRecord, Tracking
from tasks.tracking_store import (
    alone,
    contact,
    is_postgres,
    is_sqlite,
    load_mlflow,
    redact,
    resolve,
    store_errors,
    within,
)
from tasks.writable import local_folder, require_writable

__all__ = ["RunRecord", "Tracking", "open_tracking", "runs_page"]


# A server's tables take seconds to make, and whoever comes second waits for the first.
_MAKING_SECONDS = 120.0
_LOCK = 0x5A4C

# Lets MLflow's UI open the experiment as model training, with metric charts first.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
# A view of the runs with the columns that tell them apart; its name is part of its address.
_COLUMNS = (
    "metrics.`cost/best`",
    "metrics.`size/best`",
    "metrics.`test/f1`",
    "metrics.`test/r2`",
    "tags.`kind`",
    "tags.`strategy`",
    "tags.`seed`",
)
_VIEW = {"orderByKey": "attributes.start_time", "orderByAsc": False}
_VIEW_NAME = "swarm"


def open_tracking(
    uri: str, experiment: str, artifacts: str | Path | None = None, timeout: float = 15.0
) -> Tracking:
    """Connect to a tracking store and find or create an experiment.

    Parameters
    ----------
    uri : str
        ``sqlite:///`` file (created with its folder), a database, or a tracking server;
        ``${NAME}`` is replaced by an environment variable.
    experiment : str
        Name of the experiment.
    artifacts : str or Path, optional
        Folder or address of the artifacts of a new experiment. Default: ``artifacts`` beside a
        SQLite file, ``mlruns/artifacts`` for another database; a server decides by itself.
    timeout : float
        Seconds after which a server or database counts as unreachable.

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
            folder = Path(address.removeprefix("sqlite:///").partition("?")[0]).parent
            folder.mkdir(parents=True, exist_ok=True)
            with alone(address):
                _make_tables(address)
                contact(address, timeout)
                return _open(address, experiment, location)
        load_mlflow()
        deadline = time.monotonic() + timeout
        within(timeout, lambda: contact(address, timeout))
        if is_postgres(address):
            within(_MAKING_SECONDS, lambda: _make_server_tables(address))
            deadline = time.monotonic() + timeout
        left = max(0.1, deadline - time.monotonic())
        return within(left, lambda: _open(address, experiment, location))


def _make_tables(address: str) -> None:
    """Make the tables of a new file aside: MLflow cannot complete what it was killed in making."""
    file = Path(address.removeprefix("sqlite:///").partition("?")[0])
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
    """Let one process at a time find the database empty, as MLflow trips over a second one."""
    import mlflow.store.model_registry.sqlalchemy_store
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  before the others have to wait
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
        # An experiment keeps the folder it is created with.
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
    # One that is older than the view gets it: `swarm ui` leads there.
    missing = {key: text for key, text in _tags().items() if key not in found.tags}
    for key, text in missing.items():
        client.set_experiment_tag(found.experiment_id, key, text)
    return Tracking(client, uri, found.experiment_id, experiment)


def runs_page(experiment_id: str) -> str:
    """Return the part of an address, after the server, of the runs with telling columns."""
    return f"/#/experiments/{experiment_id}/runs?viewStateShareKey={_VIEW_NAME}"


def _tags() -> dict[str, str]:
    view = json.dumps({**_VIEW, "selectedColumns": list(_COLUMNS)})
    return {**_KIND, f"mlflow.sharedViewState.{_VIEW_NAME}": view}


def _location(uri: str, artifacts: str | Path | None) -> str | None:
    if artifacts is not None and "://" in str(artifacts):
        return str(artifacts)
    if uri.startswith(("http://", "https://")):
        return None
    if artifacts is not None:
        return Path(artifacts).expanduser().absolute().as_uri()
    file = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    folder = file.parent if is_sqlite(uri) else Path("mlruns").absolute()
    return (folder / "artifacts").as_uri()
