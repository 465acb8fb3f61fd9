"""Recursive elimination to a given number of units, by the importances of the model of each fold.

At a given size it competes with the search, unless rankings are better as units outnumber rows many
times. It is repeated on the training rows of each fresh fold, so that its costs there are those of
the procedure. Half of the units are dropped at a time, as in Guyon, Weston, Barnhill and Vapnik
(2002), Gene selection for cancer classification using support vector machines.
"""

import numpy as np

from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from swarm.rows import Fold
from swarm.search.prefilter import ranking_problem
from swarm.search.rankings import prefers_rankings
from swarm.statistics.lowest import first_of

ELIMINATION = "recursive elimination"


def allows_elimination(problem: Problem) -> bool:
    """Whether units are eliminated: rankings are not better, and the models have importances."""
    is_given = problem.space.min_size == problem.space.max_size
    return is_given and problem.importance == "fold" and not prefers_rankings(problem)


def elimination_problem(problem: Problem, folds: tuple[Fold, ...]) -> Problem:
    """Return the problem whose first fold trains on all rows, and whose others are `folds`."""
    rows = np.arange(len(problem.target))
    return ranking_problem(problem, ((rows, rows), *folds))


def eliminate(evaluator: CrossValidation) -> tuple[Bool | None, int]:
    """Return the remaining units of each fold (n_folds, n_units), and the number of fits.

    The units are None if a model fails.
    """
    space = evaluator.problem.space
    folds = np.arange(evaluator.n_folds)
    masks = np.tile(~space.forbidden, (len(folds), 1))
    n_left = int(masks[0].sum())
    n_fits = 0
    while n_left > space.max_size:
        n_left = max(space.max_size, n_left // 2)
        n_fits += len(folds)
        if not np.isfinite(evaluator.fold_costs(masks, folds)).all():
            return None, n_fits
        orders = []
        for fold, record in enumerate(evaluator.evaluations.lookup(masks)):
            importances = np.full(space.n_units, -np.inf)
            importances[masks[fold]] = np.nan_to_num(record.importances[fold])
            orders.append(space.in_order(importances))
        masks = first_of(np.array(orders), n_left)
    return masks, n_fits
