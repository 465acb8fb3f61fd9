"""Tests of inputs of a selector: tables, targets and models, also inside other estimators."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from lightgbm import LGBMClassifier
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import (
    make_classification,
    make_multilabel_classification,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import swarm.problem.fingerprint
import swarm.selector.inputs
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.models import takes_weights
from swarm.problem.problem import Problem
from tests.selecting import BRIEF, WINE


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


ROWS = np.random.default_rng(0).normal(size=(90, 3))
TABLE = pd.DataFrame(ROWS, columns=list("cab"), index=np.arange(90)[::-1] * 3)
SIGN = (ROWS[:, 1] > 0).astype(int)
BOOSTED = LGBMClassifier(n_estimators=5, min_child_samples=5, verbosity=-1)
BINNED = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
PRICES = [Decimal("1.5"), Decimal("2.25"), None] * 30
WAITS = [timedelta(hours=1), timedelta(days=2), None] * 30


def mixed(values: Any, dtype: Any = None) -> pd.DataFrame:
    return TABLE.assign(k=pd.Series(values, index=TABLE.index, dtype=dtype))


def polars_table(**columns: Any) -> Any:
    pl = pytest.importorskip("polars")
    return pl.DataFrame(TABLE.reset_index(drop=True)).with_columns(
        **{name: pl.Series(values) for name, values in columns.items()}
    )


def polars_categories() -> Any:
    return pytest.importorskip("polars").from_pandas(mixed(list("xyz") * 30, "category"))


# The table that is passed to `fit`, or a function that builds it, and the model.
REFUSED: dict[str, tuple[Any, Any]] = {
    "numbers of Arrow": (mixed([7, None, 2] * 30, "uint8[pyarrow]"), BOOSTED),
    "objects": (mixed(PRICES, object), BOOSTED),
    "durations": (mixed(WAITS, "timedelta64[us]"), BINNED),
    "durations of Arrow": (mixed(WAITS, "duration[us][pyarrow]"), BINNED),
    "intervals": (mixed(pd.cut(pd.Series(ROWS[:, 0], index=TABLE.index), 3)), BOOSTED),
    "polars decimals": (lambda: polars_table(k=PRICES), BOOSTED),
    "polars categories": (polars_categories, BOOSTED),
    "sparse": (sparse.csr_array(ROWS), GaussianNB()),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_columns_are_not_converted_for_a_model_that_does_not_support_them(kind: str) -> None:
    table, model = REFUSED[kind]
    X = table() if callable(table) else table
    with pytest.raises(InputError, match=f"'k'|{type(model).__name__}"):
        SubsetSelector(model, **BRIEF).fit(X, SIGN)


@pytest.fixture(scope="module")
def fitted() -> SubsetSelector:
    table = mixed(list("xyz") * 30, "category")
    return SubsetSelector(BOOSTED, budget=1, cv=3, fixed=["k"]).fit(table, SIGN)


class TestContainers:
    def test_the_way_back_has_zeros_for_columns_left_out(self, fitted: SubsetSelector) -> None:
        table = mixed(["x", "y", None] * 30, "category")
        back = fitted.inverse_transform(fitted.transform(table))
        assert list(back) == list(table)
        pd.testing.assert_frame_equal(back[fitted.subset_], table[fitted.subset_])
        assert (back.drop(columns=fitted.subset_) == 0).all(axis=None)

    def test_polars_stays_polars_and_arrow_is_refused(self, fitted: SubsetSelector) -> None:
        pa = pytest.importorskip("pyarrow")
        table = mixed(list("xyz") * 30, "category")
        frame = pytest.importorskip("polars").from_pandas(table)
        assert fitted.transform(frame).equals(frame.select(fitted.subset_))
        with pytest.raises(DataError, match=r"X\.to_pandas\(\)"):
            fitted.transform(pa.Table.from_pandas(table, preserve_index=False))

    def test_lists_and_lazy_frames_are_refused(self, fitted: SubsetSelector) -> None:
        for X in (mixed([[1, 2]] * 90), polars_table(k=[[1, 2]] * 90)):
            for model in (BOOSTED, make_pipeline(FunctionTransformer(), BOOSTED)):
                with pytest.raises(DataError, match="'k'"):
                    SubsetSelector(model, cv=3).fit(X, SIGN)
        for method in (fitted.fit, lambda X, _: fitted.transform(X)):
            with pytest.raises(DataError, match=r"collect\(\)"):
                method(polars_table().lazy(), SIGN)
        with pytest.raises(DataError, match=r"'k' .*categorical"):
            fitted.fit(polars_table(k=list("xyz") * 30), SIGN)


def test_an_array_reaches_the_steps_of_a_pipeline_as_an_array() -> None:
    X, y = (data.to_numpy() for data in WINE)
    model = make_pipeline(FunctionTransformer(_twice), GaussianNB())
    for table in (X.astype("float32"), X.tolist()):
        SubsetSelector(model, **BRIEF).fit(table, y)


def _twice(X: Any) -> Any:
    assert type(X) is np.ndarray
    return X * 2.0


def test_sparse_gives_the_answer_of_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = (data.to_numpy() for data in WINE)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    dense = SubsetSelector(tree, **BRIEF).fit(X, y)
    sparse_rows = sparse.coo_array(X)
    selector = SubsetSelector(tree, **BRIEF).fit(sparse_rows, y)
    assert selector.subset_ == dense.subset_
    chosen = selector.transform(sparse_rows)
    assert sparse.issparse(chosen)
    assert np.array_equal(chosen.toarray(), dense.transform(X))
    back = selector.inverse_transform(chosen)
    assert np.array_equal(back.toarray(), dense.inverse_transform(dense.transform(X)))
    monkeypatch.setattr(swarm.problem.table.os, "sysconf", lambda _: 1)
    with pytest.raises(DataError, match="dense"):
        selector.fit(sparse_rows, y)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64", {"a": "int64", "b": "bool"}])
def test_labels_that_no_scorer_of_scikit_learn_reads_are_refused(dtype: Any) -> None:
    labels = pd.DataFrame({"a": WINE[1] == 0, "b": WINE[1] == 1}).astype(dtype)
    with pytest.raises(ConfigError, match="'accuracy' fails for KNeighborsClassifier"):
        SubsetSelector(KNeighborsClassifier(), **{**BRIEF, "cv": KFold(3)}).fit(WINE[0], labels)


@pytest.mark.parametrize(
    ("options", "params", "words"),
    [
        ({"random_state": 2**32}, {}, r"below 2\*\*32"),
        ({"cv": [(np.arange(60) + 0.5, np.arange(60, 120))]}, {}, "pairs of"),
        ({"cv": 3}, {"groups": [(i, i) for i in range(len(WINE[1]))]}, "one value"),
        ({"cv": [([[0, 1], [2, 3]], range(60))]}, {}, "pairs of"),
    ],
)
def test_rows_that_cannot_be_divided_are_refused_in_a_sentence(
    options: dict[str, Any], params: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        SubsetSelector(GaussianNB(), **{**BRIEF, **options}).fit(*WINE, **params)


def test_bytes_are_no_labels() -> None:
    with pytest.raises(DataError, match="bytes"):
        SubsetSelector(GaussianNB(), **BRIEF).fit(WINE[0], np.where(WINE[1] == 0, b"y", b"n"))


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        (GridSearchCV(SVC(), {"C": [1, 10]}), True),
        (VotingClassifier([("a", SVC()), ("b", GaussianNB())]), True),
        (TransformedTargetRegressor(Ridge()), True),
        (VotingClassifier([("a", SVC()), ("b", KNeighborsClassifier())]), False),
        (GridSearchCV(make_pipeline(SVC()), {"svc__C": [1, 10]}), False),
        (KNeighborsClassifier(), False),
    ],
    ids=repr,
)
def test_weights_are_taken_by_models_that_pass_them_on(model: Any, takes: bool) -> None:
    assert takes_weights(model) == takes
    if takes:
        table = WINE[0][::3]
        target = (WINE[1][::3] == 1).astype(int)
        model.fit(table, target, sample_weight=np.ones(len(target)))


def test_a_table_of_one_column_is_a_target() -> None:
    X, y = WINE
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    expected = SubsetSelector(GaussianNB(), **BRIEF).fit(X, y)
    for table in (pd.DataFrame, pl.DataFrame, pa.table):
        target = table({"cultivar": y.to_numpy()})
        assert SubsetSelector(GaussianNB(), **BRIEF).fit(X, target).subset_ == expected.subset_


def test_only_columns_of_an_array_are_called_x0_and_so_on() -> None:
    X, y = WINE
    array = X.to_numpy()
    for table, label in ((X.set_axis(range(13), axis=1), int), (array, "x{}".format)):
        fixed = [label(0)]
        forbidden = [label(3)]
        selector = SubsetSelector(GaussianNB(), fixed=fixed, forbidden=forbidden, **BRIEF)
        selector.fit(table, y)
        names = [f"x{position}" for position in selector.get_support(indices=True)]
        assert selector.get_feature_names_out().tolist() == names
        assert selector.subset_ == [label(name[1:]) for name in names]
        assert selector.subset_[0] == fixed[0]
        assert forbidden[0] not in selector.subset_
        assert list(selector.subset_) in map(list, selector.results_["features"])
        assert np.array_equal(selector.transform(table), array[:, selector.get_support()])
        assert not hasattr(selector, "feature_names_in_")
    # Names that are numbers are no positions.
    renamed = X.iloc[:, :4].set_axis([3, 2, 1, 0], axis=1)
    assert set(SubsetSelector(GaussianNB(), **BRIEF).fit(renamed, y).subset_) <= {0, 1, 2, 3}
    with pytest.raises(DataError, match="fixed"):
        SubsetSelector(GaussianNB(), fixed=[0], **BRIEF).fit(renamed, y)


class TestRouting:
    """Weights and groups that a model requests are routed through a pipeline."""

    def fit_without_routing(self, weight: Any, groups: Any) -> SubsetSelector:
        with sklearn.config_context(enable_metadata_routing=False):
            selector = SubsetSelector(GaussianNB(), **{**BRIEF, "cv": GroupKFold(3)})
            return selector.fit(*WINE, sample_weight=weight, groups=groups)

    @pytest.mark.usefixtures("routing")
    def test_they_go_where_they_were_requested(self) -> None:
        groups = np.arange(len(WINE[1])) % 9
        weight = np.random.default_rng(0).uniform(0.1, 3, len(groups))
        model = GaussianNB().set_fit_request(sample_weight=True)
        selector = SubsetSelector(model, **{**BRIEF, "cv": GroupKFold(3)})
        classifier = KNeighborsClassifier().set_score_request(sample_weight=False)
        pipe = make_pipeline(selector, classifier).fit(*WINE, sample_weight=weight, groups=groups)
        expected = self.fit_without_routing(weight, groups)
        assert pipe[0].subset_ == expected.subset_
        assert pipe[0].cost_ == expected.cost_ != self.fit_without_routing(None, groups).cost_

    @pytest.mark.usefixtures("routing")
    def test_what_was_not_requested_is_refused(self) -> None:
        weight = np.ones(len(WINE[1]))
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            SubsetSelector(GaussianNB(), **BRIEF).fit(*WINE, sample_weight=weight)


class Catless(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Stands in for CatBoost: takes categories where `cat_features` names them, and no others."""

    def __init__(self, cat_features: Any = None) -> None:
        self.cat_features = cat_features

    def fit(self, X: Any, y: Any) -> Catless:
        named = [X.columns[f] if isinstance(f, int) else f for f in self.cat_features or ()]
        categorical = [name for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]
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
        strength = pd.Categorical(np.where(X["ash"] > 2.3, "high", "low"))
        colour = pd.Categorical(np.where(X["hue"] > 1, "red", "white"))
        return X.iloc[:, :3].assign(kind=strength, sort=colour), y

    @pytest.mark.parametrize(
        "model",
        [
            Catless(["kind", "sort"]),
            Enabling(enable_categorical=True),
            Tagged(),
        ],
    )
    def test_models_that_take_them_are_given_them(self, mixed: Any, model: Any) -> None:
        selector = SubsetSelector(model, strategy="sfs", cv=3, importance="none").fit(*mixed)
        assert np.isfinite(selector.results_["cost"].dropna()).all()
        assert len(selector.results_) == 15

    def test_others_are_refused(self, mixed: Any) -> None:
        with pytest.raises(DataError, match="'kind'"):
            SubsetSelector(Enabling(), strategy="full").fit(*mixed)


