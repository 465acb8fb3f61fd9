"""Saving and registering the ensemble of a run as an MLflow model.

The model is a ``PythonModel`` from code. MLflow's scikit-learn flavour, which writes skops as well,
would need this project wherever the ensemble is loaded, and has neither the vote of its members nor
columns of other dtypes. ``log_model`` and ``register_model`` are not used: they write to the run
and the store that are active in the process, print, and register before the predictions are
verified.
"""

import contextlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swarm.arrays import AnyArray
from swarm.ensemble import SubsetEnsemble
from swarm.errors import StoreError
from swarm.reader import Reader
from tasks.models.card import render_card
from tasks.models.files import write_ensemble
from tasks.tracking import Tracking
from tasks.tracking.store import load_mlflow, store_errors
from tasks.tracking.writes import PARAM_LENGTH, accepted_key, truncate

EXAMPLE_ROWS = 5
# These tags of a run become tags of its version.
_VERSION_TAGS = ("config", "config.digest", "data", "problem", "strategy", "seed")


class ModelInfo(NamedTuple):
    """A saved model.

    Attributes
    ----------
    uri : str
        ``models:/NAME/VERSION`` if it is registered, else ``models:/MODEL_ID``.
    model_id : str
    """

    uri: str
    model_id: str


def log_ensemble(
    tracking: Tracking,
    run_id: str,
    ensemble: SubsetEnsemble,
    example: pd.DataFrame,
    registered_name: str | None,
    description: str | None = None,
    *,
    name: str = "ensemble",
    reader: Reader | None = None,
    params: Mapping[str, object] | None = None,
    card: Mapping[str, Any] | None = None,
) -> ModelInfo:
    """Save a fitted ensemble as a model of a run, verify it on the example, and register it.

    The model reads rows as in the source, in columns of any order, and ignores other columns.

    Parameters
    ----------
    tracking : Tracking
    run_id : str
    ensemble : SubsetEnsemble
    example : DataFrame
        Rows as in the source; the first five are the input example.
    registered_name : str or None
        Name in the registry, created if new; None saves without registering.
    description : str, optional
        Description of the version.
    name : str
        Name of the model in its run.
    reader : Reader, optional
        Reader of the training table; learned from `example` by default.
    params : dict, optional
        Parameters by which models can be searched.
    card : dict, optional
        Facts of its README; see :func:`~tasks.models.card.render_card`.

    Raises
    ------
    StoreError
        If a member cannot be stored safely, its predictions differ, or the store does not accept
        the model.
    """
    load_mlflow()
    from mlflow.entities import LoggedModelOutput

    used = {name for subset in ensemble.subsets_ for name in subset}
    reader = (reader or Reader.learn(example)).restricted(used)
    with tempfile.TemporaryDirectory(prefix="ensemble-") as scratch:
        members = Path(scratch) / "ensemble"
        members.mkdir()
        packages = write_ensemble(ensemble, reader, reader.read(example), members)
        with store_errors(tracking.uri, "save the model"):
            model = tracking.client.create_logged_model(
                tracking.client.get_run(run_id).info.experiment_id,
                name=name,
                source_run_id=run_id,
                params={
                    accepted_key(key): truncate(value, PARAM_LENGTH)
                    for key, value in (params or {}).items()
                    if value is not None
                },
                model_type="ensemble",
            )
        folder = Path(scratch) / "model"
        try:
            _save(
                ensemble,
                example[reader.inputs],
                reader,
                members=members,
                folder=folder,
                packages=packages,
                model=model,
                run_id=run_id,
            )
            if card is not None:
                row = _records(example[reader.inputs].head(1))[0]
                text = render_card(card, f"models:/{model.model_id}", row)
                (folder / "README.md").write_text(text, encoding="utf-8")
            with store_errors(tracking.uri, "upload the model"):
                tracking.client.log_model_artifacts(model.model_id, str(folder))
                tracking.client.finalize_logged_model(model.model_id, "READY")
                outputs = [LoggedModelOutput(model.model_id, step=0)]
                tracking.client.log_outputs(run_id, models=outputs)
        except Exception:
            with contextlib.suppress(Exception):
                tracking.client.finalize_logged_model(model.model_id, "FAILED")
            raise
    uri = f"models:/{model.model_id}"
    if registered_name is not None:
        uri = register_logged(tracking, run_id, model.model_id, registered_name, description)
    return ModelInfo(uri, model.model_id)


def is_version(uri: str) -> bool:
    """Return whether the URI of a model names a version in the registry."""
    return uri.removeprefix("models:/").count("/") == 1


def register_logged(
    tracking: Tracking, run_id: str, model_id: str, name: str, description: str | None = None
) -> str:
    """Register a model that a run has saved, or raise StoreError; return the URI of the version."""
    with store_errors(tracking.uri, f"register the model {name!r}"):
        number = _register(tracking, name, model_id, run_id, description)
    return f"models:/{name}/{number}"


