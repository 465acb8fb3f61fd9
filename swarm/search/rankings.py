"""Rankings of the units, of which the first ones compete with the subsets of a search.

The more a subset was searched for, the more the rows that chose it flatter it; a ranking looks at
each unit once, and knows units that a short search does not find. The first units of each ranking
are candidates of the confirmation beside the best subsets of the search.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swarm.arrays import Bool, Float, Int
from swarm.errors import DataError
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.candidates import Candidates
from swarm.search.packing import first_of_equal
from swarm.statistics.encoding import as_numbers
from swarm.statistics.information import target_information

# Sizes of each ranking, in geometric progression.
_N_SIZES = 10
_N_TREES = 200
# The order of the units needs no more rows, and the trees take time.
_MOST_RANKING_ROWS = 10_000


def prefixes(problem: Problem, mask: Bool, seed: int) -> Candidates:
    """Return the first units of each ranking on all rows of a problem, without costs.

    Parameters
    ----------
    problem : Problem
        Any task with a target; else there is no ranking.
    mask : bool (n_units,)
        Units that a search may select, such as those that a prefilter keeps.
    seed : int
        Of the trees, and of the rows that are drawn from a long table.

    Returns
    -------
    Candidates
        Distinct masks within the constraints, in the order of the rankings and of their sizes. They
        have up to half of the units, as more are hardly a selection; `origin` is the ranking.
    """
    space = replace(problem.space, forbidden=problem.space.forbidden | ~mask)
    sizes = _sizes(space)
    masks, origin = np.zeros((0, space.n_units), dtype=bool), list[str]()
    for name, importances in _importances(problem, ~space.forbidden, seed).items():
        order = np.broadcast_to(in_order(importances, space), (len(sizes), space.n_units))
        masks = np.vstack([masks, first_units(order, sizes)])
        origin += [name] * len(sizes)
    rows = first_of_equal(masks)
    rows = rows[space.obeys(masks[rows])]
    unknown = np.full(len(masks), np.nan)
    table = replace(Candidates.build(masks, unknown), origin=np.array(origin, dtype=str))
    return table.take(rows)


def in_order(importances: Float, space: SearchSpace) -> Int:
    """Return all units, the most important first, but fixed ones before and forbidden ones last."""
    return np.lexsort((-importances, ~space.fixed, space.forbidden))


def first_units(orders: Int, sizes: Int | int) -> Bool:
    """Return the masks (n, n_units) of the first units of orders (n, n_units), by size (n,)."""
    masks = np.empty(orders.shape, dtype=bool)
    place = np.arange(orders.shape[1])[None, :]
    np.put_along_axis(masks, orders, place < np.reshape(sizes, (-1, 1)), axis=1)
    return masks


def _sizes(space: SearchSpace) -> Int:
    """Return the numbers of units, ascending: up to half of those that are allowed."""
    allowed = int((~space.forbidden).sum())
    least = min(space.min_size, allowed)
    most = min(space.max_size, max(least, allowed // 2))
    # The smallest is left out: one unit is rarely enough.
    sizes = np.geomspace(least, most, _N_SIZES + 1)[1:].round()
    return np.unique(sizes.astype(np.int64))


def _importances(problem: Problem, allowed: Bool, seed: int) -> dict[str, Float]:
    """Return the importances (n_units,) of the allowed units, by ranking; else they are 0."""
    if problem.task == "unsupervised":
        return {}
    rows = np.arange(len(problem.target))
    if len(rows) > _MOST_RANKING_ROWS:
        drawn = np.random.default_rng(seed).choice(rows, _MOST_RANKING_ROWS, replace=False)
        rows = np.sort(drawn)
    positions = problem.space.positions(allowed)
    features = problem.features.iloc[rows, positions]
    target = problem.target[rows]
    values = dict[str, Float]()
    for name, importances_of in _RANKINGS.items():
        try:
            values[name] = importances_of(features, target, problem.task, seed)
        except (DataError, TypeError):
            # Cells that have no code, such as lists, or infinite numbers in that of information.
            continue
    return {name: problem.space.by_unit(each, positions) for name, each in values.items()}


def _information(
    features: pd.DataFrame, target: NDArray[np.generic], task: str, seed: int
) -> Float:
    """Return the mean mutual information (n_columns,) with the labels."""
    means: Float = target_information(features, target, task).mean(axis=1)
    return means


def _tree_importances(
    features: pd.DataFrame, target: NDArray[np.generic], task: str, seed: int
) -> Float:
    """Return the importances (n_columns,) of extremely randomised trees (Geurts et al. 2006)."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    values = as_numbers(features)
    with np.errstate(over="ignore"):
        # Trees compare in float32.
        finite = np.isfinite(values.astype(np.float32))
    counts = np.maximum(finite.sum(axis=0), 1)
    means = np.where(finite, values, 0.0).sum(axis=0) / counts
    kind = ExtraTreesRegressor if task.endswith("regression") else ExtraTreesClassifier
    trees = kind(_N_TREES, n_jobs=1, random_state=seed)
    importances: Float = trees.fit(np.where(finite, values, means), target).feature_importances_
    return importances


# Mutual information rather than F: as good on unseen rows, and it has one rule for numbers,
# categories, missing cells and several labels, with the same digits on every machine.
_RANKINGS = {
    "mutual-information ranking": _information,
    "extra-trees ranking": _tree_importances,
}
MOST_PREFIXES = len(_RANKINGS) * _N_SIZES
