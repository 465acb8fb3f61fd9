"""The record of a comparison in MLflow: one parent run, and a run for each search under it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.errors import StoreError, SwarmError
from tasks.metric_names import charted
from tasks.run_fields import TAG_LENGTH, accepted_key, batches, cut
from tasks.run_note import note
from tasks.search_cell import Cell, CellResult
from tasks.tracking import Tracking
from tasks.tracking_store import store_errors

__all__ = ["CompareLog", "failure", "log_files", "log_metrics", "unfinished"]

# What MLflow takes at once.
_METRICS = 1000
_PAGE = 1000
# A search that could not be logged waits this long, at the most, at the end.
_PATIENCE_SECONDS = 60.0


def unfinished(tracking: Tracking, fingerprint: str) -> str | None:
    """Return the id of the latest comparison of this fingerprint that did not finish, if any."""
    wanted = f"tags.kind = 'compare' and tags.fingerprint = '{fingerprint}'"
    for run in _runs(tracking, wanted):
        if run.info.status != "FINISHED":
            return str(run.info.run_id)
    return None


@dataclass
class CompareLog:
    """Writes a comparison; a store that goes away costs the searches nothing.

    Attributes
    ----------
    run_id : str
        The parent run.
    children : dict of Cell to str
        Ids of the runs of its searches, those of earlier starts included.
    waiting : list
        Searches that ended while the store was away.
    """

    tracking: Tracking
    run_id: str
    children: dict[Cell, str] = field(default_factory=dict)
    waiting: list[tuple[CellResult, Mapping[str, str]]] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        tracking: Tracking,
        name: str,
        params: Mapping[str, object],
        fingerprint: str,
        config_yaml: str,
        description: str | None,
    ) -> CompareLog:
        """Create the parent run."""
        tracking.require_writable()
        tags = {"kind": "compare", "fingerprint": fingerprint}
        log = cls(tracking, tracking.start_run(name, params, tags, description))
        log.files({"config.yaml": config_yaml.encode()})
        return log

    @classmethod
    def resume(cls, tracking: Tracking, run_id: str) -> CompareLog:
        """Go on with a comparison that did not finish."""
        tracking.require_writable()
        tracking.resume_run(run_id)
        if "error" in tracking.run(run_id).tags:
            tracking.client.delete_tag(run_id, "error")
        return cls(tracking, run_id)

    def finished(self, problems: Mapping[str, str]) -> list[CellResult]:
        """Read back the searches that finished on the same problems, and note the others.

        Parameters
        ----------
        problems : mapping of str to str
            Fingerprint of the problem of each data set: a search on other data is run again.
        """
        results = []
        for run in _runs(self.tracking, f"tags.`mlflow.parentRunId` = '{self.run_id}'"):
            tags, run_id = run.data.tags, str(run.info.run_id)
            if "dataset" not in tags or "seed" not in tags:
                continue
            cell = Cell(tags["dataset"], tags["label"], int(tags["seed"]))
            if cell in self.children:
                continue
            if run.info.status == "FINISHED" and tags.get("problem") != problems.get(cell.dataset):
                continue
            self.children[cell] = run_id
            if run.info.status == "FINISHED":
                paths = ("features.json", "history.parquet")
                results.append(CellResult.read(*(self.tracking.download(run_id, p) for p in paths)))
        return results

    def begin(self, cell: Cell, tags: Mapping[str, str], params: Mapping[str, object]) -> None:
        """Show a search as running."""
        try:
            known = self.children.get(cell)
            if known is not None:
                self.tracking.resume_run(known)
            else:
                labels = {**tags, "kind": "search", "dataset": cell.dataset, "label": cell.strategy}
                self.children[cell] = self.tracking.start_run(
                    cell.name, params, labels, parent_run_id=self.run_id
                )
        except StoreError:
            return  # tried again when the search has ended

    def end(self, result: CellResult, tags: Mapping[str, str]) -> None:
        """Log what a search found, and what could not be logged before it."""
        self.waiting.append((result, tags))
        self._send()

    def settle(self) -> None:
        """Wait until the store has every search.

        Raises
        ------
        StoreError
            If it does not within a minute.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._send() and time.monotonic() < deadline:
            time.sleep(2.0)
        if self.waiting:
            raise StoreError(
                f"{len(self.waiting)} searches wait for {self.tracking.label}; what they evaluated "
                "is in the archive, so the same command completes the comparison in seconds"
            )

    def mark(self, cell: Cell, status: str, error: str | None = None) -> None:
        """End the run of a search that found nothing."""
        run_id = self.children.get(cell)
        if run_id is not None:
            self._finish(run_id, status, error)

    def end_running(self) -> None:
        """End the runs of searches that did not come to their end, as killed."""
        wanted = f"tags.`mlflow.parentRunId` = '{self.run_id}' and attributes.status = 'RUNNING'"
        for run in list(_runs(self.tracking, wanted)):
            self.tracking.finish(run.info.run_id, "KILLED")

    def files(self, files: Mapping[str, bytes]) -> None:
        """Log artifacts of the comparison."""
        log_files(self.tracking, self.run_id, files)

    def metrics(self, values: Mapping[str, float]) -> None:
        """Log figures of the comparison."""
        log_metrics(self.tracking, self.run_id, [(0, values)])

    def note(self, told: Sequence[str], description: str | None) -> None:
        """Show the answer on top of the page of the comparison."""
        links = {"report": "comparison.html", "summary": "summary.csv", "all searches": "cells.csv"}
        more = [*told[1:], *([description] if description else [])]
        tags = note(self.tracking, self.run_id, told[0], links, more)
        with store_errors(self.tracking.uri, "note the answer"):
            for key, value in tags.items():
                self.tracking.client.set_tag(self.run_id, key, cut(value, TAG_LENGTH))

    def close(self, status: str, error: str | None = None) -> None:
        """End the parent run."""
        self._finish(self.run_id, status, error)

    def _finish(self, run_id: str, status: str, error: str | None) -> None:
        if error:
            with store_errors(self.tracking.uri, "note an error"):
                self.tracking.client.set_tag(run_id, "error", cut(error, TAG_LENGTH))
        self.tracking.finish(run_id, status)

    def _send(self) -> bool:
        while self.waiting:
            result, tags = self.waiting[0]
            try:
                self._log(result, tags)
            except StoreError:
                return False
            del self.waiting[0]
        return True

    def _log(self, result: CellResult, tags: Mapping[str, str]) -> None:
        if result.cell not in self.children:
            self.begin(result.cell, tags, {})
        if result.cell not in self.children:
            raise StoreError("the tracking store does not answer")
        run_id = self.children[result.cell]
        rows = result.history.set_index("epoch").to_dict("index")
        steps = [(int(str(epoch)), values) for epoch, values in rows.items()]
        last = {
            "work_seconds_algorithm": result.seconds_algorithm,
            "work_seconds_evaluation": result.seconds_evaluation,
        }
        if result.test_cost is not None:
            last["test_cost"] = result.test_cost
        log_metrics(self.tracking, run_id, [*steps, (result.epochs, last)])
        log_files(self.tracking, run_id, result.files())
        with store_errors(self.tracking.uri, "tag a search"):
            self.tracking.client.set_tag(run_id, "stopped", result.reason)
        self.tracking.finish(run_id, "FINISHED")


