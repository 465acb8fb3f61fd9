"""The contract of strategies, as tests for a strategy of any package.

::

    class TestClimb(StrategyContract):
        strategy = Climb()
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.naive_bayes import GaussianNB

from swarm.arrays import AnyArray
from swarm.errors import EvaluationError, InputError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.scoring import Scoring
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import StopSearch
from swarm.search.history import EpochRecord
from swarm.search.search import Search
from swarm.search.state import SearchState
from swarm.selector import SubsetSelector
from swarm.strategies.base import Strategy
from swarm.strategies.catalogue import make
from swarm.strategies.random import RandomSearch
from swarm.testing.planted import (
    all_masks,
    arrays,
    constant,
    drive,
    everything,
    failed_evaluations_of,
    hints_for,
    make_driver,
    plain_space,
    planted,
    proposed,
    snapshot,
    spaces,
)

# Subclasses inherit the same tests, which share no state.
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.differing_executors]


class StrategyContract:
    """Contract tests of a strategy; a subclass named ``Test...`` sets `strategy`.

    Attributes
    ----------
    strategy : Strategy
    golden : Path, optional
        File of a recorded search, a regression test of the trajectory. Write it, or rewrite it
        after an intended change, with ``REFRESH_GOLDEN=1 python -m pytest -k golden``. Default:
        None, no regression test.
    is_baseline : bool
        Whether the strategy need neither find the optimum nor beat random search. Default: False.
    optimum_rank : int
        How many of the 4,095 subsets of twelve units may be better than its result. Default: 0.
    distinct : int
        Distinct evaluations after which it has to beat random search on 60 units. Default: 300.
    widest : int
        Largest number of units that the strategy supports, if fewer than 60.
    """

    strategy: Strategy
    golden: Path | None = None
    is_baseline: bool = False
    optimum_rank: int = 0
    distinct: int = 300
    widest: int = 60

    def _on_its_way(self, space: SearchSpace) -> SearchSpace:
        """Return the space of masks that it may propose."""
        if not self.strategy.crosses_size_bounds:
            return space
        return dataclasses.replace(space, min_size=1, max_size=space.n_units)

    @settings(deadline=None, max_examples=15, suppress_health_check=SUPPRESSED)
    @given(space=spaces(), seed=st.integers(0, 2**32), exact=st.booleans())
    def test_every_mask_obeys_every_constraint(
        self, space: SearchSpace, seed: int, exact: bool
    ) -> None:
        evaluator = planted(space, seed % 7)
        if not exact:
            evaluator.exact_shrink = False
            evaluator.unused_below = 0.005
        for step in drive(self.strategy, evaluator, seed=seed, epochs=4):
            masks = step.proposal.masks
            assert masks.dtype == bool
            assert masks.any(axis=1).all()
            assert self._on_its_way(space).obeys(masks).all()
            members = step.after.members
            evaluated = members.masks[np.isfinite(members.costs)]
            assert space.obeys(evaluated).all()

    def test_it_starts_with_the_hints_it_needs_and_no_others(self) -> None:
        strategy = self.strategy
        space = plain_space(9)
        hints = vars(hints_for(space))
        needed = Hints(**{hint: hints[hint] for hint in strategy.needs})
        strategy.start(space, needed, np.random.default_rng(0))
        for hint in strategy.needs:
            lacking = dataclasses.replace(needed, **{hint: None})
            with pytest.raises(InputError, match=hint):
                strategy.start(space, lacking, np.random.default_rng(0))

    def test_a_proposal_is_complete(self) -> None:
        for step in drive(self.strategy, planted(plain_space(9))):
            proposal = step.proposal
            members = step.after.members
            n = len(proposal.masks)
            assert n > 0
            assert proposal.masks.shape == (n, 9)
            assert proposal.incumbents.shape == proposal.owner.shape == (n,)
            assert len(proposal.role) == n
            assert all(proposal.role)
            assert not np.isnan(proposal.incumbents).any()
            assert -1 <= proposal.owner.min() <= proposal.owner.max() < len(members.masks)
            assert members.masks.shape[1] == 9
            assert members.costs.shape == members.group.shape == (len(members.masks),)

    def test_no_input_and_no_earlier_state_is_ever_changed(self) -> None:
        space = plain_space(8, fixed=["x1"], forbidden=["x2"])
        warm = space.repair(np.eye(8, dtype=bool)[:2], np.random.default_rng(0))
        hints = hints_for(space, warm=warm)
        evaluator = planted(space)
        strategy = self.strategy
        hints_before = snapshot(hints)
        state = strategy.start(space, hints, np.random.default_rng(0))
        snapshots = []
        for epoch in range(5):
            moved, proposal = strategy.propose(state, np.random.default_rng(epoch))
            evaluations = evaluator.evaluate(proposal.masks, proposal.incumbents, np.arange(3))
            inputs = (state, moved, proposal, evaluations)
            snapshots += [(data, snapshot(data)) for data in inputs]
            state = strategy.observe(moved, proposal, evaluations)
        assert snapshot(hints) == hints_before
        assert all(snapshot(data) == before for data, before in snapshots)

    def test_states_are_frozen_dataclasses_of_read_only_arrays(self) -> None:
        for step in drive(self.strategy, planted(plain_space(8)), epochs=3):
            states: tuple[Any, ...] = (step.before, step.moved, step.after)
            for state in states:
                assert dataclasses.is_dataclass(type(state))
                with pytest.raises(dataclasses.FrozenInstanceError):
                    state.space = None
                writeable = [p for p, a in arrays(state).items() if a.flags.writeable and a.size]
                assert not writeable
            assert not any(a.flags.writeable for a in arrays(step.proposal).values())

    def test_observing_does_not_depend_on_anything_but_its_arguments(self) -> None:
        strategy = self.strategy
        for step in drive(self.strategy, planted(plain_space(8)), epochs=4):
            repeated = strategy.observe(step.moved, step.proposal, step.evaluations)
            assert snapshot(repeated) == snapshot(step.after)

    def test_the_same_seed_gives_the_same_run(self) -> None:
        first, second = (
            make_driver(self.strategy, planted(plain_space(12)), seed=3, epochs=8).run()
            for _ in range(2)
        )
        assert first.history.to_csv() == second.history.to_csv()
        for record, repeated in zip(first.records, second.records, strict=True):
            assert record.particles.to_csv() == repeated.particles.to_csv()

    def test_importances_that_it_does_not_declare_change_nothing(self) -> None:
        evaluator = dataclasses.replace(planted(plain_space(12)), exact_shrink=False)
        silent = dataclasses.replace(evaluator, importances=False, unused_below=-1.0, records={})
        runs = [
            everything(make_driver(self.strategy, e, epochs=8).run()) for e in (evaluator, silent)
        ]
        assert runs[0] == runs[1] or self.strategy.uses_importances

    def test_different_seeds_give_different_runs_unless_it_is_deterministic(self) -> None:
        runs = [drive(self.strategy, planted(plain_space(12)), seed=seed) for seed in range(4)]
        n_runs = len({tuple(proposed(steps)) for steps in runs})
        assert n_runs == (1 if self.strategy.is_deterministic else 4)

    def test_it_terminates_by_itself_if_declared(self) -> None:
        ends = self.strategy.ends_by_itself
        steps = drive(self.strategy, planted(plain_space(6)), epochs=1000 if ends else 50)
        assert self.strategy.finished(steps[-1].after) == ends

    @settings(deadline=None, max_examples=10, suppress_health_check=SUPPRESSED)
    @given(space=spaces(6))
    def test_evaluations_and_epochs_are_within_the_declared_bounds(
        self, space: SearchSpace
    ) -> None:
        epochs = 1000 if self.strategy.ends_by_itself else 5
        steps = drive(self.strategy, planted(space), epochs=epochs)
        count = sum(len(step.proposal.masks) for step in steps)
        least, most = self.strategy.evaluations_in(space)
        assert least <= count or not self.strategy.ends_by_itself
        assert most is None or count <= most
        assert self.strategy.epochs_in(space) in (None, len(steps))

    def test_the_result_has_the_requested_size(self) -> None:
        parameter = self.strategy.size_parameter
        if parameter is None:
            assert not self.strategy.crosses_size_bounds, "set size_parameter"
            assert not self.strategy.takes_size_rules
            return
        evaluator = dataclasses.replace(planted(plain_space(8)), exact_shrink=False)
        sized = make(self.strategy, {parameter: 2})
        assert make_driver(sized, evaluator, epochs=50).run().best_mask.sum() == 2

    def test_a_selector_takes_it_and_its_clone_finds_the_same(self) -> None:
        table, target = _small_table()
        selector = SubsetSelector(GaussianNB(), strategy=self.strategy, cv=2, budget=2)
        copy = clone(selector).fit(table, target)
        assert copy.strategy == self.strategy
        assert copy.results_.equals(selector.fit(table, target).results_)

    def test_only_the_generator_handed_in_is_used(self) -> None:
        runs = []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            before = str(np.random.get_state(legacy=True))  # noqa: NPY002
            runs.append(proposed(drive(self.strategy, planted(plain_space(10)), epochs=12)))
            after = str(np.random.get_state(legacy=True))  # noqa: NPY002
            assert before == after
        assert runs[0] == runs[1]

    def test_a_replay_from_the_archive_is_the_same_run_without_a_fit(self) -> None:
        first = planted(plain_space(12))
        whole = make_driver(self.strategy, first, epochs=8).run()
        second = dataclasses.replace(planted(plain_space(12)), records=first.records)
        replay = make_driver(self.strategy, second, epochs=8).run()
        assert second.fits == 0
        assert first.fits > 0
        assert replay.history.to_csv() == whole.history.to_csv()
        assert np.array_equal(replay.best_mask, whole.best_mask)

    def test_pruning_never_changes_what_is_proposed(self) -> None:
        pruned = planted(plain_space(15))
        plain = planted(plain_space(15))
        plain.pruning = False
        pruned_steps = drive(self.strategy, pruned, epochs=15)
        plain_steps = drive(self.strategy, plain, epochs=15)
        assert proposed(pruned_steps) == proposed(plain_steps)
        for pruned_step, plain_step in zip(pruned_steps, plain_steps, strict=True):
            assert snapshot(pruned_step.after.members) == snapshot(plain_step.after.members)
        assert pruned.fits <= plain.fits

    @pytest.mark.parametrize("exact", [True, False])
    def test_costs_of_members_belong_to_their_masks_and_never_rise(self, exact: bool) -> None:
        evaluator = planted(plain_space(14), 1)
        if not exact:
            evaluator.exact_shrink = False
            evaluator.unused_below = 0.008
        best = np.inf
        for step in drive(self.strategy, evaluator, epochs=20):
            members = step.after.members
            for mask, cost in zip(members.masks, members.costs, strict=True):
                assert cost == np.inf or cost == evaluator.cost(mask)
            assert members.costs.min() <= best
            best = members.costs.min()

    def test_the_best_cost_of_a_search_never_worsens(self) -> None:
        space = plain_space(min(20, self.widest))
        result = make_driver(self.strategy, planted(space), epochs=20).run()
        costs = result.history["best_cost"].to_numpy()
        assert (np.diff(costs) <= 0).all()
        assert costs[-1] == result.cost

    @pytest.mark.parametrize("n_units", [1, 2])
    def test_one_and_two_units_are_enough(self, n_units: int) -> None:
        evaluator = planted(plain_space(n_units))
        result = make_driver(self.strategy, evaluator, epochs=8).run()
        assert result.cost == evaluator.cost(result.best_mask)
        if not self.is_baseline or n_units == 1:
            assert result.cost == min(map(evaluator.cost, all_masks(evaluator.space)))

    def test_a_space_of_a_single_mask_is_searched(self) -> None:
        space = plain_space(4, fixed=["x0", "x2"], max_size=2)
        result = make_driver(self.strategy, planted(space), epochs=4).run()
        assert result.features == ["x0", "x2"]

    def test_a_constant_cost_is_searched(self) -> None:
        result = make_driver(self.strategy, constant(plain_space(7)), epochs=8).run()
        assert result.cost == 0.5
        assert result.history["best_size"].is_monotonic_decreasing

    def test_a_strategy_survives_costs_that_are_all_infinite(self) -> None:
        space = plain_space(6)
        strategy = self.strategy
        state = strategy.start(space, hints_for(space), np.random.default_rng(0))
        for epoch in range(6):
            state, proposal = strategy.propose(state, np.random.default_rng(epoch))
            assert space.obeys(proposal.masks).all()
            state = strategy.observe(state, proposal, failed_evaluations_of(proposal))
            assert np.isinf(state.members.costs).all()
            if strategy.finished(state):
                break

    def test_a_cost_that_is_nan_stops_the_search_and_names_the_subset(self) -> None:
        evaluator = dataclasses.replace(planted(plain_space(6)), undefined=lambda mask: True)
        with pytest.raises(EvaluationError, match=r"cost of the subset .*x\d.* is NaN"):
            make_driver(self.strategy, evaluator, epochs=3).run()

    def test_one_worker_and_two_give_the_same_run(self) -> None:
        # Workers prune only if the score is bounded.
        scoring = Scoring("share", share_of_hits, upper=1.0)
        problem = Problem.build(*_small_table(), NearestMean(), scoring=scoring, folds=2)
        runs = []
        for n_jobs in (1, 2):
            with CrossValidation(
                problem, n_jobs=n_jobs, backend="threading", exact=False
            ) as evaluator:
                hints = hints_for(problem.space)
                budget = Budget(epochs=2)
                search = Search(problem, self.strategy, hints=hints, seed=2, budget=budget)
                runs.append(everything(search.driver(evaluator).run()))
        assert runs[0] == runs[1]

    def test_warm_start_masks_are_proposed_first_or_change_nothing(self) -> None:
        space = plain_space(min(20, self.widest))
        warm = np.random.default_rng(8).random((3, space.n_units)) < 0.3
        steps = drive(self.strategy, planted(space), warm=warm)
        if self.strategy.takes_warm_start:
            masks = np.vstack([step.proposal.masks for step in steps])
            assert np.array_equal(masks[:3], warm)
        else:
            assert proposed(steps) == proposed(drive(self.strategy, planted(space)))

    def test_warm_start_masks_are_repaired_and_may_be_many_or_none(self) -> None:
        space = plain_space(10, fixed=["x0"], forbidden=["x1"], max_size=4)
        for n in (0, 1, 500):
            warm = np.random.default_rng(8).random((n, 10)) < 0.8
            for step in drive(self.strategy, planted(space), epochs=3, warm=warm):
                assert self._on_its_way(space).obeys(step.proposal.masks).all()

    def test_the_optimum_of_twelve_units_is_found(self) -> None:
        if self.is_baseline:
            pytest.skip("a baseline need not find the optimum")
        for seed in range(2):
            goal = _costs_of_twelve_units(seed)[self.optimum_rank]

            def stop_if_found(record: EpochRecord, state: SearchState, goal: float = goal) -> None:
                if state.best_cost <= goal:
                    raise StopSearch

            evaluator = planted(plain_space(12), seed)
            driver = make_driver(self.strategy, evaluator, seed=seed, epochs=200, patience=80)
            assert driver.run(on_epoch=stop_if_found).cost <= goal

    def test_it_beats_random_search_at_equal_distinct_evaluations(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        if self.is_baseline:
            pytest.skip("a baseline need not beat random search")
        if self.widest < 60:
            pytest.skip(f"the strategy supports at most {self.widest} units, not 60")
        lines = []
        gaps = []
        for seed in range(4):
            evaluator = planted(plain_space(60), seed, helpful=15)
            optimum = evaluator.cost(evaluator.weights.mean(axis=0) < 0)
            excess = _after(self.distinct, self.strategy, seed) - optimum
            random_excess = _random_after(self.distinct, seed) - optimum
            gaps.append(random_excess - excess)
            lines.append(
                f"  seed {seed}: {excess:.4f} above the optimum, random {random_excess:.4f}"
            )
        with capsys.disabled():
            print(
                f"\n{self.strategy} against random search, 60 units, {self.distinct} evaluations:",
                *lines,
                sep="\n",
            )
        assert np.mean(gaps) > 0
        assert np.sum(np.array(gaps) > 0) >= 3

    def test_the_golden_result_is_reproduced(self) -> None:
        if self.golden is None:
            pytest.skip("golden is not set")
        space = plain_space(min(24, self.widest))
        result = make_driver(self.strategy, planted(space, 5), seed=11, epochs=15).run()
        digest = hashlib.sha256()
        for record in result.records:
            digest.update("\n".join(record.particles["mask"]).encode())
        summary = {
            "parameters": dataclasses.asdict(self.strategy),  # type: ignore[call-overload]
            "best": "".join("01"[int(bit)] for bit in result.best_mask),
            "cost": round(result.cost, 12),
            "evaluations": result.state.counts.evaluations,
            "distinct": result.state.counts.distinct,
            "fits": result.state.counts.fits,
            "masks_sha256": digest.hexdigest(),
        }
        if os.environ.get("REFRESH_GOLDEN"):
            self.golden.write_text(json.dumps(summary, indent=2) + "\n")
        if not self.golden.exists():
            pytest.fail(f"{self.golden} does not exist; write it with REFRESH_GOLDEN=1")
        recorded = json.loads(self.golden.read_text())
        # A parameter that was added later has its default, with which the search is the same.
        for parameter in summary["parameters"].keys() - recorded["parameters"].keys():
            assert summary["parameters"].pop(parameter) == getattr(type(self.strategy), parameter)
        assert recorded == summary


class NearestMean(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict the class with the nearest mean, in less time than scikit-learn validates tables."""

    def fit(self, features: Any, target: Any) -> NearestMean:
        """Store the mean of each class."""
        self.classes_ = np.unique(target)
        rows = np.asarray(features)
        self.means_ = np.array([rows[target == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, features: Any) -> AnyArray:
        """Return the class of the nearest mean of each row."""
        differences = np.asarray(features)[:, None] - self.means_
        return self.classes_[(differences**2).sum(axis=2).argmin(axis=1)]


def share_of_hits(model: NearestMean, features: Any, target: Any) -> float:
    """Accuracy as a scorer."""
    return float(np.mean(model.predict(features) == target))


def _small_table() -> tuple[pd.DataFrame, AnyArray]:
    """Return features (24, 5) and two classes that two of them separate, not perfectly."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(24, 5)), columns=[f"x{i}" for i in range(5)])
    target = (table["x1"] + table["x4"] + rng.normal(0, 0.5, 24) > 0).astype(int)
    return table, target.to_numpy()


@lru_cache
def _costs_of_twelve_units(seed: int) -> tuple[float, ...]:
    """Return the costs of all subsets of the planted problem of twelve units, best first."""
    evaluator = planted(plain_space(12), seed)
    return tuple(sorted(map(evaluator.cost, all_masks(evaluator.space))))


@lru_cache
def _random_after(distinct: int, seed: int) -> float:
    return _after(distinct, RandomSearch(), seed, is_random=True)


def _after(distinct: int, strategy: Strategy, seed: int, is_random: bool = False) -> float:
    """Best cost after `distinct` evaluations of the planted problem of 60 units."""
    evaluator = planted(plain_space(60), seed, helpful=15)
    result = make_driver(strategy, evaluator, seed=seed, distinct=distinct, epochs=400).run()
    # A strategy may finish earlier, and then has to win with fewer evaluations.
    assert result.state.counts.distinct <= distinct
    assert not is_random or result.state.counts.distinct == distinct
    return result.cost
