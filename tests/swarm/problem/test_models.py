"""Tests of models: determinism, importances, and subsets that shrink without a new fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.errors import ConfigError
from swarm.problem.models import make_deterministic, shrinks_exactly
from swarm.problem.problem import Problem
from swarm.strategies.operators.memory import shrink
from tests.fakes import evaluated, some_masks

Bool = NDArray[np.bool_]
Table = tuple[pd.DataFrame, "pd.Series[int]"]
SMALL = {"n_estimators": 6, "num_leaves": 5, "importance_type": "gain"}


def cancer() -> Table:
    data = load_breast_cancer(as_frame=True)
    # Columns are in the canonical order, so that masks of a problem are masks of this table.
    return data.data.iloc[:300].sort_index(axis=1), data.target.iloc[:300]


def mixed() -> Table:
    rng = np.random.default_rng(0)
    table, target = cancer()
    table = table.iloc[:, :9].copy()
    for width in (3, 8, 20):
        table[f"kind{width}"] = pd.Categorical(rng.integers(0, width, len(table)).astype(str))
    table["count"] = rng.integers(0, 9, len(table))
    table["flag"] = rng.random(len(table)) < 0.5
    table.iloc[::7, 2] = np.nan
    table.iloc[::3, 0] = np.nan
    return table, target


def one_hot(n_rows: int = 600) -> Table:
    """Return columns that are never on together, as of an encoder, and some that rarely are."""
    rng = np.random.default_rng(1)
    level = rng.integers(0, 10, n_rows)
    table = pd.DataFrame({f"level{i}": (level == i).astype(float) for i in range(10)})
    for i in range(6):
        table[f"rare{i}"] = (rng.random(n_rows) < 0.08) * rng.integers(1, 5, n_rows)
    table["amount"] = rng.normal(size=n_rows)
    score = (level % 3 == 0) + table["rare0"] + 0.3 * table["amount"]
    return table, pd.Series((score + rng.normal(size=n_rows) * 0.5 > 0.8).astype(int))


def noise() -> Table:
    """Return a table in which some trees find nothing to split on."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(120, 6)), columns=list("abcdef"))
    return table, pd.Series((table["f"] + 2 * rng.normal(size=120) > 0).astype(int))


TABLES = {"cancer": cancer, "mixed": mixed, "one_hot": one_hot, "noise": noise}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rows": {"subsample": 0.7, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss", "n_estimators": 15},
    "dart": {"boosting_type": "dart"},
    "row_wise": {"force_row_wise": True},
    "quantised": {"use_quantized_grad": True},
    "stumps": {"num_leaves": 2, "n_estimators": 2, "min_child_samples": 40},
}


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        *((name, "plain") for name in ("cancer", "mixed", "one_hot")),
        *(("cancer", name) for name in ("goss", "dart", "quantised")),
        ("noise", "stumps"),
        ("mixed", "rows"),
        ("one_hot", "row_wise"),
    ],
)
def test_a_subset_without_its_unused_features_has_exactly_the_recorded_cost(
    table: str, setting: str
) -> None:
    X, y = TABLES[table]()
    model = LGBMClassifier(**{**SMALL, **SETTINGS[setting]})
    problem = Problem.build(X, y, model, scoring="neg_log_loss", folds=3)
    assert problem.exact_shrink == (setting != "quantised")
    masks = np.unique(some_masks(6, X.shape[1]), axis=0)
    recorded = evaluated(problem, masks)
    assert recorded.work.fits == len(masks) * 3
    smaller = shrink(masks, recorded.used, problem.space)
    assert (smaller != masks).any()
    measured = evaluated(problem, smaller)
    if problem.exact_shrink:
        assert np.array_equal(recorded.costs, measured.costs)
        assert np.array_equal(recorded.fold_costs, measured.fold_costs)
        assert np.array_equal(recorded.importances, measured.importances)
        assert np.array_equal(measured.used, shrink(measured.used, measured.used, problem.space))


def test_settings_under_which_features_depend_on_each_other_do_not_shrink_exactly() -> None:
    X = cancer()[0]
    assert shrinks_exactly(LGBMClassifier(), X)
    assert not shrinks_exactly(RandomForestClassifier(), X)
    for setting in (
        {"colsample_bytree": 0.9},
        {"sub_feature": 0.5},
        {"feature_fraction_bynode": 0.5},
        {"extra_trees": True},
        {"interaction_constraints": [[0, 1]]},
        {"monotone_constraints": [1] * 30},
        {"mc": [1] * 30},
        {"feature_contri": [0.5] * 30},
        {"linear_tree": True},
        {"max_bin_by_feature": [9] * 30},
        {"categorical_feature": [0]},
        {"use_quantized_grad": True},
    ):
        assert not shrinks_exactly(LGBMClassifier(**setting), X), setting


def bundled() -> pd.DataFrame:
    """Return so many rows that LightGBM bundles columns that are sometimes on together."""
    rng = np.random.default_rng(1)
    n = 15000
    X = pd.DataFrame({f"s{i}": (rng.random(n) < 0.008) * rng.integers(1, 4, n) for i in range(12)})
    return X.assign(n=rng.normal(size=n))


