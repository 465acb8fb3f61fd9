"""A problem so small that a run of the select flow takes a few seconds."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.load import from_yaml
from conf.schema import SelectConfig
from conf.yaml_text import render
from flows.run.configured import fetch_as_configured, prepare_as_configured
from swarm.validation.drop_column import FeatureLosses
from tasks.step import step
from tasks.table import Table
from tasks.tracking import Tracking, open_tracking

N_ROWS = 120
# These artifacts depend on configuration, seed and data only.
ANSWER = ("features.json", "history.parquet", "subsets.csv")
BAYES = {"estimator": "sklearn.naive_bayes.GaussianNB"}
# These statements do in another process what :func:`leave_report_out` does.
NO_REPORT = """
from swarm.validation.drop_column import FeatureLosses
from tasks.step import step
flows.run.answer.write_report = step("report")(lambda data: {})
flows.run.answer.losses_on_test = step("drop-features")(
    lambda *_, **options: FeatureLosses("", "", reason="left out")
)
"""
# These columns of the table are no features.
OTHERS = ["number", "kind", "who", "when", "side", "fold"]

# The tables of a search have columns with these names, which sort as x0 to x7 do.
TAKEN = ["cost", "epoch", "feature_cost", "features", "fold_0", "group", "mask", "size"]


def leave_report_out(patch: pytest.MonkeyPatch) -> None:
    """Leave the report and its models out, which take longer than all the rest of a small run."""
    patch.setattr("flows.run.answer.write_report", step("report")(lambda data: {}))
    losses = FeatureLosses("", "", reason="left out")
    patch.setattr(
        "flows.run.answer.losses_on_test", step("drop-features")(lambda *_, **options: losses)
    )


def table(seed: int = 0) -> pd.DataFrame:
    """Return 120 rows: eight features, of which three decide `y`, and a column for every role."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N_ROWS, 8)).round(4)
    signal = features[:, 0] + features[:, 1] - features[:, 2] + rng.normal(scale=0.5, size=N_ROWS)
    frame = pd.DataFrame(features, columns=[f"x{i}" for i in range(8)])
    frame["y"] = (signal > 0).astype(int)
    frame["number"] = signal.round(4)
    frame["kind"] = np.array(["low", "mid", "high"])[np.digitize(signal, [-0.8, 0.8])]
    frame["who"] = [f"g{i // 4}" for i in range(N_ROWS)]
    frame["when"] = np.arange(N_ROWS)
    frame["side"] = np.where(np.arange(N_ROWS) % 4 == 0, "test", "train")
    frame["fold"] = np.arange(N_ROWS) % 3
    return frame


