"""Batches are settled as single records are, and memory answers as the archive does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from swarm.evaluation.limit import Race, limit_of, settle
from swarm.problem.problem import Problem
from swarm.storage.archive import Archive, KnownEvaluations
from swarm.storage.record_cache import Recall
from swarm.storage.records import Record, costs_of
from swarm.threads import one_thread
from tests.fakes import calm
from tests.test_exact_paths import GaussianNB, table

N_UNITS = 5
KINDS = (np.nan, np.inf, 0.0, 0.1, 0.3, 1.0)


def records_of(rng: np.random.Generator, n: int, n_folds: int) -> list[Record]:
    shares = rng.dirichlet(np.ones(len(KINDS)))
    costs = rng.choice(KINDS, (n, n_folds), p=shares) + 1e-3 * rng.random((n, n_folds)).round(1)
    blank = Record.unknown(n_folds, N_UNITS)
    return [Record(row, blank.importances, blank.used) for row in costs]


def test_as_many_errors_on_other_folds_are_the_same_cost() -> None:
    errors = np.array([[3, 1, 2, 0, 1], [1, 2, 0, 1, 3], [0, 0, 0, 0, 7], [0, 1, 3, 2, 1]])
    folds = 1.0 - (36 - errors) / 36
    assert len({float(row.sum()) / 5 for row in folds}) > 1
    costs = costs_of(folds)
    assert len(set(costs.tolist())) == 1
    blank = Record.unknown(5, N_UNITS)
    records = [Record(row, blank.importances, blank.used) for row in folds]
    assert [record.cost for record in records] == costs.tolist()


def test_rounding_keeps_what_is_far_from_one() -> None:
    folds = np.array([[1.25e-30], [2.5e300], [0.0], [-0.125], [np.nan], [np.inf]])
    assert np.array_equal(costs_of(folds), folds[:, 0], equal_nan=True)


@calm
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([0, 12]),
    n_folds=st.integers(1, 20),
    raced=st.booleans(),
)
def test_a_batch_is_settled_as_each_of_its_records_is(
    seed: int, n: int, n_folds: int, raced: bool
) -> None:
    rng = np.random.default_rng(seed)
    records, order = records_of(rng, n, n_folds), rng.permutation(n_folds)
    incumbents = rng.choice([np.inf, -0.1, 0.0, 0.1, 0.3], n)
    # Some limits are what a record costs itself, so that only the margin lets it pass.
    incumbents[:4] = np.nan_to_num([record.cost for record in records[:4]], nan=0.2)
    race = Race(rng.choice([np.nan, 0.2, 0.4], (n, n_folds)), 0.1, 0.2) if raced else None
    limits = [limit_of(cost, race, row) for row, cost in enumerate(incumbents)]
    # Jobs may be told to train some of the folds only.
    for folds in (order, order[: max(1, n_folds // 2)]):
        needed, is_open = settle(records, folds, limits)
        assert len(needed) == len(is_open) == n
        for row, (record, limit) in enumerate(zip(records, limits, strict=True)):
            assert needed[row].tolist() == limit.needed_folds(record.fold_costs, folds).tolist()
            assert is_open[row] == (limit.next_fold(record.fold_costs, folds) is not None)


@calm
@given(seed=st.integers(0, 2**32), n_folds=st.integers(1, 40))
def test_costs_of_a_batch_are_those_of_its_records_to_the_last_bit(seed: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    records = records_of(rng, 7, n_folds)
    records += [Record(rng.random(n_folds), r.importances, r.used) for r in records]
    costs = costs_of(np.array([record.fold_costs for record in records]))
    assert np.array_equal(costs, [record.cost for record in records], equal_nan=True)


def same(one: Record, other: Record) -> bool:
    pairs = [
        (getattr(one, name), getattr(other, name)) for name in ("fold_costs", "importances", "used")
    ]
    equal = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
    return equal and (one.seconds, one.error) == (other.seconds, other.error)


def problem_of(importance: str = "none") -> Problem:
    features, target = table(1, n_columns=N_UNITS)
    return Problem.build(features, target, GaussianNB(), folds=3, importance=importance)


def some_rows(rng: np.random.Generator) -> list[tuple[np.ndarray, Record]]:
    masks = rng.random((6, N_UNITS)) < 0.6
    masks[:, 0] = True
    rows = []
    for mask in masks:
        costs = np.where(rng.random(3) < 0.8, rng.choice([0.1, 0.2, np.inf], 3), np.nan)
        known = ~np.isnan(costs)
        told = known & (rng.random() < 0.5)
        importances = np.where(told[:, None], rng.random((3, N_UNITS)) * mask, np.nan)
        used = known[:, None] & mask & ((rng.random(3) < 0.7)[:, None] | (rng.random() < 0.5))
        error = "boom" if np.isinf(costs).any() else None
        rows.append((mask, Record(costs, importances, used, float(rng.random()), error)))
    return [row for row in rows if row[1].known.any()]


@pytest.mark.slow
@calm
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["none", "permutation"]))
def test_memory_tells_what_the_archive_tells(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    archive, problem = Archive(), problem_of(kind)
    part = archive.open_problem(problem)
    for _ in range(4):
        part.add(some_rows(rng))
        masks = np.array([mask for mask, _ in part.all()])
        for _ in range(2):
            fresh = archive.open_problem(problem).lookup(masks)
            assert all(map(same, part.lookup(masks), fresh))
    archive.close()


def complete(part: KnownEvaluations, seconds: float = 1.0) -> tuple[np.ndarray, Record]:
    mask = np.arange(N_UNITS) < 3
    blank = part.blank
    used = np.broadcast_to(mask, (3, N_UNITS))
    return mask, Record(np.array([0.1, 0.2, 0.3]), blank.importances, used, seconds)


def test_a_complete_record_is_read_once_and_cannot_be_changed() -> None:
    archive = Archive()
    part = archive.open_problem(problem_of())
    mask, record = complete(part)
    part.add([(mask, record)])
    (first,) = part.lookup(mask[None])
    (second,) = part.lookup(mask[None])
    assert first is second
    assert same(first, record)
    assert not any(array.flags.writeable for array in (first.fold_costs, first.used))


def test_what_another_process_adds_to_an_unfinished_mask_is_seen() -> None:
    archive, problem = Archive(), problem_of("permutation")
    part, other = archive.open_problem(problem), archive.open_problem(problem)
    mask, whole = complete(part)
    costs = np.where([True, False, False], whole.fold_costs, np.nan)
    part.add([(mask, Record(costs, whole.importances, whole.used & (costs > 0)[:, None]))])
    assert not part.lookup(mask[None])[0].complete
    rest = np.where(np.isnan(costs), whole.fold_costs, np.nan)
    other.add([(mask, Record(rest, whole.importances, whole.used & (rest > 0)[:, None]))])
    assert part.lookup(mask[None])[0].complete


def test_importances_that_come_after_the_folds_are_seen() -> None:
    archive = Archive()
    late = archive.open_problem(problem_of())
    part = KnownEvaluations(archive, late._number, 3, N_UNITS, late_importances=True)
    mask, whole = complete(part)
    part.add([(mask, whole)])
    assert np.isnan(part.lookup(mask[None])[0].importances).all()
    blank = Record.unknown(3, N_UNITS)
    blank.importances[0] = 0.25 * mask
    KnownEvaluations(archive, late._number, 3, N_UNITS).add([(mask, blank)])
    assert part.lookup(mask[None])[0].importances[0].tolist() == (0.25 * mask).tolist()


def test_memory_is_bounded_and_lets_go_of_what_was_unused_for_longest() -> None:
    room = Recall(3 * 1200)
    for number in range(3):
        room.keep(bytes([number]), Record.unknown(3, N_UNITS))
    assert room.get(bytes([0])) is not None
    room.keep(bytes([3]), Record.unknown(3, N_UNITS))
    kept = [number for number in range(4) if room.get(bytes([number])) is not None]
    assert kept == [0, 2, 3]
    room.keep(bytes([9]), Record.unknown(30, 100))
    assert room.get(bytes([9])) is None


def test_one_thread_lasts_as_long_as_it_says() -> None:
    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        with one_thread():
            assert {pool["num_threads"] for pool in threadpool_info()} <= {1}
        assert [pool["num_threads"] for pool in threadpool_info()] == before
