"""Tests of the configuration of a comparison: its meaning and its errors."""

from __future__ import annotations

import re

import pytest

from conf.load import load, load_as
from conf.schema import CompareConfig, SelectConfig
from swarm.errors import ConfigError
from tests.conf.test_config import read, refusal

WINE = """
name: a
datasets:
  wine: {data: {source: bundled, name: wine}}
strategies:
  random:
"""


def test_a_file_with_data_sets_is_a_comparison_and_any_other_is_not():
    assert isinstance(load("compare", env={}), CompareConfig)
    with pytest.raises(ConfigError, match="swarm compare compare"):
        load_as(SelectConfig, "compare")
    with pytest.raises(ConfigError, match="swarm select default"):
        load_as(CompareConfig, "default")


def test_a_bare_label_is_a_strategy_with_defaults_and_a_label_may_hide_another_name():
    config = read(WINE, "strategies.wide={name: random, params: {batch_size: 50}}")
    assert (config.strategy("random").name, config.strategy("random").params) == ("random", {})
    wide = config.strategy("wide")
    assert (wide.name, wide.params["batch_size"]) == ("random", 50)


def test_a_data_set_falls_back_to_the_top_sections():
    config = read(WINE, "datasets.wine.folds={n_folds: 4}", "folds.n_folds=7", "scoring=accuracy")
    assert read(WINE, "seeds=3").seed_list == [0, 1, 2]
    search = config.as_select("wine", "random", 5)
    assert (search.folds.n_folds, search.scoring) == (4, "accuracy")
    assert (search.seed, search.name) == (5, "wine-random-5")


@pytest.mark.parametrize(
    ("overrides", "folds", "split"),
    [
        ([], [0, 0, 0], [0, 0, 0]),
        (["folds.seed=4"], [4, 4, 4], [0, 0, 0]),
        (["split={kind: stratified, seed: 7}"], [0, 0, 0], [7, 7, 7]),
        # Each seed has other test rows.
        (["split={kind: stratified, seed: 7}", "resample=true"], [0, 0, 0], [7, 8, 11]),
    ],
)
def test_searches_share_their_folds_whatever_their_seed(overrides, folds, split):
    config = read(WINE, *overrides)
    searches = [config.as_select("wine", "random", seed) for seed in (0, 1, 4)]
    assert [search.folds_seed for search in searches] == folds
    assert [search.split_seed for search in searches] == split


def test_the_environment_sets_keys_of_a_comparison_and_not_those_of_a_select_run():
    env = {"SWARM_BUDGET__DISTINCT": "50", "SWARM_REFERENCE": "random", "SWARM_SEED": "3"}
    config = read(WINE, env=env)
    assert (config.budget.distinct, config.reference) == (50, "random")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sedes=3", "'sedes'.*'seeds'"),
        ("datasets.wine.folds.n_fold=3", "'datasets.wine.folds.n_folds'"),
        ("datasets.more={}", "'datasets.more.data'"),
        ("datasets={}", "datasets"),
        ("seeds=[]", "seeds"),
        ("seeds=[1, 2, 1]", "seeds.*1 twice"),
        ("strategies.random.params={batch: 3}", "strategies.random.*'batch'.*'batch_size'"),
        ("scoring=acuracy", "'wine'.*'acuracy'.*'accuracy'"),
        ("strategies.a/b={name: random}", "'a/b'"),
        ("strategies.Random={name: random}", "'random' and 'Random'"),
        ("reference=best", "reference.*'best'"),
        ("runner.address=tcp://127.0.0.1:8786", "runner.address.*'threads'"),
        ("resample=true", "resample.*split.kind"),
        ("resample=true; split={kind: time}; datasets.wine.data.time=x", "resample.*'time'"),
    ],
)
def test_bad_configurations_are_refused_by_their_key(override: str, words: str):
    assert re.search(words, refusal(WINE, *override.split("; ")))


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_task_runner_that_is_not_installed_says_what_to_install(kind: str, monkeypatch):
    monkeypatch.setattr("conf.check.find_spec", lambda name: None)
    text = refusal(WINE, f"runner.kind={kind}")
    assert f"pip install prefect-{kind}" in text
