"""Tests of the driver: its budgets, the ends of a search, and failures."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import EvaluationError, InputError
from swarm.evaluation.types import Evaluations
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget, Counts
from swarm.search.candidates import Candidates
from swarm.search.driver import Driver
from swarm.search.history import record_epoch
from swarm.search.packing import pack_folds, pack_masks, unpack_masks
from swarm.strategies.base import Members, Proposal
from swarm.strategies.bpso import BinaryPso
from swarm.strategies.catalogue import make
from swarm.strategies.full import FullSet
from swarm.strategies.multiswarm import MultiSwarm
from swarm.strategies.random import RandomSearch
from swarm.testing.planted import Planted, constant, everything, make_driver, plain_space, planted

# These cover swarms, colonies, steps in size, and paths of one proposal an epoch.
STRATEGIES = ["bpso", "memetic", "mlaco", "multiswarm", "rfe", "sfs"]
# These end by themselves, at the last size.
ENDING = {"sfs", "sbs", "sffs", "sbfs", "rfe", "ranked"}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("limit", "value"), [("evaluations", 1), ("distinct", 23)])
def test_evaluations_and_distinct_evaluations_are_kept_exactly(
    name: str, limit: str, value: int
) -> None:
    budget = Budget(**{limit: value})
    result = make_driver(make(name), planted(plain_space(30)), budget=budget).run()
    assert (getattr(result.state.counts, limit), result.reason) == (value, limit)


@dataclasses.dataclass
class Watched(Planted):
    """Note the number of masks, the order of the folds and the answers of every batch."""

    batches: list[Any] = dataclasses.field(default_factory=list)

    def evaluate(self, masks: Any, incumbents: Any, fold_order: Any) -> Evaluations:
        answers = super().evaluate(masks, incumbents, fold_order)
        self.batches.append((len(masks), fold_order.tolist(), answers))
        return answers


def watched(n_units: int) -> Watched:
    evaluator = planted(plain_space(n_units))
    return Watched(evaluator.space, evaluator.weights, evaluator.base)


def test_no_more_is_evaluated_than_the_budget_pays_for() -> None:
    evaluator = watched(30)
    result = make_driver(MultiSwarm(), evaluator, evaluations=40).run()
    assert [n for n, *_ in evaluator.batches] == [16, 16, 8]
    unpaid = result.records[-1].particles.iloc[8:]
    assert unpaid["cost"].isna().all()
    assert not unpaid["failed"].any()
    short_search = make_driver(MultiSwarm(), planted(plain_space(30)), evaluations=5).run(
        step=Driver.step
    )
    assert short_search.history["folds_pruned"].to_list() == [0.0]
    members = short_search.best_members()
    assert len(members) <= 5
    assert np.isfinite(members.costs).all()


def test_the_folds_that_cost_most_so_far_are_trained_first() -> None:
    evaluator = watched(12)
    evaluator.base[:] = evaluator.base[0] + np.array([0.0, 0.2, 0.1])
    result = make_driver(MultiSwarm(), evaluator, epochs=3).run()
    assert [order for _, order, _ in evaluator.batches] == [[0, 1, 2], [1, 2, 0], [1, 2, 0]]
    # The sums are those of masks that reached their incumbents, so they do not depend on pruning.
    fold_sums = [np.nansum(answers.fold_costs, axis=0) for *_, answers in evaluator.batches]
    assert result.state.fold_sums == pytest.approx(np.sum(fold_sums, axis=0))


def test_tables_of_candidates_cannot_be_changed() -> None:
    table = Candidates.build(np.eye(3, dtype=bool), np.zeros(3))
    assert not any(column.flags.writeable for column in vars(table).values())


def test_each_limit_ends_a_search_and_a_finished_strategy_does() -> None:
    def end_of(strategy: Any, n_units: int, **limits: Any) -> tuple[str, int]:
        result = make_driver(strategy, planted(plain_space(n_units)), **limits).run()
        return result.reason, len(result.records)

    assert end_of(BinaryPso(), 9, epochs=7) == ("epochs", 7)
    # At least one epoch runs, however few the seconds.
    assert end_of(RandomSearch(), 9, seconds=1e-9) == ("seconds", 1)
    assert end_of(RandomSearch(), 9, seconds=600, epochs=3) == ("epochs", 3)
    assert end_of(FullSet(), 5, epochs=50) == ("finished", 1)
    result = make_driver(BinaryPso(), planted(plain_space(30)), fits=200).run()
    assert result.reason == "fits"
    fits = result.history["fits"].to_list()
    assert fits[-1] >= 200 > fits[-2]


def test_patience_counts_epochs_without_a_lower_cost() -> None:
    result = make_driver(BinaryPso(), planted(plain_space(12)), patience=6).run()
    costs = result.history["best_cost"].to_list()
    assert result.reason == "patience"
    assert costs[-7] == costs[-1]
    assert costs[-8] > costs[-1]
    constant_search = make_driver(MultiSwarm(), constant(plain_space(12)), patience=4).run()
    assert (constant_search.reason, len(constant_search.records)) == ("patience", 5)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_budget_above_what_the_space_holds_still_ends(name: str) -> None:
    result = make_driver(make(name), planted(plain_space(3)), budget=Budget(fits=1000)).run()
    assert result.reason == ("finished" if name in ENDING else "exhausted")
    assert result.state.counts.distinct <= 7


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({}, "budget"),
        ({"epochs": 0}, "budget epochs"),
        ({"fits": 10**9 + 1}, "budget fits"),
        ({"distinct": 2.5}, "budget distinct"),
        ({"seconds": 0}, "budget seconds"),
        ({"patience": True}, "budget patience"),
    ],
)
def test_impossible_budgets_are_refused(limits: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Budget(**limits)


def test_each_limit_is_reached_at_its_value_and_the_first_is_named() -> None:
    counts = Counts(evaluations=5, distinct=5, fits=5, stalled=5)
    for name in ("epochs", "evaluations", "distinct", "fits", "seconds", "patience"):
        assert Budget(**{name: 6}).reached_limit(5, counts, 5.0) is None
        assert Budget(**{name: 5}).reached_limit(5, counts, 5.0) == name
    assert Budget(evaluations=5, epochs=5).reached_limit(5, counts, 5.0) == "epochs"
    assert Budget(fits=10**9).reached_limit(5, counts, 5.0) is None


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_answer_is_the_best_mask_seen_and_the_first_of_the_best_members(name: str) -> None:
    evaluator = planted(plain_space(10))
    result = make_driver(make(name), evaluator, epochs=15).run()
    complete = [record.cost for record in evaluator.records.values() if record.complete]
    assert result.cost == min(complete) == evaluator.cost(result.best_mask)
    assert result.features == evaluator.space.subset(result.best_mask)
    assert not result.best_mask.flags.writeable
    members = result.best_members()
    masks = members.masks
    costs = members.costs
    assert len(np.unique(masks, axis=0)) == len(masks) == len(costs)
    assert (np.diff(costs) >= 0).all()
    assert costs.tolist() == [evaluator.cost(mask) for mask in masks]
    assert np.array_equal(masks[0], result.best_mask)
    assert np.array_equal(result.best_members(2).masks, masks[:2])


@pytest.mark.parametrize("bound", [3, 6, 0.5])
def test_members_stay_within_the_bound_on_their_columns_and_no_earlier_one_would_fit(
    bound: int | float,
) -> None:
    space = SearchSpace.build([f"x{i}" for i in range(10)], groups={"g": ["x0", "x1", "x2"]})
    result = make_driver(RandomSearch(), planted(space), epochs=15).run()
    members = result.best_members()
    bounded = result.best_members(None, bound)
    limit = bound if isinstance(bound, int) else 5
    widths = np.array([len(unit) for unit in space.units])
    union = np.zeros(space.n_units, dtype=bool)
    fitting = list[int]()
    for row, mask in enumerate(members.masks):
        if row == 0 or widths[union | mask].sum() <= limit:
            union = union | mask
            fitting.append(row)
    assert np.array_equal(bounded.masks, members.masks[fitting])
    assert np.array_equal(bounded.costs, members.costs[fitting])
    assert np.array_equal(result.best_members(2, bound).masks, members.masks[fitting[:2]])


@pytest.mark.parametrize("bound", [0, -1, 1.0, 0.0, True, "3"])
def test_a_bound_that_is_neither_a_number_of_columns_nor_a_share_is_refused(bound: Any) -> None:
    result = make_driver(RandomSearch(), planted(plain_space(6)), epochs=2).run()
    with pytest.raises(ValueError, match="union_at_most must be"):
        result.best_members(3, bound)


def test_of_equal_costs_the_smallest_mask_is_the_answer() -> None:
    evaluator = constant(plain_space(6))
    evaluator.exact_shrink = False
    result = make_driver(RandomSearch(), evaluator, epochs=20).run()
    sizes = result.records[0].particles["size"]
    best_sizes = result.history["best_size"]
    assert sizes.iloc[0] > sizes.min() == best_sizes.iloc[0]
    assert result.best_mask.sum() == best_sizes.iloc[-1] == 1


# A sequential search answers the best set of its size, whose units need not be used.
@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"sfs"}))
def test_the_answer_has_no_unit_that_no_model_used(name: str) -> None:
    evaluator = planted(plain_space(12, fixed=["x0"]))
    evaluator.weights[:, :6] = 0.0
    result = make_driver(make(name), evaluator, epochs=10).run()
    assert result.best_mask[0]
    assert not result.best_mask[1:6].any()
    assert result.cost == evaluator.cost(result.best_mask)


@given(st.integers(1, 20), st.integers(0, 2**32))
def test_packed_masks_and_folds_keep_every_bit(n_units: int, seed: int) -> None:
    masks = np.random.default_rng(seed).random((4, n_units)) < 0.5
    assert np.array_equal(unpack_masks(pack_masks(masks), n_units), masks)
    intersection = pack_folds(masks[0]) & pack_folds(masks[1])
    assert intersection == pack_folds(masks[0] & masks[1])
    assert intersection.bit_count() == (masks[0] & masks[1]).sum()


def test_of_confirmed_subsets_the_cheapest_and_then_the_smallest_is_the_answer() -> None:
    search = make_driver(RandomSearch(), constant(plain_space(3)), epochs=1)
    masks = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    costs = np.array([0.2, 0.2, 0.3, np.inf, 0.2])
    measured = Candidates.build(masks, costs, search_costs=np.zeros(5))
    result = dataclasses.replace(search.run(), measured=measured)
    assert (result.features, result.cost) == (["x0", "x1"], 0.2)
    best = result.best_members()
    assert best.masks.tolist() == masks[[1, 0, 2]].tolist()
    assert best.costs.tolist() == [0.2, 0.2, 0.3]


def test_an_answer_of_a_strategy_counts_only_if_it_was_measured() -> None:
    result = make_driver(RandomSearch(), planted(plain_space(4)), epochs=2).run()
    members = Members(np.eye(2, 4, dtype=bool), np.array([0.9, np.inf]), np.zeros(2, dtype=int))
    for answer, cost in ((None, result.cost), (0, 0.9), (1, result.cost)):
        state: Any = SimpleNamespace(members=dataclasses.replace(members, answer=answer))
        search_state = dataclasses.replace(result.state, strategy=state)
        assert dataclasses.replace(result, state=search_state).cost == cost


def test_callbacks_see_every_epoch_once_and_in_order_and_may_end_the_search() -> None:
    epochs: list[tuple[int, int]] = []

    def stop(record: Any, state: Any) -> None:
        epochs.append((record.epoch, state.epoch))
        if record.epoch == 4:
            raise KeyboardInterrupt

    result = make_driver(BinaryPso(), planted(plain_space(9)), epochs=9).run(stop)
    assert epochs == [(epoch, epoch) for epoch in range(1, 5)]
    assert result.interrupted
    assert result.state.epoch == len(result.records) == 4


def test_an_epoch_records_swarms_if_there_are_several_and_no_group_of_masks_of_nobody() -> None:
    masks = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    space = plain_space(3)
    proposal = Proposal(masks, np.full(3, np.inf), np.array([1, -1, 0]), ("x",) * 3)
    answers = planted(space).evaluate(masks, proposal.incumbents, np.arange(3))
    counts = Counts(4, 3, 9)
    best = (0.2, 1)
    for groups, swarms in (([0, 1], {0: 0.3, 1: 0.2}), ([0, 0], {})):
        members = Members(masks[:2], np.array([0.3, 0.2]), np.array(groups))
        record = record_epoch(7, proposal, answers, members, best, counts)
        swarm_costs = {name: record.metrics[name] for name in record.metrics if "swarm_" in name}
        assert swarm_costs == {f"swarm_{group}_best_cost": cost for group, cost in swarms.items()}
        table = record.particles
        assert table["group"].dtype == np.int64
        assert table["group"].tolist() == [groups[1], -1, 0]
        assert table["pbest_size"].tolist() == [2, 0, 2]
    budget = Budget(epochs=14, evaluations=8, seconds=5)
    assert record.shares(budget, 1.0) == {"epochs": 0.5, "evaluations": 0.5, "seconds": 0.2}


def test_ctrl_c_within_an_epoch_ends_in_the_result_of_the_epochs_before_if_there_are_any() -> None:
    whole = make_driver(MultiSwarm(), planted(plain_space(20)), epochs=3).run()
    fits = int(whole.state.counts.fits)
    evaluator = dataclasses.replace(planted(plain_space(20)), interrupt_after=fits + 5)
    result = make_driver(MultiSwarm(), evaluator, epochs=50).run()
    assert result.interrupted
    assert everything(dataclasses.replace(result, reason="epochs")) == everything(whole)
    assert evaluator.fits == fits + 5
    at_once = dataclasses.replace(planted(plain_space(9)), interrupt_after=4)
    with pytest.raises(KeyboardInterrupt):
        make_driver(BinaryPso(), at_once, epochs=9).run()


class Raw:
    """An evaluator that returns the same cost for every mask, and checks nothing."""

    n_folds = 3

    def __init__(self, cost: float) -> None:
        self.cost = cost

    def evaluate(self, masks: Any, incumbents: Any, fold_order: Any) -> Evaluations:
        inner = constant(plain_space(masks.shape[1])).evaluate(masks, incumbents, fold_order)
        return dataclasses.replace(inner, costs=np.full(len(masks), self.cost))


def raw(cost: float, **limits: Any) -> Any:
    search = make_driver(BinaryPso(), constant(plain_space(4)), **limits)
    return dataclasses.replace(search, evaluator=Raw(cost))


def test_costs_that_are_all_infinite_leave_no_answer_and_say_so() -> None:
    result = raw(np.inf, epochs=3).run()
    assert result.history["best_cost"].to_list() == [np.inf] * 3
    for ask in (lambda: result.features, result.best_members):
        with pytest.raises(EvaluationError, match="3 epochs"):
            ask()


def test_a_nan_cost_is_an_error_that_names_the_subset() -> None:
    for n_units, listed in ((5, "x0, x1, x2, x3, x4"), (6, "x0, x1, x2, x3, x4 and 1 more")):
        search = make_driver(FullSet(), constant(plain_space(n_units)), epochs=1)
        with pytest.raises(EvaluationError, match="check the evaluator") as caught:
            dataclasses.replace(search, evaluator=Raw(np.nan)).run()
        assert f"subset of {n_units} features ({listed}) is NaN" in str(caught.value)


@pytest.mark.parametrize(("epoch", "n_tolerated"), [(1, 5), (2, 6)])
def test_five_evaluations_may_fail_and_a_tenth_but_no_more(epoch: int, n_tolerated: int) -> None:
    def failing(n_failed: int) -> Any:
        calls = itertools.count(-30 * (epoch - 1))
        evaluator = planted(plain_space(40))
        failing_evaluator = dataclasses.replace(
            evaluator, fails=lambda _: 0 <= next(calls) < n_failed
        )
        return make_driver(BinaryPso(), failing_evaluator, epochs=epoch)

    counts = failing(n_tolerated).run().state.counts
    assert (counts.failed, counts.evaluations) == (n_tolerated, 30 * epoch)
    with pytest.raises(EvaluationError, match=f"{n_tolerated + 1} of {30 * epoch}"):
        failing(n_tolerated + 1).run()


def test_a_search_without_new_masks_for_a_hundred_epochs_is_exhausted() -> None:
    """Two units have three masks: a hundred epochs after the last new one, the search ends."""
    search = make_driver(RandomSearch(), constant(plain_space(2)), distinct=50)
    result = search.run()
    assert result.reason == "exhausted"
    distinct = result.history["distinct_evaluations"].to_numpy()
    last_new = int(np.flatnonzero(np.diff(distinct, prepend=0.0) > 0)[-1]) + 1
    assert result.state.epoch == last_new + 100


def test_warm_start_masks_of_another_space_are_refused_in_one_sentence() -> None:
    warm = np.ones((1, 7), dtype=bool)
    search = make_driver(make("random"), planted(plain_space(3)), warm=warm, epochs=1)
    with pytest.raises(InputError, match=r"\(1, 7\) .*3 units"):
        search.start()
