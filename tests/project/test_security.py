"""Files, names and YAML from elsewhere run no code; servers listen on this machine alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
import skops.io
from lightgbm import LGBMClassifier
from mlflow.artifacts import download_artifacts
from sklearn.datasets import load_wine
from sklearn.tree import DecisionTreeClassifier

from conf.check import check
from conf.load import from_yaml
from conf.yaml_text import parse
from flows.cli.servers import down, up
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from tasks.models.registry import default_store, log_ensemble
from tasks.step import step
from tasks.tracking import open_tracking
from tests.servers import free_port
from tests.small_run import Bench


def test_no_step_keeps_its_result_as_a_pickle_of_prefects() -> None:
    assert step("any")(lambda: 1).task.persist_result is False


MODELS = {
    ".txt": LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1),
    ".skops": DecisionTreeClassifier(max_depth=3),
}
X, Y = load_wine(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def folders(tracking_uri: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of registered models, by the extension of their members."""
    tracking = open_tracking(tracking_uri, "models", tmp_path_factory.mktemp("models"))
    run_id = tracking.start_run("models", {})
    found = {}
    for extension, model in MODELS.items():
        fitted = SubsetEnsemble(model, [list(X)[:3], list(X)[2:5]]).fit(X, Y)
        uri = log_ensemble(tracking, run_id, fitted, X, f"security{extension[1:]}").uri
        to = str(tmp_path_factory.mktemp("folder"))
        with default_store(tracking_uri):
            found[extension] = Path(download_artifacts(uri, dst_path=to))
    return found


@pytest.mark.parametrize("extension", MODELS)
def test_a_registered_model_loads_without_unpickling(
    extension: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pickle.load", "pickle.loads", "cloudpickle.load", "joblib.load"):
        monkeypatch.setattr(name, pytest.fail)
    assert len(mlflow.pyfunc.load_model(str(folders[extension])).predict(X)) == len(X)
    members = (folders[extension] / "artifacts").rglob("member_*")
    assert {file.suffix for file in members} == {extension}


class Foreign:
    """A type that no model of a run holds."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_a_tampered_skops_file_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders[".skops"], tmp_path / "copy")
    member = next(folder.rglob("member_000.skops"))
    whole = skops.io.load(member, trusted=skops.io.get_untrusted_types(file=member))
    whole.extra_ = Foreign()
    skops.io.dump(whole, member)
    with pytest.raises(Exception, match="Foreign"):
        mlflow.pyfunc.load_model(str(folder))


# ------------------------------------------------------------------ names that are imported

WINE = "name: x\ndata: {source: bundled, name: wine}\n"


def refusal(model: dict[str, Any], scoring: str | None = None) -> str:
    text = f"{WINE}model: {json.dumps(model)}\n" + (f"scoring: {scoring}\n" if scoring else "")
    with pytest.raises(ConfigError) as caught:
        check(from_yaml(text, env={}))
    return str(caught.value)


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
