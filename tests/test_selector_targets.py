"""Claims on targets: none at all, many classes, several outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_classification
from sklearn.decomposition import PCA
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import silhouette_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.problem.problem import Problem

SFS: dict[str, Any] = {"strategy": "sfs", "size": 2}


@pytest.fixture(scope="module")
def blobs() -> Any:
    return make_blobs(90, n_features=5, centers=3, random_state=0)[0]


def silhouette(model: Any, X: Any) -> float:
    return float(silhouette_score(X, model.predict(X)))


class TestWithoutATarget:
    @pytest.mark.parametrize(("scoring", "strategy"), [(None, "sfs"), (silhouette, "sbs")])
    def test_it_chooses_what_scikit_learn_chooses(
        self, blobs: Any, scoring: Any, strategy: str
    ) -> None:
        model = KMeans(3, n_init=2, random_state=0)
        expected = SequentialFeatureSelector(
            model,
            n_features_to_select=2,
            scoring=scoring,
            cv=KFold(3),
            direction="forward" if strategy == "sfs" else "backward",
        ).fit(blobs)
        options: dict[str, Any] = {"strategy": strategy, "size": 2, "cv": KFold(3)}
        selector = SubsetSelector(model, scoring=scoring, **options).fit(blobs)
        assert np.array_equal(selector.get_support(), expected.get_support())
        assert selector.importances_.isna().all()

    @pytest.mark.parametrize(
        ("model", "options"),
        [
            (PCA(1), {"epochs": 2}),
            (make_pipeline(StandardScaler(), KMeans(2, n_init=1)), {"strategy": "rfe"}),
        ],
    )
    def test_other_models_and_searches_do_as_well(
        self, blobs: Any, model: Any, options: Any
    ) -> None:
        selector = SubsetSelector(model, cv=3, **options)
        table = pd.DataFrame(blobs, columns=list("abcde"))
        assert selector.fit_transform(table).shape == (90, len(selector.subset_))
        scores = cross_val_score(
            Problem.build(table, None, model).estimator,
            table[selector.subset_],
            cv=KFold(3, shuffle=True, random_state=0),
        )
        assert selector.cost_ == pytest.approx(-scores.mean())

    def test_an_archive_knows_it_again(self, blobs: Any, tmp_path: Any) -> None:
        options = {"archive": f"sqlite:///{tmp_path / 'a.db'}", **SFS}
        paid = [
            SubsetSelector(KMeans(2, n_init=1), **options).fit(blobs).result_.work["fits"].sum()
            for _ in range(2)
        ]
        assert paid[0] > paid[1] == 0

    @pytest.mark.parametrize(
        ("model", "options", "words"),
        [
            (GaussianNB(), {}, "requires y to be passed"),
            (KMeans(2), {"scoring": "accuracy"}, "'accuracy' needs a target"),
            (KMeans(2), {"strategy": "mlaco"}, "'mlaco' needs a target"),
            (KMeans(2), {"importance": "mutual_information"}, "the task 'unsupervised'"),
        ],
    )
    def test_what_needs_one_says_so(self, blobs: Any, model: Any, options: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            SubsetSelector(model, **options).fit(blobs)


class TestManyClasses:
    def test_whole_numbers_are_classes_to_a_classifier(self) -> None:
        y = np.repeat(np.arange(25), 4)
        X = np.random.default_rng(0).normal(size=(100, 6))
        X[:, 2] += y
        options: dict[str, Any] = {**SFS, "size": 1, "cv": StratifiedKFold(4)}
        for target in (y, y.astype(float), pd.Series(y)):
            selector = SubsetSelector(KNeighborsClassifier(1), **options).fit(X, target)
            assert selector.subset_ == ["x2"]
            assert selector.cost_ < 0.9

    def test_fractions_are_still_refused_and_numbers_are_numbers_to_a_regressor(self) -> None:
        X = np.random.default_rng(0).normal(size=(100, 3))
        with pytest.raises(DataError, match="is a classifier; use a regressor"):
            SubsetSelector(GaussianNB(), **SFS).fit(X, X[:, 0])
        y = np.repeat(np.arange(25), 4)
        selector = SubsetSelector(Ridge(), cv=KFold(3), **SFS).fit(X, y)
        scores = cross_val_score(Ridge(), X[:, selector.get_support()], y, cv=3, scoring="r2")
        assert selector.cost_ == pytest.approx(1 - scores.mean())


class TestSeveralOutputs:
    @pytest.mark.parametrize("model", [LinearRegression(), MultiOutputRegressor(Ridge())])
    def test_of_numbers(self, model: Any) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 6))
        Y = X[:, [1, 4]] * 3 + rng.normal(size=(80, 2))
        expected = SequentialFeatureSelector(model, n_features_to_select=2, cv=KFold(4)).fit(X, Y)
        selector = SubsetSelector(model, cv=KFold(4), **SFS).fit(X, pd.DataFrame(Y))
        assert np.array_equal(selector.get_support(), expected.get_support())
        scores = cross_val_score(model, selector.transform(X), Y, cv=KFold(4))
        assert selector.cost_ == pytest.approx(1 - scores.mean())
        assert SubsetSelector(model, epochs=2).fit(X, Y).cost_ < 0.5

    def test_of_classes(self) -> None:
        X, y = make_classification(90, 6, n_informative=4, n_classes=3, random_state=0)
        Y = np.column_stack([y, (y + 1) % 3])
        model = DecisionTreeClassifier(max_depth=3, random_state=0)
        selector = SubsetSelector(model, cv=KFold(3), **SFS).fit(X, Y)
        costs = []
        for train, test in KFold(3).split(X):
            chosen = X[:, selector.get_support()]
            found = model.fit(chosen[train], Y[train]).predict(chosen[test])
            costs.append(1 - (found == Y[test]).all(axis=1).mean())
        assert selector.cost_ == pytest.approx(np.mean(costs))
        text = np.array(["a", "b", "c"])[Y]
        assert SubsetSelector(model, cv=KFold(3), **SFS).fit(X, text).cost_ == selector.cost_


class TestScorersAndEstimators:
    @pytest.mark.parametrize("model", [PCA(1), make_pipeline(StandardScaler(), PCA(1))])
    def test_what_predicts_nothing_is_refused_before_any_fit(self, model: Any) -> None:
        X, y = make_classification(60, 6, random_state=0)
        with pytest.raises(ConfigError, match="no method 'predict', which is needed to score"):
            SubsetSelector(model, **SFS).fit(X, y)
        chosen = SubsetSelector(model, scoring=_explained, **SFS).fit(X, y)
        assert len(chosen.subset_) == 2

    def test_an_estimator_without_get_params_is_copied(self) -> None:
        X, y = make_classification(60, 6, random_state=0)
        model = Plain(offset=0.0)
        selector = SubsetSelector(model, scoring=_accuracy, cv=3, **SFS).fit(X, y)
        assert selector.cost_ < -0.8
        assert not hasattr(model, "means_")
        table = pd.DataFrame(X).add_prefix("x")
        first, second = (Problem.build(table, y, Plain(offset)) for offset in (0, 1))
        assert first.fingerprint() != second.fingerprint()


def _accuracy(model: Any, X: Any, y: Any) -> float:
    return float((model.predict(X) == y).mean())


def _explained(model: Any, X: Any, y: Any) -> float:
    return float(np.var(model.transform(X)))


class Plain:
    """A classifier that knows nothing of scikit-learn."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def fit(self, X: Any, y: Any) -> Plain:
        self.means_ = {label: np.asarray(X)[y == label].mean(axis=0) for label in np.unique(y)}
        return self

    def predict(self, X: Any) -> Any:
        labels = list(self.means_)
        far = [((np.asarray(X) - self.means_[label] - self.offset) ** 2).sum(1) for label in labels]
        return np.array(labels)[np.argmin(far, axis=0)]
