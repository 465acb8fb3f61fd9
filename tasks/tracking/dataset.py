"""A table as an MLflow dataset input: schema, size and digest, without rows."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import Any

import pandas as pd

from tasks.table import Table
from tasks.tracking.client import Tracking
from tasks.tracking.store import redact, store_errors

SCHEMA_LENGTH = 1_048_575
_FIRST_ROWS = 1000


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
            if not any(told in str(error) for told in ("IntegrityError", "UniqueViolation")):
                raise
            tracking.client.log_inputs(run_id, datasets=[entry])
    return entry.dataset.name, entry.dataset.digest


def dataset_input(frame: pd.DataFrame, name: str, source: str, context: str) -> Any:
    """Return the ``mlflow.entities.DatasetInput`` that describes a table.

    Parameters
    ----------
    frame : DataFrame (n_rows, n_columns)
        The table, with the target as a column.
    name, source : str
        Short name and origin of the table.
    context : str
        Purpose, such as ``training``.
    """
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.entities import Dataset, DatasetInput, InputTag

    schema = json.dumps({"mlflow_colspec": _schema(frame).to_dict()})
    origin = CodeDatasetSource({"mlflow.source.name": redact(source)})
    dataset = Dataset(
        name=name,
        digest=_digest(frame),
        source_type=origin._get_source_type(),
        source=origin.to_json(),
        # The schema of a very wide table exceeds MLflow's limit.
        schema=schema if len(schema) <= SCHEMA_LENGTH else None,
        profile=json.dumps({"num_rows": len(frame), "num_elements": int(frame.size)}),
    )
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", context)])


def _schema(frame: pd.DataFrame) -> Any:
    """Return the ``mlflow.types.Schema`` of a table.

    MLflow's own inference reads all values of each column, several times. The type of numbers,
    booleans and dates follows from their dtype; that of other columns is inferred from their first
    rows.
    """
    from mlflow.types import ColSpec, Schema

    by_dtype: dict[Any, Any] = {}
    columns: list[Any] = []
    missing = frame.isna().any().to_numpy()
    for position, (name, dtype) in enumerate(frame.dtypes.items()):
        if dtype.kind not in "biufM":
            found = _column_type(frame.iloc[:_FIRST_ROWS, [position]])
        else:
            if dtype not in by_dtype:
                by_dtype[dtype] = _column_type(frame.iloc[:1, [position]])
            found = by_dtype[dtype]
        columns.append(ColSpec(found, name=str(name), required=not missing[position]))
    return Schema(columns)


def _column_type(column: pd.DataFrame) -> Any:
    from mlflow.models import infer_signature

    with warnings.catch_warnings():
        # The hint about integer columns and missing values concerns models, not a table.
        warnings.simplefilter("ignore", UserWarning)
        return infer_signature(column).inputs.inputs[0].type


def _digest(frame: pd.DataFrame) -> str:
    """Return a digest of a table; that of MLflow is too slow for wide tables."""
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    names = json.dumps([str(name) for name in frame.columns]).encode()
    return hashlib.sha256(rows.tobytes() + names).hexdigest()[:16]
