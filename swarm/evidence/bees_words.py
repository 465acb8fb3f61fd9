"""Sentences of the page of document 004, from the numbers of `bees_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from swarm.evidence.bees_forms import published_sign
from swarm.evidence.bees_tables import ALPHA, SINGLE_LABEL
from swarm.evidence.published_bees import MULTI_LABEL, NAMES, PUBLISHED, RUNS

__all__ = [
    "budget_line",
    "floor_lines",
    "listed",
    "order_lines",
    "runs_lines",
    "single_label_lines",
    "sizes_line",
    "test_line",
]


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def budget_line(rows: pd.DataFrame) -> str:
    """Say what the searches spent."""
    searches = rows[rows["strategy"] != "full"]
    if searches.empty:
        return "There is no search yet."
    spent, new = (_span(searches[name]) for name in ("evaluations", "distinct"))
    return f"The searches made {spent} evaluations each, {new} of them of distinct subsets."


def order_lines(order: pd.DataFrame, parts: Sequence[str]) -> list[str]:
    """Say with which sizes the published order holds, and on which data sets."""
    if order.empty:
        return ["No part has runs of all three strategies on a data set of the document yet."]
    n = order["dataset"].nunique()
    told, whole = [], []
    for part in parts:
        own = order[order["part"] == part]
        if own.empty:
            continue
        same = list(own.loc[own["same"], "dataset"])
        inside = f" ({listed(same)})" if same else ""
        told.append(f"- with `{part}` on {len(same)} of {len(own)} data sets{inside};")
        if len(same) == n:
            whole.append(f"`{part}`")
    published: dict[str, list[str]] = {}
    for dataset in order["dataset"].unique():
        text = " > ".join(NAMES[name] for name in PUBLISHED[dataset].order)
        published.setdefault(text, []).append(str(dataset))
    documents = listed([f"{text} on {listed(names)}" for text, names in published.items()])
    verdict = (
        f"The order of the means is the published one on every data set here with {listed(whole)}."
        if whole
        else "No size gives the published order of the means on every data set here."
    )
    first = int(order["order"].str.startswith(NAMES["bee_colony"]).sum())
    return [
        f"{verdict} Published is {documents}. Ours is the same",
        "\n".join(told).removesuffix(";") + ".",
        f"BCOi has the highest mean of the three in {first} of {len(order)} pairs of part and "
        "data set.",
    ]


def sizes_line(summary: pd.DataFrame, datasets: Sequence[str]) -> str:
    """Say how many features the subsets of a part have."""
    chosen = summary[summary["strategy"].isin(MULTI_LABEL)]
    if chosen.empty:
        return "No run of the document's strategies yet."
    told, free = [], False
    for dataset in datasets:
        own = chosen[chosen["dataset"] == dataset]
        if own.empty:
            continue
        low, high = int(own["smallest"].min()), int(own["largest"].max())
        free = free or low != high
        told.append(f"{_between(low, high)} of {int(own['n_available'].iloc[0])} on {dataset}")
    start = "Best subsets of the three have" if free else "Every subset of the three has"
    text = f"{start} {listed(told)} features."
    others = summary[summary["strategy"].isin(SINGLE_LABEL)]
    if not free and (others["smallest"] != others["largest"]).any():
        text += " The single-label strategies are not held to that size."
    return text


def test_line(tests: pd.DataFrame) -> str:
    """Say what the tests of a part come to, beside what they came to in the document."""
    told = []
    for other in ("mlaco", "memetic"):
        own = tests[(tests["other"] == other) & tests["dataset"].isin(list(PUBLISHED))]
        if own.empty:
            continue
        document = [published_sign(PUBLISHED[str(name)].tests[other]) for name in own["dataset"]]
        signs = list(own["sign"])
        told.append(
            f"BCOi against {NAMES[other]}: better on {signs.count(1)} of {len(own)}, worse on "
            f"{signs.count(-1)}, not told apart on {signs.count(0)} (published on the same: "
            f"{document.count(1)}, {document.count(-1)}, {document.count(0)})."
        )
    hopeless = tests[tests["other"].isin(MULTI_LABEL) & (tests["smallest_p"] >= ALPHA)]
    if len(hopeless):
        names = listed(sorted(set(hopeless["dataset"])))
        told.append(f"There are too few runs for any difference to be significant on {names}.")
    return " ".join(told)


def single_label_lines(tests: pd.DataFrame) -> list[str]:
    """Say whether a single-label strategy, or chance, does better than BCOi."""
    own = tests[tests["other"].isin(SINGLE_LABEL)]
    if own.empty:
        return ["There is no search of a single-label strategy to set beside BCOi yet."]
    lost: dict[tuple[str, str], list[str]] = {}
    for part, dataset, other, sign in zip(
        own["part"], own["dataset"], own["other"], own["sign"], strict=True
    ):
        if sign == -1:
            lost.setdefault((part, dataset), []).append(f"`{other}`")
    cells = own.groupby(["part", "dataset"]).ngroups
    start = (
        f"A single-label strategy beats BCOi significantly in {len(lost)} of {cells} pairs of part "
        "and data set"
        if len(lost)
        else f"No single-label strategy beats BCOi significantly in any of {cells} pairs of part "
        "and data set"
    )
    signs = list(own["sign"])
    lines = [
        f"{start}. Of the {len(own)} single comparisons with {_codes(own['other'])}, BCOi is "
        f"better in {signs.count(1)}, worse in {signs.count(-1)}, and not told apart in "
        f"{signs.count(0)}."
    ]
    if len(lost):
        told = [
            f"- with `{part}` on {dataset}: {listed(names)}"
            for (part, dataset), names in lost.items()
        ]
        lines += ["BCOi is beaten by", "\n".join(told)]
    return lines


def floor_lines(summary: pd.DataFrame, tests: pd.DataFrame) -> list[str]:
    """Say whether BCOi does better than chance, and than all features."""
    lines = []
    chance = list(tests.loc[tests["other"] == "random", "sign"])
    if chance:
        lines.append(
            f"Against subsets drawn by chance (`random`), BCOi is better in {chance.count(1)} of "
            f"{len(chance)} pairs of part and data set, worse in {chance.count(-1)}, and not told "
            f"apart in {chance.count(0)}."
        )
    means = summary.pivot(index=["part", "dataset"], columns="strategy", values="accuracy")
    if {"full", "bee_colony"} <= set(means.columns):
        both = means[["full", "bee_colony"]].dropna()
        above = int((both["bee_colony"] > both["full"]).sum())
        lines.append(
            f"Its mean is above the accuracy of all features in {above} of {len(both)} such pairs."
        )
    return [" ".join(lines)] if lines else []


def runs_lines(
    none: Sequence[tuple[str, str, str]], few: Mapping[tuple[str, str, str], int]
) -> list[str]:
    """Say which cells have no run, and which fewer than the document's."""
    if not none and not few:
        return [f"Every strategy but `full` has at least {RUNS} runs on every data set and part."]
    lines = []
    if few:
        told = _told({cell: f", {n} run{'s' * (n > 1)}" for cell, n in few.items()})
        lines.append(f"Fewer than the document's {RUNS} runs: {told}.")
    if none:
        lines.append(f"No run yet: {_told(dict.fromkeys(none, ''))}.")
    return lines


def _codes(names: Any) -> str:
    return listed([f"`{name}`" for name in SINGLE_LABEL if name in set(names)])


def _told(cells: Mapping[tuple[str, str, str], str]) -> str:
    """Name the cells, those together that differ in the strategy or the data set alone."""
    strategies: dict[tuple[str, str, str], list[str]] = {}
    for (part, dataset, strategy), end in cells.items():
        strategies.setdefault((part, dataset, end), []).append(f"`{strategy}`")
    datasets: dict[tuple[str, str], list[str]] = {}
    for (part, dataset, end), names in strategies.items():
        datasets.setdefault((part, listed(names) + end), []).append(dataset)
    return "; ".join(
        f"with `{part}` on {listed(names)} {text}" for (part, text), names in datasets.items()
    )


def _between(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _span(values: Any) -> str:
    whole = [int(value) for value in values]
    return _between(min(whole), max(whole))
