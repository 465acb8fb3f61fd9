"""The numbers behind the page of document 004: its tables 2 and 3 from our own searches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.evidence.published_bees import MULTI_LABEL, NAMES, PUBLISHED, RUNS
from swarm.validation.location import rank_sum

__all__ = [
    "ALPHA",
    "SINGLE_LABEL",
    "accuracies",
    "agreement",
    "comparisons_of",
    "datasets_of",
    "parts_of",
    "short_cells",
    "summary_of",
]

ALPHA = 0.05
# What is made for one label, and searches several by their cost alone.
SINGLE_LABEL = ("bpso", "two_d", "multiswarm", "genetic")
_BEES = "bee_colony"

Float = NDArray[np.float64]
Runs = Mapping[tuple[str, str, str], Float]


def accuracies(rows: pd.DataFrame) -> dict[tuple[str, str, str], Float]:
    """Accuracy of every run by part, data set and strategy: 1 - cost, where the cost is finite."""
    sound = rows[np.isfinite(rows["cost"].to_numpy(dtype=np.float64))]
    found = {
        (str(part), str(dataset), str(strategy)): 1.0 - group["cost"].to_numpy(dtype=np.float64)
        for (part, dataset, strategy), group in sound.groupby(["part", "dataset", "strategy"])
    }
    parts, datasets = parts_of(rows), datasets_of(rows)
    return {
        cell: found[cell]
        for cell in sorted(found, key=lambda c: (parts.index(c[0]), datasets.index(c[1]), c[2]))
    }


def datasets_of(rows: pd.DataFrame) -> list[str]:
    """Data sets, those of the document first and in its order."""
    there = [str(name) for name in rows["dataset"].unique()]
    return [name for name in PUBLISHED if name in there] + sorted(set(there) - set(PUBLISHED))


def parts_of(rows: pd.DataFrame) -> list[str]:
    """Parts by the share of the features that their multi-label strategies keep; free ones last."""
    chosen = rows[rows["strategy"].isin(MULTI_LABEL)]
    rank: dict[str, tuple[bool, float, str]] = {}
    for part in rows["part"].unique():
        own = chosen[chosen["part"] == part]
        share = float((own["size"] / own["n_available"]).mean()) if len(own) else math.inf
        varied = bool((own.groupby("dataset")["size"].nunique() > 1).any())
        rank[str(part)] = (varied, share, str(part))
    return sorted(rank, key=rank.__getitem__)


def summary_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean, SD, size and rank of each strategy on each data set and part.

    Returns
    -------
    DataFrame
        part, dataset, strategy, runs, accuracy, sd (of one run NaN), size (mean), smallest,
        largest, n_available, and rank: of the mean accuracy within part and data set, 1 the best.
    """
    sound = rows[np.isfinite(rows["cost"].to_numpy(dtype=np.float64))]
    found: list[dict[str, Any]] = []
    for (part, dataset, strategy), group in sound.groupby(["part", "dataset", "strategy"]):
        costs = group["cost"].to_numpy(dtype=np.float64)
        found.append(
            {
                "part": part,
                "dataset": dataset,
                "strategy": strategy,
                "runs": len(group),
                # A mean that does not depend on the order: ties must stay ties.
                "accuracy": 1.0 - math.fsum(costs) / len(costs),
                "sd": float(costs.std(ddof=1)) if len(costs) > 1 else math.nan,
                "size": float(group["size"].mean()),
                "smallest": int(group["size"].min()),
                "largest": int(group["size"].max()),
                "n_available": int(group["n_available"].iloc[0]),
            }
        )
    columns = [
        "part",
        "dataset",
        "strategy",
        "runs",
        "accuracy",
        "sd",
        "size",
        "smallest",
        "largest",
        "n_available",
    ]
    table = pd.DataFrame(found, columns=columns)
    table["rank"] = table.groupby(["part", "dataset"])["accuracy"].rank(ascending=False)
    return table


