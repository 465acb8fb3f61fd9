"""Tests that fold scores are those of `cross_validate(clone(estimator), X[S], y, ...)`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, VotingClassifier
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from swarm.errors import InputError
from tests.contract import BAYES, LABELS, LOGISTIC, MODELS, Case, draw, same_table

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(90, 5)), RNG.permutation(90), LABELS["names"][:5])
Y = (X["x10"] + 0.5 * X["Age"] + np.sin(X.index) > 0).astype(int)
WEIGHT = np.where(X["width"] > 0, 5.0, 0.01)
GROUPS = RNG.integers(0, 9, 90)
PLAIN = Case(X, Y, LOGISTIC, list(X), scoring="neg_log_loss")


@pytest.mark.parametrize("seed", range(100))
def test_costs_and_columns_are_those_of_the_subset(seed: int) -> None:
    case = draw(seed)
    selector = case.check()
    subset = [case.labels[position] for position in np.flatnonzero(selector.support_)]
    assert selector.subset_ == subset
    assert same_table(selector.transform(case.X), case.table(subset))
    assert same_table(case.X, draw(seed).X)


@pytest.mark.parametrize("seed", range(0, 100, 10))
def test_a_pipeline_predicts_what_the_model_of_the_subset_does(seed: int) -> None:
    case = replace(draw(seed), params={}, cv=KFold(3))
    selector = case.fit()
    model = clone(case.model)
    table = case.table(selector.subset_)
    predicted = make_pipeline(clone(selector), model).fit(case.X, case.y).predict(case.X)
    assert np.array_equal(predicted, clone(model).fit(table, case.y).predict(table))


@pytest.mark.parametrize("seed", [0, 50])
def test_two_workers_give_the_same_costs(seed: int) -> None:
    serial, parallel = (draw(seed).fit(n_jobs=n_jobs).results_ for n_jobs in (1, 2))
    pd.testing.assert_frame_equal(serial, parallel, check_exact=True)


@pytest.mark.parametrize("receiver", ["member", "step", "scorer", "score", "inner folds"])
def test_metadata_reach_what_requested_them(receiver: str) -> None:
    def request(estimator: Any, on: bool = True) -> Any:
        return clone(estimator).set_fit_request(sample_weight=on)

    with config_context(enable_metadata_routing=True):
        is_scorer = receiver == "scorer"
        accuracy = make_scorer(accuracy_score).set_score_request(sample_weight=is_scorer)
        model = {
            "member": VotingClassifier([("a", request(LOGISTIC)), ("b", request(BAYES, False))]),
            "step": make_pipeline(
                make_pipeline(request(StandardScaler()), request(LOGISTIC, False))
            ),
            "scorer": request(LOGISTIC),
            "score": request(LOGISTIC, False).set_score_request(sample_weight=True),
            "inner folds": GridSearchCV(BAYES, {"var_smoothing": [1e-9, 1]}, cv=GroupKFold(2)),
        }[receiver]
        params = {"groups": GROUPS} if receiver == "inner folds" else {"sample_weight": WEIGHT}
        scoring = None if receiver == "score" else accuracy
        replace(PLAIN, model=model, scoring=scoring, params=params).check()


def unless_settings_are_lost(table: Any) -> Any:
    settings_apply = np.geterr()["divide"] == "raise" and isinstance(table, pd.DataFrame)
    try:
        warnings.warn("settings are lost", FutureWarning, stacklevel=1)
    except FutureWarning:
        return table * float(settings_apply)
    return table * 0.0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_settings_of_the_process_apply_to_every_model(n_jobs: int) -> None:
    steps = make_pipeline(StandardScaler(), FunctionTransformer(unless_settings_are_lost), LOGISTIC)
    pandas, errors = config_context(transform_output="pandas"), np.errstate(divide="raise")
    with pandas, errors, warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        replace(PLAIN, model=steps).check(n_jobs=n_jobs)


def accuracy_of_even_rows(model: Any, X: Any, y: Any) -> float:
    return float(np.mean((model.predict(X) == y) * (X.index % 2 == 0) * (y.index % 2 == 0)))


def test_a_scorer_sees_the_index_of_the_rows() -> None:
    replace(PLAIN, model=BAYES, scoring=accuracy_of_even_rows).check()


def test_models_are_fitted_on_sparse_rows_of_any_format() -> None:
    # The drawn cases do not have this format.
    rows = sparse.csr_matrix(X.clip(lower=0.5) - 0.5).asformat("lil")
    labels = [f"x{position}" for position in range(5)]
    model = clone(MODELS["sparse"][0]).set_params(random_state=0)
    replace(PLAIN, X=rows, labels=labels, model=model).check()


def test_columns_of_sparse_arrays_and_categories_in_bins_are_as_they_were_given() -> None:
    sparse_column = X.assign(
        width=pd.arrays.SparseArray(X["width"].clip(lower=0.0), fill_value=0.0)
    )
    replace(PLAIN, X=sparse_column, model=BAYES).check()
    bins = X.assign(a=pd.cut(X["Age"], 3, labels=list("abc")))
    trees = HistGradientBoostingClassifier(max_iter=3, random_state=0)
    replace(PLAIN, X=bins, labels=list(bins), model=trees).check()


def test_a_model_that_overwrites_its_rows_leaves_the_table_as_it_is() -> None:
    table = X.copy()
    model = make_pipeline(StandardScaler(copy=False), LOGISTIC)
    selector = replace(PLAIN, X=table, model=model).check()
    assert table.equals(X)
    unseen = X + 0.1
    selector.judge(table, Y, test=(unseen, Y))
    assert unseen.equals(X + 0.1)


def test_transformers_are_given_tables_of_polars() -> None:
    pl = pytest.importorskip("polars")
    total = FunctionTransformer(lambda table: table.with_columns(total=pl.sum_horizontal(pl.all())))
    replace(PLAIN, X=pl.from_pandas(X), model=make_pipeline(total, LOGISTIC)).check()


@pytest.mark.parametrize(
    "flaw",
    [
        {"y": np.ma.masked_array(Y, mask=X["width"] > 1)},
        {"params": {"sample_weight": np.ma.masked_array(WEIGHT, mask=X["width"] > 1)}},
        {"model": IsolationForest(n_estimators=3), "scoring": "accuracy"},
        {"scoring": {"a": "accuracy", "b": "f1"}},
        {"X": X.assign(width="wide")},
    ],
    ids=["masked target", "masked weights", "outlier detector", "several metrics", "text"],
)
def test_what_has_no_such_score_is_refused_before_training(flaw: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(PLAIN, **flaw).fit()
