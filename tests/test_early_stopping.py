"""Boosted models stop on rows that they hold out, in the folds and in the ensemble alike."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss

from conf.estimator import build_estimator
from conf.problem_sections import ModelSection
from swarm.early_stopping import (
    EarlyStoppingLGBMClassifier,
    EarlyStoppingLGBMRegressor,
    held_out,
)
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.problem import Problem
from tasks.models.files import is_storable, write_ensemble
from tasks.models.served_model import ServedEnsemble

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:200, :5].sort_index(axis=1), y.iloc[:200]
SMALL = {"n_estimators": 60, "num_leaves": 4, "learning_rate": 0.5}
STOP = {"rounds": 3, "share": 0.25}


def built(**keys: Any) -> Any:
    given = {"params": SMALL, "early_stopping": STOP, **keys}
    return build_estimator(ModelSection.model_validate(given))


def test_costs_are_those_of_lightgbm_with_the_same_rows_held_out() -> None:
    weight = np.linspace(0.5, 2.0, len(y))
    problem = Problem.build(X, y, built(), scoring="neg_log_loss", folds=3, weight=weight)
    with CrossValidation(problem) as evaluator:
        found = evaluator.evaluate(np.ones((1, 5), dtype=bool), np.array([np.inf]), np.arange(3))
    for fold, (train, test) in enumerate(problem.folds):
        labels = y.to_numpy()[train]
        inner = held_out(labels, 0.25, 0, classes=True)
        outer = np.setdiff1d(np.arange(len(train)), inner)
        params = {"objective": "binary", "num_leaves": 4, "learning_rate": 0.5, "verbosity": -1}
        params |= {"num_threads": 1, "deterministic": True, "force_col_wise": True}
        # The wrapper passes its seed to LightGBM.
        params |= {"random_state": 0}
        matrix, share = X.to_numpy()[train], weight[train]
        data = lightgbm.Dataset(matrix[outer], labels[outer], weight=share[outer], params=params)
        valid = data.create_valid(matrix[inner], labels[inner], weight=share[inner])
        stop = lightgbm.early_stopping(3, verbose=False)
        booster = lightgbm.train(params, data, 60, valid_sets=[valid], callbacks=[stop])
        assert 1 <= booster.best_iteration < 60
        by_hand = log_loss(y.to_numpy()[test], booster.predict(X.to_numpy()[test]))
        assert found.fold_costs[0, fold] == pytest.approx(by_hand, rel=1e-12)


def test_the_rows_that_are_held_out_depend_on_labels_and_seed_alone() -> None:
    labels = np.repeat(["a", "b", "c"], [30, 9, 1])
    rows = held_out(labels, 0.2, 4, classes=True)
    assert np.unique(labels[rows], return_counts=True)[1].tolist() == [6, 2]
    assert np.array_equal(rows, held_out(labels, 0.2, 4, classes=True))
    assert not np.array_equal(rows, held_out(labels, 0.2, 5, classes=True))
    assert len(held_out(np.arange(10.0), 0.3, 0, classes=False)) == 3
    # There is always a row to stop on, and one of each class to learn from.
    assert len(held_out(np.array([0, 0, 1, 1]), 0.1, 0, classes=True)) == 1


def test_members_of_an_ensemble_stop_alike_and_are_stored_as_text(tmp_path: Path) -> None:
    model = Problem.build(X, y, built(), folds=3).estimator
    assert is_storable(model)
    ensemble = SubsetEnsemble(model, [list(X.columns), list(X.columns[:2])]).fit(X, y)
    assert all(1 <= member.best_iteration_ < 60 for member in ensemble.models_)
    packages = write_ensemble(ensemble, X.head(5), tmp_path)
    assert packages == ["lightgbm"]
    served = ServedEnsemble()
    served.load_context(SimpleNamespace(artifacts={"ensemble": str(tmp_path)}))
    assert list(served.predict(None, X)) == list(ensemble.predict(X))


def test_a_problem_with_early_stopping_is_another_and_shrinks_nothing() -> None:
    stopped = Problem.build(X, y, built(), folds=3)
    whole = Problem.build(X, y, built(early_stopping=None), folds=3)
    fingerprints = {stopped.fingerprint(), whole.fingerprint()}
    other = Problem.build(X, y, built(early_stopping={"rounds": 4, "share": 0.25}), folds=3)
    assert len({*fingerprints, other.fingerprint()}) == 3
    assert whole.exact_shrink
    assert not stopped.exact_shrink
    assert f"lightgbm=={lightgbm.__version__}".encode() in stopped._recipe()


def test_fitting_warns_of_nothing() -> None:
    numbers = pd.Series(np.arange(len(X), dtype=float))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EarlyStoppingLGBMClassifier(**SMALL, verbosity=-1).fit(X, y).predict(X)
        EarlyStoppingLGBMRegressor(**SMALL, verbosity=-1).fit(X, numbers).predict(X)


def test_models_of_scikit_learn_use_their_own_early_stopping() -> None:
    path = "sklearn.ensemble.HistGradientBoostingClassifier"
    params = built(estimator=path, params={"max_iter": 20}).get_params()
    assert params["early_stopping"] is True
    assert (params["n_iter_no_change"], params["validation_fraction"]) == (3, 0.25)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"estimator": "sklearn.naive_bayes.GaussianNB", "params": {}},
            "model.early_stopping supports LightGBM and scikit-learn's HistGradientBoosting, got "
            "sklearn.naive_bayes.GaussianNB; set it to null",
        ),
        (
            {"params": {"early_stopping_rounds": 5}},
            "model.params.early_stopping_rounds is set by model.early_stopping too",
        ),
    ],
)
def test_models_without_early_stopping_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(**keys)
