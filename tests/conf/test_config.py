"""Tests of the configuration: where values come from, its errors, and what ships."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.check import check
from conf.estimator import build_estimator
from conf.load import as_yaml, flatten, from_yaml, load, shipped
from conf.schema import SelectConfig
from swarm.errors import ConfigError

WINE = "name: a\ndata: {source: bundled, name: wine}\n"


def read(text: str, *overrides: str, env: dict[str, str] | None = None) -> Any:
    return from_yaml(text, "conf/x.yaml", overrides, env or {})


def refusal(text: str, *overrides: str, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check(read(text, *overrides, env=env))
    return str(caught.value)


# ---------------------------------------------------------------- where a value comes from


def test_set_wins_over_environment_over_file_over_default_key_by_key() -> None:
    env = {"SWARM_BUDGET__EPOCHS": "7"}
    text = WINE + "budget: {epochs: 5, patience: 2}"
    assert read(WINE).budget.epochs == 30
    assert read(text).budget.epochs == 5
    assert read(text, env=env).budget.epochs == 7
    last = read(text, "budget.epochs=8", "budget.epochs=9", env=env).budget
    assert (last.epochs, last.patience) == (9, 2)
    seeds = read(WINE, "seed=5", "folds.seed=6")
    assert (seeds.split_seed, seeds.folds_seed) == (5, 6)
    # A mapping is one value.
    text = WINE + "strategy: {params: {n_swarms: 2}}"
    assert read(text, "strategy.params={}").strategy.params == {}
    assert read(WINE, env={"SWARM_MODEL__PARAMS": "{C: 1}"}).model.params == {"C": 1}


def test_values_of_overrides_are_yaml_and_exponents_are_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = read(WINE, "data.drop=[a, b]", "model.params.learning_rate=1e-3", "scoring=")
    assert (config.data.drop, config.scoring) == (["a", "b"], None)
    assert config.model.params == {"learning_rate": 0.001}
    monkeypatch.setenv("SWARM_SEED", "11")
    assert from_yaml(WINE).seed == 11
    # Variables that share the prefix by chance are ignored.
    env = {"SWARM_PORT": "tcp://10.0.0.1:80", "SWARM_TEST": "1", "PATH": "x"}
    assert read(WINE, env=env) == read(WINE)


def test_a_plus_appends_to_the_list_of_the_file_or_to_none() -> None:
    text = WINE.replace("name: wine", "name: wine, drop: [a]")
    config = read(text, "data.drop+=b", "data.drop+=[c, d]", "space.forbidden+=e")
    assert config.data.drop == ["a", "b", "c", "d"]
    assert config.space.forbidden == ["e"]


def test_null_turns_off_what_may_be_off_and_an_empty_section_means_its_defaults() -> None:
    off = read(WINE + "confirm: null\n")
    assert (off.confirm, read(WINE).confirm is None) == (None, False)
    assert read(as_yaml(off)) == off
    assert read(WINE + "budget:\n  # epochs: 5\n") == read(WINE)


def test_variables_in_addresses_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "hidden")
    url = "postgresql://me:${PW}@host/db"
    config = read(WINE, f"archive.url={url}", env=dict(os.environ))
    assert config.archive.url == url
    assert "hidden" not in as_yaml(config)


def test_an_existing_file_wins_over_the_one_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("conf/default.yaml", env={}).name == "breast_cancer"
    (tmp_path / "default.yaml").write_text(WINE)
    assert load("default.yaml", env={}).name == "a"
    (tmp_path / "default").mkdir()
    assert load("default", env={}).name == "breast_cancer"


# ---------------------------------------------------------------- what is refused, in one sentence

# Configurations, options and variables that are refused, and what the sentence names.
REFUSED = {
    "": ["conf/x.yaml"],
    "a: 1\nb: [": ["conf/x.yaml, line 2"],
    "name: a": ["'data'"],
    "name: a b\ndata: {source: bundled, name: wine}": ["name", "'a b'"],
    "name: a\ndata: {source: fil}": ["data.source", "'fil'", "'file'?"],
    "name: a\ndata: {source: uci}": ["'uci'", "data.name"],
    "name: a\ndata: {source: bundled, name: wine, csv: {decimal: ','}}": ["data.csv", "'bundled'"],
    "name: a\ndata: {source: sql, url: 'postgresql://u:pw@h/d', query: q, target: t}": ["data.url"],
    "name: a\ndata: {source: file, path: t, target: y, group: y}": ["data.group", "'y'", "target"],
    "name: a\ndata: {source: file, path: t, target: y, drop: [y]}": ["data.drop", "'y'", "target"],
    WINE + "data: {source: uci}": ["'data'", "line 3"],
    WINE + "epochs: 3": ["'epochs'", "'budget.epochs'?"],
    WINE + "prepare: {zzz: 1}": ["'prepare.zzz'", "n_clusters"],
    WINE + "a: 1\nbudget: {epochs: 0}\nsplit: 3": ["'a'", "description"],
    WINE + "budget: {seconds: .inf}": ["budget.seconds", "inf"],
    WINE + "split: 3": ["split", "got 3", "test_size"],
    WINE + "space: {fixed: a}": ["space.fixed", "[a]"],
    WINE + "space: {min_size: 3, max_size: 2}": ["space.max_size", "space.min_size", "got 2"],
    WINE + "space: {fixed: [a, g], forbidden: [b], groups: {g: [b, c]}}": ["'g'", "'b'"],
    WINE + "folds: {kind: column}": ["'column'", "folds.column"],
    WINE + "folds: {column: part}": ["folds.column", "kind 'column'"],
    "name: x\ndata: {source: file, path: x.csv, target: y, part: part}": [
        "data.part",
        "split kind 'column'",
    ],
    WINE + "model: {estimator: sklearn.nope.X}": ["'sklearn.nope.X'"],
    WINE + "model: {estimator: sklearn.decomposition.PCA}": ["PCA", "predict"],
    WINE + "model: {estimator: sklearn.svm.SVC}\nensemble: {vote: soft}": ["SVC", "'hard'"],
    WINE + "ensemble: {vote: mean}": ["ensemble.vote", "'mean'", "LGBMClassifier"],
    WINE + "mute: [SWM117]": ["SWM117"],
    WINE + "evaluation: {timeout_seconds: 5, backend: threading}": [
        "timeout_seconds 5",
        "'threading'",
    ],
    WINE + "evaluation: {address: 'tcp://h:1'}": ["evaluation.address", "'tcp://h:1'", "'loky'"],
    WINE + "strategy: {params: {velocity_bound: -1.0}}": [
        "'multiswarm'",
        "velocity_bound",
        "-1.0",
    ],
    WINE
    + "model: {estimator: sklearn.neighbors.KNeighborsClassifier, params: {n_neighbors: -3}}": [
        "model.params.n_neighbors",
        "got -3",
    ],
    WINE + "proxy: {params: {n: 2}}\nmodel: {estimator: sklearn.naive_bayes.GaussianNB}": [
        "'proxy.params.n'",
        "var_smoothing",
    ],
    WINE + "schedule: {cron: '61 4 * * 1'}": ["schedule.cron", "61 4 * * 1"],
    WINE + "schedule: {cron: '0 4 * * 1', timezone: Berlin}": ["schedule.timezone", "Berlin"],
    WINE + "schedule: {timezone: UTC}": ["'schedule.cron'"],
    WINE + "a: " + "[" * 1000: ["conf/x.yaml"],
    "--set x": ["--set 'x'"],
    "--set name.x=1": ["--set name.x", "'name'", "'a'"],
    "--set seed=null": ["--set seed", "null"],
    "--set name+=b": ["--set name", "'a'"],
    "--set space.fixed+={a: 1}": ["--set space.fixed", "space.fixed"],
    "--set budget.epochs=many": ["budget.epochs", "'many' in --set budget.epochs"],
    "--set union_at_most=1": ["'ensemble.union_at_most'?"],
    "--set model.estimator=lightgbm.LGBMClasifier": ["LGBMClasifier", "'LGBMClassifier'?"],
    "--set model.params={num_leavs: 4}": ["num_leavs", "'num_leaves'?"],
    "--set strategy.name=multiswarn": ["multiswarn", "'multiswarm'?"],
    "--set strategy.params={n_swarm: 3}": ["n_swarm", "'n_swarms'?"],
    "--set scoring=recal": ["recal", "'recall'"],
    "--set test.metrics=[f1_macr]": ["f1_macr", "'f1_macro'?"],
    "--set evaluation.backend=luky": ["luky", "'loky'?"],
    "--set mute=[SWM1112]": ["SWM1112", "'SWM112'?"],
    "SWARM_BUDGT__EPOCHS": ["'budgt' in SWARM_BUDGT__EPOCHS", "'budget'?"],
    "SWARM_SEED": ["seed", "'x' in SWARM_SEED"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence_with_its_key_its_value_and_the_nearest_name(case: str) -> None:
    if case.startswith("--set "):
        sentence = refusal(WINE, case.removeprefix("--set "))
    elif case.startswith("SWARM_"):
        sentence = refusal(WINE, env={case: "x"})
    else:
        sentence = refusal(case)
    assert all(words in sentence for words in REFUSED[case]), sentence


def test_every_misspelt_key_is_answered_with_the_nearest() -> None:
    keys = [key for key in flatten(read(WINE)) if key.count(".") < 2]
    for key in keys:
        wrong = f"{key[:-1]}{key[-1] * 2}"
        sentence = refusal(WINE, f"{wrong}=1")
        assert f"--set {wrong}" in sentence
        assert f"'{key}'" in sentence


SCHEMA = SelectConfig.model_json_schema()
BOUNDS = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1, "exclusiveMaximum": 0}


def out_of_bounds(
    node: dict[str, Any], *path: str
) -> Iterator[tuple[str, int | float, int | float]]:
    """Yield each key of the schema with a bound, the bound, and a value beyond it."""
    node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    for option in node.get("anyOf", []):
        yield from out_of_bounds(option, *path)
    for key, value in node.get("properties", {}).items():
        yield from out_of_bounds(value, *path, key)
    # A value above 1 is a number of columns, one below it a share.
    if path == ("ensemble", "union_at_most") and node.get("type") == "number":
        return
    for bound in BOUNDS.keys() & node:
        yield ".".join(path), node[bound], node[bound] + BOUNDS[bound]


def test_a_value_beyond_any_bound_is_refused_by_its_key_the_bound_and_the_value() -> None:
    cases = list(out_of_bounds(SCHEMA))
    assert len(cases) > 50
    for key, bound, value in cases:
        sentence = refusal(WINE, "proxy.params={max_bin: 7}", f"{key}={value}")
        assert sentence.startswith(f"{key} ")
        assert f" {bound:.10g}" in sentence
        assert f"got {value} in --set {key}" in sentence


@pytest.mark.parametrize(
    "override",
    [
        "tracking.uri=https://me:hunter2@host",
        "data.path=https://host/t.csv?token=hunter2",
        "name=postgresql://me:hunter2@host/db",
        "archive=postgresql://me:hunter2@host/db",
        "postgresql://me:hunter2@host/db",
    ],
)
def test_no_error_shows_a_password(override: str) -> None:
    assert "hunter2" not in refusal(WINE, override)


def test_a_file_that_is_missing_or_not_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    for file, words in (
        ("defualt", "'defualt'.*'default'"),
        ("nowhere/at_all.yaml", "nowhere/at_all.yaml"),
        (tmp_path / "x.yaml", r"x\.yaml.*UTF-8"),
    ):
        with pytest.raises(ConfigError, match=words):
            load(file, env={})


# ---------------------------------------------------------------- estimators


def test_any_native_parameter_of_lightgbm_is_legal() -> None:
    config = read(WINE, "model.params={min_data_in_leaf: 3, num_leaf: 4}")
    check(config)
    assert build_estimator(config.model).get_params()["min_data_in_leaf"] == 3


@pytest.mark.parametrize(("working", "folder"), [("here", "away"), ("away", "here")])
def test_an_allowed_package_is_found_beside_the_command_or_the_configuration(
    working: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("here", "away"):
        (tmp_path / name).mkdir()
    file = tmp_path / folder / "own.yaml"
    monkeypatch.chdir(tmp_path / working)
    name = f"beside_{working}"
    code = "from sklearn.naive_bayes import GaussianNB\nclass Mine(GaussianNB): pass\n"
    (tmp_path / "here" / f"{name}.py").write_text(code)
    model = f"model: {{estimator: {name}.Mine, allow: ALLOW}}\n"
    before = list(sys.path)
    file.write_text(WINE + model.replace("ALLOW", "[]"))
    with pytest.raises(ConfigError, match=r"model\.allow"):
        check(load(file))
    assert sys.path == before
    file.write_text(WINE + model.replace("ALLOW", f"[{name}]"))
    config = load(file)
    check(config)
    assert type(build_estimator(config.model)).__name__ == "Mine"
    # The folder is added last, so that no namesake replaces an installed package.
    assert sys.path[: len(before)] == before


# ---------------------------------------------------------------- written out again

texts = st.text(max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False)
    | texts
    | st.sampled_from(
        ["1e-3", "null", "yes", "1_000", "0x1f", "12:30", "2020-01-01", "~", "<<", "a\x85b\u2028"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(
    params=st.dictionaries(texts, values, max_size=4),
    drop=st.lists(st.text(min_size=1, max_size=10), max_size=3),
    seed=st.integers(0, 2**32 - 1),
    pos_label=st.none() | st.booleans() | st.integers() | texts,
    seconds=st.none() | st.floats(1e-9, 1e9),
)
def test_any_configuration_written_as_yaml_is_read_back_the_same(
    params: dict[str, Any], drop: list[str], seed: int, pos_label: Any, seconds: float | None
) -> None:
    config = SelectConfig.model_validate(
        {
            "name": "a",
            "seed": seed,
            "pos_label": pos_label,
            "data": {"source": "bundled", "name": "wine", "drop": drop},
            "model": {"params": params},
            "budget": {"seconds": seconds},
        }
    )
    text = as_yaml(config)
    again = from_yaml(text, env={})
    assert again == config
    # Texts are compared, so that 1 differs from true.
    assert as_yaml(again) == text


def test_every_key_or_its_section_has_a_description_in_the_schema() -> None:
    sections = {f"#/$defs/{name}": section for name, section in SCHEMA["$defs"].items()}

    def described(entry: dict[str, Any]) -> bool:
        options = [entry, *entry.get("anyOf", [])]
        return any(
            sections.get(option.get("$ref"), option).get("description") for option in options
        )

    objects = [section for section in (SCHEMA, *sections.values()) if "properties" in section]
    for section in objects:
        properties = section["properties"]
        assert [key for key, entry in properties.items() if not described(entry)] == []
    assert all(section["additionalProperties"] is False for section in objects)


# ---------------------------------------------------------------- what ships


@pytest.mark.parametrize("name", shipped())
def test_what_ships_is_fine_obeys_its_schema_and_reads_back(name: str) -> None:
    config = load(name, env={})
    check(config)
    assert from_yaml(as_yaml(config), env={}) == config
    schema = type(config).model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(config.model_dump(mode="json", by_alias=True), schema)
