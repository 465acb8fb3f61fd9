"""Run the bare protocol of a strategy, and inspect its states epoch by epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarm.evaluation.types import Evaluations, Work
from swarm.strategies.base import Proposal, Strategy
from swarm.testing.planted import Planted, hints_for

__all__ = ["Step", "arrays", "drive", "failed_evaluations_of", "proposed", "snapshot"]


@dataclasses.dataclass
class Step:
    """The states, the proposal and the evaluations of one epoch."""

    before: Any
    moved: Any
    proposal: Proposal
    answers: Evaluations
    after: Any


def drive(
    strategy: Strategy, evaluator: Planted, *, seed: int = 0, epochs: int = 6, warm: Any = None
) -> list[Step]:
    """Run the protocol of a strategy without the driver, and return its epochs."""
    hints = hints_for(evaluator.space, warm=warm)
    state = strategy.start(evaluator.space, hints, np.random.default_rng([seed, 0]))
    order = np.arange(evaluator.n_folds)
    steps: list[Step] = []
    while len(steps) < epochs and not (steps and strategy.finished(state)):
        rng = np.random.default_rng([seed, len(steps) + 1])
        moved, proposal = strategy.propose(state, rng)
        answers = evaluator.evaluate(proposal.masks, proposal.incumbents, order)
        after = strategy.observe(moved, proposal, answers)
        steps.append(Step(state, moved, proposal, answers, after))
        state = after
    return steps


def arrays(thing: Any, path: str = "") -> dict[str, NDArray[Any]]:
    """Every array in a state, by its path."""
    if isinstance(thing, np.ndarray):
        return {path: thing}
    found: dict[str, NDArray[Any]] = {}
    if dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            found |= arrays(getattr(thing, field.name), f"{path}.{field.name}")
    elif isinstance(thing, (tuple, list)):
        for number, item in enumerate(thing):
            found |= arrays(item, f"{path}[{number}]")
    return found


def snapshot(thing: Any) -> dict[str, bytes]:
    """Copy every array in a state, for a later comparison."""
    return {path: array.tobytes() for path, array in arrays(thing).items()}


def proposed(steps: list[Step]) -> list[bytes]:
    """Proposed masks of every epoch, as bytes."""
    return [step.proposal.masks.tobytes() for step in steps]


def failed_evaluations_of(proposal: Proposal) -> Evaluations:
    """Return evaluations in which every fit failed."""
    n = len(proposal.masks)
    return Evaluations(
        costs=np.full(n, np.inf),
        fold_costs=np.full((n, 3), np.nan),
        importances=np.zeros(proposal.masks.shape),
        used=proposal.masks.copy(),
        censored=np.zeros(n, dtype=bool),
        failed=np.ones(n, dtype=bool),
        needed=np.ones((n, 3), dtype=bool),
        exact_shrink=True,
        work=Work(),
        first_error="Traceback (planted)",
    )
