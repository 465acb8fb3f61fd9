"""How far the best subsets of one search agree: what a single run can say of stability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.validation.stability import nogueira, verbal

__all__ = ["Agreement", "agreement"]

Bool = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of the subsets a search held at its end.

    Attributes
    ----------
    shares : DataFrame
        One row per unit that any of them holds: ``held``, the share of the held subsets with
        it, ``near``, that of the evaluated subsets about as good as the best, and ``chosen``.
        The most frequent first.
    n_held, n_near : int
        Number of different subsets held, and of those about as good as the best.
    index, low, high : float
        Nogueira's index of the held subsets and its confidence interval; NaN for fewer than
        two.
    word : str
        The index in a word.
    level : float
    overlap : float
        Mean Jaccard index of pairs of held subsets; NaN for fewer than two.
    chance : float
        Share of the units that a held subset has on average: how often random subsets of these
        sizes would hold any unit.
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
    """Measure how much alike the subsets are.

    Parameters
    ----------
    names : names (n_units,)
    best : bool (n_units,)
        The answer of the search.
    held : bool (n_held, n_units)
        Different subsets, at least one.
    near : bool (n_near, n_units)
        Subsets whose cost is within one standard error of the best; may be empty.
    free : bool (n_units,)
        Units that a subset may have or not: the others agree by decree, and do not count.
    level : float
        Confidence of the interval.
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
        word=verbal(index),
        level=level,
        overlap=overlap,
        chance=float(share.mean()),
    )


def _overlap(masks: Bool) -> float:
    """Mean Jaccard index of all pairs."""
    counts = masks.astype(np.int64)
    both = counts @ counts.T
    sizes = counts.sum(axis=1)
    either = sizes[:, None] + sizes[None, :] - both
    pairs = np.triu_indices(len(masks), 1)
    shares = both[pairs] / np.maximum(either[pairs], 1)
    return float(shares.mean())
