"""The page of document 004: its tables and figure, redone, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from swarm.evidence.bees_figures import boxplots
from swarm.evidence.bees_forms import (
    document_check,
    order_table,
    strategies_table,
    table_2,
    table_3,
)
from swarm.evidence.bees_tables import (
    accuracies,
    agreement,
    comparisons_of,
    datasets_of,
    parts_of,
    short_cells,
    summary_of,
)
from swarm.evidence.bees_words import (
    budget_line,
    floor_lines,
    listed,
    order_lines,
    runs_lines,
    single_label_lines,
    sizes_line,
    test_line,
)
from swarm.evidence.page import Page, run_line
from swarm.evidence.published_bees import BUDGET, MULTI_LABEL, NAMES, PUBLISHED, RUNS

__all__ = ["bees_page"]


@dataclass(frozen=True)
class Study:
    """The rows, and what is computed from them once."""

    rows: pd.DataFrame
    facts: Mapping[str, Any]

    @cached_property
    def runs(self) -> dict[tuple[str, str, str], Any]:
        return accuracies(self.rows)

    @cached_property
    def datasets(self) -> list[str]:
        return datasets_of(self.rows)

    @cached_property
    def parts(self) -> list[str]:
        return parts_of(self.rows)

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summary_of(self.rows)

    @cached_property
    def tests(self) -> pd.DataFrame:
        return comparisons_of(self.runs)

    @cached_property
    def order(self) -> pd.DataFrame:
        return agreement(self.runs, self.parts, self.datasets)


def bees_page(rows: pd.DataFrame, facts: Mapping[str, Any]) -> Page:
    """Write the page from the rows that there are.

    Parameters
    ----------
    rows : DataFrame
        The searches of the study; the part of a row is its rule for the size of the subsets.
    facts : mapping
        `versions`, `machine`, `seconds` and `sets` of the study.

    Returns
    -------
    Page
        With a figure for each part, and the tables ``bees_summary.csv`` and ``bees_tests.csv``.
    """
    study = Study(rows, facts)
    figures = _figures(study)
    sections = [
        _start(study),
        _results(study, figures),
        *(_part(study, part, figures) for part in study.parts),
        _single_label(study),
        "## What the published figures say of each other\n\n" + document_check(),
        _caveats(study),
    ]
    tables = {"bees_summary.csv": study.summary, "bees_tests.csv": study.tests}
    return Page("\n".join(sections), {name: svg for name, svg in figures.values()}, tables)


def _figures(study: Study) -> dict[str, tuple[str, bytes]]:
    """Name and bytes of the figure of each part that has anything to draw."""
    figures = {}
    for part in study.parts:
        values = {
            dataset: {
                name: study.runs[part, dataset, name]
                for name in MULTI_LABEL
                if (part, dataset, name) in study.runs
            }
            for dataset in study.datasets
        }
        values = {dataset: runs for dataset, runs in values.items() if runs}
        if values:
            stem = "bees_" + re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_")
            figures[part] = (f"{stem}.svg", boxplots(values, part, stem.replace("_", "-")))
    return figures


def _start(study: Study) -> str:
    absent = [name for name in PUBLISHED if name not in study.datasets]
    lines = [
        "# Bees and several labels: document 004",
        f"The document compares its bee colony (BCOi) with an ant colony (ACO) and a memetic "
        f"algorithm (MA) on {listed(list(PUBLISHED))}: {BUDGET} fitness calls a search, {RUNS} "
        "runs, accuracy of ML-kNN (the share of rows whose labels are all right). Here are the "
        "three again, `bee_colony`, `mlaco` and `memetic`, with the parameters of its table 1, "
        "and on the same budget strategies that see nothing of the labels but the cost. The "
        "document does not say how many features its subsets have; so this page has one part for "
        "each size that was tried.",
    ]
    if absent:
        lines.append(f"Data sets of the document without a search here: {listed(absent)}.")
    lines.append(f"{budget_line(study.rows)} {run_line(study.facts)}".strip())
    return _joined(lines)


def _results(study: Study, figures: Mapping[str, tuple[str, bytes]]) -> str:
    lines = ["## What came out", *order_lines(study.order, study.parts)]
    lines += single_label_lines(study.tests)
    lines += floor_lines(study.summary, study.tests)
    if len(study.order):
        lines += [
            "### The order of the means",
            order_table(study.order, study.tests, study.datasets),
            "`>` stands where the rank-sum test tells the neighbours apart (p < 0.05), `≥` where "
            "it does not (in the published line it is of the means alone); bold is the published "
            "order. The distance is the mean difference between our mean accuracies and the "
            "published ones, without its sign. The last columns count the data sets on which BCOi "
            "is better / not told apart / worse.",
        ]
    best = _best(study)
    if best in figures:
        lines += [
            "### Figure 1",
            f"![Boxplots of the accuracy, {best}](figures/{figures[best][0]})",
            f"Part `{best}`, whose order agrees best with the published one.",
        ]
    lines += runs_lines(*short_cells(study.runs, study.parts, study.datasets))
    return _joined(lines)


def _best(study: Study) -> str:
    """Part with the most published orders, then pairs, then the least distance."""
    if study.order.empty:
        return study.parts[0] if study.parts else ""
    by_part = study.order.groupby("part", sort=False)
    scores = {
        str(part): (int(t["same"].sum()), int(t["pairs"].sum()), -float(t["distance"].mean()))
        for part, t in by_part
    }
    return max(scores, key=scores.__getitem__)


def _part(study: Study, part: str, figures: Mapping[str, tuple[str, bytes]]) -> str:
    summary = study.summary[study.summary["part"] == part]
    tests = study.tests[study.tests["part"] == part]
    datasets = [name for name in study.datasets if name in set(summary["dataset"])]
    lines = [
        f"## Part `{part}`",
        sizes_line(summary, datasets),
        "Accuracy, mean (SD), as table 2:",
        table_2(summary, datasets, study.facts.get("sets", {})),
        "P-value of Wilcoxon's rank-sum test and 95 % interval of the shift, accuracy of BCOi "
        "minus that of the other, as table 3:",
        table_3(tests, datasets),
        test_line(tests),
    ]
    if part in figures and part != _best(study):
        lines.append(f"![Boxplots of the accuracy, {part}](figures/{figures[part][0]})")
    return _joined(lines)


def _single_label(study: Study) -> str:
    lines = [
        "## The single-label strategies on the same budget",
        "Accuracy, mean (SD), mean size and rank. `+` is better than BCOi on that data set by "
        "the same rank-sum test (p < 0.05), `-` worse, `=` not told apart; without a mark there "
        "is no test. All features (`full`) are one evaluation.",
    ]
    without = []
    for part in study.parts:
        summary = study.summary[study.summary["part"] == part]
        tests = study.tests[study.tests["part"] == part]
        if set(summary["strategy"]) <= set(MULTI_LABEL):
            without.append(f"`{part}`")
        else:
            lines += [f"### `{part}`", strategies_table(summary, tests, study.datasets)]
    if without:
        lines.append(f"Only the document's three strategies were run with {listed(without)}.")
    return _joined(lines)


def _joined(lines: Sequence[str]) -> str:
    return "\n\n".join(line.strip() for line in lines if line) + "\n"


def _caveats(study: Study) -> str:
    sets = study.facts.get("sets", {})
    notes = [
        f"- {name}: {sets[name]['note']}"
        for name in study.datasets
        if sets.get(name, {}).get("note")
    ]
    lines = [
        "## Caveats",
        "- The cost of a subset is that of ML-kNN on one hold-out part, as the document evaluates "
        "on its testing part. Every accuracy on this page is therefore that of the very rows the "
        f"search looked at: the best of up to {BUDGET} looks, and optimistic. The document's are "
        "so too, as far as it tells. This page ranks searches; it does not say how good the "
        "subsets are on new rows.",
        "- Features with continuous values are binned into 10, as in the document.",
        "- The document does not state the size n of its subsets, nor how it splits the data. "
        "Absolute accuracies are hence no test of it; the order of the strategies is.",
        f"- {listed([f'{NAMES[name]} is our `{name}`' for name in MULTI_LABEL])}; where their "
        "sources are silent, the choices made are in the docstrings.",
        "- No p-value is corrected for the number of tests, as none is in the document.",
    ]
    return "\n".join([lines[0] + "\n", *lines[1:], *notes]) + "\n"
