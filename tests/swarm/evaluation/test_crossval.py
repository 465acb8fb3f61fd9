"""The evaluator: costs are scikit-learn's, pruning is invisible, failures are reported."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from swarm.errors import EvaluationError, TransientError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import prepare_hints
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.search.budget import Budget
from swarm.search.result import SearchResult
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from tests.fakes import evaluated, some_masks

Bool = NDArray[np.bool_]


# Models are fitted here; test_exact_paths tests the fast paths.
evaluate = partial(evaluated, exact=False)


def planted(seed: int, n_rows: int = 90, n_columns: int = 8) -> tuple[pd.DataFrame, pd.Series]:
    """A small table with a coarse cost, so that ties are common."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns)).round(1)
    labels = (values[:, 0] + values[:, 1] > rng.normal(size=n_rows) * 0.7).astype(int)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(n_columns)]), pd.Series(labels)


SMALL = {"n_estimators": 5, "num_leaves": 4, "importance_type": "gain"}


class SplitterOnColumn:
    """A splitter that reads the table."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return 2

    def split(self, X: pd.DataFrame, y: Any = None, groups: Any = None) -> Any:
        low = (X["x0"] < X["x0"].median()).to_numpy()
        yield np.flatnonzero(low), np.flatnonzero(~low)
        yield np.flatnonzero(~low), np.flatnonzero(low)


def test_any_splitter_gives_the_folds_it_would_give_scikit_learn() -> None:
    X, y = planted(4)
    problem = Problem.build(X, y, GaussianNB(), folds=SplitterOnColumn())
    scores = cross_val_score(GaussianNB(), X, y, cv=SplitterOnColumn())
    everything = np.ones((1, X.shape[1]), dtype=bool)
    assert evaluate(problem, everything).fold_costs[0] == pytest.approx(1 - scores)


def test_a_shuffling_splitter_without_a_seed_repeats() -> None:
    X, y = planted(0)
    splitter = StratifiedKFold(3, shuffle=True)
    problems = [Problem.build(X, y, GaussianNB(), folds=splitter, seed=5) for _ in range(2)]
    assert problems[0].fingerprint() == problems[1].fingerprint()
    assert splitter.random_state is None


class FailsAtTimes(DecisionTreeClassifier):
    """Raises for one combination of columns, on the folds that test row 0."""

    def fit(self, X: Any, y: Any, **options: Any) -> FailsAtTimes:
        unlucky = {"x0", "x3"} <= set(X.columns) and not {"x1", "x5"} & set(X.columns)
        if unlucky and 0 not in X.index:
            raise ValueError("no model for these columns")
        return super().fit(X, y, **options)


def test_pruning_changes_neither_the_trajectory_nor_the_failures() -> None:
    problem = Problem.build(*planted(11), FailsAtTimes(max_depth=3), folds=3, importance="fold")

    def run_search(pruning: bool) -> SearchResult:
        strategy = make("multiswarm", {"n_particles": 6, "n_swarms": 2, "regroup_every": 3})
        hints = prepare_hints(
            problem.features, problem.space, problem.target, problem.task, needs=strategy.needs
        )
        search = Search(problem, strategy, hints=hints, seed=11, budget=Budget(epochs=5))
        with CrossValidation(problem, pruning=pruning) as evaluator:
            return search.driver(evaluator).run()

    pruned = run_search(True)
    plain = run_search(False)
    pd.testing.assert_frame_equal(
        pruned.history.drop(columns=["fits", "folds_pruned"]),
        plain.history.drop(columns=["fits", "folds_pruned"]),
        check_exact=True,
    )
    members = pruned.state.strategy.members
    assert np.array_equal(members.masks, plain.state.strategy.members.masks)
    assert np.array_equal(members.costs, plain.state.strategy.members.costs)
    assert np.array_equal(pruned.best_mask, plain.best_mask)
    assert pruned.history["failed_evaluations"].iloc[-1] > 0
    assert pruned.history["folds_pruned"].sum() > 0
    assert pruned.history["fits"].iloc[-1] < plain.history["fits"].iloc[-1]


def halves(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y)) / 2 - 3


def test_a_scorer_without_a_bound_is_never_pruned() -> None:
    X, y = planted(5)
    problem = Problem.build(X, y, GaussianNB(), scoring=halves)
    evaluations = evaluate(problem, some_masks(4, X.shape[1]), incumbents=-9.0)
    assert evaluations.work.fits == 4 * problem.n_folds
    assert np.isfinite(evaluations.costs).all()


def test_a_mask_without_a_chance_is_cut_and_completed_later_by_the_missing_folds_only() -> None:
    X, y = planted(6)
    problem = Problem.build(X, y, GaussianNB())
    masks = some_masks(5, X.shape[1])
    exact = evaluate(problem, masks)
    archive = Archive()
    limit = float(exact.fold_costs[:, 0].min() / problem.n_folds) - 1e-6
    pruned = evaluate(problem, masks, incumbents=limit, archive=archive)
    assert pruned.work.fits == 5
    assert pruned.censored.all()
    assert np.array_equal(pruned.needed.sum(axis=1), np.ones(5))
    repeated = evaluate(problem, masks, incumbents=limit, archive=archive)
    assert (repeated.work.fits, repeated.work.hits) == (0, 5)
    completed = evaluate(problem, masks, archive=archive)
    assert completed.work.fits == 5 * (problem.n_folds - 1)
    for name in ("costs", "fold_costs", "importances", "used", "needed"):
        assert np.array_equal(getattr(completed, name), getattr(exact, name)), name


def test_a_mask_with_several_incumbents_is_trained_once_and_meets_each() -> None:
    X, y = planted(7)
    problem = Problem.build(X, y, LGBMClassifier(**SMALL, min_child_samples=5))
    mask = some_masks(1, X.shape[1])
    evaluations = evaluate(problem, np.repeat(mask, 3, axis=0), None, [1e-6, np.inf, np.inf])
    assert evaluations.work.fits == problem.n_folds
    assert evaluations.censored.tolist() == [True, False, False]
    assert np.isinf(evaluations.costs[0])
    assert np.isfinite(evaluations.costs[1])
    assert evaluations.costs[1] == evaluations.costs[2]


def test_a_fit_that_raises_costs_inf_and_keeps_its_traceback() -> None:
    X, y = planted(8)
    problem = Problem.build(X, y, FailsAtTimes(max_depth=2), folds=3)
    bad = problem.space.mask(["x0", "x3"])
    good = problem.space.mask(["x0", "x1", "x3"])
    archive = Archive()
    for fits in (True, False):
        evaluations = evaluate(problem, np.array([bad, good]), archive=archive)
        assert np.isinf(evaluations.costs).tolist() == [True, False]
        assert evaluations.failed.tolist() == [True, False]
        assert not evaluations.censored.any()
        assert "ValueError: no model for these columns" in str(evaluations.first_error)
        assert (evaluations.work.fits > 0) == fits


class Talkative(DecisionTreeClassifier):
    """Fails for most masks, with a message as long as XGBoost's, and counts its fits."""

    fits: ClassVar[list[int]] = []
    spared: ClassVar[str] = ""

    def fit(self, X: Any, y: Any, **options: Any) -> Talkative:
        self.fits.append(1)
        if self.spared not in X.columns:
            raise RuntimeError("\nCheck failed: labels\nStack trace:\n  [bt] libx.so(+0x1)")
        return super().fit(X, y, **options)


