"""Claims on what a selector takes: any table, any target, any model, inside any other estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import (
    load_wine,
    make_blobs,
    make_classification,
    make_multilabel_classification,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import (
    accuracy_score,
    make_scorer,
    silhouette_score,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import swarm.problem.fingerprint
import swarm.selector.inputs
from swarm import MLkNN, SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.models import describe
from swarm.problem.problem import Problem
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
def test_an_array_reaches_the_model_and_the_steps_of_a_pipeline_as_an_array(dtype: str) -> None:
    X, y = WINE[0].to_numpy().astype(dtype), WINE[1].to_numpy()
    Witness.seen.clear()
    SubsetSelector(Witness(), **BRIEF).fit(X, y)
    assert Witness.seen == {f"ndarray of {dtype}"}
    model = make_pipeline(FunctionTransformer(_twice), Witness())
    SubsetSelector(model, **BRIEF).fit(X.tolist(), y)
    assert "ndarray of float64" in Witness.seen


def _twice(X: Any) -> Any:
    assert type(X) is np.ndarray
    return X * 2.0


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_a_table_of_one_column_is_a_target(module: str) -> None:
    kind = {"pyarrow": "table"}.get(module, "DataFrame")
    X, y = WINE
    table = getattr(pytest.importorskip(module), kind)({"cultivar": y.to_numpy()})
    same = SubsetSelector(GaussianNB(), **BRIEF).fit(X, y)
    assert SubsetSelector(GaussianNB(), **BRIEF).fit(X, table).subset_ == same.subset_


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
    monkeypatch.setattr(swarm.selector.inputs.os, "sysconf", lambda _: 1)
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
    # A model of one target with a fast path, which is not for several.
    assert SubsetSelector(KNeighborsClassifier(), **BRIEF).fit(X, Y).subset_


def test_columns_that_are_numbered_are_called_x0_and_so_on() -> None:
    X, y = WINE
    array = X.to_numpy()
    for plain in (X.set_axis(range(X.shape[1]), axis=1), array):
        selector = SubsetSelector(GaussianNB(), fixed=["x0"], forbidden=["x3"], **BRIEF)
        selector.fit(plain, y)
        assert selector.get_feature_names_out().tolist() == selector.subset_
        assert selector.subset_[0] == "x0"
        assert set(selector.subset_) <= {f"x{i}" for i in range(13) if i != 3}
        assert np.array_equal(selector.transform(plain), array[:, selector.get_support()])
        assert not hasattr(selector, "feature_names_in_")
    # Numbers that are names and no positions constrain nothing.
    turned = X.iloc[:, :4].set_axis([3, 2, 1, 0], axis=1)
    assert SubsetSelector(GaussianNB(), **BRIEF).fit(turned, y).subset_
    with pytest.raises(DataError, match="fixed may mean names or positions"):
        SubsetSelector(GaussianNB(), fixed=[0], **BRIEF).fit(turned, y)


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


TWICE = WINE[0].set_axis(["ash", "ash", *WINE[0].columns[2:]], axis=1)
LABELS = make_multilabel_classification(60, 5, n_classes=3, random_state=0)
SCALED = make_pipeline(StandardScaler(), GaussianNB())
SINGLE = ColumnTransformer([("scale", StandardScaler(), "alcohol")])
NO_TARGET = (WINE[0], None)


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "words"),
    [
        (GaussianNB(), (TWICE, WINE[1]), {}, DataError, "column 'ash' appears more than once"),
        (
            GaussianNB(),
            (WINE[0], WINE[0]["ash"]),
            {},
            DataError,
            "is a classifier; use a regressor",
        ),
        (GaussianNB(), LABELS, {}, DataError, "GaussianNB predicts one"),
        (SCALED, LABELS, {}, DataError, "GaussianNB predicts one"),
        (make_pipeline(SINGLE, GaussianNB()), WINE, {}, ConfigError, "pass a list, ['alcohol']"),
        (PCA(1), WINE, {}, ConfigError, "no method 'predict', which is needed to score"),
        (make_pipeline(StandardScaler(), PCA(1)), WINE, {}, ConfigError, "no method 'predict', wh"),
        (GaussianNB(), NO_TARGET, {}, InputError, "requires y to be passed"),
        (KMeans(2), NO_TARGET, {"scoring": "accuracy"}, InputError, "'accuracy' needs a target"),
        (KMeans(2), NO_TARGET, {"strategy": "mlaco"}, InputError, "'mlaco' needs a target"),
        (
            KMeans(2),
            NO_TARGET,
            {"importance": "mutual_information"},
            InputError,
            "the task 'unsupervised'",
        ),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused_before_it_is_trained(
    model: Any,
    data: Any,
    options: Any,
    error: type[Exception],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CrossValidation, "evaluate", lambda *_: pytest.fail("evaluated"))
    with pytest.raises(error) as caught:
        SubsetSelector(model, cv=3, epochs=2, **options).fit(*data)
    assert words in str(caught.value)


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

    def test_they_are_numbers_to_a_regressor(self) -> None:
        X = np.random.default_rng(0).normal(size=(100, 3))
        # Each is too rare for stratified folds, and one for the checks of columns.
        y = np.repeat(np.arange(25), 4)
        y[0] = 30
        selector = SubsetSelector(Ridge(), **SFS).fit(X, y)
        folds = KFold(5, shuffle=True, random_state=0)
        scores = cross_val_score(Ridge(), X[:, selector.get_support()], y, cv=folds)
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
        # Archives contain this path, in the fingerprints of such problems.
        scorer = describe(selector._evaluated.scoring.scorer)
        assert scorer == "swarm.selector.defaults.subset_accuracy"
        text = np.array(["a", "b", "c"])[Y]
        assert SubsetSelector(model, cv=KFold(3), **SFS).fit(X, text).cost_ == selector.cost_


class TestScorersAndEstimators:
    @pytest.mark.parametrize("model", [PCA(1), make_pipeline(StandardScaler(), PCA(1))])
    def test_what_predicts_nothing_needs_a_scorer_that_does_without(self, model: Any) -> None:
        X, y = make_classification(60, 6, random_state=0)
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


def test_a_number_of_folds_divides_no_group() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5)
    rows = rng.normal(size=(60, 4))[groups] + 0.01 * rng.normal(size=(300, 4))
    noise = rng.integers(0, 2, 60)[groups]
    nearest = SubsetSelector(KNeighborsClassifier(1), epochs=2, confirm=True)
    nearest.fit(rows, noise, groups=groups)
    # Without groups, a near copy of each row is in the training rows: a cost of 0.
    assert nearest.cost_ > 0.2
    assert nearest.confirmation_.cost > 0.2


def test_a_class_rarer_than_the_folds_is_a_warning() -> None:
    wine, kinds = load_wine(return_X_y=True)
    kept = np.flatnonzero((kinds != 2) | (np.cumsum(kinds == 2) <= 4))
    with pytest.warns(UserWarning, match="least populated class") as told:
        fitted = SubsetSelector(GaussianNB(), epochs=2, confirm=True).fit(wine[kept], kinds[kept])
    assert len([each for each in told if "least populated" in str(each.message)]) == 1
    assert fitted.confirmation_ is not None


def test_a_column_transformer_gets_the_columns_of_the_subset() -> None:
    X, y = WINE
    rng = np.random.default_rng(0)
    table = X.iloc[:, :5].assign(city=pd.Categorical(rng.choice(list("abc"), len(X))))
    by_name = ColumnTransformer(
        [
            ("numbers", StandardScaler(), slice("alcohol", "magnesium")),
            ("city", OneHotEncoder(), ["city"]),
        ]
    )
    by_place = ColumnTransformer(
        [("numbers", StandardScaler(), [0, 1, 2, 3, 4]), ("city", OneHotEncoder(), [5])]
    )
    found = []
    for transformer in (by_name, by_place):
        model = make_pipeline(transformer, LogisticRegression())
        fitted = SubsetSelector(model, strategy="sfs", size=2, cv=3).fit(table, y)
        found.append((fitted.subset_, fitted.cost_))
    assert found[0] == found[1]
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    alone = SubsetSelector(scaled, strategy="sfs", size=2, cv=3).fit(table.iloc[:, :5], y)
    assert found[0][1] <= alone.cost_
