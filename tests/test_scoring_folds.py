"""Claims on scorers, their bounds, and the ways of cutting rows into folds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from swarm.errors import ConfigError, DataError
from swarm.problem.folds import make_folds
from swarm.problem.scoring import Scoring, positive_class, resolve_scoring
from swarm.validation.answers import Answers
from swarm.validation.evaluation_target import EvaluationTarget

BINARY = np.array([0, 1] * 20)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", get_scorer_names())
def test_no_scorer_of_scikit_learn_beats_the_bound_that_pruning_relies_on(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    classes, amounts = rng.integers(0, 2, 60), rng.uniform(0.5, 9, 60)
    regression = any(word in name for word in ("error", "r2", "variance", "deviance", "absolute"))
    target: np.ndarray[Any, Any] = amounts if regression else classes
    if name.endswith("_samples"):
        target = np.column_stack([classes, rng.integers(0, 2, 60)])
    task = "regression" if regression else "binary"
    scoring = resolve_scoring(name, None, target, task)
    tree = DecisionTreeRegressor if regression else DecisionTreeClassifier
    # One model that is always right, one that is mostly wrong.
    for labels in (target, target[::-1]):
        cost = scoring.cost(tree(random_state=0).fit(X, labels), X, target)
        assert not scoring.bounded or cost >= 0


def test_scorers_without_a_highest_score_are_not_bounded() -> None:
    for name in ("mutual_info_score", "positive_likelihood_ratio"):
        assert not resolve_scoring(name, None, BINARY, "binary").bounded
    assert not resolve_scoring(lambda m, X, y: 0.0, None, BINARY, "binary").bounded


def test_the_default_scorer_follows_the_task() -> None:
    assert resolve_scoring(None, None, BINARY, "binary").name == "accuracy"
    assert resolve_scoring(None, None, BINARY * 0.3, "regression").name == "r2"
    ready = Scoring("mine", lambda m, X, y: 0.0, upper=0.0)
    assert resolve_scoring(ready, None, BINARY, "binary") is ready


def test_recall_counts_the_class_that_is_called_positive() -> None:
    labels = np.where(BINARY, "musk", "other")
    always = DummyClassifier(strategy="constant", constant="musk").fit(BINARY[:, None], labels)
    costs = [
        resolve_scoring("recall", None, labels, "binary", pos_label=name).cost(
            always, BINARY[:, None], labels
        )
        for name in ("musk", "other")
    ]
    assert costs == [0.0, 1.0]


@pytest.mark.parametrize("classes", [["no", "yes"], [0, 2]])
def test_averages_are_those_of_scikit_learn_without_a_class_1(classes: list[object]) -> None:
    X = np.random.default_rng(1).normal(size=(40, 2))
    labels = np.array(classes)[BINARY]
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, labels)
    for score, average in itertools.product(
        ("f1", "jaccard", "precision", "recall"), ("macro", "micro", "weighted")
    ):
        name = f"{score}_{average}"
        scoring = resolve_scoring(name, None, labels, "binary")
        assert scoring.cost(model, X, labels) == 1.0 - get_scorer(name)(model, X, labels)


@pytest.mark.parametrize(
    ("name", "labels", "options", "words"),
    [
        ("acuracy", [0, 1], {}, ["'acuracy'; did you mean 'accuracy'?"]),
        ("zzz", [0, 1], {}, ["'zzz'; there are accuracy, ", " more"]),
        ("f1", [0, 1, 2], {}, ["'f1'", "multiclass", "'f1_macro'"]),
        ("recall", [0, 1], {"pos_label": 7}, ["pos_label is 7", "0, 1"]),
    ],
)
def test_a_scorer_that_does_not_fit_is_refused_with_what_would(
    name: str, labels: list[Any], options: dict[str, Any], words: list[str]
) -> None:
    task = "multiclass" if len(labels) > 2 else "binary"
    with pytest.raises(ConfigError) as caught:
        resolve_scoring(name, None, np.array(labels * 10), task, **options)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["yes", "yes", "no"], "no"),
        (["no", "no", "yes"], "yes"),
        (["no", "yes"], "yes"),
        (["1", "1", "0"], "1"),
        ([1, 1, 0], 1),
        ([True, True, False], True),
        ([3, 3, 2], 2),
    ],
)
@pytest.mark.parametrize("name", ["f1", "average_precision"])
def test_the_positive_class_is_the_label_1_or_the_rarer_one_and_not_the_last_in_order(
    name: str, labels: list[Any], expected: Any
) -> None:
    target = np.array(labels * 10)
    scoring = resolve_scoring(name, None, target, "binary")
    assert positive_class(scoring, target) == expected
    sure = Answers(target, classes=np.unique(target)).estimator()
    assert scoring.cost(sure, np.arange(len(target))[:, None], target) == 0.0
    # Scorers without a positive class have the same one in votes and test metrics.
    plain = resolve_scoring("accuracy", None, target, "binary")
    assert positive_class(plain, target) == expected
    assert EvaluationTarget.of(GaussianNB(), target, target, None).pos_label == expected
    chosen = resolve_scoring(name, None, target, "binary", pos_label=labels[0])
    assert positive_class(chosen, target) == labels[0]


@pytest.mark.parametrize("kind", ["stratified", "random", "group", "stratified_group", "column"])
def test_every_row_is_tested_once_and_never_trained_in_the_same_fold(kind: str) -> None:
    ids = np.repeat(np.arange(10), 4)
    folds = make_folds(kind, BINARY, "binary", n_folds=3, seed=1, groups=ids, column=ids % 3)
    assert len(folds) == 3
    assert sorted(row for _, test in folds for row in test) == list(range(40))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(40))
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()


def test_groups_stay_together() -> None:
    ids = np.array(list("abcdefgh") * 5)
    for kind in ("group", "stratified_group"):
        for train, test in make_folds(kind, BINARY, "binary", n_folds=4, groups=ids, seed=2):
            assert not set(ids[train]) & set(ids[test])


def test_folds_in_time_never_look_ahead() -> None:
    time = np.random.default_rng(0).permutation(40)
    folds = make_folds("time", BINARY, "binary", n_folds=4, time=time)
    for train, test in folds:
        assert time[train].max() < time[test].min()
    assert len(folds[-1][0]) > len(folds[0][0])


def test_a_fold_column_tests_its_values_one_by_one() -> None:
    column = np.array(["x", "y", "z", "y"])
    folds = make_folds("column", np.array([0, 1, 0, 1]), "binary", column=column, n_folds=99)
    assert [test.tolist() for _, test in folds] == [[0], [1, 3], [2]]


def test_stratified_folds_are_those_of_scikit_learn() -> None:
    expected = StratifiedKFold(5, shuffle=True, random_state=3).split(BINARY, BINARY)
    folds = make_folds("stratified", BINARY, "binary", n_folds=5, seed=3)
    for found, wanted in zip(folds, expected, strict=True):
        assert [part.tolist() for part in found] == [part.tolist() for part in wanted]
    straight = make_folds("stratified", BINARY, "binary", n_folds=5, shuffle=False)
    assert straight[0][1].tolist() == list(range(8))


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (ConfigError, {"kind": "grup"}, "did you mean 'group'"),
        (ConfigError, {"n_folds": 1}, "at least 2 folds, got 1"),
        (DataError, {"n_folds": 41}, "40 rows cannot make 41 folds"),
        (DataError, {"n_folds": 21}, "class 0 has fewer rows .20. than there are folds .21."),
        (ConfigError, {"task": "regression"}, "stratified folds need classes"),
        (ConfigError, {"kind": "group"}, "name a group column"),
        (DataError, {"kind": "group", "groups": BINARY}, "2 groups cannot make 5 folds"),
        (ConfigError, {"kind": "time"}, "name a time column"),
        (DataError, {"kind": "time", "time": np.arange(40), "n_folds": 40}, "cannot make 40"),
        (ConfigError, {"kind": "column"}, "need a fold column"),
        (DataError, {"kind": "column", "column": np.ones(40)}, "the single value"),
    ],
)
def test_folds_that_cannot_be_made_say_so(
    error: type[Exception], options: dict[str, Any], words: str
) -> None:
    given = {"kind": "stratified", "task": "binary", **options}
    with pytest.raises(error, match=words) as caught:
        make_folds(given.pop("kind"), BINARY, given.pop("task"), **given)
    assert "\n" not in str(caught.value)


def test_rows_without_a_fold_are_always_trained_on() -> None:
    column = pd.Series(["test", None, "test", None]).to_numpy()
    folds = make_folds("column", np.array([0, 1, 0, 1]), "binary", column=column)
    assert [(train.tolist(), test.tolist()) for train, test in folds] == [([1, 3], [0, 2])]
    with pytest.raises(DataError, match="the fold column is empty"):
        make_folds("column", np.zeros(3), "binary", column=np.full(3, np.nan))
