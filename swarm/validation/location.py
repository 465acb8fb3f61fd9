"""Location shift between two samples: Wilcoxon's tests and the Hodges-Lehmann estimate.

The tests are conditional on the ties: with few seeds ties are frequent, and the normal
approximation then gives p-values below the smallest possible one. SciPy's tests are not used, as
`wilcoxon` and `mannwhitneyu` are exact only without ties, and `permutation_test` cannot enumerate
samples of up to 60 values, which are exact here. Sources: Wilcoxon (1945); Hodges and Lehmann
(1963); Hollander and Wolfe, Nonparametric Statistical Methods, chapters 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swarm.arrays import Float, Int

# Above this many values the normal approximation is used.
_MOST_EXACT = 60


@dataclass(frozen=True)
class Shift:
    """Result of a two-sided test of no location shift, with an estimate of the shift."""

    p: float  # exact given the ties for up to 60 values, else normal with continuity correction
    estimate: float  # Hodges-Lehmann estimate of the shift
    low: float  # confidence interval; infinite if no finite interval has the confidence level
    high: float


def signed_rank(differences: Sequence[float] | Float, level: float = 0.95) -> Shift:
    """Wilcoxon signed-rank test of paired, finite differences (n,).

    Zero differences are left out of the test, but not of the estimate and the interval.
    """
    values = _sample("differences", differences)
    n = len(values)
    nonzero = _without_noise(values)
    nonzero = nonzero[nonzero != 0]
    weights = _double_ranks(np.abs(nonzero))
    first, second = np.triu_indices(n)
    walsh = np.sort((values[first] + values[second]) / 2)
    untied = 2 * np.arange(1, n + 1)
    if len(nonzero) <= _MOST_EXACT:
        p = _two_sided(_signed_rank_distribution(weights), int(weights[nonzero > 0].sum()))
    else:
        p = _normal_p(
            float(weights[nonzero > 0].sum()) / 2,
            float(weights.sum()) / 4,
            math.sqrt(float((weights**2).sum()) / 16),
        )
    if n <= _MOST_EXACT:
        rank = _rank_within(_signed_rank_distribution(untied)[::2], level)
    else:
        rank = _normal_rank(
            float(untied.sum()) / 4, math.sqrt(float((untied**2).sum()) / 16), level
        )
    low, high = _between(walsh, rank)
    return Shift(p, float(np.median(walsh)), low, high)


def rank_sum(x: Sequence[float] | Float, y: Sequence[float] | Float, level: float = 0.95) -> Shift:
    """Wilcoxon rank-sum test of two independent finite samples: the shift of `x` above `y`."""
    left, right = _sample("x", x), _sample("y", y)
    n_x, n_y = len(left), len(right)
    weights = _double_ranks(_without_noise(np.concatenate([left, right])))
    between = np.sort((left[:, None] - right[None, :]).ravel())
    untied = 2 * np.arange(1, n_x + n_y + 1)
    observed = int(weights[:n_x].sum())
    if n_x + n_y <= _MOST_EXACT:
        p = _two_sided(_rank_sum_distribution(weights, n_x), observed)
        # Distribution of the Mann-Whitney statistic: rank sums start at n_x (n_x + 1) / 2.
        rank = _rank_within(_rank_sum_distribution(untied, n_x)[n_x * (n_x + 1) :: 2], level)
    else:
        p = _normal_p(observed / 2, n_x * float(weights.mean()) / 2, _sum_spread(weights, n_x) / 2)
        rank = _normal_rank(n_x * n_y / 2, _sum_spread(untied, n_x) / 2, level)
    low, high = _between(between, rank)
    return Shift(p, float(np.median(between)), low, high)


def _sample(name: str, values: Sequence[float] | Float) -> Float:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers, at least one, got {values!r}")
    return array


def _without_noise(values: Float) -> Float:
    """Round to 12 digits of the largest value, so that differences of equal costs are tied."""
    largest = float(np.abs(values).max())
    return np.round(values, 11 - math.floor(math.log10(largest))) if largest else values


def _double_ranks(values: Float) -> Int:
    """Return twice the ranks, so that the mean ranks of ties are integers."""
    from scipy.stats import rankdata

    doubled: Int = np.rint(2 * rankdata(values)).astype(np.int64)
    return doubled


def _signed_rank_distribution(weights: Int) -> Float:
    """Return the null distribution of the sum of the weights with a positive sign."""
    law = np.zeros(int(weights.sum()) + 1)
    law[0] = 1.0
    for weight in weights:
        moved = np.zeros_like(law)
        moved[weight:] = law[: len(law) - weight]
        law = (law + moved) / 2
    return law


def _rank_sum_distribution(weights: Int, chosen: int) -> Float:
    """Return the null distribution of the sum of `chosen` of the weights."""
    counts = np.zeros((chosen + 1, int(np.sort(weights)[-chosen:].sum()) + 1))
    counts[0, 0] = 1.0
    for weight in weights:
        counts[1:, weight:] += counts[:-1, : counts.shape[1] - weight].copy()
    law: Float = counts[chosen] / math.comb(len(weights), chosen)
    return law


def _sum_spread(weights: Int, chosen: int) -> float:
    """Return the standard deviation of the sum of `chosen` of the weights."""
    n = len(weights)
    squares = float(((weights - weights.mean()) ** 2).sum())
    return math.sqrt(chosen * (n - chosen) / (n * (n - 1)) * squares)


def _two_sided(law: Float, observed: int) -> float:
    tail = min(float(law[: observed + 1].sum()), float(law[observed:].sum()))
    return min(1.0, 2 * tail)


def _normal_p(observed: float, mean: float, spread: float) -> float:
    from scipy.stats import norm

    if spread == 0:
        return 1.0
    distance = max(0.0, abs(observed - mean) - 0.5)
    return float(2 * norm.sf(distance / spread))


def _rank_within(law: Float, level: float) -> int:
    """Return k so that the k-th smallest and largest values bound the interval; 0 if none do."""
    below = np.cumsum(law)
    # The margin absorbs rounding where a sum of probabilities equals the level exactly.
    return int(np.searchsorted(below, (1 - level) / 2 * (1 + 1e-9), side="right"))


def _normal_rank(mean: float, spread: float, level: float) -> int:
    from scipy.stats import norm

    return max(0, math.floor(mean - float(norm.isf((1 - level) / 2)) * spread))


def _between(ordered: Float, rank: int) -> tuple[float, float]:
    if rank == 0:
        return -math.inf, math.inf
    return float(ordered[rank - 1]), float(ordered[-rank])
