"""Artifacts of a comparison: tables, pages and figures, by path."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import pandas as pd

from swarm.report.comparison import ComparisonData, markdown, render_comparison
from swarm.report.comparison_figures import draw_comparison
from swarm.report.serialization import comparison_text
from swarm.validation.comparison import Comparison
from tasks.search_cell import CellResult
from tasks.step import step

__all__ = ["cells_table", "parent_metrics", "table_files", "write_comparison"]

_SECONDS = ("seconds_algorithm", "seconds_evaluation")


def cells_table(results: Sequence[CellResult]) -> pd.DataFrame:
    """Return one row per search, in the given order."""
    return pd.DataFrame([result.row() for result in results])


def table_files(cells: pd.DataFrame, comparison: Comparison) -> dict[str, bytes]:
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
def write_comparison(
    title: str,
    description: str | None,
    facts: Mapping[str, object],
    results: Sequence[CellResult],
    comparison: Comparison,
    everything: Mapping[str, tuple[float, int]],
    cost_labels: Mapping[str, str],
    test_everything: Mapping[str, float],
    positive: Mapping[str, str],
) -> dict[str, bytes]:
    """Write all tables, the pages and the figures.

    ``comparison.json`` contains everything that the page shows, so that `swarm report` can render
    it again.
    """
    histories: dict[str, dict[str, list[pd.DataFrame]]] = {}
    chosen: dict[str, dict[str, list[list[str]]]] = {}
    for result in results:
        own = histories.setdefault(result.cell.dataset, {})
        own.setdefault(result.cell.strategy, []).append(result.history)
        subsets = chosen.setdefault(result.cell.dataset, {})
        subsets.setdefault(result.cell.strategy, []).append(result.features)
    data = ComparisonData(
        title,
        description,
        facts,
        comparison,
        everything,
        cost_labels,
        histories,
        _versions(),
        test_everything,
        chosen,
        positive,
    )
    drawings = draw_comparison(data)
    pages = {
        "comparison.html": render_comparison(data, drawings).encode(),
        "comparison.json": comparison_text(data).encode(),
        "comparison.md": markdown(data).encode(),
    }
    figures: dict[str, bytes] = {}
    for drawing in drawings.values():
        figures |= drawing.files(vector=True)
    return {**pages, **table_files(cells_table(results), comparison), **figures}


def _versions() -> dict[str, str]:
    """Return the versions of the packages that a cost depends on."""
    packages = ("swarmselect", "lightgbm", "scikit-learn", "numpy", "pandas", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def parent_metrics(comparison: Comparison) -> dict[str, float]:
    """Return mean ranks and costs: ``rank/bpso``, ``mean_cost/wine/bpso``."""
    ranks = comparison.ranks["average"]
    metrics = {f"rank/{name}": float(rank) for name, rank in ranks.items()}
    for row in comparison.summary.to_dict("records"):
        own = f"{row['dataset']}/{row['strategy']}"
        metrics[f"mean_cost/{own}"] = float(row["mean_cost"])
        if "mean_test_cost" in row:
            metrics[f"mean_test_cost/{own}"] = float(row["mean_test_cost"])
    return metrics
