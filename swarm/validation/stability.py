"""Stability of feature selection: how much the subset depends on the seed or on the rows.

The stability index and its confidence interval are those of S. Nogueira, K. Sechidis and
G. Brown, On the Stability of Feature Selection Algorithms, JMLR 18(174), 2018: definition 4,
theorem 7 and corollary 9. Selection frequencies have Wilson score intervals (Wilson, 1927).

Of two nearly equal columns each search keeps another one; an index that compares names calls this
unstable. The adjusted index is SMA-Count of A. Bommert and J. Rahnenfuehrer, Adjusted measures for
feature selection stability for data sets with similar features, LOD 2020, which they recommend.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import norm

from swarm.arrays import Bool, Float, read_only
from swarm.errors import InputError

# A unit in at least CORE of the subsets is core, one in at most NOISE of them is noise.
CORE = 0.8
NOISE = 0.2
# Interpretation of the index (section 5.1 of the paper), after Fleiss's benchmarks for kappa.
_EXCELLENT = 0.75
_POOR = 0.4


@dataclass(frozen=True)
class Stability:
    """Stability index (Nogueira et al., 2018) of M subsets.

    Attributes
    ----------
    index : float
        1 if all subsets are equal, about 0 if they agree as random subsets of the same sizes
        would, at least ``-1 / (M - 1)``. NaN if every subset contains all units, or none: the
        index is then undefined.
    low, high : float
        Asymptotic normal confidence interval, clipped to the range of the index; NaN if the
        index is.
    variance : float
        Estimated variance of the index.
    level : float
        Confidence level of the interval.
    n_subsets : int
        Number of subsets, M.
    mean_size : float
        Mean number of units in a subset.
    """

    index: float
    low: float
    high: float
    variance: float
    level: float
    n_subsets: int
    mean_size: float


@dataclass(frozen=True)
class Frequencies:
    """Selection frequency of each unit.

    Attributes
    ----------
    share : float64 (d,)
        Share of the subsets that contain the unit.
    low, high : float64 (d,)
        Wilson score interval of the share.
    """

    share: Float
    low: Float
    high: Float

    def __post_init__(self) -> None:
        read_only(self.share, self.low, self.high)


def nogueira(masks: Bool, level: float = 0.95) -> Stability:
    """Compute the stability index of subsets, which is corrected for chance.

    With ``p_f`` the share of subsets that contain unit f, ``k`` the mean size and d units, the
    index is ``1 - mean_f(M / (M - 1) p_f (1 - p_f)) / (k / d (1 - k / d))``.

    Parameters
    ----------
    masks : bool (M, d)
        One subset per row, from at least 2 independent repetitions. Leave out fixed and
        forbidden units: they agree by definition and would bias the index.
    level : float
        Confidence level of the interval, between 0 and 1.

    Raises
    ------
    InputError
        If there are fewer than two subsets, no units, or the level is not between 0 and 1.
    """
    chosen = _checked(masks, level)
    count, width = chosen.shape
    if count < 2:
        raise InputError(f"stability needs at least 2 subsets to compare, got {count}")
    sizes = chosen.sum(axis=1)
    density = float(sizes.mean()) / width
    if density in (0.0, 1.0):
        nan = float("nan")
        return Stability(nan, nan, nan, nan, level, count, float(sizes.mean()))
    share = chosen.mean(axis=0)
    expected = density * (1 - density)
    index = 1 - float((share * (1 - share)).mean()) * count / (count - 1) / expected
    each = (
        chosen @ share / width
        - sizes / width * density
        + index / 2 * (2 * density * sizes / width - sizes / width - density + 1)
    ) / expected
    variance = 4 / count**2 * float(((each - each.mean()) ** 2).sum())
    reach = float(norm.ppf((1 + level) / 2)) * variance**0.5
    lowest = -1 / (count - 1)
    return Stability(
        index=index,
        low=max(lowest, index - reach),
        high=min(1.0, index + reach),
        variance=variance,
        level=level,
        n_subsets=count,
        mean_size=float(sizes.mean()),
    )


def interpret_index(index: float) -> str:
    """Return the interpretation of a stability index, by the benchmarks of the paper."""
    if np.isnan(index):
        return "undefined"
    if index >= _EXCELLENT:
        return "excellent"
    return "poor" if index < _POOR else "intermediate to good"


def frequencies(masks: Bool, level: float = 0.95) -> Frequencies:
    """Compute the selection frequency of each unit.

    Parameters
    ----------
    masks : bool (M, d)
        One subset per row, at least one.
    level : float
        Confidence level of each interval, not adjusted for their number.

    Raises
    ------
    InputError
        If there are no subsets, no units, or the level is not between 0 and 1.
    """
    chosen = _checked(masks, level)
    count = len(chosen)
    share = chosen.mean(axis=0)
    z = float(norm.ppf((1 + level) / 2))
    scale = 1 + z**2 / count
    centre = (share + z**2 / (2 * count)) / scale
    reach = z / scale * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    # Rounding must not exclude the share itself.
    low = np.minimum(share, np.maximum(0.0, centre - reach))
    high = np.maximum(share, np.minimum(1.0, centre + reach))
    return Frequencies(share, low, high)


def classify(share: Float, core: float = CORE, noise: float = NOISE) -> tuple[str, ...]:
    """Classify each unit as ``"core"``, ``"optional"`` or ``"noise"`` by selection frequency.

    Parameters
    ----------
    share : float64 (d,)
    core, noise : float
        Thresholds: a unit in at least `core` of the subsets is core, in at most `noise` noise.

    Raises
    ------
    InputError
        Unless ``0 <= noise < core <= 1``.
    """
    if not 0 <= noise < core <= 1:
        raise InputError(
            f"noise {noise} and core {core} must satisfy 0 <= noise < core <= 1; "
            f"{NOISE} and {CORE} are common"
        )
    # A share such as 8 / 10 must count as 0.8 despite rounding.
    margin = 1e-9
    return tuple(
        "core" if s >= core - margin else "noise" if s <= noise + margin else "optional"
        for s in share.tolist()
    )


def consensus(share: Float) -> Bool:
    """Return the mask (d,) of the units that more than half of the subsets contain.

    This subset minimises the mean Hamming distance to the subsets that were found. If no unit has
    a majority, the most frequent units are returned, so that it is never empty.
    """
    majority = share > 0.5
    return majority if majority.any() else share == share.max()


def _checked(masks: Bool, level: float) -> Float:
    """Validate the masks and return them as floats."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}; 0.95 is common")
    array = np.asarray(masks)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"masks must be 2-d with one subset per row and one unit per column, got shape "
            f"{array.shape}"
        )
    if not np.isin(array, (0, 1)).all():
        raise InputError("masks must contain only booleans (or 0 and 1)")
    return array.astype(np.float64)


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
