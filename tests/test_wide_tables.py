"""Claims on wide tables: distances without their matrix, clusters in linear time."""

from __future__ import annotations

import copy
import pickle
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from threadpoolctl import threadpool_limits

from swarm.ensemble import SubsetEnsemble
from swarm.problem.hints import MOST_DENSE_COLUMNS, prepare_hints
from swarm.problem.space import SearchSpace
from swarm.search.driver import run
from swarm.search.warm import warm_masks
from swarm.statistics.clusters import line_clusters
from swarm.statistics.distances import Distances, as_distances
from swarm.statistics.spearman import (
    LazyDistances,
    spearman_distance,
    spread_order,
    unit_distance,
)
from swarm.strategies.multiswarm import MultiSwarm
from swarm.testing.planted import everything, make_search, planted

D = 600


def table(n_columns: int = D, n_rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, n_columns)).round(1)
    values[rng.random(values.shape) < 0.01] = np.nan
    values[:, 5] = 1.0
    values[:, 7] = -values[:, 8]
    features = pd.DataFrame(values, columns=[f"x{i}" for i in range(n_columns)])
    return features.assign(x3=pd.Categorical(rng.choice(["a", "b", "c"], n_rows)))


def singles(n: int) -> list[tuple[int, ...]]:
    return [(i,) for i in range(n)]


def subsets(n_units: int, density: float = 0.3) -> np.ndarray:
    drawn = np.random.default_rng(1).random((5, n_units)) < density
    drawn[4] = False
    return drawn


@pytest.mark.parametrize("rows_kept", [1, 50, D])
def test_lazy_totals_are_the_dense_ones_to_the_last_bit_whatever_was_kept(rows_kept: int) -> None:
    features = table()
    dense = as_distances(spearman_distance(features))
    lazy = LazyDistances(features, singles(D), kept=8 * D * rows_kept, members=D)
    for density in (0.02, 0.5, 0.02, 0.8):
        asked = subsets(D, density)
        assert lazy.total(asked).tobytes() == dense.total(asked).tobytes()


def test_the_number_of_blas_threads_changes_no_bit() -> None:
    totals, labels = set(), set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            lazy = LazyDistances(table(), singles(D))
            totals.add(lazy.total(subsets(D)).tobytes())
            labels.add(line_clusters(lazy, 20).tobytes())
    assert len(totals) == len(labels) == 1


def test_totals_of_groups_of_columns_agree_with_the_dense_ones() -> None:
    features = table()
    units = [tuple(range(i, min(i + 7, D))) for i in range(0, 490, 7)][::-1]
    units += [(i,) for i in range(490, D)]
    between = unit_distance(spearman_distance(features), units)
    lazy = LazyDistances(features, units)
    asked = subsets(len(units))
    dense = as_distances(between).total(asked)
    np.testing.assert_allclose(lazy.total(asked), dense, rtol=1e-12, atol=1e-12)
    some = np.array([3, 60, 0, 100])
    np.testing.assert_allclose(lazy.between(some), between[np.ix_(some, some)], atol=1e-12)


def test_large_subsets_and_long_tables_are_stood_for_by_a_spread_of_their_parts() -> None:
    features = table(n_rows=900)
    dense, asked = as_distances(spearman_distance(features)), subsets(D, 0.5)
    close = LazyDistances(features, singles(D), members=150).total(asked)
    np.testing.assert_allclose(close[:4], dense.total(asked)[:4], rtol=0.03)
    small = LazyDistances(features, singles(D), members=int(asked.sum(axis=1).max())).total(asked)
    assert small.tobytes() == dense.total(asked).tobytes()
    taken = np.sort(spread_order(900)[:300])
    assert np.diff(taken).max() <= 10
    fewer = LazyDistances(features, singles(D), rows=300, members=D).total(asked)
    dense = as_distances(spearman_distance(features.iloc[taken]))
    assert fewer.tobytes() == dense.total(asked).tobytes()


def test_copies_are_made_without_what_was_kept_and_say_the_same() -> None:
    lazy = LazyDistances(table(), singles(D))
    total = lazy.total(subsets(D)).tobytes()
    assert len(pickle.dumps(lazy)) < lazy.ranks.nbytes + 100_000
    assert copy.deepcopy(lazy).total(subsets(D)).tobytes() == total


