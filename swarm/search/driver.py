"""The driver: runs a strategy on a problem with a seed and a budget.

Only the driver creates random generators, one per epoch from (seed, epoch), so that an epoch
depends on nothing but the state before it. A search is resumed by running it again: evaluated masks
are read from the archive, and training continues with the first mask that is not in it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from swarm.arrays import Bool, Float
from swarm.errors import EvaluationError, InputError
from swarm.evaluation.types import (
    Evaluations,
    Evaluator,
    censored_evaluations,
    concatenate_evaluations,
    failed_evaluations,
)
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget, Counts, add_requests
from swarm.search.history import EpochRecord, record_epoch
from swarm.search.packing import pack_masks
from swarm.search.result import SearchResult
from swarm.search.state import SearchState
from swarm.strategies.base import Proposal, Strategy
from swarm.strategies.catalogue import make
from swarm.strategies.operators.memory import shrink
from swarm.wording import listed

OnEpoch = Callable[[EpochRecord, SearchState], None]
Step = Callable[["Driver", SearchState], tuple[SearchState, EpochRecord]]

# A larger share of failed evaluations indicates a mistake in the model or the data. Fewer
# evaluations than this count as so many, as some may fail by chance.
_MAX_SHARE_OF_FAILED = 0.1
_MIN_EVALUATIONS = 50
# Epochs without a new mask before a search with a limit on new masks ends.
_MAX_IDLE_EPOCHS = 100


class StopSearch(Exception):
    """Raised by a callback to end a search after the epoch, with its result so far."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A strategy, the space that it searches, and the evaluator of its masks.

    Parameters
    ----------
    strategy : Strategy or str
        A name selects the strategy with its default parameters.
    space : SearchSpace
        The units and constraints.
    evaluator : Evaluator
        Computes the costs of masks.
    hints : Hints
        Statistics that the strategy needs.
    seed : int
        Seed of the generators of all epochs.
    budget : Budget
        Limits of the search.
    """

    strategy: Strategy
    space: SearchSpace
    evaluator: Evaluator
    hints: Hints
    seed: int
    budget: Budget

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", make(self.strategy))

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
        return SearchState(
            epoch=0,
            strategy=self.strategy.start(self.space, self.hints, self._generator(0)),
            best_mask=None,
            best_cost=float("inf"),
            counts=Counts(),
            requests={},
            fold_sums=np.zeros(self.evaluator.n_folds),
            first_error=None,
        )

    def step(self, state: SearchState) -> tuple[SearchState, EpochRecord]:
        """Run one epoch: propose, evaluate, observe.

        The next state depends only on `state`, so that an epoch can be retried.

        Raises
        ------
        EvaluationError
            If a cost is NaN, or more than a tenth of the evaluations, and five, failed.
        """
        epoch = state.epoch + 1
        strategy_state, proposal = self.strategy.propose(state.strategy, self._generator(epoch))
        n_affordable = self._affordable(state, proposal)
        evaluations = self._evaluate(proposal, n_affordable, state)
        _refuse_nan(evaluations.costs, proposal.masks, self.space)
        requested, rest = np.split(proposal.masks, [n_affordable])
        if len(rest):
            # Masks beyond the budget are observed as if worse than their incumbents.
            evaluations = concatenate_evaluations(
                [evaluations, censored_evaluations(rest, self.evaluator.n_folds)]
            )
        strategy_state = self.strategy.observe(strategy_state, proposal, evaluations)
        requests, counts = add_requests(state.requests, state.counts, requested, evaluations)
        first_error = state.first_error or evaluations.first_error
        _refuse_too_many_failures(counts, first_error)
        best_mask, best_cost = self._best(state, proposal, evaluations)
        # A sequential search may start at sizes outside the bounds, without a best mask.
        has_improved = best_cost < state.best_cost or best_mask is None
        counts = replace(counts, stalled=0 if has_improved else state.counts.stalled + 1)
        next_state = SearchState(
            epoch=epoch,
            strategy=strategy_state,
            best_mask=best_mask,
            best_cost=best_cost,
            counts=counts,
            requests=requests,
            fold_sums=state.fold_sums + _fold_sums(proposal, evaluations),
            first_error=first_error,
        )
        size = 0 if best_mask is None else int(best_mask.sum())
        record = record_epoch(
            epoch,
            proposal,
            evaluations=evaluations,
            members=strategy_state.members,
            best=(best_cost, size),
            counts=counts,
        )
        return next_state, record

    def first_masks(self) -> Bool:
        """Return the masks (n, n_units) that the first epoch evaluates."""
        state = self.start()
        _, proposal = self.strategy.propose(state.strategy, self._generator(1))
        return proposal.masks[: self._affordable(state, proposal)]

    def stop_reason(self, state: SearchState, seconds: float) -> str | None:
        """Return the reason to stop, or None.

        It is the name of a limit of the budget, ``"finished"`` if the strategy has finished, or
        ``"exhausted"`` after a hundred epochs without a new mask, if `distinct` or `fits` is
        limited.
        """
        if state.epoch > 0 and self.strategy.finished(state.strategy):
            return "finished"
        needs_new = self.budget.distinct is not None or self.budget.fits is not None
        if needs_new and state.counts.idle >= _MAX_IDLE_EPOCHS:
            return "exhausted"
        return self.budget.reached_limit(state.epoch, state.counts, seconds)

    def run(self, on_epoch: OnEpoch | None = None, step: Step | None = None) -> SearchResult:
        """Run the search to its end.

        Ctrl-C ends it with the result of the finished epochs; evaluations of the unfinished epoch
        are in the archive.

        Parameters
        ----------
        on_epoch : callable, optional
            Called after every epoch with its record and the state.
        step : callable, optional
            Called with the driver and the state in place of :meth:`step`, for example to measure
            its time.

        Returns
        -------
        SearchResult
        """
        started = time.monotonic()
        state = self.start()
        records: list[EpochRecord] = []
        reason = None
        try:
            while (reason := self.stop_reason(state, time.monotonic() - started)) is None:
                state, record = self.step(state) if step is None else step(self, state)
                records.append(record)
                if on_epoch is not None:
                    on_epoch(record, state)
        except StopSearch:
            reason = "stopped"
        except KeyboardInterrupt:
            if not records:
                raise
            reason = "interrupted"
        return SearchResult(state, tuple(records), reason, self.space)

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch])

    def _affordable(self, state: SearchState, proposal: Proposal) -> int:
        """Number of rows of the proposal that are within the budget."""
        count = len(proposal.masks)
        if self.budget.evaluations is not None:
            count = min(count, self.budget.evaluations - state.counts.evaluations)
        if self.budget.distinct is not None:
            seen = set(state.requests)
            for row, key in enumerate(pack_masks(proposal.masks[:count])):
                if key not in seen and len(seen) == self.budget.distinct:
                    return row
                seen.add(key)
        return count

    def _evaluate(self, proposal: Proposal, n_affordable: int, state: SearchState) -> Evaluations:
        masks = proposal.masks[:n_affordable]
        incumbents = proposal.incumbents[:n_affordable]
        hardest_first = np.argsort(-state.fold_sums, kind="stable")
        return self.evaluator.evaluate(masks, incumbents, hardest_first)

    def _best(
        self, state: SearchState, proposal: Proposal, evaluations: Evaluations
    ) -> tuple[Bool | None, float]:
        """Return the best mask so far, without unused units: the first smallest of lowest cost."""
        masks = proposal.masks
        if evaluations.exact_shrink:
            masks = shrink(masks, evaluations.used, self.space)
        costs = np.where(self.space.obeys(masks), evaluations.costs, np.inf)
        row = int(self.space.rank(masks, costs)[0])
        cost = float(costs[row])
        if not np.isfinite(cost):
            return state.best_mask, state.best_cost
        if state.best_mask is not None:
            best_so_far = (state.best_cost, state.best_mask.sum())
            if (cost, masks[row].sum()) >= best_so_far:
                return state.best_mask, state.best_cost
        best = masks[row].copy()
        best.setflags(write=False)
        return best, cost


def _fold_sums(proposal: Proposal, evaluations: Evaluations) -> Float:
    """Sum the fold costs of rows that reached their incumbents, which pruning does not change."""
    has_reached = evaluations.costs <= proposal.incumbents
    return np.nansum(evaluations.fold_costs[has_reached], axis=0)


def _refuse_nan(costs: Float, masks: Bool, space: SearchSpace) -> None:
    if not np.isnan(costs).any():
        return
    names = space.subset(masks[np.flatnonzero(np.isnan(costs))[0]])
    raise EvaluationError(
        f"the cost of the subset of {len(names)} features ({listed(names, 5)}) is NaN; check the "
        "evaluator"
    )


def _refuse_too_many_failures(counts: Counts, first_error: str | None) -> None:
    if counts.failed <= _MAX_SHARE_OF_FAILED * max(counts.evaluations, _MIN_EVALUATIONS):
        return
    raise failed_evaluations(
        f"{counts.failed} of {counts.evaluations} evaluations failed, more than a tenth",
        first_error,
    )
