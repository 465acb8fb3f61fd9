"""The command line: every command explains itself, and bad input costs one sentence."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from conf.load import from_yaml, json_schema
from flows.cli import app
from flows.terminal import echo
from tasks.tracking.store import local_artifact
from tests.command import imported_by
from tests.small_run import table

ROOT = Path(__file__).resolve().parents[1]
NOWHERE = "http://127.0.0.1:9"


def commands() -> set[str]:
    """Every command of the program."""
    found = {command.callback.__name__ for command in app.registered_commands}
    for group in app.registered_groups:
        found |= {f"{group.name} {each.name}" for each in group.typer_instance.registered_commands}
    return found


# What a terminal shows, without colours and with the words on one line.
def words(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())


def test_a_terminal_breaks_lines_between_words_and_a_file_keeps_them_whole(monkeypatch, capsys):
    line = "way   no-fast-path for a model: models:/m-0123456789 is fitted"
    echo(line, indent=6)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    echo(line, indent=6)
    told = capsys.readouterr().out
    assert told == (
        "way   no-fast-path for a\n      model:\n      models:/m-0123456789\n      is fitted\n"
    )


@pytest.mark.parametrize("command", ["", *sorted(commands())])
def test_every_command_has_help(swarm, command):
    told = swarm(*command.split(), "--help")
    assert told.status == 0
    assert re.match(rf"Usage: .*swarm {command}", words(told.out))
    assert re.search(r"[A-Z][a-z]+ [^.]{10,}[.;]", words(told.out)), "no sentence says what it does"
    if command:
        assert f"Example: swarm {command}" in words(told.out)
    else:
        assert all(name.split()[0] in told.out for name in commands())


def test_help_and_version_are_printed_by_the_command_and_by_the_module(swarm):
    assert swarm("-h").out == swarm("--help").out
    assert swarm("--version").out == f"swarm {version('swarmselect')}\n"
    command = [sys.executable, "-m", "swarm", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout == f"swarm {version('swarmselect')}\n"


def test_a_shell_can_complete_commands(swarm, monkeypatch):
    monkeypatch.setenv("_SWARM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "swarm sta")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert swarm().out.split() == ["stability"]


@pytest.mark.parametrize(
    "command",
    ["--help", "select --help", "config show default", "config check default", "features RUN_ID"],
)
def test_what_is_asked_for_often_imports_neither_models_nor_servers(command, tmp_path):
    """Each of these packages costs more processor time than the command may take."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    (folder / "features.json").write_text('{"features": ["x1"]}')
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        store.execute("CREATE TABLE runs (run_uuid, artifact_uri, lifecycle_stage)")
        row = ("RUN_ID", folder.as_uri(), "active")
        store.execute("INSERT INTO runs VALUES (?, ?, ?)", row)
        store.commit()
    given = command.split()
    if given[0] == "features":
        given += ["--tracking-uri", f"sqlite:///{tmp_path / 'mlflow.db'}"]
    heavy = {"sklearn", "pandas", "scipy", "numba", "sqlalchemy", "mlflow", "prefect", "lightgbm"}
    assert not imported_by(*given) & heavy


