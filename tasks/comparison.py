"""The artifacts of a comparison by path."""

import platform
from importlib.metadata import version

import pandas as pd

from swarm.report.comparison import ComparisonData, render_comparison
from swarm.report.comparison_figures import draw_comparison
from swarm.validation.comparison import Comparison
from tasks.step import step

_SECONDS = ("seconds_algorithm", "seconds_evaluation")


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
def write_comparison(data: ComparisonData) -> dict[str, bytes]:
    """Write all tables, the page and the figures: bytes by artifact path."""
    drawings = draw_comparison(data)
    files = {
        "comparison.html": render_comparison(data, drawings).encode(),
        **_table_files(data.cells, data.comparison),
    }
    for drawing in drawings.values():
        files |= drawing.files(vector=True)
    return files


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a cost depends on."""
    packages = ("swarmselect", "lightgbm", "scikit-learn", "numpy", "pandas", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
