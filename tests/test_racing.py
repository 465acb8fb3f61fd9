"""Races: what they give up, what they never change, and what they save."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.evaluation.limit import Limit, Race, limit_of, loosest_of
from swarm.search.driver import run
from swarm.search.racing import RaceMemory
from swarm.search.result import SearchResult
from swarm.storage.records import Record
from swarm.strategies.base import Members, Proposal
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, everything, make_search
from tests.fakes import noisy


def raced(name: str, evaluator: Planted, chance: float | None, **limits: Any) -> SearchResult:
    search = make_search(make(name), evaluator, seed=2, **limits)
    return run(dataclasses.replace(search, racing=chance))


def test_the_chance_is_that_of_the_folds_to_come_making_up_for_those_seen() -> None:
    rng = np.random.default_rng(0)
    n, j, spread, behind = 5, 2, 0.03, 0.02
    # What remains is drawn around a true mean that the folds seen leave uncertain.
    true = rng.normal(behind, spread / np.sqrt(j), 400_000)
    rest = rng.normal(true[:, None], spread, (400_000, n - j)).sum(axis=1)
    won = float((j * behind + rest < 0).mean())
    costs = np.full(n, np.nan)
    costs[[0, 1]] = [0.3 + behind, 0.2 + behind]
    rivals = np.array([[0.3, 0.2, 0.1, 0.1, 0.1]])
    assert Limit(np.inf, rivals, spread, won + 0.01).hopeless(costs, [0, 1])
    assert not Limit(np.inf, rivals, spread, won - 0.01).hopeless(costs, [0, 1])
    # No race is lost before the first fold or after the last.
    limit = Limit(np.inf, np.zeros((1, 3)), 1e-9, 0.49)
    lost = [limit.hopeless(np.ones(3), seen) for seen in ([], [0], [0, 1, 2])]
    assert lost == [False, True, False]


@pytest.mark.parametrize("cost", [0.5, 1000.0])
def test_a_cost_that_is_worse_by_rounding_only_does_not_lose_and_a_failure_does(
    cost: float,
) -> None:
    limit = limit_of(cost)
    rounding = max(1.0, cost) * 1e-10
    assert not limit.passed(4 * (cost + 0.5 * rounding), 4)
    assert limit.passed(4 * (cost + 2 * rounding), 4)
    assert limit_of(np.inf).cost == np.inf
    assert limit_of(np.inf).passed(np.inf, 4)


def test_a_mask_asked_for_twice_goes_on_while_one_of_its_races_does() -> None:
    rivals = np.array([[0.1, 0.1], [0.9, 0.9], [np.nan, np.nan]])
    race = Race(rivals, 0.01, 0.1)
    weak, strong, free = (limit_of(0.5, race, row) for row in range(3))
    costs = np.array([0.5, np.nan])
    assert weak.hopeless(costs, [0])
    assert not strong.hopeless(costs, [0])
    assert not loosest_of([weak, strong]).hopeless(costs, [0])
    both = loosest_of([weak, strong])
    assert (both.spread, both.chance) == (0.01, 0.1)
    assert loosest_of([limit_of(0.3), limit_of(0.5), limit_of(0.4)]).cost == limit_of(0.5).cost
    assert loosest_of([weak, free]).rivals is None


@given(
    st.lists(st.floats(0, 1), min_size=5, max_size=5),
    st.permutations(range(5)),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.floats(0, 1),
    st.none() | st.floats(0.01, 0.49),
)
def test_what_a_mask_is_charged_for_does_not_depend_on_what_an_archive_knew(
    costs: list[float], order: list[int], known: list[bool], cost: float, chance: float | None
) -> None:
    limit = Limit(cost)
    if chance is not None:
        limit = Limit(cost, np.array([[0.4, 0.5, 0.3, 0.6, 0.5]]), 0.1, chance)

    def charged(record: Record) -> list[bool]:
        while (fold := limit.next_fold(record.fold_costs, np.array(order))) is not None:
            fresh = Record.unknown(5, 2)
            fresh.fold_costs[fold] = costs[fold]
            record = record.merge(fresh)
        return list(limit.needed_folds(record.fold_costs, np.array(order)))

    partly = Record.unknown(5, 2)
    partly.fold_costs[known] = np.array(costs)[known]
    assert charged(partly) == charged(Record.unknown(5, 2))


def test_races_save_fits_and_hardly_cost_anything() -> None:
    exact = raced("bpso", noisy(40, n_folds=5), None, distinct=900)
    quick = raced("bpso", noisy(40, n_folds=5), 0.1, distinct=900)
    saved = 1 - quick.state.counts.fits / exact.state.counts.fits
    assert saved > 0.15
    first = exact.history["best_cost"].iloc[0]
    assert quick.cost - exact.cost < 0.25 * (first - exact.cost)


def test_costs_of_members_are_measured_ones_in_a_race_too() -> None:
    evaluator = noisy(24, n_folds=5)
    result = raced("multiswarm", evaluator, 0.2, epochs=15)
    members = result.state.strategy.members
    for mask, cost in zip(members.masks, members.costs, strict=True):
        assert cost == evaluator.cost(mask)


def test_rivals_are_the_fold_costs_of_what_members_hold() -> None:
    evaluator = noisy(24, n_folds=5)
    result = raced("bpso", evaluator, 0.1, epochs=10)
    races, members = result.state.races, result.state.strategy.members
    assert isinstance(races, RaceMemory)
    for rival, cost in zip(races.rivals, members.costs, strict=True):
        assert np.sum(rival) / 5 == pytest.approx(cost, rel=1e-11)
    # Two masks differ from fold to fold by the noise of the units in one of them.
    assert 0.001 < races.spread < 0.02


def owned(masks: Any, incumbents: Any, owner: Any) -> Proposal:
    return Proposal(
        np.asarray(masks, dtype=bool),
        np.asarray(incumbents),
        np.asarray(owner),
        ("x",) * len(owner),
    )


def held(costs: Any) -> Members:
    n = len(costs)
    return Members(np.eye(n, 3, dtype=bool), np.asarray(costs), np.zeros(n, dtype=np.int64))


def answered(fold_costs: Any) -> Any:
    fold_costs = np.asarray(fold_costs)
    return SimpleNamespace(fold_costs=fold_costs, costs=fold_costs.mean(axis=1))


def test_the_spread_is_that_of_the_differences_of_two_masks_from_fold_to_fold() -> None:
    """A two-way table: m masks on n folds leave (m - 1)(n - 1) degrees of freedom."""
    rng = np.random.default_rng(0)
    m, n, noise = 400, 5, 0.03
    folds = 0.3 + rng.normal(0, 0.2, (1, n)) + rng.normal(0, 0.1, (m, 1))
    fold_costs = folds + rng.normal(0, noise, (m, n))
    proposal = owned(np.ones((m, 3)), np.full(m, np.inf), np.full(m, -1))
    races = RaceMemory.blank(n).observe(held([]), held([]), proposal, answered(fold_costs))
    assert races.freedom == (m - 1) * (n - 1)
    table = fold_costs - fold_costs.mean(axis=1, keepdims=True) - fold_costs.mean(axis=0)
    table += fold_costs.mean()
    assert races.squares == pytest.approx((table**2).sum())
    differences = fold_costs[:-1] - fold_costs[1:]
    assert races.spread == pytest.approx(differences.std(axis=1, ddof=1).mean(), rel=0.1)
    again = races.observe(held([]), held([]), proposal, answered(fold_costs))
    assert (again.freedom, again.squares) == (2 * races.freedom, pytest.approx(2 * races.squares))


def test_each_mask_races_against_what_its_own_member_holds_from_twenty_degrees_of_freedom() -> None:
    rivals = np.arange(15, dtype=float).reshape(3, 5)
    proposal = owned(np.eye(5, 3), [0.5, 0.5, np.inf, 0.5, 0.5], [2, 0, 1, -1, 3])
    assert RaceMemory(rivals, 0.01, 19).race(proposal, 0.1) is None
    race = RaceMemory(rivals, 0.01, 20).race(proposal, 0.1)
    assert race is not None
    assert race.spread == pytest.approx(np.sqrt(2 * 0.01 / 20))
    assert race.rivals[:2].tolist() == [rivals[2].tolist(), rivals[0].tolist()]
    # Neither without an incumbent, nor without an owner, nor for one that is not known.
    assert np.isnan(race.rivals[2:]).all()


def test_the_rival_of_a_member_is_the_first_row_that_reached_it() -> None:
    def after(
        memory: RaceMemory, before: Any, now: Any, incumbents: Any, owner: Any, fold_costs: Any
    ) -> RaceMemory:
        proposal = owned(np.eye(len(owner), 3), incumbents, owner)
        return memory.observe(held(before), held(now), proposal, answered(fold_costs))

    blank = RaceMemory.blank(2)
    fold_costs = [[0.1, 0.3], [0.3, 0.1], [0.5, 0.5]]
    races = after(blank, [0.4, 0.6], [0.2, 0.5], [0.4, 0.4, 0.6], [0, 0, 1], fold_costs)
    assert races.rivals.tolist() == [[0.1, 0.3], [0.5, 0.5]]
    # A member that keeps its cost keeps its rival.
    kept = after(races, [0.2, 0.5], [0.2, 0.1], [0.1], [1], [[0.1, 0.1]])
    assert kept.rivals.tolist() == [[0.1, 0.3], [0.1, 0.1]]
    # Nobody's are rows without an owner, of one that is gone, worse than the incumbent, or failed.
    fold_costs, same = [[0.2, 0.2], [0.2, 0.2], [0.2, 0.2], [np.inf, 0.2]], [0.2, np.inf]
    races = after(blank, same, same, [0.5, 0.5, 0.1, np.inf], [-1, 2, 0, 1], fold_costs)
    assert np.isnan(races.rivals).all()
    # The two rows that reached their incumbents leave one degree of freedom, without a residual.
    assert (races.squares, races.freedom, blank.spread) == (0.0, 1, 0.0)
    # An epoch in vain keeps everything, members of another number keep no rivals.
    known, vain = RaceMemory(np.full((2, 2), 0.3), 0.01, 20), ([0.1], [0], [[0.4, 0.4]])
    told = after(known, [0.3] * 2, [0.3] * 2, *vain)
    assert told.rivals.tolist() == known.rivals.tolist()
    assert (told.squares, told.freedom) == (0.01, 20)
    for n_before in (2, 3):
        assert np.isnan(after(known, [0.3] * n_before, [0.3] * 3, *vain).rivals).all()


def test_strategies_that_want_every_cost_are_not_raced() -> None:
    for name in ("two_d", "genetic", "sfs"):
        exact = raced(name, noisy(24, n_folds=5), None, epochs=6)
        assert everything(raced(name, noisy(24, n_folds=5), 0.3, epochs=6)) == everything(exact)
