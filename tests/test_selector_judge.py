"""What a selector says of unseen rows, groups, scorers and models of columns by name."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_wine, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, mean_squared_error, recall_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, InputError

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
TRAIN, TEST, Y_TRAIN, Y_TEST = train_test_split(X, Y, random_state=0, stratify=Y)
SMALL: dict[str, Any] = {"epochs": 2, "cv": 3}


def test_the_chosen_setting_of_the_model_is_judged() -> None:
    tree = DecisionTreeClassifier(random_state=0, max_depth=1)
    fitted = SubsetSelector(tree, param_grid={"max_depth": [4, 5]}, epochs=8, cv=3)
    fitted.fit(TRAIN, Y_TRAIN)
    evidence = fitted.judge(TRAIN, Y_TRAIN, test=(TEST, Y_TEST)).evidence[0]
    model = DecisionTreeClassifier(random_state=0, **fitted.best_params_)
    columns = sorted(TRAIN.columns)
    expected = model.fit(TRAIN[columns], Y_TRAIN).score(TEST[columns], Y_TEST)
    assert evidence.everything == pytest.approx(expected)


def test_rows_of_the_fit_are_no_unseen_rows_in_whatever_order() -> None:
    fitted = SubsetSelector(GaussianNB(), **SMALL).fit(TRAIN, Y_TRAIN)
    shuffled = TRAIN.sample(frac=1, random_state=0)
    for rows, target in ((X, Y), (shuffled, Y_TRAIN[shuffled.index])):
        with pytest.raises(InputError, match=r"426 of \d+ test rows are rows of the fit"):
            fitted.judge(TRAIN, Y_TRAIN, test=(rows, target))


def test_judge_needs_the_rows_of_the_fit() -> None:
    fitted = SubsetSelector(GaussianNB(), **SMALL).fit(TRAIN, Y_TRAIN)
    for rows, target in ((TEST, Y_TEST), (TRAIN, 1 - Y_TRAIN)):
        with pytest.raises(DataError, match="differ from those of the fit"):
            fitted.judge(rows, target, test=(TEST, Y_TEST))


def test_models_are_not_judged_without_what_fit_passed_to_them() -> None:
    class Extra(GaussianNB):
        def fit(self, X: Any, y: Any, extra: Any = None) -> Any:
            return super().fit(X, y)

    extra = np.ones(len(TRAIN))
    fitted = SubsetSelector(Extra(), **SMALL).fit(TRAIN, Y_TRAIN, extra=extra)
    with pytest.raises(InputError, match="without 'extra'"):
        fitted.judge(TRAIN, Y_TRAIN, test=(TEST, Y_TEST), extra=extra)


@pytest.mark.parametrize(
    ("scorer", "name", "value"),
    [
        (make_scorer(recall_score), "recall_score", recall_score),
        (
            make_scorer(mean_squared_error, greater_is_better=False),
            "negative_mean_squared_error",
            lambda truth, guess: -mean_squared_error(truth, guess),
        ),
    ],
)
def test_a_scorer_of_the_user_judges_unseen_rows(scorer: Any, name: str, value: Any) -> None:
    fitted = SubsetSelector(GaussianNB(), scoring=scorer, **SMALL).fit(TRAIN, Y_TRAIN)
    evidence = fitted.judge(TRAIN, Y_TRAIN, test=(TEST, Y_TEST)).evidence[0]
    columns = sorted(fitted.subset_)
    model = GaussianNB().fit(TRAIN[columns], Y_TRAIN)
    assert evidence.metric == name
    assert evidence.chosen == pytest.approx(value(Y_TEST, model.predict(TEST[columns])))
    assert evidence.low <= evidence.chosen - evidence.everything <= evidence.high


def test_a_scorer_that_may_read_the_rows_is_named_where_another_metric_judges() -> None:
    def by_radius(model: Any, rows: Any, target: Any) -> float:
        return float(-np.abs(model.predict(rows) - target).mean())

    fitted = SubsetSelector(GaussianNB(), scoring=by_radius, **SMALL).fit(TRAIN, Y_TRAIN)
    head = fitted.judge(TRAIN, Y_TRAIN, test=(TEST, Y_TEST))
    assert "143 unseen rows, in another metric than 'by_radius'" in str(head)


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


@pytest.mark.parametrize("strategy", ["sbs", "rfe"])
def test_a_budget_that_ends_before_the_size_is_reached_is_told(strategy: str) -> None:
    limit = {"sbs": {"fits": 100}, "rfe": {"epochs": 2}}[strategy]
    with pytest.warns(UserWarning, match="did not reach the requested size 5"):
        SubsetSelector(DecisionTreeClassifier(), strategy=strategy, size=5, cv=3, **limit).fit(X, Y)


def test_several_targets_are_refused_before_a_model_of_one_is_trained() -> None:
    rows, labels = make_multilabel_classification(60, 5, n_classes=3, random_state=0)
    for model in (GaussianNB(), make_pipeline(StandardScaler(), GaussianNB())):
        with pytest.raises(DataError, match="GaussianNB predicts one"):
            SubsetSelector(model, **SMALL).fit(rows, labels)
    assert SubsetSelector(KNeighborsClassifier(), **SMALL).fit(rows, labels).subset_


def test_a_column_transformer_gets_the_columns_of_the_subset() -> None:
    rng = np.random.default_rng(0)
    table = X.iloc[:, :5].assign(city=pd.Categorical(rng.choice(list("abc"), len(X))))
    by_name = ColumnTransformer(
        [
            ("numbers", StandardScaler(), slice("mean radius", "mean smoothness")),
            ("city", OneHotEncoder(), ["city"]),
        ]
    )
    by_place = ColumnTransformer(
        [("numbers", StandardScaler(), [0, 1, 2, 3, 4]), ("city", OneHotEncoder(), [5])]
    )
    found = []
    for transformer in (by_name, by_place):
        model = make_pipeline(transformer, LogisticRegression())
        fitted = SubsetSelector(model, strategy="sfs", size=2, cv=3).fit(table, Y)
        found.append((fitted.subset_, fitted.cost_))
    assert found[0] == found[1]
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    alone = SubsetSelector(scaled, strategy="sfs", size=2, cv=3).fit(table.iloc[:, :5], Y)
    assert found[0][1] <= alone.cost_


def test_a_single_column_of_a_transformer_is_refused() -> None:
    model = make_pipeline(
        ColumnTransformer([("scale", StandardScaler(), "mean area")]), LogisticRegression()
    )
    with pytest.raises(ConfigError, match="pass a list, \\['mean area'\\]"):
        SubsetSelector(model, **SMALL).fit(X, Y)


def test_numbers_that_are_names_and_no_positions_constrain_nothing() -> None:
    turned = X.iloc[:, :4].set_axis([3, 2, 1, 0], axis=1)
    with pytest.raises(DataError, match="fixed may mean names or positions"):
        SubsetSelector(GaussianNB(), fixed=[0], **SMALL).fit(turned, Y)
    assert SubsetSelector(GaussianNB(), **SMALL).fit(turned, Y).subset_


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"n_jobs": "2"}, "n_jobs must be a whole number"),
        ({"callbacks": print}, "callbacks must be a sequence"),
        ({"strategy_params": [1]}, "strategy_params must be a mapping"),
        ({"random_state": -1}, "random_state must be at least 0"),
        ({"confirm": {"best": 0}}, "confirm: best must be >= 1"),
        ({"scoring": f1_score}, "make_scorer\\(f1_score\\)"),
        ({"estimator": GaussianNB}, "must be an object with fit"),
    ],
)
def test_wrong_arguments_are_named_before_training(wrong: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SubsetSelector(**{"estimator": GaussianNB(), **SMALL, **wrong}).fit(X, Y)


def test_an_archive_may_be_a_path(tmp_path: Any) -> None:
    file = tmp_path / "b.db"
    first = SubsetSelector(GaussianNB(), archive=file, **SMALL).fit(X, Y)
    again = SubsetSelector(GaussianNB(), archive=f"sqlite:///{file}", **SMALL).fit(X, Y)
    assert (first.result_.work["fits"].sum() > 0, again.result_.work["fits"].sum()) == (True, 0)


def test_ctrl_c_loses_no_evaluation_in_memory() -> None:
    rng = np.random.default_rng(0)

    def press(record: Any, state: Any) -> None:
        if record.epoch == 1:
            delay = float(rng.uniform(0.0, 0.05))
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()

    for _ in range(12):
        selector = SubsetSelector(GaussianNB(), epochs=10**6, seconds=60, cv=3, callbacks=[press])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selector.fit(X, Y)
        assert selector.interrupted_
