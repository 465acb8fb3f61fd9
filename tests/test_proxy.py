"""A search on a cheaper model, and the answer measured on the model that counts."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import spearmanr
from sklearn.naive_bayes import GaussianNB

from swarm.errors import EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints, prepare_hints
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.proxy import confirm
from swarm.search.result import SearchResult
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make

SMALL: dict[str, Any] = {"num_leaves": 4, "min_child_samples": 5, "verbosity": -1}


@cache
def problems() -> tuple[Problem, Problem]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 9)), columns=[f"x{i}" for i in range(9)])
    target = (table["x1"] + table["x4"] * table["x6"] + rng.normal(0, 0.4, 150) > 0).astype(int)
    full = Problem.build(table, target, LGBMClassifier(n_estimators=30, **SMALL), folds=3)
    return full, full.with_estimator(LGBMClassifier(n_estimators=6, learning_rate=0.4, **SMALL))


def searched(
    archive: Archive, full: Problem | None = None, n_best: int = 10, n_probes: int = 6
) -> tuple[SearchResult, SearchResult]:
    """Return the search on the cheaper model, and what was confirmed of it."""
    cheap = problems()[1]
    strategy = make("multiswarm")
    hints = prepare_hints(cheap.features, cheap.space, cheap.target, needs=strategy.needs)
    with CrossValidation(cheap, archive) as evaluator:
        budget = Budget(epochs=8)
        result = run(Search(strategy, cheap.space, evaluator, hints, 1, budget))
        with CrossValidation(full or problems()[0], archive) as counting:
            return result, confirm(result, evaluator, counting, n_best=n_best, n_probes=n_probes)


@cache
def alone() -> tuple[SearchResult, SearchResult]:
    return searched(Archive())


def true_costs(problem: Problem, masks: np.ndarray) -> np.ndarray:
    with CrossValidation(problem) as evaluator:
        limits = np.full(len(masks), np.inf)
        return evaluator.evaluate(masks, limits, np.arange(problem.n_folds)).costs


def test_the_same_problem_is_posed_to_another_model() -> None:
    full, cheap = problems()
    assert full.features.equals(cheap.features)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(full.folds, cheap.folds, strict=True))
    assert full.fingerprint() != cheap.fingerprint()
    again = cheap.with_estimator(LGBMClassifier(n_estimators=30, **SMALL))
    assert again.fingerprint() == full.fingerprint()
    bayes = full.with_estimator(GaussianNB())
    assert (bayes.importance, bayes.exact_shrink) == ("mutual_information", False)


def test_the_answer_is_the_best_on_the_model_that_counts() -> None:
    full, cheap = problems()
    _, result = alone()
    confirmed: Any = result.confirmed
    assert np.array_equal(confirmed.costs, true_costs(full, confirmed.masks))
    assert np.array_equal(confirmed.cheap, true_costs(cheap, confirmed.masks))
    assert result.cost == confirmed.costs.min()
    assert true_costs(full, result.best_mask[None, :])[0] == result.cost
    masks, costs = result.best_members(4)
    assert np.array_equal(costs, np.sort(confirmed.costs)[:4])
    assert np.array_equal(true_costs(full, masks), costs)


def test_the_best_of_the_cheaper_model_and_a_sample_of_all_are_measured() -> None:
    before, result = alone()
    confirmed: Any = result.confirmed
    assert confirmed.cheap[0] == before.cost
    assert (np.diff(confirmed.cheap) >= 0).all()
    assert 10 < len(confirmed.costs) <= 16
    assert len(np.unique(confirmed.masks, axis=0)) == len(confirmed.masks)
    whole: Any = searched(Archive(), n_best=1, n_probes=10**6)[1].confirmed
    # All that were asked for, those given up on the way too, and the best without unused units.
    n_asked = before.state.counts.distinct
    assert n_asked <= len(whole.costs) <= n_asked + 1
    assert whole.cheap.max() > before.history["pbest_cost_mean"].iloc[-1]
    correlation = spearmanr(whole.cheap, whole.costs).statistic
    assert whole.correlation == pytest.approx(correlation, abs=0.02)


def test_what_another_search_left_in_the_archive_changes_nothing() -> None:
    archive, cheap = Archive(), problems()[1]
    with CrossValidation(cheap, archive) as evaluator:
        run(Search(make("random"), cheap.space, evaluator, Hints(), 5, Budget(epochs=8)))
    one, other = (result[1].confirmed for result in (alone(), searched(archive)))
    for field in dataclasses.fields(one):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name))


def test_a_full_model_that_fails_everywhere_is_told() -> None:
    fails = GaussianNB(priors=[0.1, 0.1, 0.8])
    with pytest.raises(EvaluationError, match=r"none of .* subsets of the cheaper"):
        searched(Archive(), problems()[0].with_estimator(fails, importance="none"))
