"""Costs found without models are those of the models, to the last bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

from swarm.evaluation.crossval import CrossValidation
from swarm.fastpaths import exact_path, fold_costs
from swarm.multilabel import MLkNN
from swarm.problem.hints import prepare_hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.strategies.catalogue import make
from tests.fakes import calm

CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "smoothed naive Bayes": GaussianNB(var_smoothing=0.1),
    "scaled naive Bayes": make_pipeline(StandardScaler(), GaussianNB()),
    "nearest": KNeighborsClassifier(3),
    "weighted nearest": KNeighborsClassifier(4, weights="distance"),
    "brute nearest": KNeighborsClassifier(2, algorithm="brute"),
    "scaled nearest": make_pipeline(MinMaxScaler(), KNeighborsClassifier(5)),
}


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


@pytest.mark.parametrize("name", CLASSIFIERS)
@settings(calm, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_classifiers_cost_what_their_models_cost(name: str, seed: int) -> None:
    features, target = table(seed)
    problem = Problem.build(features, target, CLASSIFIERS[name], folds=4)
    assert exact_path(problem)[0] is not None
    short, long = both_ways(problem, some_masks(problem, seed))
    assert np.array_equal(short.fold_costs, long.fold_costs)
    assert np.array_equal(short.costs, long.costs)
    assert np.array_equal(short.needed, long.needed)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@settings(calm, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_regressors_cost_what_their_models_cost(weights: str, seed: int) -> None:
    features, _ = table(seed)
    target = features["x4"] + features["x5"] + 0.01 * np.arange(len(features))
    problem = Problem.build(
        features, target, KNeighborsRegressor(3, weights=weights), scoring="neg_mean_squared_error"
    )
    short, long = both_ways(problem, some_masks(problem, seed))
    # Distances that are summed in another order weigh differently in the last digits.
    assert np.allclose(short.fold_costs, long.fold_costs, rtol=1e-9, atol=0)


LINEAR_CLASSIFIERS = {
    "ridge": RidgeClassifier(),
    "scaled ridge": make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.01)),
    "plain ridge": RidgeClassifier(alpha=5.0, fit_intercept=False),
    "discriminant": LinearDiscriminantAnalysis(),
    "scaled discriminant": make_pipeline(MinMaxScaler(), LinearDiscriminantAnalysis()),
    "shrunk discriminant": make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis("lsqr", shrinkage=0.2)
    ),
    "least squares discriminant": make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis("lsqr")
    ),
}


def test_decisions_that_are_nothing_but_rounding_are_left_to_models() -> None:
    features = pd.DataFrame({"x": [0.0, 1.0, 2.0] * 20, "z": np.arange(60.0) ** 2})
    # As many of each class at each value: the weight is zero, and so is every decision.
    target = np.repeat([0, 1], 30)
    folds = [(np.r_[0:15, 30:45], np.r_[15:30, 45:60]), (np.r_[15:30, 45:60], np.r_[0:15, 30:45])]
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.01))
    problem = Problem.build(features, target, model, folds=folds)
    path = exact_path(problem)[0]
    assert path is not None
    masks = np.array([[True, False], [False, True]])
    assert np.isnan(fold_costs(path, masks, 2)).all(axis=1).tolist() == [True, False]
    short, long = both_ways(problem, masks)
    assert np.array_equal(short.fold_costs, long.fold_costs)


def compare_importances(short: Any, long: Any) -> None:
    assert np.allclose(short.importances, long.importances, rtol=1e-7, atol=1e-12)
    assert np.array_equal(short.used, long.used)


@pytest.mark.parametrize("name", LINEAR_CLASSIFIERS)
@settings(calm, max_examples=4)
@given(seed=st.integers(0, 2**32), n_classes=st.integers(2, 4))
def test_linear_classifiers_cost_and_weigh_what_their_models_do(
    name: str, seed: int, n_classes: int
) -> None:
    features, target = table(seed, n_rows=60)
    features["x2"] = 4.0
    target = (target + 3 * (features["x4"] > 0)) % n_classes
    assume(np.unique(target, return_counts=True)[1].min() >= 3)
    problem = Problem.build(features, target, LINEAR_CLASSIFIERS[name], folds=3)
    assert problem.importance == "fold"
    masks = some_masks(problem, seed)
    path, reason = exact_path(problem)
    assert path is not None, reason
    assert np.isfinite(fold_costs(path, masks, 3)).mean() > 0.2
    short, long = both_ways(problem, masks)
    # A discriminant of a constant column alone cannot be fitted, by either way.
    assert np.array_equal(short.fold_costs, long.fold_costs, equal_nan=True)
    compare_importances(short, long)


LINEAR_REGRESSORS = {
    "ridge": Ridge(),
    "weak ridge": make_pipeline(StandardScaler(), Ridge(1e-6)),
    "ridge by svd": make_pipeline(StandardScaler(), Ridge(0.5, solver="svd")),
    "plain ridge": Ridge(3.0, fit_intercept=False),
    "least squares": LinearRegression(),
    "scaled least squares": make_pipeline(StandardScaler(), LinearRegression()),
}


@pytest.mark.parametrize("name", LINEAR_REGRESSORS)
@settings(calm, max_examples=4)
@given(seed=st.integers(0, 2**32), weighted=st.booleans())
def test_linear_regressors_cost_and_weigh_what_their_models_do(
    name: str, seed: int, weighted: bool
) -> None:
    features, codes = table(seed)
    # Nearly the same column twice, which is where solvers differ first.
    features["x6"] = features["x5"] * (1 + 1e-4 * codes)
    target = features["x4"] + features["x5"] + 0.01 * np.arange(len(features))
    weight = 1.0 * codes + (codes == 0) * 0.5 if weighted else None
    problem = Problem.build(features, target, LINEAR_REGRESSORS[name], weight=weight)
    masks = some_masks(problem, seed)
    path, reason = exact_path(problem)
    assert path is not None, reason
    assert np.isfinite(fold_costs(path, masks, 5)).any()
    short, long = both_ways(problem, masks)
    assert np.allclose(short.fold_costs, long.fold_costs, rtol=1e-8, atol=1e-8)
    compare_importances(short, long)


@pytest.mark.parametrize("scoring", ["neg_hamming_loss", "subset_accuracy"])
@pytest.mark.parametrize("scaled", [False, True])
@settings(calm, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_several_labels_cost_what_their_models_cost(scoring: str, scaled: bool, seed: int) -> None:
    features, target = table(seed, n_rows=60)
    labels = np.stack([target == 0, target == 1, features["x4"] > 0, features["x0"] > 0], axis=1)
    # Nine labels: more than fit into one word of counts.
    labels = np.hstack([labels, ~labels, labels[:, :1]]).astype(int)
    model = make_pipeline(StandardScaler(), MLkNN(4)) if scaled else MLkNN(4)
    folds = [(np.r_[0:30, 45:60], np.r_[30:45]), (np.r_[20:60], np.r_[0:20])]
    problem = Problem.build(features, labels, model, folds=folds, scoring=scoring)
    assert exact_path(problem)[0] is not None
    short, long = both_ways(problem, some_masks(problem, seed))
    assert np.array_equal(short.fold_costs, long.fold_costs)


def test_costs_do_not_depend_on_the_other_masks_of_a_batch() -> None:
    features, _ = table(11)
    target = features["x4"] - features["x1"]
    for model in (Ridge(), KNeighborsRegressor(3, weights="distance")):
        problem = Problem.build(features, target, model)
        path = exact_path(problem)[0]
        assert path is not None
        masks = some_masks(problem, 11)
        alone = np.vstack([fold_costs(path, mask[None], 5) for mask in masks])
        assert np.array_equal(fold_costs(path, masks, 5), alone, equal_nan=True)


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1_macro", "matthews_corrcoef"])
def test_any_scorer_of_labels_will_do(scoring: str) -> None:
    features, target = table(3)
    for model in (GaussianNB(), KNeighborsClassifier(3)):
        problem = Problem.build(features, target, model, scoring=scoring)
        short, long = both_ways(problem, some_masks(problem, 3))
        assert np.array_equal(short.fold_costs, long.fold_costs)


def test_groups_of_features_are_evaluated_as_their_columns() -> None:
    features, target = table(5)
    space = SearchSpace.build(list(features.columns), groups={"pair": ["x4", "x6"]})
    for model in (GaussianNB(), KNeighborsClassifier(3)):
        problem = Problem.build(features, target, model, space=space)
        short, long = both_ways(problem, some_masks(problem, 5))
        assert np.array_equal(short.fold_costs, long.fold_costs)


def test_text_labels_are_predicted_too() -> None:
    features, target = table(6)
    words = np.array(["no", "perhaps", "yes"])[target]
    for model in (GaussianNB(), KNeighborsClassifier(3)):
        problem = Problem.build(features, words, model)
        short, long = both_ways(problem, some_masks(problem, 6))
        assert np.array_equal(short.fold_costs, long.fold_costs)


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
    widths = np.r_[np.arange(1, 21), np.full(12, 15), np.full(12, 16)]
    masks = np.argsort(rng.random((len(widths), 20)), axis=1) < widths[:, None]
    path = exact_path(problem)[0]
    assert path is not None
    doubtful = np.isnan(fold_costs(path, masks, 4)).any(axis=1)
    asks_a_tree = {"auto": widths <= 15, "brute": widths < 0}.get(model.algorithm, widths > 0)
    assert not doubtful[asks_a_tree].any()
    assert asks_a_tree.all() or doubtful[~asks_a_tree].any()
    short, long = both_ways(problem, masks)
    if numbers:
        assert np.allclose(short.fold_costs, long.fold_costs, rtol=1e-9, atol=0)
    else:
        assert np.array_equal(short.fold_costs, long.fold_costs)


@pytest.mark.parametrize("contiguous", [True, False])
def test_scaled_neighbours_tie_as_they_do_in_fitted_models(contiguous: bool) -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 6, (120, 6)).astype(np.float64)
    # A table stored row by row is summed in another order, and some of its subsets are not.
    names = [f"x{i}" for i in range(6)]
    features = pd.DataFrame(whole, columns=names, copy=contiguous)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(5))
    problem = Problem.build(features, rng.integers(0, 2, 120), model, importance="none")
    masks = (np.arange(1, 64)[:, None] >> np.arange(6)) % 2 == 1
    fast, fitted = both_ways(problem, masks)
    assert np.array_equal(fast.fold_costs, fitted.fold_costs)


class LastRows:
    """A tree that takes the last of 60 rows for the nearest."""

    def query(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return np.ones((len(rows), k)), np.tile(np.arange(60 - k, 60), (len(rows), 1))


def test_a_tree_that_answers_otherwise_is_left_to_the_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    features = pd.DataFrame(rng.integers(0, 3, (90, 4)) * 0.1, columns=list("abcd"))
    problem = Problem.build(features, rng.integers(0, 2, 90), KNeighborsClassifier(5), folds=3)
    monkeypatch.setattr("swarm.fastpaths.ties.tree_of", lambda model, train: LastRows())
    masks = np.ones((1, 4), dtype=bool)
    path: Any = exact_path(problem)[0]
    assert np.isnan(fold_costs(path, masks, 3)).any()
    assert path.ties.trust["tree"].broken
    fast, fitted = both_ways(problem, masks)
    assert np.array_equal(fast.fold_costs, fitted.fold_costs)


def test_subsets_left_to_fitted_models_are_counted() -> None:
    rng = np.random.default_rng(4)
    tenths = pd.DataFrame(0.1 * rng.integers(0, 3, (120, 20)), columns=[f"x{i}" for i in range(20)])
    model = KNeighborsClassifier(5, algorithm="brute")
    problem = Problem.build(tenths, rng.integers(0, 3, 120), model, folds=4)
    masks = np.argsort(rng.random((12, 20)), axis=1) < 5
    path = exact_path(problem)[0]
    assert path is not None
    left = int(np.isnan(fold_costs(path, masks, 4)).any(axis=1).sum())
    assert left > 0
    limits = np.full(12, np.inf)
    for exact, expected in ((True, left), (False, 0)):
        with CrossValidation(problem, exact=exact) as evaluator:
            first = evaluator.evaluate(masks, limits, np.arange(4)).work
            again = evaluator.evaluate(masks, limits, np.arange(4)).work
        assert (first.fallbacks, again.fallbacks) == (expected, 0)


def test_steps_that_pass_through_are_no_obstacle() -> None:
    features, target = table(12)
    model = make_pipeline("passthrough", StandardScaler(), KNeighborsClassifier(3))
    problem = Problem.build(features, target, model, importance="none")
    assert exact_path(problem)[0] is not None
    fast, fitted = both_ways(problem, some_masks(problem, 12))
    assert np.array_equal(fast.fold_costs, fitted.fold_costs)


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


def test_ridge_of_more_columns_than_rows_loses_the_digits_of_its_model() -> None:
    rng = np.random.default_rng(2)
    scale = 10.0 ** np.repeat([0, 6], 10)
    features = pd.DataFrame(rng.normal(size=(28, 20)) * scale).add_prefix("x")
    target = rng.normal(size=28)
    problem = Problem.build(features, target, Ridge(fit_intercept=False), folds=2)
    fast, fitted = both_ways(problem, np.ones((1, 20), dtype=bool))
    assert np.allclose(fast.fold_costs, fitted.fold_costs, rtol=1e-8, atol=0)


def test_threads_change_nothing() -> None:
    features, target = table(7, n_rows=90, n_columns=12)
    problem = Problem.build(features, target, KNeighborsClassifier(3))
    path = exact_path(problem)[0]
    assert path is not None
    masks = some_masks(problem, 7)
    one, two = fold_costs(path, masks, 5), fold_costs(path, masks, 5, n_threads=2)
    assert np.array_equal(one, two, equal_nan=True)


def test_a_whole_search_is_the_same_with_models_and_without() -> None:
    features, target = table(8, n_columns=10)
    problem = Problem.build(features, target, GaussianNB())
    hints = prepare_hints(features, problem.space)
    told = []
    for exact in (True, False):
        with CrossValidation(problem, exact=exact) as evaluator:
            search = Search(
                make("multiswarm"), problem.space, evaluator, hints, 4, Budget(epochs=8)
            )
            told.append(run(search).history.to_csv())
    assert told[0] == told[1]


def test_the_way_is_told_with_its_reason() -> None:
    features, target = table(9)
    holes = features.copy()
    holes.iloc[0, 4] = np.nan
    told = {
        "no models are fitted: log-likelihoods": (features, GaussianNB(), {}),
        "no models are fitted: squared distances": (features, KNeighborsClassifier(3), {}),
        "no fast path for LogisticRegression: models are fitted": (
            features,
            LogisticRegression(),
            {"importance": "none"},
        ),
        "the solver 'lsqr', which stops": (features, RidgeClassifier(solver="lsqr"), {}),
        "has class weights": (features, RidgeClassifier(class_weight="balanced"), {}),
        "no models are fitted: LinearDisc": (features, LinearDiscriminantAnalysis(), {}),
        "the solver 'eigen'": (features, LinearDiscriminantAnalysis(solver="eigen"), {}),
        "of the kind 'refit' come": (features, RidgeClassifier(), {"importance": "refit"}),
        "a PolynomialFeatures before": (
            features,
            make_pipeline(PolynomialFeatures(1, include_bias=False), GaussianNB()),
            {"importance": "none"},
        ),
        "GaussianNB has given priors": (features, GaussianNB(priors=[0.2, 0.3, 0.5]), {}),
        "does not use the Euclidean distance": (features, KNeighborsClassifier(3, p=1), {}),
        "the scorer 'neg_log_loss' needs": (features, GaussianNB(), {"scoring": "neg_log_loss"}),
        "come from models": (features, GaussianNB(), {"importance": "permutation"}),
        "column 'x4' is of type float32": (
            features.astype({"x4": np.float32}),
            KNeighborsClassifier(3),
            {},
        ),
        "column 'x1' is of type float16": (
            features.astype({"x1": np.float16}),
            KNeighborsClassifier(3),
            {},
        ),
        "column 'x0' is of type": (features.astype({"x0": bool}), GaussianNB(), {}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for words, (data, model, options) in told.items():
            problem = Problem.build(data, target, model, **options)
            with CrossValidation(problem) as evaluator:
                assert words in evaluator.way
            with CrossValidation(problem, exact=False) as evaluator:
                assert evaluator.way == "models are fitted: as configured"
