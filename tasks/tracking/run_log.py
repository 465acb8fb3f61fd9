"""The log of one MLflow run, from its start to its end status."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from swarm.errors import StoreError, SwarmError
from swarm.findings import Finding, as_file, codes_of
from swarm.problem.scoring import Scoring
from swarm.redaction import redact
from swarm.search.history import EpochRecord
from tasks.files import parquet
from tasks.flow_run import flow_run_tags, log_line
from tasks.table import Table
from tasks.tracking.client import Tracking
from tasks.tracking.curves import epoch_metrics
from tasks.tracking.dataset import log_dataset
from tasks.tracking.overview import describe_experiment
from tasks.tracking.store import first_line, store_errors, within
from tasks.tracking.writes import (
    NOTE,
    PARENT,
    Write,
    Writes,
    accepted_key,
    end_run,
    log_file,
    log_texts,
    reopen_run,
)

# A failed run waits so long for its store.
_MAX_SECONDS_FAILED = 30.0
# Calls that may fail, at the end of a run, wait so long.
_MAX_SECONDS_LAST = 5.0

# Values by step of each metric, and values by name of each step.
Points = Mapping[str, Mapping[int, float]]
Steps = Mapping[int, Mapping[str, float | None]]


class RunLog:
    """Writes one run; while its store is unavailable, the search goes on.

    As a context manager it always ends the run, so that none is left behind as ``RUNNING``. The
    exceptions are a killed process, and a store that is unavailable when the process ends; a
    resume corrects both.

    Parameters
    ----------
    tracking : Tracking
    run_id : str
        Id of the run, empty until the store has created a child run.
    tags : dict, optional
        Tags; see `flows.run.tracking.describe_run`.
    points : dict, optional
        Points that the store has.
    writes : Writes, optional
        Writes of the parent.

    Attributes
    ----------
    patience : float
        Longest wait in seconds for the store to accept a write.
    """

    patience = 120.0

    def __init__(
        self,
        tracking: Tracking,
        run_id: str,
        tags: Mapping[str, str] | None = None,
        *,
        points: Points | None = None,
        writes: Writes | None = None,
    ) -> None:
        self.tracking = tracking
        self._client = tracking.client
        self.run_id = run_id
        self.tags = dict(tags or {})
        self._writes = writes or Writes(tracking.uri)
        # No point is logged twice.
        self._points = {key: dict(values) for key, values in (points or {}).items()}
        self._children: list[RunLog] = []
        self._closed = False
        # Name and digest of the test rows.
        self._test_data = ("", "")
        self._monitor: Any = None
        self._end: tuple[str, str | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._closed:
            return
        if error is None:
            self.close()
            return
        for child in self._children:
            if child._end is None:
                child.finish("KILLED")
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        self.close(status, failure(error), min(self.patience, _MAX_SECONDS_FAILED))

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
        tracking : Tracking
        name : str
        params, tags : dict
        config_yaml : str
        table : Table, optional
            Training rows, which become a data set of the run.
        test : Table, optional
            Test rows, to which the metrics of models refer.
        description : str, optional

        Raises
        ------
        StoreError
            If the store does not accept the run; nothing has been trained yet.
        """
        tracking.require_writable()
        note = {NOTE: description} if description else {}
        log = cls(tracking, tracking.start_run(name, {**note, **tags, **flow_run_tags()}), tags)
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

        The replay of the search logs only what the store does not have yet. Raises InputError if
        there is no such run, StoreError if the store does not accept the change.
        """
        tracking.require_writable()
        log = cls(tracking, run_id, tags, points=tracking.values(run_id))
        with store_errors(tracking.uri, f"resume the run {run_id}"):
            reopen_run(tracking.client, run_id)
        log._open({}, config_yaml, None, test)
        log.tag(flow_run_tags())
        return log

    def child(
        self,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        run_id: str | None = None,
        points: Points | None = None,
    ) -> RunLog:
        """Open a child run, whose name is unique, or resume an unfinished one with its points."""
        log = RunLog(self.tracking, run_id or "", tags, points=points, writes=self._writes)
        if run_id is None:
            log._create(self.run_id, name, params)
        else:
            log._put("its restart", reopen_run)
        self._children.append(log)
        return log

    def epoch(self, record: EpochRecord, scoring: Scoring) -> None:
        """Log the particles of an epoch as an artifact, then its metrics."""
        # These are models of this process; `spent/fits` also counts models in the archive.
        work = {"work/fits": float(record.work.fits)}
        points = self._new_points({record.epoch: epoch_metrics(record.metrics, scoring) | work})

        def send(client: Any, run_id: str) -> None:
            # If the store has the metrics, it also has the artifact.
            path = f"epochs/{record.epoch:04d}.parquet"
            log_file(client, run_id, path, parquet(record.particles))
            client.log_batch(run_id, metrics=points)

        if points:
            self._put(f"epoch {record.epoch}", send)

    def metrics(self, values: Steps, model_id: str | None = None) -> None:
        """Log metrics by step, each once; None is skipped, NaN is logged.

        Step 0 is for metrics of the whole run, which a resumed run may change. MLflow draws metrics
        without another step as bars. `model_id` is the logged model that has them on the test rows.
        """
        points = self._new_points(values, model_id)
        if points:
            what = f"metrics of step {points[-1].step}"
            self._put(what, lambda client, run_id: client.log_batch(run_id, metrics=points))

    def tag(self, tags: Mapping[str, str]) -> None:
        """Set tags of the run."""
        self._put("tags", log_texts, {}, tags)

    def note(self, answer: str, links: Mapping[str, str], more: Iterable[str | None] = ()) -> None:
        """Write the description at the top of the page of the run, as Markdown.

        Parameters
        ----------
        answer : str
            The result; MLflow collapses all but the first lines.
        links : dict
            Artifacts or pages (``#/...``) by the words that link to them.
        more : iterable of str or None
            Further paragraphs; None is skipped.
        """
        # Links relative to the page work wherever the UI is served.
        page = f"#/experiments/{self.tracking.experiment_id}/runs/{self.run_id}/artifacts"
        targets = {
            word: target if target.startswith("#") else f"{page}/{target}"
            for word, target in links.items()
        }
        joined = " · ".join(f"[{word}]({target})" for word, target in targets.items())
        paragraphs = filter(None, [answer, f"Open: {joined}", *more])
        self.tag({NOTE: "\n\n".join(paragraphs)})

    def describe_experiment(self) -> None:
        """Write the answers of the last runs above MLflow's table of runs."""
        experiment = self.tracking.experiment_id
        what = "the description of the experiment"
        self._put(what, lambda client, _: describe_experiment(client, experiment))

    def files(self, files: Mapping[str, bytes]) -> None:
        """Log artifacts by their relative path in the run, such as ``a/b.csv``."""
        for path, data in files.items():
            self._put(f"the artifact {path!r}", log_file, path, data)

    def findings(self, findings: Sequence[Finding], mute: Iterable[str] = ()) -> None:
        """Log findings about the data, except for muted codes."""
        self.files({"findings.json": as_file(findings, mute)})
        self.tag({"findings": codes_of(findings)})

    def settle(self) -> None:
        """Wait until the store has accepted everything logged so far.

        Raises StoreError if it accepted no write for `patience` seconds.
        """
        self._writes.flush(self.patience)
        if self._writes.unsent:
            raise StoreError(self._remedy())

    def finish(self, status: str = "FINISHED", error: str | None = None) -> None:
        """End the run as ``FINISHED``, ``FAILED`` or ``KILLED``, with its error."""
        self._end = (status, error)
        self._put("its end", end_run, status, error, _now())

    def close(
        self, status: str = "FINISHED", error: str | None = None, patience: float | None = None
    ) -> str:
        """Finish the run, send everything that the store does not have, and stop logging.

        Returns how many writes are unsent and how to send them; empty if all were sent.
        """
        if self._monitor is not None:
            with contextlib.suppress(TimeoutError):
                within(_MAX_SECONDS_LAST, self._monitor.finish)
        self.finish(status, error)
        self._writes.flush(self.patience if patience is None else patience)
        self._closed = True
        if not self._writes.unsent:
            return ""
        remedy = self._remedy()
        # A store that accepts no artifacts may still accept the end of the run.
        with contextlib.suppress(Exception):
            for log in dict.fromkeys(write.owner for write in self._writes.unsent):
                log._end_incomplete(remedy)
        return remedy

    def _new_points(self, values: Steps, model_id: str | None = None) -> list[Any]:
        """Return the ``mlflow.entities.Metric`` of the values that were not logged yet."""
        from mlflow.entities import Metric

        model: tuple[str, ...] = () if model_id is None else (model_id, *self._test_data)
        now = _now()
        points = []
        for step, metrics in values.items():
            for name, value in metrics.items():
                key = accepted_key(name)
                logged = self._points.setdefault(key, {})
                if value is not None and (step not in logged or (step == 0 and logged[0] != value)):
                    logged[step] = float(value)
                    points.append(Metric(key, float(value), now, step, *model))
        return points

    def _remedy(self) -> str:
        """Return what the store lacks and why, and how to send it."""
        again = (
            f"`swarm resume {self.run_id}{self.tracking.option}` sends them"
            if self.tags.get("kind") == "select"
            else "the same command completes it from the archive"
        )
        return (
            f"{len(self._writes.unsent)} writes are missing in {self.tracking.label}"
            f" ({self._writes.error}); when it is available again, {again}"
        )

    def _put(self, what: str, write: Callable[..., None], *arguments: Any) -> None:
        """Call `write` with client, run and arguments."""

        def send() -> None:
            # A child run gets its id when it is created.
            write(self._client, self.run_id, *arguments)

        self._writes.add(Write(self, f"{what} ({self.run_id or 'a new run'})", send))

    def _create(self, parent: str, name: str, params: Mapping[str, object]) -> None:
        """Create a child run."""
        now = _now()
        tried = False

        def create(client: Any, _: str) -> None:
            nonlocal tried
            if tried and not self.run_id:
                # The store may have created it even if its response was lost. A name with
                # quotation marks cannot be used in a filter.
                runs = self.tracking.runs(f"tags.`{PARENT}` = '{parent}'")
                ids = (run.info.run_id for run in runs if run.info.run_name == name)
                self.run_id = next(ids, "")
            tried = True
            self.run_id = self.run_id or self.tracking.start_run(
                name, {PARENT: parent, **self.tags}, now
            )
            log_texts(client, self.run_id, params, {})

        self._put(f"the run {name!r}", create)

    def _end_incomplete(self, remedy: str) -> None:
        """End the run although writes are unsent; as failed if it finished."""
        status, error = self._end or ("KILLED", None)
        if status == "FINISHED":
            status = "FAILED"
            error = remedy
        if self.run_id:
            within(_MAX_SECONDS_LAST, lambda: end_run(self._client, self.run_id, status, error))

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
                log_texts(self._client, self.run_id, params, {})
                if config_yaml is not None:
                    log_file(self._client, self.run_id, "config.yaml", config_yaml.encode())
            if train is not None:
                log_dataset(tracking, self.run_id, train, train.name, "training")
            if test is not None:
                # The Models page shows metrics by the name of the data set, so it has its own.
                name = f"{test.name}-test"
                self._test_data = log_dataset(tracking, self.run_id, test, name, "eval")
            address = tracking.page(self.run_id)
            log_line(f"MLflow run {address or f'{self.run_id} in {tracking.label}'}")
            self._monitor = _system_monitor(tracking.uri, self.run_id)
            unless_ready.pop_all()


def _system_monitor(uri: str, run_id: str) -> Any:
    """Start MLflow's monitor of this machine if its variable asks for it."""
    from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    if not MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get():  # type: ignore[no-untyped-call]
        return None
    try:
        create: Any = SystemMetricsMonitor
        monitor = create(run_id, resume_logging=True, tracking_uri=uri)
        monitor.start()
    except Exception as error:
        # A sandbox may hide the counters of the machine.
        text = "MLflow cannot measure this machine (%s)."
        logging.getLogger(__name__).warning(text, first_line(error, uri))
        return None
    return monitor


def failure(error: BaseException) -> str:
    """Return the first line of an error message, without secrets."""
    if not isinstance(error, Exception):
        return "interrupted"
    line = redact((str(error).strip().splitlines() or [""])[0])
    return line if isinstance(error, SwarmError) else f"{type(error).__name__}: {line}".rstrip(": ")


def _now() -> int:
    return int(time.time() * 1000)
