"""Tests of repeating a search after crashes and from shared archives.

The contract of strategies tests that each replays from an archive, with and without pruning.
Pruning with fits that fail is tested in test_crossval.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.evaluation.types import evaluate_fully
from swarm.search.packing import unpack_masks
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, everything, make_driver
from tests.fakes import calm, noisy

# These cover pruning, guidance by importances, steps in size, and a memory of many parents.
NAMES = ["multiswarm", "memetic", "sffs", "rfe"]


def run_search(name: str, evaluator: Planted) -> SearchResult:
    return make_driver(make(name), evaluator, seed=2, epochs=5).run()


@lru_cache
def uninterrupted(name: str) -> tuple[SearchResult, Planted]:
    evaluator = noisy(20)
    return run_search(name, evaluator), evaluator


@pytest.mark.parametrize("name", NAMES)
@settings(calm, max_examples=6)
@given(after=st.integers(0, 1000))
def test_a_search_that_is_interrupted_and_run_again_is_the_uninterrupted_one(
    name: str, after: int
) -> None:
    expected, evaluator = uninterrupted(name)
    interrupted = dataclasses.replace(noisy(20), interrupt_after=after)
    try:
        run_search(name, interrupted)
    except KeyboardInterrupt:
        assert after < evaluator.fits
    resumed = dataclasses.replace(noisy(20), records=interrupted.records)
    result = run_search(name, resumed)
    assert everything(result) == everything(expected)
    assert interrupted.fits + resumed.fits == evaluator.fits


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_that_knows_every_fold_changes_nothing_that_a_search_is_charged_for(
    name: str,
) -> None:
    expected, _ = uninterrupted(name)
    unpruned = dataclasses.replace(noisy(20), pruning=False)
    evaluate_fully(unpruned, unpack_masks(expected.state.requests, 20))
    with_all_folds = dataclasses.replace(noisy(20), records=unpruned.records)
    assert everything(run_search(name, with_all_folds)) == everything(expected)
