"""Tests of nested resampling: the whole procedure is scored on rows that it never saw."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from conf.schema import SelectConfig
from flows.cli import app
from flows.run.configured import fetch_as_configured, prepare_as_configured, search_as_configured
from swarm.errors import InputError
from tasks.nested import FoldResult, run_outer_fold
from tasks.parts import outer_folds
from tasks.study import Cell
from tasks.table import Table
from tests.small_run import BAYES, Bench


def run_fold(config: SelectConfig, table: Table, archive: str = "sqlite://") -> FoldResult:
    """Run the first of three outer folds of a table, without a flow."""
    fold = outer_folds(table, "random", 3, 1, 0, GaussianNB())[0]
    train = table.take(fold.train)
    test = table.take(fold.test)
    data = prepare_as_configured(config, train, hold_out=False)
    return run_outer_fold.fn(
        Cell(fold.name, config.strategy.name, 0),
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
    features = table.features.copy()
    target = table.target.copy()
    features.iloc[test] = features.iloc[test[::-1]].to_numpy()
    target.iloc[test] = 1 - target.iloc[test]

    plain = run_fold(config, table)
    changed = run_fold(config, replace(table, features=features, target=target))
    assert changed.subsets == plain.subsets
    assert (changed.cost, changed.confirmed_cost) == (plain.cost, plain.confirmed_cost)
    assert changed.costs["best_subset"] > 0.5 > plain.costs["best_subset"]


def test_fits_of_each_stage_are_counted(bench):
    config = bench.config(model=BAYES, confirm={"repeats": 2})
    result = run_fold(config, fetch_as_configured(config), bench.archive)
    n_models = len(result.subsets)
    fits = result.stage_fits
    assert fits["search"] == result.fits
    # The confirmed subsets and all features are trained on two fresh partitions of three folds.
    assert fits["confirmation"] % 6 == 0
    assert fits["confirmation"] >= 12
    assert fits["proxy"] == 0
    assert (fits["ensemble"], fits["baselines"]) == (n_models, 2 + 2 * n_models)
    assert result.stage_seconds["confirmation"] > 0


def swarm(*arguments: str) -> None:
    app([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def noise(bench: Bench) -> str:
    """Return the configuration of a search on columns that do not predict the class."""
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
    result = json.loads(capsys.readouterr().out)
    costs = {row["contender"]: row for row in result["costs"]}
    searched = np.mean([fold["searched_cost"] for fold in result["folds"]])
    assert searched < 0.4
    assert costs["best_subset"]["low"] < 0.5 < costs["best_subset"]["high"]
    assert result["optimism"]["mean"] == pytest.approx(costs["best_subset"]["cost"] - searched)
    assert result["optimism"]["mean"] > 0.05
    assert result["verdict"] == "no clear difference"
    assert result["guess"] == pytest.approx(0.5, abs=0.03)

    run = bench.tracking.run(result["run"])
    assert (run.info.status, run.data.tags["kind"]) == ("FINISHED", "nested")
    assert run.data.metrics["nested/cost_ensemble"] == costs["ensemble"]["cost"]
    children = bench.children(result["run"])
    assert sorted(child.data.tags["part"] for child in children) == [
        f"fold {i} of 4" for i in (1, 2, 3, 4)
    ]
    assert {child.info.status for child in children} == {"FINISHED"}
    table = bench.table(result["run"], "nested_folds.csv")
    assert table["cost_ensemble"].mean() == pytest.approx(costs["ensemble"]["cost"])
    assert [json.loads(names) for names in table["features"]] == [
        fold["features"] for fold in result["folds"]
    ]
    assert b"<svg" in bench.artifact(result["run"], "figures/stability.svg")
    assert json.loads(bench.artifact(result["run"], "findings.json"))["muted"] == ["SWM112"]

    # Finished outer folds are replayed: nothing is evaluated twice, and the result is the same.
    before = bench.paid_for()
    swarm("nested", noise, "--folds", "4", "-q")
    said = " ".join(" ".join(narrow()).split())
    assert bench.paid_for() == before
    # Costs are printed as the metric of the search, of which higher is better.
    score = 1 - costs["ensemble"]["cost"]
    lowest = 1 - costs["ensemble"]["high"]
    assert f"accuracy {score:.3f} [{lowest:.3f}, " in said
    gain = result["gains"][0]
    assert f"{gain['gain']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]" in said
    assert f"{result['optimism']['mean']:.3f} lower" in said


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
