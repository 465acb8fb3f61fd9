"""A table as an MLflow dataset input: schema, size and digest, without rows."""

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
        Short name and origin of the table.
    context : str
        Purpose, such as ``training``.
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
        # The hint about integer columns and missing values concerns models, not a table.
        warnings.simplefilter("ignore", UserWarning)
        fields = data.to_dict()
    schema = fields["schema"]
    dataset = Dataset(
        name=fields["name"],
        digest=fields["digest"],
        source_type=fields["source_type"],
        source=fields["source"],
        # The schema of a very wide table exceeds MLflow's limit.
        schema=schema if schema and len(schema) <= SCHEMA_LENGTH else None,
        profile=fields["profile"],
    )
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", context)])


def _digest(frame: pd.DataFrame) -> str:
    """Return a digest of a table; that of MLflow is too slow for wide tables."""
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    names = json.dumps([str(name) for name in frame.columns]).encode()
    return hashlib.sha256(rows.tobytes() + names).hexdigest()[:16]
