"""Searches in the order of importances: ranked forward selection and recursive elimination."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from swarm.search.driver import run
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, constant, make_search, plain_space, planted


def ranked(evaluator: Planted, **parameters: Any) -> SearchResult:
    return run(make_search(make("ranked", parameters), evaluator, epochs=1000))


def masks_of(result: SearchResult) -> list[str]:
    return [mask for record in result.records for mask in record.particles["mask"]]


def text_of(units: set[int], n_units: int) -> str:
    return "".join("01"[unit in units] for unit in range(n_units))


def test_units_are_tried_by_importance_on_all_of_them_and_kept_if_the_cost_falls() -> None:
    evaluator = planted(plain_space(9), 4)
    importance = np.abs(evaluator.weights).mean(axis=0)
    expected, kept, cost = ["1" * 9], set[int](), np.inf
    for unit in np.lexsort((np.arange(9), -importance)).tolist():
        candidate = kept | {unit}
        expected.append(text_of(candidate, 9))
        now = evaluator.cost(np.isin(np.arange(9), list(candidate)))
        if now < cost:
            kept, cost = candidate, now
    result = ranked(evaluator)
    assert masks_of(result) == expected
    assert 1 < len(kept) < 9
    assert result.best_mask.tolist() == [unit in kept for unit in range(9)]
    assert result.reason == "finished"


def test_without_importances_units_are_tried_in_their_order() -> None:
    evaluator = replace(planted(plain_space(4)), importances=False)
    tried = [mask.rindex("1") for mask in masks_of(ranked(evaluator))[1:]]
    assert tried == [0, 1, 2, 3]


def test_units_that_do_not_lower_the_cost_are_left_out() -> None:
    assert ranked(constant(plain_space(6))).best_mask.sum() == 1


class Joint(Planted):
    """Two units that help only together, and a third that helps a little alone."""

    def fold_cost(self, mask: np.ndarray, fold: int) -> float:
        return 0.1 if mask[0] and mask[1] else 0.3 - 0.1 * mask[2]


def test_all_features_win_if_no_set_on_the_way_costs_less() -> None:
    weights = np.tile([0.1, 0.1, 0.9], (3, 1))
    result = ranked(Joint(plain_space(3), weights, np.zeros(3)))
    assert masks_of(result) == ["111", "001", "101", "011"]
    assert result.features == ["x0", "x1", "x2"]


def test_a_size_is_filled_up_by_rank_and_never_exceeded() -> None:
    evaluator = planted(plain_space(9), 4)
    free = int(ranked(evaluator).best_mask.sum())
    for size in range(1, 10):
        result = ranked(evaluator, size=size)
        assert result.best_mask.sum() == size
        filled = [role for record in result.records for role in record.particles["role"]]
        assert ("fill" in filled) == (size > free)


def test_fixed_units_are_measured_first_and_stay() -> None:
    space = plain_space(7, fixed=["x2"], forbidden=["x5"], min_size=2, max_size=3)
    result = ranked(planted(space))
    assert masks_of(result)[:2] == ["1111101", "0010000"]
    assert all(mask[2] == "1" and mask[5] == "0" for mask in masks_of(result))
    assert 2 <= result.best_mask.sum() <= 3


# recursive elimination


def eliminate(evaluator: Planted, seed: int = 0, **parameters: Any) -> SearchResult:
    return run(make_search(make("rfe", parameters), evaluator, seed=seed, epochs=1000))


def test_what_is_least_important_goes_first() -> None:
    evaluator = planted(plain_space(9), 4)
    result = eliminate(evaluator, step=2)
    order = np.argsort(np.abs(evaluator.weights).mean(axis=0))
    masks = masks_of(result)
    assert [row.count("1") for row in masks] == [9, 7, 5, 3, 1]
    for row, gone in zip(masks, (0, 2, 4, 6, 8), strict=True):
        assert {i for i, bit in enumerate(row) if bit == "0"} == set(order[:gone].tolist())


@pytest.mark.parametrize(
    ("step", "size", "sizes"),
    [
        (1, None, [8, 7, 6, 5, 4, 3, 2, 1]),
        (0.5, None, [8, 4, 2, 1]),
        (0.1, 5, [8, 7, 6, 5]),
        (3, 4, [8, 5, 4]),
        (99, 2, [8, 2]),
    ],
)
def test_the_sizes_follow_from_the_step(step: float, size: int | None, sizes: list[int]) -> None:
    result = eliminate(planted(plain_space(8)), step=step, size=size)
    assert [row.count("1") for row in masks_of(result)] == sizes
    assert size is None or result.best_mask.sum() == size


def test_equal_importances_are_left_to_chance() -> None:
    evaluator = replace(planted(plain_space(10)), importances=False)
    runs = {tuple(masks_of(eliminate(evaluator, seed))) for seed in range(4)}
    assert len(runs) == 4
