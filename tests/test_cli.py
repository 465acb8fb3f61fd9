"""The command line: every command explains itself, and bad input costs one sentence."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
import pandas as pd
import pytest
import yaml

from conf.load import from_yaml, load, shipped
from flows.cli import main
from tests.small_run import BAYES, table

COMMANDS = [
    "select",
    "compare",
    "strategies",
    "resume",
    "features",
    "ui",
    "up",
    "down",
    "config show",
    "config check",
    "config schema",
]
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Told:
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str


Swarm = Callable[..., Told]


@pytest.fixture
def swarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swarm:
    """Run the `swarm` command in this process."""

    def run(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["swarm", *arguments])
        capsys.readouterr()
        status: Any = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        said = capsys.readouterr()
        return Told(status, said.out, said.err)

    return run


def sentence(told: Told) -> str:
    """The one sentence that bad input ends in."""
    assert told.status == 2, told
    assert "Traceback" not in told.err + told.out
    (line,) = told.err.splitlines()
    assert line.startswith("swarm: "), line
    assert told.out == ""
    return line.removeprefix("swarm: ")


# What a terminal shows, without colours and with the words on one line.
def words(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(swarm, command):
    told = swarm(*command.split(), "--help")
    assert told.status == 0
    assert re.match(rf"Usage: .*swarm {command}", words(told.out))
    assert re.search(r"[A-Z][a-z]+ [^.]{10,}[.;]", words(told.out)), "no sentence says what it does"
    if not command:
        assert all(name.split()[0] in told.out for name in COMMANDS)


def test_an_unknown_command_is_refused(swarm):
    told = swarm("selct", "default")
    assert told.status == 2
    assert "Traceback" not in told.err


def test_config_show_prints_every_key_in_a_form_that_reads_back(swarm, bench):
    told = swarm("config", "show", bench.file(), "--set", "budget.epochs=7")
    assert told.status == 0
    shown = from_yaml(told.out, env={})
    assert shown == bench.config(budget={"epochs": 7})
    assert "random_subsets: 1" in told.out


@pytest.mark.parametrize("name", [*shipped(), "conf/default.yaml"])
def test_config_check_finds_nothing_wrong_with_what_ships(swarm, name):
    told = swarm("config", "check", name)
    assert (told.status, told.out) == (0, f"{name} is fine\n")


def test_config_schema_is_a_schema_that_the_shipped_configuration_obeys(swarm):
    schema = json.loads(swarm("config", "schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(load("default", env={}).model_dump(mode="json", by_alias=True), schema)


# Wrong by itself, whatever the data: refused before anything is read.
# A few for the whole way; tests/test_bad_input.py has the others.
BAD_CONFIGURATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown nested key": ({"budget": {"epoch": 3}}, ["'budget.epoch'", "'budget.epochs'"]),
    "unknown strategy": (
        {"strategy": {"name": "multiswram", "params": {}}},
        ["multiswram", "multiswarm, ", "did you mean 'multiswarm'"],
    ),
    "column with two roles": ({"data": {"group": "y"}}, ["'y'", "data.target", "data.group"]),
}


@pytest.mark.parametrize("case", BAD_CONFIGURATIONS)
def test_a_bad_configuration_ends_in_one_sentence(swarm, bench, case):
    sections, named = BAD_CONFIGURATIONS[case]
    path = bench.file(**sections)
    for command in (["config", "check"], ["select"]):
        line = sentence(swarm(*command, path))
        assert all(name in line for name in named), line
    assert not bench.made_anything()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["default", "--set", "budget.epoch=3"], ["--set budget.epoch", "'budget.epochs'"]),
        (["default", "--set", "budget.epochs=none"], ["budget.epochs", "none"]),
        (["default", "--set", "budget.epochs"], ["section.key=value"]),
        (
            ["defualt"],
            ["defualt", "default, musk, musk_fast", "did you mean 'default'"],
        ),
        (["missing/conf.yaml"], ["missing/conf.yaml"]),
        (["."], ["'.'"]),
    ],
    ids=["unknown key", "wrong value", "no value", "misspelt name", "no such file", "folder"],
)
def test_bad_arguments_end_in_one_sentence(swarm, arguments, named):
    line = sentence(swarm("select", *arguments))
    assert all(name in line for name in named), line


def test_a_file_that_is_no_yaml_ends_in_one_sentence(swarm, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [unclosed\ndata: 3", encoding="utf-8")
    assert "broken.yaml" in sentence(swarm("select", str(broken)))
    broken.write_bytes(b"\xff\xfe\x00name")
    assert "broken.yaml" in sentence(swarm("select", str(broken)))


def changed(**columns: Any) -> pd.DataFrame:
    """The table with some columns replaced."""
    return table().assign(**columns)


# Seen only once the table is there: refused inside the flow, before anything is trained.
BAD_RUNS: dict[str, tuple[pd.DataFrame | None, dict[str, Any], list[str]]] = {
    "missing values": (
        changed(x4=table()["x4"].where(table()["when"] > 40)),
        {"model": BAYES},
        ["'x4'", "missing", "GaussianNB"],
    ),
    "archive that needs a driver or a server": (
        None,
        {"archive": {"url": "postgresql+psycopg://ann:${DB_SECRET}@127.0.0.1:9/db"}},
        ["archive", "postgresql", "***"],
    ),
    "tracking server that is away": (
        None,
        {"tracking": {"uri": NOWHERE}},
        [NOWHERE, "check that it runs"],
    ),
}


@pytest.mark.parametrize("case", BAD_RUNS)
@pytest.mark.usefixtures("prefect_server")
def test_bad_input_ends_in_one_sentence_and_leaves_no_run(swarm, bench, monkeypatch, case):
    frame, sections, named = BAD_RUNS[case]
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("DB_SECRET", "s3cret")
    path = bench.file(**sections)
    if frame is not None:
        frame.to_csv(bench.folder / "table.csv", index=False)
    line = sentence(swarm("select", path))
    assert all(name in line for name in named), line
    assert "s3cret" not in line
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
    assert "models are fitted" in told.err.splitlines()[0]
    assert [line.split(":")[0] for line in told.err.splitlines()[2:]] == ["epoch 1/2", "epoch 2/2"]
    assert "of 8 features" in told.out
    assert "same vote" in told.out

    at = ("--tracking-uri", bench.uri)
    names = swarm("features", run_id, *at).out.split()
    answer = json.loads(swarm("features", run_id, *at, "--json").out)
    assert names == answer["features"]
    assert set(names) <= {f"x{i}" for i in range(8)}

    longer = swarm("resume", run_id, *at, "--set", "budget.epochs=3", "-q")
    assert longer.status == 0
    assert longer.err == ""
    assert bench.steps(run_id) == [1, 2, 3]
    assert bench.statuses() == ["FINISHED"]

    line = sentence(swarm("resume", run_id, *at, "--set", "seed=5"))
    assert "started with seed '0' but now it is '5'" in line
    changed(x0=table()["x1"]).to_csv(bench.folder / "table.csv", index=False)
    line = sentence(swarm("resume", run_id, *at))
    assert "started with the values of the table" in line
    assert bench.statuses() == ["FINISHED"]


@pytest.mark.parametrize("command", ["resume", "features"])
def test_an_unknown_run_ends_in_one_sentence(swarm, bench, command):
    line = sentence(swarm(command, "0" * 32, "--tracking-uri", bench.uri))
    assert f"there is no run '{'0' * 32}'" in line
    assert "swarm ui" in line


@pytest.mark.parametrize("command", ["resume", "features"])
def test_a_run_on_a_server_that_is_away_ends_in_one_sentence(swarm, command):
    assert NOWHERE in sentence(swarm(command, "0" * 32, "--tracking-uri", NOWHERE))


def test_a_prefect_server_that_is_away_ends_in_one_sentence(swarm, bench):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    path = bench.file()
    with temporary_settings({PREFECT_API_URL: f"{NOWHERE}/api"}):
        line = sentence(swarm("select", path))
    assert NOWHERE in line
    assert "PREFECT_API_URL" in line
    assert not bench.made_anything()


def test_a_configuration_of_ones_own_may_be_as_short_as_two_keys(swarm, tmp_path):
    short = tmp_path / "short.yaml"
    short.write_text(
        yaml.safe_dump({"name": "mine", "data": {"source": "bundled", "name": "iris"}}),
        encoding="utf-8",
    )
    assert swarm("config", "check", str(short)).status == 0
