"""The figures of the model of the chosen features are those of that model on unseen rows."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from swarm.problem.problem import Problem
from swarm.report.model_figures import model_figures
from swarm.report.serialization import _packed, _unpacked
from swarm.validation import diagnostics
from swarm.validation.diagnostics import (
    LEARNING_FITS,
    MOST_DROPPED,
    Diagnostics,
    Unseen,
    diagnose,
)

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
TREES = LGBMClassifier(n_estimators=5, num_leaves=4, verbosity=-1, n_jobs=1, random_state=0)
CHOSEN = list(X.columns[:4])
TRAIN = np.arange(len(X)) % 2 == 0


def diagnosed(
    estimator: Any, chosen: list[str], X: Any = X, y: Any = Y, **options: Any
) -> tuple[Problem, Diagnostics]:
    train = np.arange(len(X)) % 2 == 0
    problem = Problem.build(X[train], y[train], estimator, folds=3, **options)
    rows = X[~train][list(problem.features.columns)]
    unseen = Unseen(np.arange(train.sum()), rows, y[~train].to_numpy())
    return problem, diagnose(problem, problem.space.mask(chosen), [unseen], "unseen rows")


@pytest.fixture(scope="module")
def binary() -> Diagnostics:
    return diagnosed(TREES, CHOSEN, scoring="roc_auc")[1]


def test_models_of_a_long_table_are_trained_on_some_rows_and_say_so(
    monkeypatch: pytest.MonkeyPatch, binary: Diagnostics
) -> None:
    monkeypatch.setattr(diagnostics, "MOST_TRAINING_ROWS", 100)
    shorter, again = (diagnosed(TREES, CHOSEN, scoring="roc_auc")[1] for _ in range(2))
    assert shorter.rows == "unseen rows (models are trained on 100 of 285 rows)"
    assert shorter.areas == again.areas != binary.areas


@pytest.fixture(scope="module")
def model() -> Any:
    return clone(TREES).fit(X[TRAIN][CHOSEN], Y[TRAIN])


def test_curves_and_confusion_are_those_of_one_model_of_the_chosen_features(
    binary: Diagnostics, model: Any
) -> None:
    # The label 1 is the positive one, although 0 is rarer.
    proba, truth = model.predict_proba(X[~TRAIN][CHOSEN])[:, 1], Y[~TRAIN] == 1
    assert binary.positive == "1"
    assert binary.areas["roc"]["chosen"] == pytest.approx(roc_auc_score(truth, proba))
    area = average_precision_score(truth, proba)
    assert binary.areas["precision_recall"]["chosen"] == pytest.approx(area)
    assert binary.confusion is not None
    expected = confusion_matrix(Y[~TRAIN], model.predict(X[~TRAIN][CHOSEN]))
    assert binary.confusion.to_numpy().tolist() == expected.tolist()
    bins = binary.calibration[binary.calibration["contender"] == "chosen"]
    assert bins["predicted"].is_monotonic_increasing
    assert ((bins["low"] <= bins["observed"]) & (bins["observed"] <= bins["high"])).all()


def test_the_loss_of_a_feature_is_that_of_the_model_trained_without_it(
    binary: Diagnostics, model: Any
) -> None:
    kept = [CHOSEN[0], *CHOSEN[2:]]
    without = clone(TREES).fit(X[TRAIN][kept], Y[TRAIN])
    with_all = roc_auc_score(Y[~TRAIN], model.predict_proba(X[~TRAIN][CHOSEN])[:, 1])
    with_less = roc_auc_score(Y[~TRAIN], without.predict_proba(X[~TRAIN][kept])[:, 1])
    row = binary.dropped.loc[CHOSEN[1]]
    assert row["loss"] == pytest.approx(with_all - with_less)
    assert row["low"] < row["loss"] < row["high"]


def test_the_learning_curve_ends_at_the_score_of_all_training_rows(binary: Diagnostics) -> None:
    own = binary.learning[binary.learning["contender"] == "chosen"]
    assert own["n_rows"].tolist() == [35, 71, 142, 285]
    assert own["value"].iloc[-1] == pytest.approx(binary.areas["roc"]["chosen"])
    assert (own["low"].iloc[0], own["high"].iloc[-1]) <= (own["high"].iloc[0], 1.0)


def test_shap_values_of_lightgbm_add_up_to_its_raw_score(binary: Diagnostics, model: Any) -> None:
    found = binary.shap
    assert found is not None
    assert found.values is not None
    assert found.unit == "log-odds of 1"
    rng = np.random.default_rng([0, 5])
    rows = np.sort(rng.choice((~TRAIN).sum(), found.n_rows, replace=False))
    raw = model.predict(X[~TRAIN][CHOSEN].iloc[rows], raw_score=True)
    base = raw - found.values.sum(axis=1).to_numpy()
    assert np.ptp(base) == pytest.approx(0.0, abs=1e-4)


@pytest.mark.skipif(find_spec("shap") is None, reason="no extra shap")
def test_shap_values_of_a_linear_model_are_its_terms() -> None:
    table, target = load_diabetes(return_X_y=True, as_frame=True)
    _, found = diagnosed(Ridge(), ["bmi", "s5"], table, target)
    model = Ridge().fit(table[np.arange(len(table)) % 2 == 0][["bmi", "s5"]], target[::2])
    assert found.shap is not None
    assert found.shap.values is not None
    assert found.shap.levels is not None
    for name, coefficient in zip(["bmi", "s5"], model.coef_, strict=True):
        ranks = found.shap.levels[name].to_numpy()
        values = found.shap.values[name].to_numpy()
        assert np.corrcoef(ranks, np.sign(coefficient) * values)[0, 1] > 0.9
    rng = np.random.default_rng([0, 5])
    unseen = table[np.arange(len(table)) % 2 == 1][["bmi", "s5"]].to_numpy()
    rows = unseen[np.sort(rng.choice(len(unseen), found.shap.n_rows, replace=False))]
    terms = rows[:, 0] * model.coef_[0]
    assert np.ptp(terms - found.shap.values["bmi"].to_numpy()) == pytest.approx(0.0, abs=1e-4)


def test_the_number_of_models_is_bounded_however_many_features_are_chosen() -> None:
    _, found = diagnosed(TREES, list(X.columns[:20]))
    assert len(found.dropped) == MOST_DROPPED
    assert found.n_fits == 2 + MOST_DROPPED + 2 * LEARNING_FITS


def test_what_a_model_does_not_have_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swarm.validation.contributions.find_spec", lambda name: None)
    _, found = diagnosed(RidgeClassifier(), CHOSEN[:1])
    assert found.skipped["calibration"] == "the model has no probabilities"
    assert "pip install 'swarmselect[shap]'" in found.skipped["SHAP values"]
    assert "single feature" in found.skipped["dropped features"]
    # Decision values rank rows too.
    assert found.areas["roc"]["chosen"] > 0.9


class Broken(RidgeClassifier):
    """Cannot be trained."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise RuntimeError("no memory on the card")


