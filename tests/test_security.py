"""Files, names and YAML from elsewhere run no code; servers listen on this machine alone."""

from __future__ import annotations

import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import time
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import skops.io
from mlflow.artifacts import download_artifacts

from conf.check import check
from conf.estimator import build_estimator
from conf.load import from_yaml, parse
from flows.cli import main
from flows.select import select
from swarm.errors import ConfigError
from tasks.step import step
from tests.small_run import Bench, table

ROOT = Path(__file__).parents[1]
PACKAGES = ("swarm", "tasks", "flows", "conf")


def test_no_source_reads_or_writes_pickles_by_an_option_or_a_method() -> None:
    """What imports a pickler, or runs text as code, ``make check`` refuses."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 100
    pickling = re.compile(r"allow_pickle|\b(read|to)_pickle\b|\b(full|unsafe)_load\b|UnsafeLoader")
    assert [file for file in files if pickling.search(file.read_text(encoding="utf-8"))] == []


def test_no_step_keeps_its_result_as_a_pickle_of_prefects() -> None:
    assert step("any")(lambda: 1).task.persist_result is False


# A frame of protocol 4 and 5, a global or container of 2 and 3, or the former in base64.
_FRAME = re.compile(rb"\x80[\x04\x05]\x95.{4}\0{4}|\x80[\x02\x03](?:c[\w.]+\n|[\]}]q)", re.DOTALL)
_TEXT = re.compile(rb"[\"'\s]gA[SW]V[\w+/]")


def pickled_in(data: bytes) -> bool:
    return bool(_FRAME.search(data) or _TEXT.search(data))


def parts(file: Path) -> Iterator[tuple[str, bytes]]:
    """A file, what a database keeps in it, and what a zip archive packs into it."""
    data = file.read_bytes()
    yield file.name, data
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            yield from ((f"{file.name}:{name}", packed.read(name)) for name in packed.namelist())
    if data.startswith(b"SQLite format 3"):
        with sqlite3.connect(file) as connection:
            names = connection.execute("select name from sqlite_master where type = 'table'")
            for (name,) in names.fetchall():
                for row in connection.execute(f'select * from "{name}"'):
                    for value in row:
                        if isinstance(value, bytes | str):
                            held = value if isinstance(value, bytes) else value.encode()
                            yield f"{file.name}:{name}", held


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_search_for_pickles_finds_them(protocol: int) -> None:
    data = pickle.dumps({"a": [np.arange(3), Path("x")]}, protocol=protocol)
    assert pickled_in(b"before" + data)
    if protocol >= 4:
        assert pickled_in(json.dumps({"data": b64encode(data).decode()}).encode())


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
        patch.setattr("flows.select.write_report", lambda data: {})
        made = {
            name: select(bench.config(name=f"sec-{name}", model=model, budget={"epochs": 2}))
            for name, model in MODELS.items()
        }
    return bench, made


@pytest.mark.slow
def test_what_a_run_leaves_behind_holds_no_pickle(left_behind: Any) -> None:
    bench, _ = left_behind
    store = Path(bench.uri.removeprefix("sqlite:///")).parent
    roots = (bench.folder, store, Path(os.environ["PREFECT_HOME"]))
    files = [f for root in roots for f in root.rglob("*") if f.is_file()]
    assert {"archive.db", "mlflow.db", "features.json"} <= {file.name for file in files}
    assert {file.suffix for file in files} >= {".parquet", ".skops", ".txt"}
    assert not {".pkl", ".pickle", ".joblib", ".dill"} & {file.suffix for file in files}
    assert [name for file in files for name, data in parts(file) if pickled_in(data)] == []


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
def test_a_registered_model_loads_without_unpickling_and_its_card_says_how(
    name: str, left_behind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, made = left_behind
    folder = folder_of(bench, made[name].model_uri, tmp_path)
    no_unpickling(monkeypatch)
    assert len(mlflow.pyfunc.load_model(str(folder)).predict(table())) == len(table())
    card = (folder / "README.md").read_text()
    form = {"light": "lightgbm", "tree": "skops"}[name]
    assert f"Serialisation: {form}. Nothing is pickled." in card
    assert all(f"`{each}`" in card for each in made[name].result.features)
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
        ("sklearn_evil.Model", "is outside"),
        ("sklearn.utils.os.system", "cannot be imported"),
        ("sklearn.os", "is not a class"),
        ("lightgbm.basic.Path", "is a class of pathlib, which is outside"),
        ("swarm.storage.archive.Path", "is a class of pathlib, which is outside"),
        ("sklearn.__builtins__.eval", "a name with two underscores"),
        ("sklearn.base.BaseEstimator.__class__", "a name with two underscores"),
        ("swarm.storage.archive.open_engine", "is not a class"),
        ("../evil.Model", "must be a dotted Python name"),
        ("sklearn..tree.X", "must be a dotted Python name"),
        ("sklearn.tree.X;import os", "must be a dotted Python name"),
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
    {"__reduce__": ["os.system", ["touch ran"]]},
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
        "name: !!python/object/new:subprocess.Popen [[touch, ran]]",
        "name: !!python/name:os.system",
        "name: !!python/module:os",
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
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"aliases make more than 100,000 values") as caught:
        parse("\n".join(levels), "x.yaml")
    assert time.monotonic() - started < 2.0
    assert "\n" not in str(caught.value)


def test_honest_aliases_are_read() -> None:
    assert parse("a: &a {x: 1}\nb: {<<: *a, y: [*a, *a]}", "x.yaml")["b"]["y"] == [{"x": 1}] * 2


# ---------------------------------------------------------------------------------- servers


def test_the_ui_listens_on_this_machine_unless_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    # The port may be taken, by `swarm up` for example.
    monkeypatch.setattr("flows.cli_servers._serves", lambda _: False)
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(os, "execve", lambda _, command, __: started.append(command), raising=False)
    for told in ([], ["--host", "0.0.0.0"]):
        monkeypatch.setattr(sys, "argv", ["swarm", "ui", "--tracking-uri", bench.uri, *told])
        with pytest.raises(SystemExit):
            main()
    hosts = [command[command.index("--host") + 1] for command in started]
    assert hosts == ["127.0.0.1", "0.0.0.0"]


def test_nothing_that_ships_listens_on_every_address_by_itself() -> None:
    shipped = [f for package in PACKAGES for f in (ROOT / package).rglob("*") if f.is_file()]
    shipped += [ROOT / "Makefile", ROOT / "prefect.yaml"]
    for file in (f for f in shipped if f.suffix in {"", ".py", ".yaml", ".yml"} and f.exists()):
        assert "0.0.0.0" not in file.read_text(encoding="utf-8"), file


def test_no_secret_is_tracked() -> None:
    told = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if told.returncode:
        pytest.skip("not a checkout")
    names = {Path(line).name for line in told.stdout.splitlines()}
    assert not {name for name in names if name == ".env" or name.endswith((".pem", ".key"))}
