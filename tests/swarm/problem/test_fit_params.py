"""Tests of parameters that are passed to `fit` of an estimator, beyond X, y and weights."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.problem.problem import Problem

TREES = LGBMClassifier(n_estimators=5, num_leaves=4, min_child_samples=2, n_jobs=1, verbosity=-1)


class Listener(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the first class, and keeps the parameters of its fits."""

    heard: ClassVar[list[dict[str, Any]]] = []

    def fit(self, X: Any, y: Any, costs: Any = None, note: Any = None, limits: Any = None) -> Any:
        self.heard.append({"rows": len(y), "costs": costs, "note": note, "limits": limits})
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.integers(9, size=120), "noise": rng.normal(size=120)})
    table["other"] = rng.integers(9, size=120)
    # Each level matters by itself, and their order does not.
    y = np.isin(table["kind"], [1, 4, 6, 8]) ^ (rng.random(120) < 0.1)
    return table, y.astype(int)


def test_categories_named_for_fit_are_narrowed_to_each_subset(data: Any) -> None:
    X, y = data

    def results(**fit_params: Any) -> pd.DataFrame:
        selector = SubsetSelector(TREES, strategy="sfs", cv=StratifiedKFold(3), pruning=False)
        return selector.fit(X, y, **fit_params).results_

    with_categories = results(categorical_feature=["kind", "other"])
    for row in with_categories.itertuples():
        columns = [name for name in ("kind", "other") if name in row.features]
        scores = cross_val_score(
            TREES, X[list(row.features)], y, cv=3, params={"categorical_feature": columns}
        )
        assert row.cost == pytest.approx(1 - scores.mean())
    for positions in ([0, 2], np.array([True, False, True])):
        assert results(categorical_feature=positions).equals(with_categories)
    without_categories = results()
    assert results(categorical_feature=[]).equals(without_categories)
    assert not np.allclose(without_categories["cost"].iloc[:3], with_categories["cost"].iloc[:3])


def test_values_of_rows_are_split_with_them_and_others_stay_whole(data: Any) -> None:
    X, y = data
    Listener.heard.clear()
    fit_params = {"costs": pd.Series(np.arange(120.0)), "note": "calm", "limits": [1, 2]}
    SubsetSelector(Listener(), strategy="full", cv=StratifiedKFold(3)).fit(X, y, **fit_params)
    folds = list(StratifiedKFold(3).split(X, y))
    calls = [call for call in Listener.heard if call["note"] is not None]
    assert all(call["note"] == "calm" and call["limits"] == [1, 2] for call in calls)
    # One fold is tried before the search.
    costs_in_search = {tuple(call["costs"]) for call in calls[-3:]}
    assert costs_in_search == {tuple(map(float, train)) for train, _ in folds}
    assert costs_in_search >= {tuple(call["costs"]) for call in calls}


def test_a_step_of_a_pipeline_is_given_its_own(data: Any) -> None:
    X, y = data
    Listener.heard.clear()
    model = make_pipeline(StandardScaler(), Listener())
    selector = SubsetSelector(model, strategy="full", cv=3).fit(X, y, listener__note="calm")
    assert [call["note"] for call in Listener.heard[-3:]] == ["calm"] * 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'note'"):
        selector.fit(X, y, note="calm")


def test_they_are_part_of_the_problem(data: Any) -> None:
    X, y = data
    without_params, of_kind, of_other = (
        Problem.build(X, y, TREES, fit_params=params).fingerprint()
        for params in (None, {"categorical_feature": ["kind"]}, {"categorical_feature": ["other"]})
    )
    assert len({without_params, of_kind, of_other}) == 3
    assert Problem.build(X, y, TREES, fit_params={}).fingerprint() == without_params
    with pytest.raises(ConfigError, match=r"GaussianNB.*'note'"):
        Problem.build(X, y, GaussianNB(), fit_params={"note": 1})
