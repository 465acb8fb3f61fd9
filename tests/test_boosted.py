"""Claims on the direct way to LightGBM: not a bit of any answer differs from the wrapper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.evaluation import fitting
from swarm.evaluation.boosted import Boosted, boosted_path
from swarm.evaluation.fitting import Job, fit_mask
from swarm.evaluation.limit import limit_of
from swarm.problem.problem import Problem
from swarm.storage.records import Record

ROWS, COLUMNS = 240, 12


def table(seed: int = 0, *, nan: bool = False) -> pd.DataFrame:
    """Return dense, sparse, exclusive, constant and integer columns, of several dtypes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(ROWS, COLUMNS)), columns=[f"x{i}" for i in range(COLUMNS)])
    one_of = rng.integers(3, size=ROWS)
    for code in range(3):
        X[f"x{3 + code}"] = (one_of == code).astype(np.int8)
    X["x6"] = np.where(rng.random(ROWS) < 0.9, 0.0, X["x6"])
    X["x7"] = 1.0
    X["x8"] = (10 * X["x8"]).astype(np.int64)
    X["x9"] = X["x9"].astype(np.float32)
    X["x10"] = X["x10"] > 0
    if nan:
        X.loc[rng.random(ROWS) < 0.3, "x1"] = np.nan
    return X


def signal(X: pd.DataFrame) -> NDArray[np.float64]:
    noise = np.random.default_rng(9).normal(size=ROWS)
    return (X["x0"] + 2 * X["x3"] + X["x6"] + 0.1 * X["x8"] + 0.3 * noise).to_numpy()


def binary(X: pd.DataFrame, options: dict[str, Any]) -> Problem:
    labels = np.where(signal(X) > 0.7, "yes", "no")
    model = LGBMClassifier(n_estimators=12, min_child_samples=5, importance_type="gain")
    return Problem.build(X, labels, model, **{"folds": 3, "scoring": "roc_auc", **options})


def multiclass(X: pd.DataFrame, options: dict[str, Any]) -> Problem:
    labels = np.digitize(signal(X), [0.0, 1.0, 2.0])
    model = LGBMClassifier(n_estimators=8, min_child_samples=5)
    return Problem.build(X, labels, model, **{"folds": 3, "scoring": "f1_macro", **options})


def regression(X: pd.DataFrame, options: dict[str, Any]) -> Problem:
    model = LGBMRegressor(n_estimators=12, subsample=0.7, subsample_freq=1, reg_lambda=0.5)
    scoring = "neg_root_mean_squared_error"
    return Problem.build(X, signal(X), model, **{"folds": 3, "scoring": scoring, **options})


def fitted(problem: Problem, mask: NDArray[np.bool_]) -> Record:
    unknown, order = np.full(problem.n_folds, np.nan), np.arange(problem.n_folds)
    found = fit_mask(problem, Job(0, mask, unknown, order, limit_of(np.inf, None, 0)))
    assert isinstance(found, Record)
    return found


def assert_same_answers(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, n_masks: int = 15
) -> None:
    rng = np.random.default_rng(1)
    masks = rng.random((n_masks, problem.space.n_units)) < rng.choice([0.2, 0.5, 0.9], (n_masks, 1))
    masks[:, 0] |= ~masks.any(axis=1)
    ours = [fitted(problem, mask) for mask in masks]
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "boosted_path", lambda problem: None)
        theirs = [fitted(problem, mask) for mask in masks]
    for one, other in zip(ours, theirs, strict=True):
        assert one.error is None
        assert one.error == other.error
        for name in ("fold_costs", "importances", "used"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize("make", [binary, multiclass, regression])
@pytest.mark.parametrize("given", ["plain", "nan", "weight", "refit"])
def test_the_direct_way_gives_the_answers_of_the_wrapper(
    make: Any, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = table(nan=given == "nan")
    options: dict[str, Any] = {"importance": "refit"} if given == "refit" else {}
    if given == "weight":
        options["weight"] = np.random.default_rng(2).random(ROWS)
    problem = make(X, options)
    assert_same_answers(problem, monkeypatch)
    path = boosted_path(problem)
    assert path is not None
    assert path.trusted
    assert path._columns, "columns were not binned once"


@pytest.mark.parametrize(
    "model",
    [
        LGBMClassifier(n_estimators=10, colsample_bytree=0.5),
        LGBMClassifier(n_estimators=10, class_weight="balanced"),
        make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=10)),
        LogisticRegression(),
    ],
    ids=["column sampling", "class weight", "pipeline", "scikit-learn"],
)
def test_any_other_model_is_fitted_as_ever(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = table()
    problem = Problem.build(X, (signal(X) > 0.7).astype(int), model, folds=3)
    assert boosted_path(problem) is None
    assert_same_answers(problem, monkeypatch, n_masks=4)


def test_categorical_columns_reach_the_model_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X = table()
    X["x2"] = pd.Categorical(np.random.default_rng(3).choice(list("abcd"), ROWS))
    problem = binary(X, {})
    assert boosted_path(problem) is None
    assert_same_answers(problem, monkeypatch, n_masks=4)


def test_a_scorer_of_ones_own_gets_the_whole_model() -> None:
    def looks_inside(model: Any, X: Any, y: Any) -> float:
        return float(model.n_features_in_ == X.shape[1] and hasattr(X, "columns"))

    problem = binary(table(), {"scoring": looks_inside})
    costs = fitted(problem, np.ones(COLUMNS, dtype=bool)).fold_costs
    assert costs.tolist() == [-1.0, -1.0, -1.0]


def test_a_lightgbm_that_answers_otherwise_is_left_to_its_wrapper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = np.ones(COLUMNS, dtype=bool)
    expected = fitted(binary(table(), {}), everything).fold_costs
    honest = Boosted._dataset
    monkeypatch.setattr(
        Boosted, "_dataset", lambda self, columns, *rest: honest(self, columns[::-1], *rest)
    )
    problem = binary(table(), {})
    assert np.array_equal(fitted(problem, everything).fold_costs, expected)
    assert boosted_path(problem) is None


def test_musk_costs_are_those_of_the_wrapper(
    shared_data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    musk = pd.read_parquet(shared_data("musk_v2")).iloc[::4].reset_index(drop=True)
    X = musk.drop(columns=["group", "target"])
    model = LGBMClassifier(num_leaves=16, n_estimators=20, importance_type="gain")
    problem = Problem.build(X, musk["target"].to_numpy(), model, scoring="recall")
    assert_same_answers(problem, monkeypatch, n_masks=3)
    path = boosted_path(problem)
    assert path is not None
    assert path.trusted
