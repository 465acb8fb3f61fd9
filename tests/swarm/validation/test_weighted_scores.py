"""Tests of sample weights in scores: they count wherever a cost is measured, if asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm import SubsetEnsemble, SubsetSelector
from swarm.errors import DataError, InputError
from swarm.problem.problem import Problem
from swarm.validation import Rows, judge
from tasks.study import cost_on_test_rows
from tasks.table import Table
from tests.fakes import evaluated

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(90, 4)), columns=list("abcd"))
CLASSES = (X["a"] + RNG.normal(size=90) > 0).astype(int).to_numpy()
WEIGHT = np.round(RNG.exponential(size=90), 2)
MASKS = np.array([[True, True, False, False], [False, True, True, True]])


def weighted(model: Any, scoring: Any, **options: Any) -> Problem:
    parameters = {"folds": 3, "weight": WEIGHT, "weights_in_score": True, **options}
    return Problem.build(X, CLASSES, model, scoring=scoring, **parameters)


def costs(problem: Problem) -> Any:
    return evaluated(problem, MASKS).fold_costs


STEPS = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.mark.parametrize(
    ("model", "scoring", "scored"),
    [
        (GaussianNB(), "f1_macro", True),
        (GaussianNB(), "roc_auc", True),
        (LogisticRegression(), "accuracy", False),
        (STEPS, "neg_log_loss", True),
    ],
)
def test_weights_reach_the_fit_and_the_metric_if_asked(
    model: Any, scoring: str, scored: bool
) -> None:
    problem = weighted(model, scoring, weights_in_score=scored)
    weighted_costs = costs(problem)
    fit_param = "logisticregression__sample_weight" if model is STEPS else "sample_weight"
    for row, mask in enumerate(MASKS):
        for fold, (train, test) in enumerate(problem.folds):
            columns = X.loc[:, mask]
            fitted = clone(model).fit(
                columns.iloc[train], CLASSES[train], **{fit_param: WEIGHT[train]}
            )
            weight = WEIGHT[test] if scored else None
            score = get_scorer(scoring)(
                fitted, columns.iloc[test], CLASSES[test], sample_weight=weight
            )
            assert weighted_costs[row, fold] == pytest.approx((problem.scoring.upper or 0) - score)
    unweighted = Problem.build(X, CLASSES, model, scoring=scoring, folds=problem.folds)
    assert not np.allclose(weighted_costs, costs(unweighted))


def test_confirmation_on_other_folds_weights_scores_too() -> None:
    problem = weighted(GaussianNB(), "accuracy")
    folds = [(np.arange(45, 90), np.arange(45))]
    on_folds = weighted(GaussianNB(), "accuracy", folds=folds, importance="none")
    assert np.array_equal(costs(problem.with_folds(folds)), costs(on_folds))


def test_the_fingerprint_has_the_option_only_where_it_is_set() -> None:
    default = Problem.build(X, CLASSES, GaussianNB(), folds=3, weight=WEIGHT)
    off = weighted(GaussianNB(), None, weights_in_score=False)
    assert off.fingerprint() == default.fingerprint() != weighted(GaussianNB(), None).fingerprint()


def test_a_fold_whose_test_rows_weigh_nothing_is_refused() -> None:
    weight = WEIGHT.copy()
    weight[:45] = 0.0
    folds = [(np.arange(30, 90), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    with pytest.raises(DataError, match="test row of fold 0"):
        weighted(GaussianNB(), "accuracy", weight=weight, folds=folds)
    weighted(GaussianNB(), "accuracy", weight=weight, folds=folds, weights_in_score=False)


@pytest.mark.parametrize("scored", [True, False])
def test_costs_on_test_rows_are_weighted_as_those_of_the_folds(scored: bool) -> None:
    problem = weighted(GaussianNB(), "accuracy", weights_in_score=scored)
    test = Table("t", "made", X, pd.Series(CLASSES[::-1]), weight=pd.Series(WEIGHT))
    cost = cost_on_test_rows(problem, ["a", "b"], test)
    model = GaussianNB().fit(X[["a", "b"]], CLASSES, sample_weight=WEIGHT)
    weight = WEIGHT if scored else None
    expected = 1.0 - get_scorer("accuracy")(
        model, X[["a", "b"]], CLASSES[::-1], sample_weight=weight
    )
    assert cost == expected


def test_costs_of_a_judgement_are_weighted() -> None:
    model = GaussianNB().fit(X, CLASSES)
    scoring = weighted(GaussianNB(), "accuracy").scoring
    test = Rows(X, CLASSES[::-1], weight=WEIGHT)
    judgement = judge(
        SubsetEnsemble(GaussianNB(), [["a", "b"]]), Rows(X, CLASSES), test, scoring=scoring
    )
    expected = 1.0 - get_scorer("accuracy")(model, X, CLASSES[::-1], sample_weight=WEIGHT)
    assert judgement.costs["all_features"] == pytest.approx(expected)


def test_a_selector_is_judged_by_the_weighted_score_of_the_test_rows() -> None:
    selector = SubsetSelector(
        GaussianNB(), strategy="random", budget=2, scoring="f1", weights_in_score=True, n_jobs=1
    )
    fitted = np.arange(60)
    unseen = np.arange(60, 90)
    fit_params = {"sample_weight": WEIGHT[fitted]}
    selector.fit(X.iloc[fitted], CLASSES[fitted], **fit_params)
    test = (X.iloc[unseen], CLASSES[unseen])
    head = selector.judge(
        X.iloc[fitted], CLASSES[fitted], test=(*test, WEIGHT[unseen]), **fit_params
    )
    chosen = selector.subset_
    model = GaussianNB().fit(X[chosen].iloc[fitted], CLASSES[fitted], **fit_params)
    expected = get_scorer("f1")(
        model, X[chosen].iloc[unseen], CLASSES[unseen], sample_weight=WEIGHT[unseen]
    )
    assert head.evidence[0].chosen == pytest.approx(expected)
    with pytest.raises(InputError, match=r"pass \(X_test, y_test, sample_weight\)"):
        selector.judge(X.iloc[fitted], CLASSES[fitted], test=test, **fit_params)