@pytest.mark.parametrize(("n_jobs", "spared"), [(1, ""), (2, "x0")])
def test_nearly_all_first_masks_that_fail_end_the_search_with_type_and_first_line(
    n_jobs: int, spared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = planted(9, n_columns=30)
    monkeypatch.setattr(Talkative, "fits", [])
    monkeypatch.setattr(Talkative, "spared", spared)
    problem = Problem.build(X, y, Talkative(), folds=3, importance="none")
    masks = np.eye(30, dtype=bool)
    options = {"n_jobs": n_jobs, "backend": "threading"}
    with pytest.raises(EvaluationError) as caught:
        evaluate(problem, masks, **options)
    failed = 7 if spared else 8
    assert str(caught.value).startswith(f"{failed} of the first 8 evaluations failed")
    assert str(caught.value).endswith("RuntimeError: Check failed: labels")
    (note,) = caught.value.__notes__
    assert note.startswith("Traceback")
    assert "[bt] libx.so(+0x1)" in note
    assert len(Talkative.fits) < 16 * (1 if not spared else 2)


def wrapped() -> Exception:
    error = RuntimeError("the features cannot be fetched")
    error.__cause__ = ConnectionError("reset")
    return error


TRANSIENT = [
    ConnectionError("reset"),
    OSError(28, "No space left on device"),
    PermissionError(13, "Permission denied"),
    ModuleNotFoundError("No module named 'lib'"),
    BrokenProcessPool("a process of the model died"),
    wrapped(),
]


class Outage:
    """Raises an error for the first calls."""

    def __init__(self, error: Exception, n_calls: float) -> None:
        self.error = error
        self.n_calls = n_calls

    def __call__(self) -> None:
        self.n_calls -= 1
        if self.n_calls >= 0:
            raise self.error


@pytest.mark.parametrize(
    ("step", "error"),
    [*(("fit", error) for error in TRANSIENT), ("score", TRANSIENT[0])],
)
def test_an_error_of_the_machine_is_never_archived_as_a_failed_fit(
    step: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = planted(8)
    outage = Outage(error, np.inf)

    class Remote(DecisionTreeClassifier):
        def fit(self, X: Any, y: Any, **options: Any) -> Remote:
            if step == "fit":
                outage()
            return super().fit(X, y, **options)

    def score(estimator: Any, X: Any, y: Any) -> float:
        if step == "score":
            outage()
        return float(estimator.score(X, y))

    problem = Problem.build(X, y, Remote(max_depth=2), folds=3, scoring=score)
    monkeypatch.setattr(Archive, "fingerprint", lambda *_: "0")
    masks = some_masks(3, X.shape[1])
    archive = Archive()
    with pytest.raises(TransientError, match=type(error).__name__):
        evaluate(problem, masks, archive=archive)
    assert not any(record.failed for record in archive.open_problem(problem).lookup(masks))
    outage.n_calls = 2
    resumed = evaluate(problem, masks, archive=archive)
    assert not resumed.failed.any()
    outage.n_calls = 0
    assert np.array_equal(resumed.importances, evaluate(problem, masks).importances)
    assert np.array_equal(resumed.costs, evaluate(problem, masks).costs)


def nan_without_x1(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return float("nan") if "x1" not in X.columns else 0.5


def test_a_nan_cost_names_features_and_fold_and_keeps_what_was_finished() -> None:
    X, y = planted(10)
    problem = Problem.build(X, y, GaussianNB(), scoring=nan_without_x1)
    archive = Archive()
    # The largest masks are trained first, so both good ones are finished.
    masks = np.array(
        [problem.space.mask(names) for names in (["x0", "x1", "x2"], ["x1", "x5"], ["x4"])]
    )
    with pytest.raises(EvaluationError, match=r"\(x4\) is NaN on fold 0"):
        evaluate(problem, masks, archive=archive)
    records = archive.open_problem(problem).lookup(masks)
    assert [record.complete for record in records] == [True, True, False]


def minus_infinity(estimator: Any, X: pd.DataFrame, y: Any) -> float:
    return float("-inf") if "x1" in X.columns else 0.5


def minus_infinity_of(truth: Any, predicted: Any) -> float:
    return float("-inf")


@pytest.mark.parametrize("scoring", [minus_infinity, make_scorer(minus_infinity_of)])
def test_a_score_of_minus_infinity_is_a_failed_fit_that_names_the_scorer(scoring: Any) -> None:
    X, y = planted(8)
    problem = Problem.build(X, y, GaussianNB(), scoring=scoring, importance="none")
    evaluations = evaluate(problem, np.ones((1, X.shape[1]), dtype=bool))
    assert evaluations.failed.all()
    assert "returned -inf on fold 0" in str(evaluations.first_error).splitlines()[-1]


def two(estimator: Any, X: Any, y: Any) -> float:
    return 2.0


def test_a_score_above_its_promised_bound_is_refused() -> None:
    X, y = planted(11)
    problem = Problem.build(X, y, GaussianNB(), scoring=Scoring("two", two, upper=1.0))
    with pytest.raises(EvaluationError, match=r"fold 0.*'two'"):
        evaluate(problem, some_masks(1, X.shape[1]))
