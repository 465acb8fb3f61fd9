"""Initial positions of a population."""

import numpy as np

from swarm.arrays import Bool, Float, Int
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.statistics.lowest import first_of


def bernoulli(n: int, space: SearchSpace, rng: np.random.Generator) -> Bool:
    """Select every unit of `n` masks with probability 0.5: bool (n, n_units), repaired."""
    return space.repair(rng.random((n, space.n_units)) < 0.5, rng)


def draw_sizes(
    n: int, space: SearchSpace, rng: np.random.Generator, size: int | None = None
) -> Int:
    """Draw `n` allowed sizes uniformly, or return `size`, cut to the bounds, `n` times."""
    if size is None:
        return rng.integers(space.min_size, space.max_size, size=n, endpoint=True)
    return np.full(n, min(max(size, space.min_size), space.max_size))


def of_sizes(size: Int, space: SearchSpace, rng: np.random.Generator) -> Bool:
    """Draw a mask of each size (n,), uniformly among those with the fixed units: repaired."""
    key = rng.random((len(size), space.n_units))
    key += np.where(space.fixed, -1.0, 0.0)
    key[:, space.forbidden] = np.inf
    return space.repair(first_of(np.argsort(key, axis=1), size), rng)


def one_per_cluster(n: int, space: SearchSpace, clusters: Int, rng: np.random.Generator) -> Bool:
    """Draw one unit of every cluster for each of `n` masks: bool (n, n_units), repaired."""
    key = rng.random((n, space.n_units)) + space.forbidden
    labels = np.broadcast_to(clusters, key.shape)
    order = np.lexsort((key, labels), axis=1)
    starts = np.unique(np.sort(clusters), return_index=True)[1]
    masks = np.zeros(key.shape, dtype=bool)
    np.put_along_axis(masks, order[:, starts], True, axis=1)
    return space.repair(masks, rng)


def ranked_prefixes(n: int, space: SearchSpace, relevance: Float, rng: np.random.Generator) -> Bool:
    """Make `n` masks of the most relevant units, their sizes in geometric progression."""
    size = np.rint(np.geomspace(space.min_size, space.max_size, n))
    return space.repair(first_of(np.tile(space.in_order(relevance), (n, 1)), size), rng)


def hints_to_place(init: str) -> tuple[str, ...]:
    """Names of the hints that :func:`place` requires."""
    return {"clusters": ("clusters",), "ranked": ("clusters", "relevance")}.get(init, ())


def place(
    n: int,
    init: str,
    space: SearchSpace,
    hints: Hints,
    rng: np.random.Generator,
    *,
    strategy: str,
) -> Bool:
    """Draw the first positions of a swarm, warm-start masks first: bool (n, n_units).

    `init` is that of :class:`.BinarySwarmStrategy`. The error for a missing hint names `strategy`.
    """
    if init == "bernoulli":
        masks = bernoulli(n, space, rng)
    else:
        masks = one_per_cluster(n, space, hints.need("clusters", strategy), rng)
    if init == "ranked":
        relevance = hints.need("relevance", strategy).sum(axis=1)
        # Consecutive particles are in the same subswarm, so every other one is ranked.
        masks[::2] = ranked_prefixes(len(masks[::2]), space, relevance, rng)
    return warm_first(masks, hints.warm, space, rng)


def warm_first(
    masks: Bool, warm: Bool | None, space: SearchSpace, rng: np.random.Generator
) -> Bool:
    """Replace the first masks (n, n_units) by the warm-start masks, repaired, as many as fit."""
    if warm is None or warm.shape[0] == 0:
        return masks
    count = min(len(masks), len(warm))
    return np.vstack([space.repair(warm[:count], rng), masks[count:]])
