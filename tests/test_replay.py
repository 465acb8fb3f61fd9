"""Claims on repeating a search: crashes, shared archives, pruning, longer budgets."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.evaluation.limit import Limit
from swarm.search.driver import run
from swarm.search.result import SearchResult
from swarm.storage.records import Record
from swarm.strategies.catalogue import make
from swarm.strategies.multiswarm import MultiSwarm
from swarm.testing.planted import everything, make_search, plain_space, planted
from swarm.testing.trajectory import snapshot
from tests.fakes import calm, failing

# Between them: pruned, guided by importances, with sizes as steps, with a memory of many parents.
NAMES = ["multiswarm", "memetic", "sffs", "rfe"]


@lru_cache
def uninterrupted(name: str) -> SearchResult:
    return run(make_search(make(name), planted(plain_space(20)), epochs=10))


@pytest.mark.parametrize("name", NAMES)
@settings(calm, max_examples=6)
@given(after=st.integers(0, 250))
def test_a_search_that_is_interrupted_and_run_again_is_the_uninterrupted_one(
    name: str, after: int
) -> None:
    space, whole = plain_space(20), uninterrupted(name)
    broken = dataclasses.replace(planted(space), interrupt_after=after)
    try:
        run(make_search(make(name), broken, epochs=10))
    except KeyboardInterrupt:
        assert after < whole.work["fits"].sum()
    resumed = dataclasses.replace(planted(space), known=broken.known)
    again = run(make_search(make(name), resumed, epochs=10))
    assert everything(again) == everything(whole)
    assert broken.fits + resumed.fits == whole.work["fits"].sum()


@lru_cache
def left_by_everyone() -> dict[bytes, Record]:
    shared = planted(plain_space(8))
    for other in ("random", "bpso", "sbfs", "genetic"):
        run(make_search(make(other), shared, seed=1, epochs=4))
    return shared.known


@pytest.mark.parametrize("name", NAMES)
def test_what_others_left_in_the_archive_changes_nothing_but_the_work(name: str) -> None:
    space = plain_space(8)
    alone = run(make_search(make(name), planted(space), epochs=25))
    shared = dataclasses.replace(planted(space), known=dict(left_by_everyone()))
    late = run(make_search(make(name), shared, epochs=25))
    assert everything(late) == everything(alone)
    assert shared.fits < alone.state.counts.fits


@calm
@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.permutations(range(4)),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.floats(0, 1),
)
def test_what_a_mask_is_charged_for_does_not_depend_on_what_was_known(
    costs: list[float], order: list[int], known: list[bool], limit: float
) -> None:
    truth = np.array(costs)

    def charged(record: Record) -> list[bool]:
        while (fold := Limit(limit).next_fold(record.fold_costs, np.array(order))) is not None:
            fresh = Record.unknown(4, 2)
            fresh.fold_costs[fold] = truth[fold]
            record = record.merge(fresh)
        return list(Limit(limit).needed_folds(record.fold_costs, np.array(order)))

    partly = Record.unknown(4, 2)
    partly.fold_costs[known] = truth[known]
    assert charged(partly) == charged(Record.unknown(4, 2))


@pytest.mark.parametrize("name", ["multiswarm", "bpso"])
def test_pruning_saves_fits_and_changes_nothing_else_even_where_fits_fail(name: str) -> None:
    pruned, plain = failing(0.02), failing(0.02)
    plain.pruning = False
    # Folds that are about as hard as one another: their order changes during the search.
    noise = np.random.default_rng(0).normal(0, 0.01, plain.weights.shape)
    for evaluator in (pruned, plain):
        evaluator.weights += noise
        evaluator.base[:] = 0.02 - np.minimum(evaluator.weights, 0).sum(axis=1).min()
    one, other = (run(make_search(make(name), e, epochs=12)) for e in (pruned, plain))
    saved = ["fits", "folds_pruned"]
    assert one.history.drop(columns=saved).equals(other.history.drop(columns=saved))
    assert other.history["folds_pruned"].sum() == 0
    assert pruned.fits < plain.fits
    assert one.history["folds_pruned"].sum() > 0


def test_an_epoch_run_twice_from_one_state_gives_the_same_state_twice() -> None:
    search = make_search(MultiSwarm(), planted(plain_space(15)), epochs=9)
    state = search.start()
    for _ in range(5):
        first, record = search.step(state)
        second, again = search.step(state)
        assert record.metrics == again.metrics
        assert record.particles.equals(again.particles)
        assert snapshot(first) == snapshot(second)
        for field in ("epoch", "best_cost", "stalled", "idle", "counts", "asked"):
            assert getattr(first, field) == getattr(second, field)
        state = first


def test_a_longer_search_begins_like_the_shorter_one() -> None:
    short = run(make_search(MultiSwarm(), planted(plain_space(15)), epochs=5))
    long = run(make_search(MultiSwarm(), planted(plain_space(15)), epochs=9))
    assert long.history.iloc[:5].to_csv() == short.history.to_csv()
