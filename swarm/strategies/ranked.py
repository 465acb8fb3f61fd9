"""Forward selection in the order of one ranking.

Source: Moral (2025), a benchmark of feature selection for boosted trees, in which forward selection
over features ranked once by SHAP values came near sequential forward selection at a fraction of its
fits. All features are ranked by the model's importances on all of them; each is then added in that
order, and kept if the cost falls. Our choices where the source is silent: the importances are those
of the cross-validation of all allowed units, or mutual information if models have none; of equal
importances the first comes first; with a required size, the highest-ranked of the units that were
not kept fill up.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from swarm.arrays import Bool, Int, read_only
from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.sequential import answer_sizes, first_of_size, is_better

_Phase = Literal["rank", "start", "add", "fill", "finished"]


@dataclass(frozen=True)
class Ranked:
    """The units kept so far, and the ranking of those that may be added.

    Attributes
    ----------
    space : SearchSpace
    phase : str
        The next proposal: all units, the fixed units, the kept units with the next one, or with as
        many as a result needs.
    bounds : tuple of int
        Smallest and largest size of the result.
    ranking : int (n,)
        Units that are neither fixed nor forbidden, the most important first; empty before the first
        epoch.
    n_tried : int
        Number of units of the ranking that were added.
    mask : bool (n_units,)
        The units that are kept.
    cost : float
        Cost of `mask`, inf before it is measured.
    best_mask : bool (n_units,)
        The cheapest set whose size is within the bounds.
    best_cost : float
    """

    space: SearchSpace
    phase: _Phase
    bounds: tuple[int, int]
    ranking: Int
    n_tried: int
    mask: Bool
    cost: float
    best_mask: Bool
    best_cost: float

    def __post_init__(self) -> None:
        read_only(self.ranking, self.mask, self.best_mask)

    @property
    def members(self) -> Members:
        """The cheapest set so far; with a fixed size it is the result."""
        answer = 0 if self.bounds[0] == self.bounds[1] and np.isfinite(self.best_cost) else None
        return Members.plain(self.best_mask[None, :], np.array([self.best_cost]), answer)


@dataclass(frozen=True)
class RankedForwardSelection(Strategy):
    """Forward selection in the order of the importances on all features (Moral 2025).

    The model on all units ranks them once; each unit is then added in that order, and kept if the
    cost falls. One evaluation, and one epoch, per unit.

    Parameters
    ----------
    size
        Number of units to select. None: as many as lower the cost.
    """

    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False
    crosses_size_bounds: ClassVar[bool] = True
    size_parameter: ClassVar[str | None] = "size"

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            require("size", self.size, at_least=1, whole=True)

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int]:
        """All units, the fixed ones, each of the others once, and one set that is filled up."""
        n_fixed = int(space.fixed.sum())
        n_free = int((~space.forbidden).sum()) - n_fixed
        _, highest = answer_sizes(self.size, space)
        n_first = 1 + (n_fixed > 0)
        return n_first + min(n_free, highest - n_fixed), n_first + n_free + 1

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> Ranked:
        """Start from the fixed units; SpaceError if `size` contradicts the space."""
        bounds = answer_sizes(self.size, space)
        return Ranked(
            space=space,
            phase="rank",
            bounds=bounds,
            ranking=np.zeros(0, dtype=np.int64),
            n_tried=0,
            mask=space.fixed.copy(),
            cost=np.inf,
            best_mask=first_of_size(np.array(bounds[:1]), space)[0],
            best_cost=np.inf,
        )

    def propose(self, state: Ranked, rng: np.random.Generator) -> tuple[Ranked, Proposal]:
        """Propose all units first, then the kept ones with the next in the ranking."""
        if state.phase == "rank":
            return state, Proposal.plain(~state.space.forbidden[None, :], "rank")
        proposal = Proposal.plain(_next_set(state)[None, :], state.phase)
        if state.phase == "add":
            # A set that costs more than the kept units need not be trained to the end.
            proposal = replace(proposal, incumbents=np.array([state.cost]))
        return state, proposal

    def observe(self, state: Ranked, proposal: Proposal, evaluations: Evaluations) -> Ranked:
        """Rank the units, or keep the last one if the cost has fallen."""
        mask = proposal.masks[0]
        cost = float(evaluations.costs[0])
        lowest, highest = state.bounds
        if lowest <= mask.sum() <= highest and is_better(cost, state.best_cost):
            state = replace(state, best_mask=mask, best_cost=cost)
        if state.phase == "rank":
            order = np.lexsort((np.arange(len(mask)), -evaluations.importances[0]))
            ranking = order[~(state.space.fixed | state.space.forbidden)[order]]
            has_fixed = bool(state.space.fixed.any())
            return _continued(replace(state, ranking=ranking), "start" if has_fixed else "add")
        if state.phase == "start":
            return _continued(replace(state, cost=cost), "add")
        if state.phase == "fill":
            return replace(state, phase="finished")
        if is_better(cost, state.cost):
            state = replace(state, mask=mask, cost=cost)
        return _continued(replace(state, n_tried=state.n_tried + 1), "add")

    def finished(self, state: Ranked) -> bool:
        """Whether every unit was tried, or the largest size is reached."""
        return state.phase == "finished"


def _continued(state: Ranked, phase: _Phase) -> Ranked:
    """Set the next phase: the one given, as long as there is something to add."""
    lowest, highest = state.bounds
    size = int(state.mask.sum())
    if phase == "add" and (state.n_tried == len(state.ranking) or size == highest):
        phase = "fill" if size < lowest else "finished"
    return replace(state, phase=phase)


def _next_set(state: Ranked) -> Bool:
    """The set of the next proposal, if it is not all units."""
    mask = state.mask.copy()
    if state.phase == "add":
        mask[state.ranking[state.n_tried]] = True
    elif state.phase == "fill":
        dropped = state.ranking[~mask[state.ranking]]
        mask[dropped[: state.bounds[0] - int(mask.sum())]] = True
    return mask
