"""The configuration: where values come from, what is refused and how, what ships."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conf.load import (
    SelectConfig,
    as_yaml,
    build_estimator,
    check,
    from_yaml,
    load,
)
from swarm.errors import ConfigError

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


def test_set_wins_over_environment_over_file_over_default() -> None:
    env = {"SWARM_BUDGET__EPOCHS": "7"}
    text = WINE + "budget: {epochs: 5}"
    assert read(WINE).budget.epochs == 30
    assert read(text).budget.epochs == 5
    assert read(text, env=env).budget.epochs == 7
    assert read(text, "budget.epochs=8", "budget.epochs=9", env=env).budget.epochs == 9


def test_an_override_leaves_the_other_keys_of_its_section() -> None:
    config = read(WINE + "budget: {epochs: 5, patience: 2}", "budget.epochs=6")
    assert (config.budget.epochs, config.budget.patience) == (6, 2)


def test_setting_a_mapping_replaces_it() -> None:
    text = WINE + "strategy: {params: {n_swarms: 2}}"
    assert read(text, "strategy.params={}").strategy.params == {}
    env = {"SWARM_MODEL__PARAMS": "{C: 1}"}
    assert read(WINE, env=env).model.params == {"C": 1}


def test_values_of_overrides_are_yaml_and_exponents_are_numbers() -> None:
    config = read(WINE, "data.drop=[a, b]", "model.params.learning_rate=1e-3", "scoring=")
    assert config.data.drop == ["a", "b"]
    assert config.model.params == {"learning_rate": 0.001}
    assert config.scoring is None


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_SEED", "11")
    assert from_yaml(WINE).seed == 11


def test_variables_of_others_with_the_same_prefix_are_left_alone() -> None:
    config = read(WINE, env={"SWARM_PORT": "tcp://10.0.0.1:80", "SWARM_TEST": "1", "PATH": "x"})
    assert config == read(WINE)


def test_a_section_with_nothing_in_it_means_its_defaults() -> None:
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

SQL = "name: a\ndata: {source: sql, url: '%s', query: q, target: t}"
FILE = "name: a\ndata: {source: file, path: t.csv, target: y, %s}"

REFUSED = {
    "": "conf/x.yaml must be a mapping of keys such as 'name: mine', got nothing",
    "- a": "conf/x.yaml must be a mapping of keys such as 'name: mine', got a list",
    "a: 1\nb: [": "cannot read conf/x.yaml, line 2: expected the node content, but found"
    " '<stream end>'; correct it so that it is YAML",
    "a: !!python/name:os.system": "cannot read conf/x.yaml, line 1: could not determine a"
    " constructor for the tag 'tag:yaml.org,2002:python/name:os.system';"
    " correct it so that it is YAML",
    WINE + "data: {source: uci}": "key 'data' occurs twice in conf/x.yaml, line 3;"
    " keep one of them",
    WINE + "budgt: 3": "unknown key 'budgt' in conf/x.yaml; did you mean 'budget'?",
    WINE + "epochs: 3": "unknown key 'epochs' in conf/x.yaml; did you mean 'budget.epochs'?",
    WINE + "tracking: {registr: true}": "unknown key 'tracking.registr' in conf/x.yaml;"
    " did you mean 'tracking.register'?",
    WINE + "prepare: {zzz: 1}": "unknown key 'prepare.zzz' in conf/x.yaml;"
    " known keys are n_clusters",
    WINE + "a: 1\nbudget: {epochs: 0}\nsplit: 3": "unknown key 'a' in conf/x.yaml; known keys"
    " are name, description, seed, data, split, model, scoring, pos_label, folds, space,"
    " prepare, strategy, budget, evaluation, proxy, ensemble, test, tracking, archive, retries,"
    " schedule (and 2 more)",
    "name: a": "key 'data' is missing from conf/x.yaml; add it (The table and the"
    " roles of its columns)",
    WINE + "1: 2": "key '1' in conf/x.yaml is not text; put it in quotes",
    "name: a b\ndata: {source: bundled, name: wine}": "name must be letters, digits, '.', '_' or"
    " '-', got 'a b' in conf/x.yaml",
    "name: 3\ndata: {source: bundled, name: wine}": "name must be text, got 3 in conf/x.yaml;"
    " put it in quotes",
    "name: a\ndata: {source: fil}": "data.source must be 'bundled', 'file', 'uci' or 'sql', got"
    " 'fil' in conf/x.yaml; did you mean 'file'?",
    WINE + "seed: true": "seed must be a whole number, got true in conf/x.yaml",
    WINE + "budget: {epochs: 0}": "budget.epochs must be at least 1, got 0 in conf/x.yaml",
    WINE + "budget: {epochs: null}": "budget must limit epochs, evaluations, distinct, fits or"
    " seconds, got null for all of them; set one, such as budget.epochs to 30",
    WINE + "budget: {seconds: .inf}": "budget.seconds must be a finite number, got inf in"
    " conf/x.yaml",
    WINE + "split: {test_size: 1}": "split.test_size must be below 1, got 1 in conf/x.yaml",
    WINE + "split: 3": "split must be a mapping of keys, got 3 in conf/x.yaml",
    WINE + "evaluation: {n_jobs: 0}": "evaluation.n_jobs must be at least 1 or -1, got 0 in"
    " conf/x.yaml",
    WINE + "space: {fixed: a}": "space.fixed must be a list, got 'a' in conf/x.yaml; write [a]",
    WINE + "space: {min_size: 3, max_size: 2}": "space.max_size must be at least space.min_size"
    " 3, got 2",
    WINE + "folds: {kind: column}": "folds.kind 'column' needs folds.column;"
    " set it to the column with the folds",
    "name: a\ndata: {source: uci}": "data.source 'uci' needs a data set; set data.id or data.name",
    "name: a\ndata: {source: bundled}": "data.source 'bundled' needs data.name; set it",
    "name: a\ndata: {source: sql, url: u}": "data.source 'sql' needs data.query and data.target;"
    " set them",
    "name: a\ndata: {source: file, path: t.csv, target: 3}": "data.target must be text or a list,"
    " got 3 in conf/x.yaml; write [3]",
    SQL % "postgresql://u:pw@h/d": "data.url holds a password or a token; write ${NAME} in its"
    " place and set the environment variable NAME",
    FILE % "group: y": "column 'y' is both data.target and data.group; remove it from one of them",
    FILE % "drop: [y]": "column 'y' is both data.target and in data.drop; remove it from data.drop",
    WINE + "split: {kind: group}": "split.kind 'group' needs data.group, which is null;"
    " set it to a column",
    WINE + "folds: {kind: time}": "folds.kind 'time' needs data.time, which is null;"
    " set it to a column",
    WINE + "space: {fixed: [a, g], forbidden: [b], groups: {g: [b, c]}}": "space.fixed and"
    " space.forbidden both cover 'b', by 'g' and 'b'; remove it from one of them",
    WINE + "model: {estimator: foo}": "model.estimator must be a dotted Python name, got 'foo' in"
    " conf/x.yaml",
    WINE + "model: {estimator: os.system}": "model.estimator 'os.system' is outside sklearn,"
    " lightgbm, swarm; add its package to model.allow if you trust it",
    WINE + "model: {estimator: sklearnx.A}": "model.estimator 'sklearnx.A' is outside sklearn,"
    " lightgbm, swarm; add its package to model.allow if you trust it",
    WINE + "model: {estimator: sklearn.nope.X}": "model.estimator 'sklearn.nope.X' cannot be"
    " imported, ModuleNotFoundError: No module named 'sklearn.nope'; correct the path or install"
    " its package",
    WINE + "model: {estimator: lightgbm.LGBMClasifier}": "model.estimator 'lightgbm.LGBMClasifier'"
    " is not a class of lightgbm; did you mean 'LGBMClassifier'?",
    WINE + "model: {estimator: sklearn.decomposition.PCA}": "model.estimator"
    " 'sklearn.decomposition.PCA' has no fit, predict and get_params; name a classifier or"
    " regressor that follows scikit-learn",
    WINE + "model: {estimator: sklearn.cluster.KMeans}": "model.estimator 'sklearn.cluster.KMeans'"
    " is neither a classifier nor a regressor compatible with scikit-learn; name one that is",
    WINE + "ensemble: {vote: mean}": "ensemble.vote 'mean' needs a regressor, got the classifier"
    " lightgbm.LGBMClassifier; set it to 'hard', 'soft', 'any' or 'auto'",
    WINE + "model: {estimator: sklearn.svm.SVC}\nensemble: {vote: soft}": "ensemble.vote 'soft'"
    " needs probabilities, which sklearn.svm.SVC with these model.params does not provide;"
    " set it to 'hard'",
    WINE + "model: {estimator: lightgbm.LGBMRegressor}\nensemble: {vote: any}": "ensemble.vote"
    " 'any' needs a classifier, got the regressor lightgbm.LGBMRegressor; set it to 'mean' or"
    " 'auto'",
    WINE + "model: {estimator: lightgbm.LGBMRegressor}": "folds.kind 'stratified' needs a"
    " classifier, got the regressor lightgbm.LGBMRegressor; set it to 'random'",
    WINE + "strategy: {params: {n_particles: 0}}": "strategy 'multiswarm' cannot be created:"
    " n_particles must be >= 1, got 0",
    WINE + "strategy: {params: {n_swarms: 17}}": "strategy 'multiswarm' cannot be created:"
    " n_swarms must be <= 16, got 17",
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_input_ends_in_one_sentence(text: str) -> None:
    sentence = refusal(text)
    assert sentence == REFUSED[text]
    assert is_one_sentence(sentence)


NEIGHBOURS = WINE + "model: {estimator: sklearn.neighbors.KNeighborsClassifier, params: {%s}}"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (WINE + "scoring: recal", "scoring must be one of accuracy, ", "did you mean 'recall'?"),
        (WINE + "strategy: {name: multiswarn}", "unknown strategy 'multiswarn' (there are "
         "ant_colony, bee_colony, ", "; did you mean 'multiswarm'?"),
        (WINE + "strategy: {params: {n_swarm: 3}}", "unknown parameter 'n_swarm' of strategy "
         "'multiswarm' (it has n_particles, n_swarms, ", "; did you mean 'n_swarms'?"),
        (WINE + "scoring: zzz", "scoring must be one of ", "got 'zzz'; choose one of them"),
        (WINE + "test: {metrics: [f1_macr]}", "test.metrics must be one of ",
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


def test_a_missing_configuration_is_named_with_those_that_ship() -> None:
    ships = "compare, default, musk, musk_fast, musk_grouped, refresh"
    with pytest.raises(ConfigError) as caught:
        load("defualt", env={})
    assert str(caught.value) == (
        f"configuration 'defualt' is neither a file nor a shipped configuration, {ships};"
        " did you mean 'default'?"
    )
    with pytest.raises(ConfigError, match=r"shipped .*; give the path of a YAML file$"):
        load("nowhere/at_all.yaml", env={})


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"x\.yaml: it is not UTF-8 text; give a readable"):
        load(file, env={})


# ---------------------------------------------------------------- estimators


def test_any_native_parameter_of_lightgbm_is_legal() -> None:
    config = read(WINE, "model.params={min_data_in_leaf: 3, num_leaf: 4}")
    check(config)
    assert build_estimator(config.model).get_params()["min_data_in_leaf"] == 3


def test_an_allowed_package_opens_itself_and_not_its_namesakes() -> None:
    outside = "model.estimator=tests.test_config.Nothing"
    allowed = refusal(WINE, outside, "model.allow=[tests]")
    assert "is not a class of tests.test_config" in allowed
    assert "is outside" in refusal(WINE, outside, "model.allow=[test]")
    assert "is outside" in refusal(WINE, outside, "model.allow=[tests.test_conf]")


def test_an_address_of_a_cluster_is_refused_where_none_is_used() -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.address 'tcp://h:1' is for the backends"):
        check(read(WINE, "evaluation.address=tcp://h:1"))
