"""Summary of a comparison on the terminal."""

from __future__ import annotations

import json

import pandas as pd
from rich.box import SIMPLE
from rich.table import Table

from conf.compare_schema import CompareConfig
from flows.compare import ComparisonRun
from flows.terminal import print_end, result_console
from swarm.report.comparison import columns_of, formatted, judged_cost, sentences

__all__ = ["comparison_as_json", "print_comparison"]

_WIDE = 120
# Shown in the report only, so that a row fits on a line.
_PAGE_ONLY = ("evaluations",)
# Left out in this order where a row does not fit on a line; the report has all.
_LEFT_OUT = (
    *("seconds_evaluation", "seconds_algorithm", "best_cost", "size_reduction", "improvement"),
    *("distinct", "fits", "stability", "sd_cost"),
)
# Spaces between two columns, and on both sides of all of them.
_GAP, _EDGES = 3, 2
_TIMES = {
    "seconds_algorithm": ("T1 s", "{:.2f}"),
    "seconds_evaluation": ("T2 s", "{:.1f}"),
}


def comparison_as_json(compared: ComparisonRun, config: CompareConfig) -> str:
    """Return what :func:`print_comparison` prints, for programs; undefined numbers are null."""
    comparison = compared.comparison
    told = {
        "run_id": compared.run_id,
        "experiment": config.tracking.experiment,
        "all_features": {
            name: {"cost": cost, "size": size, "test_cost": compared.test_everything.get(name)}
            for name, (cost, size) in compared.everything.items()
        },
        "summary": json.loads(comparison.summary.to_json(orient="records")),
        "ranks": json.loads(comparison.ranks.to_json(orient="index")),
        "sentences": list(sentences(comparison)),
        "warnings": list(compared.warnings),
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def print_comparison(compared: ComparisonRun, config: CompareConfig) -> None:
    """Print a table for each data set, the ranks, the test results, and where to find more."""
    console = result_console(_WIDE)
    comparison = compared.comparison
    columns = _fitting({**columns_of(comparison), **_TIMES}, comparison.summary, console.width)
    for dataset in comparison.datasets:
        rows = comparison.summary[comparison.summary["dataset"] == dataset]
        cost, size = compared.everything[dataset]
        test = compared.test_everything.get(dataset)
        on_test = "" if test is None else f", {test:.5f} on the test rows"
        table = Table(
            title=f"[bold]{dataset}[/bold]: all {size} features cost {cost:.5f}{on_test}",
            title_justify="left",
            title_style="",
            box=SIMPLE,
        )
        for key, (name, _) in columns.items():
            table.add_column(name, justify="left" if key == "strategy" else "right", no_wrap=True)
        for _, row in rows.sort_values("rank", kind="stable").iterrows():
            table.add_row(*(formatted(row[key], form) for key, (_, form) in columns.items()))
        console.print(table)
    if len(comparison.datasets) > 1:
        console.print(_ranks(compared))
    for text in sentences(comparison):
        console.print(text)
    look = "look     swarm ui, then open comparison.html among its artifacts"
    print_end(console, compared.warnings, compared.run_id, config.tracking.experiment, look)


def _fitting(
    columns: dict[str, tuple[str, str]], rows: pd.DataFrame, width: int
) -> dict[str, tuple[str, str]]:
    """Return the columns of a table that is at most so wide, the most important ones if need be."""
    there = {key: value for key, value in columns.items() if key in rows and key not in _PAGE_ONLY}
    widths = {
        key: max([len(name), *(len(formatted(value, form)) for value in rows[key])]) + _GAP
        for key, (name, form) in there.items()
    }
    for key in _LEFT_OUT:
        if key in there and sum(widths[each] for each in there) + _EDGES > width:
            del there[key]
    return there


def _ranks(compared: ComparisonRun) -> Table:
    ranks = compared.comparison.ranks
    title = f"Ranks by mean {judged_cost(compared.comparison)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE)
    table.add_column("strategy", no_wrap=True)
    table.add_column("average", justify="right")
    for dataset in compared.comparison.datasets:
        table.add_column(dataset, justify="right")
    for name, row in ranks.sort_values("average", kind="stable").iterrows():
        own = (f"{row[dataset]:g}" for dataset in compared.comparison.datasets)
        table.add_row(str(name), f"{row['average']:.2f}", *own)
    return table
