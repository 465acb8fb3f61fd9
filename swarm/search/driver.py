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

from swarm.arrays import Bool, Float, Int
from swarm.checks import require
from swarm.errors import EvaluationError, InputError
from swarm.evaluation.types import Evaluations, Evaluator, censored, stacked
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget, Counts, charged
from swarm.search.history import EpochRecord, record_epoch
from swarm.search.packing import pack_masks
from swarm.search.priced import priced
from swarm.search.racing import RaceMemory, evaluate_by_partition
from swarm.search.result import SearchResult
from swarm.search.rotation import leaders_of
from swarm.search.row_parts import charged_on_parts, evaluate_by_rows
from swarm.search.steady import Steady, Unanswered
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.catalogue import make
from swarm.strategies.operators.memory import shrink

# A larger share of failed evaluations indicates a mistake in the model or the data.
_FAILED_SHARE = 0.1
# Epochs without a new mask before a search with a limit on new masks ends.
_IDLE_EPOCHS = 100
# A mask is evaluated on another partition unless its probability to beat the best is below this.
_REPEAT_CHANCE = 0.1


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
        Sums of fold costs over the rows that reached their incumbents. The folds of a partition
        with the highest sums are trained first.
    idle : int
        Epochs without a new mask.
    first_error : str or None
        Traceback of the first failed fit.
    races : RaceMemory or None
        Statistics for racing; None without.
    leaders : tuple of bool (m, n_units)
        Best masks of each finished stretch of a rotation, see :mod:`swarm.search.rotation`.
    best_costs : tuple of float64 (n_folds,)
        Fold costs of the best subset after each of the last epochs, oldest first, from its first
        finite cost on; empty unless the budget has a noise floor.
    asked_on_parts : mapping of packed mask to packed folds
        Of the parts of the rows, one after the other, what counts towards the budget.
    unanswered : Unanswered or None
        With asynchronous epochs: masks that are asked for and not observed.
    """

    epoch: int
    strategy: Any
    best_mask: Bool | None
    best_cost: float
    stalled: int
    counts: Counts
    asked: Mapping[bytes, int] = field(repr=False)
    fold_sums: Float = field(repr=False)
    idle: int = 0
    first_error: str | None = field(default=None, repr=False)
    races: RaceMemory | None = field(default=None, repr=False)
    leaders: tuple[Bool, ...] = field(default=(), repr=False)
    best_costs: tuple[Float, ...] = field(default=(), repr=False)
    asked_on_parts: Mapping[bytes, int] = field(default_factory=dict, repr=False)
    unanswered: Unanswered | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Search:
    """A strategy, the space that it searches, and the evaluator of its masks.

    Parameters
    ----------
    strategy : Strategy or str
        A name stands for the strategy with its defaults.
    space : SearchSpace
    evaluator : Evaluator
        If the space has a `cost_weight`, its costs are increased by the prices of the masks.
    hints : Hints
    seed : int
    budget : Budget
    racing : float or None
        Stop training a mask once its probability to reach its incumbent, given the folds so far,
        falls below this; see :class:`swarm.evaluation.limit.Limit`. Faster, but a winning mask is
        occasionally lost. The search differs from one without racing, and is deterministic.
        Strategies that need the exact cost of every mask do not race.
    repeats : int
        Number of fold partitions; further ones are for masks that may be better than the best
        known, see :mod:`swarm.search.racing`. `racing` is then their probability to be so.
    rotate : int
        Epochs on one partition at a time, see :mod:`swarm.search.rotation`; 0: all the time on all.
    parts : sequence of Evaluator
        Evaluators of parts of the rows, the smallest first, see :mod:`swarm.search.row_parts`;
        empty: all masks are evaluated on all rows.
    rows : tuple of int
        With parts: number of rows of each, then of all.
    steady : Steady or None
        Asynchronous epochs, see :mod:`swarm.search.steady`; None: an epoch waits for all answers.
    """

    strategy: Strategy
    space: SearchSpace
    evaluator: Evaluator
    hints: Hints
    seed: int
    budget: Budget
    racing: float | None = None
    repeats: int = 1
    rotate: int = 0
    parts: Sequence[Evaluator] = ()
    rows: tuple[int, ...] = ()
    steady: Steady | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", make(self.strategy))
        object.__setattr__(self, "evaluator", priced(self.evaluator, self.space))
        parts = tuple(priced(each, self.space) for each in self.parts)
        object.__setattr__(self, "parts", parts)
        if self.racing is not None:
            require("racing", self.racing, above=0, below=0.5)
        require("repeats", self.repeats, at_least=1, whole=True)
        require("rotate", self.rotate, at_least=0, whole=True)

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
        races = self.racing is not None or self._by_partition
        memory = RaceMemory.blank(n_folds) if races else None
        sums = np.zeros(n_folds)
        none = None if self.steady is None else Unanswered.none(self.space.n_units, n_folds)
        return SearchState(
            0, state, None, float("inf"), 0, Counts(), {}, sums, races=memory, unanswered=none
        )

    def step(self, state: SearchState) -> tuple[SearchState, EpochRecord]:
        """Run one epoch: propose, evaluate, observe.

        The next state depends only on `state`, so that an epoch can be retried; with asynchronous
        epochs also on the recorded order of answers.

        Raises
        ------
        EvaluationError
            If a cost is NaN, or more than a tenth of the evaluations failed.
        """
        epoch = state.epoch + 1
        if self.rotate and state.epoch and state.epoch % self.rotate == 0:
            state = self._on_next_partition(state)
        moved, proposal = self.strategy.propose(state.strategy, self._generator(epoch))
        affordable = self._affordable(state, proposal)
        if state.unanswered is None:
            answers, races = self._evaluate(proposal, affordable, state)
            left = None
        else:
            proposal, answers, left = self._answered(proposal, affordable, state, state.unanswered)
            races = None
        _refuse_nan(answers.costs, proposal.masks, self.space)
        requested, rest = np.split(proposal.masks, [len(answers.costs)])
        evaluations = answers
        if len(rest):
            # Masks without an answer are observed as if worse than their incumbents.
            evaluations = stacked([answers, censored(rest, self.evaluator.n_folds)])
        observed = self.strategy.observe(moved, proposal, evaluations)
        asked, counts = charged(state.asked, state.counts, requested, evaluations)
        asked_on_parts = state.asked_on_parts
        if evaluations.on_parts is not None:
            asked_on_parts, counts = charged_on_parts(
                asked_on_parts, counts, requested, evaluations.on_parts, self.rows
            )
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
            races=races
            if races is None or self._by_partition
            else races.observe(moved.members, observed.members, proposal, evaluations),
            leaders=state.leaders,
            best_costs=self._best_costs(state, evaluations, row),
            asked_on_parts=asked_on_parts,
            unanswered=left,
        )
        if left is not None:
            # Masks that are not answered are part of a later record.
            proposal, evaluations = proposal.rows(np.arange(len(requested))), answers
        size = 0 if best_mask is None else int(best_mask.sum())
        record = record_epoch(
            epoch, proposal, evaluations, observed.members, (best_cost, size), counts
        )
        return after, record

    def first_masks(self) -> Bool:
        """Return the masks (n, n_units) that the first epoch evaluates."""
        state = self.start()
        _, proposal = self.strategy.propose(state.strategy, self._generator(1))
        return proposal.masks[: self._affordable(state, proposal)]

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

    def _best_costs(
        self, state: SearchState, evaluations: Evaluations, row: int | None
    ) -> tuple[Float, ...]:
        """Add the fold costs of the best subset, which is in `row` if it is new."""
        if self.budget.noise_floor is None or (row is None and not state.best_costs):
            return state.best_costs
        best = state.best_costs[-1] if row is None else evaluations.fold_costs[row]
        return (*state.best_costs, best)[-self.budget.noise_floor - 1 :]

    def _is_at_noise_floor(self, state: SearchState) -> bool:
        """Whether the gain of the last epochs is within its standard error over the folds."""
        if self.budget.noise_floor is None or len(state.best_costs) <= self.budget.noise_floor:
            return False
        gains = state.best_costs[0] - state.best_costs[-1]
        if len(gains) == 1:
            # Without a standard error, any gain counts.
            return bool(gains[0] <= 0)
        return bool(gains.mean() <= gains.std(ddof=1) / np.sqrt(len(gains)))

    def _on_next_partition(self, state: SearchState) -> SearchState:
        """Start the strategy again from its members, whose costs on the next partition differ."""
        members = state.strategy.members
        hints = replace(self.hints, warm=members.masks[np.isfinite(members.costs)])
        # Zeros at the end of a seed would change nothing.
        rng = np.random.default_rng([self.seed, state.epoch + 1, 1])
        return replace(
            state,
            strategy=self.strategy.start(self.space, hints, rng),
            best_mask=None,
            best_cost=float("inf"),
            stalled=0,
            leaders=(*state.leaders, leaders_of(state, self.space)),
        )

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch])

    def _affordable(self, state: SearchState, proposal: Proposal) -> int:
        """Number of rows of the proposal that are within the budget."""
        count = len(proposal.masks)
        if self.budget.evaluations is not None:
            count = min(count, self.budget.evaluations - _requested(state).evaluations)
        if self.budget.distinct is not None:
            seen = _seen(state.asked, state.unanswered)
            for row, key in enumerate(pack_masks(proposal.masks[:count])):
                if key not in seen and len(seen) == self.budget.distinct:
                    return row
                seen.add(key)
        return count

    @property
    def _by_partition(self) -> bool:
        """Whether masks are evaluated on one partition after the other.

        Strategies that end by themselves compare the costs of all masks that they propose.
        """
        return self.repeats > 1 and not self.rotate and not self.strategy.ends_by_itself

    def _evaluate(
        self, proposal: Proposal, affordable: int, state: SearchState
    ) -> tuple[Evaluations, RaceMemory | None]:
        order, races = self._fold_order(state), state.races
        asked = (proposal.masks[:affordable], proposal.incumbents[:affordable], order)
        if races is not None and self._by_partition:
            chance = _REPEAT_CHANCE if self.racing is None else self.racing
            return evaluate_by_partition(self.evaluator, *asked, self.repeats, races, chance)
        race = None
        if races is not None and self.racing is not None:
            race = races.race(proposal, self.racing)
        if self.parts:
            found = evaluate_by_rows(self.parts, self.evaluator, *asked, race, state.asked)
        else:
            found = self.evaluator.evaluate(*asked, race)
        return found, races

    def _answered(
        self, proposal: Proposal, affordable: int, state: SearchState, before: Unanswered
    ) -> tuple[Proposal, Evaluations, Unanswered]:
        """Return what an asynchronous epoch observes, evaluations of its first rows, and the rest.

        The first rows were answered, in the order of asking; the others are those of `proposal`
        that were not.
        """
        assert self.steady is not None
        rows = np.arange(len(proposal.masks))
        asked = before.plus(proposal.rows(rows[:affordable]), self._fold_order(state))
        requested = _requested(replace(state, unanswered=asked))
        is_last = self.budget.reached(state.epoch + 1, requested, 0.0, 0) is not None
        found, answers, left = self.steady.answers(
            self.evaluator, self.space, state.epoch + 1, asked, is_last=is_last
        )
        is_missing = ~np.isin(before.n_asked + rows, found.numbers)
        return found.proposal.plus(proposal.rows(is_missing)), answers, left

    def _fold_order(self, state: SearchState) -> Int:
        """Return the folds of an epoch, in the order in which they are trained."""
        folds = np.arange(self.evaluator.n_folds)
        per_partition = len(folds) // self.repeats
        order = np.lexsort((-state.fold_sums, folds // per_partition))
        if self.rotate:
            first = state.epoch // self.rotate % self.repeats * per_partition
            order = order[first : first + per_partition]
        return order

    def _best(
        self, state: SearchState, proposal: Proposal, evaluations: Evaluations
    ) -> tuple[Bool | None, float, int | None]:
        """Lowest cost, then lowest price, then fewest units, then first; without unused units.

        Returns mask and cost of the best subset, and its row, None if it is that of `state`.
        """
        masks = proposal.masks
        if evaluations.exact_shrink:
            masks = shrink(masks, evaluations.used, self.space)
        costs = np.where(self.space.obeys(masks), evaluations.costs, np.inf)
        size, price = masks.sum(axis=1), self.space.price(masks)
        row = int(np.lexsort((size, price, costs))[0])
        cost = float(costs[row])
        if not np.isfinite(cost):
            return state.best_mask, state.best_cost, None
        if state.best_mask is not None:
            held = self.space.price(state.best_mask[None, :])[0], state.best_mask.sum()
            if (cost, price[row], size[row]) >= (state.best_cost, *held):
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


def _seen(asked: Mapping[bytes, int], unanswered: Unanswered | None) -> set[bytes]:
    """Return the packed masks that were requested, answered or not."""
    waiting = [] if unanswered is None else pack_masks(unanswered.proposal.masks)
    return {*asked, *waiting}


def _requested(state: SearchState) -> Counts:
    """Return the counts with the masks that are not answered."""
    if state.unanswered is None:
        return state.counts
    return replace(
        state.counts,
        evaluations=state.counts.evaluations + len(state.unanswered.numbers),
        distinct=len(_seen(state.asked, state.unanswered)),
    )


def _fold_sums(proposal: Proposal, evaluations: Evaluations) -> Float:
    """Sum the fold costs of rows that reached their incumbents, which pruning does not change."""
    reached = evaluations.costs <= proposal.incumbents
    sums: Float = np.nansum(evaluations.fold_costs[reached], axis=0)
    return sums


def _refuse_nan(costs: Float, masks: Bool, space: SearchSpace) -> None:
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
