"""A linear model of the cost on masks, and flips in proportion to what it expects of them.

Bayesian linear regression on the masks that a strategy was told about, with independent normal
priors of equal variance for the effects of the units: its mean is a ridge regression, and a draw
from its posterior is Thompson sampling. A draw explores by itself: a unit that nearly all masks
agree on has an uncertain effect.

Sources: Thompson (1933), On the likelihood that one unknown probability exceeds another; Hoffman
and Ribak (1991), Constrained realizations of Gaussian fields, for the draw; Schmee and Hahn (1979),
A simple method for regression analysis with censored data, for bounds of costs. The model as the
local search of a binary swarm is ours, as are the constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.problem.space import SearchSpace
from swarm.threads import one_thread

# Distinct masks that the model is fitted on, the latest ones: a few milliseconds for 1,000 units.
_WINDOW = 256
# Variance of the cost that is not linear in the units, over that which is, before any observation.
NOISE = 0.5
_ROUNDS = 4


@dataclass(frozen=True)
class Told:
    """The latest distinct masks that a strategy was told about, in the order of their arrival.

    Attributes
    ----------
    masks : bool (n, n_units)
    costs : float64 (n,)
        Costs, or lower bounds of costs.
    exact : bool (n,)
        Whether it is the cost itself.
    """

    masks: Bool
    costs: Float
    exact: Bool

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs, self.exact)

    @classmethod
    def nothing(cls, n_units: int) -> Told:
        """Return no mask of `n_units` units."""
        return cls(np.zeros((0, n_units), dtype=bool), np.zeros(0), np.zeros(0, dtype=bool))

    def plus(self, masks: Bool, costs: Float, bounds: Float) -> Told:
        """Add masks; of a repeated one, a cost replaces bounds, and a later bound an earlier one.

        Parameters
        ----------
        masks : bool (n, n_units)
        costs : float64 (n,)
            inf where only a bound is known. A cost above its bound counts as the bound, so that
            it does not matter whether the evaluation was pruned.
        bounds : float64 (n,)
            The incumbents. A mask without a finite cost or bound is left out.
        """
        exact = np.isfinite(costs) & (costs <= bounds)
        values = np.where(exact, costs, bounds)
        known = np.isfinite(values)
        all_masks = np.vstack([self.masks, masks[known]])
        all_costs = np.concatenate([self.costs, values[known]])
        all_exact = np.concatenate([self.exact, exact[known]])
        # Costs before bounds, and the latest first.
        order = np.lexsort((-np.arange(len(all_masks)), ~all_exact))
        packed = np.packbits(all_masks, axis=1)[order]
        first = np.unique(packed, axis=0, return_index=True)[1]
        kept = np.sort(order[first])[-_WINDOW:]
        return Told(all_masks[kept], all_costs[kept], all_exact[kept])


def draw_effects(told: Told, n: int, rng: np.random.Generator) -> Float:
    """Draw `n` times the effect of each unit on the cost, from its posterior.

    With centred masks X and costs y, penalty ``k`` and ``K = X X' + k I``, the mean is that of a
    ridge regression, ``X' K^-1 y``; the penalty makes :data:`NOISE` the ratio of the variances of
    noise and signal. The variance of the effects is its maximum-likelihood estimate
    ``t = y' K^-1 y / n_masks``. A draw is ``b + X' K^-1 (y - X b - e)`` with b from the prior
    ``N(0, t)`` and e from the noise ``N(0, t k)``. The system has as many equations as there are
    masks, however many units.

    Returns
    -------
    float64 (n, n_units)
        Change of the cost if the unit is selected. Zeros before two costs are known, or if all
        masks are equal.

    References
    ----------
    Hoffman and Ribak (1991).
    """
    # Imported here, as commands that only check a configuration import the strategies.
    from scipy.linalg import cho_factor, cho_solve

    n_masks, n_units = told.masks.shape
    if told.exact.sum() < 2:
        return np.zeros((n, n_units))
    # Sums in another order would round differently, and threads cost more than they save here.
    with one_thread():
        X = told.masks - told.masks.mean(axis=0)
        gram = X @ X.T
        penalty = NOISE * float(np.trace(gram)) / n_masks
        if penalty == 0.0:
            return np.zeros((n, n_units))
        factor = cho_factor(gram + penalty * np.eye(n_masks), lower=True)
        costs = told.costs
        for _ in range(_ROUNDS if not told.exact.all() else 0):
            centred = costs - costs.mean()
            predicted = costs.mean() + gram @ cho_solve(factor, centred)
            costs = fill_bounds(told, predicted, float((costs - predicted).std()))
        y = costs - costs.mean()
        variance = max(0.0, float(y @ cho_solve(factor, y))) / n_masks
        effects = rng.standard_normal((n_units, n)) * np.sqrt(variance)
        noise = rng.standard_normal((n_masks, n)) * np.sqrt(variance * penalty)
        effects += X.T @ cho_solve(factor, y[:, None] - X @ effects - noise)
        return np.ascontiguousarray(effects.T)


def fill_bounds(told: Told, predicted: Float, error: float) -> Float:
    """Replace bounds by the expected costs above them; exact costs stay.

    The expectation of a normal distribution with mean `predicted` (n,) and standard deviation
    `error`, given that the cost exceeds its bound.

    References
    ----------
    Schmee and Hahn (1979).
    """
    from scipy.special import log_ndtr

    if error == 0.0:
        return np.where(told.exact, told.costs, np.maximum(told.costs, predicted))
    z = np.clip((told.costs - predicted) / error, -30.0, 30.0)
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-z))
    expected = np.maximum(told.costs, predicted + error * hazard)
    return np.where(told.exact, told.costs, expected)


def in_proportion(gain: Float, among: Bool) -> Float:
    """Share one expected flip among the marked units of each row, in proportion to their gains.

    Negative gains count as zero. A softmax would depend on a temperature, and on the gains of all
    units that are known to be useless. If no gain is positive, all marked units are equally likely,
    as one flip of two costs less than not to search.

    Parameters
    ----------
    gain : float64 (n, n_units)
    among : bool (n, n_units)

    Returns
    -------
    float64 (n, n_units)
        Probabilities that sum to 1, or to 0 in rows without a marked unit.
    """
    slots = np.where(among, np.maximum(gain, 0.0), 0.0)
    slots = np.where(slots.sum(axis=1, keepdims=True) > 0.0, slots, among)
    total = slots.sum(axis=1, keepdims=True)
    return slots / np.where(total > 0.0, total, 1.0)


def flip_by_gain(masks: Bool, effects: Float, space: SearchSpace, rng: np.random.Generator) -> Bool:
    """Drop one unit and add one on average, in proportion to the estimated gains of the flips.

    Parameters
    ----------
    masks : bool (n, n_units)
    effects : float64 (n, n_units)
        Change of the cost if the unit is selected.
    space : SearchSpace
        Its fixed and forbidden units are not flipped.

    Returns
    -------
    bool (n, n_units)
        Not repaired: a row may be empty.
    """
    dropped = in_proportion(effects, masks & ~space.fixed)
    added = in_proportion(-effects, ~masks & ~space.forbidden)
    return masks ^ (rng.random(masks.shape) < dropped + added)
