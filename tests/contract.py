"""Random cases that check fold scores against ``cross_validate`` on X[S]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy import sparse
from sklearn import get_config
from sklearn import linear_model as linear
from sklearn import model_selection as folds
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from swarm import SubsetSelector
from tests.fuzzing import Rng

LABELS: dict[str, list[Any]] = {
    "names": ["width", "x10", "b 3", "x9", "Age", "a"],
    "whole numbers": [2021, 2019, 2024, 3, 0, 1],
    "tuples": [("b", 1), ("a", 2), ("b", 0), ("a", 1), ("c", 0), ("a", 0)],
    "marks": ["price [EUR]", '{"a": 1}', "x,y", "a:b", "<z>", "mass [kg]"],
    "misleading": ["x3", "x1", "x0", "x2", "10", "9"],
}
BRIEF = {"strategy": "random", "strategy_params": {"batch_size": 6}, "budget": 1}
SWARM = {"strategy": "multiswarm", "strategy_params": {"n_particles": 4, "n_swarms": 2}}
PATH = {"strategy": "sfs", "strategy_params": None, "budget": None}
TREES = {"n_estimators": 4, "min_child_samples": 4, "verbosity": -1, "n_jobs": 1}


def neighbours_differ(table: Any) -> np.ndarray:
    return np.diff(np.asarray(table, dtype=np.float64), axis=1, prepend=0.0)


def with_effect_of_row(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(effect=3.0 * np.sin(table.index))


def accuracy_for_its_size(model: Any, X: Any, y: Any) -> float:
    return float(accuracy_score(y, model.predict(X)) - 0.02 * X.shape[1])


def encoded(model: Any) -> Any:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    levels = make_column_selector(dtype_include="category")
    columns = make_column_transformer((encoder, levels), remainder=SimpleImputer())
    return make_pipeline(columns, model)


LOGISTIC = linear.LogisticRegression()
RIDGE = linear.Ridge()
BAYES = GaussianNB()
# Models by the layout of their table; some depend on the order of the columns, or on the index.
MODELS: dict[str, list[Any]] = {
    "numbers": [
        *(BAYES, LOGISTIC, KNeighborsClassifier(3), RIDGE, KNeighborsRegressor(3)),
        *(linear.PoissonRegressor(), DecisionTreeClassifier(max_depth=3, max_features=0.7)),
        make_pipeline(StandardScaler(copy=False), BAYES),
        make_pipeline(FunctionTransformer(neighbours_differ), LOGISTIC),
    ],
    "gaps": [
        *(LGBMClassifier(**TREES), LGBMRegressor(**TREES)),
        LGBMClassifier(colsample_bytree=0.5, **TREES),
        make_pipeline(SimpleImputer(add_indicator=True), BAYES),
    ],
    "levels": [LGBMClassifier(**TREES), encoded(BAYES), encoded(RIDGE)],
    "rows": [
        make_pipeline(FunctionTransformer(with_effect_of_row), LOGISTIC),
        make_pipeline(FunctionTransformer(with_effect_of_row), RIDGE),
    ],
    "sparse": [
        *(linear.SGDClassifier(loss="log_loss"), linear.SGDRegressor(), LOGISTIC),
        *(MultinomialNB(), KNeighborsRegressor(3)),
    ],
}


@dataclass(frozen=True)
class Case:
    """A fit of the selector, and the scores that it has to agree with.

    `labels` name the columns as `subset_` lists them.
    """

    X: Any
    y: Any
    model: Any
    labels: Sequence[Any]
    scoring: Any = None
    cv: Any = 3
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, **options: Any) -> SubsetSelector:
        arguments = {"scoring": self.scoring, "cv": self.cv, **BRIEF, **self.options, **options}
        return SubsetSelector(clone(self.model), **arguments).fit(self.X, self.y, **self.params)

    def table(self, subset: Sequence[Any]) -> Any:
        """Return X[S]."""
        at = [self.labels.index(label) for label in subset]
        if isinstance(self.X, pd.DataFrame):
            return self.X.iloc[:, at]
        return (self.X.tocsr() if sparse.issparse(self.X) else self.X)[:, at]

    def scores(self, subset: Sequence[Any]) -> np.ndarray:
        """Return the scores (n_folds,) of scikit-learn."""
        cv = self.cv
        if isinstance(cv, int):
            splitter = folds.StratifiedKFold if is_classifier(self.model) else folds.KFold
            cv = splitter(cv, shuffle=True, random_state=0)
        arguments: dict[str, Any] = {"scoring": self.scoring, "cv": cv, "params": dict(self.params)}
        if not get_config()["enable_metadata_routing"]:
            arguments["groups"] = arguments["params"].pop("groups", None)
        model = clone(self.model)
        table = self.table(subset)
        scores = folds.cross_validate(model, table, self.y, **arguments, error_score="raise")
        return scores["test_score"]

    def check(self, **options: Any) -> SubsetSelector:
        """Fit, and compare the fold costs of the selected subset and others with scikit-learn's."""
        selector = self.fit(**options)
        rows = selector.results_[np.isfinite(selector.results_["cost"])]
        is_other = [list(features) != selector.subset_ for features in rows["features"]]
        assert not all(is_other)
        for at in np.argsort(is_other, kind="stable")[:4]:
            features = rows["features"].iloc[at]
            costs = rows.filter(regex="^fold_").iloc[at].to_numpy()
            scores = self.scores(features)
            # The cost of a score that is at most 1 is its distance to 1.
            best = min((0.0, 1.0), key=lambda best: abs(best - scores[0] - costs[0]))
            np.testing.assert_allclose(costs, best - scores, 1e-7, 1e-9, err_msg=str(features))
        return selector


