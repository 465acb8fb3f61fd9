"""Pruning decides a batch as it decides single records."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swarm.evaluation.pruning import limits_of, needed_folds, next_fold
from swarm.storage.records import Record, costs_of
from tests.fakes import calm

N_UNITS = 5
COSTS = (np.nan, np.inf, 0.0, 0.1, 0.3, 1.0)


def records_of(rng: np.random.Generator, n: int, n_folds: int) -> list[Record]:
    shares = rng.dirichlet(np.ones(len(COSTS)))
    costs = rng.choice(COSTS, (n, n_folds), p=shares) + 1e-3 * rng.random((n, n_folds)).round(1)
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
)
def test_a_batch_is_settled_as_each_of_its_records_is(seed: int, n: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    records, order = records_of(rng, n, n_folds), rng.permutation(n_folds)
    incumbents = rng.choice([np.inf, -0.1, 0.0, 0.1, 0.3], n)
    # The first limits are costs of the records themselves, which pass by the margin alone.
    incumbents[:4] = np.nan_to_num([record.cost for record in records[:4]], nan=0.2)
    limits = limits_of(incumbents)
    costs = np.array([record.fold_costs for record in records]).reshape(n, n_folds)
    # A job may have a part of the folds.
    for folds in (order, order[: max(1, n_folds // 2)], order[:0]):
        needed, following = needed_folds(costs, folds, limits)
        assert len(needed) == len(following) == n
        for row in range(n):
            expected, fold = one_by_one(costs[row], folds, limits[row])
            assert np.flatnonzero(needed[row]).tolist() == sorted(expected)
            assert following[row] == (-1 if fold is None else fold)
            assert next_fold(costs[row], folds, limits[row]) == fold


def one_by_one(costs: np.ndarray, folds: np.ndarray, limit: float) -> tuple[list[int], int | None]:
    """Return the folds that decide, and the first one whose cost is missing before."""
    total, examined = 0.0, list[int]()
    for fold in folds.tolist():
        if total / len(costs) > limit or np.isinf(total):
            break
        if np.isnan(costs[fold]):
            return examined, fold
        examined.append(fold)
        total += float(costs[fold])
    return examined, None


@calm
@given(seed=st.integers(0, 2**32), n_folds=st.integers(1, 40))
def test_costs_of_a_batch_are_those_of_its_records_to_the_last_bit(seed: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    records = records_of(rng, 7, n_folds)
    records += [Record(rng.random(n_folds), r.importances, r.used) for r in records]
    costs = costs_of(np.array([record.fold_costs for record in records]))
    assert np.array_equal(costs, [record.cost for record in records], equal_nan=True)
