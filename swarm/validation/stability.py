"""How far the answer of a search depends on chance: on its seed, or on the rows it was given.

Nogueira's index and its interval are those of S. Nogueira, K. Sechidis and G. Brown, On the
Stability of Feature Selection Algorithms, JMLR 18(174), 2018: definition 4, theorem 7 and
corollary 9. Intervals of frequencies are Wilson's (1927).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from swarm.errors import InputError

__all__ = [
    "CORE",
    "NOISE",
    "Frequencies",
    "Stability",
    "classify",
    "consensus",
    "frequencies",
    "nogueira",
    "verbal",
]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

# Selected in at least this share of the subsets: core; in at most this share: noise.
CORE = 0.8
NOISE = 0.2
# The paper's reading of its index (section 5.1), after Fleiss: the benchmarks for kappa.
_EXCELLENT = 0.75
_POOR = 0.4


@dataclass(frozen=True)
class Stability:
    """Nogueira's index of M subsets.

    Attributes
    ----------
    index : float
        1 where all subsets are the same, around 0 where they agree as random subsets of their
        sizes would, never below ``-1 / (M - 1)``. NaN where the index is not defined: every
        subset holds all units, or none.
    low, high : float
        Asymptotic normal confidence interval, cut to the values that the index can take; NaN
        where the index is.
    variance : float
        Estimated variance of the index.
    level : float
        Confidence of the interval.
    n_subsets : int
        M.
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
    """How often each unit was selected.

    Attributes
    ----------
    share : float64 (d,)
        Share of the subsets that hold the unit.
    low, high : float64 (d,)
        Wilson's confidence interval of the share.
    """

    share: Float
    low: Float
    high: Float

    def __post_init__(self) -> None:
        for array in (self.share, self.low, self.high):
            array.setflags(write=False)


def nogueira(masks: Bool, level: float = 0.95) -> Stability:
    """Measure how much alike subsets are, corrected for chance.

    With ``p_f`` the share of subsets that hold unit f, ``k`` the mean size and d units, the
    index is ``1 - mean_f(M / (M - 1) p_f (1 - p_f)) / (k / d (1 - k / d))``.

    Parameters
    ----------
    masks : bool (M, d)
        One subset a row, from independent repetitions; at least 2. Units that no repetition
        could choose or leave out (fixed, forbidden) do not belong here: they agree by decree.
    level : float
        Confidence of the interval, between 0 and 1.

    Raises
    ------
    InputError
        If there are fewer than two subsets, no units, or the level is no probability.
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


def verbal(index: float) -> str:
    """Put an index into a word, by the benchmarks that the paper takes from Fleiss."""
    if np.isnan(index):
        return "undefined"
    if index >= _EXCELLENT:
        return "excellent"
    return "poor" if index < _POOR else "intermediate to good"


def frequencies(masks: Bool, level: float = 0.95) -> Frequencies:
    """Count how often each unit was selected.

    Parameters
    ----------
    masks : bool (M, d)
        One subset a row, at least one.
    level : float
        Confidence of each interval by itself.

    Raises
    ------
    InputError
        If there are no subsets, no units, or the level is no probability.
    """
    chosen = _checked(masks, level)
    count = len(chosen)
    share = chosen.mean(axis=0)
    z = float(norm.ppf((1 + level) / 2))
    scale = 1 + z**2 / count
    centre = (share + z**2 / (2 * count)) / scale
    reach = z / scale * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    # Rounding must not put the share itself outside.
    low = np.minimum(share, np.maximum(0.0, centre - reach))
    high = np.maximum(share, np.minimum(1.0, centre + reach))
    return Frequencies(share, low, high)


def classify(share: Float, core: float = CORE, noise: float = NOISE) -> tuple[str, ...]:
    """Call each unit ``"core"``, ``"optional"`` or ``"noise"`` by its selection frequency.

    Parameters
    ----------
    share : float64 (d,)
    core, noise : float
        At least `core` of the subsets: core; at most `noise` of them: noise.

    Raises
    ------
    InputError
        Unless ``0 <= noise < core <= 1``.
    """
    if not 0 <= noise < core <= 1:
        raise InputError(
            f"noise {noise} and core {core} must obey 0 <= noise < core <= 1; "
            f"{NOISE} and {CORE} are common"
        )
    # A share such as 8 / 10 has to count as 0.8 whatever its last bit.
    margin = 1e-9
    return tuple(
        "core" if s >= core - margin else "noise" if s <= noise + margin else "optional"
        for s in share.tolist()
    )


def consensus(share: Float) -> Bool:
    """Mask (d,) of the units that more than half of the subsets hold.

    Of all subsets this one differs least, in the mean number of units, from those that were
    found. Where no unit has a majority the most frequent ones stand for them, so that it is
    never empty.
    """
    majority = share > 0.5
    return majority if majority.any() else share == share.max()


def _checked(masks: Bool, level: float) -> Float:
    """Masks as numbers, once they can be a sample of subsets."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}; 0.95 is common")
    array = np.asarray(masks)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"masks must be a table with one subset a row and one unit a column, got the shape "
            f"{array.shape}"
        )
    if not np.isin(array, (0, 1)).all():
        raise InputError("masks must hold only true and false (or 1 and 0)")
    return array.astype(np.float64)
