"""Tests of tables of candidates and of the rules that pick a subset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ConfigError, DataError
from swarm.search.candidates import PICKS, Candidates, pareto_front, pick
from tests.fakes import calm

# Costs fall steeply up to three units, and hardly after that.
SIZES = np.arange(1, 7)
COSTS = np.array([0.50, 0.30, 0.12, 0.11, 0.10, 0.10])
measured = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from([0.1, 0.2, 0.3, 0.4, np.inf, np.nan])),
    min_size=1,
    max_size=20,
)


def test_tables_of_two_origins_join_and_keep_the_first_row_of_each_subset() -> None:
    masks = np.eye(3, dtype=bool)
    confirmed = Candidates.build(
        masks[:2], np.array([0.2, 0.1]), fresh_fold_costs=np.array([[1, 3], [2, 4]])
    )
    ranked = Candidates.build(masks[1:], np.array([0.3, np.inf]), origin=np.array(["ranking"] * 2))
    table = ranked.take([0]).append(confirmed).append(ranked)
    assert table.origin.tolist() == ["ranking", "search", "search", "ranking", "ranking"]
    assert np.isnan(table.fresh_costs).tolist() == [True, False, False, True, True]
    assert table.fresh_costs[1:3].tolist() == [2.0, 3.0]
    distinct = table.distinct()
    assert distinct.masks.tolist() == masks[[1, 0]].tolist()
    assert distinct.costs.tolist() == distinct.search_costs.tolist() == [0.3, 0.2]
    assert np.isnan(ranked.fresh_costs).all()


def test_each_rule_picks_its_own() -> None:
    errors = np.full(6, 0.015)
    assert [int(SIZES[pick(rule, SIZES, COSTS, errors=errors)]) for rule in PICKS] == [5, 4]
    # Only the error of the lowest cost counts.
    errors = np.array([9.0, 9.0, 9.0, 9.0, 0.005, 9.0])
    assert SIZES[pick("parsimonious", SIZES, COSTS, errors=errors)] == 5
    with pytest.raises(ConfigError, match="did you mean 'best'"):
        pick("bset", SIZES, COSTS)


def test_the_smallest_close_row_is_picked_and_the_cheapest_if_none_is_close() -> None:
    for goal in ("balanced", "size"):
        assert SIZES[pick(goal, SIZES, COSTS, is_close=lambda row: COSTS[row] < 0.2)] == 3
        assert SIZES[pick(goal, SIZES, COSTS, is_close=lambda row: False)] == 5
    assert SIZES[pick("score", SIZES, COSTS, is_close=lambda row: True)] == 5


@calm
@given(rows=measured)
def test_the_front_is_what_no_other_row_beats(rows: list[tuple[int, float]]) -> None:
    sizes, costs = (np.array(column) for column in zip(*rows, strict=True))
    rows_of_front = pareto_front(sizes, costs)
    front = set(zip(sizes[rows_of_front].tolist(), costs[rows_of_front], strict=True))
    finite = {(size, cost) for size, cost in rows if np.isfinite(cost)}
    beaten = {
        (size, cost)
        for size, cost in finite
        if any((s <= size and c <= cost) and (s, c) != (size, cost) for s, c in finite)
    }
    assert front == finite - beaten
    assert sorted(front) == [(sizes[row], costs[row]) for row in rows_of_front]


@calm
@given(rows=measured)
def test_every_pick_is_on_the_front_and_none_is_cheaper_than_the_best(
    rows: list[tuple[int, float]],
) -> None:
    sizes, costs = (np.array(column) for column in zip(*rows, strict=True))
    front = pareto_front(sizes, costs)
    if not len(front):
        with pytest.raises(DataError, match="none of"):
            pick("best", sizes, costs)
        return
    picked = {rule: pick(rule, sizes, costs, errors=np.full(len(sizes), 0.1)) for rule in PICKS}
    assert set(picked.values()) <= set(front.tolist())
    assert costs[picked["best"]] == np.nanmin(np.where(np.isfinite(costs), costs, np.nan))
    assert sizes[picked["parsimonious"]] <= sizes[picked["best"]]


def test_of_equal_rows_the_first_is_on_the_front() -> None:
    sizes = np.array([2, 1, 2, 1, 3])
    costs = np.array([0.1, 0.3, 0.1, 0.3, 0.1])
    assert pareto_front(sizes, costs).tolist() == [1, 0]
    assert [pick(rule, sizes, costs, errors=np.zeros(5)) for rule in PICKS] == [0, 0]