def _save(
    ensemble: SubsetEnsemble,
    example: pd.DataFrame,
    reader: Reader,
    *,
    members: Path,
    folder: Path,
    packages: list[str],
    model: Any,
    run_id: str,
) -> None:
    """Write the folder of the model, and verify that its predictions match the ensemble."""
    import mlflow
    from mlflow.models import Model

    features = reader.read(example)
    expected = np.asarray(ensemble.predict(features))
    record = Model(
        artifact_path=model.artifact_location,
        run_id=run_id,
        model_uuid=model.model_id,
        model_id=model.model_id,
    )
    with warnings.catch_warnings():
        # MLflow hints at how to write models, and its dependencies warn of deprecations.
        warnings.simplefilter("ignore")
        mlflow.pyfunc.save_model(
            path=str(folder),
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"ensemble": str(members)},
            signature=_signature(ensemble, reader, expected),
            input_example=_records(example.head(EXAMPLE_ROWS)),
            pip_requirements=_requirements(packages),
            mlflow_model=record,
        )
        _forget_local_paths(record, folder)
        loaded = mlflow.pyfunc.load_model(str(folder))
        same = _equal(np.asarray(loaded.predict(example)), expected)
        if hasattr(ensemble, "mean_proba"):
            served = np.asarray(loaded.predict(example, params={"probabilities": True}))
            probabilities = _served_columns(ensemble.mean_proba(features), ensemble.classes_)
            same = same and _equal(served, probabilities)
    # Loading has compiled the code of the model.
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    if not same:
        raise StoreError(
            "the predictions of the saved model differ from those of the ensemble, so it is not "
            "registered; use an estimator of scikit-learn or LightGBM"
        )


def _equal(served: AnyArray, expected: AnyArray) -> bool:
    if served.shape != expected.shape:
        return False
    if expected.dtype.kind != "f":
        return np.array_equal(served, expected)
    return np.allclose(served, expected, rtol=1e-12, atol=1e-15, equal_nan=True)


def _served_columns(probabilities: Any, classes: Any) -> AnyArray:
    """Return probabilities as served: a column per class, or per label of a multi-label model."""
    if not isinstance(probabilities, list):
        return np.asarray(probabilities)
    pairs = zip(probabilities, classes, strict=True)
    return np.column_stack([p[:, -1] if labels[-1] else np.zeros(len(p)) for p, labels in pairs])


def _forget_local_paths(record: Any, folder: Path) -> None:
    """Remove local paths from the record, as loading needs only the names."""
    flavor = record.flavors["python_function"]
    flavor["model_code_path"] = Path(flavor["model_code_path"]).name
    for artifact in flavor["artifacts"].values():
        artifact["uri"] = artifact["path"]
    record.save(str(folder / "MLmodel"))


def _records(example: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as a request has them, for JSON."""
    return json.loads(example.to_json(orient="records", date_format="iso", double_precision=15))


def _signature(ensemble: SubsetEnsemble, reader: Reader, expected: AnyArray) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema

    columns: list[Any] = [
        ColSpec(DataType[column.type], name=column.name, required=not column.optional)
        for column in reader.columns
    ]
    outputs = {"b": DataType.boolean, "i": DataType.long, "u": DataType.long, "f": DataType.double}
    output = outputs.get(expected.dtype.kind, DataType.string)
    names = [None] if expected.ndim == 1 else ensemble.labels_
    outcome: list[Any] = [ColSpec(output, name=name) for name in names]
    signature = ModelSignature(Schema(columns), Schema(outcome))
    if hasattr(ensemble, "mean_proba"):
        signature.params = ParamSchema([ParamSpec("probabilities", DataType.boolean, False)])
    # The model checks its rows itself, like models with type hints. MLflow would refuse whole
    # numbers in a column of fractions, a gap in a column of whole numbers, and texts such as "?".
    signature._is_signature_from_type_hint = True
    return signature


def _requirements(packages: list[str]) -> list[str]:
    """Pin the packages here: MLflow would infer them by loading the model in a subprocess."""
    names = ["mlflow", "numpy", "pandas", *packages]
    return [f"{name}=={version(name)}" for name in dict.fromkeys(names)]


def _register(
    tracking: Tracking, name: str, model_id: str, run_id: str, description: str | None
) -> str:
    from mlflow.exceptions import MlflowException

    client = tracking.client
    run_tags = client.get_run(run_id).data.tags
    tags = {"run": run_id} | {key: run_tags[key] for key in _VERSION_TAGS if key in run_tags}
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_ALREADY_EXISTS", "ALREADY_EXISTS"):
            raise
    with default_store(tracking.uri):
        created = client.create_model_version(
            name, f"models:/{model_id}", run_id, tags, description=description, model_id=model_id
        )
    model = client.get_logged_model(model_id)
    versions = json.loads(model.tags.get("mlflow.modelVersions", "[]"))
    listed = {(entry["name"], str(entry["version"])) for entry in versions}
    # A tracking server adds this tag itself, with a number; a database store does not.
    if (name, str(created.version)) not in listed:
        entry = {"name": name, "version": created.version}
        tags = {"mlflow.modelVersions": json.dumps([*versions, entry])}
        client.set_logged_model_tags(model_id, tags)
    return str(created.version)


@contextlib.contextmanager
def default_store(uri: str) -> Iterator[None]:
    """Set the store as MLflow's default, in which its registry looks up the model."""
    import mlflow

    chosen = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        # MLflow sets the variable too; None removes both.
        mlflow.set_tracking_uri(chosen)  # type: ignore[arg-type]
