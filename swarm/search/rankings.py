"""Rankings of the units, of which the first ones compete with the subsets of a search.

The more a subset was searched for, the more the rows that chose it flatter it; a ranking looks at
each unit once, and knows units that a short search does not find. The first units of each ranking
are candidates of the confirmation beside the best subsets of the search, where units outnumber
rows: of fewer units, searched subsets are better on rows that neither has seen. On a fresh fold
they cost what the first units of the ranking of its own training rows cost: a ranking of all rows
has seen the test rows (Ambroise and McLachlan 2002, Selection bias in gene extraction).
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
from swarm.statistics.lowest import first_of

# Mutual information rather than F: as good on unseen rows, and it has one rule for numbers,
# categories, missing cells and several labels, with the same digits on every machine.
_INFORMATION = "mutual-information ranking"
_RANKINGS = (_INFORMATION, "extra-trees ranking")
# Sizes of each ranking, in geometric progression.
_N_SIZES = 10
# Trees on all rows, and on those of each fold, where they take most of the time.
_N_TREES, _N_TREES_OF_A_FOLD = 200, 50
# The order of the units needs no more rows.
_MOST_ROWS = 2_000
MOST_PREFIXES = len(_RANKINGS) * _N_SIZES


def allows_rankings(problem: Problem) -> bool:
    """Whether rankings compete with a search: units outnumber rows."""
    n_units = int((~problem.space.forbidden).sum())
    return n_units > problem.n_rows


def prefixes(problem: Problem, mask: Bool, seed: int) -> Candidates:
    """Return the first units of each ranking on all rows of a problem, without costs.

    Parameters
    ----------
    problem : Problem
        Any task with a target.
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
    sizes, rows = _sizes(space), _ranked_rows(problem, seed)
    masks, origin = np.zeros((0, space.n_units), dtype=bool), list[str]()
    for name in _RANKINGS:
        order = _order(name, problem, space, rows, seed=seed, n_trees=_N_TREES)
        if order is not None:
            orders = np.broadcast_to(order, (len(sizes), space.n_units))
            masks = np.vstack([masks, first_of(orders, sizes)])
            origin += [name] * len(sizes)
    distinct = first_of_equal(masks)
    unknown = np.full(len(masks), np.nan)
    table = Candidates.build(masks, unknown, origin=np.array(origin, dtype=str))
    return table.take(distinct[space.obeys(masks[distinct])])


def prefixes_of_fold(problem: Problem, mask: Bool, table: Candidates, fold: int, seed: int) -> Bool:
    """Return the first units (n, n_units) of the same rankings of the training rows of a fold.

    `table` has the first units on all rows, whose rankings and sizes are those to be returned.
    """
    space = replace(problem.space, forbidden=problem.space.forbidden | ~mask)
    masks, train = np.empty_like(table.masks), problem.folds[fold][0]
    rows = train[np.isin(train, _ranked_rows(problem, seed))]
    for name in np.unique(table.origin).tolist():
        order = _order(name, problem, space, rows, seed=seed, n_trees=_N_TREES_OF_A_FOLD)
        assert order is not None, "a ranking that reads all rows reads some of them"
        of_ranking = np.flatnonzero(table.origin == name)
        orders = np.broadcast_to(order, (len(of_ranking), space.n_units))
        masks[of_ranking] = first_of(orders, table.sizes[of_ranking])
    return masks


def _sizes(space: SearchSpace) -> Int:
    """Return the numbers of units, ascending: up to half of those that are allowed."""
    allowed = int((~space.forbidden).sum())
    least = min(space.min_size, allowed)
    most = min(space.max_size, max(least, allowed // 2))
    # The smallest is left out: one unit is rarely enough.
    sizes = np.geomspace(least, most, _N_SIZES + 1)[1:].round()
    return np.unique(sizes.astype(np.int64))


def _ranked_rows(problem: Problem, seed: int) -> Int:
    """Return the rows that rankings look at, ascending: no more than their order needs."""
    rows = np.arange(len(problem.target))
    if len(rows) <= _MOST_ROWS:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, _MOST_ROWS, replace=False))


def _order(
    name: str, problem: Problem, space: SearchSpace, rows: Int, *, seed: int, n_trees: int
) -> Int | None:
    """Return the units in the order of a ranking of some rows; None if it cannot read the cells."""
    positions = space.positions_by_unit(~space.forbidden)
    features, target = problem.features.iloc[rows, positions], problem.target[rows]
    try:
        if name == _INFORMATION:
            importances = target_information(features, target, problem.task).mean(axis=1)
        else:
            importances = _tree_importances(features, target, problem.task, seed, n_trees)
    except (DataError, TypeError):
        # Cells that have no code, such as lists, or infinite numbers in that of information.
        return None
    return space.in_order(space.by_unit(importances, positions))


def _tree_importances(
    features: pd.DataFrame, target: NDArray[np.generic], task: str, seed: int, n_trees: int
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
    trees = kind(n_trees, n_jobs=1, random_state=seed)
    importances: Float = trees.fit(np.where(finite, values, means), target).feature_importances_
    return importances
