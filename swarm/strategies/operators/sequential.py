"""Sequential search: sizes of subsets, steps by one unit with conditional steps back, a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from swarm.arrays import Bool, Float, Int, read_only
from swarm.checks import require
from swarm.errors import ConfigError, SpaceError
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.rounding import rounding_error
from swarm.statistics.lowest import first_of
from swarm.strategies.base import Members, Proposal, Strategy

# A size is a number, a range, or a rule over all allowed sizes.
Size = int | str | tuple[int, int] | list[int]

_RULES = ("auto", "best", "parsimonious")

_Phase = Literal["start", "step", "conditional", "finished"]


def check_size(size: Size) -> None:
    """Raise ConfigError unless `size` is a number, a pair (min, max) or the name of a rule."""
    if isinstance(size, (tuple, list)):
        if len(size) != 2:
            raise ConfigError(f"size must be a pair (min, max), got {len(size)} numbers: {size!r}")
        for name, value in zip(("the smallest size", "the largest size"), size, strict=True):
            require(name, value, at_least=1, whole=True)
        if size[0] > size[1]:
            raise ConfigError(f"size must be a pair (min, max) with min <= max, got {size!r}")
    elif isinstance(size, str):
        if size not in _RULES:
            raise ConfigError(
                "size must be a number, a pair (min, max), 'auto', 'best' or 'parsimonious', "
                f"got {size!r}"
            )
    else:
        require("size", size, at_least=1, whole=True)


def answer_sizes(
    size: Size | None, space: SearchSpace, *, tol: float | None = None
) -> tuple[int, int]:
    """Smallest and largest size of the result; SpaceError if the space forbids `size`.

    None means any size. "auto" means any size with `tol`, and half of the units without.
    """
    n_allowed = int((~space.forbidden).sum())
    n_fixed = int(space.fixed.sum())
    if size == "auto" and tol is None:
        size = min(max(n_allowed // 2, space.min_size), space.max_size)
    if size is None or isinstance(size, str):
        return space.min_size, space.max_size
    lowest, highest = (size, size) if isinstance(size, int) else size
    if highest > n_allowed:
        raise SpaceError(
            f"size {highest} exceeds the {n_allowed} allowed units; choose a smaller size"
        )
    if highest < n_fixed:
        raise SpaceError(
            f"size {highest} is below the {n_fixed} fixed units; choose a larger size or fix fewer "
            "units"
        )
    if highest < space.min_size or lowest > space.max_size:
        sizes = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
        raise SpaceError(
            f"size {sizes} is outside min_size {space.min_size} to max_size {space.max_size}; "
            "change one of them"
        )
    return max(lowest, space.min_size), min(highest, space.max_size)


def additions(mask: Bool, space: SearchSpace, barred: int = -1) -> Bool:
    """Every set with one unit more, but not `barred`, the first unit first: (n, n_units)."""
    units = np.flatnonzero(~mask & ~space.forbidden)
    return _with_flips(mask, units[units != barred])


def removals(mask: Bool, space: SearchSpace, barred: int = -1) -> Bool:
    """Every set with one unit fewer, except without `barred`: (n, n_units)."""
    # The order is lexicographic, so that the set of the earlier units wins a tie, as for additions.
    units = np.flatnonzero(mask & ~space.fixed)[::-1]
    return _with_flips(mask, units[units != barred])


def _with_flips(mask: Bool, units: Int) -> Bool:
    """Copies of the mask, each with one of the units flipped: (len(units), n_units)."""
    masks = np.tile(mask, (len(units), 1))
    masks[np.arange(len(units)), units] ^= True
    return masks


def first_of_size(sizes: Int, space: SearchSpace) -> Bool:
    """The fixed and the first allowed units, for each size (n,): bool (n, n_units)."""
    return first_of(np.tile(space.in_order(), (len(sizes), 1)), sizes)


def first_best(costs: Float) -> int:
    """Index of the first of the costs (n,) that equals the lowest up to rounding."""
    lowest = np.min(costs)
    return int(np.argmax(costs <= lowest + rounding_error(lowest)))


def is_better(cost: float, than: float) -> bool:
    """Whether `cost` is lower than `than` by more than rounding."""
    return bool(cost < than - (rounding_error(than) if np.isfinite(than) else 0.0))


def standard_error(fold_costs: Float) -> float:
    """Standard error of the mean of the fold costs (n_folds,); 0 for a single fold."""
    if len(fold_costs) < 2:
        return 0.0
    return float(np.std(fold_costs, ddof=1) / np.sqrt(len(fold_costs)))


def within_one_error(costs: Float, errors: Float) -> int:
    """Index of the first of the costs by size (n,) within one standard error of the lowest."""
    # Source: Breiman, Friedman, Olshen and Stone, Classification and Regression Trees (1984),
    # section 3.4.3. mlxtend calls the rule `parsimonious`.
    best = first_best(costs)
    limit = costs[best] + errors[best]
    return int(np.argmax(costs <= limit + rounding_error(limit)))


@dataclass(frozen=True)
class SequentialState:
    """The current set of a path, and the best set of every size on it.

    Attributes
    ----------
    space : SearchSpace
    strategy : SequentialStrategy
    bounds : tuple of int
        Smallest and largest size of the result.
    phase : str
        The next proposal: the first set, all sets one step away, or those one step back.
    mask : bool (n_units,)
        The current set; empty before the first epoch of a forward search without fixed units.
    cost : float
        Cost of the current set.
    last_unit : int
        Unit of the last step.
    sizes : int (n_sizes,)
        Every size on the path, ascending.
    masks : bool (n_sizes, n_units)
        The best set of each size.
    costs : float64 (n_sizes,)
        inf before the first measurement.
    errors : float64 (n_sizes,)
        Standard errors of the costs.
    """

    space: SearchSpace
    strategy: SequentialStrategy
    bounds: tuple[int, int]
    phase: _Phase
    mask: Bool
    cost: float
    last_unit: int
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
        costs = self.costs[rows]
        answer = None
        current = np.flatnonzero(self.sizes[rows] == self.mask.sum())
        if self.strategy.tol is not None and len(current):
            answer = int(current[0]) if np.isfinite(costs[current[0]]) else None
        elif np.isfinite(costs).any():
            is_parsimonious = self.strategy.size == "parsimonious"
            errors = self.errors[rows] if is_parsimonious else np.zeros(len(costs))
            answer = within_one_error(costs, errors)
        return Members.plain(self.masks[rows], costs, answer)

    @property
    def conditional(self) -> Bool:
        """The candidates of a conditional step: bool (n, n_units), n may be 0."""
        is_forward = self.strategy.forward
        back = self.strategy.back
        size = int(self.mask.sum()) + back
        # The first step has evaluated all sets of its size.
        first_size = self.space.fixed.sum() + 1 if is_forward else (~self.space.forbidden).sum() - 1
        if self.strategy.must_beat is None or size * back >= first_size * back:
            return np.zeros((0, len(self.mask)), dtype=bool)
        candidates = removals if is_forward else additions
        return candidates(self.mask, self.space, self.last_unit)

    @property
    def limit(self) -> float:
        """The cost that a conditional step has to beat."""
        best = self.best_cost(int(self.mask.sum()) + self.strategy.back)
        return min(best, self.cost) if self.strategy.must_beat == "current" else best

    def best_cost(self, size: int) -> float:
        """Cost of the best known set of a size."""
        return float(self.costs[size - self.sizes[0]])

    def with_best(self, mask: Bool, cost: float, fold_costs: Float) -> SequentialState:
        """Keep a set if it is better than the best known one of its size."""
        row = int(mask.sum()) - int(self.sizes[0])
        if not is_better(cost, self.costs[row]):
            return self
        masks = self.masks.copy()
        costs = self.costs.copy()
        errors = self.errors.copy()
        masks[row] = mask
        costs[row] = cost
        errors[row] = standard_error(fold_costs)
        return replace(self, masks=masks, costs=costs, errors=errors)

    def without_way_back(self) -> SequentialState:
        """Continue with the next step, if there is one."""
        last_size = self.sizes[-1 if self.strategy.forward else 0]
        is_last = self.mask.sum() == last_size
        return replace(self, phase="finished" if is_last else "step")


@dataclass(frozen=True)
class SequentialStrategy(Strategy):
    """Base class of sequential strategies.

    Every epoch proposes all sets that are one unit away, and moves to the best of them,
    unconditionally; the first wins a tie. A floating search follows each step by conditional steps
    in the opposite direction, but only to a set that is strictly better than the best known one of
    its size; they are repeated as long as they succeed.

    Sources: Ferri et al. (1994); Pudil, Novovicova and Kittler (1994); documentation of mlxtend's
    SequentialFeatureSelector (2015, 2023). mlxtend takes a conditional step if it improves on the
    current set, Pudil et al. if it improves on the best known set of the same size. `must_beat`
    selects the rule; under the first one both have to be improved on. Our choices where the sources
    are silent:

    - Costs that differ only by rounding are equal, so that no path depends on the order of a sum.
    - A step after a conditional one may lead to a set of equal cost. It becomes the current set,
      but the set found first is kept for its size.
    - Conditional steps are also taken after the last size, and the path returns to it.
    - Conditional steps never undo the last step. They are skipped if every set that they lead to
      has been evaluated.

    mlxtend guards against cycles; there are none here. Every conditional step lowers the best cost
    of a size, which finitely many sets allow only finitely often, and between two of them a path
    takes at most one step for each unit.

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

    @property
    def must_beat(self) -> str | None:
        """What conditional steps have to beat; None: there are none."""
        return None

    @property
    def back(self) -> int:
        """Change of the size by a conditional step."""
        return -1 if self.forward else 1

    def evaluations_in(self, space: SearchSpace) -> tuple[int, int | None]:
        """All candidates at every size: fewer with `tol`, more with conditional steps."""
        by_epoch = self._evaluations_by_epoch(space)
        total = sum(by_epoch)
        lowest = by_epoch[0] if self.tol is not None else total
        return lowest, total if self.must_beat is None else None

    def epochs_in(self, space: SearchSpace) -> int | None:
        """One epoch for each size; None with `tol` or conditional steps."""
        if self.tol is not None or self.must_beat is not None:
            return None
        return len(self._evaluations_by_epoch(space))

    def _evaluations_by_epoch(self, space: SearchSpace) -> list[int]:
        """Evaluations of each epoch of a complete path without conditional steps."""
        lowest, highest = answer_sizes(self.size, space, tol=self.tol)
        n_allowed = int((~space.forbidden).sum())
        n_fixed = int(space.fixed.sum())
        if self.forward:
            return [1] * (n_fixed > 0) + [n_allowed - size for size in range(n_fixed, highest)]
        return [1] + [size - n_fixed for size in range(n_allowed, lowest, -1)]

    def start(self, space: SearchSpace, hints: Hints, rng: np.random.Generator) -> SequentialState:
        """Start from the fixed or all allowed units; SpaceError if `size` contradicts the space."""
        lowest, highest = answer_sizes(self.size, space, tol=self.tol)
        n_fixed = int(space.fixed.sum())
        if self.forward:
            sizes = np.arange(max(1, n_fixed), highest + 1)
        else:
            sizes = np.arange(lowest, int((~space.forbidden).sum()) + 1)
        return SequentialState(
            space=space,
            strategy=self,
            bounds=(lowest, highest),
            phase="step" if self.forward and n_fixed == 0 else "start",
            mask=space.fixed.copy() if self.forward else ~space.forbidden,
            cost=float("inf"),
            last_unit=-1,
            sizes=sizes,
            masks=first_of_size(sizes, space),
            costs=np.full(len(sizes), np.inf),
            errors=np.zeros(len(sizes)),
        )

    def propose(
        self, state: SequentialState, rng: np.random.Generator
    ) -> tuple[SequentialState, Proposal]:
        """Propose the candidates of the next step; only conditional ones have an incumbent."""
        if state.phase == "start":
            return state, Proposal.plain(state.mask[None, :].copy(), "start")
        if state.phase == "step" and self.forward:
            return state, Proposal.plain(additions(state.mask, state.space), "add")
        if state.phase == "step":
            return state, Proposal.plain(removals(state.mask, state.space), "drop")
        masks = state.conditional
        plain = Proposal.plain(masks, "conditional drop" if self.forward else "conditional add")
        return state, replace(plain, incumbents=np.full(len(masks), state.limit))

    def observe(
        self, state: SequentialState, proposal: Proposal, evaluations: Evaluations
    ) -> SequentialState:
        """Move to the best candidate, or stay if a conditional step does not improve."""
        row = first_best(evaluations.costs)
        mask = proposal.masks[row]
        cost = float(evaluations.costs[row])
        if state.phase == "conditional" and not is_better(cost, state.limit):
            return state.without_way_back()
        if state.phase == "step" and self._gains_too_little(state, cost):
            return replace(state, phase="finished")
        last_unit = state.last_unit
        if state.phase == "step":
            last_unit = int(np.argmax(mask != state.mask))
        moved = state.with_best(mask, cost, evaluations.fold_costs[row])
        moved = replace(moved, mask=mask.copy(), cost=cost, last_unit=last_unit)
        if state.phase != "start" and len(moved.conditional) > 0:
            return replace(moved, phase="conditional")
        return moved.without_way_back()

    def _gains_too_little(self, state: SequentialState, cost: float) -> bool:
        """Whether a step to a set of this cost ends the path; never at sizes outside the bounds."""
        size = int(state.mask.sum())
        if self.tol is None or not state.bounds[0] <= size <= state.bounds[1]:
            return False
        return bool(state.cost - cost < self.tol)

    def finished(self, state: SequentialState) -> bool:
        """Whether the path has ended."""
        return state.phase == "finished"


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

    must_beat: Literal["current", "size"] = "current"

    def __post_init__(self) -> None:
        super().__post_init__()
        require("must_beat", self.must_beat, one_of=("current", "size"))
