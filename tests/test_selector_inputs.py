"""Claims on what a selector takes: any table, any target, inside any other estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import swarm.selector.tables
from swarm import MLkNN, SubsetSelector
from swarm.errors import ConfigError, DataError
from tests.selecting import BRIEF, TREES, WINE
from tests.test_archive import run_python


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Witness(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the first class, and remembers what it was given; an array is also written to."""

    seen: ClassVar[set[str]] = set()

    def fit(self, X: Any, y: Any) -> Witness:
        if len(y) > 20:  # not the look for importances, which fits 20 made-up rows
            self.seen.update(self._told(X))
        if isinstance(X, np.ndarray):
            X[:, None, :] *= 1  # as PyTorch does
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        self.seen.update(self._told(X))
        return np.full(len(X), self.classes_[0])

    def _told(self, X: Any) -> set[str]:
        if isinstance(X, pd.DataFrame):
            return {f"{name}: {dtype}" for name, dtype in X.dtypes.items()}
        return {f"{type(X).__name__} of {X.dtype}"}


def test_dtypes_of_a_table_reach_the_model_as_they_are() -> None:
    table = pd.DataFrame({"small": np.arange(30, dtype=np.int8), "yes": [True, False, False] * 10})
    table["part"] = pd.Series(np.linspace(0, 1, 30), dtype="float32")
    Witness.seen.clear()
    SubsetSelector(Witness(), strategy="full", cv=3).fit(table, [0, 1] * 15)
    assert Witness.seen == {"small: int8", "yes: bool", "part: float32"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_an_array_reaches_the_model_as_an_array(dtype: str) -> None:
    X, y = WINE[0].to_numpy().astype(dtype), WINE[1].to_numpy()
    Witness.seen.clear()
    SubsetSelector(Witness(), **BRIEF).fit(X, y)
    assert Witness.seen == {f"ndarray of {dtype}"}


def test_an_array_reaches_the_steps_of_a_pipeline_too() -> None:
    X, y = WINE[0].to_numpy(), WINE[1].to_numpy()
    Witness.seen.clear()
    model = make_pipeline(FunctionTransformer(_twice), Witness())
    SubsetSelector(model, **BRIEF).fit(X.tolist(), y)
    assert Witness.seen == {"ndarray of float64"}


def _twice(X: Any) -> Any:
    assert type(X) is np.ndarray
    return X * 2.0


def test_polars_goes_in_and_comes_out_as_it_is() -> None:
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    kind = pl.Series(["red", "white", None] * 20, dtype=pl.Categorical)
    X = pl.DataFrame({"noise": rng.normal(size=60), "kind": kind, "count": range(60)})
    y = pl.Series(["a", "b"] * 30)
    options = {**BRIEF, "fixed": ["kind", "count"]}
    selector = SubsetSelector(TREES, **options).set_output(transform="polars").fit(X, y)
    assert selector.feature_names_in_.tolist() == ["noise", "kind", "count"]
    assert selector.transform(X).equals(X.select(selector.subset_))
    assert selector.transform(X).schema["kind"] == pl.Categorical
    same = SubsetSelector(TREES, **options).fit(X.to_pandas(), y.to_numpy())
    assert (same.subset_, same.cost_) == (selector.subset_, selector.cost_)
    assert np.array_equal(same.transform(X)[:, -1], X["count"])
    with pytest.raises(ValueError, match="feature names"):
        selector.transform(X.rename({"kind": "sort"}))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_gives_the_answer_of_dense(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = WINE[0].to_numpy(), WINE[1].to_numpy()
    dense, thin = SubsetSelector(GaussianNB(), **BRIEF).fit(X, y), kind(X)
    selector = SubsetSelector(GaussianNB(), **BRIEF).fit(thin, y)
    assert selector.subset_ == dense.subset_
    chosen = selector.transform(thin)
    assert sparse.issparse(chosen)
    assert np.array_equal(chosen.toarray(), dense.transform(X))
    back = selector.inverse_transform(chosen)
    assert np.array_equal(back.toarray(), dense.inverse_transform(dense.transform(X)))
    monkeypatch.setattr(swarm.selector.tables.os, "sysconf", lambda _: 1)
    with pytest.raises(DataError, match=r"takes 0 GB once dense.*drop columns"):
        selector.fit(thin, y)


def test_several_labels_are_one_problem() -> None:
    X, Y = make_multilabel_classification(90, 8, n_classes=3, random_state=0)
    options = {**BRIEF, "scoring": "f1_samples"}
    selector = SubsetSelector(MLkNN(3), **options).fit(X, Y)
    named = SubsetSelector(MLkNN(3), **options).fit(X, pd.DataFrame(Y, columns=list("abc")))
    assert selector.subset_ == named.subset_
    assert 0 < selector.cost_ < 1
    assert (selector.importances_ > 0).any()


def test_columns_that_are_numbered_are_called_x0_and_so_on() -> None:
    X, y = WINE
    plain = X.set_axis(range(X.shape[1]), axis=1)
    selector = SubsetSelector(GaussianNB(), fixed=["x0"], **BRIEF).fit(plain, y)
    assert selector.get_feature_names_out()[0] == selector.subset_[0] == "x0"
    assert not hasattr(selector, "feature_names_in_")


class TestRouting:
    """Weights and groups, asked for through a pipeline and a grid search."""

    def plain(self, weight: Any, groups: Any) -> SubsetSelector:
        with sklearn.config_context(enable_metadata_routing=False):
            selector = SubsetSelector(GaussianNB(), **{**BRIEF, "cv": GroupKFold(3)})
            return selector.fit(*WINE, sample_weight=weight, groups=groups)

    @pytest.mark.usefixtures("routing")
    def test_they_go_where_they_were_requested(self) -> None:
        groups = np.arange(len(WINE[1])) % 9
        weight = np.random.default_rng(0).uniform(0.1, 3, len(groups))
        model = GaussianNB().set_fit_request(sample_weight=True)
        selector = SubsetSelector(model, **{**BRIEF, "cv": GroupKFold(3)})
        last = KNeighborsClassifier().set_score_request(sample_weight=False)
        pipe = make_pipeline(selector, last).fit(*WINE, sample_weight=weight, groups=groups)
        expected = self.plain(weight, groups)
        assert pipe[0].subset_ == expected.subset_
        assert pipe[0].cost_ == expected.cost_ != self.plain(None, groups).cost_
        grid = GridSearchCV(
            pipe,
            {"subsetselector__max_size": [9]},
            cv=GroupKFold(2),
            scoring=make_scorer(accuracy_score).set_score_request(sample_weight=False),
            error_score="raise",
        )
        grid.fit(*WINE, sample_weight=weight, groups=groups)
        assert grid.best_score_ > 0.7

    @pytest.mark.usefixtures("routing")
    def test_what_was_not_requested_is_refused(self) -> None:
        weight = np.ones(len(WINE[1]))
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            SubsetSelector(GaussianNB(), **BRIEF).fit(*WINE, sample_weight=weight)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        model = GaussianNB().set_fit_request(sample_weight=True)
        with pytest.raises(ConfigError, match="cannot be passed on to 'score'"):
            SubsetSelector(model, scoring=scorer, **BRIEF).fit(*WINE, sample_weight=weight)

    def test_without_routing_only_two_names_are_known(self) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument 'wait'"):
            SubsetSelector(GaussianNB(), **BRIEF).fit(*WINE, wait=1)


@pytest.mark.slow
def test_it_works_without_what_newer_versions_of_scikit_learn_bring() -> None:
    code = """
import sys
import sklearn.ensemble, sklearn.feature_selection, sklearn.pipeline
from sklearn.naive_bayes import GaussianNB
sys.modules['sklearn.callback'] = None
from swarm import SubsetSelector
from tests.selecting import WINE
selector = SubsetSelector(GaussianNB(), strategy='sfs', size=2).fit(*WINE)
print(selector.subset_, hasattr(selector, 'set_callbacks'))
"""
    assert run_python(code).endswith("False")


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), GaussianNB()),
        DecisionTreeClassifier(max_depth=3),
        TREES,
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_same_numbers_cost_the_same_as_an_array_and_as_a_table(model: Any) -> None:
    X, y = WINE[0].to_numpy(), WINE[1]
    options = {**BRIEF, "scoring": "neg_log_loss"}
    table = SubsetSelector(model, **options).fit(pd.DataFrame(X).add_prefix("x"), y)
    array = SubsetSelector(model, **options).fit(X, y)
    assert array.get_support().tolist() == table.get_support().tolist()
    pd.testing.assert_frame_equal(array.history_, table.history_, check_exact=True)


