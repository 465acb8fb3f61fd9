"""Tests of parameters that refer to columns: restricted to a subset at any depth, or refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn import ensemble
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF, Sum
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils import all_estimators

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.problem import column_params as module
from swarm.problem.column_params import column_params, fit_params_for

NAMES = list("zyxwvu")
SUBSETS = [[0, 2], [5], [2, 3, 4], [0, 1, 2, 3, 4, 5]]
SIGNS = {"z": 1, "y": 0, "x": -1, "w": 0, "v": 1, "u": 0}
GROUPS = [["z", "y"], ["x", "w", "v"]]
POSITIONS = [[0, 1], [2, 3, 4]]
TEXTS = ("town", "size")
NUMBERS = ("z", "y")

light = partial(LGBMClassifier, n_estimators=4, verbosity=-1, n_jobs=1, random_state=0)
hist = partial(ensemble.HistGradientBoostingClassifier, max_iter=3, random_state=0)
forest = partial(ensemble.RandomForestClassifier, 5, random_state=0)
bags = partial(ensemble.BaggingClassifier, n_estimators=2, random_state=0)


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(150, 6)).round(1), columns=NAMES)
    return X, (X.z - X.x + X.y * X.w + rng.normal(size=150) > 0).astype(int)


def restricted(model: Any, positions: Any, names: Any = NAMES, **options: Any) -> Any:
    return module.for_columns(model, names, len(names or NAMES), positions, **options)


def assert_equals_by_hand(model: Any, by_hand: Any, X: pd.DataFrame, y: Any, subsets: Any) -> None:
    """Compare predictions of the clones for subsets with those of the models ``by_hand(names)``."""
    for positions in subsets:
        columns = X.iloc[:, positions]
        clone = restricted(model, positions, list(X.columns))
        written = by_hand(list(columns.columns))
        method = "predict_proba" if hasattr(written, "predict_proba") else "predict"
        predicted, expected = (
            getattr(estimator.fit(columns, y), method)(columns) for estimator in (clone, written)
        )
        np.testing.assert_array_equal(predicted, expected, err_msg=str(positions))


def signs(columns: list[str], signed_names: str = "zyxwvu") -> list[int]:
    return [SIGNS[name] * (name in signed_names) for name in columns]


def groups(columns: list[str], container: Any = list) -> list[Any]:
    """Return the positions of the groups in a subset, without groups that have no column in it."""
    in_subset = [
        container(columns.index(name) for name in group if name in columns) for group in GROUPS
    ]
    return [positions for positions in in_subset if positions]


def positions_of(columns: list[str]) -> list[int]:
    return [position for position, name in enumerate(columns) if name in "zw"]


def calibrated(**params: Any) -> Any:
    return CalibratedClassifierCV(Pipeline([("a", None), ("b", hist(**params))]))


def xgboost(**params: Any) -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=4, n_jobs=1, **params)


def grouped(interaction_constraints: Any) -> Any:
    # LightGBM never uses a column that is in no group: an empty list of groups cannot express it.
    options = {} if interaction_constraints else {"feature_contri": [0.0]}
    return light(interaction_constraints=interaction_constraints or None, **options)


@pytest.mark.parametrize(
    "case",
    [
        (grouped, "interaction_constraints", POSITIONS, groups),
        (light, "mc", signs(NAMES), signs),
        (light, "cat_feature", [0, 3], positions_of),
        (hist, "interaction_cst", [{0, 1}, {2, 3, 4}], lambda c: groups(c, set)),
        (hist, "monotonic_cst", {"z": 1, "x": -1}, lambda c: signs(c, "zx")),
        (hist, "categorical_features", [True, False, False, True, False, False], positions_of),
        (forest, "monotonic_cst", np.array(signs(NAMES)), signs),
        (lambda **p: bags(hist(**p)), "categorical_features", [0, -3], positions_of),
        (calibrated, "monotonic_cst", signs(NAMES), signs),
        (xgboost, "monotone_constraints", tuple(signs(NAMES)), lambda c: tuple(signs(c))),
        (xgboost, "monotone_constraints", {"z": 1, "x": -1}, lambda c: tuple(signs(c, "zx"))),
        # A column in no group interacts with no other, and without groups all would.
        (xgboost, "interaction_constraints", GROUPS, lambda c: str(groups(c) or [[0]])),
    ],
)
def test_each_clone_equals_a_model_written_by_hand(data: Any, case: Any) -> None:
    build, name, value, by_hand = case
    model = build(**{name: value})
    assert_equals_by_hand(model, lambda c: build(**{name: by_hand(c)}), *data, subsets=SUBSETS)
    assert [path.split("__")[-1] for path in column_params(model, NAMES, 6)] == [name]


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"z": rng.normal(size=120), "town": rng.choice(["b", "c", "a"], 120)})
    X["y"], X["size"] = rng.normal(size=120), rng.choice(["s", "xl", "m"], 120)
    X["note"] = X["size"] + " in town " + X["town"] + X["town"]
    return X, (X["y"] + (X["town"] == "b") + rng.normal(size=120) > 0).astype(int)


def codes(columns: Any = None, text: Any = TEXTS, numbers: Any = NUMBERS) -> Any:
    """Return a model of text codes and of numbers, on all columns or on the given ones."""
    if columns is not None:
        text, numbers = ([name for name in names if name in columns] for names in (text, numbers))
    step = ColumnTransformer([("a", OrdinalEncoder(), text), ("b", SimpleImputer(), numbers)])
    return make_pipeline(step, LogisticRegression())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (["town", "size"], ("z", "y")),
        ([1, -2], [0, 2]),
        (np.array(["town", "size"]), pd.Index(["z", "y"])),
        ([False, True, False, True, False], np.array([True, False, True, False, False])),
        (slice("town", "size"), slice(0, 3, 2)),
    ],
)
def test_a_column_transformer_is_restricted(table: Any, text: Any, numbers: Any) -> None:
    model = codes(None, text, numbers)
    by_hand = partial(codes, text=("town", "y", "size") if isinstance(text, slice) else TEXTS)
    assert_equals_by_hand(model, by_hand, *table, subsets=[[0, 3], [2], [1, 2, 4], range(5)])
    assert column_params(model, list(table[0].columns), 5) == ("columntransformer__transformers",)


@pytest.mark.parametrize(("column", "place"), [("note", "note"), (4, 1)])
def test_a_transformer_of_a_lost_column_is_left_out(table: Any, column: Any, place: Any) -> None:
    step = ColumnTransformer([("words", TfidfVectorizer(), column)], remainder=SimpleImputer())
    for positions, columns in (([0, 4], [place]), ([0, 2], [])):
        subset_step = restricted(step, positions, list(table[0]))
        assert [chosen for _, _, chosen in subset_step.transformers] == columns
        subset_step.fit(table[0].iloc[:, positions])


@pytest.mark.parametrize(
    "build",
    [
        lambda columns: TransformedTargetRegressor(make_pipeline(codes(columns)[0], Ridge())),
        lambda columns: ensemble.VotingClassifier([("a", codes(columns)), ("b", codes(columns))]),
        lambda columns: make_pipeline(FeatureUnion([("a", codes(columns)[0])]), hist()),
        lambda columns: GridSearchCV(codes(columns), {"verbose": [False]}, cv=2),
    ],
)
def test_lists_of_columns_are_restricted_at_any_depth(table: Any, build: Any) -> None:
    assert_equals_by_hand(build(None), build, *table, subsets=[[0, 3], [1, 2], [0, 1, 2, 3]])


def test_columns_are_dropped_in_front_by_what_is_known() -> None:
    transformers = [("few", "passthrough", ["z", "x"]), ("others", "drop", slice(3, None))]
    front = ColumnTransformer(transformers)
    for model in (front, make_pipeline(front, hist())):
        assert module.dropped_columns(model, NAMES, 6) == [1, 3, 4, 5]
    by_type = ColumnTransformer(
        [*transformers, ("types", "passthrough", make_column_selector("z"))]
    )
    for model in (ColumnTransformer(transformers, remainder="passthrough"), by_type, hist()):
        assert module.dropped_columns(model, NAMES, 6) == []
    assert module.dropped_columns(ColumnTransformer([("a", SimpleImputer(), 1)]), None, 2) == [0]


class Plain(BaseEstimator):  # type: ignore[misc]
    def __init__(self, setting: Any = None, inner: Any = None) -> None:
        self.setting = setting
        self.inner = inner


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["z", "w"], ["w"]),
        (("w", "z"), ("w",)),
        ({"z", "y"}, {"y"}),
        (np.array(["y", "w", "z"]), np.array(["y", "w"])),
        (pd.Index(["z", "y"]), pd.Index(["y"])),
        ({"z": 1, "y": 2}, {"y": 2}),
        ({"by": ["z", "y"], "n": 3}, {"by": ["y"], "n": 3}),
    ],
)
def test_names_in_lists_and_mappings_are_restricted(value: Any, expected: Any) -> None:
    # Names are the same behind other steps and inside other packages, unlike positions.
    model = make_pipeline(SimpleImputer(), Plain(inner=Plain(value)))
    setting = restricted(model, [1, 3])[-1].inner.setting
    assert type(setting) is type(expected)
    np.testing.assert_equal(setting, expected)


def test_labels_that_are_numbers_are_taken_for_positions_as_packages_do() -> None:
    pairs = [("a", 1), ("a", 2), ("b", 1)]
    assert restricted(Plain([("a", 1), ("b", 1)]), [1, 2], pairs).setting == [("b", 1)]
    assert restricted(light(cat_feature=[0, 2]), [1, 2], [2, 1, 0]).cat_feature == [1]
    assert restricted(Plain({0: 1.0, 2: 5.0}), [1, 2], [2, 1, 0]).setting == {0: 1.0, 2: 5.0}
    assert restricted(hist(categorical_features=[1, 2]), [2], None).categorical_features == [0]
    new = {"z": "z_", "y": "y_"}
    assert restricted(light(cat_feature=["z", "x"]), [0, 1], renamed=new).cat_feature == ["z_"]


signed = hist(monotonic_cst=[1] * 6)
scaled = ("s", SimpleImputer())
REFUSED = [
    ("metric_params", KNeighborsClassifier(metric_params={"w": [1, 2, 3, 4, 5, 6]})),
    ("inner__setting", Plain(inner=Plain([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]))),
    *(("setting", Plain(value)) for value in (["x", "other"], [["x"], ["y"]], np.ones((6, 2)))),
    *(("setting", Plain(value)) for value in (pd.DataFrame({"k": [1]}), dict.fromkeys(range(6)))),
    ("inner__k1__length_scale", Plain(inner=Sum(RBF([1.0, 2.0]), RBF()))),
    ("categories", OrdinalEncoder(categories=[["a", "b"]])),
    ("drop", OneHotEncoder(drop=["a"])),
    ("feature_contri", light(feature_contri=[0.5, 1])),
    ("forcedsplits_filename", light(forcedsplits_filename="splits.json")),
    *(("cat_column", light(cat_column=value)) for value in ("name:x", "0,1", 0)),
    *(("mc", light(mc=value)) for value in ("1,0,0,0,0,0", [1, 0])),
    *(("interaction_constraints", light(interaction_constraints=g)) for g in ("[0,1]", "[[0]]")),
    *(("categorical_features", hist(categorical_features=c)) for c in (["x", "a"], [6], [True])),
    # These are positions of columns that may differ from those of the table.
    ("inner__monotonic_cst", Plain(inner=signed)),
    *(("estimator__monotonic_cst", outer(signed)) for outer in (RFE, ClassifierChain)),
    ("estimator__monotonic_cst", bags(signed, max_features=1)),
    ("g__monotonic_cst", Pipeline([scaled, ("g", signed)])),
    ("remainder__monotonic_cst", ColumnTransformer([("s", "drop", ["x"])], remainder=signed)),
    ("h__transformers", Pipeline([scaled, ("h", ColumnTransformer([(*scaled, [0])]))])),
    ("transformers", ColumnTransformer([(*scaled, ["x", "town"])])),
    ("param_grid", GridSearchCV(hist(), {"monotonic_cst": [[1] * 6, None]})),
    ("param_grid", GridSearchCV(Plain(), [{"inner": [signed, None]}])),
]


@pytest.mark.parametrize(("name", "model"), REFUSED)
def test_what_cannot_be_restricted_is_refused_by_its_name(name: str, model: Any) -> None:
    with pytest.raises(ConfigError, match=f"'{name}'"):
        column_params(model, NAMES, 6)


ACCEPTED = [
    LogisticRegression(class_weight={0: 1.0, 1: 5.0}),
    ensemble.VotingClassifier([(name, hist()) for name in NAMES], weights=[1] * 6),
    Pipeline([("z", "passthrough"), ("y", None)]),
    GridSearchCV(hist(), {"learning_rate": [10.0**-i for i in range(6)]}, scoring="f1"),
    light(metric=["auc", "binary_logloss"], interaction_constraints="", categorical_feature="auto"),
    FunctionTransformer(kw_args={"z": 1, "y": 2}),
    OneHotEncoder(drop="first", categories="auto"),
    hist(interaction_cst="pairwise", categorical_features="from_dtype"),
    ColumnTransformer([(*scaled, make_column_selector("z"))]),
    Plain("z", pd.DataFrame),
    # A frozen estimator is its own clone, so that restricting it would change the original.
    FrozenEstimator(signed),
]


@pytest.mark.parametrize("model", ACCEPTED, ids=lambda estimator: type(estimator).__name__)
def test_other_lists_are_not_taken_for_entries_of_columns(model: Any) -> None:
    assert column_params(model, NAMES, 6) == ()
    assert column_params(Plain((0.0, 1.0)), ["a", "b"], 2) == ()


def test_every_array_of_scikit_learn_is_known_or_refused() -> None:
    # These are arrays over the columns, or of arguments, and are refused by their shape or names.
    refused = """U_init V_init code_init dict_init dictionary init knots seeds means_init mean_prior
        precisions_init covariance_prior connectivity noise_variance_init precompute preference
        w_init alpha fill_value kernel_params metric_params kw_args inv_kw_args chain_method dtype
        estimator regressor transformers input_type solver stack_method"""
    arrays = ("array-like", "list", "tuple", "ndarray", "dict", "Iterable", "sparse")
    known = {*module._KIND_OF, *refused.split()}
    for _, estimator in all_estimators():
        for name, allowed in getattr(estimator, "_parameter_constraints", {}).items():
            assert name in known or not any(word in str(allowed) for word in arrays), estimator


def test_parameters_of_fit_are_those_of_the_subset() -> None:
    params = {
        "feature_name": list("abcdef"),
        "categorical_feature": [1, 2],
        "model__cat_features": ["z", "x"],
    }
    row_params = {"init_score": np.zeros((150, 6)), "sample_weight": np.ones(150)}
    module.check_fit_params(params | row_params, NAMES, 6, 150)
    subset_params = fit_params_for(params | row_params, NAMES, 6, [0, 2], {"z": "z_", "x": "x_"})
    assert all(subset_params[name] is value for name, value in row_params.items())
    assert [subset_params[name] for name in list(params)[:3]] == [["a", "c"], [1], ["z_", "x_"]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("init_model", "model.txt"),
        ("model__group", [75, 75]),
        ("eval_set", [(np.ones((7, 6)), np.ones(7))]),
        ("others", pd.DataFrame(np.ones((150, 6)), columns=NAMES[::-1])),
        ("feature_name", ["a", "b"]),
        ("categorical_feature", ["town"]),
        ("model__categorical_feature", [1]),  # Another step may have changed the columns.
        ("feature_weights", [1.0] * 6),
        ("costs", np.ones(6)),
        ("limits", np.ones((2, 6))),
        ("chosen", ["x", "y"]),
    ],
)
def test_parameters_of_fit_by_column_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' of fit"):
        module.check_fit_params({name: value}, NAMES, 6, 150)


def test_scores_of_subsets_are_those_of_cross_validation(table: Any) -> None:
    X, y = table
    transformers = [("words", TfidfVectorizer(), "note"), ("n", SimpleImputer(), ["y", "z"])]
    model = make_pipeline(ColumnTransformer(transformers), LogisticRegression())
    options = {"strategy": "sfs", "scoring": "accuracy", "pruning": False, "cv": StratifiedKFold(3)}
    with pytest.raises(ConfigError, match="never reads"):
        SubsetSelector(model, **options).fit(X, y)
    selector = SubsetSelector(model, forbidden=list(TEXTS), **options)
    for row in selector.fit(X, y).results_.itertuples():
        chosen = [name for name in X.columns if name in row.features]
        subset_model = restricted(model, [list(X).index(name) for name in chosen], list(X))
        scores = cross_val_score(subset_model, X[chosen], y, cv=options["cv"])
        assert row.cost == pytest.approx(1 - scores.mean())
