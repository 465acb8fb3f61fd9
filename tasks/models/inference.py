"""Loading a stored model, and predicting rows with it."""

from typing import Any

import pandas as pd

from swarm.errors import DataError, InputError
from tasks.models.registry import is_version
from tasks.sources.file import read_file
from tasks.tracking import Tracking
from tasks.tracking.store import load_mlflow, store_errors


def load_model(tracking: Tracking, uri: str) -> Any:
    """Load a model as a consumer loads it, ``models:/MODEL_ID`` or ``models:/NAME/VERSION``."""
    mlflow = load_mlflow()
    with store_errors(tracking.uri, f"load the model {uri}"):
        source = uri
        if is_version(uri):
            name, _, version = uri.removeprefix("models:/").rpartition("/")
            source = str(tracking.client.get_model_version(name, version).source)
        if source.startswith("models:/"):
            logged = tracking.client.get_logged_model(source.removeprefix("models:/"))
            source = str(logged.artifact_location)
        folder = mlflow.artifacts.download_artifacts(artifact_uri=source, tracking_uri=tracking.uri)
        return mlflow.pyfunc.load_model(str(folder))


def model_of_run(tracking: Tracking, run_id: str) -> str:
    """Return the URI of the model that a run has stored; InputError if there is none."""
    run = tracking.run(run_id)
    uri = run.data.tags.get("model")
    if not uri:
        raise InputError(
            f"the run {run.info.run_id} has no stored model; use a finished run of `swarm select` "
            "or `swarm refresh` whose estimator can be stored"
        )
    return str(uri)


def predict_file(model: Any, uri: str, path: str) -> pd.DataFrame:
    """Predict the rows of a file, in their order; see :func:`load_model`.

    Columns: ``prediction``, or the labels, then ``probability_CLASS`` if the model has them.
    DataError if a column is missing, or a cell cannot be read.
    """
    stored = model.unwrap_python_model()
    reader = getattr(stored, "reader", None)
    if reader is None:
        raise InputError(f"{uri} was not stored by swarm; load it with mlflow.pyfunc.load_model")
    # The reader has the style of the training table if that was text; otherwise use the defaults.
    raw = read_file(path, **(reader.csv or {}), text=reader.texts)
    try:
        return _table(stored, raw.frame)
    except ValueError as error:
        raise DataError(f"cannot predict {raw.source.removeprefix('file:')!r}: {error}") from error


def _table(stored: Any, cells: pd.DataFrame) -> pd.DataFrame:
    predicted = stored.predict(None, cells)
    if not isinstance(predicted, pd.DataFrame):
        predicted = pd.DataFrame({"prediction": predicted})
    if not stored.spec.get("probabilities"):
        return predicted
    probabilities = stored.predict(None, cells, params={"probabilities": True})
    return predicted.join(probabilities.add_prefix("probability_"))
