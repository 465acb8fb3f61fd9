"""A search that changes its fold partition every few epochs.

The best of many subsets is partly the luckiest on the folds of the search. With rotation no subset
is selected on one partition for long: every `rotate` epochs the strategy starts again on the next
partition, from the members that it had, which are evaluated there. At the end the best subsets of
each stretch are evaluated on all partitions; the one with the lowest mean cost is the result, and
the others are the members of an ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from swarm.arrays import Bool, Float, read_only
from swarm.errors import ConfigError
from swarm.evaluation.types import Evaluator, evaluate_fully
from swarm.problem.space import SearchSpace
from swarm.search.budget import charged
from swarm.search.packing import first_of_equal, in_turn
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import name_of

if TYPE_CHECKING:
    from swarm.search.driver import SearchState
    from swarm.search.result import SearchResult

__all__ = ["N_FINALISTS", "Finalists", "check_rotation", "evaluate_finalists", "leaders_of"]

# Members of an ensemble of the usual size, and a few that turn out to be worse.
N_FINALISTS = 10


@dataclass(frozen=True)
class Finalists:
    """The best subsets of each stretch of a search, evaluated on all partitions.

    Attributes
    ----------
    masks : bool (m, n_units)
        By ascending cost; smaller subsets first if costs are equal.
    costs : float64 (m,)
        Means over the folds of all partitions.
    """

    masks: Bool
    costs: Float

    def __post_init__(self) -> None:
        read_only(self.masks, self.costs)


def check_rotation(
    strategy: Strategy,
    rotate: int,
    *,
    repeats: int,
    racing: float | None,
    noise_floor: int | None,
    importance: str,
) -> None:
    """Refuse a rotation that the other settings of a search do not allow.

    Parameters
    ----------
    strategy : Strategy
    rotate : int
        Epochs on one partition; 0 for no rotation.
    repeats : int
        Number of partitions.
    racing : float or None
    noise_floor : int or None
        Epochs over which the gain must exceed its standard error.
    importance : str
        Source of the importances.

    Raises
    ------
    ConfigError
    """
    if not rotate:
        return
    if repeats < 2:
        raise ConfigError(
            f"rotate {rotate} changes the fold partition, but there is only one; set repeats to 2 "
            "or more, or rotate to 0"
        )
    if strategy.ends_by_itself or not strategy.takes_warm_start:
        raise ConfigError(
            f"rotate {rotate} starts the strategy again from its members, which "
            f"{name_of(strategy)!r} does not support; use another strategy, or set rotate to 0"
        )
    if racing is not None:
        raise ConfigError(
            f"rotate {rotate} evaluates on one partition at a time, where racing {racing:g} has no "
            "costs of incumbents to compare with; set one of them to 0 or null"
        )
    if noise_floor is not None:
        raise ConfigError(
            f"rotate {rotate} changes the folds, over which noise_floor {noise_floor} compares the "
            "best subsets of several epochs; set one of them to 0 or null"
        )
    if importance == "refit":
        raise ConfigError(
            f"rotate {rotate} evaluates on one partition at a time, but importance 'refit' needs "
            "the cost on all; use another source of importances, or set rotate to 0"
        )


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
    finalists = Finalists(masks[order], found.costs[order])
    best, cost = finalists.masks[0], float(finalists.costs[0])
    state = replace(state, best_mask=best, best_cost=cost, asked=asked, counts=counts)
    return replace(result, state=state, finalists=finalists)
