"""The child runs of a comparison, one per search."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tasks.search_cell import Cell, CellResult
from tasks.tracking.client import Tracking
from tasks.tracking.run_log import RunLog

__all__ = ["SearchRuns", "unfinished"]


def unfinished(tracking: Tracking, fingerprint: str) -> str | None:
    """Return the run id of the latest unfinished comparison with this fingerprint, if any."""
    wanted = f"tags.kind = 'compare' and tags.fingerprint = '{fingerprint}'"
    for run in tracking.runs(wanted):
        if run.info.status != "FINISHED":
            return str(run.info.run_id)
    return None


class SearchRuns:
    """Opens and ends the run of each search; see :class:`RunLog` for its guarantees.

    Parameters
    ----------
    parent : RunLog
        Log of the comparison.
    """

    def __init__(self, parent: RunLog) -> None:
        self._parent = parent
        self._logs: dict[Cell, RunLog] = {}
        # Unfinished runs of earlier starts, with the logged steps of each metric.
        self._left: dict[Cell, tuple[str, dict[str, set[int]]]] = {}

    def finished(self, problems: Mapping[Cell, str]) -> list[CellResult]:
        """Read the results of finished searches on the same problems, and end the other runs.

        Parameters
        ----------
        problems : mapping of Cell to str
            Fingerprint of the problem of each search; a search on other data is repeated.
        """
        tracking, results, seen = self._parent.tracking, [], set()
        for run in tracking.runs(f"tags.`mlflow.parentRunId` = '{self._parent.run_id}'"):
            tags, run_id = run.data.tags, str(run.info.run_id)
            if run.info.status == "RUNNING":
                # Its process was killed.
                tracking.finish(run_id, "KILLED")
            if "dataset" not in tags or "seed" not in tags:
                continue
            cell = Cell(tags["dataset"], tags["label"], int(tags["seed"]))
            if cell in seen or tags.get("problem") != problems.get(cell):
                continue
            seen.add(cell)
            if run.info.status != "FINISHED":
                self._left[cell] = run_id, tracking.steps(run_id) if run.data.metrics else {}
                continue
            paths = ("features.json", "history.parquet")
            results.append(CellResult.read(*(tracking.download(run_id, p) for p in paths)))
        return results

    def begin(self, cell: Cell, tags: Mapping[str, str], params: Mapping[str, object]) -> None:
        """Open the run of a search."""
        labels = {**tags, "kind": "search", "dataset": cell.dataset, "label": cell.strategy}
        run_id, steps = self._left.pop(cell, (None, {}))
        self._logs[cell] = self._parent.child(cell.name, params, labels, run_id, steps)

    def end(self, result: CellResult) -> None:
        """Log the result of a search and end its run."""
        log = self._logs[result.cell]
        steps = result.steps()
        last: dict[str, float | None] = {
            "work_seconds_algorithm": result.seconds_algorithm,
            "work_seconds_evaluation": result.seconds_evaluation,
            "test_cost": result.test_cost,
        }
        if not steps:
            # A selector has no epochs.
            last |= {"best_cost": result.cost, "best_size": result.size, "fits": result.fits}
        last = {name: value for name, value in last.items() if value is not None}
        steps[result.epochs] = {**steps.get(result.epochs, {}), **last}
        log.metrics(steps)
        log.files({path: _artifact(result, path) for path in ("features.json", "history.parquet")})
        log.tag({"stopped": result.reason})
        log.finish()

    def fail(self, cell: Cell, error: str) -> None:
        """End the run of a failed search."""
        self._logs[cell].finish("FAILED", error)


def _artifact(result: CellResult, path: str) -> Callable[[], bytes]:
    return lambda: result.files()[path]
