"""Tests of the select flow: its MLflow run, its Prefect run and its artifacts."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import psutil
import pytest
from sklearn.datasets import make_classification

from conf.load import as_yaml, flatten
from conf.schema import SelectConfig
from flows.display.summary import print_summary
from flows.display.terminal import store_option
from flows.run.answer import SelectRun
from flows.run.flow_runs import mark_run
from flows.select import select
from swarm.findings import make_finding
from swarm.validation.contenders import CONTENDERS
from tasks.models.registry import default_store
from tasks.tracking.writes import accepted_key
from tests.fakes import Terminal
from tests.servers import happens
from tests.small_run import BAYES, N_ROWS, OTHERS, TAKEN, Bench, prepared_by_hand, table

# A bench leaves the repeats out.
CONFIRM = {"best": 4, "repeats": 3}


def searched(config: SelectConfig, run_id: str | None = None, verbosity: int = 0) -> SelectRun:
    """Select without Prefect: only the tests of `first` need a flow run."""
    return select.fn(config, run_id, verbosity)


@pytest.fixture(scope="module")
def first(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, SelectConfig, SelectRun]:
    """One undisturbed run of four epochs, with nothing left out."""
    bench = Bench(tmp_path_factory.mktemp("first"), tracking_uri)
    # No version is registered by default.
    config = bench.config(description="eight columns", tracking={"register": True}, confirm=CONFIRM)
    return bench, config, select(config, None, 0)


def test_a_run_leaves_one_finished_run_in_mlflow(first):
    bench, config, outcome = first
    assert (bench.statuses(), outcome.unsent) == (["FINISHED"], "")
    run = bench.tracking.run(outcome.run_id)
    tags = run.data.tags
    expected = {"strategy": "multiswarm", "seed": "0", "task": "binary", "kind": "select"}
    expected |= {"estimator": "LGBMClassifier", "stopped": "epochs", "model": outcome.model_uri}
    expected |= {"dataset": "table", "config": "small", "verdict": outcome.judgement.sentence()}
    assert expected.items() <= tags.items()
    assert tags["data"].startswith("file:")
    note = tags["mlflow.note.content"]
    assert note.endswith("eight columns")
    assert note.startswith(outcome.markdown())
    assert f"runs/{outcome.run_id}/artifacts/report.html" in note
    assert {"version.lightgbm", "version.numpy", "version.prefect"} <= set(tags)
    assert "error" not in tags
    datasets = {data.dataset.name: data.tags[0].value for data in run.inputs.dataset_inputs}
    assert datasets == {"table": "training", "table-test": "eval"}
    # The params are the settings that the file changes, without keys that are null.
    params = run.data.params
    settings = {key: json.dumps(value) for key, value in flatten(config).items()}
    assert params.pop("strategy.name") == "multiswarm"
    assert params.pop("seed") == settings["seed"] == "0"
    assert (params["folds.n_folds"], params["strategy.params.n_swarms"]) == ("3", "2")
    assert set(params) <= {accepted_key(key) for key in settings}
    assert "null" not in params.values()
    assert not [key for key in params if key.split(".")[0] in ("tracking", "archive", "test.seed")]
    assert "test.metrics" not in params, "a default"


def test_models_are_found_and_ranked_by_their_metrics_on_the_test_rows(first):
    bench, config, outcome = first
    run = bench.tracking.run(outcome.run_id)
    (test,) = (data.dataset for data in run.inputs.dataset_inputs if data.tags[0].value == "eval")
    rank = {"field_name": "metrics.test/accuracy", "ascending": False, "dataset_name": test.name}
    (model,) = bench.tracking.client.search_logged_models(
        [bench.tracking.experiment_id],
        filter_string="metrics.`test/accuracy` > 0.5 AND params.strategy = 'multiswarm'",
        order_by=[rank],
    )
    assert model.model_id == run.data.tags["model_id"]
    metrics = {metric.key: metric for metric in model.metrics}
    assert {"test/f1", "test/accuracy"} <= set(metrics)
    for key, metric in metrics.items():
        assert key.startswith("test/")
        assert (metric.dataset_name, metric.dataset_digest) == (test.name, test.digest)
        assert metric.value == run.data.metrics[key]
    expected_params = {"estimator": config.model.estimator, "estimator.n_estimators": "5"}
    expected_params |= {"models": str(len(outcome.model.subsets_)), "positive_class": "1"}
    assert expected_params.items() <= model.params.items()


def test_a_run_names_the_flow_run_that_it_is_part_of(first, api):
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    bench, _, outcome = first
    tags = bench.tracking.run(outcome.run_id).data.tags
    wanted = {
        f"MLflow run {outcome.run_id} in {bench.uri}",
        f"{outcome.headline.title}. {outcome.judgement.sentence()}",
    }
    done = api.read_flow_run(tags["prefect.flow_run"])
    of_the_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[done.id]))
    # Prefect sends what is logged in batches, every other second.
    assert happens(lambda: wanted <= {line.message for line in api.read_logs(of_the_run)}, 120)
    assert done.name == "table/multiswarm/seed 0"
    assert set(done.tags) == {"swarm", "select"}
    assert tags["prefect.url"].endswith(f"/runs/flow-run/{done.id}")


def test_prefect_shows_the_steps_of_a_run_as_a_chain(first, api):
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    bench, config, outcome = first
    flow_run = bench.tracking.run(outcome.run_id).data.tags["prefect.flow_run"]
    of_the_run = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    epochs = [f"epoch-{number:04d}" for number in range(1, config.budget.epochs + 1)]
    before = ["fetch", "split", "problem", "spearman-distance", "clusters", "initial-swarm"]
    chain = [*before, *epochs, "confirm-fresh", "ensemble", "evaluate", "report"]

    def upstream() -> dict[str, set[str]]:
        runs = api.read_task_runs(flow_run_filter=of_the_run)
        names = {
            run.id: run.name if run.name in epochs else run.name.rpartition("-")[0] for run in runs
        }
        return {
            names[run.id]: {names.get(task.id, "?") for task in run.task_inputs.get("wait_for", ())}
            for run in runs
        }

    # Prefect stores the task runs a moment after they end.
    assert happens(lambda: set(chain) <= upstream().keys(), 120)
    upstream_of = upstream()
    assert [step for last, step in pairwise(chain) if last not in upstream_of[step]] == []


def test_of_more_columns_than_rows_rankings_are_confirmed_beside_the_search(bench, capsys):
    X, y = make_classification(80, 90, n_informative=3, n_redundant=0, random_state=1)
    path = bench.folder / "wide.csv"
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv(path, index=False)
    data = {"path": str(path), "drop": []}
    config = bench.config(data=data, model=BAYES, budget={"epochs": 1}, confirm=CONFIRM)
    outcome = searched(config, verbosity=1)
    candidates = bench.table(outcome.run_id, "confirmation.csv")
    assert candidates["origin"].str.endswith("ranking").sum() == 2
    tags = bench.tracking.run(outcome.run_id).data.tags
    assert tags["origin"] == candidates["origin"][candidates["chosen"]].item()
    # The figure of score against size shows only the subsets of the search.
    page = bench.artifact(outcome.run_id, "report.html").decode()
    distinct = outcome.result.state.counts.distinct
    assert f"Score against size of {distinct} subsets" in page
    shown = capsys.readouterr()
    assert "ranking the columns" in shown.out + shown.err


def test_a_run_whose_process_was_killed_is_ended_by_the_next_run_on_its_machine(bench, api):
    from prefect.states import Running

    host = socket.gethostname()
    process = psutil.Process()
    marks = {
        "killed": f"{process.pid} {process.create_time() - 60} {host}",
        "elsewhere": f"{process.pid} {process.create_time() - 60} another.machine",
        "alive": f"{process.pid} {process.create_time()} {host}",
    }
    config = bench.config()
    parameters = {"config": config.model_dump(mode="json")}
    runs = {
        name: api.create_flow_run(select, parameters=parameters, state=Running())
        for name in (*marks, "next")
    }
    for name, mark in marks.items():
        api.update_flow_run_labels(runs[name].id, {"swarm.process": mark})
    bench.tracking.start_run("killed", {"prefect.flow_run": str(runs["killed"].id)})
    mark_run(select, runs["next"], None)
    states = {name: api.read_flow_run(run.id).state.type.value for name, run in runs.items()}
    assert states.pop("killed") == "CRASHED"
    assert set(states.values()) == {"RUNNING"}
    assert bench.statuses() == ["KILLED"]


def test_every_metric_has_one_point_per_epoch_and_those_of_the_whole_run_a_single_one(first):
    bench, _, outcome = first
    epochs = [1, 2, 3, 4]
    last = bench.tracking.run(outcome.run_id).data.metrics
    curves = {name for name in last if bench.steps(outcome.run_id, name) == epochs}
    assert {"epoch/best_accuracy", "epoch/mean_accuracy", "epoch/n_features", "spent/fits"} < curves
    assert last["epoch/best_accuracy"] == 1 - outcome.result.state.best_cost
    confirmation = outcome.result.confirmation
    assert last["fresh/accuracy"] == 1 - confirmation.cost
    assert last["fresh/winners_curse"] == pytest.approx(confirmation.cost - outcome.result.cost)
    assert last["fresh/gain"] == confirmation.gain.mean
    # MLflow draws a metric whose only step is 0 as a bar.
    whole = set(last) - curves
    assert {"test/optimism", "test/f1", "test/best_subset_accuracy", "fresh/gain"} <= whole
    for name in whole:
        assert bench.steps(outcome.run_id, name) == [0], name


def test_the_scores_of_five_contenders_are_one_table_with_intervals_and_no_metrics(first):
    bench, _, outcome = first
    table = bench.table(outcome.run_id, "evaluation.csv")
    judgement = outcome.judgement
    assert table["value"].tolist() == judgement.table["value"].tolist()
    metrics = [name for name in bench.tracking.run(outcome.run_id).data.metrics if "test" in name]
    assert len(metrics) == len(judgement.metrics) + 5, metrics
    evaluation = json.loads(bench.artifact(outcome.run_id, "evaluation.json"))
    assert set(table["contender"]) == set(evaluation["contenders"]) == set(CONTENDERS)
    for contender in evaluation["contenders"].values():
        for metric in contender["metrics"].values():
            assert metric["low"] <= metric["value"] <= metric["high"]
    assert evaluation["optimism"] == pytest.approx(evaluation["test_cost"] - outcome.result.cost)


def test_a_run_leaves_every_artifact_that_it_promises(first):
    bench, config, outcome = first
    run_id = outcome.run_id
    listed = {entry.path for entry in bench.tracking.client.list_artifacts(run_id)}
    assert listed == {
        "archive.parquet",
        "columns.json",
        "config.yaml",
        "confirmation.csv",
        "epochs",
        "evaluation.csv",
        "evaluation.json",
        "features.json",
        "figures",
        "findings.json",
        "history.parquet",
        "importances.csv",
        "predictions.parquet",
        "reference.json",
        "report.html",
        "schema.json",
        "subsets.csv",
        "trained_rows.npz",
    }
    assert bench.artifact(run_id, "config.yaml").decode() == as_yaml(config)
    for record in outcome.result.records:
        particles = bench.table(run_id, f"epochs/{record.epoch:04d}.parquet")
        assert particles["mask"].tolist() == record.particles["mask"].tolist()
    history = bench.table(run_id, "history.parquet")
    assert history["epoch"].tolist() == [1, 2, 3, 4]
    figures = bench.tracking.client.list_artifacts(run_id, "figures")
    names = {"confirmed", "convergence", "correlations", "tradeoff"}
    assert {entry.path for entry in figures} == {f"figures/{name}.png" for name in names}
    page = bench.artifact(run_id, "report.html").decode()
    section = page.partition("Loss without each column")[2]
    assert all(name in section for name in outcome.result.features)
    columns = json.loads(bench.artifact(run_id, "columns.json"))["columns"]
    members = {name for subset in outcome.ensemble.subsets_ for name in subset}
    assert {column["column"] for column in columns if column["status"] != "out"} == members
    assert "Why columns are in or out" in page
    importances = bench.table(run_id, "importances.csv").set_index("column")
    assert set(importances.index) == set(outcome.result.features)
    losses = outcome.losses.losses
    assert np.allclose(importances["loss"][losses.index], losses["loss"])
    subsets = bench.table(run_id, "subsets.csv")
    assert subsets.columns.tolist() == ["cost", "group", *(f"x{i}" for i in range(8))]
    assert subsets["cost"].is_monotonic_increasing


def test_the_card_of_a_model_describes_its_columns_and_its_code_predicts(first, monkeypatch):
    bench, _, outcome = first
    for name, contender in (("subset", "best_subset"), ("ensemble", "ensemble")):
        used = {column for subset in members(bench, outcome, name) for column in subset}
        run = bench.tracking.run(outcome.run_id)
        model = bench.tracking.client.get_logged_model(run.data.tags[f"model.{name}"])
        card = (Path(model.artifact_location.removeprefix("file://")) / "README.md").read_text()
        columns = dict(re.findall(r"\| `(\w+)` \| (.*) \|", card))
        assert set(columns) == used
        profile = outcome.columns[0]
        described = f"float64 | {profile['low']:.6g} to {profile['high']:.6g} | none"
        assert columns.get(profile["name"]) in (None, described)
        assert f"{outcome.judgement.first_metric[contender]['value']:.3f}" in card
        assert "eight columns" in card
        assert all(str(finding) in card for finding in outcome.findings)
        (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", bench.uri)
        exec(code, {"print": lambda answer: np.testing.assert_equal(len(answer), 1)})


def members(bench: Bench, outcome: SelectRun, name: str) -> list[list[str]]:
    """Return the columns of each model in the stored model of that name."""
    run = bench.tracking.run(outcome.run_id)
    model = bench.tracking.client.get_logged_model(run.data.tags[f"model.{name}"])
    assert model.name == f"{run.data.tags['config']}-{name}"
    assert model.model_id in {output.model_id for output in run.outputs.model_outputs}
    (spec,) = Path(model.artifact_location.removeprefix("file://")).rglob("ensemble.json")
    return [member["subset"] for member in json.loads(spec.read_text())["members"]]


def test_the_chosen_features_are_the_ones_that_were_measured(first):
    bench, _, outcome = first
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert answer["features"] == outcome.result.features
    assert answer["cost"] == outcome.result.cost
    assert answer["n_available"] == 8
    best = {"features": answer["features"], "cost": answer["cost"]}
    assert answer["subsets"][0] == {**best, "origin": answer["confirmation"]["origin"]}
    evaluations = bench.table(outcome.run_id, "archive.parquet")
    costs = {row.features: row.cost for row in evaluations.dropna(subset="cost").itertuples()}
    assert costs, "no subset was evaluated to the end"
    assert outcome.result.state.best_cost == min(costs.values())
    assert answer["cost"] == costs[json.dumps(answer["features"])]
    assert answer["confirmation"]["cost"] == outcome.result.confirmation.cost
    # The ensemble consists of these subsets.
    subsets = [subset["features"] for subset in answer["subsets"]]
    assert members(bench, outcome, "ensemble") == subsets
    assert members(bench, outcome, "subset") == subsets[:1]
    # Each subset names its origin; members that were not confirmed come from the search.
    table = bench.table(outcome.run_id, "confirmation.csv")
    assert table["origin"].tolist() == outcome.result.confirmation.candidates.origin.tolist()
    origin_of = dict(zip(table["features"], table["origin"], strict=True))
    for subset in answer["subsets"]:
        assert subset["origin"] == origin_of.get(json.dumps(subset["features"]), "search")
    assert bench.tracking.run(outcome.run_id).data.tags["origin"] == answer["subsets"][0]["origin"]


def test_contenders_are_trained_on_training_rows_and_judged_on_test_rows_only(first):
    bench, config, outcome = first
    train, test, problem = prepared_by_hand(config)
    predictions = bench.table(outcome.run_id, "predictions.parquet")
    assert predictions["y_true"].tolist() == test.target.tolist()
    assert len(predictions) + len(train.features) == N_ROWS
    model = problem.estimator.fit(train.features, train.target)
    assert predictions["all_features"].tolist() == model.predict(test.features).tolist()
    best = outcome.result.features
    model = problem.estimator.fit(train.features[best], train.target)
    assert predictions["best_subset"].tolist() == model.predict(test.features[best]).tolist()
    assert outcome.judgement.costs["best_subset"] == pytest.approx(
        1 - model.score(test.features[best], test.target)
    )

    # The registered model is trained on training rows only, too.
    assert outcome.model_uri.startswith("models:/small/")
    with default_store(bench.uri):
        model = mlflow.pyfunc.load_model(outcome.model_uri)
    # The table of a user has every column, with the target, in another order.
    predicted = model.predict(table().iloc[:, ::-1])
    rows = [table()["x0"].tolist().index(value) for value in test.features["x0"]]
    served = outcome.contender(outcome.served)
    assert predicted[rows].tolist() == outcome.judgement.predictions[served].tolist()


# One column is chosen where the target is the sum of three.
LOST = {
    "data": {"target": "number", "drop": ["y", *OTHERS[1:]]},
    "split": {"kind": "random"},
    "folds": {"kind": "random"},
    "model": {"estimator": "sklearn.linear_model.Ridge"},
    "scoring": "neg_root_mean_squared_error",
    "space": {"max_size": 1},
}


@pytest.mark.usefixtures("plain")
def test_the_model_of_all_columns_is_served_where_all_are_kept(bench, capsys):
    config = bench.config(
        **LOST, name="whole", ensemble={"n_models": 1}, tracking={"register": "auto"}
    )
    outcome = searched(config)
    assert outcome.headline.title == "Keep all 8 columns: the best 1 is worse"
    assert (list(outcome.models), outcome.declined) == (["subset"], False)
    print_summary(outcome, config)
    assert "all 8 columns: models:/whole/1" in " ".join(capsys.readouterr().out.split())
    everything = [f"x{i}" for i in range(8)]
    assert members(bench, outcome, "subset") == [everything]
    answer = json.loads(bench.artifact(outcome.run_id, "features.json"))
    assert (answer["model_inputs"], answer["served"]) == (everything, "subset")
    train, test, problem = prepared_by_hand(config)
    model = problem.estimator.fit(train.features, train.target)
    predicted = outcome.model.predict(test.features)
    np.testing.assert_allclose(predicted, model.predict(test.features))


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_vote_that_lost_is_registered_only_if_asked(bench, capsys):
    lost = LOST | {"name": "lost", "ensemble": {"n_models": 2}, "serve": "ensemble"}
    unasked = bench.config(**lost, tracking={"register": "auto"})
    outcome = searched(unasked)
    print_summary(outcome, unasked)
    said = " ".join(capsys.readouterr().out.split())
    assert outcome.headline.title in said
    assert "worse than all" in said
    assert "RMSE on 36 unseen rows: 1." in said
    assert not outcome.model_uri.startswith("models:/lost/")
    assert "not registered, as all features are better" in said
    assert bench.tracking.run(outcome.run_id).data.tags["headline"] == outcome.headline.title
    scores = json.loads(bench.artifact(outcome.run_id, "evaluation.json"))
    assert scores["headline"]["title"] == outcome.headline.title
    # The stored model is the one that is registered.
    asked = searched(bench.config(**lost, tracking={"register": True}), outcome.run_id)
    assert asked.model_uri == "models:/lost/1"
    run = bench.tracking.run(outcome.run_id)
    assert len(run.outputs.model_outputs) == 2
    version = bench.tracking.client.get_model_version("lost", "1")
    assert version.source == f"models:/{run.data.tags['model.ensemble']}"
    # The other contender is registered if it is to be served: its model is stored, too.
    other = searched(
        bench.config(**lost | {"serve": "subset"}, tracking={"register": True}), outcome.run_id
    )
    assert other.model_uri == "models:/lost/2"
    run = bench.tracking.run(outcome.run_id)
    assert len(run.outputs.model_outputs) == 2
    version = bench.tracking.client.get_model_version("lost", "2")
    assert version.source == f"models:/{run.data.tags['model.subset']}"


def test_a_bound_on_the_union_keeps_the_ensemble_small_and_no_version_is_registered_unasked(
    first, plain, capsys
):
    bench, _, outcome = first
    bound = len(outcome.result.features)
    unbounded = json.loads(bench.artifact(outcome.run_id, "features.json"))
    used = {name for subset in unbounded["subsets"] for name in subset["features"]}
    assert len(used) > bound, "the ensemble has no more columns to lose"
    ensemble = {"n_models": 4, "union_at_most": bound}
    config = bench.config(name="bounded", ensemble=ensemble, confirm=CONFIRM, serve="ensemble")
    small = searched(config)
    answer = json.loads(bench.artifact(small.run_id, "features.json"))
    union = sorted({name for subset in answer["subsets"] for name in subset["features"]})
    assert answer["features"] == unbounded["features"]
    assert (answer["model_inputs"], answer["n_model_inputs"]) == (union, len(union))
    assert answer["union_at_most"] == bound
    assert len(union) <= bound
    assert small.ensemble.subsets_ == [subset["features"] for subset in answer["subsets"]]
    print_summary(small, config)
    assert small.model_uri.startswith("models:/m-")
    said = " ".join(capsys.readouterr().out.split())
    assert f"Model ensemble, {len(union)} columns: {small.model_uri}" in said
    assert bench.tracking.client.search_model_versions("name = 'bounded'") == []


def test_a_terminal_of_80_columns_has_the_answer_in_twelve_rows(first, monkeypatch):
    _, config, outcome = first
    doubts = [make_finding("SWM112", "word " * 40)] * 5
    full = replace(outcome, findings=tuple(doubts))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout", screen := Terminal())
    # The address of a store is never cut off, so the default store, which has none, is used.
    monkeypatch.setattr("flows.display.summary.store_option", lambda _: "")
    monkeypatch.setattr("flows.display.summary.pages_of", lambda _: "swarm up")
    print_summary(full, config)
    rows = screen.getvalue().strip().splitlines()
    assert len(rows) <= 12
    assert max(map(len, rows)) <= 80
    assert sum(row.endswith("…") for row in rows) >= 2
    assert f"({5 - len(full.shown_doubts)} more findings)" in screen.getvalue()


def test_columns_are_offered_unless_all_are_better_or_any_model_guesses(first, capsys):
    _, config, outcome = first
    for change, offered in (
        ({"verdict": "better", "guessing": "beaten"}, True),
        ({"verdict": "worse", "guessing": "beaten"}, False),
        ({"verdict": "better", "guessing": "not beaten"}, False),
    ):
        print_summary(replace(outcome, headline=replace(outcome.headline, **change)), config)
        assert ("swarm features" in capsys.readouterr().out) == offered


@pytest.mark.usefixtures("plain")
def test_ctrl_c_while_confirming_is_told_with_the_command_that_confirms(bench, monkeypatch, capsys):
    config = bench.config(model=BAYES, budget={"epochs": 2})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("swarm.search.runner.confirm_on_fresh_folds", interrupted)
        outcome = searched(config, verbosity=1)
    said = " ".join(capsys.readouterr().err.split())
    assert "the confirmation was interrupted: continuing with the best subsets so far" in said
    command = f"swarm resume {outcome.run_id}{store_option(bench.uri)}"
    assert f"`{command}` completes the search" in said
    assert bench.tracking.run(outcome.run_id).data.tags["stopped"] == "epochs"
    assert outcome.result.confirmation is None
    assert searched(config, outcome.run_id).result.confirmation is not None


@pytest.mark.usefixtures("plain")
def test_columns_may_be_named_as_those_of_the_results(first, bench):
    reference, _, plain = first
    new_names = {f"x{i}": name for i, name in enumerate(TAKEN)}
    config = bench.config(confirm=CONFIRM)
    table().rename(columns=new_names).to_csv(bench.folder / "table.csv", index=False)
    outcome = searched(config)
    assert bench.statuses() == ["FINISHED"]
    assert outcome.result.features == [new_names[name] for name in plain.result.features]
    assert outcome.result.history.equals(plain.result.history)
    assert outcome.judgement.table["value"].equals(plain.judgement.table["value"])
    head = bench.artifact(outcome.run_id, "subsets.csv").decode().splitlines()[0].split(",")
    assert head[:5] == ["cost", "group", "feature_feature_cost", "epoch", "feature_cost"]
    assert len(set(head)) == len(head)
    for file in ("epochs/0001.parquet", "archive.parquet"):
        ours = bench.table(outcome.run_id, file)
        theirs = reference.table(plain.run_id, file)
        assert list(ours) == list(theirs)
        assert ours["cost"].equals(theirs["cost"])
