"""The configuration: where values come from, what is refused and how, what ships."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier

from conf.check import LIGHTGBM_MODELS, LIGHTGBM_PARAMETERS, SCORERS, check
from conf.estimator import build_estimator
from conf.later_keys import earlier_values, later_values, without_later_keys
from conf.load import (
    as_yaml,
    flatten,
    from_yaml,
    json_schema,
    load,
    render,
    shipped,
)
from conf.schema import CompareConfig, SelectConfig
from conf.sections import ModelSection
from swarm.errors import ConfigError
from swarm.problem.scoring import scorer_names
from swarm.validation.metrics import metric_names

WINE = "name: a\ndata: {source: bundled, name: wine}\n"


def read(text: str, *overrides: str, env: dict[str, str] | None = None) -> SelectConfig:
    return from_yaml(text, "conf/x.yaml", overrides, env or {})


def refusal(text: str, *overrides: str, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check(read(text, *overrides, env=env))
    return str(caught.value)


def is_one_sentence(text: str) -> bool:
    return "\n" not in text and ". " not in text and not text.endswith(".") and text == text.strip()


# ---------------------------------------------------------------- where a value comes from


def test_set_wins_over_environment_over_file_over_default_key_by_key() -> None:
    env = {"SWARM_BUDGET__EPOCHS": "7"}
    text = WINE + "budget: {epochs: 5, patience: 2}"
    assert read(WINE).budget.epochs == 30
    assert read(text).budget.epochs == 5
    assert read(text, env=env).budget.epochs == 7
    last = read(text, "budget.epochs=8", "budget.epochs=9", env=env).budget
    assert (last.epochs, last.patience) == (9, 2)
    # A mapping is one value.
    text = WINE + "strategy: {params: {n_swarms: 2}}"
    assert read(text, "strategy.params={}").strategy.params == {}
    assert read(WINE, env={"SWARM_MODEL__PARAMS": "{C: 1}"}).model.params == {"C": 1}


def test_values_of_overrides_are_yaml_and_exponents_are_numbers() -> None:
    config = read(WINE, "data.drop=[a, b]", "model.params.learning_rate=1e-3", "scoring=")
    assert config.data.drop == ["a", "b"]
    assert config.model.params == {"learning_rate": 0.001}
    assert config.scoring is None


def test_the_process_environment_is_the_default_and_other_uses_of_the_prefix_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWARM_SEED", "11")
    assert from_yaml(WINE).seed == 11
    others = {"SWARM_PORT": "tcp://10.0.0.1:80", "SWARM_TEST": "1", "PATH": "x"}
    assert read(WINE, env=others) == read(WINE)


@pytest.mark.parametrize("key", ["split", "budget", "folds", "seed"])
def test_an_override_by_null_is_refused_where_null_has_no_meaning(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be .*, got null in --set {key}"):
        load("default", [f"{key}=null"], env={})


def test_null_turns_a_section_off_and_an_empty_one_means_its_defaults() -> None:
    off = read(WINE + "confirm: null\n")
    assert off.confirm is None
    assert read(WINE).confirm is not None
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
    names = [load(path, env={}).name for path in ("default", "default.yaml", "conf/default.yaml")]
    assert names == ["breast_cancer"] * 3
    (tmp_path / "default.yaml").write_text(WINE)
    assert load("default.yaml", env={}).name == "a"
    (tmp_path / "default").mkdir()
    assert load("default", env={}).name == "breast_cancer"


# ---------------------------------------------------------------- what is refused, in one sentence

# Whole configurations, and keys below those of a small one.
REFUSED = {
    "": "conf/x.yaml must be a mapping of keys such as 'name: mine', got nothing",
    "- a": "conf/x.yaml must be a mapping of keys such as 'name: mine', got a list",
    "a: 1\nb: [": "cannot read conf/x.yaml, line 2: expected the node content, but found '<stream"
    " end>'; correct it so that it is YAML",
    "a: !!python/name:os.system": "cannot read conf/x.yaml, line 1: could not determine a"
    " constructor for the tag 'tag:yaml.org,2002:python/name:os.system'; correct it so that it is"
    " YAML",
    "name: a": "key 'data' is missing from conf/x.yaml; add it (The table and the roles of its"
    " columns)",
    "name: a b\ndata: {source: bundled, name: wine}": "name must be letters, digits, '.', '_' or"
    " '-', got 'a b' in conf/x.yaml",
    "name: x\ndata: {source: file, path: x, target: y, time: t, horizon: 2000000000}": ""
    "data.horizon must be at most 1000000000, got 2000000000 in conf/x.yaml",
    "name: 3\ndata: {source: bundled, name: wine}": "name must be text, got 3 in conf/x.yaml; put"
    " it in quotes",
    "name: a\ndata: {source: fil}": "data.source must be 'bundled', 'file', 'uci' or 'sql', got"
    " 'fil' in conf/x.yaml; did you mean 'file'?",
    "name: a\ndata: {source: uci}": "data.source 'uci' needs a data set; set data.id or data.name",
    "name: a\ndata: {source: bundled}": "data.source 'bundled' needs data.name; set it",
    "name: a\ndata: {source: bundled, name: wine, csv: {decimal: ','}}": "data.csv is for source"
    " file, got source 'bundled'; remove it",
    "name: a\ndata: {source: sql, url: u}": "data.source 'sql' needs data.query and data.target;"
    " set them",
    "name: a\ndata: {source: file, path: t.csv, target: 3}": "data.target must be text or a list,"
    " got 3 in conf/x.yaml; write [3]",
    "name: a\ndata: {source: sql, url: 'postgresql://u:pw@h/d', query: q, target: t}": "data.url"
    " holds a password or a token; write ${NAME} in its place and set the environment variable"
    " NAME",
    "name: a\ndata: {source: file, path: t.csv, target: y, group: y}": "column 'y' is both"
    " data.target and data.group; remove it from one of them",
    "name: a\ndata: {source: file, path: t.csv, target: y, drop: [y]}": "column 'y' is both"
    " data.target and in data.drop; remove it from data.drop",
}
_CRON = (
    "schedule.cron must be five fields (minute, hour, day of month, month, day of week) such as"
    " '0 4 * * 1' for Mondays at 4"
)
REFUSED_KEYS = {
    "data: {source: uci}": "key 'data' occurs twice in conf/x.yaml, line 3; keep one of them",
    "budgt: 3": "unknown key 'budgt' in conf/x.yaml; did you mean 'budget'?",
    "epochs: 3": "unknown key 'epochs' in conf/x.yaml; did you mean 'budget.epochs'?",
    "tracking: {registr: true}": "unknown key 'tracking.registr' in conf/x.yaml; did you mean"
    " 'tracking.register'?",
    "prepare: {zzz: 1}": "unknown key 'prepare.zzz' in conf/x.yaml; known keys are n_clusters",
    "a: 1\nbudget: {epochs: 0}\nsplit: 3": "unknown key 'a' in conf/x.yaml; known keys are name,"
    " description, seed, data, split, model, scoring, pos_label, folds, space, prepare, strategy,"
    " warm, budget, evaluation, proxy, prefilter, confirm, ensemble, test, tracking, archive,"
    " retries, mute, schedule (and 2 more)",
    "1: 2": "key '1' in conf/x.yaml is not text; put it in quotes",
    "seed: true": "seed must be a whole number, got true in conf/x.yaml",
    "budget: {epochs: 0}": "budget.epochs must be at least 1, got 0 in conf/x.yaml",
    "budget: {epochs: null}": "budget must limit epochs, evaluations, distinct, fits or seconds,"
    " got null for all of them; set one, such as budget.epochs to 30",
    "budget: {seconds: .inf}": "budget.seconds must be a finite number, got inf in conf/x.yaml",
    "split: 3": "split must be a mapping of keys, got 3 in conf/x.yaml; its keys are kind,"
    " test_size, seed, gap, max_train_size",
    "evaluation: {n_jobs: 0}": "evaluation.n_jobs must be at least 1 or -1, got 0 in conf/x.yaml",
    "space: {fixed: a}": "space.fixed must be a list, got 'a' in conf/x.yaml; write [a]",
    "space: {min_size: 3, max_size: 2}": "space.max_size must be at least space.min_size 3, got 2",
    "folds: {kind: column}": "folds.kind 'column' needs folds.column; set it to the column with"
    " the folds",
    "split: {kind: group}": "split.kind 'group' needs data.group, which is null; set it to a"
    " column",
    "folds: {kind: time}": "folds.kind 'time' needs data.time, which is null; set it to a column",
    "space: {fixed: [a, g], forbidden: [b], groups: {g: [b, c]}}": "space.fixed and"
    " space.forbidden both cover 'b', by 'g' and 'b'; remove it from one of them",
    "model: {estimator: foo}": "model.estimator must be a dotted Python name, got 'foo' in"
    " conf/x.yaml",
    "model: {estimator: os.system}": "model.estimator 'os.system' is outside sklearn, lightgbm,"
    " swarm; add its package to model.allow if you trust it",
    "model: {estimator: sklearn.nope.X}": "model.estimator 'sklearn.nope.X' cannot be imported,"
    " ModuleNotFoundError: No module named 'sklearn.nope'; correct the path or install its package",
    "model: {estimator: lightgbm.LGBMClasifier}": "model.estimator 'lightgbm.LGBMClasifier' is"
    " not a class of lightgbm; did you mean 'LGBMClassifier'?",
    "model: {estimator: sklearn.decomposition.PCA}": "model.estimator 'sklearn.decomposition.PCA'"
    " has no fit, predict and get_params; name a classifier or regressor that follows scikit-learn",
    "model: {estimator: sklearn.cluster.KMeans}": "model.estimator 'sklearn.cluster.KMeans' is"
    " neither a classifier nor a regressor compatible with scikit-learn; name one that is",
    "ensemble: {vote: mean}": "ensemble.vote 'mean' needs a regressor, got the classifier"
    " lightgbm.LGBMClassifier; set it to 'hard', 'soft', 'any' or 'auto'",
    "model: {estimator: sklearn.svm.SVC}\nensemble: {vote: soft}": "ensemble.vote 'soft' needs"
    " probabilities, which sklearn.svm.SVC with these model.params does not provide; set it to"
    " 'hard'",
    "model: {estimator: lightgbm.LGBMRegressor}\nensemble: {vote: any}": "ensemble.vote 'any'"
    " needs a classifier, got the regressor lightgbm.LGBMRegressor; set it to 'mean' or 'auto'",
    "model: {estimator: lightgbm.LGBMRegressor}\nfolds: {kind: stratified}": "folds.kind"
    " 'stratified' needs a classifier,"
    " got the regressor lightgbm.LGBMRegressor; set it to 'random'",
    "mute: [SWM1112]": "unknown finding 'SWM1112' in mute; did you mean 'SWM112'?;"
    " codes are listed in docs/findings.md",
    "mute: [SWM117]": "finding SWM117 (Text column without a role) is an error and cannot be"
    " muted; correct it",
    "space: {fixed: [x], forbidden: [x]}": "space.fixed and space.forbidden both cover 'x', by"
    " 'x'; remove it from one of them",
    "evaluation: {timeout_seconds: 5, backend: threading}": "evaluation.timeout_seconds 5 needs"
    " workers that can be killed and replaced, got evaluation.backend 'threading'; set it to"
    " 'loky', or the timeout to null",
    "evaluation: {address: 'tcp://h:1'}": "evaluation.address 'tcp://h:1' is for the backends"
    " dask and ray, got 'loky'; set evaluation.backend, or remove the address",
    "budget: {epochs: 1000000000000000000000}": "budget.epochs must be at most 1000000000, got"
    " 1000000000000000000000 in conf/x.yaml",
    "evaluation: {n_jobs: 1000000}": "evaluation.n_jobs must be at most 1024 or -1, got 1000000"
    " in conf/x.yaml",
    "evaluation: {timeout_seconds: 1.0e+30}": "evaluation.timeout_seconds must be at most 604800,"
    " got 1e+30 in conf/x.yaml",
    "strategy: {params: {velocity_bound: -1.0}}": "strategy 'multiswarm' cannot be created:"
    " velocity_bound must be > 0, got -1.0",
    "model: {params: {zzz: 4}}": "unknown parameter 'model.params.zzz' of"
    " lightgbm.LGBMClassifier; known are LightGBM's own parameters (model.params={}"
    " removes those of another model)",
    "model: {params: {num_leavs: 4}}": "unknown parameter 'model.params.num_leavs' of"
    " lightgbm.LGBMClassifier; did you mean 'num_leaves'?",
    "tracking: {uri: 'http://ann:s3cret@h:5000'}": "tracking.uri holds a password or a token;"
    " write ${NAME} in its place and set the environment variable NAME",
    "proxy: {params: {n_trees: 2}}\nmodel: {estimator: sklearn.naive_bayes.GaussianNB}": "unknown"
    " parameter 'proxy.params.n_trees' of sklearn.naive_bayes.GaussianNB; known are priors,"
    " var_smoothing (proxy.params={} removes those of another model)",
    "schedule: {cron: '61 4 * * 1'}": f"{_CRON}, got '61 4 * * 1'",
    "schedule: {cron: '0 0 4 * * 1'}": f"{_CRON}, got '0 0 4 * * 1'",
    "schedule: {cron: '0 4 * * 1', timezone: Europe/Berlinn}": "schedule.timezone must be a name of"
    " the time zone database, such as Europe/Berlin, got 'Europe/Berlinn'; did you mean"
    " 'Europe/Berlin'?",
    "schedule: {timezone: UTC}": "key 'schedule.cron' is missing from conf/x.yaml; add it (Cron"
    " expression: minute, hour, day of month, month and day of week; '0 4 * * 1' is every Monday at"
    " 4)",
    "evaluation: {device: cuda, exact: false}": "evaluation.device 'cuda' computes without models,"
    " which evaluation.exact turns off; remove one of them",
    "evaluation: {backend: luky}": "evaluation.backend must be 'loky', 'threading', 'sequential',"
    " 'dask' or 'ray', got 'luky' in conf/x.yaml; did you mean 'loky'?",
}


@pytest.mark.parametrize("text", [*REFUSED, *REFUSED_KEYS])
def test_bad_input_ends_in_one_sentence(text: str) -> None:
    expected = REFUSED.get(text) or REFUSED_KEYS[text]
    sentence = refusal(text if text in REFUSED else WINE + text)
    assert sentence == expected
    assert is_one_sentence(sentence)


SCHEMA = json_schema()
BOUNDS = {
    "minimum": ("at least", -1),
    "exclusiveMinimum": ("above", 0),
    "maximum": ("at most", 1),
    "exclusiveMaximum": ("below", 0),
}


def beyond(node: dict[str, Any], *path: str) -> Iterator[tuple[str, str, int | float]]:
    """Each key of the schema with a bound, the bound in words, and a value beyond it."""
    node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    for part in node.get("anyOf", []):
        yield from beyond(part, *path)
    for key, value in node.get("properties", {}).items():
        yield from beyond(value, *path, key)
    # Above 1 it is a number of columns, below it a share.
    if path == ("ensemble", "union_at_most") and node.get("type") == "number":
        return
    for bound in BOUNDS.keys() & node:
        words, step = BOUNDS[bound]
        yield ".".join(path), f"{words} {node[bound]:.10g}", node[bound] + step


@pytest.mark.parametrize(("key", "words", "value"), sorted(beyond(SCHEMA)))
def test_every_bound_of_the_schema_is_told(key: str, words: str, value: float) -> None:
    sentence = refusal(WINE, "proxy.params={}", f"{key}={value}")
    assert sentence.startswith(f"{key} must be {words}")
    assert f", got {value} in --set {key}" in sentence
    assert is_one_sentence(sentence)


NEIGHBOURS = WINE + "model: {estimator: sklearn.neighbors.KNeighborsClassifier, params: {%s}}"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (WINE + "scoring: recal", "unknown scorer 'recal' in scoring; did you mean 'recall'?", ""),
        (WINE + "strategy: {name: multiswarn}", "unknown strategy 'multiswarn' (there are "
         "ant_colony, bee_colony, ", "; did you mean 'multiswarm'?"),
        (WINE + "strategy: {params: {n_swarm: 3}}", "unknown parameter 'n_swarm' of strategy "
         "'multiswarm' (it has n_particles, n_swarms, ", "; did you mean 'n_swarms'?"),
        (WINE + "scoring: zzz", "unknown scorer 'zzz' in scoring; name one of scikit-learn's, such "
         "as accuracy, average_precision, ", "f1_micro"),
        (WINE + "test: {metrics: [f1_macr]}", "unknown scorer 'f1_macr' in test.metrics",
         "; did you mean 'f1_macro'?"),
        (NEIGHBOURS % "n_neighbours: 3", "unknown parameter 'model.params.n_neighbours' of "
         "sklearn.neighbors.KNeighborsClassifier", "; did you mean 'n_neighbors'?"),
        (NEIGHBOURS % "n_neighbors: -3", "model.params.n_neighbors must be an int", ", got -3"),
        (WINE + "a: " + "[" * 3000, "cannot read conf/x.yaml: ", "correct it so that it is YAML"),
    ],
)  # fmt: skip
def test_sentences_that_quote_others_stay_one_sentence(text: str, start: str, end: str) -> None:
    sentence = refusal(text)
    assert sentence.startswith(start)
    assert sentence.endswith(end)
    assert is_one_sentence(sentence)


@pytest.mark.parametrize(
    ("overrides", "env", "sentence"),
    [
        (["x"], {}, "--set 'x' has no key and value; write it as section.key=value"),
        (["a..b=1"], {},
         "--set 'a..b=1' has no key and value; write it as section.key=value"),
        (["name.x=1"], {},
         "--set name.x goes below 'name', which is 'a' and has no keys; set 'name' itself"),
        (["budget.epochs=many"], {},
         "budget.epochs must be a whole number, got 'many' in --set budget.epochs"),
        (["budget.epoch=1"], {},
         "unknown key 'budget.epoch' in --set budget.epoch; did you mean 'budget.epochs'?"),
        ([], {"SWARM_BUDGT__EPOCHS": "1"},
         "unknown key 'budgt' in SWARM_BUDGT__EPOCHS; did you mean 'budget'?"),
        ([], {"SWARM_SEED": "x"}, "seed must be a whole number, got 'x' in SWARM_SEED"),
    ],
)  # fmt: skip
def test_a_bad_override_is_named_by_where_it_was_given(
    overrides: list[str], env: dict[str, str], sentence: str
) -> None:
    assert refusal(WINE, *overrides, env=env) == sentence
    assert is_one_sentence(sentence)


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
    ships = "compare, default, musk, musk_fast, musk_grouped, refresh"
    with pytest.raises(ConfigError) as caught:
        load("defualt", env={})
    assert str(caught.value) == (
        f"configuration 'defualt' is neither a file nor a shipped configuration, {ships};"
        " did you mean 'default'?"
    )
    with pytest.raises(ConfigError, match=r"shipped .*; give the path of a YAML file$"):
        load("nowhere/at_all.yaml", env={})
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"x\.yaml: it is not UTF-8 text; give a readable"):
        load(tmp_path / "x.yaml", env={})


# ---------------------------------------------------------------- estimators


def test_any_native_parameter_of_lightgbm_is_legal() -> None:
    config = read(WINE, "model.params={min_data_in_leaf: 3, num_leaf: 4}")
    check(config)
    assert build_estimator(config.model).get_params()["min_data_in_leaf"] == 3


@pytest.mark.parametrize("estimator", LIGHTGBM_MODELS)
def test_names_that_are_believed_without_an_import_are_right(estimator: str) -> None:
    """A name that a supported version lacks would be accepted and fail in the search."""
    params = dict.fromkeys(LIGHTGBM_PARAMETERS)
    built: Any = build_estimator(ModelSection(estimator=estimator, params=params))
    assert is_classifier(built) == LIGHTGBM_MODELS[estimator]
    assert hasattr(built, "predict_proba") == LIGHTGBM_MODELS[estimator]
    assert set(scorer_names()) >= SCORERS
    assert set(metric_names()) >= SCORERS


def test_an_allowed_package_opens_itself_and_not_its_namesakes() -> None:
    outside = "model.estimator=tests.test_config.Nothing"
    allowed = refusal(WINE, outside, "model.allow=[tests]")
    assert "is not a class of tests.test_config" in allowed
    assert "is outside" in refusal(WINE, outside, "model.allow=[test]")
    assert "is outside" in refusal(WINE, outside, "model.allow=[tests.test_conf]")


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
names = st.text("abcdefghijk_", min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
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
    # As text, so that 1 differs from true.
    assert as_yaml(again) == text


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(names, scalars, max_size=3), st.integers(1, 99), st.floats(0.01, 0.99))
def test_any_override_arrives_and_the_last_one_wins(
    params: dict[str, Any], epochs: int, size: float
) -> None:
    given_params = [f"strategy.params.{key}={render(value)}" for key, value in params.items()]
    config = read(
        WINE, "budget.epochs=100", *given_params, f"split.test_size={size!r}",
        f"budget.epochs={epochs}",
    )  # fmt: skip
    assert config.strategy.params == params
    assert (config.budget.epochs, config.split.test_size) == (epochs, size)


def test_every_key_has_a_description_in_the_schema() -> None:
    schema = json_schema()
    objects = [schema, *schema["$defs"].values()]
    bare = [
        (each.get("title"), key)
        for each in objects
        for key, value in each.get("properties", {}).items()
        if not value.get("description")
    ]
    assert bare == []
    assert all(each["additionalProperties"] is False for each in objects if "properties" in each)
    assert "register" in schema["$defs"]["TrackingSection"]["properties"]


def test_seeds_that_are_not_given_are_the_top_one() -> None:
    config = read(WINE, "seed=5", "folds.seed=6")
    assert (config.split_seed, config.folds_seed) == (5, 6)
    asked = [read(WINE, f"tracking.register={value}") for value in ("false", "auto", "true")]
    assert [each.tracking.register for each in (read(WINE), *asked)] == [False, False, True, True]


# ---------------------------------------------------------------- what ships


@pytest.mark.parametrize("name", shipped())
def test_what_ships_is_fine_obeys_its_schema_and_reads_back(name: str) -> None:
    config = load(name, env={})
    check(config)
    assert from_yaml(as_yaml(config), env={}) == config
    schema = json_schema(type(config))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(config.model_dump(mode="json", by_alias=True), schema)


def test_musk_is_the_worked_example_of_document_000() -> None:
    values = flatten(load("musk", env={}))
    example = flatten(
        yaml.safe_load("""
        data: {source: uci, id: 75}
        split: {kind: random, test_size: 0.3}
        model:
          estimator: lightgbm.LGBMClassifier
          params: {objective: binary, num_leaves: 16, n_estimators: 100, learning_rate: 0.1,
                   random_state: 42, importance_type: gain, verbosity: -1}
        scoring: recall
        folds: {kind: stratified, n_folds: 5, shuffle: true}
        prepare: {n_clusters: 50}
        strategy:
          name: multiswarm
          params: {n_particles: 16, n_swarms: 4, step: bpso, inertia: 0.5, c1: 0.5, c2: 0.5,
                   regroup_every: 10, n_extra: 1, local_search_prob: 0.5, init: clusters}
        budget: {epochs: 100}
        ensemble: {n_models: 8, vote: any}
    """)
    )
    assert {key: values[key] for key in example} == example
    given_params = {key for key in values if key.startswith(("model.params.", "strategy.params."))}
    assert given_params <= set(example)


def test_musk_grouped_differs_from_musk_by_the_molecules_only() -> None:
    one, other = flatten(load("musk", env={})), flatten(load("musk_grouped", env={}))
    assert [key for key in one if one[key] != other[key]] == [
        "name", "description", "data.group", "split.kind", "folds.kind",
    ]  # fmt: skip


def test_the_comment_in_musk_points_it_to_a_local_copy() -> None:
    local = ["data.source=file", "data.path=m.parquet", "data.target=target", "data.group=group"]
    for name in ("musk", "musk_grouped"):
        config = load(name, local, env={})
        check(config)
        assert (config.data.source, config.data.group) == ("file", "group")


# ---------------------------------------------------------------- keys that came later


_DATA = {"source": "bundled", "name": "wine"}


def test_every_later_key_exists_and_has_its_value_by_default():
    select = flatten(SelectConfig.model_validate({"name": "a", "data": _DATA}))
    compare = CompareConfig.model_validate(
        {"name": "a", "datasets": {"a": {"data": _DATA}}, "strategies": {"random": {}}}
    )
    defaults = {**flatten(compare), **select}
    # A table that is not wide is searched alike with the default and with what it replaced.
    before = {key: value for key, value in later_values().items() if key != "prefilter"}
    assert {key: defaults[key] for key in before} == before
    assert defaults["prefilter.when"] == "auto"
    assert later_values()["prefilter"] is None


def test_a_later_key_is_left_out_only_at_its_value():
    config = SelectConfig.model_validate(
        {"name": "a", "data": {**_DATA, "dates": {"signed": None}}, "folds": {"repeats": 2}}
    )
    dumped = config.model_dump(mode="json")
    left = without_later_keys(dumped)
    assert left["data"]["dates"] == {"signed": None}
    assert left["folds"]["repeats"] == 2
    assert "csv" not in left["data"]
    assert "rotate" not in left["folds"]
    assert "prefilter" not in left
    assert "prefilter" not in without_later_keys({**dumped, "prefilter": None})
    assert "prefilter" in without_later_keys({**dumped, "prefilter": {"when": "auto", "least": 5}})
    # What was given is not changed.
    assert dumped["folds"]["rotate"] == 0


def test_a_stored_configuration_without_a_later_default_means_what_it_meant():
    stored = {"name": "a", "data": _DATA}
    assert earlier_values(stored) == ["prefilter=null"]
    assert earlier_values({**stored, "prefilter": None}) == []
    assert from_yaml(render(stored), "it", earlier_values(stored), {}).prefilter is None
    assert from_yaml(render(stored), "it", (), {}).prefilter.when == "auto"