def comparisons_of(runs: Runs) -> pd.DataFrame:
    """Test BCOi against every other strategy by Wilcoxon's rank sum, as table 3 does.

    A strategy with one run, as all features have, is not tested. Nothing is corrected for the
    number of tests, as in the document.

    Returns
    -------
    DataFrame
        part, dataset, other, p, estimate, low, high (of accuracy of BCOi minus that of the
        other), smallest_p, and sign: 1 where BCOi is better at `ALPHA`, -1 where it is worse.
    """
    found = []
    for (part, dataset, other), theirs in runs.items():
        ours = runs.get((part, dataset, _BEES))
        if other == _BEES or ours is None or min(len(ours), len(theirs)) < 2:
            continue
        shift = rank_sum(ours, theirs, 1 - ALPHA)
        # With many ties the estimate may be 0 although the ranks lie apart.
        towards = shift.estimate or float(ours.mean() - theirs.mean())
        sign = int(np.sign(towards)) if shift.p < ALPHA else 0
        figures = (shift.p, shift.estimate, shift.low, shift.high, shift.smallest_p, sign)
        found.append((part, dataset, other, *figures))
    columns = ["part", "dataset", "other", "p", "estimate", "low", "high", "smallest_p", "sign"]
    return pd.DataFrame(found, columns=columns)


def agreement(runs: Runs, parts: Iterable[str], datasets: Iterable[str]) -> pd.DataFrame:
    """Compare the order of the three multi-label strategies with the published one.

    Returns
    -------
    DataFrame
        One row per part and data set of the document with runs of all three: part, dataset,
        order (``BCOi > MA ≥ ACO`` by their means, where ``≥`` stands between neighbours that the
        rank-sum test does not tell apart), same (whether it is the published one), pairs (of
        the three, that are ordered as published) and distance (mean over the three of the
        difference to the published mean, without its sign).
    """
    named = [name for name in datasets if name in PUBLISHED]
    found = [
        (part, dataset, *_order(runs, part, dataset))
        for part in parts
        for dataset in named
        if all((part, dataset, name) in runs for name in MULTI_LABEL)
    ]
    return pd.DataFrame(found, columns=["part", "dataset", "order", "same", "pairs", "distance"])


def short_cells(
    runs: Runs, parts: Iterable[str], datasets: Iterable[str]
) -> tuple[list[tuple[str, str, str]], dict[tuple[str, str, str], int]]:
    """Cells that a whole study would have: those without a run, those with fewer than `RUNS`.

    The document's strategies belong in every part and data set; another one belongs in all data
    sets of the parts in which it is found at all.
    """
    own: dict[str, set[str]] = {part: set(MULTI_LABEL) for part in parts}
    for part, _, strategy in runs:
        own[part].add(strategy)
    named = list(datasets)
    whole = [
        (part, dataset, strategy)
        for part, strategies in own.items()
        for dataset in named
        for strategy in sorted(strategies - {"full"})
    ]
    few = {cell: len(runs[cell]) for cell in whole if cell in runs and len(runs[cell]) < RUNS}
    return [cell for cell in whole if cell not in runs], few


def _order(runs: Runs, part: str, dataset: str) -> tuple[str, bool, int, float]:
    values = {name: runs[part, dataset, name] for name in MULTI_LABEL}
    means = {name: math.fsum(values[name]) / len(values[name]) for name in MULTI_LABEL}
    published = PUBLISHED[dataset]
    ours = sorted(MULTI_LABEL, key=lambda name: -means[name])
    text = NAMES[ours[0]]
    for better, worse in pairwise(ours):
        apart = rank_sum(values[better], values[worse]).p < ALPHA
        text += f" {'>' if apart else '≥'} {NAMES[worse]}"
    pairs = sum(means[a] > means[b] for a, b in combinations(published.order, 2))
    distance = math.fsum(
        abs(means[name] - published.accuracy[name][0]) for name in MULTI_LABEL
    ) / len(MULTI_LABEL)
    return text, pairs == 3, pairs, distance
