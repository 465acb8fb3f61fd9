"""Stability of feature selection: how much the subset depends on the seed or on the rows.

The stability index and its confidence interval are those of S. Nogueira, K. Sechidis and
G. Brown, On the Stability of Feature Selection Algorithms, JMLR 18(174), 2018: definition 4,
theorem 7 and corollary 9. Selection frequencies have Wilson score intervals (Wilson, 1927).
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Selection frequency of each unit, with its Wilson score interval."""

    share: Float  # (d,), share of the subsets that contain the unit
    low: Float  # (d,), confidence interval of the share
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
        return Stability(
            index=nan,
            low=nan,
            high=nan,
            variance=nan,
            level=level,
            n_subsets=count,
            mean_size=float(sizes.mean()),
        )
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
    """Compute the selection frequency of each unit from masks (M, d) of at least one subset."""
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
    """Return "core" for shares of at least `core`, "noise" for at most `noise`, else "optional"."""
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

    It minimises the mean Hamming distance to the subsets; without a majority, the most frequent
    units.
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
