"""`swarm plan`: the true figures of a run lie in the ranges that were told before it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from flows.cli import app
from flows.configured import fetched, plan_as_configured, prepare_as_configured, prepare_run
from flows.planning import plan_search, workload_of
from flows.stages import Stage
from swarm.errors import DataError, EvaluationError
from swarm.evaluation.crossval import CrossValidation
from swarm.machine import Machine, this_machine
from swarm.planning import Timing, make_plan, time_subsets
from swarm.problem.hints import Hints
from swarm.problem.problem import Problem
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import Search
from swarm.search.runner import run_search
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from swarm.validation.diagnostics import FULL_FITS
from tests.small_run import BAYES, Bench

SEARCHES = {
    "multiswarm": {"budget": {"epochs": 8}},
    "patient": {"budget": {"epochs": 60, "patience": 4}},
    "random": {"strategy": {"name": "random", "params": {}}, "budget": {"epochs": 5}},
    "sfs": {"strategy": {"name": "sfs", "params": {}}, "budget": {"epochs": 100}},
    "sffs": {"strategy": {"name": "sffs", "params": {}}, "budget": {"epochs": 100}},
    "distinct": {"budget": {"epochs": None, "distinct": 30}},
    "unpruned": {"evaluation": {"pruning": False}},
    "raced": {"evaluation": {"racing": 0.1}, "budget": {"epochs": 8}},
    "repeated": {"folds": {"repeats": 3}, "budget": {"epochs": 8}},
    "rotated": {"folds": {"repeats": 3, "rotate": 2}, "budget": {"epochs": 8}},
    "exact": {"model": BAYES, "budget": {"epochs": 8}},
}


def searched(config):
    """Run the search that was planned, without the flow; return counts and seconds."""
    plan = plan_as_configured(config, prepare_run(config, fetched(config)))
    started = time.perf_counter()
    counts = run_search(plan, Archive()).result.state.counts
    return counts, time.perf_counter() - started


@pytest.mark.parametrize("name", SEARCHES)
def test_what_a_search_really_takes_lies_in_the_ranges(bench, name):
    config = bench.config(**SEARCHES[name])
    for _ in range(3):
        plan = plan_search(config)
        counts, seconds = searched(config)
        # A generous factor, and again: other programs may run in the second that is timed.
        in_time = plan.search_seconds.low / 5 <= seconds <= plan.search_seconds.high * 5
        if in_time:
            break
    assert in_time
    assert plan.fits.low <= counts.fits <= plan.fits.high
    assert plan.evaluations.low <= counts.evaluations <= plan.evaluations.high
    assert plan.fits.low <= plan.fits.typical <= plan.fits.high
    assert plan.timing.exact == (name == "exact")
    # A range that says anything at all, but where patience may end the search at any time.
    assert plan.fits.high <= (80 if name == "patient" else 12) * plan.fits.low


def test_the_command_says_what_there_is_to_know_and_leaves_nothing_behind(bench: Bench, capsys):
    path = bench.file(strategy={"name": "sfs", "params": {}}, evaluation={"n_jobs": 64})
    before = sorted(bench.folder.iterdir())
    app(["plan", path], standalone_mode=False)
    said = capsys.readouterr().out
    assert "evaluations in total: 36" in said
    assert "warning" in said
    assert "64 workers share" in said
    for word in ("fits", "total time", "memory", "disk", "models are fitted"):
        assert word in said
    for stage in Stage:
        assert f"\n- {stage.label} " in said
    app(["plan", path, "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert list(told["stages"]) == [stage.label for stage in Stage]
    for end in ("low", "typical", "high"):
        seconds = [span[end] for span in told["stages"].values()]
        assert told["total_seconds"][end] == pytest.approx(sum(seconds))
        assert told["search_seconds"][end] + told["after_seconds"][end] < sum(seconds)
    assert told["sequential"] == 36
    assert told["models_are_fitted"]
    assert not told["proxy"]
    assert told["warnings"]
    assert sorted(bench.folder.iterdir()) == before
    assert not bench.made_anything()


def test_the_models_of_the_report_are_in_the_plan(bench):
    seconds = []
    for explain in (True, False):
        config = bench.config(test={"explain": explain})
        planned = plan_as_configured(config, prepare_as_configured(config, fetched(config)))
        seconds.append(workload_of(config, planned).seconds(Stage.REPORT, 60.0, 0.0))
    shown, hidden = seconds
    assert shown == pytest.approx(hidden + 60.0 * FULL_FITS)


def test_a_configuration_for_a_wider_table_has_at_most_a_cluster_for_each_unit(bench, capsys):
    for count in (8, 99):
        app(["plan", bench.file(prepare={"n_clusters": count})], standalone_mode=False)
        assert "8 units to choose from" in capsys.readouterr().out


def test_the_user_is_believed_that_a_model_takes_categories(bench, capsys):
    data = {"categorical": ["x0"]}
    with pytest.raises(DataError, match=r"'x0' is categorical .* set categorical_support"):
        app(["plan", bench.file(model=BAYES, data=data)], standalone_mode=False)
    told = bench.file(model=BAYES, data={**data, "categorical_support": True})
    app(["plan", told], standalone_mode=False)
    assert "8 units to choose from" in capsys.readouterr().out


def test_with_a_proxy_it_is_the_proxy_that_is_timed(bench):
    slow = {"n_estimators": 400, "num_leaves": 4, "min_child_samples": 5}
    sections = {"model": {"estimator": "lightgbm.LGBMClassifier", "params": slow}}
    full = plan_search(bench.config(**sections))
    plan = plan_search(bench.config(**sections, proxy={"params": {"n_estimators": 2}}))
    assert plan.proxy
    assert not full.proxy
    # The fastest of several: others use the machine too.
    assert plan.timing.seconds.min() < full.timing.seconds.min() / 2


def forest(n_units=12, **params):
    """A problem of three folds, and a forest."""
    rng = np.random.default_rng(0)
    columns = [f"x{i}" for i in range(n_units)]
    features = pd.DataFrame(rng.normal(size=(60, n_units)), columns=columns)
    problem = Problem.build(features, np.arange(60) % 2, RandomForestClassifier(3), folds=3)
    return replace(problem, estimator=problem.estimator.set_params(**params))


def plan_of(machine, strategy="random", params=None, budget=None, problem=None, **options):
    """A plan of a search with made-up times on a made-up machine."""
    limits = budget or Budget(epochs=4)
    timing = Timing(np.array([2, 10]), np.array([0.1, 0.2]), np.full((2, 3), 0.3), 0.5, False)
    with CrossValidation(problem or forest()) as evaluator:
        space, chosen = evaluator.problem.space, make(strategy, params or {})
        search = Search(chosen, space, evaluator, Hints(), 0, limits)
        return make_plan(search, timing, machine, **options)


GIB = 2**30
BIG = Machine(cores=8, cores_of_machine=8, memory=64 * GIB, process=GIB)


@pytest.mark.parametrize("name", ["sfs", "sbs"])
@pytest.mark.parametrize("size", ["best", 4, (2, 5)])
def test_the_steps_of_a_sequential_search_are_counted_right(name, size):
    plan = plan_of(BIG, name, {"size": size}, Budget(epochs=99))
    space = SearchSpace.build([f"x{i}" for i in range(12)])
    assert plan.evaluations.low == plan.evaluations.high == plan.sequential
    assert (plan.sequential,) * 2 == make(name, {"size": size}).evaluations_in(space)


def test_a_long_search_is_extrapolated_to_its_end(monkeypatch):
    monkeypatch.setattr("swarm.planning._PATIENCE", 0.0)
    plan = plan_of(BIG, budget=Budget(epochs=500))
    whole = 500 * make("random", {}).batch_size
    assert plan.evaluations.low == plan.evaluations.high == whole
    assert "extrapolated" in plan.notes[0]


@pytest.mark.slow
def test_seconds_of_the_budget_end_a_search_that_would_take_longer():
    endless = plan_of(BIG, budget=Budget(epochs=10_000))
    short = plan_of(BIG, budget=Budget(epochs=10_000, seconds=60.0))
    assert 60 < short.search_seconds.high < endless.search_seconds.low
    assert 60 / 0.2 / 2 < short.fits.typical < 60 / 0.1
    alone = plan_of(BIG, budget=Budget(seconds=60.0))
    assert 60 == alone.search_seconds.low <= alone.search_seconds.typical < 80


def test_a_model_that_fails_is_named_before_the_search():
    class Broken(RandomForestClassifier):
        def fit(self, *args, **kwargs):
            raise RuntimeError("out of order")

    problem = replace(forest(), estimator=Broken())
    with CrossValidation(problem) as evaluator:
        search = Search(make("random"), problem.space, evaluator, Hints(), 0, Budget(epochs=1))
        with pytest.raises(EvaluationError, match=r"subset of .* units: RuntimeError: out of"):
            time_subsets(search)


def test_this_machine_has_cores_and_memory():
    machine = this_machine()
    assert 1 <= machine.cores <= machine.cores_of_machine
    assert 10 * 2**20 < machine.process < machine.memory


def test_workers_are_worth_their_cores_and_no_more():
    alone = plan_of(BIG)
    four = plan_of(BIG, workers=4, processes=True)
    assert four.search_seconds.low == pytest.approx(alone.search_seconds.low / 4)
    assert four.memory.high > 4 * alone.memory.high
    assert not four.warnings
    many = plan_of(BIG, workers=16, processes=True)
    eight = plan_of(BIG, workers=8, processes=True)
    assert many.search_seconds.low == eight.search_seconds.low
    assert "16 workers share 8 cores; set evaluation.n_jobs to 8" in many.warnings[0]


def test_what_is_measured_on_the_full_model_comes_on_top():
    plain, proxy = plan_of(BIG), plan_of(BIG, confirm_seconds=6000.0)
    more = proxy.search_seconds.typical - plain.search_seconds.typical
    assert more == pytest.approx(6000.0, rel=0.01)


def test_threads_of_the_model_and_limits_of_a_container_are_warned_of():
    threads = plan_of(BIG, workers=4, problem=forest(n_jobs=4))
    assert "4 workers with 4 threads each (n_jobs 4) share 8 cores" in threads.warnings[0]
    assert "n_jobs to 2 and the threads to 1" in threads.warnings[0]
    small = Machine(cores=2, cores_of_machine=32, memory=2 * GIB, process=GIB)
    told = plan_of(small, workers=4, processes=True).warnings
    assert "4 workers share 2 cores available to this process, of 32 in the machine" in told[0]
    assert "may need 5.0 GiB of memory, but 2.0 GiB are available" in told[1]
