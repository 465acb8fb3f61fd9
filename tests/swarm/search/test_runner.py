"""Tests of running a search: proxy, prefilter, Ctrl-C in the first epoch, and its evaluations."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from swarm.errors import EvaluationError, SpaceError
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.candidates import Candidates
from swarm.search.confirmation import ConfirmationPlan
from swarm.search.fresh_folds import candidates, ranked_candidates
from swarm.search.narrowed import Narrowed
from swarm.search.packing import pack_folds, pack_masks, unpack_masks
from swarm.search.prefilter import Prefilter, ranking_problem
from swarm.search.proxy import Proxy, best_subsets
from swarm.search.requests import requested_evaluations, training_seconds
from swarm.search.result import SearchResult
from swarm.search.runner import Stages, run
from swarm.search.search import Search
from swarm.storage.archive import Archive
from swarm.storage.records import Record
from swarm.strategies.catalogue import make
from swarm.testing.planted import make_driver, plain_space, planted


class Impatient:
    """A scorer of accuracy that presses Ctrl-C after so many models."""

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


def plan(posed: Problem, strategy: str = "random", **options: Any) -> Search:
    options = {"budget": Budget(epochs=2), **options}
    return Search(posed, make(strategy), **options)


def test_the_best_subsets_and_an_even_sample_of_all_are_measured_on_the_full_model() -> None:
    full = problem()
    cheap = full.with_estimator(LogisticRegression())
    archive = Archive()

    def search_with(n_best: int, n_probes: int) -> SearchResult:
        search = plan(full, proxy=Proxy(cheap, n_best=n_best, n_probes=n_probes))
        return run(search, archive)

    whole = search_with(1, 10**6)
    requested = unpack_masks(whole.state.requests, 6)
    proxy_costs, full_costs = (
        np.array([record.cost for record in archive.open_problem(posed).lookup(requested)])
        for posed in (cheap, full)
    )
    assert whole.correlation == pytest.approx(spearmanr(proxy_costs, full_costs).statistic)
    assert whole.measured is not None
    assert len(whole.measured.costs) == len(requested)
    ranked = np.lexsort((requested.sum(axis=1), proxy_costs))
    for n_best in (1, 3):
        result = search_with(n_best, 0)
        best = result.measured
        assert best is not None
        assert best.masks.tolist() == requested[ranked[:n_best]].tolist()
        assert best.costs.tolist() == full_costs[ranked[:n_best]].tolist()
        # Without probes nothing is compared, which is no reason for doubt.
        assert result.correlation is None
        assert not result.proxy_warning
    sample = search_with(1, 3).measured
    assert sample is not None
    # The first, the middle and the last subset are measured beside the best, by their costs.
    last = len(requested) - 1
    rows = {0, round(last / 2), last, ranked[0]}
    assert sample.masks.tolist() == requested[[row for row in ranked if row in rows]].tolist()


def test_the_answer_of_the_full_model_does_not_depend_on_what_others_left_in_the_archive() -> None:
    full = problem(n_columns=9).with_estimator(KNeighborsClassifier(3))
    cheap = full.with_estimator(KNeighborsClassifier(9))
    search = plan(full, "bpso", proxy=Proxy(cheap, n_best=10, n_probes=6), budget=Budget(epochs=2))
    result = run(search, Archive())
    measured: Any = result.measured
    assert result.cost == measured.costs.min()
    assert (np.diff(measured.search_costs) >= 0).all()
    assert 10 < len(measured.costs) == len(np.unique(measured.masks, axis=0)) <= 16
    shared = Archive()
    run(plan(cheap, seed=5, budget=Budget(epochs=3)), shared)
    measured_again = run(search, shared).measured
    for field in dataclasses.fields(measured):
        assert np.array_equal(getattr(measured, field.name), getattr(measured_again, field.name))
    fails = GaussianNB(priors=[0.1, 0.1, 0.8])
    failing = dataclasses.replace(search, problem=full.with_estimator(fails, importance="none"))
    with pytest.raises(EvaluationError, match="8 of the first 8"):
        run(failing, shared)


def test_a_proxy_that_ranks_subsets_in_another_way_is_doubted() -> None:
    nothing: Any = None
    for correlation, warning in ((0.79, "0.79, below 0.8"), (np.nan, "nan"), (0.8, ""), (None, "")):
        result = SearchResult(nothing, (), "epochs", nothing, object(), correlation)  # type: ignore[arg-type]
        assert warning in result.proxy_warning
        assert bool(result.proxy_warning) == bool(warning)


def test_the_best_subsets_of_a_search_have_no_unit_that_no_tree_uses() -> None:
    """The first of equal subsets is kept; failed and incomplete ones are left out."""
    masks = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]], dtype=bool)
    used = np.array([1, 1, 0], dtype=bool)
    costs = [0.2, 0.2, 0.1, np.inf, np.nan]
    record_of = {
        mask.tobytes(): Record(
            np.full(2, cost), np.zeros((2, mask.sum())), np.tile(used[mask], (2, 1))
        )
        for mask, cost in zip(masks, costs, strict=True)
    }
    both_folds = pack_folds(np.ones(2, dtype=bool))
    requests = dict(zip(pack_masks(masks), [both_folds] * 4 + [1], strict=True))
    result: Any = SimpleNamespace(space=plain_space(3), state=SimpleNamespace(requests=requests))
    for exact, expected in ((True, masks[1:2] & [0, 1, 0]), (False, masks[2:3])):
        evaluator: Any = SimpleNamespace(
            n_folds=2,
            problem=SimpleNamespace(exact_shrink=exact),
            evaluations=SimpleNamespace(
                n_folds=2,
                lookup=lambda rows: [record_of[row.tobytes()] for row in rows],
            ),
        )
        best, cost = best_subsets(result, evaluator)
        assert best[0].tolist() == expected[0].tolist()
        assert cost.tolist() == ([0.1, 0.2] if exact else [0.1, 0.2, 0.2])
        assert best_subsets(result, evaluator, 1)[0].tolist() == [best[0].tolist()]


def test_evaluators_of_a_search_share_their_workers() -> None:
    full = problem()
    search = plan(full, proxy=Proxy(full.with_estimator(LogisticRegression()), 1, 0))
    with Stages(search, Archive()) as stages:
        assert stages.search_evaluator is not stages.full_evaluator
        assert stages.search_evaluator.workers is stages.full_evaluator.workers


# ---------------------------------------------------------------- a search on some of the units


def test_a_prefilter_keeps_what_the_space_and_the_strategy_need() -> None:
    for constraints, least in (
        ({}, 2),
        ({"min_size": 5}, 5),
        # One unit more than the fixed ones is needed to have something to select.
        ({"fixed": ["x0", "x1", "x2"]}, 4),
        ({"forbidden": ["x0", "x1", "x2", "x3", "x4"]}, 1),
    ):
        constrained = problem(**constraints)
        assert Prefilter(constrained, least=2).bounds(constrained.space)[0] == least
    # A search is checked as if the fewest units were kept.
    wide = problem()
    four = make("sfs", {"size": 4})
    for least, fits in ((4, True), (3, False)):
        search = Search(wide, four, budget=Budget(epochs=1), prefilter=Prefilter(wide, least=least))
        if fits:
            search.check()
        else:
            with pytest.raises(SpaceError):
                search.check()


def test_a_narrowed_search_is_that_of_the_units_which_are_kept() -> None:
    kept = np.array([True, False, True, True, False, True])
    wide = plain_space(6)
    narrow = wide.restricted(kept)
    narrowed = plan(problem(), "sbs").on_units(kept).strategy
    assert isinstance(narrowed, Narrowed)
    assert narrowed.epochs_in(wide) == make("sbs").epochs_in(narrow) != make("sbs").epochs_in(wide)
    assert narrowed.evaluations_in(wide) == make("sbs").evaluations_in(narrow)
    result = make_driver(narrowed, planted(wide), epochs=99).run()
    proposed = [mask for record in result.records for mask in record.columns["mask"]]
    assert result.reason == "finished"
    assert not np.array(proposed)[:, ~kept].any()
    assert len(proposed) == narrowed.evaluations_in(wide)[1]
    swarm = plan(problem(), "multiswarm").on_units(kept).strategy
    assert isinstance(swarm, Narrowed)
    assert swarm.hints.distance is not None
    assert swarm.hints.distance.shape == (4, 4)


def test_a_cut_keeps_the_units_that_tell_the_most_and_its_models_are_archived() -> None:
    posed = problem(n_columns=9)
    archive = Archive()
    prefilter = Prefilter.of(posed, posed.folds[:2], make("sfs", {"size": 3}), least=2)
    result = run(plan(posed, "sfs", prefilter=prefilter), archive)
    cut = result.cut
    assert cut is not None
    assert {"x0", "x2"} <= set(posed.space.subset(cut.kept))
    assert 3 <= cut.n_kept == cut.sizes[np.argmin(cut.costs)]
    assert cut.sizes[-1] == 9
    assert cut.n_fits == 2 * len(cut.sizes)
    assert archive.has_evaluations(prefilter.problem)


def test_units_are_ranked_by_models_that_have_not_seen_the_test_rows() -> None:
    folds = problem().folds[:2]
    for model, importance, ranked_by in (
        (LGBMClassifier(verbosity=-1), "fold", "fold"),
        (GaussianNB(), "none", "mutual_information"),
        (GaussianNB(), "permutation", "permutation"),
    ):
        posed = problem().with_estimator(model, importance=importance)
        ranking = ranking_problem(posed, folds)
        assert ranking.importance == ranked_by
        assert ranking.folds == folds
        assert not ranking.exact_shrink
        assert getattr(ranking.estimator, "importance_type", "gain") == "gain"


# ---------------------------------------------------------------- Ctrl-C in the first epoch


def test_ctrl_c_in_the_first_epoch_salvages_the_best_subset_that_is_whole() -> None:
    search = plan(problem(Impatient(14)), evaluation={"pruning": False})
    archive = Archive()
    result = run(search, archive, salvage=True)
    evaluations = archive.open_problem(search.problem)
    complete = list(evaluations.all())
    # Fourteen models of three folds are four subsets; the fifth is lost.
    assert [record.complete for _, record in complete] == [True] * 4
    lowest = min(record.cost for _, record in complete)
    assert (result.interrupted, result.cost, len(result.records)) == (True, lowest, 0)
    best_sizes = [mask.sum() for mask, record in complete if record.cost == lowest]
    assert result.best_mask.sum() == min(best_sizes)
    counts = result.state.counts
    assert (counts.evaluations, counts.distinct, counts.fits) == (4, 4, 12)
    assert set(result.state.requests) == set(pack_masks(np.array([mask for mask, _ in complete])))
    assert set(result.state.requests.values()) == {pack_folds(np.ones(3, dtype=bool))}
    seconds = training_seconds(result.state.requests, evaluations)
    assert seconds == pytest.approx(sum(record.seconds for _, record in complete))


def test_ctrl_c_is_passed_on_unless_asked_otherwise_or_if_no_subset_is_whole() -> None:
    for search, salvage in (
        (plan(problem(Impatient(14))), False),
        (plan(problem(Impatient(2))), True),
        # Two single features, where a forward search starts, are below the size bounds.
        (plan(problem(Impatient(8), min_size=3), "sfs"), True),
    ):
        with pytest.raises(KeyboardInterrupt):
            run(search, Archive(), salvage=salvage)


def test_failed_subsets_are_not_salvaged() -> None:
    class Failing(GaussianNB):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            if "x1" in X.columns:
                raise ValueError("no x1")
            return super().fit(X, y)

    posed = problem(Impatient(9)).with_estimator(Failing(), importance="none")
    result = run(plan(posed), Archive(), salvage=True)
    assert "x1" not in result.features
    assert np.isfinite(result.cost)


# ---------------------------------------------------------------- its evaluations


def test_candidates_for_fresh_folds_are_the_best_what_they_share_and_the_best_of_sizes() -> None:
    masks = np.tri(6, dtype=bool)[::-1]
    costs = np.array([0.1, 0.11, 0.12, 0.3, 0.4, np.inf])
    state = SimpleNamespace(strategy=SimpleNamespace(members=SimpleNamespace(answer=None)))
    measured = Candidates.build(masks, costs)
    space = plain_space(6)
    evaluator = cast(Any, None)
    result: Any = SimpleNamespace(space=space, state=state, measured=measured, rivals=None)
    for goal, sizes in (("score", [6, 5]), ("balanced", [6, 5]), ("size", [6, 5, 2])):
        confirmation = ConfirmationPlan(problem(), n_best=2, goal=goal)  # type: ignore[arg-type]
        assert candidates(result, evaluator, confirmation).sum(axis=1).tolist() == sizes
    # The prefix that was measured on all folds takes the place of the second subset.
    fresh = np.array([[0.4, 0.3], [0.5, np.nan]])
    prefixes = Candidates.build(
        masks[[4, 3]], np.full(2, np.nan), fresh_fold_costs=fresh, origin=np.full(2, "ranking")
    )
    ranked: Any = SimpleNamespace(space=space, state=state, measured=measured, rivals=prefixes)
    masks_for_fresh_folds = candidates(ranked, evaluator, ConfirmationPlan(problem(), n_best=2))
    assert masks_for_fresh_folds.sum(axis=1).tolist() == [6]
    assert ranked_candidates(ranked).sizes.tolist() == [2]


def test_the_evaluations_of_a_search_are_its_own_whatever_the_archive_holds() -> None:
    """A search has the subsets that it requested, with the folds that it needed, in its order."""

    def evaluations(result: SearchResult, archive: Archive) -> list[tuple[bytes, bytes]]:
        pairs = requested_evaluations(result, archive.open_problem(problem()))
        return [(mask.tobytes(), record.fold_costs.tobytes()) for mask, record in pairs]

    options = {"budget": Budget(epochs=4), "evaluation": {"pruning": True}}
    shared = Archive()
    earlier_results = [run(plan(problem(), seed=seed, **options), shared) for seed in (1, 2, 3)]
    shared_result = run(plan(problem(), seed=4, **options), shared)
    private = Archive()
    private_result = run(plan(problem(), seed=4, **options), private)
    assert len(evaluations(private_result, private)) == private_result.state.counts.distinct
    assert evaluations(shared_result, shared) == evaluations(private_result, private)
    n_stored = len(list(shared.open_problem(problem()).all()))
    results = [*earlier_results, shared_result]
    assert n_stored > max(len(evaluations(result, shared)) for result in results)
