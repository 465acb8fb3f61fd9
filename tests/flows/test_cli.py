"""Tests of the command line: its help, its output, and errors of one sentence."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from conf.load import from_yaml
from conf.schema import SelectConfig
from flows.cli import app
from flows.display.terminal import pages_of, store_option
from tasks.processes import PROCESS
from tasks.tracking import open_tracking
from tests import ROOT
from tests.small_run import BAYES, leave_report_out, table

NOWHERE = "http://127.0.0.1:9"


def commands() -> set[str]:
    """Return the names of all commands."""
    return {command.callback.__name__ for command in app.registered_commands}


def words(text: str) -> str:
    """Return the text without its colours, on one line."""
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_has_help_with_an_example(swarm, command):
    text = words(swarm(command, "--help").out)
    assert re.match(rf"Usage: .*swarm {command}", text)
    assert f"Example: swarm {command}" in text


def test_the_help_has_a_line_for_each_command_in_four_groups(swarm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = re.sub(r"\x1b\[[\d;]*m", "", swarm("-h").out).splitlines()
    groups = [line.split()[1] for line in lines if line.startswith("╭─")]
    assert groups == ["Options", "Search", "Look", "Production", "Set-up"]
    listed = lines[next(i for i, line in enumerate(lines) if "─ Search ─" in line) :]
    assert sorted(line.split()[1] for line in listed if line.startswith("│")) == sorted(commands())


def test_the_module_is_the_command(swarm):
    command = [sys.executable, "-m", "swarm", "--version"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert process.stdout == swarm("--version").out == f"swarm {version('swarmselect')}\n"


def test_config_prints_every_key_in_a_form_that_reads_back(swarm, bench):
    result = swarm("config", bench.file(), "--set", "budget.epochs=7")
    assert result.status == 0
    assert from_yaml(result.out, env={}) == bench.config(budget={"epochs": 7})
    assert (
        json.loads(swarm("config", "default", "--schema").out) == SelectConfig.model_json_schema()
    )


@pytest.mark.usefixtures("prefect_server")
def test_a_run_from_the_command_line_can_be_asked_for_its_features_and_resumed(
    swarm, bench, monkeypatch
):
    leave_report_out(monkeypatch)
    table().to_csv(bench.folder / "rows_2026-01-05.csv", index=False)
    data = {"path": str(bench.folder / "rows_{date}.csv")}
    sections = {"budget": {"epochs": 2}, "confirm": None, "serve": "ensemble"}
    path = bench.file(data=data, model=BAYES, **sections)
    selected = swarm("select", path, "-v")
    assert selected.status == 0
    run_id = re.search(r"run (\w{32}) in sqlite:///", selected.err)[1]
    # Every stage is announced when it starts.
    stages = ("reading", "searching", "epoch 1/2", "epoch 2/2", "judging", "storing the model")
    announced = [line.startswith(stages) for line in selected.err.splitlines()]
    assert sum(announced) == len(stages), selected.err
    assert "of 8 columns" in selected.out
    assert "Ensemble of" in selected.out

    at = ("--tracking-uri", bench.uri)
    names = swarm("features", run_id, *at).out.split()
    answer = json.loads(swarm("features", run_id, *at, "--json").out)
    assert names == answer["features"]
    inputs = swarm("features", run_id, *at, "--model-inputs").out.split()
    assert inputs == answer["model_inputs"]
    assert set(inputs) == {name for subset in answer["subsets"] for name in subset["features"]}
    store = store_option(bench.uri)
    assert f"swarm report {run_id[:8]} --open{store}" in selected.out
    assert swarm("features", run_id[:8], *at).out.split() == names
    columns = json.loads(swarm("columns", run_id, *at, "--json").out)
    chosen = [entry["column"] for entry in columns["columns"] if entry["status"] == "chosen"]
    assert (sorted(chosen), len(columns["columns"])) == (sorted(names), 8)
    described = swarm("columns", run_id, names[0], *at).out
    assert described.startswith(f"{names[0]}: chosen\n")
    shown = swarm("columns", run_id, "-n", "3", *at).out
    assert all(entry["column"] in shown for entry in columns["columns"][:3])
    assert "5 more columns" in shown
    assert "did you mean 'x7'" in swarm("columns", run_id, "x77", *at).sentence
    views = ("--as", "feast", "--table", "rows")
    references = json.loads(swarm("features", run_id, *at, *views).out)
    assert references == [f"rows:{name}" for name in names]
    # Feast reads the references from this file and this tag.
    assert json.loads(bench.artifact(run_id, "feast_features.json")) == references
    tag = bench.tracking.run(run_id).data.tags["feast.feature_refs"]
    assert tag.split(",") == references
    schema = swarm("features", run_id, *at, "--as", "pandera").out
    assert all(f"{name!r}: pa.Column('float64'" in schema for name in names)
    # All columns are advised where fewer are worse.
    stored = bench.tracking.download(run_id, "evaluation.json")
    record = json.loads(stored.read_text(encoding="utf-8"))
    record["headline"] |= {"verdict": "worse", "title": "Keep all 8 columns"}
    stored.write_text(json.dumps(record), encoding="utf-8")
    advised = swarm("features", run_id, *at)
    everything = [f"x{i}" for i in range(8)]
    assert (advised.out.split(), advised.err) == (everything, "warning Keep all 8 columns\n")

    # The search is resumed on the rows that it had, though there are later ones.
    table().head(60).to_csv(bench.folder / "rows_2026-01-12.csv", index=False)
    longer = swarm("resume", run_id, *at, "--set", "budget.epochs=3", "-q", "--json")
    assert (longer.status, longer.err) == (0, "")
    answer = json.loads(longer.out)
    assert (answer["run_id"], answer["epochs"], answer["n_available"]) == (run_id, 3, 8)
    assert answer["features"] == swarm("features", run_id, *at).out.split()
    assert set(answer["evaluation"]["contenders"]) >= {"ensemble", "all_features"}
    assert bench.steps(run_id) == [1, 2, 3]
    assert bench.statuses() == ["FINISHED"]
    # The run is resumed in the store that is named, not in that of its configuration.
    moved = bench.folder / "moved.db"
    shutil.copy(bench.uri.removeprefix("sqlite:///"), moved)
    monkeypatch.setenv("SWARM_TRACKING__URI", f"sqlite:///{moved}")
    assert swarm("resume", run_id, "--set", "budget.epochs=4", "-q").status == 0
    assert bench.steps(run_id) == [1, 2, 3]
    at_home = open_tracking(f"sqlite:///{moved}", None)
    assert sorted(at_home.values(run_id, ["epoch/n_features"])["epoch/n_features"]) == [1, 2, 3, 4]
    monkeypatch.delenv("SWARM_TRACKING__URI")

    changed = table().assign(x0=table()["x1"])
    changed.to_csv(bench.folder / "rows_2026-01-05.csv", index=False)
    sentence = swarm("resume", run_id, *at).sentence
    assert "started with the values of the table" in sentence
    assert bench.statuses() == ["FINISHED"]


def test_a_report_is_written_to_a_file_that_can_be(swarm, bench, tmp_path):
    at = ("--tracking-uri", bench.uri, "--out")
    run_id = bench.tracking.start_run("with a page", {"kind": "select"})
    bench.tracking.client.log_text(run_id, "<p>page</p>", "report.html")
    for out in (tmp_path, tmp_path / "no" / "r.html"):
        assert f"cannot write {out}" in swarm("report", run_id, *at, str(out)).sentence
    assert swarm("report", run_id[:8], *at, str(tmp_path / "r.html")).status == 0
    assert (tmp_path / "r.html").read_text() == "<p>page</p>"


def test_a_printed_command_names_its_store_unless_it_is_the_default(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert store_option("sqlite:///mlruns/mlflow.db") == ""
    # The path of a file holds in any folder; variables stay, because their values may be secret.
    monkeypatch.setenv("MLFLOW_PASSWORD", "s3cret")
    server = "postgresql://me:${MLFLOW_PASSWORD}@db/mlflow"
    for uri, named in (
        ("sqlite:///a b/m.db", f"sqlite:///{tmp_path}/a b/m.db"),
        (server, server),
        ("http://localhost:5000", "http://localhost:5000"),
    ):
        assert shlex.split(store_option(uri)) == ["--tracking-uri", named]
    monkeypatch.setenv("SWARM_TRACKING__URI", server)
    assert store_option(server) == ""
    assert store_option("sqlite:///mlruns/mlflow.db") != ""
    # A key of another configuration is unknown to the default one.
    monkeypatch.setenv("SWARM_CHAMPION__MARGIN", "0.1")
    assert store_option(server) == ""


def test_the_pages_of_a_server_are_its_own_and_those_of_other_stores_are_started(monkeypatch):
    monkeypatch.setenv("MLFLOW_PASSWORD", "s3cret")
    assert pages_of("sqlite:///mlruns/mlflow.db") == "swarm up"
    store = "postgresql://me:${MLFLOW_PASSWORD}@db/mlflow"
    assert pages_of(store) == f"swarm up{store_option(store)}"
    assert pages_of("https://me:${MLFLOW_PASSWORD}@mlflow/runs") == "https://***@mlflow/runs"


def test_printed_commands_work_when_they_are_pasted(swarm, bench, monkeypatch):
    from flows.run.challenge import promotion

    def pasted(sentence, at=-1):
        return swarm(*shlex.split(re.findall("`swarm ([^`]*)`", sentence)[at]))

    monkeypatch.setenv("SWARM_TRACKING__EXPERIMENT", json.dumps(bench.experiment))
    at = ("--tracking-uri", bench.uri)
    run_id = bench.tracking.start_run("no report", {"kind": "select"})
    line = pasted(swarm("report", run_id, *at).sentence).sentence
    assert "has no artifact 'config.yaml'" in line
    listed = pasted(swarm("features", "0" * 32, *at).sentence)
    assert (listed.status, listed.err) == (0, "")
    # The file has a name that a shell would divide, and another kind of configuration.
    path = bench.folder / "my file.yaml"
    Path(bench.file()).rename(path)
    assert f"`swarm select '{path}'`" in swarm("compare", str(path)).sentence
    advice = promotion("two words", "4", store_option(bench.uri))
    assert "'two words' has no version '4'" in pasted(advice).sentence


def test_a_prefect_server_that_is_away_ends_in_one_sentence(swarm, bench):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    path = bench.file()
    with temporary_settings({PREFECT_API_URL: f"{NOWHERE}/api"}):
        line = swarm("select", path).sentence
    assert NOWHERE in line
    assert "PREFECT_API_URL" in line
    assert not bench.made_anything()


# ---------------------------------------------------------------- swarm runs


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
        tags = {"kind": kind, "dataset": "wine", "mlflow.source.name": "x", "scoring": "roc_auc"}
        tags |= {"headline": "Keep 4 of 13 columns"} if name == "wine nb" else {}
        ids[name] = tracking.start_run(name, tags)
        tracking.client.log_param(ids[name], "seed", 3)
        tracking.client.log_metric(ids[name], "epoch/best_roc_auc", 0.875)
        tracking.client.log_metric(ids[name], "epoch/n_features", 4)
        tracking.finish(ids[name], status)
    monkeypatch.setenv("SWARM_TRACKING__EXPERIMENT", json.dumps(bench.experiment))
    return bench.uri, ids


def test_runs_are_listed_the_latest_first_without_the_searches_of_a_comparison(swarm, store, bench):
    uri, ids = store
    listed = swarm("runs", "--tracking-uri", uri)
    assert listed.status == 0
    lines = [line.split() for line in listed.out.splitlines()]
    short = {run: run_id[:8] for run, run_id in ids.items()}
    shown = [words[0] for words in lines if words and words[0] in short.values()]
    assert shown == [short["all"], short["wine failed"], short["wine nb"]]
    text = " ".join(" ".join(words) for words in lines)
    assert "wine nb Keep 4 of 13 columns; ROC AUC of the subset 0.875 in the search" in text
    assert "wine failed failed; ROC AUC of the subset 0.875 in the search" in text
    assert max(map(len, listed.out.splitlines())) <= 80
    searches = swarm("runs", "--tracking-uri", uri, "--kind", "search").out
    assert short["all, cell 1"] in searches
    # A confirmed run has the score of the features that its headline names: the best score of the
    # search may be that of another subset.
    tracking = open_tracking(bench.uri, bench.experiment)
    tracking.client.log_metric(ids["wine nb"], "fresh/roc_auc", 0.8512345)
    text = " ".join(swarm("runs", "--tracking-uri", uri).out.split())
    assert "wine nb Keep 4 of 13 columns; ROC AUC of the subset 0.8512 on new folds" in text
    tracking.client.log_metric(ids["wine nb"], "test/best_subset_roc_auc", 0.8333333)
    text = " ".join(swarm("runs", "--tracking-uri", uri).out.split())
    assert "wine nb Keep 4 of 13 columns; ROC AUC of the subset 0.8333 on unseen rows" in text


@pytest.mark.parametrize("kind", ["nested", "stability"])
def test_an_estimate_has_neither_a_page_nor_columns_and_is_repeated(swarm, store, bench, kind):
    uri, _ = store
    tracking = open_tracking(bench.uri, bench.experiment)
    run_id = tracking.start_run(kind, {"kind": kind})
    tracking.finish(run_id, "FINISHED")
    for command in ("report", "features", "resume"):
        refused = swarm(command, run_id, "--tracking-uri", uri)
        assert refused.status == 2
        assert f"`swarm {kind}`" in refused.sentence


def test_a_run_whose_process_was_killed_is_listed_as_killed(swarm, store, bench):
    uri, _ = store
    start = (
        "import os, signal\nfrom tasks.tracking import open_tracking\n"
        f"tracking = open_tracking({uri!r}, {bench.experiment!r})\n"
        "print(tracking.start_run('lost', {'kind': 'select'}), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    ids = {"lost": ended.stdout.strip(), "here": bench.tracking.start_run("a", {"kind": "select"})}
    ids["elsewhere"] = bench.tracking.start_run("b", {"kind": "select"})
    bench.tracking.client.set_tag(ids["elsewhere"], PROCESS, "1 2.0 another.machine")

    def listed(status: str) -> set[str]:
        printed = swarm("runs", "--tracking-uri", uri, "--status", status, "--json").out
        return {run["run_id"] for run in json.loads(printed) if run["status"] == status.upper()}

    assert listed("killed") == {ids["lost"]}
    assert listed("running") == {ids["here"], ids["elsewhere"]}


def test_filters_are_combined_and_json_holds_everything(swarm, store):
    uri, ids = store
    result = swarm(
        *("runs", "--tracking-uri", uri, "--kind", "select", "--status", "finished"),
        *("--dataset", "wine", "--json"),
    )
    (record,) = json.loads(result.out)
    assert record["run_id"] == ids["wine nb"]
    assert record["params"] == {"seed": "3"}
    assert record["metrics"] == {"epoch/best_roc_auc": 0.875, "epoch/n_features": 4.0}
    assert record["tags"]["kind"] == "select"
    assert "mlflow.source.name" not in record["tags"]
    assert len(json.loads(swarm("runs", "--tracking-uri", uri, "-n", "2", "--json").out)) == 2
    assert swarm("runs", "--tracking-uri", uri, "--dataset", "none").out == "no run matches\n"


def test_runs_of_another_experiment_are_listed_by_its_name(swarm, store, bench, monkeypatch):
    uri, ids = store
    # The experiment of the configuration does not exist, and is not created.
    monkeypatch.setenv("SWARM_TRACKING__EXPERIMENT", json.dumps(f"{bench.experiment} of nobody"))
    before = bench.tracking.experiments()
    assert "unknown experiment" in swarm("runs", "--tracking-uri", uri).sentence
    assert swarm("champion", "nobody", "--tracking-uri", uri).status == 2
    assert bench.tracking.experiments() == before
    assert (
        ids["wine nb"][:8]
        in swarm("runs", "--tracking-uri", uri, "--experiment", bench.experiment).out
    )
    refused = swarm("runs", "--tracking-uri", uri, "--experiment", f"{bench.experiment}x")
    assert refused.status == 2
    assert f"did you mean {bench.experiment!r}?" in refused.err


def test_the_variable_of_mlflow_is_ignored_with_a_warning(swarm, store, tmp_path, monkeypatch):
    uri, ids = store
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    lines = swarm("champion", "churn").err.splitlines()
    assert lines[0].startswith("warning: MLFLOW_TRACKING_URI is ignored; set tracking.uri, or")
    assert "does not exist" in lines[1]
    # There is no warning where a store was chosen by the configuration.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    monkeypatch.setenv("SWARM_TRACKING__URI", uri)
    listed = swarm("runs")
    assert listed.err == ""
    assert ids["all"][:8] in listed.out


@pytest.mark.parametrize("wrong", [("--kind", "selct"), ("--status", "done"), ("--dataset", "o'x")])
def test_a_filter_that_no_run_can_match_is_refused(swarm, store, wrong):
    refused = swarm("runs", "--tracking-uri", store[0], *wrong)
    assert refused.status == 2
    assert wrong[1] in refused.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["runs"], "which does not exist; change to the folder of your runs"),
        (["runs", "--tracking-uri", "sqlite:///no.db"], "'sqlite:///no.db', which does not ex"),
        (["champion", "churn"], "which does not exist; change to the folder of your runs"),
        (["report", "0" * 32], "which does not exist; change to the folder of your runs"),
    ],
)
def test_what_only_reads_makes_no_store(swarm, tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    assert words in swarm(*command).sentence
    assert list(tmp_path.iterdir()) == []
