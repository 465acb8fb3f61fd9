"""Claims on the driver: budgets, ends, failures, replay."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from swarm.errors import ConfigError, EvaluationError, InputError
from swarm.evaluation.types import Evaluations
from swarm.search.budget import Budget, Counts
from swarm.search.driver import run
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catalogue import make, registry
from swarm.strategies.full import FullSet
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.random import RandomSearch
from swarm.testing.planted import Planted, constant, everything, make_search, plain_space, planted
from tests.fakes import failing

# The full set is no search, and exhaustive search refuses spaces as wide as those here.
NAMES = sorted(set(registry()) - {"full", "exhaustive"})
# They end by themselves, at the last size.
ENDING = {"sfs", "sbs", "sffs", "sbfs", "rfe"}


# Budgets


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", ["evaluations", "distinct"])
@pytest.mark.parametrize("value", [1, 15, 16, 17, 61])
def test_evaluations_and_distinct_evaluations_are_kept_exactly(
    name: str, limit: str, value: int
) -> None:
    result = run(make_search(make(name), planted(plain_space(30)), budget=Budget(**{limit: value})))
    spent = getattr(result.state.counts, limit)
    # Elimination by importance is over after a mask for each of its sizes.
    if name == "rfe" and value == 61:
        assert (spent, result.reason) == (24, "finished")
        return
    assert (spent, result.reason) == (value, limit)


def test_no_more_is_evaluated_than_the_budget_pays_for() -> None:
    class Counting(Planted):
        def evaluate(
            self, masks: Any, incumbents: Any, fold_order: Any, race: Any = None
        ) -> Evaluations:
            asked.append(len(masks))
            return super().evaluate(masks, incumbents, fold_order, race)

    asked: list[int] = []
    plain = planted(plain_space(30))
    evaluator = Counting(plain.space, plain.weights, plain.base)
    result = run(make_search(MultiSwarm(), evaluator, evaluations=40))
    assert asked == [16, 16, 8]
    assert result.records[-1].particles["cost"].iloc[8:].isna().all()


def test_repeated_masks_count_as_evaluations_and_not_as_distinct() -> None:
    result = run(make_search(MultiSwarm(), constant(plain_space(2)), epochs=10))
    assert result.state.counts.evaluations == 160
    assert result.state.counts.distinct <= 3
    assert result.state.counts.fits <= 9


def test_epochs_and_fits_end_a_search() -> None:
    assert len(run(make_search(BinaryPso(), planted(plain_space(9)), epochs=7)).records) == 7
    result = run(make_search(BinaryPso(), planted(plain_space(30)), fits=200))
    assert result.reason == "fits"
    fits = result.history["fits"].to_list()
    assert fits[-1] >= 200 > fits[-2]


def test_seconds_end_a_search() -> None:
    result = run(make_search(RandomSearch(), planted(plain_space(9)), seconds=0.05))
    assert result.reason == "seconds"
    assert len(result.records) >= 1


def test_one_epoch_runs_however_few_the_seconds() -> None:
    result = run(make_search(RandomSearch(), planted(plain_space(9)), seconds=1e-9))
    assert result.reason == "seconds"
    assert len(result.records) == 1


def test_patience_counts_epochs_without_a_lower_cost() -> None:
    result = run(make_search(BinaryPso(), planted(plain_space(12)), patience=6))
    costs = result.history["best_cost"].to_list()
    assert result.reason == "patience"
    assert costs[-7] == costs[-1]
    assert costs[-8] > costs[-1]


def test_patience_ends_a_search_of_a_constant_cost() -> None:
    result = run(make_search(MultiSwarm(), constant(plain_space(12)), patience=4))
    assert len(result.records) == 5


def test_a_strategy_that_is_finished_ends_the_search() -> None:
    result = run(make_search(FullSet(), planted(plain_space(5)), epochs=50))
    assert result.reason == "finished"
    assert len(result.records) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", ["distinct", "fits"])
def test_a_budget_above_what_the_space_holds_still_ends(name: str, limit: str) -> None:
    result = run(make_search(make(name), planted(plain_space(3)), budget=Budget(**{limit: 1000})))
    assert result.reason == ("finished" if name in ENDING else "exhausted")
    assert result.state.counts.distinct <= 7


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "the budget has no limit"),
        ({"epochs": 0}, "budget epochs must be >= 1, got 0"),
        ({"distinct": 2.5}, "budget distinct must be a whole number, got 2.5"),
        ({"seconds": 0}, "budget seconds must be > 0, got 0"),
        ({"patience": True}, "budget patience must be a number, got True"),
    ],
)
def test_impossible_budgets_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="budget") as caught:
        Budget(**limits)
    assert words in str(caught.value)


def test_the_first_limit_reached_is_named() -> None:
    budget = Budget(epochs=3, evaluations=100)
    assert budget.reached(2, Counts(evaluations=99), 0.0, 0) is None
    assert budget.reached(2, Counts(evaluations=100), 0.0, 0) == "evaluations"
    assert budget.reached(3, Counts(evaluations=100), 0.0, 0) == "epochs"


# The answer


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_best_mask_seen_and_its_measured_cost(name: str) -> None:
    evaluator = planted(plain_space(14))
    result = run(make_search(make(name), evaluator, epochs=15))
    complete = [record.cost for record in evaluator.known.values() if record.complete]
    assert result.cost == min(complete) == evaluator.cost(result.best_mask)
    assert result.features == evaluator.space.subset(result.best_mask)
    assert not result.best_mask.flags.writeable


@pytest.mark.parametrize("name", NAMES)
def test_best_members_are_different_and_sorted_and_begin_with_the_answer(name: str) -> None:
    evaluator = planted(plain_space(10))
    result = run(make_search(make(name), evaluator, epochs=15))
    masks, costs = result.best_members()
    assert len(np.unique(masks, axis=0)) == len(masks) == len(costs)
    assert (np.diff(costs) >= 0).all()
    assert costs.tolist() == [evaluator.cost(mask) for mask in masks]
    assert np.array_equal(masks[0], result.best_mask)
    few, _ = result.best_members(2)
    assert np.array_equal(few, masks[:2])


def test_members_that_were_never_measured_are_not_among_the_best() -> None:
    result = run(make_search(MultiSwarm(), planted(plain_space(12)), evaluations=5))
    masks, costs = result.best_members()
    assert len(masks) <= 5
    assert np.isfinite(costs).all()


def test_equal_cost_and_fewer_units_is_a_better_answer() -> None:
    evaluator = constant(plain_space(6))
    evaluator.exact_shrink = False
    result = run(make_search(RandomSearch(), evaluator, epochs=20))
    assert result.best_mask.sum() == 1
    assert result.history["best_size"].is_monotonic_decreasing


# What a sequential search answers is the best set of its size, used or not.
@pytest.mark.parametrize("name", sorted(set(NAMES) - ENDING | {"rfe"}))
def test_the_answer_has_no_unit_that_no_model_used(name: str) -> None:
    evaluator = planted(plain_space(12, fixed=["x0"]))
    evaluator.weights[:, :6] = 0.0
    result = run(make_search(make(name), evaluator, epochs=10))
    assert result.best_mask[0]
    assert not result.best_mask[1:6].any()
    assert result.cost == evaluator.cost(result.best_mask)


def test_of_equal_costs_in_one_batch_the_smallest_mask_is_the_answer() -> None:
    evaluator = constant(plain_space(12))
    evaluator.exact_shrink = False
    result = run(make_search(RandomSearch(), evaluator, epochs=1))
    sizes = result.records[0].particles["size"]
    assert sizes.iloc[0] > sizes.min() == result.best_mask.sum()


def test_the_history_says_what_was_asked_for_and_what_it_saved() -> None:
    evaluator = planted(plain_space(30))
    result = run(make_search(MultiSwarm(), evaluator, epochs=12))
    history = result.history
    assert history["epoch"].to_list() == list(range(1, 13))
    assert history["fits"].iloc[-1] == evaluator.fits == result.work["fits"].sum()
    assert history["distinct_evaluations"].iloc[-1] == len(evaluator.known)
    assert history["folds_pruned"].sum() > 0
    assert {f"swarm_{i}_best_cost" for i in range(4)} <= set(history.columns)
    assert (
        history[[f"swarm_{i}_best_cost" for i in range(4)]].min(axis=1) == history["best_cost"]
    ).all()
    particles = result.records[-1].particles
    assert (particles["size"] == particles["mask"].str.count("1")).all()


def test_folds_that_the_budget_did_not_pay_for_are_not_called_pruned() -> None:
    result = run(make_search(MultiSwarm(), planted(plain_space(30)), evaluations=5))
    assert result.history["folds_pruned"].to_list() == [0.0]


# Callbacks and Ctrl-C


def test_callbacks_see_every_epoch_once_and_in_order() -> None:
    seen: list[tuple[str, int, int]] = []
    run(
        make_search(BinaryPso(), planted(plain_space(9)), epochs=4),
        callbacks=[
            lambda record, state: seen.append(("a", record.epoch, state.epoch)),
            lambda record, state: seen.append(("b", record.epoch, state.epoch)),
        ],
    )
    assert seen == [(who, epoch, epoch) for epoch in range(1, 5) for who in "ab"]


def test_ctrl_c_within_an_epoch_ends_in_the_result_of_the_epochs_before() -> None:
    whole = run(make_search(MultiSwarm(), planted(plain_space(20)), epochs=3))
    fits = int(whole.state.counts.fits)
    evaluator = dataclasses.replace(planted(plain_space(20)), interrupt_after=fits + 5)
    result = run(make_search(MultiSwarm(), evaluator, epochs=50))
    assert result.interrupted
    assert everything(dataclasses.replace(result, reason="epochs")) == everything(whole)
    assert evaluator.fits == fits + 5


def test_ctrl_c_in_a_callback_keeps_the_epoch_it_was_called_for() -> None:
    def stop(record: Any, state: Any) -> None:
        if record.epoch == 3:
            raise KeyboardInterrupt

    result = run(make_search(BinaryPso(), planted(plain_space(9)), epochs=9), callbacks=[stop])
    assert result.interrupted
    assert result.state.epoch == len(result.records) == 3


def test_ctrl_c_before_there_is_anything_is_passed_on() -> None:
    evaluator = dataclasses.replace(planted(plain_space(9)), interrupt_after=4)
    with pytest.raises(KeyboardInterrupt):
        run(make_search(BinaryPso(), evaluator, epochs=9))


# Failures


class Raw:
    """An evaluator that says of every mask what it is told to, and checks nothing."""

    n_folds = 3

    def __init__(self, cost: float) -> None:
        self.cost = cost

    def evaluate(
        self, masks: Any, incumbents: Any, fold_order: Any, race: Any = None
    ) -> Evaluations:
        inner = constant(plain_space(masks.shape[1])).evaluate(masks, incumbents, fold_order)
        return dataclasses.replace(inner, costs=np.full(len(masks), self.cost))


def raw(cost: float, **limits: Any) -> Any:
    search = make_search(BinaryPso(), constant(plain_space(4)), **limits)
    return dataclasses.replace(search, evaluator=Raw(cost))


def test_costs_that_are_all_infinite_leave_no_answer_and_say_so() -> None:
    result = run(raw(np.inf, epochs=3))
    assert result.history["best_cost"].to_list() == [np.inf] * 3
    for ask in (lambda: result.features, result.best_members):
        with pytest.raises(EvaluationError, match="no subset has a finite cost after 3 epochs"):
            ask()


def test_a_nan_cost_is_an_error_that_names_the_subset() -> None:
    with pytest.raises(EvaluationError, match=r"cost of the subset .*x\d.* is NaN"):
        run(raw(np.nan, epochs=3))
    evaluator = dataclasses.replace(
        planted(plain_space(5)), undefined=lambda mask: mask.tolist() == [True] * 5
    )
    with pytest.raises(EvaluationError, match=r"subset \(x0, x1, x2, x3, x4\) is NaN on fold 2"):
        run(make_search(FullSet(), evaluator, epochs=1))


def test_a_few_failed_fits_are_counted_and_survived() -> None:
    evaluator = failing(0.04)
    result = run(make_search(BinaryPso(), evaluator, epochs=15))
    failed = result.history["failed_evaluations"]
    assert 0 < failed.iloc[-1] == sum(record.particles["failed"].sum() for record in result.records)
    assert failed.iloc[-1] > failed.iloc[0]
    assert result.cost == evaluator.cost(result.best_mask)


def test_more_than_a_tenth_failing_stops_with_the_first_traceback() -> None:
    evaluator = failing(0.5)
    with pytest.raises(EvaluationError, match="more than a tenth") as caught:
        run(make_search(BinaryPso(), evaluator, epochs=15))
    assert "ValueError: cannot fit" in str(caught.value)
    assert any("Traceback (planted)" in note for note in caught.value.__notes__)


def test_the_traceback_named_is_the_first_of_the_search_and_not_of_the_last_epoch() -> None:
    asked: list[str] = []
    evaluator = planted(plain_space(25))

    def fails(mask: np.ndarray) -> bool:
        bits = "".join("01"[int(bit)] for bit in mask)
        asked.append(bits)
        return len(asked) == 3 or len(asked) > 60

    evaluator.fails, evaluator.pruning = fails, False
    with pytest.raises(EvaluationError) as caught:
        run(make_search(BinaryPso(), evaluator, epochs=15))
    assert len(asked) > 60
    assert asked[2] in str(caught.value)


def test_exactly_a_tenth_failing_is_survived() -> None:
    failed: list[bytes] = []

    def fails(mask: np.ndarray) -> bool:
        failed.append(mask.tobytes())
        return len(failed) <= 3

    evaluator = dataclasses.replace(planted(plain_space(40)), fails=fails)
    result = run(make_search(BinaryPso(), evaluator, epochs=1))
    assert (result.state.counts.failed, result.state.counts.evaluations) == (3, 30)


def test_one_more_than_a_tenth_failing_stops_the_search() -> None:
    seen: list[bytes] = []

    def fails(mask: np.ndarray) -> bool:
        seen.append(mask.tobytes())
        return len(seen) <= 4

    evaluator = dataclasses.replace(planted(plain_space(40)), fails=fails)
    with pytest.raises(EvaluationError, match="4 of 30 evaluations failed, more than a tenth"):
        run(make_search(BinaryPso(), evaluator, epochs=1))


def test_a_search_without_new_masks_for_a_hundred_epochs_is_exhausted() -> None:
    """Two units have three masks; after the last new one exactly a hundred epochs are waited."""
    search = make_search(RandomSearch(), constant(plain_space(2)), distinct=50)
    result = run(search)
    assert result.reason == "exhausted"
    distinct = result.history["distinct_evaluations"].to_numpy()
    last_new = int(np.flatnonzero(np.diff(distinct, prepend=0.0) > 0)[-1]) + 1
    assert result.state.epoch == last_new + 100


# The registry


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("multiswam", {}, ["'multiswam'", "did you mean 'multiswarm'"]),
        ("bpso", {"n_particle": 3}, ["'n_particle'", "'bpso'", "did you mean 'n_particles'"]),
        ("bpso", {"c1": -1}, ["'bpso'", "c1 must be >= 0, got -1"]),
    ],
)
def test_unknown_strategies_and_parameters_are_named_with_the_nearest_known(
    name: str, params: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(name, params)
    assert all(word in str(caught.value) for word in words)


def test_warm_start_masks_of_another_space_are_refused_in_one_sentence() -> None:
    warm = np.ones((1, 7), dtype=bool)
    search = make_search(make("random"), planted(plain_space(3)), warm=warm, epochs=1)
    with pytest.raises(InputError, match=r"shape \(1, 7\) but there are 3 units"):
        search.start()
