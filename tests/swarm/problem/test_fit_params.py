"""Claims on what is passed to an estimator's ``fit`` beyond X, y and weights."""

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
    """Predicts the first class, and keeps what its fits were given."""

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
    # Levels that mean something one by one, and nothing in their order.
    y = np.isin(table["kind"], [1, 4, 6, 8]) ^ (rng.random(120) < 0.1)
    return table, y.astype(int)


def test_categories_named_for_fit_are_narrowed_to_each_subset(data: Any) -> None:
    X, y = data

    def results(**given: Any) -> pd.DataFrame:
        selector = SubsetSelector(TREES, strategy="sfs", cv=StratifiedKFold(3), pruning=False)
        return selector.fit(X, y, **given).results_

    found = results(categorical_feature=["kind", "other"])
    for row in found.itertuples():
        columns = [name for name in ("kind", "other") if name in row.features]
        scores = cross_val_score(
            TREES, X[list(row.features)], y, cv=3, params={"categorical_feature": columns}
        )
        assert row.cost == pytest.approx(1 - scores.mean())
    for same in ([0, 2], np.array([True, False, True])):
        assert results(categorical_feature=same).equals(found)
    plain = results()
    assert results(categorical_feature=[]).equals(plain)
    assert not np.allclose(plain["cost"].iloc[:3], found["cost"].iloc[:3])


def test_values_of_rows_are_split_with_them_and_others_stay_whole(data: Any) -> None:
    X, y = data
    Listener.heard.clear()
    given = {"costs": pd.Series(np.arange(120.0)), "note": "calm", "limits": [1, 2]}
    SubsetSelector(Listener(), strategy="full", cv=StratifiedKFold(3)).fit(X, y, **given)
    folds = list(StratifiedKFold(3).split(X, y))
    calls = [call for call in Listener.heard if call["note"] is not None]
    assert all(call["note"] == "calm" and call["limits"] == [1, 2] for call in calls)
    # Before, one fold is tried.
    searched = {tuple(call["costs"]) for call in calls[-3:]}
    assert searched == {tuple(map(float, train)) for train, _ in folds}
    assert searched >= {tuple(call["costs"]) for call in calls}


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
    plain, one, other = (
        Problem.build(X, y, TREES, fit_params=params).fingerprint()
        for params in (None, {"categorical_feature": ["kind"]}, {"categorical_feature": ["other"]})
    )
    assert len({plain, one, other}) == 3
    assert Problem.build(X, y, TREES, fit_params={}).fingerprint() == plain
    with pytest.raises(ConfigError, match=r"GaussianNB.*'note'"):
        Problem.build(X, y, GaussianNB(), fit_params={"note": 1})
