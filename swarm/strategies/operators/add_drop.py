"""Sequential search: add or drop one unit at a time, with conditional steps back.

Every epoch proposes all sets that are one step away, and moves to the best of them; the first
wins a tie (:mod:`swarm.strategies.operators.sequential`). The phases of a search:

``start``
    The set that the path starts from: the fixed units if there are any, or all allowed units.
``step``
    Add one unit (forward) or drop one (backward), unconditionally.
``conditional``
    After a step of a floating search, one step in the opposite direction, but only to a set that
    is strictly better than the best known one of its size; repeated as long as it succeeds.

Sources: Ferri et al. (1994); Pudil, Novovicova and Kittler (1994); documentation of mlxtend's
SequentialFeatureSelector (2015, 2023). mlxtend takes a conditional step if it improves on the
current set, Pudil et al. if it improves on the best known set of the same size. `must_beat` selects
the rule; under the first one both have to be improved on. Our choices where the sources are silent:

- Costs that differ only by rounding are equal, so that no path depends on the order of a sum.
- A step after a conditional one may lead to a set of equal cost. It becomes the current set, but
  the set found first is kept for its size.
- Conditional steps are also taken after the last size, and the path returns to it.
- Conditional steps never undo the last step. They are skipped if every set that they lead to has
  been evaluated.

mlxtend guards against cycles; there are none here. Every conditional step lowers the best cost of a
size, which finitely many sets allow only finitely often, and between two of them a path takes at
most one step for each unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.checks import require
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Members, Proposal, Strategy
from swarm.strategies.operators.sequential import (
    additions,
    first_best,
    first_of_size,
    is_better,
    removals,
    standard_error,
    within_one_error,
)
from swarm.strategies.operators.subset_size import Size, answer_sizes, check_size

__all__ = ["FloatingStrategy", "SequentialState", "SequentialStrategy"]

MustBeat = Literal["current", "size"]


@dataclass(frozen=True)
class SequentialState:
    """The current set of a path, and the best set of every size on it.

    Attributes
    ----------
    forward : bool
        Whether steps add units.
    must_beat : str or None
        What conditional steps have to beat; None: no conditional steps.
    parsimonious : bool
        Whether the result is the smallest set within one standard error, not the cheapest.
    tol : float or None
        Minimum improvement per step; the path ends before a step that improves less, and the set
        where it ends is the result. None: the path is completed.
    bounds : (int, int)
        Smallest and largest size of the result.
    phase : str
        The next phase: ``start``, ``step``, ``conditional`` or ``finished``.
    mask : bool (n_units,)
        The current set; empty before the first epoch of a forward search without fixed units.
    cost : float
        Its cost.
    turned : int
        The unit of the last step.
    sizes : int (n_sizes,)
        Every size on the path, ascending.
    masks : bool (n_sizes, n_units)
        The best set of each size.
    costs, errors : float64 (n_sizes,)
        Their costs, inf before the first measurement, and the standard errors.
    """

    space: SearchSpace
    forward: bool
    must_beat: MustBeat | None
    parsimonious: bool
    tol: float | None
    bounds: tuple[int, int]
    phase: Literal["start", "step", "conditional", "finished"]
    mask: Bool
    cost: float
    turned: int
    sizes: Int
    masks: Bool
    costs: Float
    errors: Float

    def __post_init__(self) -> None:
        read_only(self.mask, self.sizes, self.masks, self.costs, self.errors)

    @property
    def members(self) -> Members:
        """The best set of each size that the result may have, and the index of the result."""
        rows = slice(*np.searchsorted(self.sizes, (self.bounds[0], self.bounds[1] + 1)))
        costs, answer = self.costs[rows], None
        here = np.flatnonzero(self.sizes[rows] == self.mask.sum())
        if self.tol is not None and len(here):
            answer = int(here[0]) if np.isfinite(costs[here[0]]) else None
        elif np.isfinite(costs).any():
            errors = self.errors[rows] if self.parsimonious else np.zeros(len(costs))
            answer = within_one_error(costs, errors)
        return Members(self.masks[rows], costs, np.zeros(len(costs), dtype=np.int64), answer)

    @property
    def last_size(self) -> int:
        """The size at which the path ends."""
        return int(self.sizes[-1 if self.forward else 0])

    @property
    def conditional(self) -> Bool:
        """The candidates of a conditional step: bool (n, n_units), n may be 0."""
        back = -1 if self.forward else 1
        size = int(self.mask.sum()) + back
        # The whole first level was evaluated by the first step.
        first = self.space.fixed.sum() + 1 if self.forward else (~self.space.forbidden).sum() - 1
        if self.must_beat is None or size * back >= first * back:
            return np.zeros((0, len(self.mask)), dtype=bool)
        return (removals if self.forward else additions)(self.mask, self.space, self.turned)

    def best_cost(self, size: int) -> float:
        """Cost of the best known set of a size."""
        return float(self.costs[size - self.sizes[0]])


def begin(
    space: SearchSpace,
    size: Size,
    *,
    forward: bool,
    must_beat: MustBeat | None,
    tol: float | None = None,
) -> SequentialState:
    """Return the state before the first epoch.

    Raises
    ------
    SpaceError
        If `size` contradicts the constraints of the space.
    """
    lo, hi = answer_sizes(size, space, tol=tol)
    n_fixed, allowed = int(space.fixed.sum()), int((~space.forbidden).sum())
    sizes = np.arange(max(1, n_fixed), hi + 1) if forward else np.arange(lo, allowed + 1)
    return SequentialState(
        space=space,
        forward=forward,
        must_beat=must_beat,
        parsimonious=size == "parsimonious",
        tol=tol,
        bounds=(lo, hi),
        phase="step" if forward and n_fixed == 0 else "start",
        mask=space.fixed.copy() if forward else ~space.forbidden,
        cost=float("inf"),
        turned=-1,
        sizes=sizes,
        masks=first_of_size(sizes, space),
        costs=np.full(len(sizes), np.inf),
        errors=np.zeros(len(sizes)),
    )


def next_sets(state: SequentialState) -> Proposal:
    """Propose all candidates of the next step.

    Costs are exact, except those of conditional steps that cannot succeed.
    """
    if state.phase == "start":
        return Proposal.plain(state.mask[None, :].copy(), "start")
    if state.phase == "step":
        step = additions if state.forward else removals
        return Proposal.plain(step(state.mask, state.space), "add" if state.forward else "drop")
    masks = state.conditional
    role = "conditional drop" if state.forward else "conditional add"
    return replace(
        Proposal.plain(masks, role), incumbents=np.full(len(masks), _conditional_limit(state))
    )


def follow(state: SequentialState, proposal: Proposal, evaluations: Evaluations) -> SequentialState:
    """Move to the best candidate, or stay if a conditional step does not improve."""
    row = first_best(evaluations.costs)
    mask, cost = proposal.masks[row], float(evaluations.costs[row])
    if state.phase == "conditional" and not is_better(cost, _conditional_limit(state)):
        return replace(state, phase=_plain_phase(state))
    if state.phase == "step" and _gains_too_little(state, cost):
        return replace(state, phase="finished")
    turned = int(np.argmax(mask != state.mask)) if state.phase == "step" else state.turned
    moved = _kept(state, mask, cost, evaluations.fold_costs[row])
    moved = replace(moved, mask=mask.copy(), cost=cost, turned=turned)
    again = state.phase != "start" and len(moved.conditional) > 0
    return replace(moved, phase="conditional" if again else _plain_phase(moved))


def _kept(state: SequentialState, mask: Bool, cost: float, fold_costs: Float) -> SequentialState:
    """Keep a set if it is better than the best known one of its size."""
    row = int(mask.sum()) - int(state.sizes[0])
    if not is_better(cost, state.costs[row]):
        return state
    masks, costs, errors = state.masks.copy(), state.costs.copy(), state.errors.copy()
    masks[row], costs[row], errors[row] = mask, cost, standard_error(fold_costs)
    return replace(state, masks=masks, costs=costs, errors=errors)


def _conditional_limit(state: SequentialState) -> float:
    """The cost that a conditional step has to beat."""
    known = state.best_cost(int(state.mask.sum()) + (-1 if state.forward else 1))
    return min(known, state.cost) if state.must_beat == "current" else known


def _gains_too_little(state: SequentialState, cost: float) -> bool:
    """Whether a step to a set of this cost ends the path; never at sizes outside the bounds."""
    size = int(state.mask.sum())
    if state.tol is None or not state.bounds[0] <= size <= state.bounds[1]:
        return False
    return bool(state.cost - cost < state.tol)


def _plain_phase(state: SequentialState) -> Literal["step", "finished"]:
    return "finished" if int(state.mask.sum()) == state.last_size else "step"


@dataclass(frozen=True)
class SequentialStrategy(Strategy):
    """Base class of sequential strategies.

    Parameters
    ----------
    size
        Number of units to select: a number; a pair (min, max), for the cheapest set of these
        sizes; ``"best"``, the cheapest set of all allowed sizes; ``"parsimonious"``, the smallest
        set whose cost is within one standard error of the lowest; or ``"auto"``, half of the
        allowed units, or with `tol` the set where the search stops. The smaller set wins a tie.
        The search ends after the last size that the result may have.
    tol
        Stop before the first step that lowers the cost by less than this; requires
        ``size="auto"``. A negative value, in a backward search, is the increase in cost that each
        step may cause. None: off.
    """

    size: Size = "best"
    tol: float | None = None

    forward: ClassVar[bool]

    def __post_init__(self) -> None:
        check_size(self.size)
        if self.tol is None:
            return
        require("tol", self.tol, above=0 if self.forward else None)
        if self.size != "auto":
            raise ValueError(f"tol requires size 'auto', got size {self.size!r}; omit one of them")

    uses_importances: ClassVar[bool] = False
    is_deterministic: ClassVar[bool] = True
    ends_by_itself: ClassVar[bool] = True
    takes_warm_start: ClassVar[bool] = False
    crosses_size_bounds: ClassVar[bool] = True
    size_parameter: ClassVar[str | None] = "size"
    takes_size_rules: ClassVar[bool] = True

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int | None]:
        """All candidates at every size: fewer with `tol`, more with conditional steps."""
        steps = self._steps(space)
        count = sum(steps)
        least = steps[0] if self.tol is not None else count
        return least, count if self._must_beat is None else None

    def epochs_in(self, space: SearchSpace) -> int | None:
        """One for each size; None with `tol` or conditional steps."""
        if self.tol is not None or self._must_beat is not None:
            return None
        return len(self._steps(space))

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> SequentialState:
        """Start from the fixed units, or from all allowed units."""
        return begin(
            space, self.size, forward=self.forward, must_beat=self._must_beat, tol=self.tol
        )

    def propose(
        self, state: SequentialState, rng: np.random.Generator
    ) -> tuple[SequentialState, Proposal]:
        """Propose all candidates of the next step."""
        return state, next_sets(state)

    def observe(
        self, state: SequentialState, proposal: Proposal, evaluations: Evaluations
    ) -> SequentialState:
        """Move to the best candidate."""
        return follow(state, proposal, evaluations)

    def finished(self, state: SequentialState) -> bool:
        """Whether the path has ended."""
        return state.phase == "finished"

    def _steps(self, space: SearchSpace) -> list[int]:
        """Evaluations of each epoch of a complete path without conditional steps."""
        lowest, highest = answer_sizes(self.size, space, tol=self.tol)
        allowed, fixed = int((~space.forbidden).sum()), int(space.fixed.sum())
        if self.forward:
            return [1] * (fixed > 0) + [allowed - size for size in range(fixed, highest)]
        return [1] + [size - fixed for size in range(allowed, lowest, -1)]

    @property
    def _must_beat(self) -> MustBeat | None:
        return None


@dataclass(frozen=True)
class FloatingStrategy(SequentialStrategy):
    """Base class of floating strategies.

    Parameters
    ----------
    must_beat
        What a conditional step has to beat strictly: ``"current"``, the current set and the best
        known set of the same size (mlxtend), or ``"size"``, only the latter (Pudil et al. 1994),
        which takes more conditional steps, even if every unit helps.
    """

    must_beat: MustBeat = "current"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("must_beat", self.must_beat, one_of=("current", "size"))

    @property
    def _must_beat(self) -> MustBeat | None:
        return self.must_beat
