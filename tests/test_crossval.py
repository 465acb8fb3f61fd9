"""Claims on the evaluator: costs are scikit-learn's, pruning is invisible, failures are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import Evaluations
from swarm.problem.folds import make_folds
from swarm.problem.hints import prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.result import SearchResult
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make

Bool = NDArray[np.bool_]


def some_masks(n: int, n_units: int, seed: int = 0) -> Bool:
    rng = np.random.default_rng(seed)
    masks = rng.random((n, n_units)) < rng.uniform(0.2, 0.8, size=(n, 1))
    masks[np.arange(n), rng.integers(0, n_units, n)] = True
    return masks


def evaluate(
    problem: Problem, masks: Bool, incumbents: Any = np.inf, order: Any = None, **options: Any
) -> Evaluations:
    limits = np.broadcast_to(np.asarray(incumbents, dtype=float), len(masks)).copy()
    folds = np.arange(problem.n_folds) if order is None else np.asarray(order)
    # What is tested here is how models are fitted; tests/test_exact_paths.py has the rest.
    with CrossValidation(problem, exact=False, **options) as evaluator:
        return evaluator.evaluate(masks, limits, folds)


@pytest.fixture(scope="module")
def cancer() -> tuple[pd.DataFrame, pd.Series]:
    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:240, :12], data.target.iloc[:240]


@pytest.fixture(scope="module")
def mixed(cancer: tuple[pd.DataFrame, pd.Series]) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    table = cancer[0].iloc[:, :3].copy()
    table.iloc[::7, 0] = np.nan
    table["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], len(table)))
    table["count"] = rng.integers(0, 9, len(table))
    table["flag"] = rng.random(len(table)) < 0.5
    return table, cancer[1]


def planted(seed: int, n_rows: int = 90, n_columns: int = 8) -> tuple[pd.DataFrame, pd.Series]:
    """A small table with a coarse cost, so that ties are common."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns)).round(1)
    labels = (values[:, 0] + values[:, 1] > rng.normal(size=n_rows) * 0.7).astype(int)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(n_columns)]), pd.Series(labels)


