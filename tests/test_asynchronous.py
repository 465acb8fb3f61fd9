"""Asynchronous epochs: nobody waits, nothing is lost or counted twice, and all can be replayed."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from flows.planning import plan_search
from swarm import SubsetSelector
from swarm.errors import EvaluationError, StoreError
from swarm.problem.problem import Problem
from swarm.search.budget import Budget
from swarm.search.driver import Search, run
from swarm.search.plan import SearchPlan
from swarm.search.result import SearchResult
from swarm.search.runner import SearchHooks, run_search
from swarm.search.steady import Steady, search_name
from swarm.storage.archive import AnswerOrder, Archive
from swarm.strategies.catalogue import make, registry
from swarm.testing.planted import (
    Planted,
    everything,
    hints_for,
    make_search,
    plain_space,
    planted,
    snapshot,
)
from swarm.testing.simulated import SimulatedBatches, SimulatedStream, heavy_tailed
from tests.fakes import calm, failing
from tests.moody import Moody
from tests.small_run import Bench

ABLE = sorted(name for name in registry() if make(name).takes_late_answers)
SPACE = plain_space(20)


def asynchronous(
    name: str,
    stream: SimulatedStream,
    archive: Archive | None = None,
    evaluator: Planted | None = None,
    **limits: Any,
) -> Search:
    """A search on planted costs whose order of answers is that of simulated workers."""
    search = make_search(make(name), evaluator or planted(SPACE), **limits)
    order = AnswerOrder(Archive() if archive is None else archive, "one search")
    return dataclasses.replace(search, steady=Steady(stream, order))


def workers(n_workers: int = 5, seed: int = 0) -> SimulatedStream:
    return SimulatedStream(n_workers, heavy_tailed(seed=seed))


def answered(result: SearchResult) -> Counter[bytes]:
    """The content of every mask in the records of a search, and how often it is there."""
    return Counter(row.tobytes() for each in result.records for row in each.columns["mask"])


class Killed(BaseException):
    """What no search handles."""


class Stops(SimulatedStream):
    """Workers that are killed with the whole process after some answers."""

    left = 0

    def finished(self) -> list[int]:
        if self.left == 0:
            raise Killed
        self.left -= 1
        return super().finished()


class Silent(SimulatedStream):
    """Workers of which nobody may ask anything before the last epoch."""

    def ask(self, *given: Any) -> None:
        raise AssertionError("a replay needs no worker")


# ---------------------------------------------------------------- what an epoch observes


@pytest.mark.parametrize("name", ABLE)
def test_with_one_worker_in_this_process_it_is_the_search_that_waits(name: str) -> None:
    waiting = run(make_search(make(name), planted(SPACE), epochs=6))
    alone = SimulatedStream(1, heavy_tailed(), capacity=1)
    assert everything(run(asynchronous(name, alone, epochs=6))) == everything(waiting)


@pytest.mark.parametrize("name", ABLE)
@settings(calm, max_examples=8)
@given(n_workers=st.integers(1, 60), seed=st.integers(0, 99), exact_shrink=st.booleans())
def test_every_mask_that_was_asked_for_is_observed_and_counted_once(
    name: str, n_workers: int, seed: int, exact_shrink: bool
) -> None:
    stream, evaluator = workers(n_workers, seed), planted(SPACE)
    evaluator.exact_shrink = exact_shrink
    result = run(asynchronous(name, stream, evaluator=evaluator, seed=seed, epochs=9))
    counts = result.state.counts
    assert answered(result) == Counter(stream.asked)
    assert counts.evaluations == len(stream.asked) == result.history["evaluations"].iloc[-1]
    assert counts.distinct == len(set(stream.asked)) == len(result.state.asked)
    assert counts.fits == sum(folds.bit_count() for folds in result.state.asked.values())
    assert (result.history["evaluations"].diff().dropna() > 0).all()
    assert result.state.unanswered is not None
    assert len(result.state.unanswered.numbers) == 0


@pytest.mark.parametrize("limit", ["distinct", "evaluations"])
@settings(calm, max_examples=10)
@given(n_workers=st.integers(1, 40), most=st.integers(1, 150))
def test_an_exact_budget_is_spent_to_the_last_mask(limit: str, n_workers: int, most: int) -> None:
    stream, limits = workers(n_workers), dict[str, Any]({limit: most})
    result = run(asynchronous("bpso", stream, **limits))
    assert result.reason == limit
    assert getattr(result.state.counts, limit) == most
    assert answered(result) == Counter(stream.asked)


@pytest.mark.parametrize("limits", [{"fits": 300}, {"patience": 3}, {"noise_floor": 3}])
def test_what_is_in_training_where_another_limit_ends_the_search_counts_nowhere(
    limits: dict[str, Any],
) -> None:
    stream = workers()
    result = run(asynchronous("multiswarm", stream, **limits))
    assert result.reason == next(iter(limits))
    seen = answered(result)
    assert seen <= Counter(stream.asked)
    assert sum(seen.values()) == result.state.counts.evaluations < len(stream.asked)


@settings(calm, max_examples=10)
@given(seed=st.integers(0, 99), n_workers=st.integers(2, 40))
def test_the_best_of_all_answers_wins_however_late_it_came(seed: int, n_workers: int) -> None:
    evaluator = planted(SPACE)
    result = run(asynchronous("random", workers(n_workers, seed), evaluator=evaluator, epochs=6))
    costs = [record.cost for record in evaluator.known.values() if record.complete]
    assert result.state.best_cost == min(costs)


def test_a_failed_fit_is_counted_once_and_too_many_end_the_search() -> None:
    few = run(asynchronous("bpso", workers(), evaluator=failing(0.02, 20), epochs=8))
    told = pd.concat([record.particles for record in few.records])
    assert few.state.counts.failed == told["failed"].sum() > 0
    assert "cannot fit" in str(few.state.first_error)
    with pytest.raises(EvaluationError, match="more than a tenth"):
        run(asynchronous("bpso", workers(), evaluator=failing(0.5, 20), epochs=8))


def test_an_epoch_run_twice_from_one_state_observes_the_same() -> None:
    search = asynchronous("multiswarm", workers(), epochs=9)
    state = search.start()
    for _ in range(6):
        first, record = search.step(state)
        second, again = search.step(state)
        assert record.metrics == again.metrics
        assert snapshot(first) == snapshot(second)
        state = first


# ---------------------------------------------------------------- the recorded order


@pytest.mark.parametrize("name", ABLE)
def test_a_recorded_order_is_replayed_whatever_the_workers(name: str) -> None:
    archive = Archive()
    once = run(asynchronous(name, workers(12), archive, fits=900))
    # That no worker was asked is part of the claim: all answers are in the archive.
    again = run(asynchronous(name, Silent(3, heavy_tailed(seed=1)), archive, fits=900))
    assert everything(again) == everything(once)
    other = run(asynchronous(name, workers(3, seed=1), Archive(), fits=900))
    assert everything(other) != everything(once)


@settings(calm, max_examples=15)
@given(kills=st.lists(st.integers(0, 60), min_size=1, max_size=4), distinct=st.integers(40, 160))
def test_a_search_killed_again_and_again_keeps_what_it_had_observed(
    kills: list[int], distinct: int
) -> None:
    archive, evaluator = Archive(), planted(SPACE)
    kept: list[pd.DataFrame] = []
    records: list[Any] = []
    for number, after in enumerate(kills):
        stream = Stops(4, heavy_tailed(seed=number))
        stream.left = after
        records.clear()
        search = asynchronous("bpso", stream, archive, evaluator, distinct=distinct)
        try:
            run(search, callbacks=[lambda record, state: records.append(record)])
        except Killed:
            kept.append(pd.DataFrame([each.metrics for each in records]))
    whole = run(asynchronous("bpso", workers(7), archive, evaluator, distinct=distinct))
    metrics = pd.DataFrame([each.metrics for each in whole.records])
    for earlier in kept:
        assert earlier.equals(metrics.iloc[: len(earlier)]) or earlier.empty
    assert whole.state.counts.distinct == distinct
    again = run(asynchronous("bpso", workers(2, seed=5), archive, evaluator, distinct=distinct))
    assert everything(again) == everything(whole)


def test_a_longer_search_begins_like_the_shorter_one() -> None:
    archive = Archive()
    short = run(asynchronous("multiswarm", workers(6), archive, epochs=10))
    long = run(asynchronous("multiswarm", workers(6), archive, epochs=20))
    # The last epoch of the shorter one waits for all.
    assert long.history.iloc[:9].to_csv() == short.history.iloc[:9].to_csv()
    assert long.state.epoch == 20


def test_of_two_processes_with_one_search_the_slower_observes_what_the_faster_did() -> None:
    archive = Archive()
    first = asynchronous("bpso", workers(4), archive, epochs=12)
    second = asynchronous("bpso", workers(9, seed=3), archive, epochs=12)
    one, other = first.start(), second.start()
    for turn in range(12):
        pair = [(first, one), (second, other)]
        ran = [search.step(state) for search, state in (pair if turn % 2 else reversed(pair))]
        (one, record), (other, again) = ran if turn % 2 else reversed(ran)
        assert record.metrics == again.metrics
    assert one.asked == other.asked


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_archive_keeps_the_order_of_each_search_and_the_first_that_was_recorded(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    if kind == "postgresql":
        url = str(request.getfixturevalue("postgres").database())
    archive = Archive(url)
    order = AnswerOrder(archive, "a" * 64)
    assert order.recorded(1) is None
    assert order.record(1, np.array([3, 1, 70_000])).tolist() == [3, 1, 70_000]
    assert order.record(1, np.array([5])).tolist() == [3, 1, 70_000]
    assert AnswerOrder(archive, "b" * 64).recorded(1) is None
    archive.close()
    again = Archive(url)
    found = AnswerOrder(again, "a" * 64).recorded(1)
    again.close()
    assert found is not None
    assert found.tolist() == [3, 1, 70_000]


def test_an_order_of_other_masks_is_refused() -> None:
    archive = Archive()
    AnswerOrder(archive, "one search").record(1, np.array([500]))
    with pytest.raises(StoreError, match="does not fit epoch 1"):
        run(asynchronous("bpso", workers(), archive, epochs=3))


def test_whatever_changes_a_search_changes_the_name_of_its_order() -> None:
    def name(seed: int = 0, strategy: Any = "bpso", space: Any = SPACE, **options: Any) -> str:
        hints = hints_for(SPACE, warm=options.pop("warm", None))
        return search_name("p", make(strategy), space, hints, seed, **options)

    other = dataclasses.replace(SPACE, cost_weight=0.1)
    warm = np.eye(20, dtype=bool)[:2]
    different = [
        name(),
        name(seed=1),
        name(strategy="random"),
        name(space=plain_space(20, max_size=5)),
        name(space=plain_space(20, fixed=["x1"])),
        name(space=other),
        name(warm=warm),
        name(pruning=False),
    ]
    assert len(set(different)) == len(different)
    assert name() == name()


# ---------------------------------------------------------------- utilisation


@pytest.mark.parametrize("seed", range(5))
def test_sixteen_workers_are_busy_while_there_are_masks_to_begin(seed: int) -> None:
    space, seconds = plain_space(60), heavy_tailed(1.5, seed)
    stream = SimulatedStream(16, seconds)
    run(asynchronous("multiswarm", stream, evaluator=planted(space), seed=seed, epochs=30))
    assert stream.utilisation(until_last_begins=True) > 0.99
    search = make_search(make("multiswarm"), planted(space), seed=seed, epochs=30)
    waiting = SimulatedBatches(planted(space), 16, seconds)
    run(dataclasses.replace(search, evaluator=waiting))
    assert waiting.utilisation() < 0.3 < stream.utilisation()


# ---------------------------------------------------------------- with real workers


def table() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 9)), columns=[f"x{i}" for i in range(9)])
    return X, (X["x0"] + X["x2"] - X["x5"] + rng.normal(scale=0.5, size=120) > 0).astype(int)


def selector(archive: Path | None = None, **options: Any) -> SubsetSelector:
    url = None if archive is None else f"sqlite:///{archive}"
    options = {
        "strategy": "bpso",
        "strategy_params": {"n_particles": 8},
        "epochs": 6,
        "cv": 3,
        "archive": url,
        **options,
    }
    model = options.pop("model", DecisionTreeClassifier(max_depth=3))
    return SubsetSelector(model, **options)


def test_a_selector_with_one_worker_finds_what_it_finds_without() -> None:
    one = selector(asynchronous=True).fit(*table())
    other = selector().fit(*table())
    assert one.history_.equals(other.history_)
    assert one.results_.equals(other.results_)
    assert one.result_.work["fits"].equals(other.result_.work["fits"])


@pytest.mark.parametrize(
    "options",
    [{}, {"costs": {"x0": 3.0}, "cost_weight": 0.01}, {"prefilter": {"least": 4}}],
    ids=["as it is", "with prices", "behind a prefilter"],
)
def test_a_selector_with_workers_repeats_itself_from_its_archive(
    options: dict[str, Any], tmp_path: Path
) -> None:
    once = selector(tmp_path / "a.db", asynchronous=True, n_jobs=2, **options).fit(*table())
    again = selector(tmp_path / "a.db", asynchronous=True, **options).fit(*table())
    assert again.history_.equals(once.history_)
    assert again.results_.equals(once.results_)
    assert again.result_.work["fits"].sum() == 0
    assert once.result_.work["fits"].sum() > 0
    assert once.result_.state.counts.evaluations == 6 * 8
    assert (once.prefilter_ is not None) == ("prefilter" in options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the cheaper model ranks subsets differently")
def test_a_proxy_a_choice_of_settings_and_a_confirmation_go_together_with_it() -> None:
    given: dict[str, Any] = {
        "asynchronous": True,
        "n_jobs": 2,
        "confirm": {"repeats": 2, "best": 3},
    }
    with_proxy = selector(proxy={"max_depth": 1}, **given).fit(*table())
    assert with_proxy.confirmation_ is not None
    grid = selector(param_grid={"max_depth": [1, 3]}, distinct=60, **given).fit(*table())
    assert grid.best_params_["max_depth"] in (1, 3)


def plan_of(model: Any, **evaluation: Any) -> SearchPlan:
    problem = Problem.build(*table(), model, folds=3, importance="none")
    strategy, budget = make("bpso", {"n_particles": 8}), Budget(epochs=5)
    hints = hints_for(problem.space)
    return SearchPlan(problem, strategy, hints, budget, evaluation=evaluation, asynchronous=True)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("distributed") is None, reason="no extra dask")
def test_a_cluster_answers_too() -> None:
    plan = plan_of(DecisionTreeClassifier(max_depth=2), n_jobs=2, backend="dask")
    assert run_search(plan, Archive()).result.state.counts.evaluations == 40


@pytest.mark.slow
def test_a_worker_that_dies_or_hangs_costs_its_mask_and_not_the_search() -> None:
    evaluators: list[Any] = []

    def kill(record: Any, state: Any) -> None:
        pool = evaluators[0].workers._pool
        if record.epoch == 2 and pool is not None:
            os.kill(next(iter(pool.executor._processes)), signal.SIGKILL)

    hooks = SearchHooks(started=lambda _, evaluator: evaluators.append(evaluator), epochs=[kill])
    found = run_search(plan_of(Moody(), n_jobs=2, exact=False), Archive(), hooks).result
    assert found.state.counts.evaluations == 40
    assert found.state.counts.failed == 0
    only = Moody("x0 x2 x5", "hangs")
    # So long that the other worker has answered more than ten masks, also on a busy machine.
    plan = plan_of(only, n_jobs=2, timeout=5.0)
    warm = plan.problem.space.mask(["x0", "x2", "x5"])[None, :]
    plan = dataclasses.replace(plan, hints=dataclasses.replace(plan.hints, warm=warm))
    late = run_search(plan, Archive()).result
    assert late.state.counts.evaluations == 40
    assert late.state.counts.failed >= 1
    assert "TimeoutError" in str(late.state.first_error)


def test_threads_answer_too_and_ctrl_c_leaves_the_best_so_far() -> None:
    def interrupt(record: Any, state: Any) -> None:
        if record.epoch == 3:
            raise KeyboardInterrupt

    plan = plan_of(DecisionTreeClassifier(max_depth=2), n_jobs=2, backend="threading")
    assert run_search(plan, Archive()).result.state.counts.evaluations == 40
    stopped = run_search(plan, Archive(), SearchHooks(epochs=[interrupt])).result
    assert stopped.interrupted
    assert stopped.state.epoch == 3


# ---------------------------------------------------------------- configuration


def test_a_plan_says_that_it_estimates_epochs_that_wait(bench: Bench) -> None:
    config = bench.config(evaluation={"asynchronous": True})
    assert any("asynchronous ones do not" in note for note in plan_search(config).notes)
    waiting = plan_search(bench.config())
    assert not any("asynchronous" in note for note in waiting.notes)
