"""Selection, crossover and mutation of a population of masks."""

import numpy as np

from swarm.arrays import Bool, Float, Int


def fitness(costs: Float) -> Float:
    """Turn costs (n,) into fitness relative to the worst finite cost: 0 for it and for inf."""
    # Source: Grefenstette (1986), a scaling window of one generation.
    is_finite = np.isfinite(costs)
    worst = costs[is_finite].max(initial=-np.inf)
    return np.where(is_finite, worst - np.where(is_finite, costs, 0.0), 0.0)


def select_parents(weights: Float, count: int, rng: np.random.Generator) -> Int:
    """Select `count` parents in proportion to their fitness (n,) by stochastic universal sampling.

    A parent is selected as often as its share says, rounded up or down.
    """
    # Source: Baker (1987), Reducing bias and inefficiency in the selection algorithm.
    wheel = np.cumsum(weights if weights.sum() > 0 else np.ones_like(weights))
    pointers = (np.arange(count) + rng.random()) * (wheel[-1] / count)
    parents = np.searchsorted(wheel, pointers, side="right")
    return rng.permutation(np.minimum(parents, len(weights) - 1))


def crossover(parents: Bool, probability: float, rng: np.random.Generator) -> Bool:
    """Cross each pair of rows (0 and 1, 2 and 3, ...) at two points, with `probability`."""
    n_pairs = len(parents) // 2
    n_units = parents.shape[1]
    mates = rng.random(n_pairs) < probability
    points = np.sort(rng.integers(0, n_units + 1, size=(n_pairs, 2)), axis=1)
    unit = np.arange(n_units)
    is_swapped = (unit >= points[:, :1]) & (unit < points[:, 1:]) & mates[:, None]
    first = parents[0 : 2 * n_pairs : 2]
    second = parents[1 : 2 * n_pairs : 2]
    children = parents.copy()
    children[0 : 2 * n_pairs : 2] = np.where(is_swapped, second, first)
    children[1 : 2 * n_pairs : 2] = np.where(is_swapped, first, second)
    return children


def mutate(masks: Bool, probability: float, rng: np.random.Generator) -> Bool:
    """Flip each bit of the masks (n, n_units) with `probability`."""
    return masks ^ (rng.random(masks.shape) < probability)
