"""Location shift between two samples: Wilcoxon's tests and the Hodges-Lehmann estimate.

The tests are exact given the ties: with few seeds ties are frequent, and the normal approximation
then gives p-values below the smallest possible one. The null distribution also bounds the interval,
which SciPy does not compute; its `PermutationMethod` has the same p-values, for 10 seeds in a
second. Sources: Wilcoxon (1945); Hodges and Lehmann (1963); Hollander and Wolfe, Nonparametric
Statistical Methods, chapters 3 and 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swarm.arrays import Float, Int


@dataclass(frozen=True)
class Shift:
    """Result of a two-sided test of no location shift, with an estimate of the shift.

    Attributes
    ----------
    p : float
        The p-value, exact given the ties.
    estimate : float
        Hodges-Lehmann estimate of the shift.
    low, high : float
        Confidence interval; infinite if no finite interval has the confidence level.
    """

    p: float
    estimate: float
    low: float
    high: float


def signed_rank(differences: Sequence[float] | Float, level: float = 0.95) -> Shift:
    """Wilcoxon signed-rank test of paired, finite differences (n,).

    Zero differences are left out of the test, but not of the estimate and the interval.
    """
    values = _sample("differences", differences)
    first, second = np.triu_indices(len(values))
    nonzero = _without_noise(values)
    nonzero = nonzero[nonzero != 0]
    weights = _double_ranks(np.abs(nonzero))
    return _shift(
        (values[first] + values[second]) / 2,
        _sums_of_signs(weights),
        int(weights[nonzero > 0].sum()),
        untied=_sums_of_signs(np.arange(1, len(values) + 1)),
        level=level,
    )


def rank_sum(x: Sequence[float] | Float, y: Sequence[float] | Float, level: float = 0.95) -> Shift:
    """Wilcoxon rank-sum test of two independent finite samples: the shift of `x` above `y`."""
    left = _sample("x", x)
    right = _sample("y", y)
    n_x = len(left)
    n = n_x + len(right)
    weights = _double_ranks(_without_noise(np.concatenate([left, right])))
    return _shift(
        (left[:, None] - right).ravel(),
        _sums_of_choices(weights, n_x),
        int(weights[:n_x].sum()),
        # Rank sums start at n_x (n_x + 1) / 2.
        untied=_sums_of_choices(np.arange(1, n + 1), n_x)[n_x * (n_x + 1) // 2 :],
        level=level,
    )


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

    return np.rint(2 * rankdata(values)).astype(np.int64)


def _sums_of_signs(weights: Int) -> Float:
    """Return the null distribution of the sum of the weights with a positive sign."""
    law = np.zeros(int(weights.sum()) + 1)
    law[0] = 1.0
    for weight in weights:
        law[weight:] = law[weight:] + law[: len(law) - weight]
        law /= 2
    return law


def _sums_of_choices(weights: Int, n_chosen: int) -> Float:
    """Return the null distribution of the sum of `n_chosen` of the weights."""
    counts = np.zeros((n_chosen + 1, int(np.sort(weights)[-n_chosen:].sum()) + 1))
    counts[0, 0] = 1.0
    for weight in weights:
        counts[1:, weight:] += counts[:-1, : counts.shape[1] - weight].copy()
    return counts[n_chosen] / math.comb(len(weights), n_chosen)


def _shift(estimates: Float, law: Float, observed: int, *, untied: Float, level: float) -> Shift:
    """Combine the p-value of `observed`, and the median and the interval of the estimates."""
    tail = min(float(law[: observed + 1].sum()), float(law[observed:].sum()))
    # A sum of probabilities may equal the level exactly, but for rounding.
    outside = (1 - level) / 2 * (1 + 1e-9)
    rank = int(np.searchsorted(np.cumsum(untied), outside, side="right"))
    ordered = np.sort(estimates)
    low, high = (ordered[rank - 1], ordered[-rank]) if rank else (-math.inf, math.inf)
    return Shift(min(1.0, 2 * tail), float(np.median(ordered)), float(low), float(high))
