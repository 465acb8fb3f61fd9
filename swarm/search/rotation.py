"""A search that changes its fold partition every few epochs.

The best of many subsets is partly the luckiest on the folds of the search. With rotation no subset
is selected on one partition for long: every `rotate` epochs the strategy starts again on the next
partition, from the members that it had, which are evaluated there. At the end the best subsets of
each stretch are evaluated on all partitions; the one with the lowest mean cost is the result, and
the others are the members of an ensemble.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from swarm.arrays import Bool, read_only
from swarm.evaluation.types import Evaluator, evaluate_fully
from swarm.problem.space import SearchSpace
from swarm.search.budget import charged
from swarm.search.packing import first_of_equal, in_turn
from swarm.strategies.base import Members

if TYPE_CHECKING:
    from swarm.search.driver import SearchState
    from swarm.search.result import SearchResult

# Members of an ensemble of the usual size, and a few that turn out to be worse.
N_FINALISTS = 10


def leaders_of(state: SearchState, space: SearchSpace) -> Bool:
    """Return the best masks (m, n_units) of the partition that the search is on, best first."""
    if state.best_mask is None:
        return np.zeros((0, space.n_units), dtype=bool)
    members = state.strategy.members
    kept = np.isfinite(members.costs) & space.obeys(members.masks)
    masks, costs = members.masks[kept], members.costs[kept]
    order = np.lexsort((space.price(masks), costs))
    ranked = np.vstack([state.best_mask[None, :], masks[order]])
    leaders: Bool = ranked[first_of_equal(ranked)][:N_FINALISTS]
    leaders.setflags(write=False)
    return leaders


def evaluate_finalists(result: SearchResult, evaluator: Evaluator) -> SearchResult:
    """Evaluate the best subsets of each stretch on all partitions, and choose the lowest cost.

    Their fits count towards those of the search.

    Parameters
    ----------
    result : SearchResult
        Result of the epochs.
    evaluator : Evaluator
        That of the search.

    Returns
    -------
    SearchResult
        With :attr:`SearchResult.finalists`; without, if none has a finite cost.
    """
    state = result.state
    stretches = [*state.leaders, leaders_of(state, result.space)]
    masks = in_turn(stretches, result.space.n_units)[:N_FINALISTS]
    if not len(masks):
        return result
    found = evaluate_fully(evaluator, masks)
    asked, counts = charged(state.asked, state.counts, masks, found)
    order = np.lexsort((result.space.price(masks), found.costs))
    order = order[np.isfinite(found.costs[order])]
    if not len(order):
        return result
    finalists = Members.plain(masks[order], found.costs[order])
    read_only(finalists.masks, finalists.costs)
    best, cost = finalists.masks[0], float(finalists.costs[0])
    state = replace(state, best_mask=best, best_cost=cost, asked=asked, counts=counts)
    return replace(result, state=state, finalists=finalists)