def _runs(tracking: Tracking, wanted: str) -> Iterator[Any]:
    """Give the runs of the experiment that match, the latest first."""
    token = None
    while True:
        with store_errors(tracking.uri, "search the runs"):
            page = tracking.client.search_runs(
                [tracking.experiment_id],
                filter_string=wanted,
                max_results=_PAGE,
                order_by=["attributes.start_time DESC"],
                page_token=token,
            )
        yield from page
        token = page.token
        if not token:
            return


def log_metrics(
    tracking: Tracking, run_id: str, steps: Sequence[tuple[int, Mapping[Any, float]]]
) -> None:
    """Log figures by step, under the names that MLflow groups them by."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    points = [
        Metric(accepted_key(name), float(value), now, step)
        for step, values in steps
        for name, value in charted(values).items()
    ]
    with store_errors(tracking.uri, "log metrics"):
        for batch in batches(points, _METRICS):
            tracking.client.log_batch(run_id, metrics=batch)


def log_files(tracking: Tracking, run_id: str, files: Mapping[str, bytes]) -> None:
    """Log artifacts by their paths."""
    with tempfile.TemporaryDirectory(prefix="swarm-compare-") as held:
        for path, data in files.items():
            file = Path(held) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        with store_errors(tracking.uri, "log artifacts"):
            tracking.client.log_artifacts(run_id, held)


def failure(error: BaseException) -> str:
    """First line of what went wrong."""
    line = (str(error).strip().splitlines() or [""])[0]
    return line if isinstance(error, SwarmError) else f"{type(error).__name__}: {line}".rstrip(": ")