def test_the_readme_lists_every_command_and_others_are_refused(swarm):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `swarm ([a-z]+(?: [a-z-]+)?)\b", readme, flags=re.MULTILINE)
    assert {name.strip() for name in listed} == commands()
    told = swarm("selct", "default")
    assert told.status == 2
    assert "Traceback" not in told.err


def test_config_show_prints_every_key_in_a_form_that_reads_back(swarm, bench):
    told = swarm("config", "show", bench.file(), "--set", "budget.epochs=7")
    assert told.status == 0
    shown = from_yaml(told.out, env={})
    assert shown == bench.config(budget={"epochs": 7})
    assert "random_subsets: 1" in told.out
    assert json.loads(swarm("config", "schema").out) == json_schema()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.target=Y", "target.*'Y'"),
        (f"tracking.uri={NOWHERE}", f"{NOWHERE}.*check that it run"),
    ],
    ids=["data", "tracking"],
)
@pytest.mark.usefixtures("prefect_server")
def test_bad_input_of_a_flow_ends_in_one_sentence_and_leaves_no_run(
    swarm, bench, monkeypatch, override, words
):
    monkeypatch.chdir(bench.folder)
    assert re.search(words, swarm("select", bench.file(), "--set", override).sentence)
    assert not bench.made_anything()


@pytest.mark.usefixtures("prefect_server")
def test_a_run_from_the_command_line_can_be_asked_for_its_features_and_resumed(
    swarm, bench, monkeypatch
):
    monkeypatch.setattr("flows.select.write_report", lambda data: {})
    path = bench.file(budget={"epochs": 2})
    told = swarm("select", path, "--set", "test.bootstrap=20", "-v")
    assert told.status == 0
    run_id = re.search(r"(?m)^run +(\w{32})", told.out)[1]
    assert f"run {run_id} in sqlite:///" in told.err
    # Every stage is announced as it starts, and nothing else but the epochs.
    starts = ("connecting", "reading", "preparing", "no fast path", "searching: run", "epoch 1/2")
    starts += ("epoch 2/2", "confirming", "confirmed", "judging on 36 test rows")
    starts += ("writing the report", "storing the model")
    lines = told.err.splitlines()
    assert len(lines) == len(starts), lines
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert "of 8 features" in told.out
    assert "same vote" in told.out

    at = ("--tracking-uri", bench.uri)
    names = swarm("features", run_id, *at).out.split()
    answer = json.loads(swarm("features", run_id, *at, "--json").out)
    assert names == answer["features"]
    # MLflow's own tables are read, and what they lack is left to MLflow.
    assert json.loads(local_artifact(bench.uri, run_id, "features.json")) == answer
    assert local_artifact(bench.uri, "0" * 32, "features.json") is None
    assert "there is no run" in swarm("features", "0" * 32, *at).sentence
    assert set(names) <= {f"x{i}" for i in range(8)}

    longer = swarm("resume", run_id, *at, "--set", "budget.epochs=3", "-q", "--json")
    assert longer.status == 0
    assert longer.err == ""
    answer = json.loads(longer.out)
    assert (answer["run_id"], answer["epochs"], answer["n_available"]) == (run_id, 3, 8)
    assert answer["features"] == swarm("features", run_id, *at).out.split()
    assert set(answer["evaluation"]["contenders"]) >= {"ensemble", "all_features"}
    assert bench.steps(run_id) == [1, 2, 3]
    assert bench.statuses() == ["FINISHED"]

    line = swarm("resume", run_id, *at, "--set", "seed=5").sentence
    assert "started with seed '0' but now it is '5'" in line
    table().assign(x0=table()["x1"]).to_csv(bench.folder / "table.csv", index=False)
    line = swarm("resume", run_id, *at).sentence
    assert "started with the values of the table" in line
    assert bench.statuses() == ["FINISHED"]


@pytest.mark.parametrize("command", ["resume", "features"])
def test_an_unknown_run_or_a_server_that_is_away_is_one_sentence(swarm, bench, command):
    line = swarm(command, "0" * 32, "--tracking-uri", bench.uri).sentence
    assert f"there is no run '{'0' * 32}'" in line
    assert "swarm runs" in line
    assert NOWHERE in swarm(command, "0" * 32, "--tracking-uri", NOWHERE).sentence


def test_a_prefect_server_that_is_away_ends_in_one_sentence(swarm, bench):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    path = bench.file()
    with temporary_settings({PREFECT_API_URL: f"{NOWHERE}/api"}):
        line = swarm("select", path).sentence
    assert NOWHERE in line
    assert "PREFECT_API_URL" in line
    assert not bench.made_anything()


def test_a_configuration_of_ones_own_may_be_as_short_as_two_keys(swarm, tmp_path):
    short = tmp_path / "short.yaml"
    short.write_text(
        yaml.safe_dump({"name": "mine", "data": {"source": "bundled", "name": "iris"}}),
        encoding="utf-8",
    )
    told = swarm("config", "check", str(short))
    assert (told.status, told.out) == (0, f"{short} is fine\n")
