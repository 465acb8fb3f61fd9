"""One search from its description: callbacks, proxy, Ctrl-C in the first epoch, times."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.evaluation.types import evaluate_fully
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.asked import asked_evaluations
from swarm.search.budget import Budget
from swarm.search.packing import pack_folds, pack_masks, unpack_masks
from swarm.search.plan import Proxy, SearchPlan
from swarm.search.runner import FinishedSearch, run_search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.testing.planted import hints_for, plain_space


class Impatient:
    """Accuracy, and Ctrl-C after so many models."""

    def __init__(self, models: int) -> None:
        self.left = models

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return float((estimator.predict(X) == y).mean())


def problem(scoring: Any = None, n_columns: int = 6, **constraints: Any) -> Problem:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, n_columns)), columns=[f"x{i}" for i in range(n_columns)])
    y = (X["x0"] + X["x2"] > 0).astype(int)
    space = SearchSpace.build(list(X), **constraints)
    return Problem.build(X, y, GaussianNB(), folds=3, scoring=scoring, space=space)


def plan(posed: Problem, strategy: str = "random", **options: Any) -> SearchPlan:
    options = {"budget": Budget(epochs=2), **options}
    return SearchPlan(posed, make(strategy), Hints(), **options)


def test_a_strategy_is_given_the_hints_that_it_needs_and_no_others() -> None:
    hints = hints_for(plain_space(6), warm=np.ones((1, 6), dtype=bool))
    swarm = SearchPlan(problem(), make("multiswarm"), hints, Budget(epochs=1)).with_own_hints()
    given = {name for name, value in vars(swarm.hints).items() if value is not None}
    assert given == set(make("multiswarm").needs)
    assert swarm.hints.clusters is hints.clusters


def test_the_best_subsets_and_an_even_sample_of_all_are_measured_on_the_full_model() -> None:
    full = problem()
    cheap = full.with_estimator(LogisticRegression())

    def measured(n_best: int, n_probes: int) -> Any:
        asked = plan(full, proxy=Proxy(cheap, n_best=n_best, n_probes=n_probes))
        return run_search(asked, Archive())

    every = measured(1, 10**6)
    requested = unpack_masks(every.result.state.asked, 6)
    guess = np.array([record.cost for record in every.searched.lookup(requested)])
    truth = np.array([record.cost for record in every.known.lookup(requested)])
    assert every.result.correlation == pytest.approx(spearmanr(guess, truth).statistic)
    assert len(every.result.measured.costs) == len(requested)
    ranked = np.lexsort((requested.sum(axis=1), guess))
    for n_best in (1, 3):
        found = measured(n_best, 0).result
        best = found.measured
        assert best.masks.tolist() == requested[ranked[:n_best]].tolist()
        assert best.costs.tolist() == truth[ranked[:n_best]].tolist()
        assert np.isnan(found.correlation)
    few = measured(1, 3).result.measured
    # The first, the middle and the last one, ordered by their costs, beside the best.
    last = len(requested) - 1
    rows = {0, round(last / 2), last, ranked[0]}
    assert few.masks.tolist() == requested[[row for row in ranked if row in rows]].tolist()


def boosted(n_trees: int) -> LGBMClassifier:
    return LGBMClassifier(n_estimators=n_trees, num_leaves=4, min_child_samples=5, verbosity=-1)


def test_the_answer_is_the_best_on_the_full_model_whatever_others_left_in_the_archive() -> None:
    full = problem(n_columns=9).with_estimator(boosted(30))
    cheap = full.with_estimator(boosted(6))
    asked = plan(full, "bpso", proxy=Proxy(cheap, n_best=10, n_probes=6), budget=Budget(epochs=4))
    result = run_search(asked, Archive()).result
    confirmed: Any = result.measured
    with CrossValidation(full) as costly, CrossValidation(cheap) as guide:
        assert np.array_equal(confirmed.costs, evaluate_fully(costly, confirmed.masks).costs)
        assert np.array_equal(confirmed.searched, evaluate_fully(guide, confirmed.masks).costs)
        masks, costs = result.best_members(4)
        assert np.array_equal(costs, evaluate_fully(costly, masks).costs)
    assert result.cost == confirmed.costs.min() == costs[0]
    assert np.array_equal(costs, np.sort(confirmed.costs)[:4])
    assert (np.diff(confirmed.searched) >= 0).all()
    assert 10 < len(confirmed.costs) == len(np.unique(confirmed.masks, axis=0)) <= 16
    shared = Archive()
    run_search(plan(cheap, seed=5, budget=Budget(epochs=8)), shared)
    other = run_search(asked, shared).result.measured
    for field in dataclasses.fields(confirmed):
        assert np.array_equal(getattr(confirmed, field.name), getattr(other, field.name))
    fails = GaussianNB(priors=[0.1, 0.1, 0.8])
    failing = dataclasses.replace(asked, problem=full.with_estimator(fails, importance="none"))
    with pytest.raises(EvaluationError, match=r"8 of the first 8 evaluations failed"):
        run_search(failing, shared)


@pytest.mark.parametrize(("correlation", "warned"), [(0.79, True), (0.8, False), (1.0, False)])
def test_a_proxy_that_ranks_subsets_in_another_way_is_doubted(
    correlation: float, warned: bool
) -> None:
    nothing: Any = None
    result: Any = SimpleNamespace(measured=object(), correlation=correlation)
    doubt = FinishedSearch(result, nothing, nothing, nothing).doubt
    assert doubt.startswith("the proxy ranks subsets differently") is warned
    assert ("rank correlation 0.79, below 0.8" in doubt) is warned
    result.measured = None
    assert FinishedSearch(result, nothing, nothing, nothing).doubt == ""


# Ctrl-C within the first epoch


def test_ctrl_c_in_the_first_epoch_salvages_the_best_subset_that_is_whole() -> None:
    asked = plan(problem(Impatient(14)), evaluation={"pruning": False})
    archive = Archive()
    finished = run_search(asked, archive, salvage=True)
    result, complete = finished.result, list(finished.known.all())
    # Fourteen models of three folds are four subsets; the fifth is lost.
    assert [record.complete for _, record in complete] == [True] * 4
    lowest = min(record.cost for _, record in complete)
    assert (result.interrupted, result.cost, len(result.records)) == (True, lowest, 0)
    best = [mask.sum() for mask, record in complete if record.cost == lowest]
    assert result.best_mask.sum() == min(best)
    counts = result.state.counts
    assert (counts.evaluations, counts.distinct, counts.fits) == (4, 4, 12)
    assert set(result.state.asked) == set(pack_masks(np.array([mask for mask, _ in complete])))
    assert set(result.state.asked.values()) == {pack_folds(np.ones(3, dtype=bool))}
    assert finished.training_seconds == pytest.approx(sum(r.seconds for _, r in complete))


def test_ctrl_c_is_passed_on_unless_asked_otherwise_or_if_no_subset_is_whole() -> None:
    for models, salvage in ((14, False), (2, True)):
        with pytest.raises(KeyboardInterrupt):
            run_search(plan(problem(Impatient(models))), Archive(), salvage=salvage)


def test_what_is_salvaged_obeys_the_size_bounds() -> None:
    """A forward search starts below them: after eight models two single features are known."""
    asked = plan(problem(Impatient(8), min_size=3), "sfs")
    with pytest.raises(KeyboardInterrupt):
        run_search(asked, Archive(), salvage=True)


def test_failed_subsets_are_not_salvaged() -> None:
    class Failing(GaussianNB):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            if "x1" in X.columns:
                raise ValueError("no x1")
            return super().fit(X, y)

    posed = problem(Impatient(9)).with_estimator(Failing(), importance="none")
    result = run_search(plan(posed), Archive(), salvage=True).result
    assert "x1" not in result.features
    assert np.isfinite(result.cost)


# Its evaluations


def test_the_evaluations_of_a_search_are_its_own_whatever_the_archive_holds() -> None:
    """As many as it asked for, with the folds that it needed, in its order."""

    def told(finished: Any) -> list[tuple[bytes, bytes]]:
        pairs = asked_evaluations(finished.result, finished.known)
        return [(mask.tobytes(), record.fold_costs.tobytes()) for mask, record in pairs]

    shared, options = Archive(), {"budget": Budget(epochs=4), "evaluation": {"pruning": True}}
    others = [run_search(plan(problem(), seed=seed, **options), shared) for seed in (1, 2, 3)]
    alone = run_search(plan(problem(), seed=4, **options), Archive())
    among = run_search(plan(problem(), seed=4, **options), shared)
    assert len(told(alone)) == alone.result.state.counts.distinct
    assert told(among) == told(alone)
    assert len(list(among.known.all())) > max(len(told(each)) for each in (*others, among))


def test_subsets_that_only_the_confirmation_evaluated_follow_those_of_the_search() -> None:
    posed, archive = problem(n_columns=9), Archive()
    finished = run_search(plan(posed), archive)
    own = list(asked_evaluations(finished.result, finished.known))
    asked = {mask.tobytes() for mask, _ in own}
    others = np.array([mask for mask in np.eye(9, dtype=bool) if mask.tobytes() not in asked])
    with CrossValidation(posed, archive) as evaluator:
        evaluate_fully(evaluator, others)
    masks = np.vstack([own[0][0], others])
    confirmation: Any = SimpleNamespace(candidates=SimpleNamespace(masks=masks))
    result = dataclasses.replace(finished.result, confirmation=confirmation)
    added = list(asked_evaluations(result, finished.known))[len(own) :]
    assert [mask.tobytes() for mask, _ in added] == [mask.tobytes() for mask in others]
    assert added
    assert all(record.complete for _, record in added)
