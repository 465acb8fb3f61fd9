"""Tests of the loss of a feature: that of a model trained without it, on unseen rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.validation import Rows, drop_column
from swarm.validation.drop_column import MAX_DROPPED, FeatureLosses, feature_losses

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
TREES = LGBMClassifier(n_estimators=5, num_leaves=4, verbosity=-1, n_jobs=1, random_state=0)
CHOSEN = list(X.columns[:4])
TRAIN = np.arange(len(X)) % 2 == 0


def losses(
    estimator: Any, chosen: list[str], X: Any = X, y: Any = Y, ranked: Any = (), **options: Any
) -> FeatureLosses:
    train = np.arange(len(X)) % 2 == 0
    problem = Problem.build(X[train], y[train], estimator, folds=3, **options)
    rows = X[~train][list(problem.features.columns)]
    unseen = Rows(rows, y[~train])
    return feature_losses(problem, problem.space.mask(chosen), unseen, "unseen rows", ranked=ranked)


def test_the_loss_of_a_feature_is_that_of_the_model_trained_without_it() -> None:
    measured = losses(TREES, CHOSEN, scoring="roc_auc")
    scores = {}
    for columns in (CHOSEN, [CHOSEN[0], *CHOSEN[2:]]):
        model = clone(TREES).fit(X[TRAIN][columns], Y[TRAIN])
        proba = model.predict_proba(X[~TRAIN][columns])[:, 1]
        scores[len(columns)] = roc_auc_score(Y[~TRAIN], proba)
    row = measured.losses.loc[CHOSEN[1]]
    assert row["loss"] == pytest.approx(scores[4] - scores[3])
    assert row["low"] < row["loss"] < row["high"]
    assert measured.losses["loss"].is_monotonic_decreasing
    assert (len(measured.losses), measured.reason) == (4, "")


def test_losses_and_their_intervals_depend_on_the_positive_class_and_not_on_its_order() -> None:
    last = losses(TREES, CHOSEN, y=1 - Y, scoring="average_precision")
    first = losses(TREES, CHOSEN, y=Y.map({0: "no", 1: "yes"}), scoring="average_precision")
    pd.testing.assert_frame_equal(first.losses, last.losses)


def test_intervals_leave_out_whole_groups_of_test_rows() -> None:
    train = np.arange(len(X)) % 2 == 0
    problem = Problem.build(X[train], Y[train], TREES, folds=3)
    mask = problem.space.mask(CHOSEN)
    rows = X[~train]
    target = Y[~train].to_numpy()

    def widths(repeat: int, groups: Any) -> Any:
        """Return the widths of intervals on repeated test rows."""
        order = np.tile(np.arange(len(rows)), repeat)
        repeated_groups = None if groups is None else groups[order]
        unseen = Rows(rows.iloc[order], target[order], repeated_groups)
        table = feature_losses(problem, mask, unseen, "unseen rows").losses
        return (table["high"] - table["low"]).to_numpy()

    ids = np.arange(len(rows))
    # Copies of a row add no information, and are left out together.
    assert widths(4, None).sum() < 0.7 * widths(4, ids).sum()
    assert widths(4, ids).sum() == pytest.approx(widths(1, ids).sum(), rel=0.25)
    assert np.isnan(widths(1, np.zeros(len(rows)))).all()


def test_models_of_a_long_table_are_trained_on_some_rows_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_all_rows = losses(RidgeClassifier(), CHOSEN)
    monkeypatch.setattr(drop_column, "MAX_TRAINING_ROWS", 100)
    on_few_rows, repeated = (losses(RidgeClassifier(), CHOSEN) for _ in range(2))
    assert on_few_rows.rows == "unseen rows (models are trained on 100 of 285 rows)"
    assert on_few_rows.losses.equals(repeated.losses)
    assert not on_few_rows.losses.equals(on_all_rows.losses)


def test_a_model_is_trained_on_the_given_rows_of_the_problem() -> None:
    problem = Problem.build(X, Y, RidgeClassifier(), folds=3)
    half = np.flatnonzero(TRAIN)
    mask = problem.space.mask(CHOSEN)
    unseen = Rows(X[~TRAIN], Y[~TRAIN])
    measured = feature_losses(problem, mask, unseen, "unseen rows", train=half)
    assert measured.losses.equals(losses(RidgeClassifier(), CHOSEN).losses)


def test_a_scorer_of_decision_values_has_those_of_the_model() -> None:
    def share_above(truth: Any, decision: Any) -> float:
        return float(np.mean((decision > 0) == truth))

    scoring = make_scorer(share_above, response_method="decision_function")
    steps = make_pipeline(StandardScaler(), LogisticRegression())
    measured, expected = (
        losses(steps, CHOSEN, scoring=scorer).losses for scorer in (scoring, "accuracy")
    )
    pd.testing.assert_frame_equal(measured, expected, atol=0.01)


def test_of_many_features_the_most_important_ones_are_dropped() -> None:
    many = list(X.columns[:20])
    space = SearchSpace.build(list(X.columns), groups={"pair": many[:2]})
    measured = losses(RidgeClassifier(), [*many[2:], "pair"], ranked=many[:0:-1], space=space)
    # The second column of the pair is the least important of those that are ranked.
    assert set(measured.losses.index) == {*many[: -MAX_DROPPED - 1 : -1]}
    assert len(measured.losses) == MAX_DROPPED
    with_pair = losses(RidgeClassifier(), [*many[2:], "pair"], ranked=many[1:2], space=space)
    assert "pair" in with_pair.losses.index


def test_a_regression_has_losses_in_its_own_units() -> None:
    table, target = load_diabetes(return_X_y=True, as_frame=True)
    name = "neg_root_mean_squared_error"
    measured = losses(Ridge(), ["bmi", "s5"], table, target, scoring=name)
    assert measured.metric == "root_mean_squared_error"
    assert (measured.losses["loss"] > 1.0).all()


class Broken(RidgeClassifier):
    """Cannot be trained."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise RuntimeError("no memory on the card")


