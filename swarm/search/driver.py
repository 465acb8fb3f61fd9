"""The driver: runs a strategy on a problem with a seed and a budget.

Only the driver creates random generators, one per epoch from (seed, epoch), so that an epoch
depends on nothing but the state before it. A search is resumed by running it again: evaluated masks
are read from the archive, and training continues with the first mask that is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.checks import require
from swarm.errors import EvaluationError, InputError
from swarm.evaluation.types import Evaluations, Evaluator
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget, Counts
from swarm.search.history import EpochRecord, record_epoch
from swarm.search.packing import pack_folds, pack_masks
from swarm.search.racing import RaceMemory
from swarm.search.result import SearchResult
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.catalogue import make
from swarm.strategies.operators.memory import shrink

__all__ = ["Search", "SearchState", "run"]

Bool = NDArray[np.bool_]

# A larger share of failed evaluations indicates a mistake in the model or the data.
_FAILED_SHARE = 0.1
# Epochs without a new mask before a search with a limit on new masks ends.
_IDLE_EPOCHS = 100


@dataclass(frozen=True)
class SearchState:
    """Immutable state of a search between two epochs.

    Attributes
    ----------
    epoch : int
        Finished epochs.
    strategy : state of the strategy
    best_mask : bool (n_units,) or None
        None before the first finite cost.
    best_cost : float
    stalled : int
        Epochs without an improvement of the best cost.
    counts : Counts
    asked : mapping of packed mask to packed folds
        The folds of every mask that count towards the budget.
    fold_sums : float64 (n_folds,)
        Sums of fold costs over the rows that reached their incumbents. The folds with the highest
        sums are trained first.
    idle : int
        Epochs without a new mask.
    first_error : str or None
        Traceback of the first failed fit.
    races : RaceMemory or None
        Statistics for racing; None without racing.
    leaders : tuple of float64 (n_folds,)
        Fold costs of the best subset after each of the last epochs, oldest first, from its first
        finite cost on; empty unless the budget has a noise floor.
    """

    epoch: int
    strategy: Any
    best_mask: Bool | None
    best_cost: float
    stalled: int
    counts: Counts
    asked: Mapping[bytes, int] = field(repr=False)
    fold_sums: NDArray[np.float64] = field(repr=False)
    idle: int = 0
    first_error: str | None = field(default=None, repr=False)
    races: RaceMemory | None = field(default=None, repr=False)
    leaders: tuple[NDArray[np.float64], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Search:
    """A strategy, the space that it searches, and the evaluator of its masks.

    Parameters
    ----------
    strategy : Strategy or str
        A name stands for the strategy with its defaults.
    space : SearchSpace
    evaluator : Evaluator
    hints : Hints
    seed : int
    budget : Budget
    racing : float or None
        Stop training a mask once its probability to reach its incumbent, given the folds so far,
        falls below this; see :class:`swarm.evaluation.limit.Limit`. Faster, but a winning mask is
        occasionally lost. The search differs from one without racing, and is deterministic.
        Strategies that need the exact cost of every mask do not race.
    """

    strategy: Strategy
    space: SearchSpace
    evaluator: Evaluator
    hints: Hints
    seed: int
    budget: Budget
    racing: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", make(self.strategy))
        if self.racing is not None:
            require("racing", self.racing, above=0, below=0.5)

    def start(self) -> SearchState:
        """Return the state before the first epoch.

        Raises
        ------
        InputError
            If warm-start masks do not have a column for each unit.
        """
        warm = self.hints.warm
        if warm is not None and warm.shape[1:] != (self.space.n_units,):
            raise InputError(
                f"warm-start masks have the shape {warm.shape} but there are "
                f"{self.space.n_units} units; give one column per unit"
            )
        state = self.strategy.start(self.space, self.hints, self._generator(0))
        n_folds = self.evaluator.n_folds
        races = None if self.racing is None else RaceMemory.blank(n_folds)
        sums = np.zeros(n_folds)
        return SearchState(0, state, None, float("inf"), 0, Counts(), {}, sums, races=races)

    def step(self, state: SearchState) -> tuple[SearchState, EpochRecord]:
        """Run one epoch: propose, evaluate, observe.

        The next state depends only on `state`, so that an epoch can be retried.

        Raises
        ------
        EvaluationError
            If a cost is NaN, or more than a tenth of the evaluations failed.
        """
        epoch = state.epoch + 1
        moved, proposal = self.strategy.propose(state.strategy, self._generator(epoch))
        affordable = self._affordable(state, proposal)
        evaluations = self._evaluate(proposal, affordable, state)
        observed = self.strategy.observe(moved, proposal, evaluations)
        asked, counts = _charge(state, proposal.masks[:affordable], evaluations)
        first_error = state.first_error or evaluations.first_error
        _refuse_too_many_failures(counts, first_error)
        best_mask, best_cost, row = self._best(state, proposal, evaluations)
        improved = best_cost < state.best_cost
        after = SearchState(
            epoch=epoch,
            strategy=observed,
            best_mask=best_mask,
            best_cost=best_cost,
            # A sequential search may start at sizes outside the bounds, without a best mask.
            stalled=0 if improved or best_mask is None else state.stalled + 1,
            counts=counts,
            asked=asked,
            fold_sums=state.fold_sums + _fold_sums(proposal, evaluations),
            idle=state.idle + 1 if counts.distinct == state.counts.distinct else 0,
            first_error=first_error,
            races=state.races
            and state.races.observe(moved.members, observed.members, proposal, evaluations),
            leaders=self._leaders(state, evaluations, row),
        )
        size = 0 if best_mask is None else int(best_mask.sum())
        record = record_epoch(
            epoch, proposal, evaluations, observed.members, (best_cost, size), counts
        )
        return after, record

    def stop(self, state: SearchState, seconds: float) -> str | None:
        """Return the reason to stop, or None.

        The name of a limit of the budget; ``"finished"`` if the strategy has finished;
        ``"exhausted"`` after a hundred epochs without a new mask, if `distinct` or `fits` is
        limited.
        """
        if state.epoch > 0 and self.strategy.finished(state.strategy):
            return "finished"
        counts_new = self.budget.distinct is not None or self.budget.fits is not None
        if counts_new and state.idle >= _IDLE_EPOCHS:
            return "exhausted"
        reached = self.budget.reached(state.epoch, state.counts, seconds, state.stalled)
        if reached is None and self._is_at_noise_floor(state):
            return "noise_floor"
        return reached

    def _leaders(
        self, state: SearchState, evaluations: Evaluations, row: int | None
    ) -> tuple[NDArray[np.float64], ...]:
        """Add the fold costs of the best subset, which is in `row` if it is new."""
        if self.budget.noise_floor is None or (row is None and not state.leaders):
            return state.leaders
        best = state.leaders[-1] if row is None else evaluations.fold_costs[row]
        return (*state.leaders, best)[-self.budget.noise_floor - 1 :]

    def _is_at_noise_floor(self, state: SearchState) -> bool:
        """Whether the gain of the last epochs is within its standard error over the folds."""
        if self.budget.noise_floor is None or len(state.leaders) <= self.budget.noise_floor:
            return False
        gains = state.leaders[0] - state.leaders[-1]
        if len(gains) == 1:
            # Without a standard error, any gain counts.
            return bool(gains[0] <= 0)
        return bool(gains.mean() <= gains.std(ddof=1) / np.sqrt(len(gains)))

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch])

    def _affordable(self, state: SearchState, proposal: Proposal) -> int:
        """Number of rows of the proposal that are within the budget."""
        count = len(proposal.masks)
        if self.budget.evaluations is not None:
            count = min(count, self.budget.evaluations - state.counts.evaluations)
        if self.budget.distinct is not None:
            seen = set(state.asked)
            for row, key in enumerate(pack_masks(proposal.masks[:count])):
                if key not in seen and len(seen) == self.budget.distinct:
                    return row
                seen.add(key)
        return count

    def _evaluate(self, proposal: Proposal, affordable: int, state: SearchState) -> Evaluations:
        order = np.argsort(-state.fold_sums, kind="stable")
        asked = (proposal.masks[:affordable], proposal.incumbents[:affordable], order)
        race = None
        if self.racing is not None and state.races is not None:
            race = state.races.race(proposal, self.racing)
        answers = self.evaluator.evaluate(*asked, race)
        _refuse_nan(answers.costs, proposal.masks, self.space)
        return answers if affordable == len(proposal.masks) else _padded(answers, proposal)

    def _best(
        self, state: SearchState, proposal: Proposal, evaluations: Evaluations
    ) -> tuple[Bool | None, float, int | None]:
        """Lowest cost, then fewest units, then first; without units that no model used.

        Returns mask and cost of the best subset, and its row, None if it is that of `state`.
        """
        masks = proposal.masks
        if evaluations.exact_shrink:
            masks = shrink(masks, evaluations.used, self.space)
        costs = np.where(self.space.obeys(masks), evaluations.costs, np.inf)
        size = masks.sum(axis=1)
        row = int(np.lexsort((size, costs))[0])
        cost = float(costs[row])
        if not np.isfinite(cost):
            return state.best_mask, state.best_cost, None
        if state.best_mask is not None and (cost, size[row]) >= (
            state.best_cost,
            state.best_mask.sum(),
        ):
            return state.best_mask, state.best_cost, None
        best = masks[row].copy()
        best.setflags(write=False)
        return best, cost, row


def run(
    search: Search,
    *,
    callbacks: Sequence[Callable[[EpochRecord, SearchState], None]] = (),
    step: Callable[[SearchState], tuple[SearchState, EpochRecord]] | None = None,
) -> SearchResult:
    """Run a search to its end.

    Ctrl-C ends it with the result of the finished epochs; evaluations of the unfinished epoch are
    in the archive.

    Parameters
    ----------
    callbacks
        Called after every epoch with its record and the state.
    step
        Replacement for :meth:`Search.step`, for example to run an epoch as a task.
    """
    step = search.step if step is None else step
    started = time.monotonic()
    state, records, reason = search.start(), [], None
    try:
        while (reason := search.stop(state, time.monotonic() - started)) is None:
            state, record = step(state)
            records.append(record)
            for callback in callbacks:
                callback(record, state)
    except KeyboardInterrupt:
        if not records:
            raise
        reason = "interrupted"
    return SearchResult(state, tuple(records), reason, search.space)


def _fold_sums(proposal: Proposal, evaluations: Evaluations) -> NDArray[np.float64]:
    """Sum the fold costs of rows that reached their incumbents, which pruning does not change."""
    reached = evaluations.costs <= proposal.incumbents
    sums: NDArray[np.float64] = np.nansum(evaluations.fold_costs[reached], axis=0)
    return sums


def _charge(
    state: SearchState, masks: Bool, evaluations: Evaluations
) -> tuple[dict[bytes, int], Counts]:
    """Count the masks and folds that this search has not requested before."""
    asked = dict(state.asked)
    fits = 0
    for key, needed in zip(pack_masks(masks), evaluations.needed, strict=False):
        folds = pack_folds(needed)
        before = asked.get(key, 0)
        fits += (folds & ~before).bit_count()
        asked[key] = before | folds
    counts = Counts(
        evaluations=state.counts.evaluations + len(masks),
        distinct=len(asked),
        fits=state.counts.fits + fits,
        failed=state.counts.failed + int(evaluations.failed.sum()),
    )
    return asked, counts


def _padded(answers: Evaluations, proposal: Proposal) -> Evaluations:
    """Add rows beyond the budget, censored as if worse than their incumbents."""
    n, given = len(proposal.masks), len(answers.costs)

    def fill(array: NDArray[Any], value: object) -> NDArray[Any]:
        rest = np.full((n - given, *array.shape[1:]), value, dtype=array.dtype)
        return np.concatenate([array, rest])

    return replace(
        answers,
        costs=fill(answers.costs, np.inf),
        fold_costs=fill(answers.fold_costs, np.nan),
        importances=fill(answers.importances, 0.0),
        used=np.concatenate([answers.used, proposal.masks[given:]]),
        censored=fill(answers.censored, True),
        failed=fill(answers.failed, False),
        needed=fill(answers.needed, False),
    )


def _refuse_nan(costs: NDArray[np.float64], masks: Bool, space: SearchSpace) -> None:
    if not np.isnan(costs).any():
        return
    names = space.subset(masks[np.flatnonzero(np.isnan(costs))[0]])
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise EvaluationError(
        f"the cost of the subset of {len(names)} features ({listed}) is NaN; check the evaluator"
    )


def _refuse_too_many_failures(counts: Counts, first_error: str | None) -> None:
    if counts.failed <= _FAILED_SHARE * counts.evaluations:
        return
    trace = first_error or ""
    cause = trace.strip().splitlines()[-1] if trace.strip() else "an unknown error"
    error = EvaluationError(
        f"{counts.failed} of {counts.evaluations} evaluations failed, more than a tenth; "
        f"the first: {cause}"
    )
    error.add_note(trace)
    raise error
