"""Options of a search that do not go together are refused in one sentence before any training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from conf.check import check
from conf.schema import CompareConfig
from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.search.options import check_options
from swarm.strategies.catalogue import make
from tests.small_run import Bench

SFS = {"strategy": {"name": "sfs", "params": {}}}
MODEL = {"estimator": "lightgbm.LGBMClassifier", "search": {"num_leaves": [2, 4]}}
GRID = {"max_depth": [1, 4]}


@pytest.mark.parametrize(
    ("strategy", "options", "words"),
    [
        ("sfs", {"warm": True}, "'sfs' takes no warm start"),
        ("sfs", {"tuning": True}, "cannot start from given subsets"),
        ("bpso", {"tuning": True, "repeats": 2, "rotate": 2}, "same folds, which rotate 2 changes"),
        ("bpso", {"tuning": True, "proxy": True}, "remove the proxy, or model.search"),
        ("sfs", {"rows": 50}, "budget.rows 50 leaves most subsets without a cost"),
        ("bpso", {"rows": "auto", "repeats": 2}, "budget.rows 'auto' selects the subsets of an"),
        ("bpso", {"rows": 50, "proxy": True}, "and a proxy on a cheaper model"),
        ("bpso", {"rows": 50, "tuning": True}, "settings of the model are compared on all rows"),
        ("sfs", {"asynchronous": True}, "'sfs' does not support; use one of ant_colony"),
        ("erfs", {"asynchronous": True}, "'erfs' does not support; use one of ant_colony"),
        ("bpso", {"asynchronous": True, "racing": 0.1}, "racing 0.1 compares subsets with incumb"),
        ("bpso", {"asynchronous": True, "repeats": 2}, "repeats 2 evaluates an epoch on one fold"),
        ("bpso", {"asynchronous": True, "rows": 50}, "budget.rows 50 selects the subsets of an"),
        ("bpso", {"rotate": 2}, "but there is only one; set repeats to 2"),
        ("sffs", {"rotate": 2, "repeats": 2}, "which 'sffs' does not support"),
        ("bpso", {"rotate": 2, "repeats": 2, "racing": 0.1}, "racing 0.1 has no costs"),
        ("bpso", {"rotate": 2, "repeats": 2, "noise_floor": 3}, "over which noise_floor 3"),
        ("bpso", {"rotate": 2, "repeats": 2, "importance": "refit"}, "importance 'refit' needs"),
    ],
)
def test_what_does_not_go_together_is_refused(
    strategy: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_options(make(strategy), **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({**SFS, "warm": {"subsets": [["x0"]]}}, "'sfs' takes no warm start"),
        ({"model": MODEL, "folds": {"repeats": 2, "rotate": 2}}, "rotate to 0, or remove model"),
        ({"model": MODEL, "proxy": {"params": {"n_estimators": 2}}}, "the proxy, or model.search"),
        ({"budget": {"epochs": 2, "rows": "auto"}, "folds": {"repeats": 2}}, "budget.rows to null"),
        ({"evaluation": {"asynchronous": True, "racing": 0.1}}, "racing 0.1 compares subsets"),
        (
            {"folds": {"repeats": 2, "rotate": 2}, "budget": {"epochs": 4, "noise_floor": 2}},
            "noise_floor 2 compares",
        ),
        (
            {"folds": {"repeats": 2, "rotate": 2}, "evaluation": {"importance": "refit"}},
            "importance 'refit' needs",
        ),
    ],
)
def test_the_keys_of_a_configuration_are_checked(
    sections: dict[str, Any], words: str, bench: Bench
) -> None:
    with pytest.raises(ConfigError, match=words):
        check(bench.config(**sections))


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"budget": {"epochs": 2, "rows": "auto"}}, "comparisons compare evaluations on all"),
        ({"evaluation": {"asynchronous": True}}, "comparisons compare strategies alone"),
        ({"model": MODEL}, r"model\.search chooses settings .* remove it"),
    ],
)
def test_comparisons_refuse_what_makes_searches_differ(
    sections: dict[str, Any], words: str
) -> None:
    given = {"name": "a", "strategies": {"random": {}}, **sections}
    given["datasets"] = {"a": {"data": {"source": "bundled", "name": "wine"}}}
    with pytest.raises(ConfigError, match=words):
        check(CompareConfig.model_validate(given))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"param_grid": GRID, "strategy": "sfs"}, "or pass param_grid=None"),
        ({"param_grid": GRID, "repeats": 2, "rotate": 2}, "set rotate to 0, or pass param_grid"),
        ({"param_grid": GRID, "proxy": GaussianNB()}, "pass proxy=None or param_grid=None"),
        ({"rows": "auto", "repeats": 2}, "set repeats to 1, or rows to None"),
        ({"rows": 24, "param_grid": GRID}, "or set rows to None"),
        ({"asynchronous": True, "racing": 0.1}, ", or asynchronous to False"),
        ({"asynchronous": "yes"}, "asynchronous must be True or False, got 'yes'"),
        ({"warm": [["x0"]], "strategy": "sfs"}, "strategy 'sfs' takes no warm start"),
        ({"repeats": 2, "rotate": 2, "strategy": "sffs"}, "which 'sffs' does not support"),
        ({"repeats": 2, "rotate": 2, "racing": 0.1}, "racing 0.1 has no costs"),
        ({"repeats": 2, "rotate": 2, "importance": "refit"}, "'refit'"),
    ],
)
def test_a_selector_refuses_in_the_words_of_its_arguments(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a model was trained")

    monkeypatch.setattr(CrossValidation, "evaluate", never)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4))).add_prefix("x")
    selector = SubsetSelector(DecisionTreeClassifier(), cv=3, epochs=20, **options)
    with pytest.raises(ConfigError) as caught:
        selector.fit(X, np.arange(60) % 2)
    text = str(caught.value)
    assert words in text
    assert not any(key in text for key in ("\n", "evaluation.", "budget", "model.search"))
