"""The log of one run in MLflow: what is written, when, under which name, and how it ends."""

from __future__ import annotations

import contextlib
import io
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self

import pandas as pd

from swarm.errors import ConfigError, StoreError, SwarmError
from swarm.problem.problem import Problem
from swarm.redaction import redact
from swarm.search.history import EpochRecord
from tasks.table import Table
from tasks.tracking.client import RunRecord, Tracking
from tasks.tracking.names import PARAM_LENGTH, accepted_key, charted, charted_name, cut
from tasks.tracking.outbox import Outbox, Send, Unsendable
from tasks.tracking.store import within
from tasks.tracking.writes import (
    create_run,
    end_run,
    find_child,
    log_file,
    log_params,
    log_points,
    log_tags,
    reopen_run,
)

__all__ = ["RunLog", "describe_run", "failure", "parquet", "refuse_another_search"]

# What a run that failed waits for its store, at most.
_PATIENCE_FAILED = 30.0
_LAST_WORD_SECONDS = 5.0

# An artifact, or what makes it when it is sent.
Content = bytes | Callable[[], bytes]


class RunLog:
    """Writes one run in the background: a slow or absent store neither stops nor slows a search.

    As a context it ends the run whatever happens. This is the one place that promises that no run
    is left behind as ``RUNNING``; only a process that is killed, or a store that is away when the
    process ends, can break it, and a resume mends that.

    Attributes
    ----------
    tracking : Tracking
    run_id : str
        Empty while a child waits to be created.
    tags : mapping of str to str
        What the run searches and with which code, see :func:`describe_run`.
    outbox : Outbox
        Shared with the children of the run.
    patience : float
        Seconds in which the store takes nothing, after which nobody waits for it any longer.
    """

    patience = 120.0

    def __init__(
        self,
        tracking: Tracking,
        run_id: str,
        tags: Mapping[str, str] | None = None,
        *,
        steps: Mapping[str, set[int]] | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.tracking = tracking
        self.run_id = run_id
        self.tags = dict(tags or {})
        self.outbox = outbox or Outbox(tracking.client, tracking.uri)
        # Steps of each metric that the store has or that wait for it: none is logged twice.
        self._steps = dict(steps or {})
        self._children: list[RunLog] = []
        self._unsettled = False
        # How the run ended, and whether the store knows.
        self._end: tuple[str, str | None] | None = None
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.outbox.closed:
            return
        if error is None:
            self.close()
            return
        for child in self._children:
            if child._end is None:
                child.finish("KILLED")
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        # Where `settle` has waited in vain, waiting once more would say nothing new.
        patience = 0.0 if self._unsettled else min(self.patience, _PATIENCE_FAILED)
        self.close(status, failure(error), patience)

    @classmethod
    def start(
        cls,
        tracking: Tracking,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        config_yaml: str,
        *,
        table: Table | None = None,
        description: str | None = None,
    ) -> RunLog:
        """Create the run, and leave in it what is needed to resume it.

        Raises
        ------
        StoreError
            If the store does not take it; then nothing has been trained.
        """
        tracking.require_writable()
        # Without parameters: what fails from here on ends the run.
        run_id = tracking.start_run(name, {}, tags, description)
        with contextlib.ExitStack() as unless_ready:
            log = unless_ready.enter_context(cls(tracking, run_id, tags))
            tracking.log_params(run_id, params)
            tracking.log_file(run_id, "config.yaml", config_yaml.encode())
            if table is not None:
                log._dataset(table)
            unless_ready.pop_all()
        return log

    @classmethod
    def resume(
        cls,
        tracking: Tracking,
        run_id: str,
        tags: Mapping[str, str],
        config_yaml: str | None = None,
    ) -> RunLog:
        """Go on with a run that was interrupted, or extend one that ended.

        What the store lacks is written once, as the search is replayed; what it has is not
        written again.

        Raises
        ------
        StoreError
            If the store does not take it; then nothing has been trained.
        """
        tracking.require_writable()
        tracking.resume_run(run_id)
        with contextlib.ExitStack() as unless_ready:
            log = unless_ready.enter_context(cls(tracking, run_id, tags))
            log._steps |= tracking.steps(run_id)
            if config_yaml is not None:
                tracking.log_file(run_id, "config.yaml", config_yaml.encode())
            unless_ready.pop_all()
        return log

    def child(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        run_id: str | None = None,
        steps: Mapping[str, set[int]] | None = None,
    ) -> RunLog:
        """Open a run under this one, or go on with one that did not finish.

        Parameters
        ----------
        name : str
            No other child has it.
        params, tags : mapping
            Of a new run.
        run_id : str, optional
            Of the run to go on with.
        steps : mapping of str to set of int, optional
            Steps of each metric that it has.
        """
        log = RunLog(self.tracking, run_id or "", tags, steps=steps, outbox=self.outbox)
        if run_id is None:
            log._create(self.run_id, name, params)
        else:
            log._put("its restart", lambda client: reopen_run(client, run_id))
        self._children.append(log)
        return log

    def epoch(self, record: EpochRecord) -> None:
        """Log one epoch: its particles as an artifact, then its metrics."""
        # A store that has the metrics has the artifact, which was sent before.
        if record.epoch not in self._steps.get(charted_name("best_cost"), ()):
            self.files({f"epochs/{record.epoch:04d}.parquet": lambda: parquet(record.particles)})
        work = {f"work_{name}": float(value) for name, value in vars(record.work).items()}
        self.metrics({record.epoch: {**record.metrics, **work}})

    def metrics(self, values: Mapping[int, Mapping[str, float | None]]) -> None:
        """Log figures by step, each once; None is left out, NaN is kept."""
        points = []
        for step, figures in values.items():
            for name, value in charted(figures).items():
                known = self._steps.setdefault(accepted_key(name), set())
                if value is not None and step not in known:
                    known.add(step)
                    points.append((accepted_key(name), float(value), step))
        if points:
            now = _now()
            what = f"metrics of step {points[-1][2]}"
            self._put(what, lambda client: log_points(client, self.run_id, points, now))

    def tag(self, tags: Mapping[str, str]) -> None:
        """Set tags of the run."""
        self._put("tags", lambda client: log_tags(client, self.run_id, tags))

    def files(self, files: Mapping[str, Content]) -> None:
        """Log artifacts by their path in the run, a relative path such as ``a/b.csv``.

        Parameters
        ----------
        files : mapping of str to bytes or callable
            What is large and can be made again is given as a function, which is called when its
            artifact is sent: while it waits it takes no memory.
        """
        for path, content in files.items():
            _require_inside(path)
            self._put(f"the artifact {path!r}", self._sends_file(path, content))

    def settle(self) -> None:
        """Wait until the store has everything that was logged so far.

        Raises
        ------
        StoreError
            If it took nothing for so long that it is given up.
        """
        left = self.outbox.drain(self.patience)
        if left:
            self._unsettled = True
            raise StoreError(self._waits(left))

    def finish(self, status: str = "FINISHED", error: str | None = None) -> None:
        """Log that the run ended as ``FINISHED``, ``FAILED`` or ``KILLED``, and why."""
        now, self._end = _now(), (status, error)

        def send(client: Any) -> None:
            end_run(client, self.run_id, status, error, now)
            self._has_ended = True

        self._put("its end", send)

    def close(
        self,
        status: str = "FINISHED",
        error: str | None = None,
        patience: float | None = None,
    ) -> str:
        """Finish the run, send what waits, and write no more.

        Returns
        -------
        unsent : str
            A sentence that says how much the store has not taken, and how to send it; empty where
            it has everything.
        """
        self.finish(status, error)
        left = self.outbox.close(self.patience if patience is None else patience)
        if not left:
            return ""
        unsent = self._waits(left)
        # A store that takes no artifacts may still take that nobody runs this any more.
        with contextlib.suppress(Exception):
            for log in (self, *self._children):
                log._end_incomplete(unsent)
        return unsent

    def earlier_model(self, answer: str) -> str | None:
        """Address of the model that an earlier start of the run registered for this answer."""
        known = self.tracking.run(self.run_id).tags
        return known.get("model") if known.get("answer") == answer else None

    def _waits(self, left: int) -> str:
        again = (
            f"`swarm resume {self.run_id}` sends them"
            if self.tags.get("kind") == "select"
            else "the same command completes it from the archive"
        )
        why = self.outbox.last_error or "it does not answer"
        return f"{left} messages wait for {self.tracking.label} ({why}); when it is back, {again}"

    def _put(self, what: str, send: Send) -> None:
        self.outbox.put(f"{what} ({self.run_id or 'a new run'})", send)

    def _create(self, parent: str, name: str, params: Mapping[str, object]) -> None:
        now, tried = _now(), False
        experiment = self.tracking.experiment_id

        def create(client: Any) -> None:
            nonlocal tried
            if tried and not self.run_id:
                # The store may have created it and the answer was lost.
                self.run_id = find_child(client, experiment, parent, name) or ""
            tried = True
            if not self.run_id:
                self.run_id = create_run(
                    client, experiment, name, self.tags, parent=parent, start_ms=now
                )
            log_params(client, self.run_id, params)

        self._put(f"the run {name!r}", create)

    def _sends_file(self, path: str, content: Content) -> Send:
        def send(client: Any) -> None:
            try:
                data = content if isinstance(content, bytes) else content()
            except Exception as error:
                raise Unsendable(f"it cannot be made: {failure(error)}") from error
            log_file(client, self.run_id, path, data)

        return send

    def _end_incomplete(self, unsent: str) -> None:
        """End the run past the queue; it is not finished as long as something waits."""
        if not self.run_id or self._end is None or self._has_ended:
            return
        status, error = self._end
        status, error = ("FAILED", unsent) if status == "FINISHED" else (status, error)
        client = self.tracking.client
        within(_LAST_WORD_SECONDS, lambda: end_run(client, self.run_id, status, error))

    def _dataset(self, table: Table) -> None:
        labels = table.target.to_frame() if isinstance(table.target, pd.Series) else table.target
        frame = pd.concat([table.features, labels], axis=1)
        single = str(labels.columns[0]) if labels.shape[1] == 1 else None
        self.tracking.log_dataset(self.run_id, frame, single, table.name, table.source, "training")


def failure(error: BaseException) -> str:
    """First line of what went wrong, without secrets."""
    if not isinstance(error, Exception):
        return "interrupted"
    line = redact((str(error).strip().splitlines() or [""])[0])
    return line if isinstance(error, SwarmError) else f"{type(error).__name__}: {line}".rstrip(": ")


def _now() -> int:
    return int(time.time() * 1000)


def _require_inside(path_in_run: str) -> None:
    path = PurePosixPath(path_in_run)
    if not path.name or path.is_absolute() or ".." in path.parts or "\\" in path_in_run:
        raise ValueError(
            "the path of an artifact must be relative such as 'epochs/0007.parquet', "
            f"got {path_in_run!r}"
        )


# Two runs that differ in one of these tags are different searches.
_IDENTITY = ("rows", "columns", "strategy", "seed")
# Keys of the configuration that change a search but not its problem,
_SEARCH = ("strategy.", "space.", "prepare.", "evaluation.racing", "proxy")
# and those that a change of the problem may come from.
_PROBLEM = ("data.", "split.", "model.", "scoring", "pos_label", "folds.", "evaluation.importance")


def refuse_another_search(
    run: RunRecord, params: Mapping[str, object], tags: Mapping[str, str]
) -> None:
    """Refuse to resume a run as another search than it was started with; ConfigError says why."""
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