def test_a_search_on_lazy_distances_is_the_search_on_the_matrix() -> None:
    features = table(60)
    space = SearchSpace.build(list(features.columns))
    matrix = prepare_hints(features, space)
    assert isinstance(matrix.distance, np.ndarray)
    hints = dict(vars(matrix), distance=LazyDistances(features, space.units))
    searches = []
    for given in (matrix, type(matrix)(**hints)):
        search = make_search(MultiSwarm(init="clusters"), planted(space), epochs=12)
        object.__setattr__(search, "hints", given)
        searches.append(everything(run(search)))
    assert searches[0] == searches[1]


def blocks(n_columns: int, n_rows: int = 150) -> tuple[pd.DataFrame, np.ndarray]:
    """Make 30 blocks of 20 columns that say the same, with either sign, among noise."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(n_rows, n_columns))
    owner = np.full(n_columns, -1)
    owner[rng.permutation(n_columns)[:600]] = np.repeat(np.arange(30), 20)
    shared = rng.normal(size=(n_rows, 30))
    inside = owner >= 0
    sign = rng.choice([-1.0, 1.0], inside.sum())
    values[:, inside] = sign * (3 * shared[:, owner[inside]] + values[:, inside])
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(n_columns)]), owner


def test_columns_that_say_the_same_share_a_cluster_whatever_their_sign() -> None:
    features, owner = blocks(3000)
    labels = line_clusters(LazyDistances(features, singles(3000)), 60)
    assert sorted(np.unique(labels)) == list(range(60))
    together = [np.bincount(labels[owner == block]).max() for block in range(30)]
    assert np.mean(together) > 18.0
    main = [np.bincount(labels[owner == block]).argmax() for block in range(30)]
    assert len(set(main)) > 22
    assert labels[0] == 0


def test_there_are_as_many_clusters_as_asked_one_of_them_of_the_constant_columns() -> None:
    features, _ = blocks(1500)
    features.iloc[:, 100:160] = 4.0
    labels = line_clusters(LazyDistances(features, singles(1500)), 10)
    assert set(labels[100:160]) == {labels[100]}
    assert labels[100] not in np.delete(labels, np.s_[100:160])
    lazy = LazyDistances(table(40).assign(x5=np.arange(200.0)), singles(40))
    for found, wanted in ((labels, 10), *((line_clusters(lazy, n), n) for n in (1, 2, 40))):
        assert len(set(found)) == wanted


def test_hints_of_a_wide_table_never_hold_a_matrix_of_its_columns() -> None:
    d = MOST_DENSE_COLUMNS + 1
    features, _ = blocks(d, 60)
    space, strategy = SearchSpace.build(list(features.columns)), MultiSwarm()
    target = np.arange(len(features)) % 2
    tracemalloc.start()
    try:
        hints = prepare_hints(features, space, target, needs=strategy.needs)
        lazy = hints.distance
        assert isinstance(lazy, Distances)
        assert not isinstance(lazy, np.ndarray)
        lazy.total(subsets(d, 0.5))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is kept is reserved at once; it is bounded, and written as far as it is needed.
    assert isinstance(lazy, LazyDistances)
    assert peak - lazy._rows.nbytes < 8 * d * d / 2
    assert lazy._rows.nbytes <= 512 << 20
    state = strategy.start(space, hints, np.random.default_rng(0))
    _, proposal = strategy.propose(state, np.random.default_rng(1))
    assert proposal.masks.shape == (16, d)


def test_an_ensemble_and_a_warm_start_of_all_columns_of_a_wide_table_take_seconds() -> None:
    names = [f"x{i}" for i in range(100_000)]
    table = pd.DataFrame(np.zeros((4, len(names)), dtype=np.float32), columns=names)
    space = SearchSpace.build(names, costs=dict.fromkeys(names, 2.0))
    before = time.process_time()
    fitted = SubsetEnsemble(DummyClassifier(), [names, names]).fit(table, [0, 1, 0, 1])
    (mask,) = warm_masks([names], space)
    assert time.process_time() - before < 20
    assert [len(subset) for subset in fitted.subsets_] == [len(names)] * 2
    assert mask.all()
