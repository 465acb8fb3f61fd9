"""Stability of feature selection: how much the subset depends on the seed or on the rows.

The stability index and its confidence interval are those of S. Nogueira, K. Sechidis and
G. Brown, On the Stability of Feature Selection Algorithms, JMLR 18(174), 2018: definition 4,
theorem 7 and corollary 9. Selection frequencies have Wilson score intervals (Wilson, 1927).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from swarm.arrays import Bool, Float
from swarm.errors import InputError
from swarm.problem.space import SearchSpace
from swarm.statistics.resampled import CONFIDENCE

# A unit in at least this share of the subsets is core, one in at most that share is noise.
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
        Asymptotic normal confidence interval, clipped to the range of the index; NaN with the
        index.
    variance : float
        Estimated variance of the index.
    n_subsets : int
        Number of subsets, M.
    mean_size : float
        Mean number of units in a subset.
    level : float
        Confidence level of the interval.
    """

    index: float
    low: float
    high: float
    variance: float
    n_subsets: int
    mean_size: float
    level: float = CONFIDENCE


def index_record(stability: Stability | None) -> dict[str, float] | None:
    """Return an index with its interval as JSON data; None if there is none or it is undefined."""
    if stability is None or np.isnan(stability.index):
        return None
    names = ("index", "low", "high", "level", "n_subsets", "mean_size")
    return {name: getattr(stability, name) for name in names}


def nogueira(masks: Bool) -> Stability:
    """Compute the stability index of subsets, which is corrected for chance.

    With ``p_f`` the share of subsets that contain unit f, ``k`` the mean size and d units, the
    index is ``1 - mean_f(M / (M - 1) p_f (1 - p_f)) / (k / d (1 - k / d))``.

    Parameters
    ----------
    masks : bool (M, d)
        One subset per row, from at least 2 independent repetitions. Leave out fixed and
        forbidden units: they agree by definition and would bias the index.

    Returns
    -------
    Stability

    Raises
    ------
    InputError
        If there are fewer than two subsets, or no units.
    """
    values = _checked(masks)
    n_subsets, n_units = values.shape
    if n_subsets < 2:
        raise InputError(f"stability needs at least 2 subsets to compare, got {n_subsets}")
    sizes = values.sum(axis=1)
    mean_size = float(sizes.mean())
    density = mean_size / n_units
    if density in (0.0, 1.0):
        nan = float("nan")
        return Stability(
            index=nan, low=nan, high=nan, variance=nan, n_subsets=n_subsets, mean_size=mean_size
        )
    share = values.mean(axis=0)
    expected = density * (1 - density)
    index = 1 - float((share * (1 - share)).mean()) * n_subsets / (n_subsets - 1) / expected
    # Phi of theorem 7, for each subset.
    phi = (
        values @ share / n_units
        - sizes / n_units * density
        + index / 2 * (2 * density * sizes / n_units - sizes / n_units - density + 1)
    ) / expected
    variance = 4 / n_subsets**2 * float(((phi - phi.mean()) ** 2).sum())
    reach = float(norm.ppf((1 + CONFIDENCE) / 2)) * variance**0.5
    return Stability(
        index=index,
        low=max(-1 / (n_subsets - 1), index - reach),
        high=min(1.0, index + reach),
        variance=variance,
        n_subsets=n_subsets,
        mean_size=mean_size,
    )


def interpret_index(index: float) -> str:
    """Return the interpretation of a stability index, by the benchmarks of the paper."""
    if np.isnan(index):
        return "undefined"
    if index >= _EXCELLENT:
        return "excellent"
    return "poor" if index < _POOR else "intermediate to good"


def describe_index(stability: Stability, over: str) -> str:
    """State the stability index of the subsets selected over `over`, with its interpretation."""
    index = stability.index
    if np.isnan(index):
        return f"Over {stability.n_subsets} {over}, every search selected all features or none."
    return (
        f"Over {stability.n_subsets} {over}, the stability index is {index:.2f} "
        f"[{stability.low:.2f}, {stability.high:.2f}] ({interpret_index(index)}; 1: always the "
        "same features, 0: chance)."
    )


