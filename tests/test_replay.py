"""Claims on repeating a search: crashes, shared archives, pruning where fits fail.

That every strategy replays from an archive, with pruning or without, is in its contract.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.evaluation.types import evaluate_fully
from swarm.search.packing import unpack_masks
from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, everything, make_driver, plain_space, planted
from tests.fakes import calm, noisy

# Between them: pruned, guided by importances, with sizes as steps, with a memory of many parents.
NAMES = ["multiswarm", "memetic", "sffs", "rfe"]


def failing(share: float) -> Planted:
    """Fail on about `share` of all masks, by their content and not by chance."""

    def fails(mask: np.ndarray) -> bool:
        return bool(np.random.default_rng(np.packbits(mask)).random() < share)

    return dataclasses.replace(planted(plain_space(25)), fails=fails)


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


@pytest.mark.parametrize("name", ["multiswarm", "bpso"])
def test_pruning_saves_fits_and_changes_nothing_else_even_where_fits_fail(name: str) -> None:
    pruned, plain = failing(0.02), failing(0.02)
    plain.pruning = False
    # Folds that are about as hard as one another: their order changes during the search.
    noise = np.random.default_rng(0).normal(0, 0.01, plain.weights.shape)
    for evaluator in (pruned, plain):
        evaluator.weights += noise
        evaluator.base[:] = 0.02 - np.minimum(evaluator.weights, 0).sum(axis=1).min()
    one, other = (make_driver(make(name), e, epochs=12).run() for e in (pruned, plain))
    saved = ["fits", "folds_pruned"]
    assert one.history.drop(columns=saved).equals(other.history.drop(columns=saved))
    assert other.history["folds_pruned"].sum() == 0
    assert pruned.fits < plain.fits
    assert one.history["folds_pruned"].sum() > 0
