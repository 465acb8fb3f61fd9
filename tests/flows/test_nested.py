"""Nested resampling: the whole procedure, scored on rows that it never saw."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from conf.schema import SelectConfig
from flows.cli import app
from flows.run.configured import fetch_as_configured, prepare_as_configured, search_as_configured
from swarm.errors import InputError
from swarm.metrics import value_range
from swarm.statistics.resampled import corrected_t
from swarm.validation.nested import estimate
from tasks.nested import FoldResult, run_outer_fold
from tasks.parts import outer_folds, outer_kind
from tasks.study import Cell
from tasks.table import Table
from tests.small_run import BAYES, Bench

COSTS = {"ensemble": 0.2, "best_subset": 0.25, "all_features": 0.3}


def outer(shift: float, **changes: float | None) -> dict[str, float | None]:
    """Row of an outer fold whose costs are `COSTS` plus a shift."""
    rivals = {"all_features_ensemble": 0.3, "random_subsets": 0.4}
    facts = {"n_train": 80, "n_test": 20, "searched_cost": 0.1, "confirmed_cost": 0.15}
    costs = {f"cost_{name}": cost + shift for name, cost in {**COSTS, **rivals}.items()}
    return {**facts, "guess": None, **costs, **changes}


def estimated(*rows: dict[str, float | None], values: Sequence[float] = (), **options: Any) -> Any:
    """Estimate of outer folds, with these values of every metric."""
    names = [*COSTS, "all_features_ensemble", "random_subsets"]
    facts = {"metric": "accuracy", "n_features": 4}
    scores = [
        pd.DataFrame({"contender": names, "value": value, **facts})
        for value in values or [0.5, 0.5]
    ]
    return estimate(pd.DataFrame(rows), pd.concat(scores), **options)


def test_costs_and_gains_have_the_interval_of_nadeau_and_bengio():
    shifts = [0.0, 0.1, 0.05, -0.02]
    found = estimated(*map(outer, shifts))
    wanted = corrected_t([0.2 + shift for shift in shifts], 80, 20)
    own = found.cost("ensemble")
    assert (own["cost"], own["low"], own["high"]) == pytest.approx(
        (wanted.mean, wanted.low, wanted.high)
    )
    # The difficulty of an outer fold cancels out, as gains are paired.
    gain = found.gain("ensemble", "all_features")
    assert (gain["gain"], gain["low"], gain["high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert found.verdict() == "better"
    assert found.optimism.mean == pytest.approx(0.15 + np.mean(shifts))
    assert found.optimism_confirmed.mean == pytest.approx(0.10 + np.mean(shifts))


def test_intervals_end_where_costs_and_metrics_do():
    spread = [-0.2, 0.6, 0.0]
    free = estimated(*map(outer, spread)).cost("ensemble")
    assert (free["low"] < 0, free["high"] > 1) == (True, True)
    values = [0.4 + shift for shift in spread]
    found = estimated(*map(outer, spread), values=values, costs=(0.0, 1.0))
    own = found.cost("ensemble")
    assert (own["cost"], own["low"], own["high"]) == (free["cost"], 0.0, 1.0)
    assert found.metrics[["low", "high"]].drop_duplicates().to_numpy().tolist() == [[0.0, 1.0]]
    # A difference of costs is not clipped to their range.
    assert found.gain()["gain"] == pytest.approx(0.1)


def test_the_range_of_a_metric_is_that_of_its_name_if_it_is_known():
    for metrics, ends in (
        (("recall", "f1_macro", "roc_auc_ovr", "hamming_loss"), (0, 1)),
        (("matthews_corrcoef",), (-1, 1)),
        (("r2",), (-math.inf, 1)),
        (("root_mean_squared_error",), (0, math.inf)),
        (("mutual_info_score", "recall_of_mine"), (-math.inf, math.inf)),
    ):
        assert {value_range(metric) for metric in metrics} == {ends}


def test_what_a_fold_does_not_have_leaves_the_estimate_undefined():
    found = estimated(outer(0.0), outer(0.1, confirmed_cost=None, guess=0.4))
    assert (found.optimism_confirmed, found.guess) == (None, None)
    assert estimated(outer(0.0, guess=0.4), outer(0.1, guess=0.4)).guess == pytest.approx(0.4)
    found = estimated(outer(0.0), outer(0.1, cost_all_features=float("nan")))
    assert np.isnan(found.gain()["low"])
    assert found.verdict() == "no clear difference"
    unknown = estimated(outer(0.0), outer(0.1, searched_cost=float("nan"))).optimism
    assert np.isnan([unknown.mean, unknown.low, unknown.high, unknown.p]).all()
    with pytest.raises(InputError, match="at least 2"):
        estimated(outer(0.0))


def run_fold(config: SelectConfig, table: Table, archive: str = "sqlite://") -> FoldResult:
    """Run the first of three outer folds of a table, without a flow."""
    part = outer_folds(table, "random", 3, 1, 0, GaussianNB())[0]
    train, test = table.take(part.train), table.take(part.test)
    data = prepare_as_configured(config, train, hold_out=False)
    return run_outer_fold.fn(
        Cell(part.name, config.strategy.name, 0),
        search_as_configured(config, data),
        archive,
        None,
        test,
        train=train,
        n_models=3,
        union_at_most=None,
        vote="auto",
        metrics=None,
    )


def test_test_rows_of_an_outer_fold_change_nothing_but_its_scores(bench):
    config = bench.config(model=BAYES)
    table = fetch_as_configured(config)
    test = outer_folds(table, "random", 3, 1, 0, GaussianNB())[0].test
    features, target = table.features.copy(), table.target.copy()
    features.iloc[test] = features.iloc[test[::-1]].to_numpy()
    target.iloc[test] = 1 - target.iloc[test]
    changed = replace(table, features=features, target=target)

    plain, found = (run_fold(config, each) for each in (table, changed))
    assert found.subsets == plain.subsets
    assert (found.cost, found.confirmed_cost) == (plain.cost, plain.confirmed_cost)
    assert found.costs["best_subset"] > 0.5 > plain.costs["best_subset"]


def test_fits_of_each_stage_are_counted(bench):
    config = bench.config(model=BAYES, confirm={"repeats": 2})
    found = run_fold(config, fetch_as_configured(config), bench.archive)
    n_models = len(found.subsets)
    fits = found.stage_fits
    assert fits["search"] == found.fits
    # 2 fresh partitions of 3 folds, for the confirmed subsets and all features.
    assert fits["confirmation"] % 6 == 0
    assert fits["confirmation"] >= 12
    assert fits["proxy"] == 0
    assert (fits["ensemble"], fits["baselines"]) == (n_models, 2 + 2 * n_models)
    assert found.stage_seconds["confirmation"] > 0


def table_of(**roles: object) -> Table:
    """60 rows of two features and two classes."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    return Table("t", "", features, pd.Series(np.arange(60) % 2), **roles)


