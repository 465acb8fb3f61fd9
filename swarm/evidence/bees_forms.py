"""Tables of the page of document 004, in the form of the document's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from swarm.evidence.bees_tables import ALPHA
from swarm.evidence.page import markdown_table
from swarm.evidence.published_bees import (
    MULTI_LABEL,
    NAMES,
    PUBLISHED,
    RUNS,
    Tested,
    implied_runs,
    welch_p,
)
from swarm.validation.location import rank_sum

__all__ = [
    "document_check",
    "order_table",
    "published_sign",
    "strategies_table",
    "table_2",
    "table_3",
]


def order_table(order: pd.DataFrame, tests: pd.DataFrame, datasets: Sequence[str]) -> str:
    """Table of the orders, part by data set, with the published one above."""
    datasets = [name for name in datasets if name in set(order["dataset"])]
    first = [" > ".join(NAMES[name] for name in PUBLISHED[dataset].order) for dataset in datasets]
    counts = [
        _counts([published_sign(PUBLISHED[dataset].tests[other]) for dataset in datasets])
        for other in ("mlaco", "memetic")
    ]
    lines = [["published", *first, "", "", *counts]]
    for part, own in order.groupby("part", sort=False):
        by_set = own.set_index("dataset")
        cells = [
            "–"
            if dataset not in by_set.index
            else f"**{by_set['order'][dataset]}**"
            if by_set["same"][dataset]
            else str(by_set["order"][dataset])
            for dataset in datasets
        ]
        signs = tests[(tests["part"] == part) & tests["dataset"].isin(datasets)]
        counts = [
            _counts(list(signs.loc[signs["other"] == other, "sign"]))
            for other in ("mlaco", "memetic")
        ]
        same = f"{int(own['same'].sum())} of {len(own)}"
        lines.append([f"`{part}`", *cells, same, f"{own['distance'].mean():.4f}", *counts])
    header = ["part", *datasets, "same order", "distance", "BCOi against ACO", "against MA"]
    return markdown_table(header, lines)


def table_2(
    summary: pd.DataFrame, datasets: Sequence[str], sets: Mapping[str, Mapping[str, Any]]
) -> str:
    """Table 2 of the document: for each data set a line of ours and a line as published."""
    lines: list[list[object]] = []
    cells = summary.set_index(["dataset", "strategy"])
    for dataset in datasets:
        known, document = sets.get(dataset, {}), PUBLISHED.get(dataset)
        there = [name for name in MULTI_LABEL if (dataset, name) in cells.index]
        runs = [str(cells.loc[(dataset, name), "runs"]) for name in there]
        ours = [
            _mean_sd(*cells.loc[(dataset, name), ["accuracy", "sd"]]) if name in there else "–"
            for name in MULTI_LABEL
        ]
        counts = [_count(known.get(key)) for key in ("rows", "columns", "labels")]
        told = runs[0] if len(set(runs)) == 1 else " / ".join(runs) or "0"
        lines.append([dataset, "here", *counts, told, *ours])
        if document is not None:
            figures = [_mean_sd(*document.accuracy[name]) for name in MULTI_LABEL]
            counts = [str(n) for n in (document.instances, document.features, document.labels)]
            lines.append(["", "published", *counts, RUNS, *figures])
    header = ["data set", "", "instances", "features", "labels", "runs", *NAMES.values()]
    return markdown_table(header, lines, "ll" + "r" * 7)


def table_3(tests: pd.DataFrame, datasets: Sequence[str]) -> str:
    """Table 3 of the document: for each data set a line of ours and a line as published."""
    lines: list[list[object]] = []
    cells = tests.set_index(["dataset", "other"])
    for dataset in datasets:
        ours = []
        for other in ("mlaco", "memetic"):
            known = (dataset, other) in cells.index
            ours.append(
                _tested(*cells.loc[(dataset, other), ["p", "low", "high"]]) if known else "–"
            )
        lines.append([dataset, "here", *ours])
        if dataset in PUBLISHED:
            published = [PUBLISHED[dataset].tests[other] for other in ("mlaco", "memetic")]
            lines.append(["", "published", *(_tested(t.p, t.low, t.high) for t in published)])
    return markdown_table(["data set", "", "BCOi against ACO", "BCOi against MA"], lines, "llrr")


def strategies_table(summary: pd.DataFrame, tests: pd.DataFrame, datasets: Sequence[str]) -> str:
    """Every strategy of a part: accuracy, size and rank on each data set, and the mean rank."""
    there = [name for name in datasets if name in set(summary["dataset"])]
    cells = summary.set_index(["dataset", "strategy"])
    signs = tests.set_index(["dataset", "other"])["sign"]
    marks = {1: " -", 0: " =", -1: " +"}
    lines: list[tuple[float, list[str]]] = []
    for strategy in sorted(set(summary["strategy"])):
        line = [f"{NAMES[strategy]} (`{strategy}`)" if strategy in NAMES else f"`{strategy}`"]
        ranks: list[float] = []
        for dataset in there:
            cell = (dataset, strategy)
            if cell not in cells.index:
                line += ["–"] * 3
                continue
            own = cells.loc[cell]
            mark = marks[int(signs[cell])] if cell in signs.index else ""
            ranks.append(float(own["rank"]))
            line += [_mean_sd(own["accuracy"], own["sd"]) + mark, f"{own['size']:.1f}"]
            line.append(f"{own['rank']:g}")
        mean = math.fsum(ranks) / len(ranks) if len(ranks) == len(there) else math.inf
        lines.append((mean, [*line, f"{mean:.2f}" if math.isfinite(mean) else "–"]))
    header = ["strategy"]
    for dataset in there:
        header += [dataset, "size", "rank"]
    ordered = [line for _, line in sorted(lines, key=lambda pair: pair[0])]
    return markdown_table([*header, "mean rank"], ordered)


def document_check() -> str:
    """Hold the document's intervals against its own standard deviations."""
    lines, implied = [], []
    for dataset, published in PUBLISHED.items():
        for other, test in published.tests.items():
            runs = implied_runs(published, other)
            implied.append(runs)
            lines.append(
                [
                    f"{dataset}, {NAMES[other]}",
                    _p(test.p),
                    _p(welch_p(published, other, RUNS)),
                    f"{test.high - test.low:.4f}",
                    f"{(test.high - test.low) * math.sqrt(runs / RUNS):.4f}",
                    f"{runs:.1f}",
                ]
            )
    least = min(test.p for published in PUBLISHED.values() for test in published.tests.values())
    apart = rank_sum([float(i) for i in range(RUNS)], [float(RUNS + i) for i in range(RUNS)])
    header = ["data set, against", "p", f"p by Welch, {RUNS} runs", "width of interval"]
    header += [f"width by SDs, {RUNS} runs", "runs implied"]
    fewer = max(implied) < RUNS
    return (
        f"Table 2 has means and SDs of {RUNS} runs, table 3 p-values and intervals. With the SDs, "
        f"an interval tells roughly how many runs it rests on: here {min(implied):.1f} to "
        f"{max(implied):.1f}, {np.median(implied):.1f} in the median. "
        + (
            f"That is fewer than {RUNS} for every pair. "
            if fewer
            else f"That is not fewer than {RUNS} for every pair. "
        )
        + f"{RUNS} runs that do not overlap at all give p = {apart.p:.1e}; the smallest published "
        f"p is {_p(least)}. So compare where the intervals lie, not the p-values: a difference of "
        "the same size has a smaller p here where we have more runs.\n\n"
        + markdown_table(header, lines)
    )


def published_sign(test: Tested) -> int:
    """Give 1 where BCOi is published as better at `ALPHA`, -1 where as worse, else 0."""
    return 0 if test.p >= ALPHA else 1 if test.low + test.high > 0 else -1


def _mean_sd(mean: float, sd: float) -> str:
    return f"{mean:.4f}" + ("" if math.isnan(sd) else f" ({sd:.4f})")


def _p(value: float) -> str:
    return f"{value:.2g}" if value < 1e-3 else f"{value:.4f}"


def _tested(p: float, low: float, high: float) -> str:
    return f"{_p(p)} [{_bound(low)}, {_bound(high)}]"


def _bound(value: float) -> str:
    text = f"{abs(value):.4f}" if math.isfinite(value) else "∞"
    return f"−{text}" if value < 0 else text


def _counts(signs: Sequence[int]) -> str:
    return f"{signs.count(1)} / {signs.count(0)} / {signs.count(-1)}" if signs else "–"


def _count(value: object) -> str:
    return "–" if value is None else str(value)
