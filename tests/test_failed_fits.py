"""Claims on fits that fail and costs that cannot be believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.fastpaths import exact_path
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.storage.archive import Archive
from tests.test_crossval import FailsAtTimes, evaluate, planted, search, some_masks


def test_a_fit_that_raises_costs_inf_and_keeps_its_traceback() -> None:
    X, y = planted(8)
    problem = Problem.build(X, y, FailsAtTimes(max_depth=2), folds=3, importance="refit")
    bad, good = problem.space.mask(["x0", "x3"]), problem.space.mask(["x0", "x1", "x3"])
    archive = Archive()
    answers = evaluate(problem, np.array([bad, good]), archive=archive)
    assert np.isinf(answers.costs[0])
    assert answers.failed.tolist() == [True, False]
    assert not answers.censored.any()
    assert np.isfinite(answers.costs[1])
    assert answers.first_error is not None
    assert "ValueError: no model for these columns" in answers.first_error
    again = evaluate(problem, np.array([bad, good]), archive=archive)
    assert again.work.fits == 0
    assert again.failed.tolist() == [True, False]
    assert again.first_error == answers.first_error


def test_more_than_a_tenth_of_failures_stops_the_search_with_the_first_traceback() -> None:
    class Never(DecisionTreeClassifier):
        def fit(self, X: Any, y: Any, **options: Any) -> Never:
            raise RuntimeError("out of luck")

    with pytest.raises(EvaluationError, match="out of luck") as caught:
        search(planted(9), Never(), importance="none")
    assert "\n" not in str(caught.value)
    assert any("Traceback" in note for note in caught.value.__notes__)


def nan_without_x1(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return float("nan") if "x1" not in X.columns else 0.5


def test_a_nan_cost_names_features_and_fold_and_keeps_what_was_finished() -> None:
    X, y = planted(10)
    problem = Problem.build(X, y, GaussianNB(), scoring=nan_without_x1)
    archive = Archive()
    # Largest masks are trained first, so both good ones are finished.
    masks = np.array(
        [problem.space.mask(names) for names in (["x0", "x1", "x2"], ["x1", "x5"], ["x4"])]
    )
    with pytest.raises(EvaluationError, match=r"\(x4\) is NaN on fold 0"):
        evaluate(problem, masks, archive=archive)
    known = archive.open_problem(problem).lookup(masks)
    assert [record.complete for record in known] == [True, True, False]


def minus_infinity(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return float("-inf") if "x1" in X.columns else 0.5


def minus_infinity_of(truth: Any, predicted: Any) -> float:
    return float("-inf")


@pytest.mark.parametrize("scoring", [minus_infinity, make_scorer(minus_infinity_of)])
def test_a_score_of_minus_infinity_is_a_failed_fit_that_names_the_scorer(scoring: Any) -> None:
    X, y = planted(8)
    problem = Problem.build(X, y, GaussianNB(), scoring=scoring, importance="none")
    answers = evaluate(problem, np.ones((1, X.shape[1]), dtype=bool))
    assert answers.failed.all()
    assert answers.first_error is not None
    assert "returned -inf on fold 0" in answers.first_error.splitlines()[-1]


def test_a_scorer_that_raises_is_a_failed_fit_on_a_fast_path_too() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x0", "x1", "x2"])
    # A single neighbour often predicts 0, which has no Poisson deviance.
    counts = rng.poisson(1.5, 60).astype(float)
    scoring = "neg_mean_poisson_deviance"
    problem = Problem.build(
        X, counts, KNeighborsRegressor(1), scoring=scoring, folds=KFold(3), importance="none"
    )
    assert exact_path(problem)[0] is not None
    masks = np.array([[True, True, True], [True, False, False]])
    limits, order = np.full(2, np.inf), np.arange(3)
    with CrossValidation(problem) as fast, CrossValidation(problem, exact=False) as fitted:
        answers = [each.evaluate(masks, limits, order) for each in (fast, fitted)]
    for one in answers:
        assert one.failed.all()
        assert one.first_error is not None
        assert "strictly positive" in one.first_error
    assert np.array_equal(answers[0].needed, answers[1].needed)


def two(estimator: Any, X: Any, y: Any) -> float:
    return 2.0


def test_a_score_above_its_promised_bound_is_refused() -> None:
    X, y = planted(11)
    problem = Problem.build(X, y, GaussianNB(), scoring=Scoring("two", two, upper=1.0))
    with pytest.raises(EvaluationError, match=r"is -1, below its bound of 0 on fold 0.*'two'"):
        evaluate(problem, some_masks(1, X.shape[1]))


def nan_on_few_rows(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return float("nan") if len(X) < 20 else float(estimator.score(X, y))


def test_a_nan_on_a_fold_that_was_not_needed_is_not_seen_with_any_number_of_workers() -> None:
    X, y = planted(9)
    cut = len(X) - 15
    rows = np.arange(len(X))
    middle = cut // 2
    tests = [rows[:middle], rows[middle:cut], rows[cut:]]
    folds = [(np.setdiff1d(rows, tested), tested) for tested in tests]
    scoring = Scoring("few", nan_on_few_rows, upper=1.0)
    problem = Problem.build(X, y, GaussianNB(), scoring=scoring, folds=folds)
    masks = some_masks(6, X.shape[1])
    # Beaten by the first fold alone: the third, whose cost is NaN, is never needed.
    incumbents = np.full(len(masks), 1e-6)
    for n_jobs in (1, 2):
        with CrossValidation(problem, n_jobs=n_jobs) as evaluator:
            answers = evaluator.evaluate(masks, incumbents, np.arange(3))
        assert answers.censored.all()
    with (
        CrossValidation(problem, n_jobs=2) as evaluator,
        pytest.raises(EvaluationError, match="is NaN on fold 2"),
    ):
        evaluator.evaluate(masks, np.full(len(masks), np.inf), np.arange(3))