class Catless(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Stands in for CatBoost: takes categories where `cat_features` names them, and no others."""

    def __init__(self, cat_features: Any = None) -> None:
        self.cat_features = cat_features

    def fit(self, X: Any, y: Any) -> Catless:
        named = [X.columns[f] if isinstance(f, int) else f for f in self.cat_features or ()]
        categorical = [n for n in X if isinstance(X[n].dtype, pd.CategoricalDtype)]
        if sorted(named) != sorted(categorical):
            raise ValueError(f"{named} are named but {categorical} are categorical")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


class Enabling(Catless):
    """Stands in for XGBoost, which takes categories where a parameter says so."""

    def __init__(self, enable_categorical: bool = False) -> None:
        self.enable_categorical = enable_categorical

    def fit(self, X: Any, y: Any) -> Enabling:
        self.classes_ = np.unique(y)
        return self


class Tagged(Enabling):
    """Says by a tag that it takes categories."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


class TestCategories:
    @pytest.fixture
    def mixed(self) -> Any:
        X, y = WINE
        kind = pd.Categorical(np.where(X["ash"] > 2.3, "high", "low"))
        sort = pd.Categorical(np.where(X["hue"] > 1, "red", "white"))
        return X.iloc[:, :3].assign(kind=kind, sort=sort), y

    @pytest.mark.parametrize(
        "model",
        [
            Catless(["kind", "sort"]),
            Catless([3, 4]),
            Enabling(enable_categorical=True),
            Tagged(),
            HistGradientBoostingClassifier(max_iter=2, categorical_features=["kind", "sort"]),
            HistGradientBoostingClassifier(max_iter=2, categorical_features=[3, 4]),
            HistGradientBoostingClassifier(max_iter=2),
        ],
    )
    def test_models_that_take_them_are_given_them(self, mixed: Any, model: Any) -> None:
        selector = SubsetSelector(model, strategy="sfs", cv=3, importance="none").fit(*mixed)
        assert np.isfinite(selector.results_["cost"].dropna()).all()
        assert len(selector.results_) == 15

    def test_others_are_refused_unless_the_user_knows_better(self, mixed: Any) -> None:
        with pytest.raises(DataError, match=r"'kind' is categorical .*set categorical_support"):
            SubsetSelector(Enabling(), strategy="full").fit(*mixed)
        selector = SubsetSelector(Enabling(), strategy="full", categorical_support=True)
        assert len(selector.fit(*mixed).subset_) == 5

    def test_the_same_parameters_without_effect_change_nothing(self) -> None:
        plain, other = (
            SubsetSelector(HistGradientBoostingClassifier(max_iter=2, **options), **BRIEF)
            for options in ({}, {"categorical_features": None})
        )
        assert plain.fit(*WINE).history_.equals(other.fit(*WINE).history_)


class TestMissingValues:
    def test_an_array_with_some_goes_to_a_pipeline_that_fills_them(self) -> None:
        X, y = WINE[0].to_numpy().copy(), WINE[1].to_numpy()
        X[::9, 0] = np.nan
        model = make_pipeline(SimpleImputer(), GaussianNB())
        selector = SubsetSelector(model, fixed=[0], **BRIEF).fit(X, y)
        table = pd.DataFrame(X).add_prefix("x")
        same = SubsetSelector(model, fixed=[0], **BRIEF).fit(table, y)
        assert selector.subset_ == same.subset_
        assert selector.cost_ == same.cost_
        assert np.isnan(selector.transform(X)[0, 0])
        whole = make_pipeline(selector, SimpleImputer(), GaussianNB()).fit(X, y)
        assert whole.score(X, y) > 0.5

    def test_an_array_is_transformed_after_a_fit_on_a_table(self) -> None:
        X, y = WINE[0].copy(), WINE[1]
        X.iloc[::9, 0] = np.nan
        model = make_pipeline(SimpleImputer(), GaussianNB())
        selector = SubsetSelector(model, fixed=["alcohol"], **BRIEF).fit(X, y)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            chosen = selector.transform(X.to_numpy())
        np.testing.assert_array_equal(chosen, X[selector.subset_].to_numpy())


def test_columns_of_one_name_are_refused() -> None:
    X, y = WINE
    twice = X.set_axis(["ash", "ash", *X.columns[2:]], axis=1)
    with pytest.raises(DataError, match="column 'ash' appears more than once"):
        SubsetSelector(GaussianNB(), **BRIEF).fit(twice, y)
