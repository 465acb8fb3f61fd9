"""The log of one MLflow run, from its start to its end status."""

from __future__ import annotations

import contextlib
import io
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self

import pandas as pd

from swarm.errors import ConfigError, StoreError, SwarmError
from swarm.problem.problem import Problem
from swarm.redaction import redact
from swarm.search.history import EpochRecord
from tasks.flow_run import flow_run_tags, log_line
from tasks.table import Table
from tasks.tracking.client import RunRecord, Tracking
from tasks.tracking.dataset import log_dataset
from tasks.tracking.outbox import Outbox, Send, UnsendableMessage
from tasks.tracking.store import store_errors, within
from tasks.tracking.system_metrics import SystemMetrics
from tasks.tracking.writes import (
    BEST_COST,
    PARAM_LENGTH,
    accepted_key,
    create_run,
    cut,
    end_run,
    find_child,
    log_file,
    log_params,
    log_points,
    log_tags,
    metric_key,
    reopen_run,
)

# Seconds that a failed run waits for its store at most.
_PATIENCE_FAILED = 30.0
_LAST_WORD_SECONDS = 5.0

# An artifact, or a function that creates it when it is sent.
Content = bytes | Callable[[], bytes]


class RunLog:
    """Writes one run in the background, so that a slow or unavailable store never delays a search.

    As a context manager it always ends the run, so that none is left behind as ``RUNNING``. The
    exceptions are a killed process, and a store that is unavailable when the process ends; a
    resume corrects both.

    Attributes
    ----------
    run_id : str
        Empty until a queued child run is created.
    tags : mapping of str to str
        See :func:`describe_run`.
    outbox : Outbox
        Shared with the children of the run.
    patience : float
        The longest wait in seconds for the store to accept a message.
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
        # Steps of each metric that are stored or queued: none is logged twice.
        self._steps = dict(steps or {})
        self._children: list[RunLog] = []
        self._unsettled = False
        # Name and digest of the test rows.
        self._test_data: tuple[str, str] | None = None
        self._system: SystemMetrics | None = None
        # End status and error of the run, and whether the store has accepted them.
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
        # If `settle` has already timed out, do not wait again.
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
        test: Table | None = None,
        description: str | None = None,
    ) -> RunLog:
        """Create the run, and store in it what is needed to resume it.

        Parameters
        ----------
        table : Table, optional
            Training rows, which become a data set of the run.
        test : Table, optional
            Test rows, to which the metrics of models refer.

        Raises
        ------
        StoreError
            If the store does not accept the run; nothing has been trained yet.
        """
        tracking.require_writable()
        # Without parameters, so that an error from here on ends the run as failed.
        log = cls(
            tracking, tracking.start_run(name, {**tags, **flow_run_tags()}, description), tags
        )
        log._open(params, config_yaml, table, test)
        return log

    @classmethod
    def resume(
        cls,
        tracking: Tracking,
        run_id: str,
        tags: Mapping[str, str],
        config_yaml: str | None = None,
        *,
        test: Table | None = None,
    ) -> RunLog:
        """Resume an interrupted run, or extend a finished one.

        The replay of the search logs only what the store does not have yet.

        Raises
        ------
        InputError
            If there is no such run, or it was deleted.
        StoreError
            If the store does not accept the change; nothing has been trained yet.
        """
        tracking.require_writable()
        steps = tracking.steps(run_id)
        with store_errors(tracking.uri, f"resume the run {run_id}"):
            reopen_run(tracking.client, run_id)
        log = cls(tracking, run_id, tags, steps=steps)
        log._open({}, config_yaml, None, test)
        log.tag(flow_run_tags())
        return log

    def child(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        run_id: str | None = None,
        steps: Mapping[str, set[int]] | None = None,
    ) -> RunLog:
        """Open a child run, or resume an unfinished one.

        Parameters
        ----------
        name : str
            Name of the child run, unique within its parent.
        params, tags : mapping
            Parameters and tags of a new run.
        run_id : str, optional
            Id of the run to resume.
        steps : mapping of str to set of int, optional
            Logged steps of each metric of the run to resume.
        """
        log = RunLog(self.tracking, run_id or "", tags, steps=steps, outbox=self.outbox)
        if run_id is None:
            log._create(self.run_id, name, params)
        else:
            log._put("its restart", lambda client: reopen_run(client, run_id))
        self._children.append(log)
        return log

    def epoch(self, record: EpochRecord) -> None:
        """Log the particles of an epoch as an artifact, then its metrics."""
        # If the store has the metrics, it also has the artifact, which is sent first.
        if record.epoch not in self._steps.get(BEST_COST, ()):
            self.files({f"epochs/{record.epoch:04d}.parquet": lambda: parquet(record.particles)})
        # Work of this process; `spent` also includes evaluations from the archive.
        work = {f"work/{name}": float(value) for name, value in vars(record.work).items()}
        self.metrics({record.epoch: {**record.metrics, **work}})

    def metrics(
        self, values: Mapping[int, Mapping[str, float | None]], model_id: str | None = None
    ) -> None:
        """Log metrics by step, each once; None is skipped, NaN is logged.

        Parameters
        ----------
        values : mapping of int to mapping
            Values by name, by step.
        model_id : str, optional
            Logged model that has these metrics on the test rows.
        """
        points = []
        for step, figures in values.items():
            for name, value in figures.items():
                key = accepted_key(metric_key(name))
                known = self._steps.setdefault(key, set())
                if value is not None and step not in known:
                    known.add(step)
                    points.append((key, float(value), step))
        if points:
            now = _now()
            what = f"metrics of step {points[-1][2]}"
            about: dict[str, Any] = {}
            if model_id is not None:
                about = {"model_id": model_id, "dataset": self._test_data}
            self._put(what, lambda client: log_points(client, self.run_id, points, now, **about))

    def tag(self, tags: Mapping[str, str]) -> None:
        """Set tags of the run."""
        self._put("tags", lambda client: log_tags(client, self.run_id, tags))

    def note(self, answer: str, links: Mapping[str, str], more: Iterable[str | None] = ()) -> None:
        """Write the description at the top of the page of the run.

        Parameters
        ----------
        answer : str
            The result, as Markdown. MLflow collapses all but the first lines.
        links : mapping of str to str
            Artifacts by the words that link to them.
        more : iterable of str
            Further paragraphs; None is skipped.
        """
        # Links relative to the page work wherever the UI is served.
        page = f"#/experiments/{self.tracking.experiment_id}/runs/{self.run_id}/artifacts"
        joined = " · ".join(f"[{word}]({page}/{path})" for word, path in links.items())
        paragraphs = filter(None, [answer, f"Open: {joined}", *more])
        self.tag({"mlflow.note.content": "\n\n".join(paragraphs)})

    def files(self, files: Mapping[str, Content]) -> None:
        """Log artifacts by their relative path in the run, such as ``a/b.csv``.

        Parameters
        ----------
        files : mapping of str to bytes or callable
            Content by path. A function is called when its artifact is sent, so that large
            content takes no memory while it is queued.
        """
        for path, content in files.items():
            _require_inside(path)
            self._put(f"the artifact {path!r}", self._sends_file(path, content))

    def settle(self) -> None:
        """Wait until the store has accepted everything logged so far.

        Raises
        ------
        StoreError
            If it accepted no message for `patience` seconds.
        """
        left = self.outbox.drain(self.patience)
        if left:
            self._unsettled = True
            raise StoreError(self._waits(left))

    def finish(self, status: str = "FINISHED", error: str | None = None) -> None:
        """End the run as ``FINISHED``, ``FAILED`` or ``KILLED``, with its error."""
        now, self._end = _now(), (status, error)

        def send(client: Any) -> None:
            end_run(client, self.run_id, status, error, now)
            self._has_ended = True

        self._put("its end", send)

    def close(
        self, status: str = "FINISHED", error: str | None = None, patience: float | None = None
    ) -> str:
        """Finish the run, send all queued messages, and stop logging.

        Returns
        -------
        unsent : str
            One sentence with the number of unsent messages and how to send them; empty if all
            were sent.
        """
        if self._system is not None:
            self._system.stop()
        self.finish(status, error)
        left = self.outbox.close(self.patience if patience is None else patience)
        if not left:
            return ""
        unsent = self._waits(left)
        # A store that accepts no artifacts may still accept the end of the run.
        with contextlib.suppress(Exception):
            for log in (self, *self._children):
                log._end_incomplete(unsent)
        return unsent

    def earlier_model(self, answer: str) -> tuple[str, str | None] | None:
        """Return URI and id of the model that the run already has for this answer, if any."""
        known = self.tracking.run(self.run_id).tags
        if known.get("answer") != answer or "model" not in known:
            return None
        # A run of an earlier version has no tag with the id.
        return known["model"], known.get("model_id")

    def _waits(self, left: int) -> str:
        again = (
            f"`swarm resume {self.run_id}` sends them"
            if self.tags.get("kind") == "select"
            else "the same command completes it from the archive"
        )
        why = self.outbox.last_error or "it is not responding"
        return (
            f"{left} messages are queued for {self.tracking.label} ({why}); when it is available"
            f" again, {again}"
        )

    def _put(self, what: str, send: Send) -> None:
        self.outbox.put(f"{what} ({self.run_id or 'a new run'})", send)

    def _create(self, parent: str, name: str, params: Mapping[str, object]) -> None:
        now, tried = _now(), False
        experiment = self.tracking.experiment_id

        def create(client: Any) -> None:
            nonlocal tried
            if tried and not self.run_id:
                # The store may have created it even if its response was lost.
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
                raise UnsendableMessage(f"it cannot be created: {failure(error)}") from error
            log_file(client, self.run_id, path, data)

        return send

    def _end_incomplete(self, unsent: str) -> None:
        """End the run without the queue; as failed if it finished but messages are unsent."""
        if not self.run_id or self._end is None or self._has_ended:
            return
        status, error = self._end
        status, error = ("FAILED", unsent) if status == "FINISHED" else (status, error)
        client = self.tracking.client
        within(_LAST_WORD_SECONDS, lambda: end_run(client, self.run_id, status, error))

    def _open(
        self,
        params: Mapping[str, object],
        config_yaml: str | None,
        train: Table | None,
        test: Table | None,
    ) -> None:
        """Store what is needed to resume the run, which an error ends."""
        tracking = self.tracking
        with contextlib.ExitStack() as unless_ready:
            unless_ready.push(self)
            with store_errors(tracking.uri, f"write to the run {self.run_id}"):
                log_params(tracking.client, self.run_id, params)
                if config_yaml is not None:
                    log_file(tracking.client, self.run_id, "config.yaml", config_yaml.encode())
            if train is not None:
                log_dataset(tracking, self.run_id, train, train.name, "training")
            if test is not None:
                # Under another name, as the Models page shows metrics by the name of the data set.
                name = f"{test.name}-test"
                self._test_data = log_dataset(tracking, self.run_id, test, name, "eval")
            address = tracking.page(self.run_id)
            log_line(f"MLflow run {address or f'{self.run_id} in {tracking.label}'}")
            if tracking.system_metrics:
                known = (
                    n for key, own in self._steps.items() if key.startswith("system/") for n in own
                )
                first = 1 + max(known, default=-1)
                self._system = SystemMetrics(self.run_id, tracking.uri, self.metrics, first)
            unless_ready.pop_all()


def failure(error: BaseException) -> str:
    """Return the first line of an error message, without secrets."""
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
            "the path of an artifact must be relative, such as 'epochs/0007.parquet', "
            f"got {path_in_run!r}"
        )


# Runs that differ in one of these tags are different searches.
_IDENTITY = ("rows", "columns", "strategy", "seed")
# Keys of the configuration that change a search but not its problem.
_SEARCH = (
    "strategy.",
    "space.",
    "prepare.",
    "evaluation.racing",
    "evaluation.asynchronous",
    "model.search",
    "folds.rotate",
    "proxy",
    "prefilter",
    "warm",
)
# Keys of the configuration that may change the problem.
_PROBLEM = ("data.", "split.", "model.", "scoring", "pos_label", "folds.", "evaluation.importance")


def refuse_another_search(
    run: RunRecord,
    earlier: Mapping[str, object],
    params: Mapping[str, object],
    tags: Mapping[str, str],
    later: Mapping[str, object],
) -> None:
    """Raise ConfigError if a run would be resumed with settings that change its search.

    Parameters
    ----------
    run : RunRecord
    earlier, params : mapping
        Its configuration and the present one, by dotted key.
    tags : mapping of str to str
        Tags of the present search, see :func:`describe_run`.
    later : mapping
        Values that keys had before they existed; null for others.
    """
    was, now, absent = (
        {accepted_key(key): cut(value, PARAM_LENGTH) for key, value in each.items()}
        for each in (earlier, params, later)
    )
    differs = [
        (key, was.get(key, "not set"), now.get(key, "not set"))
        for key in {**was, **now}
        # A key that did not exist when the run was started had this value.
        if was.get(key, absent.get(key, "null")) != now.get(key, "null")
    ]
    known = {key: run.tags.get(key, tags[key]) for key in _IDENTITY}
    found = [(key, known[key], tags[key]) for key in _IDENTITY if known[key] != tags[key]]
    found += [change for change in differs if change[0].startswith(_SEARCH)]
    if run.tags.get("problem", tags["problem"]) != tags["problem"]:
        found += [change for change in differs if change[0].startswith(_PROBLEM)]
        found += [
            (key, run.tags.get(key, "not set"), new)
            for key, new in tags.items()
            if key.startswith("version.") and run.tags.get(key) != new
        ]
        found += [("the values of the table, problem", run.tags["problem"], tags["problem"])]
    if found:
        key, old, new = found[0]
        raise ConfigError(
            f"the run {run.run_id} was started with {key} {old!r} but now it is {new!r}; "
            "start a new run with `swarm select`"
        )


def describe_run(problem: Problem, source: str, strategy: str, seed: int) -> dict[str, str]:
    """Return the tags of a run: problem, strategy, seed and versions."""
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


def json_file(value: object) -> bytes:
    """Return JSON data as an artifact."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def parquet(frame: pd.DataFrame) -> bytes:
    """Return a frame as Parquet, byte-identical for equal frames."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _git_commit() -> str | None:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
