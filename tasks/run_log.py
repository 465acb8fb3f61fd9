"""The record of one search in MLflow: what is sent, when, and under which name."""

from __future__ import annotations

import contextlib
import io
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from swarm.errors import ConfigError, StoreError
from swarm.history import EpochRecord
from swarm.problem import Problem
from tasks.spool import Spool
from tasks.table import Table
from tasks.tracking import Tracking

__all__ = ["RunLog", "describe_run", "parquet"]

_CLOSE_SECONDS = 120.0


@dataclass
class RunLog:
    """Writes one run through a spool, so that the tracking store can neither stop nor slow it.

    Attributes
    ----------
    run_id : str
    logged : int
        Epochs that the run has already; an epoch is never logged twice.
    """

    tracking: Tracking
    spool: Spool
    folder: Path
    run_id: str
    logged: int = 0

    @classmethod
    def start(
        cls,
        tracking: Tracking,
        spool_folder: str,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        config_yaml: str,
        table: Table,
        description: str | None = None,
    ) -> RunLog:
        """Create the run, and leave in it what is needed to resume it.

        Raises
        ------
        StoreError
            If the store does not take it; then nothing has been trained.
        """
        run_id = tracking.start_run(name, params, tags, description)
        folder = Path(spool_folder) / run_id
        log = cls(tracking, Spool(folder, tracking, run_id), folder, run_id)
        log.spool.artifact("config.yaml", config_yaml.encode())
        target = table.target
        labels = target.to_frame() if isinstance(target, pd.Series) else target
        frame = pd.concat([table.features, labels], axis=1)
        single = str(labels.columns[0]) if labels.shape[1] == 1 else None
        tracking.log_dataset(run_id, frame, single, table.name, table.source, "training")
        return log

    @classmethod
    def resume(
        cls, tracking: Tracking, spool_folder: str, run_id: str, tags: Mapping[str, str]
    ) -> RunLog:
        """Go on with a run that was interrupted, or extend one that ended.

        Raises
        ------
        ConfigError
            If the problem is another one than the run was started with; says what differs.
        """
        known = tracking.run(run_id).tags
        for key in _IDENTITY:
            if key in known and known[key] != tags[key]:
                raise ConfigError(
                    f"the run {run_id} was started with {key} {known[key]!r} but now it is "
                    f"{tags[key]!r}; start a new run with `swarm select`"
                )
        tracking.resume_run(run_id)
        if "error" in known:
            tracking.client.delete_tag(run_id, "error")
        folder = Path(spool_folder) / run_id
        spool = Spool(folder, tracking, run_id)
        logged = max(tracking.last_step(run_id, "best_cost"), spool.last_step("best_cost"))
        return cls(tracking, spool, folder, run_id, max(logged, 0))

    def epoch(self, record: EpochRecord) -> None:
        """Log one epoch: its particles as an artifact, then its metrics."""
        if record.epoch <= self.logged:
            return
        self.spool.artifact(f"epochs/{record.epoch:04d}.parquet", parquet(record.particles))
        work = {f"work_{name}": float(value) for name, value in vars(record.work).items()}
        self.spool.metrics(record.epoch, {**record.metrics, **work})
        self.logged = record.epoch

    def judged(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the test figures after `step` epochs, unless an earlier start did."""
        if any(self.tracking.last_step(self.run_id, name) >= step for name in metrics):
            return
        self.spool.metrics(step, metrics)

    def earlier_model(self, answer: str) -> str | None:
        """Address of the model that an earlier start of the run registered for this answer."""
        known = self.tracking.run(self.run_id).tags
        return known.get("model") if known.get("answer") == answer else None

    def files(self, files: Mapping[str, bytes]) -> None:
        """Log artifacts by their path in the run."""
        for path, data in files.items():
            self.spool.artifact(path, data)

    def close(self, status: str, timeout: float = _CLOSE_SECONDS) -> int:
        """End the run and send what waits; return how many messages wait for the next start."""
        self.spool.finish(status)
        left = self.spool.close(timeout)
        if left == 0:
            # An empty folder would look like something that waits; what was refused stays.
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        return left

    def settle(self, timeout: float = _CLOSE_SECONDS) -> None:
        """Wait until the store has everything that was logged so far.

        Raises
        ------
        StoreError
            If it does not within `timeout` seconds; what waits is sent by the next resume.
        """
        left = self.spool.drain(timeout)
        if left:
            raise StoreError(
                f"{left} messages wait for {self.tracking.label} ({self.spool.last_error}); "
                f"when it is back, `swarm resume {self.run_id}` sends them"
            )


# Two runs that differ in one of these are searches of different problems.
_IDENTITY = ("rows", "columns", "strategy", "seed", "problem")


def describe_run(problem: Problem, source: str, strategy: str, seed: int) -> dict[str, str]:
    """Tags of a run: what it searched, with which code."""
    tags = {
        "strategy": strategy,
        "seed": str(seed),
        "problem": problem.fingerprint(),
        "data": source,
        "task": problem.task,
        "rows": str(len(problem.target)),
        "columns": str(problem.space.n_columns),
        "scoring": problem.scoring.name,
        "estimator": type(problem.estimator).__name__,
        "python": platform.python_version(),
    }
    for package in ("swarmselect", "lightgbm", "scikit-learn", "numpy", "pandas", "prefect"):
        tags[f"version.{package}"] = version(package)
    commit = _git_commit()
    return {**tags, "mlflow.source.git.commit": commit} if commit else tags


def parquet(frame: pd.DataFrame) -> bytes:
    """Parquet bytes of a frame; equal for equal frames."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _git_commit() -> str | None:
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() if told.returncode == 0 else None
