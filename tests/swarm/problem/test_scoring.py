"""Tests of scorers, their bounds and the positive class, of one target and of several labels."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer, get_scorer_names, hamming_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from swarm.answers import Answers
from swarm.problem.scoring import Scoring, positive_class, resolve_scoring, scorer_names
from swarm.validation.answers import EvaluationTarget

BINARY = np.array([0, 1] * 20)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", get_scorer_names())
def test_no_scorer_of_scikit_learn_beats_the_bound_that_pruning_relies_on(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    classes = rng.integers(0, 2, 60)
    amounts = rng.uniform(0.5, 9, 60)
    regression = any(word in name for word in ("error", "r2", "variance", "deviance", "absolute"))
    target: np.ndarray[Any, Any] = amounts if regression else classes
    if name.endswith("_samples"):
        target = np.column_stack([classes, rng.integers(0, 2, 60)])
    task = "regression" if regression else "binary"
    scoring = resolve_scoring(name, None, target, task)
    tree = DecisionTreeRegressor if regression else DecisionTreeClassifier
    # The first model is always right, and the second one is mostly wrong.
    for labels in (target, target[::-1]):
        cost = scoring.cost(tree(random_state=0).fit(X, labels), X, target)
        assert not scoring.bounded or cost >= 0


def test_the_default_scorer_follows_the_task_and_some_scorers_have_no_bound() -> None:
    assert resolve_scoring(None, None, BINARY, "binary").name == "accuracy"
    assert resolve_scoring(None, None, BINARY * 0.3, "regression").name == "r2"
    ready = Scoring("mine", lambda m, X, y: 0.0, upper=0.0)
    assert resolve_scoring(ready, None, BINARY, "binary") is ready
    for scoring in ("mutual_info_score", "positive_likelihood_ratio", lambda m, X, y: 0.0):
        assert not resolve_scoring(scoring, None, BINARY, "binary").bounded


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
    ("labels", "expected"),
    [
        (["yes", "yes", "no"], "no"),
        (["no", "yes"], "yes"),
        ([1, 1, 0], 1),
        ([True, True, False], True),
        ([3, 3, 2], 2),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "f1",
        "average_precision",
        "neg_brier_score",
        # This scorer is new in scikit-learn 1.8.
        *({"d2_brier_score"} & set(get_scorer_names())),
    ],
)
def test_the_positive_class_is_the_label_1_or_the_rarer_one_and_not_the_last_in_order(
    name: str, labels: list[Any], expected: Any
) -> None:
    target = np.array(labels * 10)
    scoring = resolve_scoring(name, None, target, "binary")
    assert positive_class(scoring, target) == expected
    perfect = Answers(target, classes=np.unique(target)).estimator()
    assert scoring.cost(perfect, np.arange(len(target))[:, None], target) == 0.0
    # Scorers without a positive class have the same one in votes and test metrics.
    accuracy = resolve_scoring("accuracy", None, target, "binary")
    assert positive_class(accuracy, target) == expected
    assert EvaluationTarget.of(GaussianNB(), target, target, None).pos_label == expected
    chosen = resolve_scoring(name, None, target, "binary", pos_label=labels[0])
    assert positive_class(chosen, target) == labels[0]


TARGET = (np.random.default_rng(1).random((30, 4)) < [0.6, 0.4, 0.2, 0.1]).astype(int)
FEATURES = np.zeros((30, 1))


def constant(value: int) -> Any:
    """Return a model that predicts no label at all, or every label."""
    return DummyClassifier(strategy="constant", constant=[value] * 4).fit(FEATURES, TARGET)


def cost(name: str, value: int) -> float:
    scoring = resolve_scoring(name, None, TARGET, "multilabel")
    return scoring.cost(constant(value), FEATURES, TARGET)


def test_the_costs_of_labels_are_these_figures() -> None:
    for name in ("subset_accuracy", "accuracy"):
        assert cost(name, 0) == pytest.approx(1 - (TARGET == 0).all(axis=1).mean())
    assert cost("neg_hamming_loss", 1) == pytest.approx(hamming_loss(TARGET, np.ones((30, 4))))
    assert cost("f1_micro", 0) == 1.0
    assert resolve_scoring(None, None, TARGET, "multilabel").name == "accuracy"
    assert {"subset_accuracy", "neg_hamming_loss"} <= set(scorer_names())
    assert all(
        resolve_scoring(name, None, TARGET, "multilabel").bounded
        for name in ("subset_accuracy", "neg_hamming_loss", "f1_samples", "jaccard_samples")
    )


@pytest.mark.parametrize("metric", ["f1", "jaccard", "precision", "recall"])
@pytest.mark.parametrize("average", ["samples", "macro"])
def test_nothing_to_divide_by_is_zero_and_no_warning(metric: str, average: str) -> None:
    scoring = resolve_scoring(f"{metric}_{average}", None, TARGET, "multilabel")
    for value in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cost_without_warning = cost(scoring.name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cost_without_warning == 1.0 - scoring.scorer(constant(value), FEATURES, TARGET)
