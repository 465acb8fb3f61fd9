"""A flow of one's own: select columns, train a model on them, and predict a batch.

The select flow is a subflow; the other steps are ordinary Prefect tasks. All files are in a
temporary folder.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Before Prefect is imported. A server of your own: set PREFECT_API_URL instead.
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "180")
os.environ.setdefault("PREFECT_HOME", tempfile.mkdtemp())
os.environ.setdefault("DO_NOT_TRACK", "1")

import pandas as pd
from prefect import flow, task
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conf.load import from_yaml
from conf.schema import SelectConfig
from flows.select import select
from tasks.steps import fetch_data

CONFIG = """
name: cells
data: {{source: file, path: {folder}/cells.csv, target: target}}
model: {{estimator: sklearn.naive_bayes.GaussianNB}}
budget: {{epochs: 5}}
tracking: {{uri: "sqlite:///{folder}/mlflow.db", artifacts: {folder}/artifacts, register: false}}
archive: {{url: "sqlite:///{folder}/archive.db"}}
"""


@task
def train(features: pd.DataFrame, target: pd.Series) -> object:
    """Train a model that the search did not use."""
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(features, target)


@task
def predict(model: object, batch: pd.DataFrame) -> pd.Series:
    """Predict the classes of new rows."""
    return pd.Series(model.predict(batch), batch.index, name="class")  # type: ignore[attr-defined]


@flow(name="cells")
def cells(config: SelectConfig, batch: Path) -> pd.Series:
    """Select columns, train on them, and predict the rows of a file."""
    columns = select(config, verbosity=0).result.features
    table = fetch_data("file", path=config.data.path, target=config.data.target)
    model = train(table.features[columns], table.target)
    predicted = predict(model, pd.read_csv(batch)[columns])
    print(f"{len(columns)} of {table.features.shape[1]} columns, {len(predicted)} rows predicted")
    return predicted


def main() -> None:
    """Keep 69 rows as the batch, and run the flow on the others."""
    frame = load_breast_cancer(as_frame=True).frame
    with tempfile.TemporaryDirectory() as folder:
        frame[:500].to_csv(f"{folder}/cells.csv", index=False)
        frame[500:].drop(columns="target").to_csv(f"{folder}/batch.csv", index=False)
        config = from_yaml(CONFIG.format(folder=folder), env={})
        predicted = cells(config, Path(folder, "batch.csv"))
    right = predicted.to_numpy() == frame["target"][500:].to_numpy()
    print(f"{right.mean():.0%} of them are right")


if __name__ == "__main__":
    main()
