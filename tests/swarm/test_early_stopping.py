"""Tests of models of a configuration: early stopping, and steps fitted within the folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from conf.estimator import build_estimator
from conf.sections import ModelSection
from swarm.early_stopping import EarlyStoppingLGBMClassifier, held_out
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from swarm.problem.fingerprint import recipe
from swarm.problem.problem import Problem
from swarm.reader import Reader
from tasks.models.files import is_storable, write_ensemble
from tests.fakes import evaluated
from tests.stored import served

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:200, :5].sort_index(axis=1)
y = y.iloc[:200]
SMALL = {"n_estimators": 60, "num_leaves": 4, "learning_rate": 0.5}
STOP = 3
Table = tuple[pd.DataFrame, pd.Series]


def build(**keys: Any) -> Any:
    return build_estimator(ModelSection.model_validate(keys))


def stopping(**keys: Any) -> Any:
    return build(**{"params": SMALL, "early_stopping": STOP, **keys})


def test_costs_are_those_of_lightgbm_with_the_same_rows_held_out() -> None:
    weight = np.linspace(0.5, 2.0, len(y))
    problem = Problem.build(X, y, stopping(), scoring="neg_log_loss", folds=3, weight=weight)
    answers = evaluated(problem, np.ones((1, 5), dtype=bool))
    for fold, (train, test) in enumerate(problem.folds):
        labels = y.to_numpy()[train]
        inner = held_out(labels, 0.2, 0, classes=True)
        outer = np.setdiff1d(np.arange(len(train)), inner)
        params = {"objective": "binary", "num_leaves": 4, "learning_rate": 0.5, "verbosity": -1}
        params |= {"num_threads": 1, "deterministic": True, "force_col_wise": True}
        # The wrapper passes its seed to LightGBM.
        params |= {"random_state": 0}
        matrix = X.to_numpy()[train]
        weights = weight[train]
        data = lightgbm.Dataset(matrix[outer], labels[outer], weight=weights[outer], params=params)
        valid = data.create_valid(matrix[inner], labels[inner], weight=weights[inner])
        stop = lightgbm.early_stopping(3, verbose=False)
        booster = lightgbm.train(params, data, 60, valid_sets=[valid], callbacks=[stop])
        assert 1 <= booster.best_iteration < 60
        by_hand = log_loss(y.to_numpy()[test], booster.predict(X.to_numpy()[test]))
        assert answers.fold_costs[0, fold] == pytest.approx(by_hand, rel=1e-12)


def test_the_rows_that_are_held_out_depend_on_labels_and_seed_alone() -> None:
    labels = np.repeat(["a", "b", "c"], [30, 9, 1])
    rows = held_out(labels, 0.2, 4, classes=True)
    assert np.unique(labels[rows], return_counts=True)[1].tolist() == [6, 2]
    assert np.array_equal(rows, held_out(labels, 0.2, 4, classes=True))
    assert not np.array_equal(rows, held_out(labels, 0.2, 5, classes=True))
    assert len(held_out(np.arange(10.0), 0.3, 0, classes=False)) == 3
    # There is always a row to stop on, and one of each class to learn from.
    for share in (0.1, 0.9):
        assert len(held_out(np.array([0, 0, 1, 1]), share, 0, classes=True)) == 2


@pytest.mark.parametrize("names", [[1, 2], ["no", "yes"], [False, True]])
def test_models_stop_alike_whatever_the_names_of_the_classes(names: list[Any]) -> None:
    stopped = stopping().fit(X, y)
    renamed = stopping().fit(X, pd.Series(np.array(names)[y.to_numpy()], index=y.index))
    assert renamed.best_iteration_ == stopped.best_iteration_
    assert np.array_equal(renamed.predict_proba(X), stopped.predict_proba(X))


def test_members_of_an_ensemble_stop_alike_and_are_stored_as_text(tmp_path: Path) -> None:
    model = Problem.build(X, y, stopping(), folds=3).estimator
    assert is_storable(model)
    ensemble = SubsetEnsemble(model, [list(X.columns), list(X.columns[:2])]).fit(X, y)
    assert all(1 <= member.best_iteration_ < 60 for member in ensemble.models_)
    assert list(served(ensemble, X, tmp_path)) == list(ensemble.predict(X))
    assert write_ensemble(ensemble, Reader.learn(X), X.head(5), tmp_path) == ["lightgbm"]


@pytest.mark.parametrize("fraction", [0, -0.2, 1, float("nan")])
def test_early_stopping_holds_out_a_part_of_the_rows(fraction: float) -> None:
    model = EarlyStoppingLGBMClassifier(validation_fraction=fraction)
    with pytest.raises(ConfigError, match="validation_fraction must be"):
        model.fit(np.eye(20), np.arange(20) % 2)


def test_a_problem_with_early_stopping_is_another_and_shrinks_nothing() -> None:
    stopped = Problem.build(X, y, stopping(), folds=3)
    unstopped = Problem.build(X, y, stopping(early_stopping=None), folds=3)
    fingerprints = {stopped.fingerprint(), unstopped.fingerprint()}
    more_patient = Problem.build(X, y, stopping(early_stopping=4), folds=3)
    assert len({*fingerprints, more_patient.fingerprint()}) == 3
    assert unstopped.exact_shrink
    assert not stopped.exact_shrink
    assert f"lightgbm=={lightgbm.__version__}".encode() in recipe(stopped)


def test_models_of_scikit_learn_use_their_own_early_stopping() -> None:
    path = "sklearn.ensemble.HistGradientBoostingClassifier"
    params = stopping(estimator=path, params={"max_iter": 20}).get_params()
    assert params["early_stopping"] is True
    assert (params["n_iter_no_change"], params["validation_fraction"]) == (3, 0.2)


# ---------------------------------------------------------------- steps

IMPUTE = {"transformer": "sklearn.impute.SimpleImputer", "params": {"strategy": "median"}}
SCALE = {"transformer": "sklearn.preprocessing.StandardScaler"}
ENCODE = {"transformer": "sklearn.preprocessing.OneHotEncoder"}
LOGISTIC = {"estimator": "sklearn.linear_model.LogisticRegression", "params": {"max_iter": 200}}


def stepped(*steps: Any, **keys: Any) -> Any:
    return build(**{**LOGISTIC, **keys, "steps": list(steps)})


@pytest.fixture(scope="module")
def table() -> Table:
    """Return numbers with gaps, and a category with gaps and a value that only one row has."""
    rng = np.random.default_rng(0)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:160, :3].copy()
    y = y.iloc[:160]
    X.iloc[::9, 1] = np.nan
    category = np.where(rng.random(160) < 0.7, np.where(y == 1, "a", "b"), "c").astype(object)
    category[5] = "rare"
    category[::20] = None
    return X.assign(kind=pd.Categorical(category)), y


def test_costs_are_those_of_the_same_pipeline_built_by_hand(table: Table) -> None:
    X, y = table
    problem = Problem.build(X, y, stepped(IMPUTE, SCALE, ENCODE), folds=3)
    names = list(problem.features.columns)
    subsets = [names, ["kind"], names[:2], ["kind", names[1]]]
    masks = np.array([problem.space.mask(subset) for subset in subsets])
    answers = evaluated(problem, masks)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for subset, cost in zip(subsets, answers.costs, strict=True):
        columns = [name for name in names if name in subset]
        numbers = [name for name in columns if name != "kind"]
        by_hand = make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown="ignore"), ["kind"] if "kind" in columns else []),
            sparse_threshold=0,
        )
        model = make_pipeline(by_hand, LogisticRegression(max_iter=200))
        assert cost == pytest.approx(1 - cross_val_score(model, X[columns], y, cv=folds).mean())


def test_an_ensemble_with_steps_is_stored_without_pickle(table: Table, tmp_path: Path) -> None:
    X, y = table
    model = stepped(IMPUTE, ENCODE)
    assert is_storable(model)
    ensemble = SubsetEnsemble(model, [list(X.columns), ["kind"]]).fit(X, y)
    assert list(served(ensemble, X, tmp_path)) == list(ensemble.predict(X))