@dataclass(frozen=True)
class Bench:
    """A folder for the archive and artifacts of the runs of a test.

    `uri` is the address of the tracking store, which tests share.
    """

    folder: Path
    uri: str

    def other(self, name: str) -> Bench:
        """Return a bench with another archive and another experiment."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return replace(self, folder=folder)

    def mapping(self, **sections: Any) -> dict[str, Any]:
        """Return the keys of a configuration; mappings but `model` are merged, others replace."""
        data = self.folder / "table.csv"
        if not data.exists():
            table().to_csv(data, index=False)
        base: dict[str, Any] = {
            "name": "small",
            "data": {"source": "file", "path": str(data), "target": "y", "drop": OTHERS},
            "split": {"kind": "stratified"},
            "model": {
                "estimator": "lightgbm.LGBMClassifier",
                "params": {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 5},
            },
            "folds": {"n_folds": 3},
            "prepare": {"n_clusters": 4},
            "strategy": {
                "name": "multiswarm",
                "params": {"n_particles": 4, "n_swarms": 2, "regroup_every": 2},
            },
            "budget": {"epochs": 4},
            "confirm": {"best": 4, "repeats": 1},
            "evaluation": {"n_jobs": 1},
            "ensemble": {"n_models": 3},
            "tracking": {
                "uri": self.uri,
                "experiment": self.experiment,
                "artifacts": str(self.folder / "artifacts"),
            },
            "archive": {"url": self.archive},
        }
        for key, value in sections.items():
            is_merged = isinstance(value, Mapping) and key != "model"
            base[key] = {**base.get(key, {}), **value} if is_merged else value
        return base

    def config(self, **sections: Any) -> SelectConfig:
        """Return the configuration of a run on this bench."""
        return from_yaml(render(self.mapping(**sections)), env={})

    def file(self, **sections: Any) -> str:
        """Write the configuration of a run on this bench, and return its path."""
        path = self.folder / "small.yaml"
        path.write_text(render(self.mapping(**sections)), encoding="utf-8")
        return str(path)

    @property
    def experiment(self) -> str:
        """The name of the experiment: each bench has another."""
        return "-".join(self.folder.parts[-3:])

    @property
    def archive(self) -> str:
        """The address of the archive."""
        return f"sqlite:///{self.folder}/archive.db"

    def paid_for(self) -> int:
        """Return the number of evaluations in the archive."""
        with sqlite3.connect(self.folder / "archive.db") as connection:
            row = connection.execute("SELECT COUNT(*) FROM archive_evaluations").fetchone()
        return int(row[0])

    @property
    def tracking(self) -> Tracking:
        """The experiment of this bench, created where it is new."""
        return open_tracking(self.uri, self.experiment, str(self.folder / "artifacts"))

    def made_anything(self) -> bool:
        """Return whether there is a run; do not create the experiment."""
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=self.uri)
        experiment = client.get_experiment_by_name(self.experiment)
        return experiment is not None and bool(client.search_runs([experiment.experiment_id]))

    def runs(self) -> list[Any]:
        """Return the MLflow runs of this bench, the latest first."""
        return list(self.tracking.client.search_runs([self.tracking.experiment_id]))

    def statuses(self) -> list[str]:
        """Return the status of each run of this bench."""
        return [run.info.status for run in self.runs()]

    def artifact(self, run_id: str, path: str) -> bytes:
        """Return the bytes of an artifact."""
        return self.tracking.download(run_id, path).read_bytes()

    def table(self, run_id: str, path: str) -> pd.DataFrame:
        """Return a table from the artifacts."""
        data = io.BytesIO(self.artifact(run_id, path))
        return pd.read_csv(data) if path.endswith(".csv") else pd.read_parquet(data)

    def children(self, run_id: str) -> list[Any]:
        """Return the runs of the searches of a study."""
        return list(self.tracking.runs(f"tags.`mlflow.parentRunId` = '{run_id}'"))

    def comparison(self, **sections: Any) -> dict[str, Any]:
        """Return the keys of a comparison of three strategies on wine; sections replace them."""
        base = self.mapping()
        return {
            "name": "small",
            "datasets": {"wine": {"data": {"source": "bundled", "name": "wine"}}},
            "strategies": {
                "multiswarm": {"params": {"n_particles": 4, "n_swarms": 2}},
                "random": {"params": {"batch_size": 4}},
                "full": {},
            },
            "seeds": 2,
            "model": BAYES,
            "folds": {"n_folds": 3},
            "budget": {"distinct": 16},
            "runner": {"kind": "threads", "workers": 2},
            "tracking": base["tracking"],
            "archive": base["archive"],
            **sections,
        }

    def answer(self, run_id: str) -> dict[str, bytes]:
        """Return the artifacts that are the same in every run of a search."""
        return {name: self.artifact(run_id, name) for name in ANSWER}

    def steps(self, run_id: str, metric: str = "epoch/diversity") -> list[int]:
        """Return the steps of a metric, in order."""
        points = self.tracking.client.get_metric_history(run_id, metric)
        return sorted(point.step for point in points)


def prepared_by_hand(config: SelectConfig) -> tuple[Table, Table, Any]:
    """Return the training rows, the test rows and the problem, without the flow."""
    data = prepare_as_configured(config, fetch_as_configured(config))
    return data.train, data.test, data.problem
