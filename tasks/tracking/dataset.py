"""A table as MLflow's data set input: its schema, size and digest, never its rows."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import Any

import pandas as pd

from tasks.tracking.store import redact

__all__ = ["dataset_input"]

SCHEMA_LENGTH = 1_048_575


def dataset_input(
    frame: pd.DataFrame, target_name: str | None, name: str, source: str, context: str
) -> Any:
    """Return the ``mlflow.entities.DatasetInput`` that describes a table.

    Parameters
    ----------
    frame : DataFrame (n_rows, n_columns)
        The table, with the target as a column if `target_name` is given.
    target_name : str or None
        Column of the target.
    name, source : str
        Short name, and where the table came from.
    context : str
        What it was used for, such as ``training``.
    """
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.pandas_dataset import PandasDataset
    from mlflow.entities import Dataset, DatasetInput, InputTag

    data = PandasDataset(
        frame,
        CodeDatasetSource({"mlflow.source.name": redact(source)}),
        targets=target_name,
        name=name,
        digest=_digest(frame),
    )
    with warnings.catch_warnings():
        # The hint on integers without missing values is for models, not for a table.
        warnings.simplefilter("ignore", UserWarning)
        fields = data.to_dict()
    schema = fields["schema"]
    dataset = Dataset(
        name=fields["name"],
        digest=fields["digest"],
        source_type=fields["source_type"],
        source=fields["source"],
        # A very wide table has a schema longer than what MLflow takes.
        schema=schema if schema and len(schema) <= SCHEMA_LENGTH else None,
        profile=fields["profile"],
    )
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", context)])


def _digest(frame: pd.DataFrame) -> str:
    """MLflow's own digest walks over every cell in Python, too slow for a wide table."""
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    names = json.dumps([str(name) for name in frame.columns]).encode()
    return hashlib.sha256(rows.tobytes() + names).hexdigest()[:16]