def test_outer_folds_keep_groups_and_time_apart():
    model = GaussianNB()
    groups = table_of(groups=pd.Series(np.arange(60) // 4))
    assert outer_kind(groups, "random", "stratified", model) == "stratified_group"
    for part in outer_folds(groups, "stratified_group", 3, 2, 0, model):
        assert not set(groups.groups[part.train]) & set(groups.groups[part.test])
    # Stratified folds of groups that differ are the same for any seed.
    sizes = table_of(groups=pd.Series(np.repeat([0, 1, 2], [10, 20, 30])))
    with pytest.raises(InputError, match="repeat after 1, got --repeats 2"):
        outer_folds(sizes, "stratified_group", 3, 2, 0, model)

    later = table_of(time=pd.Series(np.arange(60)[::-1]))
    for kinds in (("time", "stratified"), ("random", "time")):
        assert outer_kind(later, *kinds, model) == "time"
    for part in outer_folds(later, "time", 3, 1, 0, model):
        assert later.time[part.train].max() < later.time[part.test].min()

    assert outer_kind(table_of(), "random", "random", model) == "stratified"
    numbers = replace(table_of(), target=pd.Series(np.linspace(0, 1, 60)))
    assert outer_kind(numbers, "random", "random", model) == "random"


def test_repeats_divide_the_rows_anew():
    parts = outer_folds(table_of(), "stratified", 3, 2, 0, GaussianNB())
    names = [part.name for part in parts]
    assert names[:4] == [*(f"fold {i} of 3, repeat 1" for i in (1, 2, 3)), "fold 1 of 3, repeat 2"]
    for first in (0, 3):
        rows = np.concatenate([part.test for part in parts[first : first + 3]])
        assert sorted(rows.tolist()) == list(range(60))
    assert set(parts[0].test.tolist()) != set(parts[3].test.tolist())


def test_folds_by_column_hold_one_value_out():
    table = table_of(fold=pd.Series(np.arange(60) % 4))
    parts = outer_folds(table, outer_kind(table, "random", "column", GaussianNB()), 9, 1, 0, None)
    assert [set(table.fold[part.test]) for part in parts] == [{0}, {1}, {2}, {3}]
    two = table_of(fold=pd.Series(np.arange(60) % 2))
    with pytest.raises(InputError, match="3 or more"):
        outer_folds(two, "column", 5, 1, 0, None)
    with pytest.raises(InputError, match="repeat after 1"):
        outer_folds(table, "column", 5, 2, 0, None)


def swarm(*arguments: str) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def noise(bench: Bench) -> str:
    """Configuration of a search on columns that do not tell the class."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(80, 16)), columns=[f"x{i}" for i in range(16)])
    frame["y"] = np.arange(80) % 2
    frame.to_csv(bench.folder / "noise.csv", index=False)
    data = {"source": "file", "path": str(bench.folder / "noise.csv"), "target": "y", "drop": []}
    return bench.file(data=data, model=BAYES, scoring="accuracy", budget={"epochs": 10})


@pytest.mark.slow
def test_on_columns_without_signal_the_nested_cost_is_that_of_guessing(
    prefect_server, bench, noise, capsys, narrow
):
    swarm("nested", noise, "--folds", "4", "--json", "-q", "--mute", "SWM112")
    told = json.loads(capsys.readouterr().out)
    costs = {row["contender"]: row for row in told["costs"]}
    searched = np.mean([fold["searched_cost"] for fold in told["folds"]])
    assert searched < 0.4
    assert costs["best_subset"]["low"] < 0.5 < costs["best_subset"]["high"]
    assert told["optimism"]["mean"] == pytest.approx(costs["best_subset"]["cost"] - searched)
    assert told["optimism"]["mean"] > 0.05
    assert told["verdict"] == "no clear difference"
    assert told["guess"] == pytest.approx(0.5, abs=0.03)

    run = bench.tracking.run(told["run"])
    assert (run.info.status, run.data.tags["kind"]) == ("FINISHED", "nested")
    assert run.data.metrics["nested/cost_ensemble"] == costs["ensemble"]["cost"]
    children = bench.children(told["run"])
    assert sorted(child.data.tags["part"] for child in children) == [
        f"fold {i} of 4" for i in (1, 2, 3, 4)
    ]
    assert {child.info.status for child in children} == {"FINISHED"}
    table = bench.table(told["run"], "nested_folds.csv")
    assert table["cost_ensemble"].mean() == pytest.approx(costs["ensemble"]["cost"])
    assert [json.loads(names) for names in table["features"]] == [
        fold["features"] for fold in told["folds"]
    ]
    assert b"<svg" in bench.artifact(told["run"], "figures/stability.svg")
    assert json.loads(bench.artifact(told["run"], "findings.json"))["muted"] == ["SWM112"]

    # Finished outer folds are replayed: nothing is evaluated twice, and the result is the same.
    before = bench.paid_for()
    swarm("nested", noise, "--folds", "4", "-q")
    said = " ".join(" ".join(narrow()).split())
    assert bench.paid_for() == before
    # In the metric of the search, of which higher is better.
    score, high = (1 - costs["ensemble"][name] for name in ("cost", "high"))
    assert f"accuracy {score:.3f} [{high:.3f}, " in said
    gain, low, high = (told["gains"][0][name] for name in ("gain", "low", "high"))
    assert f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]" in said
    assert f"{told['optimism']['mean']:.3f} lower" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--folds", "1"], "folds"),
        (["--repeats", "0"], "repeats"),
        (["--set", "folds.n_folds=30", "--folds", "2"], "30"),
    ],
)
def test_bad_outer_folds_are_refused_before_anything_is_searched(
    prefect_server, bench, noise, given, words
):
    with pytest.raises(InputError, match=words):
        swarm("nested", noise, *given)
    assert not bench.made_anything()


def test_an_outer_fold_that_fails_ends_the_study(prefect_server, bench, monkeypatch):
    tried = []

    def fail(*_: object) -> None:
        tried.append(1)
        raise ValueError("no luck")

    monkeypatch.setattr("tasks.nested.fit_ensemble", SimpleNamespace(fn=fail))
    with pytest.raises(ValueError, match="no luck"):
        swarm("nested", bench.file(model=BAYES), "--folds", "3", "-q")
    assert tried == [1]
    assert bench.statuses() == ["FAILED", "FAILED"]
