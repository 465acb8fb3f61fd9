"""Claims on the configurations that ship."""

from __future__ import annotations

import pytest

from conf.load import (
    as_yaml,
    check,
    difference,
    flatten,
    from_yaml,
    load,
    shipped,
)

# ---------------------------------------------------------------- what ships


@pytest.mark.parametrize("name", shipped())
def test_what_ships_is_read_checked_and_written_back(name: str) -> None:
    config = load(name, env={})
    check(config)
    assert from_yaml(as_yaml(config), env={}) == config


def test_musk_is_the_worked_example_of_document_000() -> None:
    values = flatten(load("musk", env={}))
    example = {
        "data.source": "uci",
        "data.id": 75,
        "split.kind": "random",
        "split.test_size": 0.3,
        "model.estimator": "lightgbm.LGBMClassifier",
        "model.params.objective": "binary",
        "model.params.num_leaves": 16,
        "model.params.n_estimators": 100,
        "model.params.learning_rate": 0.1,
        "model.params.random_state": 42,
        "model.params.importance_type": "gain",
        "model.params.verbosity": -1,
        "scoring": "recall",
        "folds.kind": "stratified",
        "folds.n_folds": 5,
        "folds.shuffle": True,
        "prepare.n_clusters": 50,
        "strategy.name": "multiswarm",
        "strategy.params.n_particles": 16,
        "strategy.params.n_swarms": 4,
        "strategy.params.inertia": 0.5,
        "strategy.params.c1": 0.5,
        "strategy.params.c2": 0.5,
        "strategy.params.regroup_every": 10,
        "strategy.params.n_extra": 1,
        "strategy.params.local_search_prob": 0.5,
        "strategy.params.init": "clusters",
        "budget.epochs": 100,
        "ensemble.n_models": 8,
        "ensemble.vote": "any",
    }
    assert {key: values[key] for key in example} == example
    given_params = {key for key in values if key.startswith(("model.params.", "strategy.params."))}
    assert given_params <= set(example)


def test_musk_grouped_differs_from_musk_by_the_molecules_only() -> None:
    changed = difference(load("musk", env={}), load("musk_grouped", env={}))
    assert [line.split(":")[0] for line in changed] == [
        "name", "description", "data.group", "split.kind", "folds.kind",
    ]  # fmt: skip


def test_the_comment_in_musk_points_it_to_a_local_copy() -> None:
    local = ["data.source=file", "data.path=m.parquet", "data.target=target", "data.group=group"]
    for name in ("musk", "musk_grouped"):
        config = load(name, local, env={})
        check(config)
        assert (config.data.source, config.data.group) == ("file", "group")
