"""A comparison as one page of Markdown: tables as in the papers, tests, figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from swarm.report.comparison_words import interval, p_value, sentences
from swarm.validation.comparison import Comparison

__all__ = ["COLUMNS", "TIMES", "markdown", "shown"]

# Columns of the summary, what they are called, and how their values are written.
COLUMNS = {
    "strategy": ("strategy", "{}"),
    "mean_cost": ("mean cost", "{:.5f}"),
    "sd_cost": ("SD", "{:.5f}"),
    "best_cost": ("best", "{:.5f}"),
    "mean_test_cost": ("test cost", "{:.5f}"),
    "mean_size": ("size", "{:.1f}"),
    "improvement": ("PI %", "{:.1f}"),
    "size_reduction": ("fewer %", "{:.1f}"),
    "evaluations": ("evaluations", "{:.0f}"),
    "distinct": ("distinct", "{:.0f}"),
    "rank": ("rank", "{:g}"),
}
TIMES = {
    "strategy": ("strategy", "{}"),
    "seconds_algorithm": ("T1 algorithm, s", "{:.2f}"),
    "seconds_evaluation": ("T2 evaluation, s", "{:.2f}"),
}
_LEGEND = (
    "Means over the seeds; SD with one degree of freedom less. PI % is the improvement of the mean "
    "cost over all features (document 002, equation 22), fewer % the share of features left out. "
    "A strategy that ends by itself is shown with what it used."
)
_TIME_LEGEND = (
    "Mean seconds of a search. T1 is processor time of the strategy and the driver. T2 is training "
    "time of the evaluations the search needed, as the shared archive has it, whichever search "
    "paid for it: what the search would have trained alone."
)


def shown(value: object, form: str) -> str:
    """Write a value of a table; what is not there is a dash."""
    if isinstance(value, float) and math.isnan(value):
        return "-"
    return form.format(value)


def markdown(
    title: str,
    facts: Mapping[str, object],
    comparison: Comparison,
    everything: Mapping[str, tuple[float, int]],
    figures: Mapping[str, str],
    description: str | None = None,
) -> str:
    """Render the page.

    Parameters
    ----------
    title : str
    facts : mapping
        What was compared, one line each.
    comparison : Comparison
    everything : mapping of str to (cost, size)
        Of all features, by data set.
    figures : mapping of title to path
        Pictures at the end of the page.
    description : str, optional

    Returns
    -------
    str
        The same for the same searches but for the section on time, which is the last.
    """
    parts = [f"# {title}", *([description] if description else [])]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts.items()))
    parts += ["## What it says", "\n".join(f"- {text}" for text in sentences(comparison))]
    parts += ["## Data sets", _LEGEND]
    for dataset in comparison.datasets:
        cost, size = everything[dataset]
        own = comparison.summary[comparison.summary["dataset"] == dataset]
        parts += [f"### {dataset}", f"All {size} features cost {cost:.5f}."]
        parts.append(_frame(own.sort_values("rank", kind="stable"), COLUMNS))
    parts += ["## Ranks", _ranks(comparison.ranks)]
    parts += ["## Tests", *_tests(comparison)]
    parts += ["## Figures", *(f"![{name}]({path})" for name, path in figures.items())]
    if "seconds_algorithm" in comparison.summary:
        parts += ["## Time", _TIME_LEGEND]
        for dataset in comparison.datasets:
            own = comparison.summary[comparison.summary["dataset"] == dataset]
            parts += [f"### {dataset}", _frame(own, TIMES)]
    return "\n\n".join(parts) + "\n"


def _frame(frame: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> str:
    there = {key: value for key, value in columns.items() if key in frame}
    rows = [
        [shown(row[key], form) for key, (_, form) in there.items()] for _, row in frame.iterrows()
    ]
    return _table([name for name, _ in there.values()], rows)


def _ranks(ranks: pd.DataFrame) -> str:
    ordered = ranks.sort_values("average", kind="stable")
    rows = [
        [str(name), *(f"{row[c]:g}" for c in ranks.columns[:-1]), f"{row['average']:.2f}"]
        for name, row in ordered.iterrows()
    ]
    return _table(["strategy", *(str(name) for name in ranks.columns)], rows)


def _tests(comparison: Comparison) -> Iterable[str]:
    level = f"{100 * (1 - comparison.alpha):g} %"
    for title, table in (
        ("Over the data sets: signed-rank tests of the mean costs", comparison.across),
        ("On each data set: rank-sum tests over the seeds", comparison.within),
    ):
        if not len(table):
            continue
        yield f"### {title}"
        yield (
            f"Shift of the first strategy's cost above the second's (Hodges-Lehmann) with its "
            f"{level} interval; p is exact given the ties, and corrected by Holm's method"
            + (" on each data set by itself." if "dataset" in table else ".")
        )
        names = [*(["data set"] if "dataset" in table else []), "first", "second"]
        rows = [
            [
                *([str(row["dataset"])] if "dataset" in table else []),
                str(row["first"]),
                str(row["second"]),
                f"{row['shift']:.4g}",
                interval(row["low"], row["high"]),
                p_value(row["p"]),
                p_value(row["p_holm"]),
            ]
            for _, row in table.iterrows()
        ]
        yield _table([*names, "shift", "interval", "p", "p, Holm"], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
