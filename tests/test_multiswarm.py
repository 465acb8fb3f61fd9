"""The traps known from published code of the multi-swarm, and what it equals when cut down."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swarm.errors import InputError
from swarm.evaluation.types import Evaluations
from swarm.problem.hints import Hints, prepare_hints
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.strategies.base import Proposal
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.multiswarm import MultiSwarm, MultiSwarmState
from swarm.strategies.operators.local_search import lowest
from swarm.strategies.operators.regroup import regroup
from swarm.testing.planted import Planted, constant, hints_for, make_search, plain_space, planted

Epoch = tuple[MultiSwarmState, Proposal, Evaluations, MultiSwarmState]


def epochs(
    strategy: MultiSwarm, evaluator: Planted, n: int, seed: int = 0, hints: Hints | None = None
) -> Iterator[Epoch]:
    """Give the state before, the proposal, the answers and the state after, `n` times."""
    hints = hints_for(evaluator.space) if hints is None else hints
    state = strategy.start(evaluator.space, hints, np.random.default_rng([seed, 0]))
    for epoch in range(1, n + 1):
        before = state
        moved, proposal = strategy.propose(state, np.random.default_rng([seed, epoch]))
        answers = evaluator.evaluate(proposal.masks, proposal.incumbents, np.arange(3))
        state = strategy.observe(moved, proposal, answers)
        yield before, proposal, answers, state


def inexact(n_units: int, seed: int = 0) -> Planted:
    """Units reported unused that still matter, as with column sampling or a refit."""
    evaluator = planted(plain_space(n_units), seed)
    evaluator.exact_shrink, evaluator.unused_below = False, 0.008
    return evaluator


# The traps of published code, one by one.


def test_trap_scalar_ranking_every_subswarm_has_its_own_leader_who_searches() -> None:
    strategy = MultiSwarm(regroup_every=4, local_search_prob=0.5)
    leaders, extras = set(), set()
    for before, proposal, _, after in epochs(strategy, planted(plain_space(20)), 30):
        if before.epoch == 0:
            continue
        roles = np.array(proposal.role[:16])
        memory = before.memory
        for swarm in range(4):
            own = np.flatnonzero(after.group == swarm)
            size = memory.masks[own].sum(axis=1)
            order = own[np.lexsort((size, memory.costs[own]))]
            assert roles[order[0]] == "leader"
            assert set(roles[order[1:2]]) <= {"local", "bpso"}
            assert set(roles[order[2:]]) == {"bpso"}
            leaders.add(int(order[0]))
            extras |= set(order[1:2][roles[order[1:2]] == "local"].tolist())
    assert len(leaders) > 4
    assert len(extras) > 4


def test_trap_integer_importances_fractions_decide_who_leaves() -> None:
    evaluator = planted(plain_space(12))
    assert np.abs(evaluator.weights).max() < 1
    *_, (_, _, _, state) = epochs(MultiSwarm(), evaluator, 5)
    importances = state.memory.importances
    assert importances.dtype == np.float64
    expected = np.abs(evaluator.weights).mean(axis=0) * state.memory.masks
    assert np.allclose(importances[state.memory.masks], expected[state.memory.masks])
    assert importances.max() > 0
    lowest_unit = lowest(
        np.array([[0.9, 0.2, 0.7]]),
        np.ones((1, 3), dtype=bool),
        np.array([1]),
        np.random.default_rng(0),
    )
    assert lowest_unit.tolist() == [[False, True, False]]


@pytest.mark.parametrize("exact", [True, False])
def test_trap_empty_range_no_unit_is_used(exact: bool) -> None:
    evaluator = constant(plain_space(9))
    evaluator.exact_shrink = exact
    *_, (_, proposal, _, state) = epochs(MultiSwarm(), evaluator, 12)
    assert proposal.masks.any(axis=1).all()
    assert state.memory.masks.any(axis=1).all()


def test_trap_empty_range_every_unit_is_used_and_in_the_subset() -> None:
    space = plain_space(9)
    everything = np.ones((16, 9), dtype=bool)
    helps = Planted(space, np.full((3, 9), -0.01), np.full(3, 0.2))
    hints = hints_for(space, warm=everything)
    *_, (_, proposal, _, state) = epochs(MultiSwarm(), helps, 12, hints=hints)
    assert state.memory.masks.all()
    assert proposal.masks.any(axis=1).all()


def test_trap_empty_range_nothing_may_leave_or_enter() -> None:
    space = plain_space(5, fixed=["x0", "x1"], forbidden=["x2", "x3", "x4"])
    for _, proposal, _, _ in epochs(MultiSwarm(), planted(space), 6):
        assert (proposal.masks == space.fixed).all()


def test_trap_ragged_subswarms_sixteen_particles_in_five() -> None:
    strategy = MultiSwarm(n_particles=16, n_swarms=5, regroup_every=3)
    groups = set()
    for before, proposal, _, after in epochs(strategy, planted(plain_space(15)), 20):
        assert sorted(np.bincount(after.group)) == [3, 3, 3, 3, 4]
        if before.epoch > 0:
            assert proposal.role.count("leader") == 5
        groups.add(after.group.tobytes())
    assert len(groups) == 7


def test_trap_zero_threshold_a_used_unit_of_importance_zero_stays() -> None:
    space = plain_space(4)
    strategy = MultiSwarm(n_particles=1, n_swarms=1)
    state = strategy.start(space, hints_for(space), np.random.default_rng(0))
    everything = np.ones((1, 4), dtype=bool)
    proposal = Proposal(everything, np.array([np.inf]), np.array([0]), ("init",))
    answers = Evaluations(
        costs=np.array([0.5]),
        fold_costs=np.full((1, 3), 0.5),
        importances=np.array([[0.0, 1.0, 0.0, -0.1]]),
        used=np.array([[True, True, False, True]]),
        censored=np.array([False]),
        failed=np.array([False]),
        needed=np.ones((1, 3), dtype=bool),
        exact_shrink=True,
        work=planted(space).evaluate(everything, np.array([np.inf]), np.arange(3)).work,
    )
    after = strategy.observe(state, proposal, answers)
    assert after.memory.masks.tolist() == [[True, True, False, True]]


def test_trap_zero_threshold_ties_at_zero_do_not_widen_the_candidates() -> None:
    key = np.zeros((1, 50))
    marked = lowest(key, np.ones((1, 50), dtype=bool), np.array([3]), np.random.default_rng(0))
    assert marked.sum() == 3


def test_trap_nan_correlations_constant_columns_are_as_far_as_can_be() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 6)), columns=[f"x{i}" for i in range(6)])
    table["x2"] = 1.0
    space = plain_space(6)
    hints = prepare_hints(table, space)
    assert hints.distance is not None
    assert np.isfinite(hints.distance).all()
    assert (np.delete(hints.distance[2], 2) == 1.0).all()
    search = Search(MultiSwarm(), space, planted(space), hints, 0, Budget(epochs=8))
    assert np.isfinite(run(search).cost)


def test_trap_global_seed_regrouping_neither_reads_nor_sets_the_global_generator() -> None:
    found = []
    for seed in (0, 7):
        np.random.seed(seed)  # noqa: NPY002
        expected = np.random.RandomState(seed).random_sample()
        evaluator = planted(plain_space(12))
        *_, (_, proposal, _, state) = epochs(MultiSwarm(regroup_every=1), evaluator, 10)
        assert np.random.random_sample() == expected  # noqa: NPY002
        found.append((proposal.masks.tobytes(), state.group.tobytes()))
    assert found[0] == found[1]
    shuffles = {regroup(np.arange(9), np.random.default_rng(s)).tobytes() for s in range(5)}
    assert len(shuffles) == 5


def test_trap_history_of_references_earlier_epochs_stay_as_they_were() -> None:
    seen = []
    search = make_search(MultiSwarm(), planted(plain_space(18)), epochs=12)

    def note(record: object, state: object) -> None:
        seen.append((record.particles.to_csv(), state.strategy.memory.masks.tobytes()))  # type: ignore[attr-defined]

    states = []
    result = run(search, callbacks=[note, lambda record, state: states.append(state)])
    assert [record.particles.to_csv() for record in result.records] == [csv for csv, _ in seen]
    assert [state.strategy.memory.masks.tobytes() for state in states] == [m for _, m in seen]
    assert len({masks for _, masks in seen}) > 6


def test_trap_shrunk_subset_with_unshrunk_cost_is_measured_before_it_is_believed() -> None:
    evaluator = inexact(16)
    confirmed = 0
    for before, proposal, answers, after in epochs(MultiSwarm(), evaluator, 25):
        memory = after.memory
        assert [evaluator.cost(mask) for mask in memory.masks] == memory.costs.tolist()
        shrunk = np.array([role == "shrink" for role in proposal.role])
        assert np.array_equal(proposal.masks[shrunk], before.pending)
        won = shrunk & (memory.masks[proposal.owner] == proposal.masks).all(axis=1)
        confirmed += int((won & np.isfinite(answers.costs)).sum())
    assert confirmed > 0


def test_trap_shrunk_subset_with_unshrunk_cost_the_answer_of_a_search_is_measured_too() -> None:
    for evaluator in (inexact(16), planted(plain_space(16))):
        result = run(make_search(MultiSwarm(), evaluator, epochs=20))
        masks, costs = result.best_members()
        assert costs.tolist() == [evaluator.cost(mask) for mask in masks]


# What else it does.


def test_an_exact_shrink_is_believed_without_another_evaluation() -> None:
    space = plain_space(20)
    evaluator = planted(space)
    evaluator.weights[:, ::2] = 0.0
    evaluator.base[:] = 0.01 - np.minimum(evaluator.weights, 0).sum(axis=1)
    for _, proposal, _, state in epochs(MultiSwarm(), evaluator, 8):
        assert len(proposal.masks) == 16
        bigger = state.memory.masks[:, ::2].any(axis=1)
        # Only a subset of unused units alone keeps one of them: a mask is never empty.
        assert (state.memory.masks[bigger].sum(axis=1) == 1).all()


def test_a_pbest_that_is_proposed_again_is_not_shrunk_again() -> None:
    # Every unit helps, so a subset without its least important ones is worse and is not kept.
    weights = np.repeat(-np.linspace(0.02, 0.002, 6)[None, :], 3, axis=0)
    evaluator = Planted(
        plain_space(6), weights, np.full(3, 0.2), exact_shrink=False, unused_below=0.01
    )
    waiting: dict[tuple[int, bytes], int] = {}
    for _, _, _, state in epochs(MultiSwarm(), evaluator, 60):
        for owner, mask in zip(state.pending_owner, state.pending, strict=True):
            key = (int(owner), state.memory.masks[owner].tobytes() + mask.tobytes())
            waiting[key] = waiting.get(key, 0) + 1
    assert waiting
    assert max(waiting.values()) == 1


def test_without_shrinking_a_pbest_is_the_proposed_mask() -> None:
    evaluator = constant(plain_space(8))
    for before, proposal, _, state in epochs(MultiSwarm(shrink=False), evaluator, 1):
        assert before.epoch == 0
        assert np.array_equal(state.memory.masks, proposal.masks)


def test_regrouping_happens_every_so_many_epochs_and_never_at_zero() -> None:
    for every, expected in ((10, [10, 20]), (4, [4, 8, 12, 16, 20, 24]), (0, [])):
        strategy = MultiSwarm(regroup_every=every)
        changed = [
            before.epoch
            for before, _, _, after in epochs(strategy, planted(plain_space(10)), 25)
            if not np.array_equal(before.group, after.group)
        ]
        assert changed == expected


def test_who_searches_locally_keeps_the_velocity() -> None:
    for before, proposal, _, after in epochs(MultiSwarm(), planted(plain_space(10)), 10):
        local = np.isin(proposal.role[:16], ["leader", "local"])
        assert np.array_equal(after.velocity[local], before.velocity[local])
        assert np.abs(after.velocity).max() <= 2.0


def test_first_positions_take_one_unit_of_every_cluster() -> None:
    space = plain_space(12)
    hints = hints_for(space)
    _, proposal, _, _ = next(epochs(MultiSwarm(), planted(space), 1))
    assert hints.clusters is not None
    for label in np.unique(hints.clusters):
        assert (proposal.masks[:, hints.clusters == label].sum(axis=1) == 1).all()


@pytest.mark.parametrize("missing", ["clusters", "distance"])
def test_a_missing_hint_is_named(missing: str) -> None:
    space = plain_space(5)
    hints = replace(hints_for(space), **{missing: None})
    with pytest.raises(InputError, match=f"strategy 'multiswarm' needs the hint '{missing}'"):
        MultiSwarm().start(space, hints, np.random.default_rng(0))


def test_plain_bernoulli_swarms_need_no_hint() -> None:
    strategy = MultiSwarm(init="bernoulli", local_search=False)
    strategy.start(plain_space(5), Hints(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"velocity_bound": -1.0}, "velocity_bound must be > 0, got -1.0"),
        ({"n_swarms": 17}, "n_swarms must be <= 16, got 17"),
        ({"local_search_prob": 1.5}, "local_search_prob must be <= 1, got 1.5"),
        (
            {"init": "random"},
            "init must be one of 'clusters', 'bernoulli', 'ranked', got 'random'",
        ),
        (
            {"step": "jump"},
            "step must be one of 'bpso', 'recombine', 'sticky', 'v_shaped', got 'jump'",
        ),
        ({"shrink": 1}, "shrink must be true or false, got 1"),
        ({"n_particles": 2.5}, "n_particles must be a whole number, got 2.5"),
        ({"inertia": float("nan")}, "inertia must be finite, got nan"),
    ],
)
def test_parameters_out_of_range_are_named_with_the_value(
    params: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        MultiSwarm(**params)
    assert str(caught.value) == words


FAST = {"inertia": 1.0, "c1": 2.0, "c2": 2.0, "velocity_bound": 6.0}
SLOW = {"inertia": 0.5, "c1": 0.5, "c2": 0.5, "velocity_bound": 2.0}


def history_of(**parameters: Any) -> str:
    strategy = MultiSwarm(**parameters)
    return run(make_search(strategy, planted(plain_space(30), 2), epochs=15)).history.to_csv()


def test_a_velocity_bound_above_the_reach_is_warned_of_as_it_changes_nothing() -> None:
    with pytest.warns(
        UserWarning, match=r"velocity_bound 6 has no effect.* none exceeds 2;"
    ) as told:
        beyond = history_of(velocity_bound=6.0)
    assert told[0].filename == __file__
    assert beyond == history_of(velocity_bound=2.0) == history_of()


@pytest.mark.parametrize("acting", [{"velocity_bound": 1.0}, {**FAST}, {**FAST, "inertia": 0.5}])
def test_a_velocity_bound_that_acts_is_not_warned_of(acting: dict[str, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed = history_of(**acting)
    assert changed != history_of()


@pytest.mark.parametrize("step", ["recombine", "sticky"])
@pytest.mark.parametrize("parameter", sorted(FAST))
def test_a_parameter_of_velocities_is_refused_for_a_step_without(step: str, parameter: str) -> None:
    message = f"step '{step}' has no velocities, so {parameter} would have no effect; "
    for made_by in (MultiSwarm, BinaryPso):
        with pytest.raises(ValueError, match=message):
            made_by(step=step, **{parameter: 0.75})  # type: ignore[arg-type]


def test_every_other_first_position_is_a_ranked_prefix() -> None:
    space = plain_space(20)
    hints = hints_for(space)
    assert hints.relevance is not None
    state = MultiSwarm(init="ranked").start(space, hints, np.random.default_rng(0))
    order = np.argsort(-hints.relevance.sum(axis=1))
    sizes = state.position[::2].sum(axis=1)
    assert sizes.tolist() == [1, 2, 2, 4, 6, 8, 13, 20]
    for mask, size in zip(state.position[::2], sizes, strict=True):
        assert set(np.flatnonzero(mask)) == set(order[:size].tolist())


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "same",
    [
        {"n_particles": 30, **FAST},
        {"n_particles": 7, **SLOW},
        {"n_particles": 7, "step": "v_shaped", **SLOW},
        {"n_particles": 30, "step": "recombine"},
        {"n_particles": 30, "step": "sticky"},
    ],
    ids=str,
)
def test_one_swarm_without_local_search_is_the_binary_pso_bit_for_bit(
    same: dict[str, Any], exact: bool
) -> None:
    cut_down = MultiSwarm(
        **same,
        n_swarms=1,
        local_search=False,
        shrink=False,
        init="bernoulli",
    )
    plain = BinaryPso(**same, init="bernoulli")
    space = plain_space(25, fixed=["x3"], forbidden=["x4"], max_size=14)
    evaluator = planted(space)
    evaluator.exact_shrink = exact
    one = cut_down.start(space, Hints(), np.random.default_rng(0))
    other = plain.start(space, Hints(), np.random.default_rng(0))
    for epoch in range(1, 40):
        one, asked = cut_down.propose(one, np.random.default_rng(epoch))
        other, asked_too = plain.propose(other, np.random.default_rng(epoch))
        assert asked.masks.tobytes() == asked_too.masks.tobytes()
        assert asked.incumbents.tobytes() == asked_too.incumbents.tobytes()
        assert np.array_equal(asked.owner, asked_too.owner)
        assert asked.role == asked_too.role
        answers = evaluator.evaluate(asked.masks, asked.incumbents, np.arange(3))
        one, other = cut_down.observe(one, asked, answers), plain.observe(other, asked, answers)
        for field in ("position", "velocity"):
            assert getattr(one, field).tobytes() == getattr(other, field).tobytes()
        for field in ("masks", "costs", "importances"):
            assert getattr(one.memory, field).tobytes() == getattr(other.memory, field).tobytes()
