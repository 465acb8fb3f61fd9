"""Summary of a comparison on the terminal."""

from __future__ import annotations

import json

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
    columns = {**columns_of(comparison), **_TIMES}
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
        there = [key for key in columns if key in rows and key not in _PAGE_ONLY]
        for key in there:
            name, number = columns[key][0], key != "strategy"
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for _, row in rows.sort_values("rank", kind="stable").iterrows():
            table.add_row(*(formatted(row[key], columns[key][1]) for key in there))
        console.print(table)
    if len(comparison.datasets) > 1:
        console.print(_ranks(compared))
    for text in sentences(comparison):
        console.print(text)
    look = "look     swarm ui, then open comparison.html among its artifacts"
    print_end(console, compared.warnings, compared.run_id, config.tracking.experiment, look)


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
