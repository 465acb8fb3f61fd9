"""Tests of the select flow with every kind of target, split, folds and source."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.schema import SelectConfig
from conf.sections import StrategySection
from flows.run.answer import SelectRun
from flows.run.configured import fetch_as_configured, prepare_as_configured, search_as_configured
from flows.select import select as flow
from swarm.errors import ConfigError
from swarm.rows import Fold
from swarm.search.runner import run
from swarm.storage.archive import Archive
from swarm.validation.drop_column import feature_losses
from tasks.step import step
from tests.small_run import BAYES, OTHERS, Bench
from tests.swarm.validation.test_drop_column import churn

pytestmark = pytest.mark.usefixtures("plain")


def select(config: SelectConfig, run_id: str | None = None) -> SelectRun:
    """Search without Prefect, and without the report."""
    return flow.fn(config, run_id, 0)


def test_a_regression_runs_from_end_to_end(bench):
    config = bench.config(
        data={"target": "number", "drop": ["y", *OTHERS[1:]]},
        split={"kind": "random"},
        folds={"kind": "random"},
        model={"estimator": "sklearn.linear_model.LinearRegression"},
        space={"fixed": ["x0", "x1", "x2"]},
        budget={"epochs": 2},
    )
    outcome = select(config)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.judgement.task == "regression"
    figures = outcome.judgement.table.set_index(["contender", "metric"])["value"]
    assert figures["ensemble", "r2"] > 0.5


def test_several_classes_run_and_a_split_that_leaks_groups_is_warned_about(bench):
    config = bench.config(
        data={"target": "kind", "group": "who", "drop": ["y", "number", *OTHERS[3:]]},
        split={"kind": "random"},
        folds={"kind": "stratified"},
        model=BAYES,
        budget={"epochs": 2},
    )
    outcome = select(config)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.judgement.task == "multiclass"
    assert set(outcome.judgement.predictions["ensemble"]) <= {"low", "mid", "high"}
    # The folds divide groups as well, which is the second finding.
    assert [finding.code for finding in outcome.findings].count("SWM101") == 2


def test_a_run_says_that_its_result_depends_on_one_column(bench, monkeypatch):
    monkeypatch.setattr("flows.run.answer.losses_on_test", step("drop-features")(feature_losses))
    features, target = churn()
    features.assign(y=target).to_csv(bench.folder / "table.csv", index=False)
    sections = {"scoring": "roc_auc", "budget": {"epochs": 2}}
    outcome = select(bench.config(data={"drop": []}, **sections))
    (finding,) = (finding for finding in outcome.findings if finding.code == "SWM211")
    assert finding.columns == ("calls",)
    assert any("SWM211" in line for line in outcome.shown_doubts)
    assert b"SWM211" in bench.artifact(outcome.run_id, "findings.json")
    without = select(bench.config(data={"drop": ["calls"]}, **sections))
    assert "SWM211" not in [finding.code for finding in without.findings]


FOLDS = {
    "group": {"group": "who"},
    "stratified_group": {"group": "who"},
    "time": {"time": "when"},
    "column": {},
}


def roles(columns: dict[str, str], *used: str) -> dict[str, Any]:
    return {**columns, "drop": [name for name in OTHERS if name not in (*columns.values(), *used)]}


@pytest.mark.parametrize("kind", FOLDS)
def test_every_kind_of_folds_gives_an_epoch_and_keeps_its_column_out(bench, kind):
    column = "fold" if kind == "column" else None
    config = bench.config(
        data=roles(FOLDS[kind], *([column] if column else [])),
        folds={"kind": kind, "column": column},
        model=BAYES,
        budget={"epochs": 1},
    )
    data = prepare_as_configured(config, fetch_as_configured(config))
    train = data.train
    problem = data.problem
    assert list(problem.features.columns) == [f"x{i}" for i in range(8)]
    assert problem.n_folds == 3
    rows: list[Fold] = list(problem.folds)
    assert all(not set(inner) & set(test) for inner, test in rows)
    if column:
        assert all(train.fold.iloc[test].nunique() == 1 for _, test in rows)
    assert np.isfinite(run(search_as_configured(config, data), Archive()).cost)


@pytest.mark.slow
def test_a_search_on_a_cheaper_model_answers_by_the_full_one(bench):
    proxy = {"params": {"n_estimators": 2}, "rows": 0.6, "best": 4, "probes": 3}
    config = bench.config(proxy=proxy, budget={"epochs": 6})
    outcome = select(config)
    assert bench.statuses() == ["FINISHED"]
    before = bench.answer(outcome.run_id)
    confirmed = outcome.result.measured
    assert confirmed.costs.min() in outcome.result.confirmation.candidates.costs
    run = bench.tracking.run(outcome.run_id)
    assert run.data.metrics["proxy/full_accuracy"] == 1 - confirmed.costs.min()
    assert run.data.metrics["proxy/best_accuracy"] == 1 - confirmed.search_costs.min()
    doubts = [finding for finding in outcome.findings if finding.code == "SWM201"]
    assert bool(doubts) == (not outcome.result.correlation >= 0.8)
    again = select(config, outcome.run_id).result
    assert np.array_equal(again.measured.costs, confirmed.costs)
    assert again.work["fits"].sum() == 0
    assert bench.answer(outcome.run_id) == before
    other = bench.config(proxy={**proxy, "best": 5}, budget={"epochs": 6})
    with pytest.raises(ConfigError, match=r"proxy\.best '4' but now it is '5'"):
        select(other, outcome.run_id)


@pytest.mark.slow
def test_a_model_that_has_no_safe_form_is_searched_with_but_not_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {"estimator": "tests.fakes.OwnBayes", "allow": ["tests."]}
    with pytest.raises(ConfigError, match=r"cannot be stored.*set tracking\.register to false"):
        select(bench.config(model=model, tracking={"register": True}))
    assert not bench.made_anything()
    outcome = select(bench.config(model=model))
    assert outcome.model_uri == ""
    assert bench.statuses() == ["FINISHED"]


def test_by_default_a_table_of_many_columns_is_ranked_and_resumes_to_the_same_files(bench, capsys):
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    cells = rng.normal(size=(60, 500))
    cells[:, :3] += 2.0 * classes[:, None]
    path = bench.folder / "wide.csv"
    pd.DataFrame(cells).add_prefix("g").assign(y=classes).to_csv(path, index=False)
    config = bench.config(
        data={"path": str(path), "drop": []},
        model=BAYES,
        ensemble={"n_models": 8},
    )
    config = config.model_copy(update={"strategy": StrategySection()})
    outcome = select(config)
    (run,) = bench.runs()
    assert run.data.tags["strategy"] == "rankings"
    assert run.info.run_name == "wide-rankings-0"
    # The score of the one subset that is evaluated first says nothing.
    assert "epoch" not in capsys.readouterr().out
    assert {"g0", "g1", "g2"} & set(outcome.result.features)
    assert 1 < len(outcome.ensemble.subsets_) <= 8
    features = json.loads(bench.artifact(run.info.run_id, "features.json"))
    origins = {subset["origin"] for subset in features["subsets"]}
    assert origins == {"F ranking", "extra-trees ranking"}
    assert features["confirmation"]["bias_of_choice"] >= 0
    n_stored = bench.paid_for()
    again = select(config, run.info.run_id)
    assert bench.paid_for() == n_stored
    assert json.loads(bench.artifact(again.run_id, "features.json")) == features