def test_columns_that_lose_values_in_a_bundle_do_not_shrink_exactly() -> None:
    X = bundled()
    model = make_deterministic(LGBMClassifier(), 0)
    assert not shrinks_exactly(model, X)
    assert shrinks_exactly(clone(model).set_params(enable_bundle=False), X)
    assert shrinks_exactly(model, X.iloc[:9999])
    assert not shrinks_exactly(clone(model).set_params(subsample_for_bin=2000), X.iloc[:9999])
    dense = pd.DataFrame(np.random.default_rng(0).normal(size=(10500, 3)), columns=list("abc"))
    assert shrinks_exactly(LGBMClassifier(), dense)
    assert not shrinks_exactly(LGBMClassifier(max_bin=4), dense)
    halves = dense.assign(a=(dense["a"] > 0) * 1.0, b=(dense["a"] <= 0) * 1.0)
    assert not shrinks_exactly(LGBMClassifier(), halves)


def fold_models(problem: Problem, names: list[str]) -> list[Any]:
    X = problem.features.loc[:, names]
    y = problem.target
    return [clone(problem.estimator).fit(X.iloc[rows], y[rows]) for rows, _ in problem.folds]


def test_fold_importances_are_the_mean_over_the_fold_models_and_never_truncated() -> None:
    X, y = cancer()
    problem = Problem.build(X, y, LGBMClassifier(**SMALL), folds=3)
    mask = some_masks(1, X.shape[1])
    answers = evaluated(problem, mask)
    gains = [model.feature_importances_ for model in fold_models(problem, list(X.columns[mask[0]]))]
    assert answers.importances.dtype == np.float64
    assert np.array_equal(answers.importances[0, mask[0]], np.sum(gains, axis=0) / 3)
    assert (answers.importances[0, ~mask[0]] == 0).all()
    # Gains are below one if sample weights are so small.
    small = LGBMClassifier(**SMALL, min_child_weight=0, min_child_samples=5)
    problem = Problem.build(X, y, small, weight=np.full(len(y), 1e-3), folds=3)
    tiny = evaluated(problem, mask)
    inside = tiny.importances[0, mask[0]]
    assert ((inside > 0) & (inside < 1)).any()
    assert (tiny.used[0, mask[0]] == (inside > 0)).all()


def test_coefficients_are_importances_by_their_size_averaged_over_classes() -> None:
    X, y = cancer()
    y = pd.Series(pd.cut(X["mean radius"], 3, labels=False).to_numpy())
    scaled = (X - X.mean()) / X.std()
    problem = Problem.build(scaled.iloc[:, :6], y, LogisticRegression(), folds=3)
    everything = np.ones((1, 6), dtype=bool)
    answers = evaluated(problem, everything)
    sizes = [
        np.abs(model.coef_).mean(axis=0) for model in fold_models(problem, list(X.columns[:6]))
    ]
    np.testing.assert_allclose(answers.importances[0], np.mean(sizes, axis=0), rtol=1e-9)
    assert not answers.exact_shrink


def test_permutation_importances_are_those_of_scikit_learn_on_the_test_rows() -> None:
    X, y = cancer()
    X = X.iloc[:, :5]
    model = KNeighborsClassifier()
    problem = Problem.build(X, y, model, importance="permutation", folds=3)
    answers = evaluated(problem, np.ones((1, 5), dtype=bool))
    options: dict[str, Any] = {"scoring": "accuracy", "n_repeats": 3, "random_state": 0}
    expected = []
    for train, test in problem.folds:
        fitted = clone(model).fit(X.iloc[train], y.iloc[train])
        measured = permutation_importance(fitted, X.iloc[test], y.iloc[test], **options)
        expected.append(measured.importances_mean)
    np.testing.assert_allclose(answers.importances[0], np.mean(expected, axis=0), atol=1e-15)


def test_lightgbm_is_made_deterministic_quiet_and_single_threaded() -> None:
    pipeline = make_pipeline(StandardScaler(), LGBMClassifier())
    for estimator in (LGBMClassifier(n_jobs=-1), LGBMRegressor(num_threads=4), pipeline):
        model = make_deterministic(estimator, seed=7)
        boosted = model.steps[-1][1] if hasattr(model, "steps") else model
        params = boosted.get_params()
        assert params["deterministic"] is True
        assert params["force_col_wise"] is True
        assert (params["n_jobs"], params["verbosity"], params["random_state"]) == (1, -1, 7)
        assert params.get("num_threads", 1) == 1


def test_splitters_and_models_within_a_model_are_seeded() -> None:
    shuffled = StratifiedKFold(3, shuffle=True)
    search = GridSearchCV(
        make_pipeline(GaussianNB()),
        {"gaussiannb": [RandomForestClassifier(5), RandomForestClassifier(3)]},
        cv=shuffled,
    )
    seeded = make_deterministic(search, 7)
    assert seeded.cv.random_state == 7
    assert [forest.random_state for forest in seeded.param_grid["gaussiannb"]] == [7, 7]
    assert shuffled.random_state is None
    assert search.param_grid["gaussiannb"][0].random_state is None
    in_order = make_deterministic(GridSearchCV(GaussianNB(), {}, cv=KFold(3)), 7)
    assert in_order.cv.random_state is None


def test_what_the_user_set_is_kept_and_the_estimator_is_not_touched() -> None:
    estimator = LGBMClassifier(random_state=3, verbosity=0, force_row_wise=True)
    before = estimator.get_params()
    params = make_deterministic(estimator, seed=7).get_params()
    assert estimator.get_params() == before
    assert (params["random_state"], params["verbosity"]) == (3, 0)
    assert "force_col_wise" not in params
    forest = make_deterministic(RandomForestClassifier(n_jobs=4), seed=7)
    assert (forest.random_state, forest.n_jobs) == (7, 1)
    model = make_pipeline(RandomForestClassifier(random_state=np.random.RandomState(0)))
    with pytest.raises(ConfigError, match="randomforestclassifier__random_state"):
        make_deterministic(model, 0)
