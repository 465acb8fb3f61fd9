"""A table as an MLflow dataset input: schema, size and digest, without rows."""

import hashlib
import json
import warnings
from typing import Any

import pandas as pd

from swarm.findings.rows import hash_rows
from swarm.redaction import redact
from tasks.table import Table
from tasks.tracking.client import Tracking
from tasks.tracking.store import store_errors

# MLflow limits the characters of a schema, and the shortest column in it has 46.
_MAX_SCHEMA_LENGTH = 1_048_575
_MIN_COLUMN_LENGTH = 46
_N_FIRST_ROWS = 100


def log_dataset(
    tracking: Tracking, run_id: str, table: Table, name: str, context: str
) -> tuple[str, str]:
    """Attach a table to a run, unless the run has it already.

    Metrics refer to it by the name and the digest that are returned.
    """
    from mlflow.exceptions import MlflowException

    labels = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
    frame = pd.concat([table.features, labels], axis=1)
    entry = dataset_input(frame, name, table.source, context)
    with store_errors(tracking.uri, f"log the data set {name!r}"):
        try:
            tracking.client.log_inputs(run_id, datasets=[entry])
        except MlflowException as error:
            # Another run has added the same table since MLflow looked for it.
            if not any(code in str(error) for code in ("IntegrityError", "UniqueViolation")):
                raise
            tracking.client.log_inputs(run_id, datasets=[entry])
    return entry.dataset.name, entry.dataset.digest


def dataset_input(frame: pd.DataFrame, name: str, source: str, context: str) -> Any:
    """Describe a table as an ``mlflow.entities.DatasetInput``.

    The target is a column of `frame`; `context` is its purpose, such as ``training``.
    """
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.pandas_dataset import from_pandas
    from mlflow.entities import Dataset, DatasetInput, InputTag

    origin = CodeDatasetSource({"mlflow.source.name": redact(source)})
    # MLflow's inference of the schema reads all values of each column, several times.
    first = frame.head(_N_FIRST_ROWS)
    fits = frame.shape[1] <= _MAX_SCHEMA_LENGTH // _MIN_COLUMN_LENGTH
    if not fits:
        first = first.iloc[:, :1]
    with warnings.catch_warnings():
        # The hint about integer columns and missing values concerns models, not a table.
        warnings.simplefilter("ignore", UserWarning)
        entry = from_pandas(first, origin, name=name, digest=_digest(frame)).to_dict()
    entry["profile"] = json.dumps({"num_rows": len(frame), "num_elements": int(frame.size)})
    if not fits or len(entry["schema"]) > _MAX_SCHEMA_LENGTH:
        del entry["schema"]
    return DatasetInput(Dataset(**entry), tags=[InputTag("mlflow.data.context", context)])


def _digest(frame: pd.DataFrame) -> str:
    """Return a digest of a table; MLflow's own is too slow for wide tables."""
    names = json.dumps([str(name) for name in frame.columns]).encode()
    return hashlib.sha256(hash_rows(frame).tobytes() + names).hexdigest()[:16]
