"""Fast paths when costs tie, round or cannot be trusted.

test_fuzz_exact tests that costs, folds and importances are those of fitted models, whatever the
model, its scaler, the scorer and the table.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from swarm.arrays import Bool
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.fastpaths import evaluate_masks, exact_path
from swarm.multilabel import MLkNN
from swarm.problem.problem import Problem
from tests.fakes import evaluated


def masks_of(seed: int, n_columns: int) -> Bool:
    """All columns, the first half of them, some, and each alone, where most ties are."""
    rng = np.random.default_rng(seed)
    masks = rng.random((6, n_columns)) < rng.uniform(0.2, 0.8, (6, 1))
    half = np.arange(n_columns) < max(2, n_columns // 2)
    masks = np.vstack([np.ones(n_columns, dtype=bool), half, masks, np.eye(n_columns, dtype=bool)])
    return masks[masks.any(axis=1)]


def fast_and_fitted(problem: Problem, masks: Bool) -> list[Evaluations]:
    return [evaluated(problem, masks, exact=exact) for exact in (True, False)]


def assert_same_costs(problem: Problem, masks: Bool) -> None:
    fast, fitted = (evaluations.fold_costs for evaluations in fast_and_fitted(problem, masks))
    if problem.task == "regression":
        # Distances that are summed in another order weigh differently in the last digits.
        assert np.allclose(fast, fitted, rtol=1e-9, atol=0)
    else:
        assert np.array_equal(fast, fitted)


def path_of(problem: Problem) -> Any:
    path, reason = exact_path(problem)
    assert path is not None, reason
    return path


def fold_costs(path: Any, masks: Bool, n_threads: int = 1) -> Any:
    """Costs (n, n_folds), NaN where a path leaves the answer to a model."""
    return evaluate_masks(path, masks, range(path._problem.n_folds), n_threads).costs


def left_to_models(problem: Problem, masks: Bool) -> Any:
    """Whether the path of a problem leaves any fold of each mask to a model."""
    return np.isnan(fold_costs(path_of(problem), masks)).any(axis=1)


def test_costs_depend_neither_on_the_other_masks_of_a_batch_nor_on_threads() -> None:
    rng = np.random.default_rng(11)
    features = pd.DataFrame(rng.normal(size=(60, 10)).round(1)).add_prefix("x")
    numbers, classes = features["x4"] - features["x1"], rng.integers(0, 3, 60)
    for model, target in (
        (Ridge(), numbers),
        (KNeighborsRegressor(3, weights="distance"), numbers),
        (KNeighborsClassifier(3), classes),
    ):
        path, masks = path_of(Problem.build(features, target, model)), masks_of(11, 10)
        alone = np.vstack([fold_costs(path, mask[None]) for mask in masks])
        for n_threads in (1, 2):
            assert np.array_equal(fold_costs(path, masks, n_threads), alone, equal_nan=True)


@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(3), GaussianNB(), RidgeClassifier(), Ridge()]
)
def test_costs_of_some_folds_are_those_of_all_folds(model: Any) -> None:
    rng = np.random.default_rng(3)
    features = pd.DataFrame(rng.normal(size=(60, 10)).round(1)).add_prefix("x")
    target = features["x1"] if isinstance(model, Ridge) else rng.integers(0, 3, 60)
    problem, masks = Problem.build(features, target, model), masks_of(3, 10)
    path = path_of(problem)
    costs = evaluate_masks(path, masks, [1, 3]).costs
    expected = fold_costs(path, masks)
    assert np.array_equal(costs[:, [1, 3]], expected[:, [1, 3]], equal_nan=True)
    assert not np.isnan(costs[:, [1, 3]]).all()


def test_costs_have_a_fast_path_for_these_models_scorers_and_tables_and_no_others() -> None:
    rng = np.random.default_rng(9)
    features = pd.DataFrame(rng.normal(size=(48, 3)).round(1)).add_prefix("x")
    target = rng.integers(0, 3, 48)
    near, bayes = KNeighborsClassifier, GaussianNB
    expanded, typed = PolynomialFeatures(1, include_bias=False), features.astype
    probabilities = {"scoring": "roc_auc_ovr"}
    fast: list[tuple[Any, dict[str, Any]]] = [
        (bayes(), {}),
        (near(3), {}),
        (make_pipeline("passthrough", StandardScaler(), near(3)), {}),
        (RidgeClassifier(), {}),
        (bayes(), {"scoring": "neg_log_loss"}),
        (near(3), probabilities),
    ]
    fitted: list[tuple[Any, dict[str, Any]]] = [
        (LogisticRegression(), {}),
        (LinearDiscriminantAnalysis(), {}),
        # This solver stops before the solution.
        (RidgeClassifier(solver="lsqr"), {}),
        (RidgeClassifier(class_weight="balanced"), {}),
        (make_pipeline(expanded, bayes()), {}),
        (bayes(priors=[0.2, 0.3, 0.5]), {}),
        (near(3, p=1), {}),
        (RidgeClassifier(), {"scoring": "top_k_accuracy"}),
        # The last bits of these probabilities differ.
        (make_pipeline(StandardScaler(), bayes()), probabilities),
        (near(3, weights="distance"), probabilities),
        (bayes(), {"importance": "permutation"}),
        (bayes(), {"weight": np.ones(48)}),
        *((bayes(), {"X": typed({"x0": dtype})}) for dtype in ("float32", "float16", bool)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, options in (*fast, *fitted):
            given = {"X": features, "importance": "none", **options}
            problem = Problem.build(y=target, estimator=model, **given)
            path, reason = exact_path(problem)
            assert (path is not None) == ((model, options) in fast), (model, options)
            assert reason
            with CrossValidation(problem) as evaluator:
                assert reason in evaluator.method


# ---------------------------------------------------------------- linear models


def test_decisions_that_are_nothing_but_rounding_are_left_to_models() -> None:
    features = pd.DataFrame({"x": [0.0, 1.0, 2.0] * 20, "z": np.arange(60.0) ** 2})
    # Every value has as many rows of each class: the weight is zero, and so is every decision.
    target = np.repeat([0, 1], 30)
    folds = [(np.r_[0:15, 30:45], np.r_[15:30, 45:60]), (np.r_[15:30, 45:60], np.r_[0:15, 30:45])]
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.01))
    problem = Problem.build(features, target, model, folds=folds)
    masks = np.array([[True, False], [False, True]])
    left = np.isnan(fold_costs(path_of(problem), masks))
    assert left.all(axis=1).tolist() == [True, False]
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
        problem = Problem.build(features, target, model, folds=folds)
        fast, fitted = fast_and_fitted(problem, masks)
        assert np.array_equal(fast.used, fitted.used)


# ---------------------------------------------------------------- nearest neighbours

N_COLUMNS = 20


def whole_table(seed: int, n_rows: int, values: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.integers(0, values, (n_rows, N_COLUMNS)).astype(float)).add_prefix("x")


def wide_masks(seed: int, count: int, least: int = 16) -> Bool:
    """Masks of at least so many columns; beyond 15 scikit-learn uses no trees."""
    rng = np.random.default_rng(seed)
    widths = rng.integers(least, N_COLUMNS + 1, count)
    return np.argsort(rng.random((count, N_COLUMNS)), axis=1) < widths[:, None]


def near(features: pd.DataFrame, n_labels: int, folds: Any) -> Problem:
    """Neighbours that vote on this number of labels, or on a class if it is 0."""
    target = np.random.default_rng(6).integers(0, 2, (len(features), max(1, n_labels)))
    target[:2] = [[0], [1]]
    if n_labels:
        return Problem.build(features, target, MLkNN(4), folds=folds, scoring="neg_hamming_loss")
    return Problem.build(features, target[:, 0], KNeighborsClassifier(4), folds=folds)


TIES = {
    "by tree": KNeighborsClassifier(5),
    "by ball tree": KNeighborsClassifier(4, algorithm="ball_tree", leaf_size=3),
    "weighted numbers": KNeighborsRegressor(5, weights="distance"),
}


@pytest.mark.parametrize("name", TIES)
def test_ties_are_settled_by_the_trees_of_the_model_and_the_rest_by_models(name: str) -> None:
    # Tenths, whose sums round; below and above the 16 columns where trees are no longer used.
    rng, features = np.random.default_rng(4), whole_table(4, 80, 3)
    target = (features["x0"] + features["x1"] + rng.integers(0, 2, 80)) % 3
    model = TIES[name]
    numbers = isinstance(model, KNeighborsRegressor)
    scoring = "neg_mean_squared_error" if numbers else "accuracy"
    problem = Problem.build(0.1 * features, target, model, folds=2, scoring=scoring)
    widths = np.array([1, 2, 4, 8, 14, 15, 15, 16, 16, 17, 20])
    masks = np.argsort(rng.random((len(widths), N_COLUMNS)), axis=1) < widths[:, None]
    doubtful = left_to_models(problem, masks)
    asks_a_tree = widths <= (20 if model.algorithm == "ball_tree" else 15)
    assert not doubtful[asks_a_tree].any()
    assert asks_a_tree.all() or doubtful[~asks_a_tree].any()
    assert_same_costs(problem, masks)


@pytest.mark.parametrize(
    ("n_rows", "n_labels", "least"),
    # Beyond one chunk of rows, of either side; more labels than fit into one word of counts.
    [(2100, 0, 16), (300, 9, 4)],
)
def test_ties_of_whole_numbers_need_no_models_however_many_rows(
    n_rows: int, n_labels: int, least: int
) -> None:
    # More and fewer rows to train on than to ask: scikit-learn goes along the longer side.
    for cut in (n_rows // 4, n_rows // 2 + 40):
        parts = (np.arange(cut), np.arange(cut, n_rows))
        problem = near(whole_table(n_rows, n_rows), n_labels, [parts, parts[::-1]])
        masks = wide_masks(n_rows, 2, least)
        assert not left_to_models(problem, masks).any()
        assert_same_costs(problem, masks)


def last_ones(distances: Any, neighbours: Any) -> None:
    """Keep the last of rows that tie."""
    n = distances.shape[1]
    backwards = np.argsort(distances[:, ::-1], axis=1, kind="stable")
    neighbours[:] = n - 1 - backwards[:, : neighbours.shape[1]]


class LastRows:
    """A tree that takes the last of 60 rows for the nearest."""

    def query(self, rows: Any, k: int) -> Any:
        return np.ones((len(rows), k)), np.tile(np.arange(60 - k, 60), (len(rows), 1))


@pytest.mark.parametrize(
    ("broken", "target", "replacement"),
    [
        ("tree", "swarm.fastpaths.nearest.tree_of", lambda model, train: LastRows()),
        ("heap", "swarm.fastpaths.nearest.heap_neighbours", last_ones),
        ("", "swarm.multilabel.MLkNN.predict", lambda _self, X: np.zeros((len(X), 3), dtype=int)),
    ],
)
def test_a_rule_that_models_do_not_follow_is_used_no_more(
    broken: str, target: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = near(whole_table(6, 90), 0 if broken else 3, 3)
    path, masks = path_of(problem), wide_masks(6, 8)
    if broken == "tree":
        masks = masks & (np.arange(N_COLUMNS) < 4) | (np.arange(N_COLUMNS) == 0)
    monkeypatch.setattr(target, replacement)
    assert np.isnan(fold_costs(path, masks)).any(axis=1).all()
    trust = path.trust if broken else {"": path.trust}
    assert [algorithm for algorithm in trust if trust[algorithm].broken] == [broken]
    monkeypatch.undo()
    assert np.isnan(fold_costs(path, masks)).any(axis=1).all()
    assert_same_costs(problem, masks)


def clusters(n_rows: int = 60) -> pd.DataFrame:
    """Six groups of rows far apart, one after the other."""
    rng = np.random.default_rng(8)
    centres = 50.0 * np.repeat(np.arange(6), n_rows // 6)[:, None]
    return pd.DataFrame(centres + rng.normal(size=(n_rows, 5))).add_prefix("x")


LABEL_CASES: dict[str, tuple[pd.DataFrame, int, Any]] = {
    # All near rows are left out, so that no list of near rows has enough of the others.
    "a group of rows is a fold": (clusters(), 8, KFold(6)),
    "one row a fold": (clusters(30), 3, LeaveOneOut()),
    "rows in several folds": (
        clusters(),
        5,
        RepeatedKFold(n_splits=3, n_repeats=3, random_state=0),
    ),
    "rows in no fold": (
        clusters(),
        3,
        ShuffleSplit(2, test_size=0.2, train_size=0.3, random_state=0),
    ),
    "nearly all rows are neighbours": (clusters(), 38, KFold(3, shuffle=True, random_state=0)),
    "as many values as blocks": (clusters(300), 12, KFold(2, shuffle=True, random_state=0)),
    "nothing but ties": (0.0 * clusters(150), 4, KFold(3)),
    "one far row": (clusters() * (1.0 + 1e9 * (np.arange(60) == 7))[:, None], 4, KFold(3)),
}


@pytest.mark.parametrize("name", LABEL_CASES)
@pytest.mark.parametrize("n_labels", [3, 9])
def test_labels_are_those_of_fitted_models_whatever_the_folds_leave_out(
    name: str, n_labels: int
) -> None:
    features, k, splitter = LABEL_CASES[name]
    labels = np.random.default_rng(6).integers(0, 2, (len(features), n_labels))
    folds = list(splitter.split(features))
    problem = Problem.build(
        features, labels, MLkNN(k), folds=folds, scoring="neg_hamming_loss", importance="none"
    )
    masks = np.vstack([np.eye(5, dtype=bool), np.tril(np.ones((5, 5), dtype=bool))])
    assert_same_costs(problem, masks)
    if name in ("a group of rows is a fold", "one row a fold"):
        assert not left_to_models(problem, masks).any()


# ---------------------------------------------------------------- naive Bayes


def bayes(kind: str, n_columns: int, n_rows: int = 60, **options: Any) -> Problem:
    """Three classes in a table that lies in memory as pandas reads it and a split picks rows."""
    rng = np.random.default_rng(n_columns)
    values = rng.normal(size=(n_rows, n_columns)) * 10.0 ** rng.integers(-3, 4, n_columns)
    whole = rng.integers(0, 2, (n_rows, n_columns))
    is_whole = {"whole": 1.0, "real": 0.0, "mixed": 0.5}[kind] > rng.random(n_columns)
    columns = {f"x{j}": (whole if is_whole[j] else values)[:, j] for j in range(n_columns)}
    frame = pd.DataFrame(columns).iloc[rng.permutation(n_rows)].reset_index(drop=True)
    given = {"folds": 3, "importance": "none", **options}
    return Problem.build(frame, np.arange(n_rows) % 3, GaussianNB(), **given)


def test_yes_and_no_features_are_settled_without_models() -> None:
    spread = 5
    rng = np.random.default_rng(spread)
    columns = {f"x{j}": rng.integers(0, 2, 80) * (j % spread + 1) for j in range(9)}
    features = pd.DataFrame(columns).iloc[np.arange(80)]
    target = (features["x0"] > 0) + (features["x1"] > 0).astype(int) * rng.integers(0, 2, 80)
    # Columns that never vary within a class are what makes likelihoods huge.
    features["x2"] = (target == 1).astype(int)
    problem = Problem.build(features, target, GaussianNB(), folds=4, importance="none")
    masks = masks_of(spread, 9)
    masks = masks[masks.sum(axis=1) >= 2]
    assert not left_to_models(problem, masks).any()
    assert_same_costs(problem, masks)


def test_folds_worked_on_one_by_one_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # NumPy sums more than 8 numbers, and more than 128, in an order of its own.
    problem, masks = bayes("mixed", 140, folds=4, scoring="f1_macro"), masks_of(2, 140)[:8]
    together = path_of(problem)
    monkeypatch.setattr("swarm.fastpaths.naive_bayes._MAX_CACHED_NUMBERS", 50)
    alone = path_of(problem)
    assert len(alone.blocks) == 4
    assert all(block._squares is None for block in alone.blocks)
    assert np.array_equal(fold_costs(alone, masks), fold_costs(together, masks), equal_nan=True)
    assert_same_costs(problem, masks)
