"""Fast paths where costs tie, round or cannot be trusted.

That costs, folds and importances are those of fitted models, whatever the model, its scaler, the
scorer and the table, is the claim of test_fuzz_exact.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from swarm.evaluation.crossval import CrossValidation
from swarm.fastpaths import evaluate_masks, exact_path
from swarm.fastpaths.neighbours import sums_are_exact, whole_columns
from swarm.multilabel import MLkNN
from swarm.problem.problem import Problem


def table(seed: int, n_rows: int = 48, n_columns: int = 7) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows that make ties: repeated ones, whole numbers, a constant and a rare column."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns)) * 10.0 ** rng.integers(-3, 4, n_columns)
    values[:, 0] = rng.integers(0, 3, n_rows)
    values[:, 1] = np.round(values[:, 1], 1)
    values[:, 2] = 4.2
    values[:, 3] = rng.random(n_rows) < 0.1
    values[: n_rows // 6] = values[n_rows // 2 : n_rows // 2 + n_rows // 6]
    names = [f"x{i}" for i in range(n_columns)]
    return pd.DataFrame(values, columns=names), rng.integers(0, 3, n_rows)


def both_ways(problem: Problem, masks: np.ndarray) -> tuple[Any, Any]:
    limits, order = np.full(len(masks), np.inf), np.arange(problem.n_folds)
    with CrossValidation(problem) as short, CrossValidation(problem, exact=False) as long:
        return short.evaluate(masks, limits, order), long.evaluate(masks, limits, order)


def some_masks(problem: Problem, seed: int) -> np.ndarray:
    masks = np.random.default_rng(seed).random((6, problem.space.n_units)) < 0.5
    # One feature alone, for every feature: where ties are most likely.
    return np.vstack([masks[masks.any(axis=1)], np.eye(problem.space.n_units, dtype=bool)])


def assert_same_costs(problem: Problem, masks: np.ndarray) -> None:
    short, long = both_ways(problem, masks)
    if problem.task == "regression":
        # Distances that are summed in another order weigh differently in the last digits.
        assert np.allclose(short.fold_costs, long.fold_costs, rtol=1e-9, atol=0)
    else:
        assert np.array_equal(short.fold_costs, long.fold_costs)


def fold_costs(path: Any, masks: np.ndarray, n_threads: int = 1) -> np.ndarray:
    return evaluate_masks(path, masks, n_threads).costs


def path_of(problem: Problem) -> Any:
    path, reason = exact_path(problem)
    assert path is not None, reason
    return path


def test_decisions_that_are_nothing_but_rounding_are_left_to_models() -> None:
    features = pd.DataFrame({"x": [0.0, 1.0, 2.0] * 20, "z": np.arange(60.0) ** 2})
    # As many of each class at each value: the weight is zero, and so is every decision.
    target = np.repeat([0, 1], 30)
    folds = [(np.r_[0:15, 30:45], np.r_[15:30, 45:60]), (np.r_[15:30, 45:60], np.r_[0:15, 30:45])]
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.01))
    problem = Problem.build(features, target, model, folds=folds)
    masks = np.array([[True, False], [False, True]])
    left = np.isnan(fold_costs(path_of(problem), masks))
    assert left.all(axis=1).tolist() == [True, False]
    assert_same_costs(problem, masks)


def test_costs_depend_neither_on_the_other_masks_of_a_batch_nor_on_threads() -> None:
    features, classes = table(11, n_rows=90, n_columns=12)
    numbers = features["x4"] - features["x1"]
    for model, target in (
        (Ridge(), numbers),
        (KNeighborsRegressor(3, weights="distance"), numbers),
        (KNeighborsClassifier(3), classes),
    ):
        problem = Problem.build(features, target, model)
        path, masks = path_of(problem), some_masks(problem, 11)
        alone = np.vstack([fold_costs(path, mask[None]) for mask in masks])
        for n_threads in (1, 2):
            assert np.array_equal(fold_costs(path, masks, n_threads), alone, equal_nan=True)


TIES = {
    "by tree": KNeighborsClassifier(5),
    "by ball tree": KNeighborsClassifier(4, algorithm="ball_tree", leaf_size=3),
    "by all distances": KNeighborsClassifier(5, algorithm="brute"),
    "weighted": KNeighborsClassifier(6, weights="distance"),
    "numbers": KNeighborsRegressor(5),
    "weighted numbers": KNeighborsRegressor(5, weights="distance"),
}


@pytest.mark.parametrize("name", TIES)
def test_ties_are_settled_by_the_trees_of_the_model_and_the_rest_by_models(name: str) -> None:
    rng = np.random.default_rng(4)
    # Tenths, whose sums round; below and above the 16 columns where trees are no longer used.
    whole = rng.integers(0, 3, (120, 20))
    features = pd.DataFrame(whole * 0.1, columns=[f"x{i}" for i in range(20)])
    target = pd.Series((whole[:, 0] + whole[:, 1] + rng.integers(0, 2, 120)) % 3)
    model = TIES[name]
    numbers = isinstance(model, KNeighborsRegressor)
    scoring = "neg_mean_squared_error" if numbers else "accuracy"
    problem = Problem.build(features, target.to_numpy(), model, folds=4, scoring=scoring)
    widths = np.r_[np.arange(1, 21), np.full(4, 15), np.full(4, 16)]
    masks = np.argsort(rng.random((len(widths), 20)), axis=1) < widths[:, None]
    doubtful = np.isnan(fold_costs(path_of(problem), masks)).any(axis=1)
    asks_a_tree = {"auto": widths <= 15, "brute": widths < 0}.get(model.algorithm, widths > 0)
    assert not doubtful[asks_a_tree].any()
    assert asks_a_tree.all() or doubtful[~asks_a_tree].any()
    assert_same_costs(problem, masks)


def test_ridge_uses_a_column_or_not_as_its_fitted_model_says() -> None:
    # Each column is as often 0 as 1 in either half of the target: coefficients of zero, but for
    # rounding.
    column = np.tile([0.0, 1.0, 0.0, 1.0], 20)
    target = np.tile([0.1, 0.1, 0.7, 0.7], 20)
    features = pd.DataFrame({"a": column, "b": 0.3 * column + 0.7, "c": target + column})
    folds = [(np.arange(40), np.arange(40, 80)), (np.arange(40, 80), np.arange(40))]
    masks = np.array([[True, False, False], [False, True, False], [True, False, True]])
    for model in (Ridge(), Ridge(solver="svd"), LinearRegression()):
        fast, fitted = both_ways(Problem.build(features, target, model, folds=folds), masks)
        assert np.array_equal(fast.used, fitted.used)


def test_costs_have_a_fast_path_for_these_models_scorers_and_tables_and_no_others() -> None:
    features, target = table(9)
    near, bayes, discriminant = KNeighborsClassifier, GaussianNB, LinearDiscriminantAnalysis
    expanded, typed = PolynomialFeatures(1, include_bias=False), features.astype
    probabilities = {"scoring": "roc_auc_ovr"}
    fast: list[tuple[Any, dict[str, Any]]] = [
        (bayes(), {}),
        (near(3), {}),
        (make_pipeline("passthrough", StandardScaler(), near(3)), {}),
        (discriminant(), {}),
        (bayes(), {"scoring": "neg_log_loss"}),
        (near(3), probabilities),
    ]
    fitted: list[tuple[Any, dict[str, Any]]] = [
        (LogisticRegression(), {}),
        # A solver that stops, and one with an arithmetic of its own.
        (RidgeClassifier(solver="lsqr"), {}),
        (discriminant(solver="eigen"), {}),
        (RidgeClassifier(class_weight="balanced"), {}),
        (RidgeClassifier(), {"importance": "refit"}),
        (make_pipeline(expanded, bayes()), {}),
        (bayes(priors=[0.2, 0.3, 0.5]), {}),
        (near(3, p=1), {}),
        (discriminant(), {"scoring": "neg_log_loss"}),
        # Probabilities that differ in the last bits.
        (make_pipeline(StandardScaler(), bayes()), probabilities),
        (near(3, weights="distance"), probabilities),
        (bayes(), {"importance": "permutation"}),
        *((bayes(), {"features": typed({"x0": kind})}) for kind in ("float32", "float16", bool)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, options in (*fast, *fitted):
            given = {"features": features, "importance": "none", **options}
            problem = Problem.build(target=target, estimator=model, **given)
            path, reason = exact_path(problem)
            assert (path is not None) == ((model, options) in fast), (model, options)
            assert reason
            with CrossValidation(problem) as evaluator:
                assert reason in evaluator.method


# ---------------------------------------------------------------- neighbours among whole numbers

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


def test_several_labels_are_those_of_models_for_many_rows() -> None:
    features = whole_table(1, 1300, 2)
    target = labels(2, 1300, 9)  # more than fit into one word of counts
    folds = [(np.arange(700), np.arange(700, 1300)), (np.arange(100, 1300), np.arange(100))]
    problem = Problem.build(features, target, MLkNN(5), folds=folds, scoring="neg_hamming_loss")
    same_and_sure(problem, wide_masks(3, 3, least=4))


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


def test_numbers_too_large_to_add_exactly_are_not_whole_enough() -> None:
    table = np.array([[1.0, 2.0], [0.5, 2.0], [3e7, 1.0], [-9e7, 0.0]])
    whole = whole_columns(table)
    assert whole.tolist() == [True, False, True, True]
    largest = (table**2).max(axis=1)
    assert sums_are_exact(whole, largest, np.array([0, 2]))
    assert not sums_are_exact(whole, largest, np.array([0, 1]))
    assert not sums_are_exact(whole, largest, np.array([0, 3]))