SMALL = {"n_estimators": 5, "num_leaves": 4, "importance_type": "gain"}
MODELS = {
    "lightgbm": (LGBMClassifier(**SMALL), load_breast_cancer, "neg_log_loss"),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), load_breast_cancer, "f1"),
    "neighbours": (KNeighborsClassifier(), load_wine, "f1_macro"),
    "multiclass": (LGBMClassifier(**SMALL), load_wine, "accuracy"),
    "regression": (Ridge(), load_diabetes, "neg_root_mean_squared_error"),
    "boosted": (LGBMRegressor(**SMALL), load_diabetes, "r2"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_cost_is_what_scikit_learn_measures(name: str) -> None:
    estimator, load, scoring = MODELS[name]
    X, y = load(return_X_y=True, as_frame=True)
    problem = Problem.build(X, y, estimator, scoring=scoring, seed=3)
    masks = some_masks(3, X.shape[1])
    costs = evaluate(problem, masks).costs
    for mask, cost in zip(masks, costs, strict=True):
        # verbosity is the one setting of the clone that cannot change a model.
        scores = cross_val_score(
            problem.estimator,
            X.loc[:, list(X.columns[mask])],
            y,
            scoring=scoring,
            cv=list(problem.folds),
            error_score="raise",
        )
        bound = 0.0 if scoring.startswith("neg_") else 1.0
        assert cost == pytest.approx(bound - scores.mean(), rel=1e-12, abs=1e-14)


class Spy(LGBMClassifier):
    seen: ClassVar[list[pd.DataFrame]] = []

    def fit(self, X: Any, y: Any, **options: Any) -> Spy:
        self.seen.append(X)
        return super().fit(X, y, **options)


def test_dtypes_categories_and_missing_values_reach_the_model_as_they_are(
    mixed: tuple[pd.DataFrame, pd.Series],
) -> None:
    table, labels = mixed
    problem = Problem.build(table, labels, Spy(**SMALL), scoring="neg_log_loss")
    Spy.seen.clear()
    masks = some_masks(6, table.shape[1], seed=4)
    costs = evaluate(problem, masks).costs
    for fit, X in enumerate(sorted(Spy.seen, key=lambda X: list(X.columns))):
        assert X.dtypes.to_dict() == table.dtypes[list(X.columns)].to_dict(), fit
    wanted = {tuple(table.columns[mask]) for mask in masks}
    assert {tuple(X.columns) for X in Spy.seen} == wanted
    whole = Spy.seen[0]
    pd.testing.assert_frame_equal(whole, table.loc[whole.index, list(whole.columns)])
    for mask, cost in zip(masks, costs, strict=True):
        chosen = table.loc[:, list(table.columns[mask])]
        scores = cross_val_score(
            problem.estimator, chosen, labels, scoring="neg_log_loss", cv=list(problem.folds)
        )
        assert cost == pytest.approx(-scores.mean(), rel=1e-12)


def test_the_index_of_the_table_does_not_matter(cancer: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = cancer
    moved = X.set_axis(np.arange(len(X))[::-1] + 7)
    masks = some_masks(3, X.shape[1])
    plain = evaluate(Problem.build(X, y, GaussianNB()), masks)
    other = evaluate(Problem.build(moved, y.set_axis(moved.index), GaussianNB()), masks)
    assert np.array_equal(plain.fold_costs, other.fold_costs)


@pytest.mark.parametrize("steps", [False, True])
def test_sample_weights_reach_the_fit(steps: bool, cancer: tuple[pd.DataFrame, pd.Series]) -> None:
    X, y = cancer
    weight = np.random.default_rng(0).uniform(0.1, 5, len(y))
    model = make_pipeline(StandardScaler(), LogisticRegression()) if steps else GaussianNB()
    problem = Problem.build(X, y, model, weight=weight, scoring="neg_log_loss")
    name = "logisticregression__sample_weight" if steps else "sample_weight"
    expected = [
        -get_scorer("neg_log_loss")(
            clone(model).fit(X.iloc[train], y.iloc[train], **{name: weight[train]}),
            X.iloc[test],
            y.iloc[test],
        )
        for train, test in problem.folds
    ]
    everything = np.ones((1, X.shape[1]), dtype=bool)
    assert evaluate(problem, everything).fold_costs[0] == pytest.approx(expected, rel=1e-9)
    assert evaluate(Problem.build(X, y, model, scoring="neg_log_loss"), everything).costs[
        0
    ] != pytest.approx(np.mean(expected), rel=1e-6)


class OnAColumn:
    """A splitter that reads the table, as only a table-aware one can."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return 2

    def split(self, X: pd.DataFrame, y: Any = None, groups: Any = None) -> Any:
        low = (X["mean radius"] < X["mean radius"].median()).to_numpy()
        yield np.flatnonzero(low), np.flatnonzero(~low)
        yield np.flatnonzero(~low), np.flatnonzero(low)


@pytest.mark.parametrize("kind", ["groups", "own", "time", "column"])
def test_any_splitter_gives_the_folds_it_would_give_scikit_learn(
    kind: str, cancer: tuple[pd.DataFrame, pd.Series]
) -> None:
    X, y = cancer
    ids = np.arange(len(y)) % 12
    folds: Any
    if kind == "time":
        folds = make_folds("time", y.to_numpy(), "binary", n_folds=3, time=-np.arange(len(y)))
    elif kind == "column":
        folds = make_folds("column", y.to_numpy(), "binary", column=ids % 3)
    else:
        folds = GroupKFold(4) if kind == "groups" else OnAColumn()
    problem = Problem.build(X, y, GaussianNB(), folds=folds, groups=ids)
    everything = np.ones((1, X.shape[1]), dtype=bool)
    scores = cross_val_score(GaussianNB(), X, y, cv=folds, groups=ids if kind == "groups" else None)
    assert evaluate(problem, everything).fold_costs[0] == pytest.approx(1 - scores)


def test_a_shuffling_splitter_without_a_seed_repeats() -> None:
    X, y = planted(0)
    splitter = StratifiedKFold(3, shuffle=True)
    problems = [Problem.build(X, y, GaussianNB(), folds=splitter, seed=5) for _ in range(2)]
    assert problems[0].fingerprint() == problems[1].fingerprint()
    assert splitter.random_state is None


def search(
    table: tuple[pd.DataFrame, pd.Series],
    estimator: Any,
    archive: Archive | None = None,
    seed: int = 0,
    importance: Any = "auto",
    epochs: int = 5,
    scoring: str = "accuracy",
    **options: Any,
) -> SearchResult:
    X, y = table
    problem = Problem.build(X, y, estimator, folds=3, importance=importance, scoring=scoring)
    strategy = make("multiswarm", {"n_particles": 6, "n_swarms": 2, "regroup_every": 3})
    hints = prepare_hints(problem.features, problem.space)
    with CrossValidation(problem, archive, **options) as evaluator:
        budget = Budget(epochs=epochs)
        return run(Search(strategy, problem.space, evaluator, hints, seed, budget))


def assert_same(one: SearchResult, other: SearchResult, *, counted: bool = False) -> None:
    uncounted = [] if counted else ["fits", "folds_pruned"]
    pd.testing.assert_frame_equal(
        one.history.drop(columns=uncounted),
        other.history.drop(columns=uncounted),
        check_exact=True,
    )
    mine, theirs = one.state.strategy.members, other.state.strategy.members
    assert np.array_equal(mine.masks, theirs.masks)
    assert np.array_equal(mine.costs, theirs.costs)
    assert np.array_equal(one.best_mask, other.best_mask)
    assert one.cost == other.cost


class FailsAtTimes(DecisionTreeClassifier):
    """Raises for one combination of columns, on the folds that test row 0."""

    def fit(self, X: Any, y: Any, **options: Any) -> FailsAtTimes:
        unlucky = {"x0", "x3"} <= set(X.columns) and not {"x1", "x5"} & set(X.columns)
        if unlucky and 0 not in X.index:
            raise ValueError("no model for these columns")
        return super().fit(X, y, **options)


@pytest.mark.parametrize(("seed", "importance"), [(0, "fold"), (1, "none"), (2, "fold")])
def test_pruning_never_changes_the_trajectory(seed: int, importance: str) -> None:
    table, model = planted(seed), DecisionTreeClassifier(max_depth=3)
    kept = search(table, model, seed=seed, importance=importance)
    whole = search(table, model, seed=seed, importance=importance, pruning=False)
    assert_same(kept, whole)
    assert kept.history["folds_pruned"].sum() > 0
    assert kept.history["fits"].iloc[-1] < whole.history["fits"].iloc[-1]


def test_pruning_never_changes_how_many_fits_failed() -> None:
    failed = 0.0
    for seed in (1, 5, 11):
        table, model = planted(seed), FailsAtTimes(max_depth=3)
        kept = search(table, model, seed=seed, importance="none")
        assert_same(kept, search(table, model, seed=seed, importance="none", pruning=False))
        failed += kept.history["failed_evaluations"].iloc[-1]
    assert failed > 0


def test_two_processes_give_the_trajectory_of_one() -> None:
    table, model = planted(1), LGBMClassifier(**SMALL, min_child_samples=5)
    one = search(table, model, scoring="neg_log_loss", epochs=3)
    two = search(table, model, scoring="neg_log_loss", epochs=3, n_jobs=2)
    assert_same(one, two, counted=True)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_a_search_resumed_under_another_backend_is_the_uninterrupted_one(
    backend: str, tmp_path: Path
) -> None:
    table, model = planted(3), DecisionTreeClassifier(max_depth=3)
    whole = search(table, model, seed=2)
    archive = Archive(f"sqlite:///{tmp_path / 'a.db'}")
    search(table, model, archive, seed=2, epochs=3)
    resumed = search(table, model, archive, seed=2, n_jobs=2, backend=backend)
    assert_same(whole, resumed, counted=True)
    assert resumed.work["fits"].sum() < whole.work["fits"].sum()


def test_what_an_answer_needed_does_not_depend_on_what_the_archive_knew() -> None:
    X, y = planted(12)
    problem = Problem.build(X, y, GaussianNB(), scoring="neg_log_loss")
    masks = some_masks(12, X.shape[1])
    limit = float(np.median(evaluate(problem, masks).costs)) * 0.8
    fresh = evaluate(problem, masks, limit, [0, 1, 2, 3, 4])
    archive = Archive()
    evaluate(problem, masks, limit / 3, [4, 3, 2, 1, 0], archive=archive)
    warm = evaluate(problem, masks, limit, [0, 1, 2, 3, 4], archive=archive)
    assert np.array_equal(fresh.needed, warm.needed)
    assert np.array_equal(fresh.costs, warm.costs)
    assert 0 < warm.work.fits < fresh.work.fits


def test_history_is_the_same_whatever_the_archive_knew(tmp_path: Path) -> None:
    table, model = planted(2), DecisionTreeClassifier(max_depth=3)
    fresh = search(table, model, seed=0)
    archive = Archive(f"sqlite:///{tmp_path / 'a.db'}")
    search(table, model, archive, seed=7)
    warm = search(table, model, archive, seed=0)
    assert_same(fresh, warm, counted=True)
    assert warm.work["hits"].sum() > 0
    replayed = search(table, model, archive, seed=0)
    assert_same(fresh, replayed, counted=True)
    assert replayed.work["fits"].sum() == 0


def test_costs_do_not_depend_on_the_order_of_the_folds() -> None:
    X, y = planted(3)
    problem = Problem.build(X, y, GaussianNB(), scoring="neg_log_loss")
    masks = some_masks(8, X.shape[1])
    plain = evaluate(problem, masks)
    for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        other = evaluate(problem, masks, order=order)
        assert np.array_equal(plain.costs, other.costs)
        assert np.array_equal(plain.fold_costs, other.fold_costs)


def test_a_tie_with_the_incumbent_is_not_pruned() -> None:
    X, y = planted(4)
    problem = Problem.build(X, y, GaussianNB(), scoring="neg_log_loss")
    masks = some_masks(20, X.shape[1])
    costs = evaluate(problem, masks).costs
    tied = evaluate(problem, masks, incumbents=costs, order=[3, 1, 4, 0, 2])
    assert np.array_equal(tied.costs, costs)
    assert not tied.censored.any()
    archive = Archive()
    beaten = evaluate(problem, masks, np.nextafter(costs, 0), [3, 1, 4, 0, 2], archive=archive)
    assert beaten.censored.all()


def halves(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y)) / 2 - 3


def test_a_scorer_without_a_bound_is_never_pruned() -> None:
    X, y = planted(5)
    problem = Problem.build(X, y, GaussianNB(), scoring=halves)
    answers = evaluate(problem, some_masks(4, X.shape[1]), incumbents=-9.0)
    assert answers.work.fits == 4 * problem.n_folds
    assert np.isfinite(answers.costs).all()


def test_a_mask_without_a_chance_is_cut_and_completed_later_by_the_missing_folds_only() -> None:
    X, y = planted(6)
    problem = Problem.build(X, y, GaussianNB())
    masks = some_masks(5, X.shape[1])
    exact = evaluate(problem, masks)
    archive = Archive()
    limit = float(exact.fold_costs[:, 0].min() / problem.n_folds) - 1e-6
    cut = evaluate(problem, masks, incumbents=limit, archive=archive)
    assert cut.work.fits == 5
    assert cut.censored.all()
    assert np.array_equal(cut.needed.sum(axis=1), np.ones(5))
    again = evaluate(problem, masks, incumbents=limit, archive=archive)
    assert (again.work.fits, again.work.hits) == (0, 5)
    whole = evaluate(problem, masks, archive=archive)
    assert whole.work.fits == 5 * (problem.n_folds - 1)
    for name in ("costs", "fold_costs", "importances", "used", "needed"):
        assert np.array_equal(getattr(whole, name), getattr(exact, name)), name


def test_a_batch_trains_each_mask_once_and_no_model_beyond_its_folds() -> None:
    X, y = planted(7)
    problem = Problem.build(X, y, LGBMClassifier(**SMALL, min_child_samples=5))
    masks = some_masks(4, X.shape[1])
    answers = evaluate(problem, np.vstack([masks, masks]))
    assert answers.work.fits == len(np.unique(masks, axis=0)) * problem.n_folds
    assert np.array_equal(answers.costs[:4], answers.costs[4:])


def test_the_same_mask_may_have_different_incumbents_in_one_batch() -> None:
    X, y = planted(7)
    problem = Problem.build(X, y, GaussianNB())
    mask = some_masks(1, X.shape[1])
    answers = evaluate(problem, np.vstack([mask, mask]), incumbents=[1e-6, np.inf])
    assert answers.censored.tolist() == [True, False]
    assert np.isinf(answers.costs[0])