def frequencies(masks: Bool) -> pd.DataFrame:
    """Return the share of the subsets (M, d) that contain each unit, with its Wilson interval.

    One row per unit: share, low, high.
    """
    values = _checked(masks)
    n = len(values)
    share = values.mean(axis=0)
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    reach = z / scale * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # Rounding must not exclude the share itself.
    low = np.minimum(share, np.maximum(0.0, centre - reach))
    high = np.maximum(share, np.minimum(1.0, centre + reach))
    return pd.DataFrame({"share": share, "low": low, "high": high})


def classify(share: Float, core: float = CORE, noise: float = NOISE) -> tuple[str, ...]:
    """Return "core" for shares of at least `core`, "noise" for at most `noise`, else "optional"."""
    if not 0 <= noise < core <= 1:
        raise InputError(
            f"noise {noise} and core {core} must satisfy 0 <= noise < core <= 1; "
            f"{NOISE} and {CORE} are common"
        )
    # A share such as 8 / 10 must count as 0.8 despite rounding.
    margin = 1e-9
    conditions = [share >= core - margin, share <= noise + margin]
    return tuple(np.select(conditions, ["core", "noise"], "optional").tolist())


def consensus(share: Float) -> Bool:
    """Return the mask (d,) of the units that more than half of the subsets contain.

    It minimises the mean Hamming distance to the subsets. If no unit has a majority, it contains
    the most frequent units.
    """
    majority = share > 0.5
    return majority if majority.any() else share == share.max()


@dataclass(frozen=True)
class Assessment:
    """Stability of repeated searches on one space.

    Attributes
    ----------
    by_seed, by_rows : Stability or None
        Index of the searches that differ only in their seed, and of those that differ in seed and
        rows; None without such searches.
    thresholds : (float, float)
        Shares from which a unit is core, and up to which it is noise.
    consensus : list of str
        Features of more than half of the searches, and the fixed ones.
    table : DataFrame
        One row per unit that is neither fixed nor forbidden, by decreasing share: feature, class,
        share with low and high, share_seeds, share_resamples, in_consensus. Class, share and
        consensus are over the searches on other rows, if there are any.
    """

    by_seed: Stability | None
    by_rows: Stability | None
    thresholds: tuple[float, float]
    consensus: list[str]
    table: pd.DataFrame

    def count(self, name: str) -> int:
        """Count the "core", "optional" or "noise" units."""
        return int((self.table["class"] == name).sum())


def assess(
    space: SearchSpace,
    subsets: Mapping[str, Sequence[Collection[str]]],
    thresholds: tuple[float, float] = (CORE, NOISE),
) -> Assessment:
    """Compute frequencies, classes, stability and consensus of repeated searches.

    `subsets` are the best subsets of "seeds" (searches on all rows) and "resamples" (each on other
    rows); one of these may be missing or empty.
    """
    free = ~(space.fixed | space.forbidden)
    masks_over = {
        repetitions: np.array([space.mask(names) for names in best])[:, free]
        for repetitions, best in subsets.items()
        if best
    }
    frequency = frequencies(masks_over["resamples" if "resamples" in masks_over else "seeds"])
    share = frequency["share"].to_numpy()
    in_consensus = space.fixed.copy()
    in_consensus[free] = consensus(share)
    table = pd.DataFrame(
        {
            "feature": np.array(space.names, dtype=object)[free],
            "class": classify(share, *thresholds),
            **frequency,
            **{f"share_{name}": masks.mean(axis=0) for name, masks in masks_over.items()},
            "in_consensus": in_consensus[free],
        }
    )
    indices = {name: nogueira(masks) for name, masks in masks_over.items()}
    return Assessment(
        by_seed=indices.get("seeds"),
        by_rows=indices.get("resamples"),
        thresholds=thresholds,
        consensus=space.subset(in_consensus),
        table=table.sort_values("share", ascending=False, kind="stable", ignore_index=True),
    )


def _checked(masks: Bool) -> Float:
    """Validate the masks and return them as floats."""
    array = np.asarray(masks)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"masks must be 2-d with one subset per row and one unit per column, got shape "
            f"{array.shape}"
        )
    if not np.isin(array, (0, 1)).all():
        raise InputError("masks must contain only booleans (or 0 and 1)")
    return array.astype(np.float64)
