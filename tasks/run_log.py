"""The record of one search in MLflow: what is sent, when, and under which name."""

from __future__ import annotations

import contextlib
import io
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from swarm.errors import ConfigError, StoreError
from swarm.problem.problem import Problem
from swarm.search.history import EpochRecord
from tasks.metric_names import charted, charted_name
from tasks.run_fields import PARAM_LENGTH, accepted_key, cut
from tasks.spool import Spool
from tasks.table import Table
from tasks.tracking import RunRecord, Tracking
from tasks.writable import require_writable

__all__ = ["RunLog", "describe_run", "parquet"]

_CLOSE_SECONDS = 120.0


@dataclass
class RunLog:
    """Writes one run through a spool, so that the tracking store can neither stop nor slow it.

    Attributes
    ----------
    run_id : str
    tags : mapping of str to str
        What the run searches and with which code, see :func:`describe_run`.
    logged : int
        Epochs that the run has already; an epoch is never logged twice.
    """

    tracking: Tracking
    spool: Spool
    folder: Path
    run_id: str
    tags: Mapping[str, str]
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
        _require_stores(tracking, spool_folder)
        run_id = tracking.start_run(name, params, tags, description)
        folder = Path(spool_folder) / run_id
        with _ended_on_error(tracking, run_id):
            log = cls(tracking, Spool(folder, tracking, run_id), folder, run_id, tags)
            log.spool.artifact("config.yaml", config_yaml.encode())
            # Resuming reads it from the store: until it is there, nothing is worth resuming.
            log.settle()
            target = table.target
            labels = target.to_frame() if isinstance(target, pd.Series) else target
            frame = pd.concat([table.features, labels], axis=1)
            single = str(labels.columns[0]) if labels.shape[1] == 1 else None
            tracking.log_dataset(run_id, frame, single, table.name, table.source, "training")
        return log

    @classmethod
    def resume(
        cls,
        tracking: Tracking,
        spool_folder: str,
        run_id: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        config_yaml: str,
    ) -> RunLog:
        """Go on with a run that was interrupted, or extend one that ended.

        Raises
        ------
        ConfigError
            If the search is another one than the run was started with; says what differs.
        StoreError
            If the store does not take what an earlier start left in the spool.
        """
        _refuse_another_search(tracking.run(run_id), params, tags)
        _require_stores(tracking, spool_folder)
        folder = Path(spool_folder) / run_id
        log = cls(tracking, Spool(folder, tracking, run_id), folder, run_id, tags)
        # How an earlier start ended may wait there too; it must not arrive after this one began.
        log.settle()
        tracking.resume_run(run_id)
        with _ended_on_error(tracking, run_id):
            if "error" in tracking.run(run_id).tags:
                tracking.client.delete_tag(run_id, "error")
            log.spool.artifact("config.yaml", config_yaml.encode())
            log.logged = max(tracking.last_step(run_id, charted_name("best_cost")), 0)
        return log

    def epoch(self, record: EpochRecord) -> None:
        """Log one epoch: its particles as an artifact, then its metrics."""
        if record.epoch <= self.logged:
            return
        self.spool.artifact(f"epochs/{record.epoch:04d}.parquet", parquet(record.particles))
        work = {f"work_{name}": float(value) for name, value in vars(record.work).items()}
        self.spool.metrics(record.epoch, charted({**record.metrics, **work}))
        self.logged = record.epoch

    def judged(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the test figures after `step` epochs, unless an earlier start did."""
        # The store is asked, so one that is away for a moment has to be waited for.
        self.settle()
        named = charted(metrics)
        if any(self.tracking.last_step(self.run_id, name) >= step for name in named):
            return
        self.spool.metrics(step, named)

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


# Two runs that differ in one of these tags are different searches.
_IDENTITY = ("rows", "columns", "strategy", "seed")
# Keys of the configuration that change a search but not its problem,
_SEARCH = ("strategy.", "space.", "prepare.", "evaluation.racing", "proxy")
# and those that a change of the problem may come from.
_PROBLEM = ("data.", "split.", "model.", "scoring", "pos_label", "folds.", "evaluation.importance")


def _require_stores(tracking: Tracking, spool_folder: str) -> None:
    """Refuse a spool or an artifact folder that cannot be written, before there is a run."""
    remedy = "set tracking.spool to a folder that can be written"
    require_writable(Path(spool_folder), "the spool", remedy)
    tracking.require_writable()


@contextlib.contextmanager
def _ended_on_error(tracking: Tracking, run_id: str) -> Iterator[None]:
    """Never leave a run behind as RUNNING that cannot be written to."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(StoreError):
            tracking.finish(run_id, "FAILED")
        raise


def _refuse_another_search(
    run: RunRecord, params: Mapping[str, object], tags: Mapping[str, str]
) -> None:
    written = {accepted_key(key): cut(value, PARAM_LENGTH) for key, value in params.items()}
    differs = [
        (key, run.params.get(key, "not set"), written.get(key, "not set"))
        for key in {**run.params, **written}
        # A key that is newer than the run was null in it.
        if run.params.get(key, "null") != written.get(key, "null")
    ]
    found = [(key, run.tags.get(key, tags[key]), tags[key]) for key in _IDENTITY]
    found = [(key, was, now) for key, was, now in found if was != now]
    found += [change for change in differs if change[0].startswith(_SEARCH)]
    if run.tags.get("problem", tags["problem"]) != tags["problem"]:
        found += [change for change in differs if change[0].startswith(_PROBLEM)]
        versions = [key for key in tags if key.startswith("version.")]
        found += [
            (key, run.tags.get(key, "not set"), tags[key])
            for key in versions
            if run.tags.get(key) != tags[key]
        ]
        found += [("the values of the table, problem", run.tags["problem"], tags["problem"])]
    if found:
        key, was, now = found[0]
        raise ConfigError(
            f"the run {run.run_id} was started with {key} {was!r} but now it is {now!r}; "
            "start a new run with `swarm select`"
        )


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
