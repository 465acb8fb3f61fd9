"""An evaluator that adds to costs what the columns of a subset cost to obtain."""

from __future__ import annotations

from dataclasses import replace

from swarm.arrays import Bool, Float, Int
from swarm.evaluation.limit import Race
from swarm.evaluation.types import Evaluations, Evaluator
from swarm.problem.space import SearchSpace

# Subtracting a penalty and adding it again changes the last digits; ties are to remain.
_MARGIN = 1e-12


class Priced:
    """Evaluate masks with :meth:`swarm.problem.space.SearchSpace.penalty` on every fold.

    The archive keeps costs without it: searches with other prices share evaluations.
    """

    def __init__(self, evaluator: Evaluator, space: SearchSpace) -> None:
        self._evaluator = evaluator
        self._space = space
        self.n_folds = evaluator.n_folds

    def evaluate(
        self,
        masks: Bool,
        incumbents: Float,
        fold_order: Int,
        race: Race | None = None,
    ) -> Evaluations:
        """Evaluate a batch; see :class:`swarm.evaluation.types.Evaluator`."""
        penalty = self._space.penalty(masks)
        limits = limits_without_prices(incumbents, masks, self._space)
        if race is not None:
            race = replace(race, rivals=race.rivals - penalty[:, None])
        found = self._evaluator.evaluate(masks, limits, fold_order, race)
        return replace(
            found,
            costs=found.costs + penalty,
            fold_costs=found.fold_costs + penalty[:, None],
            # The cost of a subset without its unused units is lower by their price.
            exact_shrink=False,
        )


def limits_without_prices(incumbents: Float, masks: Bool, space: SearchSpace) -> Float:
    """Return the cost (n,) that each mask has to reach before its price is added."""
    if not space.cost_weight:
        return incumbents
    return incumbents - space.penalty(masks) + _MARGIN


def priced(evaluator: Evaluator, space: SearchSpace) -> Evaluator:
    """Return an evaluator with the prices of a space, if subsets pay for them."""
    if not space.cost_weight or isinstance(evaluator, Priced):
        return evaluator
    return Priced(evaluator, space)