def test_a_model_that_fails_ends_nothing_and_is_named() -> None:
    _, found = diagnosed(Broken(), CHOSEN)
    assert set(found.skipped.values()) == {"RuntimeError: no memory on the card"}
    assert model_figures(found) == {}


def test_a_regression_has_predictions_in_place_of_curves() -> None:
    table, target = load_diabetes(return_X_y=True, as_frame=True)
    name = "neg_root_mean_squared_error"
    _, found = diagnosed(Ridge(), ["bmi", "s5"], table, target, scoring=name)
    assert found.metric == "root_mean_squared_error"
    assert len(found.roc) == 0
    assert found.confusion is None
    error = np.sqrt(((found.predicted["truth"] - found.predicted["predicted"]) ** 2).mean())
    last = found.learning[found.learning["contender"] == "chosen"]["value"].iloc[-1]
    assert last == pytest.approx(error)
    drawn = list(model_figures(found))
    assert drawn[-3:] == ["dropped", "predicted", "learning"]


def test_curves_of_several_classes_are_averaged_and_shap_values_have_no_single_rows() -> None:
    classes = Y + (X["mean area"] > X["mean area"].median())
    _, found = diagnosed(TREES, CHOSEN, y=classes)
    assert found.confusion is not None
    assert found.confusion.shape == (3, 3)
    assert found.shap is not None
    assert found.shap.values is None
    assert found.areas["roc"]["chosen"] > 0.9


def test_every_figure_has_a_title_a_reading_and_survives_storage(binary: Diagnostics) -> None:
    stored = json.dumps(_packed(binary))
    restored = Diagnostics.of_dict(json.loads(stored, object_hook=_unpacked))
    drawn = list(model_figures(binary))
    assert list(model_figures(restored)) == drawn
    assert set(drawn) == {
        *("shap", "dropped", "roc", "precision_recall", "probabilities", "confusion", "learning")
    }
