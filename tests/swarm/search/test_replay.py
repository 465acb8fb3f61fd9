"""Claims on repeating a search: crashes, shared archives.

That every strategy replays from an archive, with pruning or without, is in its contract;
pruning where fits fail is in test_crossval.
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

# Between them: pruned, guided by importances, with sizes as steps, with a memory of many parents.
NAMES = ["multiswarm", "memetic", "sffs", "rfe"]


def searched(name: str, evaluator: Planted) -> SearchResult:
    return make_driver(make(name), evaluator, seed=2, epochs=5).run()


@lru_cache
def uninterrupted(name: str) -> tuple[SearchResult, Planted]:
    evaluator = noisy(20)
    return searched(name, evaluator), evaluator


@pytest.mark.parametrize("name", NAMES)
@settings(calm, max_examples=6)
@given(after=st.integers(0, 1000))
def test_a_search_that_is_interrupted_and_run_again_is_the_uninterrupted_one(
    name: str, after: int
) -> None:
    whole, first = uninterrupted(name)
    broken = dataclasses.replace(noisy(20), interrupt_after=after)
    try:
        searched(name, broken)
    except KeyboardInterrupt:
        assert after < first.fits
    resumed = dataclasses.replace(noisy(20), records=broken.records)
    again = searched(name, resumed)
    assert everything(again) == everything(whole)
    assert broken.fits + resumed.fits == first.fits


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_that_knows_every_fold_changes_nothing_that_a_search_is_charged_for(
    name: str,
) -> None:
    whole, _ = uninterrupted(name)
    full = dataclasses.replace(noisy(20), pruning=False)
    evaluate_fully(full, unpack_masks(whole.state.requests, 20))
    rich = dataclasses.replace(noisy(20), records=full.records)
    assert everything(searched(name, rich)) == everything(whole)
