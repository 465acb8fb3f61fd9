"""Tests of the search space: units, constraints and repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import SpaceError
from swarm.problem.space import SearchSpace
from swarm.testing.planted import all_masks, plain_space, spaces
from tests.fakes import calm

COLUMNS = ["age", "red", "weight", "green", "blue"]
COLOURS = {"colour": ["red", "green", "blue"]}


def test_a_group_is_one_unit_and_stands_where_its_first_feature_stands() -> None:
    space = SearchSpace.build(COLUMNS, groups=COLOURS)
    assert space.names == ("age", "colour", "weight")
    assert space.units == ((0,), (4, 3, 1), (2,))
    assert (space.n_units, space.n_columns) == (3, 5)
    mask = np.array([False, True, True])
    assert space.positions(mask).tolist() == [1, 2, 3, 4]
    assert space.positions_by_unit(mask).tolist() == [4, 3, 1, 2]
    assert space.subset(mask) == ["red", "weight", "green", "blue"]


@calm
@given(spaces(), st.data())
def test_mask_is_the_inverse_of_subset(space: SearchSpace, data: st.DataObject) -> None:
    bits = st.lists(st.booleans(), min_size=space.n_units, max_size=space.n_units)
    mask = np.array(data.draw(bits))
    assert np.array_equal(space.mask(space.subset(mask)), mask)


def test_a_group_is_named_by_its_name_or_by_all_its_features_and_adds_up_their_values() -> None:
    for names in (["colour"], ["blue", "red", "green"]):
        space = SearchSpace.build(COLUMNS, groups=COLOURS, fixed=names)
        assert space.fixed.tolist() == [False, True, False]
        assert space.min_size == 1
    assert space.by_unit(np.array([1.0, 2.0, 4.0]), [1, 2, 4]).tolist() == [0.0, 5.0, 2.0]


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"fixed": ["wieght"]}, "fixed .*'wieght'; did you mean 'weight'"),
        ({"forbidden": ["x"]}, "forbidden .*'x'"),
        ({"fixed": ["age"], "forbidden": ["age"]}, "'age'"),
        ({"groups": COLOURS, "fixed": ["red"]}, "'colour'.*'blue'"),
        ({"groups": {"g": ["agee"]}}, "'g' .*'agee'"),
        ({"groups": {"g": []}}, "'g'"),
        ({"groups": {"age": ["red", "blue"]}}, "'age'"),
        ({"groups": {"a": ["red"], "b": ["red"]}}, "'red' .*'a' and 'b'"),
        ({"forbidden": COLUMNS}, "every feature"),
        ({"min_size": 0}, "smallest size .* 0"),
        ({"min_size": 3, "max_size": 2}, "largest size 2 .* 3"),
        ({"max_size": 6}, "largest size 6 .* 5"),
        ({"min_size": 5, "forbidden": ["age"]}, "largest size 4 .* 5"),
        ({"columns": []}, "no features"),
        ({"columns": ["a", "b", "a"]}, "'a'"),
        ({"fixed": ["age", "red"], "max_size": 1}, "2 .*fixed.* 1"),
    ],
)
def test_contradictions_are_refused_by_name(constraints: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        SearchSpace.build(**{"columns": COLUMNS, **constraints})


@calm
@given(spaces(max_columns=7), st.integers(0, 2**32), st.floats(0, 1))
def test_repair_obeys_keeps_what_obeys_and_changes_as_little_as_possible(
    space: SearchSpace, seed: int, density: float
) -> None:
    rng = np.random.default_rng(seed)
    masks = rng.random((6, space.n_units)) < density
    before = masks.copy()
    repaired = space.repair(masks, rng)
    assert np.array_equal(masks, before)
    assert space.obeys(repaired).all()
    assert np.array_equal(space.repair(repaired, rng), repaired)
    allowed = np.array(list(all_masks(space)))
    least = (masks[:, None] != allowed).sum(axis=2).min(axis=1)
    assert np.array_equal((masks != repaired).sum(axis=1), least)


def test_repair_draws_nothing_for_masks_that_obey_and_reaches_every_unit_alike() -> None:
    rng = np.random.default_rng(0)
    plain_space(6, min_size=2).repair(np.ones((4, 6), dtype=bool), rng)
    assert rng.random() == np.random.default_rng(0).random()
    for start in (np.zeros((5000, 5), dtype=bool), np.ones((5000, 5), dtype=bool)):
        share = plain_space(5, max_size=1).repair(start, rng).mean(axis=0)
        assert np.allclose(share, 0.2, atol=0.02)


@calm
@given(spaces(max_columns=8))
def test_obeys_is_the_definition_of_the_constraints(space: SearchSpace) -> None:
    for mask in all_masks(space):
        assert space.min_size <= mask.sum() <= space.max_size
        assert mask[space.fixed].all()
        assert not mask[space.forbidden].any()
