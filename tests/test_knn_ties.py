"""Claims on rows that are equally far away, where columns hold whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

from swarm.fastpaths.nearest import heap_neighbours
from swarm.fastpaths.neighbours import Trust, sums_are_exact, whole_columns
from swarm.multilabel import MLkNN
from swarm.problem.problem import Problem
from tests.fakes import calm
from tests.test_exact_paths import assert_same_costs, fold_costs, path_of

N_COLUMNS = 20


def whole_table(seed: int, n_rows: int, values: int, kind: Any = np.float64) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, values, (n_rows, N_COLUMNS))
    return pd.DataFrame(numbers.astype(kind), columns=[f"x{i}" for i in range(N_COLUMNS)])


def wide_masks(seed: int, count: int = 4, least: int = 16) -> np.ndarray:
    """Masks of at least so many columns; beyond 15 scikit-learn uses no trees."""
    rng = np.random.default_rng(seed)
    widths = rng.integers(least, N_COLUMNS + 1, count)
    return np.argsort(rng.random((count, N_COLUMNS)), axis=1) < widths[:, None]


def labels(seed: int, n_rows: int, count: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, 2, (n_rows, count))
    drawn[:2] = [[0], [1]]
    return drawn


def same_and_sure(problem: Problem, masks: np.ndarray) -> None:
    """Nothing is left to a model, and nothing differs from what models cost."""
    assert not np.isnan(fold_costs(path_of(problem), masks)).any()
    assert_same_costs(problem, masks)


seeds = st.integers(0, 2**32)


@pytest.mark.slow
@settings(calm, max_examples=8)
@given(
    seed=seeds,
    k=st.integers(1, 7),
    n_rows=st.integers(40, 90),
    values=st.integers(2, 4),
    kind=st.sampled_from([np.float64, np.int64, np.int8]),
)
def test_costs_are_those_of_models(seed: int, k: int, n_rows: int, values: int, kind: Any) -> None:
    features, rng = whole_table(seed, n_rows, values, kind), np.random.default_rng(seed + 1)
    classes, numbers = rng.permutation(np.arange(n_rows) % 3), rng.normal(size=n_rows)
    brute = KNeighborsClassifier(k, algorithm="brute", metric="euclidean")
    # Scaled to 0 and 1, two values stay whole.
    several = make_pipeline(MinMaxScaler(), MLkNN(k)) if values == 2 else MLkNN(k)
    for model, target, scoring, least in (
        (KNeighborsClassifier(k), classes, "accuracy", 16),
        (brute, classes, "accuracy", 1),
        (KNeighborsRegressor(k), numbers, "neg_mean_squared_error", 16),
        (several, labels(seed, n_rows), "subset_accuracy", 1),
    ):
        problem = Problem.build(features, target, model, folds=3, scoring=scoring)
        same_and_sure(problem, wide_masks(seed, least=least))


@settings(calm, max_examples=4)
@given(seed=seeds, k=st.integers(1, 7))
def test_columns_of_several_types_are_looked_through_as_models_do(seed: int, k: int) -> None:
    features = whole_table(seed, 60, 2)
    rng = np.random.default_rng(seed)
    types = rng.choice(["float64", "float32", "int64", "int16", "uint64"], N_COLUMNS)
    features = features.astype(dict(zip(features.columns, types, strict=True)))
    target = rng.permutation(np.arange(60) % 3)
    of_a_type = np.stack([types == kind for kind in np.unique(types)])
    for model in (KNeighborsClassifier(k), make_pipeline(MinMaxScaler(), KNeighborsClassifier(k))):
        problem = Problem.build(features, target, model, folds=3)
        assert_same_costs(problem, np.vstack([wide_masks(seed), of_a_type]))


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("n_rows", [700, 2100])
def test_classes_are_those_of_models_beyond_one_chunk_of_rows(n_rows: int, kind: Any) -> None:
    features = whole_table(n_rows, n_rows, 2, kind)
    target = np.random.default_rng(5).integers(0, 2, n_rows)
    # More and fewer rows to train on than to ask: scikit-learn goes along the longer side.
    for cut in (n_rows // 4, n_rows // 2 + 40):
        parts = (np.arange(cut), np.arange(cut, n_rows))
        problem = Problem.build(
            features, target, KNeighborsClassifier(7), folds=[parts, parts[::-1]]
        )
        same_and_sure(problem, wide_masks(n_rows, 2))


@settings(calm, max_examples=10)
@given(seed=seeds, k=st.integers(1, 7), n_train=st.integers(8, 1400))
def test_the_heap_keeps_the_neighbours_of_scikit_learn(seed: int, k: int, n_train: int) -> None:
    train = whole_table(seed, n_train, 3).to_numpy()
    test = whole_table(seed + 1, 40, 3).to_numpy()
    distance = ((test[:, None] - train) ** 2).sum(axis=2)
    who = np.empty((len(test), k), dtype=np.int64)
    heap_neighbours(distance, who)
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(train)
    with threadpool_limits(1):
        told = model.kneighbors(test, return_distance=False)
    assert np.array_equal(np.sort(who), np.sort(told))


def test_several_labels_are_those_of_models_for_many_rows() -> None:
    features = whole_table(1, 1300, 2)
    target = labels(2, 1300, 9)  # more than fit into one word of counts
    folds = [(np.arange(700), np.arange(700, 1300)), (np.arange(100, 1300), np.arange(100))]
    problem = Problem.build(features, target, MLkNN(5), folds=folds, scoring="neg_hamming_loss")
    same_and_sure(problem, wide_masks(3, 3, least=4))


def test_rows_out_of_order_are_left_to_the_model_of_several_labels() -> None:
    features = whole_table(1, 60, 2)
    folds = [(np.random.default_rng(3).permutation(40), np.arange(40, 60))]
    problem = Problem.build(
        features, labels(2, 60), MLkNN(3), folds=folds, scoring="subset_accuracy"
    )
    masks = wide_masks(0, 6, least=2)
    assert np.isnan(fold_costs(path_of(problem), masks)).any()
    assert_same_costs(problem, masks)


@pytest.mark.parametrize("several", [False, True])
def test_a_fraction_among_whole_numbers_leaves_ties_to_models(several: bool) -> None:
    features = whole_table(4, 90, 2)
    features["x0"] += 0.1
    target = labels(4, 90) if several else labels(4, 90)[:, 0]
    scoring = "subset_accuracy" if several else "accuracy"
    model = MLkNN(4) if several else KNeighborsClassifier(4)
    problem = Problem.build(features, target, model, folds=3, scoring=scoring)
    masks = wide_masks(4, 8)
    masks[:4, 0], masks[4:, 0] = True, False
    masks[4:, 1:18] = True
    doubtful = np.isnan(fold_costs(path_of(problem), masks)).any(axis=1)
    assert doubtful[:4].all()
    assert not doubtful[4:].any()
    assert_same_costs(problem, masks)


def last_ones(distance: np.ndarray, who: np.ndarray) -> None:
    """Keep the last of rows that tie."""
    n = distance.shape[1]
    backwards = np.argsort(distance[:, ::-1], axis=1, kind="stable")
    who[:] = n - 1 - backwards[:, : who.shape[1]]


class LastRows:
    """A tree that takes the last of 60 rows for the nearest."""

    def query(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((len(rows), k)), np.tile(np.arange(60 - k, 60), (len(rows), 1))


@pytest.mark.parametrize(
    ("broken", "of", "wrong"),
    [
        ("tree", "swarm.fastpaths.nearest.tree_of", lambda model, train: LastRows()),
        ("heap", "swarm.fastpaths.nearest.heap_neighbours", last_ones),
        ("", "swarm.multilabel.MLkNN.predict", lambda _self, X: np.zeros((len(X), 3), dtype=int)),
    ],
)
def test_a_rule_that_models_do_not_follow_is_used_no_more(
    broken: str, of: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    several, target = not broken, labels(6, 90)
    model = MLkNN(4) if several else KNeighborsClassifier(4)
    scoring = "subset_accuracy" if several else "accuracy"
    features, given = whole_table(6, 90, 2), target if several else target[:, 0]
    problem = Problem.build(features, given, model, folds=3, scoring=scoring)
    path, masks = path_of(problem), wide_masks(6, 8)
    if broken == "tree":
        masks = masks & (np.arange(N_COLUMNS) < 4) | (np.arange(N_COLUMNS) == 0)
    monkeypatch.setattr(of, wrong)
    assert np.isnan(fold_costs(path, masks)).any(axis=1).all()
    trust = {"": path.trust} if several else path.trust
    assert [way for way in trust if trust[way].broken] == [broken]
    monkeypatch.undo()
    assert np.isnan(fold_costs(path, masks)).any(axis=1).all()
    assert_same_costs(problem, masks)


def test_models_are_asked_until_they_have_confirmed_enough_rows() -> None:
    asked = []
    trust = Trust()
    for _ in range(10):
        assert trust.holds(20, lambda: not asked.append(1))
    assert len(asked) == 4
    assert trust.earned
    other = Trust()
    assert other.holds(20, lambda: True)
    assert not other.holds(20, lambda: False)
    assert not other.holds(1000, lambda: True)
    assert not other.earned


def test_numbers_too_large_to_add_exactly_are_not_whole_enough() -> None:
    table = np.array([[1.0, 2.0], [0.5, 2.0], [3e7, 1.0], [-9e7, 0.0]])
    whole = whole_columns(table)
    assert whole.tolist() == [True, False, True, True]
    largest = (table**2).max(axis=1)
    assert sums_are_exact(whole, largest, np.array([0, 2]))
    assert not sums_are_exact(whole, largest, np.array([0, 1]))
    assert not sums_are_exact(whole, largest, np.array([0, 3]))
