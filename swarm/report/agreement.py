"""Agreement of the best subsets of one search, as an estimate of stability from a single run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from swarm.arrays import Bool
from swarm.validation.stability import interpret_index, nogueira

__all__ = ["Agreement", "agreement"]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of the final subsets of a search.

    Attributes
    ----------
    shares : DataFrame
        One row per unit of any final subset, by decreasing frequency: ``held``, the share of the
        final subsets with the unit, ``near``, its share of the evaluated subsets about as good
        as the best, and ``chosen``.
    n_held, n_near : int
        Number of distinct final subsets, and of subsets about as good as the best.
    index, low, high : float
        Nogueira's stability index of the final subsets and its confidence interval; NaN for
        fewer than two subsets.
    word : str
        Interpretation of the index.
    level : float
        Confidence level of the interval.
    overlap : float
        Mean Jaccard index of pairs of final subsets; NaN for fewer than two.
    chance : float
        Mean share of all units in a final subset: the expected frequency of a unit in random
        subsets of these sizes.
    """

    shares: pd.DataFrame
    n_held: int
    n_near: int
    index: float
    low: float
    high: float
    word: str
    level: float
    overlap: float
    chance: float


def agreement(
    names: Sequence[str],
    best: Bool,
    held: Bool,
    near: Bool,
    free: Bool,
    level: float = 0.95,
) -> Agreement:
    """Measure the agreement of the final subsets of a search.

    Parameters
    ----------
    names : names (n_units,)
    best : bool (n_units,)
        Best subset of the search.
    held : bool (n_held, n_units)
        Distinct final subsets, at least one.
    near : bool (n_near, n_units)
        Subsets whose cost is within one standard error of the best; may be empty.
    free : bool (n_units,)
        Units that are neither fixed nor forbidden; the index ignores the others.
    level : float
        Confidence level of the interval.
    """
    nan = float("nan")
    share = held.mean(axis=0)
    beside = near.mean(axis=0) if len(near) else np.full(len(names), nan)
    order = np.lexsort((-np.nan_to_num(beside), ~best, -share))
    order = order[(share[order] > 0) | best[order]]
    table = pd.DataFrame(
        {"held": share[order], "near": beside[order], "chosen": best[order]},
        index=pd.Index([str(names[i]) for i in order]),
    )
    index = low = high = overlap = nan
    if len(held) > 1 and free.any():
        found = nogueira(held[:, free], level)
        index, low, high, overlap = found.index, found.low, found.high, _overlap(held)
    return Agreement(
        shares=table,
        n_held=len(held),
        n_near=len(near),
        index=index,
        low=low,
        high=high,
        word=interpret_index(index),
        level=level,
        overlap=overlap,
        chance=float(share.mean()),
    )


def _overlap(masks: Bool) -> float:
    """Return the mean Jaccard index of all pairs."""
    counts = masks.astype(np.int64)
    both = counts @ counts.T
    sizes = counts.sum(axis=1)
    either = sizes[:, None] + sizes[None, :] - both
    pairs = np.triu_indices(len(masks), 1)
    shares = both[pairs] / np.maximum(either[pairs], 1)
    return float(shares.mean())
