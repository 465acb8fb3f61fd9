"""The traps known from published code of the multi-swarm, and what it equals when cut down.

The contract tests three traps on every strategy: a global seed (only the generator handed in is
used), a history of references (no earlier state is changed), a shrunk subset with an unshrunk cost
(costs of members belong to their masks). Leaders of subswarms, and importances that are fractions,
decide the recorded search (tests/golden).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from swarm.strategies.base import Proposal
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.multiswarm import MultiSwarm
from swarm.testing.planted import (
    Planted,
    constant,
    drive,
    hints_for,
    make_driver,
    plain_space,
    planted,
    snapshot,
)


def inexact(n_units: int, seed: int = 0) -> Planted:
    """Units reported unused that still matter, as with column sampling."""
    evaluator = planted(plain_space(n_units), seed)
    evaluator.exact_shrink = False
    evaluator.unused_below = 0.008
    return evaluator


def test_trap_empty_range_no_unit_or_every_unit_is_used() -> None:
    no_unit_used = constant(plain_space(9))
    all_units_used = Planted(plain_space(9), np.full((3, 9), -0.01), np.full(3, 0.2))
    for evaluator, warm in (
        (no_unit_used, None),
        (replace(no_unit_used, exact_shrink=False), None),
        (all_units_used, np.ones((16, 9), dtype=bool)),
    ):
        step = drive(MultiSwarm(), evaluator, epochs=12, warm=warm)[-1]
        assert step.proposal.masks.any(axis=1).all()
        assert step.after.memory.masks.any(axis=1).all()
    assert step.after.memory.masks.all()


def test_trap_zero_threshold_a_used_unit_of_importance_zero_stays() -> None:
    space = plain_space(4)
    strategy = MultiSwarm(n_particles=1, n_swarms=1)
    state = strategy.start(space, hints_for(space), np.random.default_rng(0))
    everything = np.ones((1, 4), dtype=bool)
    proposal = Proposal(everything, np.array([np.inf]), np.array([0]), ("init",))
    evaluations = replace(
        constant(space).evaluate(everything, np.array([np.inf]), np.arange(3)),
        importances=np.array([[0.0, 1.0, 0.0, -0.1]]),
        used=np.array([[True, True, False, True]]),
    )
    after = strategy.observe(state, proposal, evaluations)
    assert after.memory.masks.tolist() == [[True, True, False, True]]


def test_trap_shrunk_subset_is_evaluated_before_it_is_kept() -> None:
    evaluator = inexact(16)
    n_confirmed = 0
    for step in drive(MultiSwarm(), evaluator, epochs=25):
        memory = step.after.memory
        proposal = step.proposal
        assert [evaluator.cost(mask) for mask in memory.masks] == memory.costs.tolist()
        shrunk = np.array([role == "shrink" for role in proposal.role])
        assert np.array_equal(proposal.masks[shrunk], step.before.pending)
        # A pbest is pending only if shrinking changes it.
        pbests = memory.masks[step.after.pending_owner]
        assert (step.after.pending != pbests).any(axis=1).all()
        is_pbest = shrunk & (memory.masks[proposal.owner] == proposal.masks).all(axis=1)
        n_confirmed += int((is_pbest & np.isfinite(step.evaluations.costs)).sum())
    assert n_confirmed > 0


def test_regrouping_happens_every_so_many_epochs_and_never_at_zero() -> None:
    for regroup_every, expected in ((10, [10, 20]), (4, [4, 8, 12, 16, 20, 24]), (0, [])):
        strategy = MultiSwarm(regroup_every=regroup_every)
        changed = [
            step.before.epoch
            for step in drive(strategy, planted(plain_space(10)), epochs=25)
            if not np.array_equal(step.before.group, step.after.group)
        ]
        assert changed == expected


FAST = {"inertia": 1.0, "c1": 2.0, "c2": 2.0, "velocity_bound": 6.0}
SLOW = {"inertia": 0.5, "c1": 0.5, "c2": 0.5, "velocity_bound": 2.0}


def history_of(**parameters: Any) -> str:
    strategy = MultiSwarm(step="bpso", **parameters)
    return make_driver(strategy, planted(plain_space(30), 2), epochs=15).run().history.to_csv()


def test_a_velocity_bound_above_the_reach_is_warned_of_as_it_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="velocity_bound 6") as messages:
        history = history_of(velocity_bound=6.0)
    assert messages[0].filename == __file__
    assert history == history_of(velocity_bound=2.0) == history_of()


def test_a_velocity_bound_that_acts_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len({history_of(), history_of(velocity_bound=1.0), history_of(**FAST)}) == 3


def test_a_parameter_of_velocities_is_refused_for_a_step_without() -> None:
    for parameter in FAST:
        for cls in (MultiSwarm, BinaryPso):
            with pytest.raises(ValueError, match=parameter):
                cls(step="recombine", **{parameter: 0.75})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_particles": 12, "step": "bpso", **FAST},
        {"n_particles": 7, "step": "bpso", **SLOW},
        {"n_particles": 12, "step": "recombine"},
    ],
    ids=str,
)
def test_one_swarm_without_local_search_is_the_binary_pso_bit_for_bit(
    parameters: dict[str, Any],
) -> None:
    one_swarm = MultiSwarm(
        **parameters, n_swarms=1, local_search=False, shrink=False, init="bernoulli"
    )
    binary_pso = BinaryPso(**parameters, init="bernoulli")
    space = plain_space(25, fixed=["x3"], forbidden=["x4"], max_size=14)
    steps = drive(one_swarm, planted(space), epochs=20)
    expected_steps = drive(binary_pso, planted(space), epochs=20)
    for step, expected in zip(steps, expected_steps, strict=True):
        assert snapshot(step.proposal) == snapshot(expected.proposal)
        assert step.proposal.role == expected.proposal.role
        for field in ("position", "velocity", "memory"):
            assert snapshot(getattr(step.after, field)) == snapshot(getattr(expected.after, field))
