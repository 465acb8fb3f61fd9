"""Overhead of the strategies: propose plus observe, without any evaluation.

A thousand units and 30 particles (bees, ants, parents) if the strategy has such a parameter, with
random costs. Medians over epochs, without the start-up.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import fields

import numpy as np
from tables import save

from swarm.evaluation.types import Evaluations, Work
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.strategies.base import Proposal
from swarm.strategies.catalogue import make, registry

_SIZES = ("n_particles", "n_bees", "n_ants", "population_size", "batch_size")
# Their epochs are not comparable: a single one, or one for every remaining unit.
_NOT_ITERATED = ("exhaustive", "full", "sfs", "sbs", "sffs", "sbfs", "rfe", "ranked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--particles", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    rows = []
    for name in registry():
        if name not in _NOT_ITERATED:
            propose, observe = measured(name, options.units, options.particles, options.epochs)
            both = propose + observe
            figures = [np.median(propose), np.median(observe), np.median(both), both.max()]
            rows.append([name, *(float(1e3 * value) for value in figures)])
    save(
        "strategies",
        f"A strategy's own work: {options.units} units, {options.particles} particles; "
        "milliseconds an epoch, medians",
        ["strategy", "propose", "observe", "both", "slowest"],
        rows,
    )


def measured(
    name: str, n_units: int, n_particles: int, epochs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of propose and of observe: float64 (epochs,) each."""
    known = [field.name for field in fields(registry()[name])]
    strategy = make(name, {size: n_particles for size in _SIZES if size in known})
    space = SearchSpace.build([f"x{i}" for i in range(n_units)])
    state = strategy.start(space, _hints(n_units), np.random.default_rng(0))
    spent = np.zeros((2, epochs))
    for epoch in range(epochs):
        rng = np.random.default_rng([0, epoch + 1])
        before = time.perf_counter()
        state, proposal = strategy.propose(state, rng)
        spent[0, epoch] = time.perf_counter() - before
        answers = _answers(proposal, epoch)
        before = time.perf_counter()
        state = strategy.observe(state, proposal, answers)
        spent[1, epoch] = time.perf_counter() - before
    # The first moves follow from a start without any costs.
    return spent[0, 3:], spent[1, 3:]


def _hints(n_units: int) -> Hints:
    rng = np.random.default_rng(1)
    half = np.triu(rng.random((n_units, n_units)), 1)
    clusters = rng.integers(50, size=n_units)
    return Hints(half + half.T, clusters, rng.random((n_units, 2)), 0.01 * (half + half.T))


def _answers(proposal: Proposal, epoch: int) -> Evaluations:
    rng = np.random.default_rng([2, epoch])
    n = len(proposal.masks)
    fold_costs = rng.random((n, 5)) / (1 + epoch)
    return Evaluations(
        costs=fold_costs.mean(axis=1),
        fold_costs=fold_costs,
        importances=rng.random(proposal.masks.shape) * proposal.masks,
        used=proposal.masks & (rng.random(proposal.masks.shape) < 0.9),
        censored=np.zeros(n, dtype=bool),
        failed=np.zeros(n, dtype=bool),
        needed=np.ones((n, 5), dtype=bool),
        exact_shrink=True,
        work=Work(),
        first_error=None,
    )


if __name__ == "__main__":
    main()