def same_table(left: Any, right: Any) -> bool:
    if sparse.issparse(left):
        left = left.toarray()
        right = right.toarray()
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=True)
    return type(left) is type(right) and bool(left.equals(right))


def draw(seed: int) -> Case:
    rng = np.random.default_rng([seed, *b"contract"])
    n = int(rng.integers(45, 75))
    d = int(rng.integers(3, 6))
    layout = pick(rng, ["numbers"] * 5 + ["gaps", "levels"] * 2 + ["rows", "sparse"])
    signal = rng.normal(size=n)
    table = random_columns(rng, layout, d, signal)
    model = clone(pick(rng, MODELS[layout]))
    model.set_params(**{name: 0 for name in model.get_params() if name.endswith("random_state")})
    y: Any = np.exp(signal + 0.5 * rng.normal(size=n))
    scorers = [None, "r2", "neg_mean_absolute_error"]
    if is_classifier(model):
        codes = np.digitize(y, np.quantile(y, pick(rng, [[0.5], [0.7], [0.3, 0.6]])))
        names = np.array(["no", "yes", "maybe"])[codes]
        series = pd.Series(names, table.index)
        y = pick(rng, [codes, codes.tolist(), names, series, series.astype("category")])
        scorers = [None, "balanced_accuracy", "neg_log_loss", accuracy_for_its_size]
    X, labels = contained(rng, layout, table)
    weighted = has_fit_parameter(model, "sample_weight") and rng.random() < 0.3
    params = {"sample_weight": rng.uniform(0.1, 3.0, n)} if weighted else {}
    cv = pick(rng, [3, folds.KFold(2), folds.GroupKFold(3), folds.TimeSeriesSplit(2, gap=1)])
    if isinstance(cv, folds.GroupKFold):
        params["groups"] = rng.integers(0, 9, n)
    elif is_classifier(model) and cv != 3:
        cv = pick(rng, [cv, folds.StratifiedKFold(3), list(folds.KFold(3).split(np.zeros(n)))])
    scoring = pick(rng, scorers)
    options = pick(rng, [BRIEF, SWARM, PATH])
    return Case(X, y, model, labels, scoring, cv, params, options)


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def random_columns(rng: Rng, layout: str, d: int, signal: np.ndarray) -> pd.DataFrame:
    drawn: dict[str, Callable[[np.ndarray], Any]] = {
        "float": lambda v: v,
        "count": lambda v: np.rint(3 * v).astype(np.int16),
        "gaps": lambda v: np.where(rng.random(len(v)) < 0.1, np.nan, v),
        "nullable": lambda v: pd.array(np.rint(3 * v), dtype="Int64"),
        "level": lambda v: pd.Categorical(np.where(v > 0, "s", "m"), ["xl", "s", "m"]),
    }
    kinds = ["float", "float", "count"]
    kinds += {"gaps": ["gaps", "nullable"], "levels": ["gaps", "level", "level"]}.get(layout, [])
    table = pd.DataFrame(index=rng.permutation(len(signal)) * 7 if layout == "rows" else None)
    for name in rng.permutation(LABELS["names"])[:d].tolist():
        values = rng.normal(size=len(signal)) + signal * rng.integers(0, 2)
        table[name] = drawn[pick(rng, kinds)](values)
    # The copy has blocks of columns, which a model may write to.
    return table.copy()


def contained(rng: Rng, layout: str, table: pd.DataFrame) -> tuple[Any, list[Any]]:
    container = (
        pick(rng, ["labels", "labels", "array", "polars"]) if layout == "numbers" else layout
    )
    labels = LABELS[pick(rng, list(LABELS))][: table.shape[1]]
    if container == "labels":
        return table.set_axis(pd.Index(labels), axis=1), labels
    if container == "polars":
        return pytest.importorskip("polars").from_pandas(table), list(table)
    if container not in ("array", "sparse"):
        return table, list(table)
    values = table.to_numpy(dtype=pick(rng, [np.float32, np.float64]))
    if container == "sparse":
        forms = [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array]
        values = pick(rng, forms)(values * (values > 0))
    return values, [f"x{at}" for at in range(len(labels))]
