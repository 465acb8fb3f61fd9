"""Selection, crossover and mutation of a population of masks."""

import numpy as np

from swarm.arrays import Bool, Float, Int


def fitness(costs: Float) -> Float:
    """Turn costs (n,) into fitness relative to the worst finite cost: 0 for it and for inf."""
    # Source: Grefenstette (1986), a scaling window of one generation.
    finite = np.isfinite(costs)
    worst = costs[finite].max(initial=-np.inf)
    return np.where(finite, worst - np.where(finite, costs, 0.0), 0.0)


def select_parents(fit: Float, count: int, rng: np.random.Generator) -> Int:
    """Select `count` parents in proportion to fitness (n,), each its share rounded up or down."""
    # Source: Baker (1987), Reducing bias and inefficiency in the selection algorithm.
    share = np.cumsum(fit if fit.sum() > 0 else np.ones_like(fit))
    pointers = (np.arange(count) + rng.random()) * (share[-1] / count)
    chosen = np.searchsorted(share, pointers, side="right")
    return rng.permutation(np.minimum(chosen, len(fit) - 1))


def crossover(parents: Bool, probability: float, rng: np.random.Generator) -> Bool:
    """Cross each pair of rows (0 and 1, 2 and 3, ...) at two points, with `probability`."""
    n_pairs, n_units = len(parents) // 2, parents.shape[1]
    mates = rng.random(n_pairs) < probability
    points = np.sort(rng.integers(0, n_units + 1, size=(n_pairs, 2)), axis=1)
    place = np.arange(n_units)
    swapped = (place >= points[:, :1]) & (place < points[:, 1:]) & mates[:, None]
    first, second = parents[0 : 2 * n_pairs : 2], parents[1 : 2 * n_pairs : 2]
    children = parents.copy()
    children[0 : 2 * n_pairs : 2] = np.where(swapped, second, first)
    children[1 : 2 * n_pairs : 2] = np.where(swapped, first, second)
    return children


def mutate(masks: Bool, probability: float, rng: np.random.Generator) -> Bool:
    """Flip each bit of the masks (n, n_units) with `probability`."""
    return masks ^ (rng.random(masks.shape) < probability)
