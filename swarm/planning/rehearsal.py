"""A search on costs that are made up: how much it would ask for, without a single model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.limit import Race, limit_of
from swarm.evaluation.types import Evaluations, Work
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import Search
from swarm.storage.records import Record
from swarm.strategies.base import Strategy
from swarm.strategies.exhaustive import Exhaustive
from swarm.strategies.operators.add_drop import SequentialSettings
from swarm.strategies.operators.subset_size import answer_sizes

__all__ = ["Landscape", "Rehearsal", "rehearse", "steps_of"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Masks that a rehearsal gives back at the most.
_SHOWN = 200


@dataclass(frozen=True)
class Landscape:
    """Made-up costs that look like measured ones.

    Attributes
    ----------
    folds : float64 (n_folds,)
        Mean cost of each fold.
    spread : float
        Standard deviation of the mean cost from mask to mask.
    noise : float
        Standard deviation of what is left, from mask to mask and fold to fold.
    unused : float
        Share of the units of a mask that no model uses.
    shrinks : bool
        Whether those can be dropped for nothing.
    """

    folds: Float
    spread: float
    noise: float
    unused: float = 0.0
    shrinks: bool = False


@dataclass(frozen=True)
class Rehearsal:
    """What a search asked for.

    Attributes
    ----------
    epochs, evaluations, distinct, fits : int
        `fits` are the folds that pruning and racing left to train.
    complete : bool
        Whether it came to its end before the patience of whoever rehearses ran out.
    sizes, folds : int (n,)
        Units of each distinct mask, and the folds it needed.
    masks : bool (m, n_units)
        Some of the distinct masks, from the first to the last.
    seconds : float
        That the strategy took for all this.
    """

    epochs: int
    evaluations: int
    distinct: int
    fits: int
    complete: bool
    sizes: Int
    folds: Int
    masks: Bool
    seconds: float


def rehearse(
    strategy: Strategy,
    space: SearchSpace,
    hints: Hints,
    budget: Budget,
    landscape: Landscape,
    *,
    seed: int,
    pruning: bool = True,
    racing: float | None = None,
    patience: float = 5.0,
) -> Rehearsal:
    """Run a search on a landscape.

    Neither seconds nor patience of the budget are looked at: both depend on the true costs.

    Parameters
    ----------
    patience : float
        Seconds after which the rehearsal is broken off.
    """
    epochs = budget.epochs
    if all(getattr(budget, name) is None for name in ("evaluations", "distinct", "fits")):
        # Without any other limit the budget would be empty.
        epochs = epochs or 10**9
    limited = replace(budget, seconds=None, patience=None, epochs=epochs)
    evaluator = _MadeUp(landscape, space, pruning, np.random.default_rng([seed, 0x5A4B]))
    search = Search(strategy, space, evaluator, hints, seed, limited, racing)
    started = time.perf_counter()
    state = search.start()
    stopped = None
    while (stopped := search.stop(state, 0.0)) is None:
        if time.perf_counter() - started > patience:
            break
        state, _ = search.step(state)
    masks = _unpacked(state.asked, space.n_units)
    some = np.unique(np.linspace(0, len(masks) - 1, _SHOWN).round().astype(int))
    folds = np.array([found.bit_count() for found in state.asked.values()], dtype=np.int64)
    return Rehearsal(
        epochs=state.epoch,
        evaluations=state.counts.evaluations,
        distinct=state.counts.distinct,
        fits=state.counts.fits,
        complete=stopped is not None,
        sizes=masks.sum(axis=1, dtype=np.int64),
        folds=folds,
        masks=masks[some],
        seconds=time.perf_counter() - started,
    )


def steps_of(strategy: Strategy, space: SearchSpace) -> int | None:
    """Count the evaluations of an exhaustive search, or a sequential one without steps back.

    None for all others.
    """
    if isinstance(strategy, Exhaustive):
        return strategy.count(space)
    if not isinstance(strategy, SequentialSettings):
        return None
    lowest, highest = answer_sizes(strategy.size, space, tol=strategy.tol)
    allowed, fixed = int((~space.forbidden).sum()), int(space.fixed.sum())
    if strategy.forward:
        return (fixed > 0) + sum(allowed - size for size in range(fixed, highest))
    return 1 + sum(size - fixed for size in range(lowest + 1, allowed + 1))


def _unpacked(asked: Mapping[bytes, int], n_units: int) -> Bool:
    packed = np.frombuffer(b"".join(asked), dtype=np.uint8).reshape(len(asked), -1)
    return np.unpackbits(packed, axis=1, count=n_units).astype(bool)


@dataclass
class _MadeUp:
    """An evaluator that answers at once."""

    landscape: Landscape
    space: SearchSpace
    pruning: bool
    rng: np.random.Generator

    def __post_init__(self) -> None:
        n_units = self.space.n_units
        self.n_folds = len(self.landscape.folds)
        # A few units matter much and most hardly at all, as is usual.
        self._weights = self.rng.exponential(size=n_units) ** 2
        self._phases = self.rng.uniform(0, 1e3, size=(n_units, self.n_folds))

    def evaluate(
        self, masks: Bool, incumbents: Float, fold_order: Int, race: Race | None = None
    ) -> Evaluations:
        costs = self._costs(masks)
        needed = np.zeros(costs.shape, dtype=bool)
        for row, incumbent in enumerate(incumbents):
            limit = limit_of(incumbent if self.pruning else np.inf, race, row)
            record = replace(Record.unknown(self.n_folds, 0), fold_costs=costs[row])
            needed[row] = limit.needed_folds(record.fold_costs, fold_order)
        means = costs.sum(axis=1) / self.n_folds
        worse = ~needed.all(axis=1) | (self.pruning & (means > incumbents))
        used = self._used(masks)
        weights: Any = np.where(used & ~worse[:, None], self._weights, 0.0)
        return Evaluations(
            costs=np.where(worse, np.inf, means),
            fold_costs=np.where(worse[:, None], np.nan, costs),
            importances=weights,
            used=used,
            censored=worse,
            failed=np.zeros(len(masks), dtype=bool),
            needed=needed,
            exact_shrink=self.landscape.shrinks,
            work=Work(),
        )

    def _costs(self, masks: Bool) -> Float:
        """Fold costs (n, n_folds): a function of the mask, as true ones are."""
        scape, weights = self.landscape, self._weights
        share = (masks @ weights - weights.sum() / 2) / (np.sqrt((weights**2).sum()) / 2)
        # Each unit beyond those that matter costs a little too.
        burden = masks.mean(axis=1) - 0.5
        noise = np.sin(masks @ self._phases) * np.sqrt(2)
        mean = scape.spread * (burden - share)
        costs: Float = scape.folds + mean[:, None] + scape.noise * noise
        floor: Float = 0.05 * scape.folds.mean() * (1 + 0.1 * noise)
        return np.maximum(costs, floor)

    def _used(self, masks: Bool) -> Bool:
        if not self.landscape.unused:
            return masks
        idle = np.sin(masks @ self._phases[:, :1] + self._phases[:, 0]) < (
            2 * self.landscape.unused - 1
        )
        used = masks & ~idle
        return np.where(used.any(axis=1, keepdims=True), used, masks)
