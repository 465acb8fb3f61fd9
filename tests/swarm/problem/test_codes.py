"""Tests of classifiers that accept only the codes 0 to k-1, also within other estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.problem.codes import fit_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
CODES = np.digitize(X[:, 0], [-0.5, 0.5])
LABELS = {
    "text": np.array(["low", "mid", "top"])[CODES],
    "from 1": CODES + 1,
    "floats": CODES.astype(float),
    "booleans": CODES > 0,
}


class OnlyCodes(ClassifierMixin, BaseEstimator):
    """Accepts codes only, as classifiers of XGBoost, NGBoost and skorch do, or raises `error`."""

    def __init__(self, error: type[Exception] = ValueError, width: int = 1) -> None:
        self.error = error
        self.width = width

    def fit(self, X: Any, y: Any) -> OnlyCodes:
        classes = np.unique(y)
        if classes.dtype.kind != "i" or (classes != np.arange(len(classes))).any():
            raise self.error("invalid classes")
        self.model_ = GaussianNB(var_smoothing=self.width * 1e-9).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(X)


MODELS = {
    "alone": OnlyCodes(),
    "another error": OnlyCodes(IndexError),
    "pipeline": make_pipeline(StandardScaler(), OnlyCodes(TypeError)),
    "grid": GridSearchCV(OnlyCodes(), {"width": [1, 2]}, cv=2),
    "calibrated": CalibratedClassifierCV(OnlyCodes(), cv=2),
    "vote": VotingClassifier([("codes", OnlyCodes()), ("bayes", GaussianNB())], voting="soft"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("model", MODELS)
def test_a_model_that_accepts_codes_only_predicts_labels(model: str, labels: str) -> None:
    target = LABELS[labels]
    fitted = fit_model(MODELS[model], X, target)
    assert set(np.unique(fitted.predict(X))) == set(np.unique(target))
    assert get_scorer("accuracy")(fitted, X, target) > 0.9
    ranking = "roc_auc" if labels == "booleans" else "roc_auc_ovr"
    assert get_scorer(ranking)(fitted, X, target) > 0.9


class Refusing(ClassifierMixin, BaseEstimator):
    def fit(self, X: Any, y: Any) -> None:
        raise ValueError(f"no models of {np.asarray(y).tolist()[0]!r}")


def test_what_refuses_codes_too_is_an_error_about_the_labels() -> None:
    with pytest.raises(ValueError, match="no models of '"):
        fit_model(Refusing(), X, LABELS["text"])
