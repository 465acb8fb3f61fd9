"""A comparison: the child runs of its searches, and its artifacts by path."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

import pandas as pd

from swarm.metrics import natural_name
from swarm.problem.scoring import Scoring
from swarm.report.comparison import ComparisonData, render_comparison
from swarm.report.comparison_figures import draw_comparison
from swarm.validation.comparison import Comparison
from tasks.search_cell import Cell, CellResult
from tasks.step import step
from tasks.tracking import Tracking
from tasks.tracking.run_log import RunLog

T = TypeVar("T")

_SECONDS = ("seconds_algorithm", "seconds_evaluation")


def find_unfinished(tracking: Tracking, fingerprint: str) -> str | None:
    """Return the run id of the latest unfinished comparison with this fingerprint, if any."""
    wanted = f"tags.kind = 'compare' and tags.fingerprint = '{fingerprint}'"
    for run in tracking.runs(wanted):
        if run.info.status != "FINISHED":
            return str(run.info.run_id)
    return None


class SearchRuns:
    """Opens and ends the run of each search; see :class:`RunLog` for its guarantees."""

    def __init__(self, parent: RunLog) -> None:
        self._parent = parent
        self._logs: dict[Cell, RunLog] = {}
        # Unfinished runs of earlier starts, with the logged steps of each metric.
        self._left: dict[Cell, tuple[str, dict[str, dict[int, float]]]] = {}

    def read_finished(self, problems: Mapping[Cell, str]) -> list[CellResult]:
        """Read the finished searches on problems of these fingerprints, and end the other runs."""
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
                self._left[cell] = run_id, tracking.values(run_id) if run.data.metrics else {}
                continue
            paths = ("features.json", "history.parquet")
            results.append(CellResult.read(*(tracking.download(run_id, p) for p in paths)))
        return results

    def begin(self, cell: Cell, tags: Mapping[str, str], params: Mapping[str, object]) -> None:
        """Open the run of a search."""
        labels = {**tags, "kind": "search", "dataset": cell.dataset, "label": cell.strategy}
        run_id, points = self._left.pop(cell, (None, {}))
        self._logs[cell] = self._parent.child(cell.name, params, labels, run_id, points)

    def end(self, result: CellResult, scoring: Scoring) -> None:
        """Log the result of a search and end its run."""
        log = self._logs[result.cell]
        whole: dict[str, float | None] = {
            "work/seconds_algorithm": result.seconds_algorithm,
            "work/seconds_evaluation": result.seconds_evaluation,
        }
        if result.test_cost is not None:
            whole[f"test/{natural_name(scoring.name)}"] = scoring.natural(result.test_cost)
        result.log_to(log, scoring, whole)
        log.finish()

    def fail(self, cell: Cell, error: str) -> None:
        """End the run of a failed search."""
        self._logs[cell].finish("FAILED", error)


def _table_files(cells: pd.DataFrame, comparison: Comparison) -> dict[str, bytes]:
    """Return CSV files; only the separate files with times depend on the machine."""
    keys = ["dataset", "strategy", "seed"]
    summary = comparison.summary
    frames = {
        "cells.csv": cells.drop(columns=list(_SECONDS)),
        "cells_seconds.csv": cells[[*keys, *_SECONDS]],
        "summary.csv": summary.drop(columns=list(_SECONDS)),
        "summary_seconds.csv": summary[[*keys[:2], *_SECONDS]],
        "ranks.csv": comparison.ranks.rename_axis("strategy").reset_index(),
        "tests_over_datasets.csv": comparison.across,
        "tests_over_seeds.csv": comparison.within,
    }
    return {name: frame.to_csv(index=False).encode() for name, frame in frames.items()}


@step("report")
def write_comparison(data: ComparisonData, cells: pd.DataFrame) -> dict[str, bytes]:
    """Write all tables, the page and the figures: bytes by artifact path."""
    drawings = draw_comparison(data)
    files = {
        "comparison.html": render_comparison(data, drawings).encode(),
        **_table_files(cells, data.comparison),
    }
    for drawing in drawings.values():
        files |= drawing.files(vector=True)
    return files


def by_strategy(
    results: Sequence[CellResult], value: Callable[[CellResult], T]
) -> dict[str, dict[str, list[T]]]:
    """Return a value of each search, by data set and strategy."""
    table: dict[str, dict[str, list[T]]] = {}
    for result in results:
        by_label = table.setdefault(result.cell.dataset, {})
        by_label.setdefault(result.cell.strategy, []).append(value(result))
    return table


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a cost depends on."""
    packages = ("swarmselect", "lightgbm", "scikit-learn", "numpy", "pandas", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def parent_metrics(comparison: Comparison, scorings: Mapping[str, Scoring]) -> dict[str, float]:
    """Return mean ranks and scores, such as ``mean_accuracy/wine/bpso``."""
    ranks = comparison.ranks["average"]
    metrics = {f"rank/{name}": float(rank) for name, rank in ranks.items()}
    for row in comparison.summary.to_dict("records"):
        scoring = scorings[row["dataset"]]
        name = f"{natural_name(scoring.name)}/{row['dataset']}/{row['strategy']}"
        metrics[f"mean_{name}"] = scoring.natural(float(row["mean_cost"]))
        if "mean_test_cost" in row:
            metrics[f"mean_test_{name}"] = scoring.natural(float(row["mean_test_cost"]))
    return metrics


def ranks_as_markdown(comparison: Comparison) -> str:
    """Return the table of ranks, the best strategy first."""
    ranks = comparison.ranks.sort_values("average", kind="stable")
    columns = list(ranks.columns) if len(comparison.datasets) > 1 else ["average"]
    rows = [["strategy", *columns], ["---", *("--:" for _ in columns)]]
    rows += [[str(name), *(f"{row[c]:.3g}" for c in columns)] for name, row in ranks.iterrows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
