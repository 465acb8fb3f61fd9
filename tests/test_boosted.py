"""Claims on training LightGBM directly; test_fuzz_boosted compares it with the wrapper widely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.evaluation.boosted import Boosted, boosted_path
from swarm.problem.problem import Problem
from tests.selecting import TREES, WINE
from tests.test_fuzz_boosted import compared, fitted

ALL = np.ones(13, dtype=bool)


def problem_of(X: Any = WINE[0], model: Any = TREES, **options: Any) -> Problem:
    return Problem.build(X, WINE[1], model, folds=3, **options)


def test_any_other_model_or_table_is_left_to_the_wrapper() -> None:
    assert boosted_path(problem_of()) is not None
    for model in (
        LGBMClassifier(n_estimators=10, colsample_bytree=0.5),
        LGBMClassifier(n_estimators=10, class_weight="balanced"),
        make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=10)),
        LogisticRegression(),
    ):
        assert boosted_path(problem_of(model=model)) is None
    letters = pd.Categorical(np.random.default_rng(3).choice(list("abcd"), len(WINE[0])))
    assert boosted_path(problem_of(WINE[0].assign(ash=letters))) is None


def test_a_scorer_of_ones_own_gets_the_whole_model() -> None:
    def looks_inside(model: Any, X: Any, y: Any) -> float:
        return float(model.n_features_in_ == X.shape[1] and hasattr(X, "columns"))

    assert fitted(problem_of(scoring=looks_inside), ALL).fold_costs.tolist() == [-1.0, -1.0, -1.0]


def test_a_lightgbm_that_answers_otherwise_is_left_to_its_wrapper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of()
    expected = fitted(problem, ALL).fold_costs.tolist()
    assert boosted_path(problem)._columns, "columns were not binned once"
    honest = Boosted._dataset
    monkeypatch.setattr(
        Boosted, "_dataset", lambda self, columns, *rest: honest(self, columns[::-1], *rest)
    )
    problem = problem_of()
    assert fitted(problem, ALL).fold_costs.tolist() == expected
    assert boosted_path(problem) is None


@pytest.mark.slow
def test_musk_costs_what_it_costs_the_wrapper(
    shared_data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    musk = pd.read_parquet(shared_data("musk_v2")).iloc[::4].reset_index(drop=True)
    X = musk.drop(columns=["group", "target"])
    model = LGBMClassifier(num_leaves=16, n_estimators=20, importance_type="gain")
    problem = Problem.build(X, musk["target"].to_numpy(), model, scoring="recall")
    masks = np.random.default_rng(1).random((3, X.shape[1])) < [[0.2], [0.5], [0.9]]
    assert not compared(problem, masks, monkeypatch)
