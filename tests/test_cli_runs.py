"""``swarm runs``: the runs of a store, filtered, for people and for programs."""

from __future__ import annotations

import json

import pytest

from flows.summary import WIDE, result_console
from tasks.tracking import open_tracking
from tasks.tracking.names import metric_key
from tests.command import imported_by


@pytest.fixture
def store(bench, monkeypatch):
    """A store with a finished and a failed selection, and a comparison with one search."""
    tracking = open_tracking(bench.uri, bench.experiment)
    ids = {}
    for name, kind, status in (
        ("wine nb", "select", "FINISHED"),
        ("wine failed", "select", "FAILED"),
        ("all", "compare", "FINISHED"),
        ("all, cell 1", "search", "FINISHED"),
    ):
        tags = {"kind": kind, "dataset": "wine", "mlflow.source.name": "x"}
        tags |= {"headline": "Keep these 4 of 13 features"} if name == "wine nb" else {}
        ids[name] = tracking.start_run(name, tags)
        tracking.client.log_param(ids[name], "seed", 3)
        tracking.client.log_metric(ids[name], metric_key("best_cost"), 0.125)
        tracking.client.log_metric(ids[name], metric_key("best_size"), 4)
        tracking.finish(ids[name], status)
    monkeypatch.setenv("SWARM_TRACKING__EXPERIMENT", json.dumps(bench.experiment))
    return bench.uri, ids


def test_runs_are_listed_the_latest_first_without_the_searches_of_a_comparison(swarm, store, bench):
    uri, ids = store
    told = swarm("runs", "--tracking-uri", uri)
    assert told.status == 0
    lines = [line.split() for line in told.out.splitlines()]
    shown = [words[0] for words in lines if words and words[0] in ids.values()]
    assert shown == [ids["all"], ids["wine failed"], ids["wine nb"]]
    text = " ".join(" ".join(words) for words in lines)
    assert "wine nb Keep these 4 of 13 features, cost 0.1250" in text
    assert "wine failed failed, cost 0.1250" in text
    assert all(len(line) <= 80 for line in told.out.splitlines())
    searches = swarm("runs", "--tracking-uri", uri, "--kind", "search").out
    assert ids["all, cell 1"] in searches
    assert ids["all"] not in searches
    # A confirmed run has the cost of the features that its headline names: the lowest cost of the
    # search may be that of another subset.
    tracking = open_tracking(bench.uri, bench.experiment)
    tracking.client.log_metric(ids["wine nb"], "confirm/cost", 0.25)
    text = " ".join(swarm("runs", "--tracking-uri", uri).out.split())
    assert "wine nb Keep these 4 of 13 features, cost on fresh folds 0.2500" in text


def test_filters_are_combined_and_json_holds_everything(swarm, store):
    uri, ids = store
    told = swarm(
        *("runs", "--tracking-uri", uri, "--kind", "select", "--status", "finished"),
        *("--dataset", "wine", "--json"),
    )
    (record,) = json.loads(told.out)
    assert record["run_id"] == ids["wine nb"]
    assert record["params"] == {"seed": "3"}
    assert record["metrics"] == {"cost/best": 0.125, "size/best": 4.0}
    assert record["tags"]["kind"] == "select"
    assert "mlflow.source.name" not in record["tags"]
    assert len(json.loads(swarm("runs", "--tracking-uri", uri, "-n", "2", "--json").out)) == 2
    assert swarm("runs", "--tracking-uri", uri, "--dataset", "none").out == "no run matches\n"


def test_runs_of_another_experiment_are_listed_by_its_name(swarm, store, bench, monkeypatch):
    uri, ids = store
    monkeypatch.delenv("SWARM_TRACKING__EXPERIMENT")
    assert swarm("runs", "--tracking-uri", uri).out == "there are no runs yet\n"
    assert (
        ids["wine nb"] in swarm("runs", "--tracking-uri", uri, "--experiment", bench.experiment).out
    )
    refused = swarm("runs", "--tracking-uri", uri, "--experiment", f"{bench.experiment}x")
    assert refused.status == 2
    assert f"did you mean {bench.experiment!r}?" in refused.err


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert result_console().width == WIDE
    monkeypatch.setenv("COLUMNS", "80")
    assert result_console().width == 80


def test_the_variable_of_mlflow_is_ignored_with_a_warning(swarm, store, tmp_path, monkeypatch):
    uri, ids = store
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    told = swarm("champion", "churn").err.splitlines()
    assert told[0].startswith("warning: MLFLOW_TRACKING_URI is ignored; set tracking.uri, or")
    assert "does not exist" in told[1]
    # Another store than the default was chosen on purpose.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    monkeypatch.setenv("SWARM_TRACKING__URI", uri)
    said = swarm("runs")
    assert said.err == ""
    assert ids["all"] in said.out


@pytest.mark.parametrize("wrong", [("--kind", "selct"), ("--status", "done"), ("--dataset", "o'x")])
def test_a_filter_that_no_run_can_match_is_refused(swarm, store, wrong):
    told = swarm("runs", "--tracking-uri", store[0], *wrong)
    assert told.status == 2
    assert told.sentence


def test_a_list_of_runs_imports_what_reads_them_and_not_what_writes_them(store):
    writers = {"prefect", "sklearn", "lightgbm", "swarm.problem.problem"}
    assert not imported_by("runs", "--tracking-uri", store[0]) & writers


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (["runs"], 0, "there are no runs yet"),
        (["runs", "--tracking-uri", "sqlite:///no.db"], 2, "'sqlite:///no.db', which does not ex"),
        (["runs", "--kind", "select", "--json"], 0, "[]"),
        (["champion", "churn"], 2, "which does not exist; change to the folder of your runs"),
        (["features", "0" * 32], 2, "which does not exist; change to the folder of your runs"),
        (["report", "0" * 32], 2, "which does not exist; change to the folder of your runs"),
    ],
)
def test_what_only_reads_makes_no_store(swarm, tmp_path, monkeypatch, command, status, words):
    monkeypatch.chdir(tmp_path)
    said = swarm(*command)
    assert said.status == status
    assert words in said.out + said.err
    assert list(tmp_path.iterdir()) == []