LABELS = make_multilabel_classification(60, 5, n_classes=3, random_state=0)
SCALED = make_pipeline(StandardScaler(), GaussianNB())
SINGLE = ColumnTransformer([("scale", StandardScaler(), "alcohol")])
ONE_SERIES = clone(SINGLE).set_params(remainder="passthrough")
NO_TARGET = (WINE[0], None)


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "words"),
    [
        (GaussianNB(), (WINE[0], WINE[0]["ash"]), {}, DataError, "use a regressor"),
        (SCALED, LABELS, {}, DataError, "GaussianNB predicts one"),
        (make_pipeline(SINGLE, GaussianNB()), WINE, {}, ConfigError, "'hue'"),
        (make_pipeline(ONE_SERIES, GaussianNB()), WINE, {}, ConfigError, "cannot be fitted.*2-dim"),
        (make_pipeline(StandardScaler(), PCA(1)), WINE, {}, ConfigError, "'predict'"),
        (GaussianNB(), NO_TARGET, {}, DataError, "requires y"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused_before_it_is_trained(
    model: Any, data: Any, options: Any, error: type[Exception], words: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(CrossValidation, "evaluate", lambda *_: pytest.fail("evaluated"))
    with pytest.raises(error, match=words):
        SubsetSelector(model, cv=3, budget=2, **options).fit(*data)


SFS: dict[str, Any] = {"strategy": "sfs", "size": 2}


@pytest.mark.parametrize("target", [np.rint(ROWS * 9), ROWS > 0], ids=["whole", "labels"])
def test_several_outputs_of_a_regressor_are_numbers_whatever_their_values(target: Any) -> None:
    y = target[:, :2].astype(int)
    selector = SubsetSelector(Ridge(), budget=2, cv=KFold(3)).fit(ROWS, y)
    columns = selector.get_support()
    scores = cross_val_score(Ridge(), ROWS[:, columns], y, cv=KFold(3), scoring="r2")
    assert selector.cost_ == pytest.approx(1 - scores.mean())


def test_several_outputs_of_classes_are_right_if_all_of_a_row_are() -> None:
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    X, y = make_classification(90, 6, n_informative=4, n_classes=3, random_state=0)
    Y = np.column_stack([y, (y + 1) % 3])
    selector = SubsetSelector(model, cv=KFold(3), **SFS).fit(X, Y)
    costs = []
    for train, test in KFold(3).split(X):
        chosen = X[:, selector.get_support()]
        predicted = model.fit(chosen[train], Y[train]).predict(chosen[test])
        costs.append(1 - (predicted == Y[test]).all(axis=1).mean())
    assert selector.cost_ == pytest.approx(np.mean(costs))
    text = np.array(["a", "b", "c"])[Y]
    assert SubsetSelector(model, cv=KFold(3), **SFS).fit(X, text).cost_ == selector.cost_


def test_an_estimator_without_get_params_is_copied() -> None:
    X, y = make_classification(60, 6, random_state=0)
    model = Plain(offset=0.0)
    selector = SubsetSelector(model, scoring=_accuracy, cv=3, **SFS).fit(X, y)
    assert selector.cost_ < -0.8
    assert not hasattr(model, "means_")
    table = pd.DataFrame(X).add_prefix("x")
    problem, other_problem = (Problem.build(table, y, Plain(offset)) for offset in (0, 1))
    assert problem.fingerprint() != other_problem.fingerprint()


def _accuracy(model: Any, X: Any, y: Any) -> float:
    return float((model.predict(X) == y).mean())


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
    groups = np.repeat(np.arange(60), 3)
    rows = rng.normal(size=(60, 4))[groups] + 0.01 * rng.normal(size=(180, 4))
    noise = rng.integers(0, 2, 60)[groups]
    options = {**BRIEF, "cv": 5}
    nearest = SubsetSelector(KNeighborsClassifier(1), confirm={"repeats": 1}, **options)
    nearest.fit(rows, noise, groups=groups)
    # Unless groups are kept together, near copies of the test rows are trained on: the cost is 0.
    assert nearest.cost_ > 0.2
    assert nearest.confirmation_.cost > 0.2
