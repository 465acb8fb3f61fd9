"""Files, names and YAML from elsewhere run no code; servers listen on this machine alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
import skops.io
from mlflow.artifacts import download_artifacts

from conf.check import check
from conf.estimator import build_estimator
from conf.load import from_yaml
from conf.yaml_text import parse
from flows.cli.servers import down, up
from flows.select import select
from swarm.errors import ConfigError
from tasks.step import step
from tests.servers import free_port
from tests.small_run import Bench, leave_report_out, table

ROOT = Path(__file__).parents[1]


def test_no_step_keeps_its_result_as_a_pickle_of_prefects() -> None:
    assert step("any")(lambda: 1).task.persist_result is False


MODELS = {
    "light": {
        "estimator": "lightgbm.LGBMClassifier",
        "params": {"n_estimators": 5, "num_leaves": 4, "min_child_samples": 5},
    },
    "tree": {"estimator": "sklearn.tree.DecisionTreeClassifier", "params": {"max_depth": 3}},
}


@pytest.fixture(scope="module")
def left_behind(
    prefect_server: str, tracking_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, dict[str, Any]]:
    """Two runs, one per form of model, in a folder with all that they wrote."""
    bench = Bench(tmp_path_factory.mktemp("left"), tracking_uri)
    with pytest.MonkeyPatch.context() as patch:
        leave_report_out(patch)
        made = {
            name: select(bench.config(name=f"sec-{name}", model=model, budget={"epochs": 2}))
            for name, model in MODELS.items()
        }
    return bench, made


def folder_of(bench: Bench, uri: str, to: Path) -> Path:
    """A copy of a model's folder."""
    mlflow.set_tracking_uri(bench.uri)
    return Path(download_artifacts(uri, dst_path=str(to), tracking_uri=bench.uri))


def no_unpickling(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was unpickled")

    for name in ("pickle.load", "pickle.loads", "cloudpickle.load", "joblib.load"):
        patch.setattr(name, refuse)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_registered_model_loads_without_unpickling(
    name: str, left_behind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, made = left_behind
    folder = folder_of(bench, made[name].model_uri, tmp_path)
    no_unpickling(monkeypatch)
    assert len(mlflow.pyfunc.load_model(str(folder)).predict(table())) == len(table())
    written = {file.suffix for file in (folder / "artifacts").rglob("member_*")}
    assert written == {{"light": ".txt", "tree": ".skops"}[name]}


class Foreign:
    """A type that no model of a run holds."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


@pytest.mark.slow
def test_a_tampered_skops_file_is_refused(left_behind: Any, tmp_path: Path) -> None:
    bench, made = left_behind
    folder = folder_of(bench, made["tree"].model_uri, tmp_path)
    member = next(folder.rglob("member_000.skops"))
    whole = skops.io.load(member, trusted=skops.io.get_untrusted_types(file=member))
    whole.extra_ = Foreign()
    skops.io.dump(whole, member)
    with pytest.raises(Exception, match=r"Untrusted types.*Foreign") as caught:
        mlflow.pyfunc.load_model(str(folder))
    assert "\n" not in str(caught.value).strip()


# ------------------------------------------------------------------ names that are imported

WINE = "name: x\ndata: {source: bundled, name: wine}\n"


def refusal(model: dict[str, Any], scoring: str | None = None) -> str:
    text = f"{WINE}model: {json.dumps(model)}\n" + (f"scoring: {scoring}\n" if scoring else "")
    with pytest.raises(ConfigError) as caught:
        check(from_yaml(text, env={}))
    (sentence,) = str(caught.value).splitlines()
    return sentence


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("os.system", "is outside sklearn, lightgbm, swarm; add its package to model.allow"),
        ("sklearn.utils.os.system", "cannot be imported"),
        ("sklearn.os", "is not a class"),
        ("lightgbm.basic.Path", "is a class of pathlib, which is outside"),
        ("sklearn.__builtins__.eval", "a name with two underscores"),
        ("swarm.storage.archive.open_engine", "is not a class"),
        ("../evil.Model", "must match pattern"),
        ("sklearn.tree.X;import os", "must match pattern"),
    ],
)
def test_an_attack_by_the_estimators_name_is_one_sentence(path: str, told: str) -> None:
    assert told in refusal({"estimator": path})


def test_a_scorer_is_a_name_and_never_imported() -> None:
    assert "unknown scorer 'sklearn.metrics.accuracy_score'" in refusal(
        {}, "sklearn.metrics.accuracy_score"
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_a_module_outside_the_list_is_not_even_imported(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    code = "from sklearn.tree import DecisionTreeClassifier as Model\nopen({!r}, 'w').close()\n"
    (tmp_path / "sidestep_evil.py").write_text(code.format(str(mark)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sidestep_evil", raising=False)
    allow = ["sidestep_evil."] if allowed else ["sidestep", "sidestep_evi"]
    text = f"{WINE}model: {{estimator: sidestep_evil.Model, allow: {json.dumps(allow)}}}\n"
    if allowed:
        build_estimator(from_yaml(text, env={}).model)  # type: ignore[union-attr]
    else:
        with pytest.raises(ConfigError, match="is outside"):
            check(from_yaml(text, env={}))
    assert mark.exists() == allowed


NESTED = [
    "os.system",
    {"estimator": "os.system"},
    {"class": "subprocess.Popen", "params": {"args": ["touch", "ran"]}},
    [["step", {"estimator": "os.system"}]],
]


@pytest.mark.parametrize("nested", NESTED, ids=json.dumps)
@pytest.mark.parametrize(
    ("estimator", "key"),
    [
        ("sklearn.ensemble.BaggingClassifier", "estimator"),
        ("sklearn.ensemble.VotingClassifier", "estimators"),
        ("sklearn.pipeline.Pipeline", "steps"),
        ("sklearn.neighbors.KNeighborsClassifier", "metric"),
    ],
)
def test_no_parameter_names_an_object(
    estimator: str, key: str, nested: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
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
        with pytest.raises(ConfigError, match=r"could not determine a constructor") as caught:
            read()
        assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("merge", [False, True])
def test_a_bomb_of_aliases_is_refused_at_once(merge: bool) -> None:
    levels = ["a0: &a0 {k: v}" if merge else "a0: &a0 [v, v]"]
    for level in range(1, 12):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        held = f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]"
        levels.append(f"a{level}: &a{level} {held}")
    with pytest.raises(ConfigError, match=r"aliases make more than 100,000 values") as caught:
        parse("\n".join(levels), "x.yaml")
    assert "\n" not in str(caught.value)


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
