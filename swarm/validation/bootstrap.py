"""Paired bootstrap of test rows, or of whole groups of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from swarm.arrays import Float, Int

__all__ = ["blocks", "interval", "n_independent", "resampled_sums"]

CELLS_PER_BLOCK = 4_000_000


def n_independent(n_rows: int, groups: ArrayLike | None) -> int:
    """Return the number of resampling units: groups if given, else rows."""
    return n_rows if groups is None else len(np.unique(np.asarray(groups)))


def blocks(n_rows: int, groups: ArrayLike | None, n_resamples: int, seed: int) -> Iterator[Int]:
    """Draw bootstrap resamples in blocks, so that memory stays bounded.

    Each resample draws `n_rows` rows with replacement. With groups, as many groups as there are
    in the data are drawn with replacement, each with all of its rows.

    Parameters
    ----------
    n_rows : int
        Number of test rows.
    groups : (n_rows,), optional
        Group of each row.
    n_resamples, seed : int
        Number of resamples and random seed.

    Yields
    ------
    int64 (n_block, n_rows)
        Number of occurrences of each row in each resample.
    """
    rng = np.random.default_rng([seed, 1])
    codes = None
    n_drawn = n_rows
    if groups is not None:
        names, codes = np.unique(np.asarray(groups), return_inverse=True)
        n_drawn = len(names)
    size = max(1, CELLS_PER_BLOCK // max(n_rows, 1))
    for start in range(0, n_resamples, size):
        n_block = min(size, n_resamples - start)
        counts = np.zeros((n_block, n_drawn), dtype=np.int64)
        for row in counts:
            row += np.bincount(rng.integers(n_drawn, size=n_drawn), minlength=n_drawn)
        yield counts if codes is None else counts[:, codes]


def resampled_sums(
    statistics: Sequence[Float], groups: ArrayLike | None, n_resamples: int, seed: int
) -> list[Float]:
    """Sum row statistics over the same resamples for every contender.

    Parameters
    ----------
    statistics : list of float64 (n_rows, n_statistics)
        One for each contender.
    groups, n_resamples, seed
        As in :func:`blocks`.

    Returns
    -------
    list of float64 (n_resamples, n_statistics)
        One for each contender.
    """
    together = np.concatenate(list(statistics), axis=1)
    counted = blocks(len(together), groups, n_resamples, seed)
    sums = np.concatenate([block.astype(np.float64) @ together for block in counted])
    ends = np.cumsum([one.shape[1] for one in statistics])[:-1]
    return np.split(sums, ends, axis=1)


def interval(values: Float, level: float) -> tuple[float, float]:
    """Return the percentile interval of resampled values (n_resamples,).

    Resamples without a value, such as those of a single class, are left out.
    """
    tail = (1.0 - level) / 2.0
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return float(low), float(high)
