"""Parameters with an entry per column: restricted to each subset, at any depth, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.utils import all_estimators

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.column_params import (
    _NOT_BY_COLUMN,
    _NOT_BY_COLUMN_IN_SKLEARN,
    BY_COLUMN,
    _Changes,
)
from swarm.problem.problem import Problem
from swarm.threads import one_thread

# The user's order is not that of the search, which sorts by name.
NAMES = list("zyxwvu")
SIGNS = {"z": 1, "y": 0, "x": -1, "w": 0, "v": 1, "u": 0}
GROUPS = [["z", "y"], ["x", "w", "v"]]
SUBSETS = [["z", "x"], ["u"], ["v", "w", "x"], list("zyxwvu")]
FOLDS = KFold(2)
LIGHT = {"n_estimators": 4, "min_child_samples": 5, "verbosity": -1, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(150, 6)).round(1), columns=NAMES)
    return X, (X.z - X.x + X.y * X.w + rng.normal(size=150) > 0).astype(int)


def assert_costs_are_by_hand(
    model: Any, by_hand: Any, X: pd.DataFrame, y: Any, subsets: Any = SUBSETS
) -> None:
    """Compare the costs of subsets with those of the models ``by_hand(columns)``."""
    metric = "r2" if is_regressor(model) else "neg_log_loss"
    problem = Problem.build(X, y, model, folds=FOLDS, scoring=metric)
    subsets = [[name for name in problem.features if name in subset] for subset in subsets]
    masks = np.array([problem.space.mask(subset) for subset in subsets])
    with CrossValidation(problem) as evaluator:
        costs = evaluator.evaluate(masks, np.full(len(masks), np.inf), np.arange(2)).costs
    for subset, cost in zip(subsets, costs, strict=True):
        with one_thread():
            scores = cross_val_score(
                by_hand(subset), X[subset], y, cv=FOLDS, scoring=metric, error_score="raise"
            )
        assert cost == pytest.approx((metric == "r2") - scores.mean(), rel=1e-9), subset


def kept(groups: list[list[str]], columns: list[str]) -> list[list[int]]:
    """Groups of columns by their positions in a subset, without those that have none."""
    inside = [[columns.index(name) for name in group if name in columns] for group in groups]
    return [group for group in inside if group]


def signs(columns: list[str]) -> list[int]:
    return [SIGNS[name] for name in columns]


def hist(**params: Any) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5, random_state=0, **params)


def light(**params: Any) -> LGBMClassifier:
    return LGBMClassifier(**LIGHT, **params)


def gauss(scale: Any) -> Any:
    return GaussianProcessClassifier(RBF(scale) + WhiteKernel(0.5), optimizer=None)


def lightgbm_by_hand(columns: list[str]) -> LGBMClassifier:
    groups = kept(GROUPS, columns)
    # LightGBM never uses a column that is in no group, which no list of groups can express.
    return light(interaction_constraints=groups) if groups else light(feature_contri=[0.0])


POSITIONS = [[0, 1], [2, 3, 4]]
MODELS: dict[str, tuple[Any, Any]] = {
    "lightgbm interactions": (light(interaction_constraints=POSITIONS), lightgbm_by_hand),
    "lightgbm interactions as text": (
        light(interaction_constraints="[0,1],[2,3,4]"),
        lightgbm_by_hand,
    ),
    "lightgbm signs": (
        light(mc=[*SIGNS.values()]),
        lambda columns: light(monotone_constraints=signs(columns)),
    ),
    "lightgbm categories": (
        light(cat_feature=[1, 4]),
        lambda columns: light(cat_feature=[i for i, name in enumerate(columns) if name in "yv"]),
    ),
    "histogram interactions": (
        hist(interaction_cst=[{0, 1}, {2, 3, 4}]),
        lambda columns: hist(interaction_cst=[set(group) for group in kept(GROUPS, columns)]),
    ),
    "histogram signs by name": (
        hist(monotonic_cst={"z": 1, "x": -1}),
        lambda columns: hist(monotonic_cst=[SIGNS[name] * (name in "zx") for name in columns]),
    ),
    "histogram categories by mask": (
        hist(categorical_features=[name in "zw" for name in NAMES]),
        lambda columns: hist(categorical_features=[name in "zw" for name in columns]),
    ),
    "bins of a first step": (
        make_pipeline(KBinsDiscretizer([2, 3, 4, 5, 6, 7]), LogisticRegression()),
        lambda columns: make_pipeline(
            KBinsDiscretizer([2 + NAMES.index(name) for name in columns]), LogisticRegression()
        ),
    ),
    "length scales": (
        gauss([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        lambda columns: gauss([1.0 + NAMES.index(name) for name in columns]),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_subset_has_the_costs_of_a_model_written_by_hand(data: Any, name: str) -> None:
    model, by_hand = MODELS[name]
    assert_costs_are_by_hand(model, by_hand, *data)


# ---------------------------------------------------------------- at any depth

TOWNS, SIZES = ["b", "c", "a"], ["s", "xl", "m"]
LEVELS = {"town": TOWNS, "size": SIZES}
OF_TABLE = [["size", "z"], ["y", "z"], ["size", "town", "z", "y"]]


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"z": rng.normal(size=120), "town": rng.choice(TOWNS, 120)})
    X["y"], X["size"] = rng.normal(size=120), rng.choice(SIZES, 120)
    X.iloc[::11, 0] = np.nan
    y = (X["y"] + (X["town"] == "b") - (X["size"] == "m") + rng.normal(size=120) > 0).astype(int)
    return X.astype({"town": "category", "size": "category"}), y


def codes(columns: Any = None) -> ColumnTransformer:
    """Impute the numbers and encode the others, of all columns or of some."""
    texts = [name for name in ("town", "size") if columns is None or name in columns]
    numbers = [name for name in ("z", "y") if columns is None or name in columns]
    encoder = OrdinalEncoder(categories=[LEVELS[name] for name in texts])
    chain = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder)
    return ColumnTransformer([("texts", chain, texts), ("numbers", SimpleImputer(), numbers)])


def dropped(columns: Any = None) -> ColumnTransformer:
    """One-hot codes without a level of each column; the numbers, whose columns are not listed."""
    texts = [name for name in ("size", "town") if columns is None or name in columns]
    first = [{"town": "c", "size": "m"}[name] for name in texts]
    return ColumnTransformer(
        [("texts", OneHotEncoder(drop=first), texts)], remainder=SimpleImputer()
    )


def logistic(step: Any) -> Any:
    return make_pipeline(step, LogisticRegression())


NESTED: dict[str, Any] = {
    "target": lambda columns: TransformedTargetRegressor(make_pipeline(codes(columns), Ridge())),
    "stacking": lambda columns: StackingClassifier(
        [("a", logistic(dropped(columns))), ("b", LGBMClassifier(**LIGHT))], cv=2
    ),
    "union": lambda columns: logistic(
        FeatureUnion([("codes", codes(columns)), ("flags", dropped(columns))])
    ),
    "search": lambda columns: GridSearchCV(
        logistic(codes(columns)), {"logisticregression__C": [0.1]}, cv=2
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_lists_of_columns_are_restricted_at_any_depth(table: Any, name: str) -> None:
    build = NESTED[name]
    assert_costs_are_by_hand(build(None), build, *table, subsets=OF_TABLE)


def test_the_columns_inside_bags_are_restricted_by_position(table: Any) -> None:
    X, y = table

    def build(columns: Any = None) -> Any:
        texts = [name for name in ("town", "size") if columns is None or name in columns]
        at = [list(columns or X.columns).index(name) for name in texts]
        encoder = OrdinalEncoder(categories=[LEVELS[name] for name in texts])
        step = ColumnTransformer([("texts", encoder, at)], remainder="passthrough")
        return BaggingClassifier(make_pipeline(step, hist()), 2, random_state=0)

    assert_costs_are_by_hand(build(), build, *table, subsets=OF_TABLE)
    with pytest.raises(ConfigError, match="'estimator__columntransformer__transformers'"):
        Problem.build(X, y, BaggingClassifier(logistic(codes())))


def test_estimators_inside_decide_on_categories_and_missing_values(table: Any) -> None:
    X, y = table
    refused = [
        VotingClassifier([("a", logistic(codes())), ("b", GaussianNB())]),
        # Ensembles that make arrays, in which a category is a text.
        BaggingClassifier(LGBMClassifier(**LIGHT)),
        CalibratedClassifierCV(LogisticRegression()),
    ]
    for model in refused:
        with pytest.raises(DataError, match=type(model).__name__):
            Problem.build(X, y, model)
    Problem.build(X, y, CalibratedClassifierCV(LGBMClassifier(**LIGHT)))


# ---------------------------------------------------------------- what has to agree


def test_a_problem_with_sets_of_columns_has_a_fingerprint(data: Any) -> None:
    found = {
        Problem.build(*data, hist(interaction_cst=[cst]), folds=FOLDS).fingerprint()
        for cst in ({0, 1}, {1, 0}, {0, 2})
    }
    assert len(found) == 2


# ---------------------------------------------------------------- what is refused


class Plain(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the first class, whatever its parameter."""

    def __init__(self, setting: Any = None, inner: Any = None) -> None:
        self.setting = setting
        self.inner = inner

    def fit(self, X: Any, y: Any) -> Plain:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


