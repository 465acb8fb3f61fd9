"""Recursive feature elimination, the floor of searches by importance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from swarm.errors import ConfigError, SpaceError
from swarm.search.driver import run
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, make_search, plain_space, planted


def eliminate(evaluator: Planted, seed: int = 0, **parameters: Any) -> SearchResult:
    return run(make_search(make("rfe", parameters), evaluator, seed=seed, epochs=1000))


def masks_of(result: SearchResult) -> list[str]:
    return [mask for record in result.records for mask in record.particles["mask"]]


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


@pytest.mark.parametrize("step", [0, -0.1, 1.5, True])
def test_a_step_that_is_none_is_refused(step: Any) -> None:
    with pytest.raises(ConfigError, match="step must be"):
        make("rfe", {"step": step})


def test_a_size_that_contradicts_the_space_is_refused_at_the_start() -> None:
    space = plain_space(5, fixed=["x0", "x1"])
    for size in (1, 6):
        with pytest.raises(SpaceError, match=rf"size {size} (is below|exceeds)"):
            eliminate(planted(space), size=size)