def test_a_model_that_fails_and_a_single_feature_are_reasons_and_end_nothing() -> None:
    failed = losses(Broken(), CHOSEN)
    single = losses(TREES, CHOSEN[:1])
    assert failed.reason == "RuntimeError: no memory on the card"
    assert "single feature" in single.reason
    assert failed.rows == single.rows == "unseen rows"
    assert failed.losses.empty
    assert single.losses.empty
    # Leave-one-out has test sets of one row.
    problem = Problem.build(X, Y, TREES, folds=3)
    single_row = feature_losses(problem, problem.space.mask(CHOSEN), Rows(X[:1], Y[:1]), "a row")
    assert "single test row" in single_row.reason


def churn() -> tuple[pd.DataFrame, pd.Series]:
    """Return customers whose calls predict by themselves with an ROC AUC of about 0.9."""
    rng = np.random.default_rng(0)
    leaves = pd.Series((rng.random(900) < 0.25).astype(int))
    table = pd.DataFrame(rng.normal(size=(900, 6)), columns=list("abcdef"))
    table[["a", "b"]] += 0.3 * leaves.to_numpy()[:, None]
    calls = rng.poisson(np.where(leaves == 1, 2.0, 0.15))
    return table.assign(calls=calls), leaves


@pytest.mark.parametrize("chosen", [["a", "b", "calls"], ["calls"]])
@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "balanced_accuracy"])
def test_a_feature_that_all_others_do_not_replace_is_indispensable(
    chosen: list[str], scoring: str
) -> None:
    X, y = churn()
    model = LogisticRegression()
    indispensable = losses(model, chosen, X, y, scoring=scoring).indispensable
    assert indispensable is not None
    assert indispensable.name == "calls"
    assert 0.5 < indispensable.lost <= 1.0
    # A column with the same information replaces it, whether it is chosen or not.
    replaceable = X.assign(visits=X["calls"] + np.arange(len(X)) // 2 % 2)
    assert losses(model, chosen, replaceable, y, scoring=scoring).indispensable is None
    space = SearchSpace.build(list(replaceable.columns), forbidden=["visits"])
    forbidden = losses(model, chosen, replaceable, y, scoring=scoring, space=space)
    assert forbidden.indispensable is not None
    # A column with little information is dispensable.
    assert losses(model, ["a"], X[list("acdef")], y, scoring=scoring).indispensable is None


def test_no_feature_of_ordinary_tables_is_indispensable() -> None:
    for chosen in (CHOSEN, ["mean concave points"], ["worst perimeter", "mean texture"]):
        assert losses(TREES, chosen, scoring="roc_auc").indispensable is None
    sugar, disease = load_diabetes(return_X_y=True, as_frame=True)
    for chosen in (["bmi"], ["bmi", "s5", "bp"]):
        assert losses(Ridge(), chosen, sugar, disease).indispensable is None
