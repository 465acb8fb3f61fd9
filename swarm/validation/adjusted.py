"""Stability of subsets if similar units may replace one another.

Of two nearly equal columns each search keeps another one; an index that compares names calls this
unstable. Source: A. Bommert and J. Rahnenfuehrer, Adjusted measures for feature selection stability
for data sets with similar features, LOD 2020, measure SMA-Count, which they recommend.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from swarm.arrays import Bool, Float
from swarm.errors import InputError

__all__ = ["SIMILAR", "adjusted_stability"]

# Similarity from which units may replace one another, as in the source.
SIMILAR = 0.9
# Random pairs of subsets for the expectation, all pairs together, and of each pair at least.
_DRAWS, _LEAST = 10_000, 50


def adjusted_stability(masks: Bool, similarity: Float, threshold: float = SIMILAR) -> float:
    """Compute the adjusted stability of subsets.

    The mean over all pairs of subsets of ``(I - E) / (U - E)``. I is the number of common units
    plus that of units with a similar one on the other side; ``U = sqrt(|V_i| |V_j|)``; E is the
    expectation of I for random subsets of these sizes, partly from random draws of a fixed seed.

    Parameters
    ----------
    masks : bool (M, d)
        At least two subsets.
    similarity : float64 (d, d)
        Within [0, 1], for example the absolute rank correlation.
    threshold : float
        Similarity from which units may replace one another.

    Returns
    -------
    float
        1 if the subsets are equal up to similar units, about 0 if they agree as random ones do;
        NaN if no pair is comparable, as subsets are empty or contain all units.

    Raises
    ------
    InputError
        If there are fewer than two subsets, or the similarities have another shape.
    """
    chosen = np.asarray(masks, dtype=bool)
    if chosen.ndim != 2 or len(chosen) < 2:
        raise InputError(f"stability needs at least 2 subsets to compare, got {len(chosen)}")
    width = chosen.shape[1]
    if similarity.shape != (width, width):
        raise InputError(f"similarity must have shape {(width, width)}, got {similarity.shape}")
    similar = similarity >= threshold
    np.fill_diagonal(similar, False)
    sizes = chosen.sum(axis=1).tolist()
    pairs = list(combinations(range(len(chosen)), 2))
    rng = np.random.default_rng(0)
    draws = max(_LEAST, _DRAWS // len(pairs)) if similar.any() else 0
    expected: dict[tuple[int, int], list[float]] = {}
    for first, second in pairs:
        key = sizes[first], sizes[second]
        expected.setdefault(key, []).extend(_draw(similar, *key, rng) for _ in range(draws))
    values = []
    for first, second in pairs:
        key = sizes[first], sizes[second]
        chance = key[0] * key[1] / width
        chance += float(np.mean(expected[key])) if expected[key] else 0.0
        room = (key[0] * key[1]) ** 0.5 - chance
        if room > 1e-9:
            both = int((chosen[first] & chosen[second]).sum())
            found = both + _replaceable(similar, chosen[first], chosen[second])
            values.append((found - chance) / room)
    return float(np.mean(values)) if values else float("nan")


def _replaceable(similar: Bool, first: Bool, second: Bool) -> int:
    """Count the units of one subset alone with a similar one in the other; the smaller count."""
    alone, rest = first & ~second, second & ~first
    between = similar[np.ix_(alone, rest)]
    return int(min(between.any(axis=1).sum(), between.any(axis=0).sum()))


def _draw(similar: Bool, first: int, second: int, rng: np.random.Generator) -> int:
    """Count the replaceable units of two random subsets of these sizes."""
    masks = np.zeros((2, len(similar)), dtype=bool)
    for row, size in enumerate((first, second)):
        masks[row, rng.choice(len(similar), size, replace=False)] = True
    return _replaceable(similar, masks[0], masks[1])
