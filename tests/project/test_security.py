"""Tests of security: foreign names and YAML run no code, and servers listen locally only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conf.load import from_yaml
from conf.yaml_text import parse
from flows.cli.servers import down, up
from swarm.errors import ConfigError
from tasks.step import step
from tests.conf import test_config
from tests.servers import free_port
from tests.small_run import Bench


def test_no_step_keeps_its_result_as_a_pickle_of_prefects() -> None:
    assert step("any")(lambda: 1).task.persist_result is False


# ------------------------------------------------------------------ names that are imported


def refusal(model: dict[str, Any], scoring: str = "null") -> str:
    return test_config.refusal(
        f"{test_config.WINE}model: {json.dumps(model)}\nscoring: {scoring}\n"
    )


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "sklearn.utils.os.system",
        "lightgbm.basic.Path",
        "sklearn.__builtins__.eval",
        "swarm.storage.archive.open_engine",
        "../evil.Model",
        "sklearn.tree.X;import os",
    ],
)
def test_an_attack_by_the_name_of_an_estimator_or_a_scorer_is_refused(path: str) -> None:
    assert path in refusal({"estimator": path})
    assert f"'{path}'" in refusal({}, json.dumps(path))


def test_a_module_outside_the_list_is_not_even_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    code = "from sklearn.tree import DecisionTreeClassifier as Model\nopen({!r}, 'w').close()\n"
    (tmp_path / "sidestep_evil.py").write_text(code.format(str(mark)))
    monkeypatch.syspath_prepend(tmp_path)
    allow = ["sidestep", "sidestep_evi"]
    assert "model.allow" in refusal({"estimator": "sidestep_evil.Model", "allow": allow})
    assert not mark.exists()


NESTED = [
    "os.system",
    {"estimator": "os.system"},
    {"class": "subprocess.Popen", "params": {"args": ["touch", "ran"]}},
    [["step", {"estimator": "os.system"}]],
]


@pytest.mark.parametrize("nested", NESTED, ids=json.dumps)
def test_no_parameter_names_an_object(
    nested: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for estimator, key in (
        ("sklearn.ensemble.BaggingClassifier", "estimator"),
        ("sklearn.pipeline.Pipeline", "steps"),
    ):
        refusal({"estimator": estimator, "params": {key: nested}})
    assert not any(tmp_path.iterdir())


# ------------------------------------------------------------------------------------- YAML


@pytest.mark.parametrize(
    "text",
    [
        "name: !!python/object/apply:os.system [touch ran]",
        "name: !!python/name:os.system",
        "!!python/object:builtins.object {}",
    ],
)
def test_a_tag_that_would_make_an_object_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for read in (lambda: from_yaml(text, "x.yaml", env={}), lambda: parse(text, "--set name")):
        with pytest.raises(ConfigError, match="constructor"):
            read()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("merge", [False, True])
def test_a_bomb_of_aliases_is_refused_at_once(merge: bool) -> None:
    levels = ["a0: &a0 {k: v}" if merge else "a0: &a0 [v, v]"]
    for level in range(1, 12):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        held = f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]"
        levels.append(f"a{level}: &a{level} {held}")
    with pytest.raises(ConfigError, match="aliases"):
        parse("\n".join(levels), "x.yaml")


def test_honest_aliases_are_read() -> None:
    assert parse("a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}", "x.yaml")["b"]["y"] == [{"x": 1}] * 2


# ---------------------------------------------------------------------------------- servers


def test_the_servers_of_up_listen_on_this_machine_only(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    popen = subprocess.Popen

    def start(command: list[str], **_: object) -> Any:
        commands.append(command)
        return popen([sys.executable, "-c", "import time; time.sleep(600)"])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr("flows.cli.servers._wait", lambda _: None)
    try:
        up(bench.uri, free_port(), free_port())
    finally:
        down()
    hosts = {command[3]: command[command.index("--host") + 1] for command in commands}
    assert hosts == {"prefect": "127.0.0.1", "mlflow": "127.0.0.1"}
