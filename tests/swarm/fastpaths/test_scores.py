"""Scores of many masks at once are those that scikit-learn gives to each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.metrics import make_scorer
from sklearn.naive_bayes import GaussianNB

from swarm.fastpaths import evaluate_masks, exact_path
from swarm.metrics import ClassCounts
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from tests.fakes import evaluated, some_masks
from tests.fuzzing import CASES, failures
from tests.swarm.fastpaths.test_fuzz_exact import CLASSES, NUMBERS, SHARES, TWO_CLASSES, differences

OWN = {
    "adjusted": make_scorer(metrics.balanced_accuracy_score, adjusted=True),
    "kappa": make_scorer(metrics.cohen_kappa_score),
    "linear kappa": make_scorer(metrics.cohen_kappa_score, weights="linear"),
    "quadratic kappa": make_scorer(metrics.cohen_kappa_score, weights="quadratic"),
    "F2": make_scorer(metrics.fbeta_score, beta=2, average="macro"),
}
for _name, _average in (("f1", "weighted"), ("jaccard", "macro"), ("recall", "micro")):
    for _undefined in (1,) if _name == "jaccard" else (1, np.nan):
        _score = getattr(metrics, f"{_name}_score")
        OWN[f"{_name}, {_average}, zero_division {_undefined}"] = make_scorer(
            _score, average=_average, zero_division=_undefined
        )
BINARY = [*CLASSES, *SHARES, *TWO_CLASSES, "roc_auc", *OWN]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scorer", [*BINARY, *NUMBERS])
def test_scores_are_those_of_scikit_learn(scorer: str) -> None:
    kind = "nearest numbers" if scorer in NUMBERS else "naive Bayes"
    # One problem in four has two classes, which these scorers need.
    count = CASES // (10 if scorer in (*TWO_CLASSES, "roc_auc") else 40)
    scoring = OWN.get(scorer, scorer)
    messages = failures(range(count), lambda seed: differences(kind, seed, [], scoring))
    assert not messages, "\n".join(messages)


def two_classes(scorer: str) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 9))).add_prefix("x")
    y = (X["x0"] + rng.normal(size=120) > 0).astype(int)
    rows = np.arange(120)
    folds = [(rows[rows % 2 == 0], rows[rows % 2 == 1])]
    scoring = OWN.get(scorer, scorer)
    return Problem.build(X, y, GaussianNB(), scoring=scoring, folds=folds, importance="none")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "scorer",
    ["balanced_accuracy", "matthews_corrcoef", "jaccard_micro", *TWO_CLASSES[:4], *SHARES, *OWN],
)
def test_scikit_learn_is_not_called_for_each_mask(
    scorer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reason = exact_path(two_classes(scorer))
    assert path is not None, reason
    calls: list[Any] = []
    cost = Scoring.cost
    monkeypatch.setattr(Scoring, "cost", lambda *given: calls.append(1) or cost(*given))
    costs = evaluate_masks(path, some_masks(40, 9), range(1), 1).costs
    assert np.isfinite(costs).any()
    assert len(calls) == 1


def test_a_score_that_differs_from_that_of_scikit_learn_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = two_classes("balanced_accuracy")
    masks = some_masks(4, 9)
    fitted = evaluated(problem, masks, exact=False)
    monkeypatch.setattr("swarm.fastpaths.costs.label_scores", lambda *given: np.full(4, 0.5))
    assert np.array_equal(evaluated(problem, masks).fold_costs, fitted.fold_costs)


def test_matthews_correlation_of_one_predicted_class_is_0_whatever_the_weights() -> None:
    """Sums of weights miss a spread of 0 by their rounding."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        weight = rng.random(100)
        true = np.array([weight[:40].sum(), weight[40:].sum()])
        predicted, both = np.array([weight.sum(), 0.0]), np.array([true[0], 0.0])
        assert ClassCounts(true, predicted, both).matthews() == 0.0