class Chooser(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    def __init__(self, chosen: Any) -> None:
        self.chosen = chosen

    def fit(self, X: Any, y: Any = None) -> Chooser:
        return self

    def transform(self, X: Any) -> Any:
        return X


def w(function: Any = None, **params: Any) -> Any:
    return FunctionTransformer(function, **params)


REFUSED = {
    "metric_params": KNeighborsClassifier(metric_params={"w": [1, 2, 3, 4, 5, 6]}),
    "inner__setting": Plain(inner=Plain([0.1, 0.2, 0.1, 0.3, 0.1, 0.2])),
    "chooser__chosen": make_pipeline(Chooser(["x", "other"]), GaussianNB()),
    "functiontransformer__kw_args": make_pipeline(w(kw_args={"by": ["x"]}), GaussianNB()),
    "estimator__setting": CalibratedClassifierCV(Plain({"x": 1, "y": 2})),
    "inner__monotonic_cst": Plain(inner=hist(monotonic_cst=[1, 0, 0, 0, 0, 0])),
    "forcedsplits_filename": light(forcedsplits_filename="splits.json"),
    "categorical_feature": light(categorical_feature="name:x"),
    "monotone_constraints": light(monotone_constraints=[1, 0]),
    "interaction_constraints": light(interaction_constraints=[{0, 1}]),
    "categorical_features": hist(categorical_features=["x", "town"]),
    "histgradientboostingclassifier__monotonic_cst": make_pipeline(
        OneHotEncoder(sparse_output=False), hist(monotonic_cst=[1, 0, 0, 0, 0, 0])
    ),
    "columntransformer__transformers": make_pipeline(
        w(), make_column_transformer((StandardScaler(), [0, 1])), GaussianNB()
    ),
    "param_grid": GridSearchCV(hist(), {"monotonic_cst": [[1, 0, 0, 0, 0, 0], None]}),
    "columntransformer__kbinsdiscretizer__n_bins": make_pipeline(
        make_column_transformer((KBinsDiscretizer([3] * 6), make_column_selector("."))),
        GaussianNB(),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_restricted_is_refused_by_its_name(data: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}'"):
        Problem.build(*data, REFUSED[name])


ACCEPTED = [
    MLPClassifier((10,) * 6, max_iter=5),
    LogisticRegression(class_weight={0: 1.0, 1: 5.0}),
    VotingClassifier([(name, GaussianNB()) for name in NAMES], weights=[1] * 6),
    Pipeline([(name, StandardScaler()) for name in "zyxwv"] + [("u", GaussianNB())]),
    GridSearchCV(GaussianNB(), {"var_smoothing": [10.0**-i for i in range(6)]}, scoring="f1"),
    light(metric=["auc", "binary_logloss"], interaction_constraints=""),
    Plain((0.0, 1.0)),
]


@pytest.mark.parametrize("model", ACCEPTED, ids=repr)
def test_other_lists_are_not_taken_for_entries_of_columns(data: Any, model: Any) -> None:
    X, y = data
    problem = Problem.build(X, y, model, folds=FOLDS)
    assert not problem.by_column
    if not isinstance(model, (VotingClassifier, Pipeline)):
        Problem.build(X[["z", "y"]], y, clone(model), folds=FOLDS)


def test_every_array_of_scikit_learn_is_known_or_refused() -> None:
    known = {*BY_COLUMN["sklearn"], *_NOT_BY_COLUMN, *_NOT_BY_COLUMN_IN_SKLEARN}
    # Arrays over the columns, or of arguments, that are refused by their shape or names.
    refused = {
        *("U_init", "V_init", "code_init", "dict_init", "dictionary", "init", "knots", "seeds"),
        *("means_init", "mean_prior", "precisions_init", "covariance_prior", "connectivity"),
        *("noise_variance_init", "precompute", "preference", "w_init", "alpha", "fill_value"),
        *("kernel_params", "metric_params", "kw_args", "inv_kw_args"),
        *("estimator", "regressor", "param_grid", "param_distributions"),
    }
    arrays = ("array-like", "list", "tuple", "ndarray", "dict", "Iterable", "sparse")
    found = {
        name
        for _, kind in all_estimators()
        for name, allowed in getattr(kind, "_parameter_constraints", {}).items()
        if any(word in str(allowed) for word in arrays)
    }
    assert found <= known | refused


def of_package(package: str, **params: Any) -> Any:
    """A model of a package that is not installed, with these parameters."""

    class Model(BaseEstimator):  # type: ignore[misc]
        def __init__(self, setting: Any = None) -> None:
            self.setting = setting

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {**params, "setting": self.setting}

        def set_params(self, **changed: Any) -> Any:
            params.update(changed)
            return self

    Model.__module__ = f"{package}.sklearn"
    return Model()


@pytest.mark.parametrize(
    ("package", "name", "value", "expected"),
    [
        ("xgboost", "monotone_constraints", (1, 0, -1, 0, 1, 0), (0, -1)),
        ("xgboost", "monotone_constraints", "(1,0,-1,0,1,0)", [0, -1]),
        ("xgboost", "monotone_constraints", {"z": 1, "x": -1}, {"x": -1}),
        ("xgboost", "interaction_constraints", [["z", "x"], ["w"]], [["x"]]),
        ("xgboost", "interaction_constraints", "[[0, 2], [1, 2]]", [[1], [0, 1]]),
        # Columns in no group interact with no other.
        ("xgboost", "interaction_constraints", [[0, 3]], [[0], [1]]),
        ("xgboost", "feature_types", ["q", "c", "q", "q", "q", "q"], ["c", "q"]),
        ("catboost", "cat_features", [-4, 0], [1]),
        ("catboost", "monotone_constraints", {0: 1, 1: -1}, {0: -1}),
    ],
)
def test_forms_of_other_packages(package: str, name: str, value: Any, expected: Any) -> None:
    model = of_package(package, **{name: value})
    (change,) = _Changes(NAMES, ["y", "x"], ["y", "x"]).of(model)
    assert change[2] == {name: expected}


def test_columns_that_a_transformer_in_front_drops_have_to_be_forbidden() -> None:
    X, y = make_classification(60, 5, n_informative=3, random_state=0)
    table = pd.DataFrame(X, columns=list("abcde"))

    def searched(transformers: list[Any], **options: Any) -> SubsetSelector:
        step = ColumnTransformer(transformers, **options.pop("step", {}))
        model = make_pipeline(step, LogisticRegression())
        return SubsetSelector(model, budget=1, **options).fit(table, y)

    few = [("few", StandardScaler(), ["a", "c"])]
    dropped = [("few", StandardScaler(), ["a", "c"]), ("others", "drop", ["b", "d", "e"])]
    for transformers in (few, dropped):
        with pytest.raises(ConfigError, match="never reads 'b', 'd', 'e'"):
            searched(transformers)
        assert set(searched(transformers, forbidden=["b", "d", "e"]).subset_) <= {"a", "c"}
    # A group with a column that is read is a unit like any other.
    groups = {"pair": ["a", "b"]}
    assert searched(few, groups=groups, forbidden=["d", "e"]).subset_
    assert searched(few, step={"remainder": "passthrough"}).subset_
    by_dtype = [("numbers", StandardScaler(), make_column_selector(dtype_include="number"))]
    assert searched(by_dtype).subset_
