"""Imputers, encoders and scalers of a configuration, fitted within the folds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from conf.estimator import build_estimator
from conf.problem_sections import ModelSection
from swarm import SubsetSelector
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from tasks.models.files import is_storable, write_ensemble
from tasks.models.served_model import ServedEnsemble

IMPUTE = {"transformer": "sklearn.impute.SimpleImputer", "params": {"strategy": "median"}}
SCALE = {"transformer": "sklearn.preprocessing.StandardScaler"}
ENCODE = {"transformer": "sklearn.preprocessing.OneHotEncoder"}
LOGISTIC = {"estimator": "sklearn.linear_model.LogisticRegression", "params": {"max_iter": 200}}


def built(*steps: Any, **keys: Any) -> Any:
    return build_estimator(ModelSection.model_validate({**LOGISTIC, **keys, "steps": list(steps)}))


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.Series]:
    """Numbers with gaps, and a category with a gap and a value that a single row has."""
    rng = np.random.default_rng(0)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:160, :3].copy(), y.iloc[:160]
    X.iloc[::9, 1] = np.nan
    kind = np.where(rng.random(160) < 0.7, np.where(y == 1, "a", "b"), "c").astype(object)
    kind[5], kind[::20] = "rare", None
    return X.assign(kind=pd.Categorical(kind)), y


def test_costs_are_those_of_the_same_pipeline_built_by_hand(
    table: tuple[pd.DataFrame, pd.Series],
) -> None:
    X, y = table
    problem = Problem.build(X, y, built(IMPUTE, SCALE, ENCODE), folds=3)
    names = list(problem.features.columns)
    subsets = [names, ["kind"], names[:2], ["kind", names[1]]]
    masks = np.array([problem.space.mask(subset) for subset in subsets])
    with CrossValidation(problem) as evaluator:
        found = evaluator.evaluate(masks, np.full(4, np.inf), np.arange(3))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for subset, cost in zip(subsets, found.costs, strict=True):
        columns = [name for name in names if name in subset]
        numbers = [name for name in columns if name != "kind"]
        by_hand = make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown="ignore"), ["kind"] if "kind" in columns else []),
            sparse_threshold=0,
        )
        model = make_pipeline(by_hand, LogisticRegression(max_iter=200))
        assert cost == pytest.approx(1 - cross_val_score(model, X[columns], y, cv=folds).mean())


def test_steps_for_numbers_alone_keep_the_fast_path_and_the_importances() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:150, :6]
    bayes = {"estimator": "sklearn.naive_bayes.GaussianNB", "params": {}}
    one = Problem.build(X, y.iloc[:150], built(SCALE, **bayes), folds=3)
    other = Problem.build(X, y.iloc[:150], built(scaling="standard", **bayes), folds=3)
    with CrossValidation(one) as stepped, CrossValidation(other) as scaled:
        assert not stepped.fits_models
        assert stepped.way == scaled.way
    assert Problem.build(X, y.iloc[:150], built(IMPUTE, SCALE), folds=3).importance == "fold"


def test_a_search_with_missing_values_and_categories_needs_no_python(
    table: tuple[pd.DataFrame, pd.Series],
) -> None:
    X, y = table
    target = {"transformer": "sklearn.preprocessing.TargetEncoder"}
    found = [
        SubsetSelector(built(IMPUTE, target), strategy="random", distinct=4, cv=3)
        .fit(X, y)
        .results_
        for _ in range(2)
    ]
    assert found[0].equals(found[1])
    assert np.isfinite(found[0]["cost"]).any()


def test_an_ensemble_with_steps_is_stored_without_pickle(
    table: tuple[pd.DataFrame, pd.Series], tmp_path: Path
) -> None:
    X, y = table
    model = built(IMPUTE, ENCODE)
    assert is_storable(model)
    ensemble = SubsetEnsemble(model, [list(X.columns), ["kind"]]).fit(X, y)
    write_ensemble(ensemble, X.head(5), tmp_path)
    served = ServedEnsemble()
    served.load_context(SimpleNamespace(artifacts={"ensemble": str(tmp_path)}))
    assert list(served.predict(None, X)) == list(ensemble.predict(X))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"transformer": "sklearn.decomposition.PCA"},
            "model.steps.0.transformer 'sklearn.decomposition.PCA' is not supported as a step;"
            " known are sklearn.impute.SimpleImputer,",
        ),
        (
            {"transformer": "sklearn.impute.SimpleImputr"},
            "is not supported as a step; did you mean 'sklearn.impute.SimpleImputer'",
        ),
        (
            {**IMPUTE, "params": {"stratgy": "median"}},
            "unknown parameter 'model.steps.0.params.stratgy' of sklearn.impute.SimpleImputer",
        ),
        (
            {**IMPUTE, "params": {"strategy": "middle"}},
            "model.steps.0.params.strategy must be a str among",
        ),
    ],
)
def test_steps_that_cannot_be_made_are_refused_in_a_sentence(
    step: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        built(step)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
