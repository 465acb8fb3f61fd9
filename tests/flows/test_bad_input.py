"""Tests of bad input: it ends in one sentence before anything is trained.

The sentence names the thing, the value and the remedy; the exit status is 2, and no run is left
behind. ``test_config.py`` has what is wrong without a table, ``test_sources.py`` what a source
refuses, and ``test_problem.py`` what a problem refuses. The tests call flows without Prefect, which
takes longer to start a flow than to refuse its input; ``test_cli.py`` calls them with it.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conf.yaml_text import render
from swarm.errors import ConfigError
from swarm.search.budget import Budget
from swarm.search.search import Search
from swarm.strategies.random import RandomSearch
from tests.command import Swarm
from tests.small_run import Bench, table

BAYES = "model={estimator: sklearn.naive_bayes.GaussianNB}"
REGRESSOR = "model={estimator: lightgbm.LGBMRegressor, params: {n_estimators: 5}}"
RANDOM = "split.kind=random; folds.kind=random"
NUMBERS = f"data.target=number; data.drop=[kind, who, when, side, fold, y]; {RANDOM}"
CLASSES = "data.target=number; data.drop=[kind, who, when, side, fold, y]"
WEIGHTS = "data.weight=number; data.drop=[kind, who, when, fold]"
PARQUET = "data.path=table.parquet"
HUGE = np.where(table()["x0"] > 0, 1e308, -1e308)
CELLS = [[1], [0]] * 60

# Each case has settings, columns that differ from the small table, and words of the error.
INPUTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "classes of whole numbers": (CLASSES, {"number": np.arange(120) * 3}, "120 .*LGBMRegressor"),
    "weights of nothing in a fold": (
        f"{WEIGHTS}; data.part=side; split.kind=column",
        {"number": [1.0, *[0.0] * 119], "side": ["train"] * 90 + ["test"] * 30},
        "training row of fold.*sample weight 0.*1 of 90 rows",
    ),
    "weights without a sum": (
        f"{WEIGHTS}; data.drop=[kind, who, when, side, fold]",
        {"number": 1e308},
        "weight.*1e\\+308.*float32",
    ),
    "squares": (BAYES, {"x3": HUGE}, "'x3'.*1e\\+308.*float32"),
    "target beyond any square": (f"{NUMBERS}; {REGRESSOR}", {"number": HUGE}, "target.*1e\\+308"),
    "target of lists": (PARQUET, {"y": CELLS}, "target column 'y'.*\\[1\\].*row 0"),
    "category of lists": (f"{PARQUET}; data.categorical=[x3]", {"x3": CELLS}, "'x3'.*several val"),
    "no name": (PARQUET, {}, "column 4.*table.parquet.*has no name"),
    "pipe": ("data.path=pipe.csv", {}, "pipe.csv.*a pipe"),
    "store that is away": ("tracking.uri=http://127.0.0.1:9", {}, "http://127.0.0.1:9"),
    "variable that is not set": ("archive.url=sqlite:///${NOT_SET}/a.db", {}, "'NOT_SET'.*archive"),
    "archive without a driver or a server": (
        "archive.url=postgresql+psycopg://ann:${DB_SECRET}@127.0.0.1:9/db",
        {},
        "archive.*postgresql.*\\*\\*\\*",
    ),
    # These are refused by the model or the scorer, once they are tried.
    "words": (
        f"{REGRESSOR}; {RANDOM}",
        {"y": np.where(table()["y"] == 1, "yes", "no")},
        "'y' holds text, but LGBMRegressor",
    ),
    "probabilities that there are not": (
        "model={estimator: sklearn.linear_model.RidgeClassifier}; scoring=neg_log_loss",
        {},
        "'neg_log_loss'.*RidgeClassifier.*predict_proba",
    ),
    "cheaper model that cannot be": ("proxy={params: {num_leaves: 1}}", {}, "num_leaves"),
}


@pytest.fixture
def direct(swarm: Swarm, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Swarm:
    """Return the command without Prefect, in the folder of the bench; training fails the test."""
    from prefect import Flow

    def trained(*_: Any, **__: Any) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr(Flow, "__call__", lambda self, *args, **opts: self.fn(*args, **opts))
    monkeypatch.setattr("flows.cli.options.starting_prefect", nullcontext)
    monkeypatch.setattr("swarm.evaluation.workers.fit_mask", trained)
    monkeypatch.setenv("DB_SECRET", "s3cret")
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.chdir(bench.folder)
    return swarm


def options(settings: str) -> list[str]:
    return [word for setting in settings.split("; ") for word in ("--set", setting)]


@pytest.mark.parametrize("case", INPUTS)
def test_bad_data_a_bad_store_or_a_bad_model_is_one_sentence(
    direct: Swarm, bench: Bench, case: str
) -> None:
    settings, columns, words = INPUTS[case]
    path = bench.file()
    frame = table().assign(**columns)
    frame = frame.rename(columns={"x3": ""} if case == "no name" else {})
    frame.to_csv(bench.folder / "table.csv", index=False)
    if PARQUET in settings:
        frame.to_parquet(bench.folder / "table.parquet", index=False)
    os.mkfifo(bench.folder / "pipe.csv")
    sentence = direct("select", path, *options(settings)).sentence
    assert re.search(words, sentence), sentence
    assert "s3cret" not in sentence
    assert not bench.made_anything()


def refusals(direct: Swarm, bench: Bench, model: dict[str, Any]) -> dict[str, str]:
    """Return the error of each command that searches, for a model."""
    path = bench.file(model=model)
    sentences = {name: direct(name, path).sentence for name in ("select", "nested", "stability")}
    sentences["check"] = direct("check", path).out
    data = {"small": {"data": bench.mapping()["data"]}}
    file = bench.folder / "compare.yaml"
    file.write_text(render(bench.comparison(model=model, datasets=data)), encoding="utf-8")
    sentences["compare"] = direct("compare", str(file)).sentence
    assert sentences["compare"].startswith("data set 'small': "), sentences
    assert not bench.made_anything()
    return sentences


def test_every_command_that_searches_refuses_a_bad_model_before_there_is_a_run(
    direct: Swarm, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfit = {"estimator": "sklearn.naive_bayes.MultinomialNB"}
    for sentence in refusals(direct, bench, unfit).values():
        assert "MultinomialNB cannot be fitted" in sentence
    code = """
        from sklearn.naive_bayes import GaussianNB

        def made():
            class Local(GaussianNB):
                pass
            return Local

        Local = made()
    """
    (bench.folder / "nameless.py").write_text(dedent(code))
    monkeypatch.setattr("swarm.evaluation.probe.trouble", lambda problem: "the model was tried")
    model = {"estimator": "nameless.Local", "allow": ["nameless."]}
    words = "'made.<locals>.Local' is .*; give it .*define it in a module"
    for sentence in refusals(direct, bench, model).values():
        assert re.search(words, sentence), sentence


def test_a_population_beyond_the_memory_is_one_sentence() -> None:
    class Greedy(RandomSearch):
        def start(self, *_: object) -> Any:
            raise MemoryError

    problem: Any = SimpleNamespace(space=SimpleNamespace(n_units=20_000), importance="none")
    plan = Search(problem, Greedy(), budget=Budget(epochs=1))
    with pytest.raises(ConfigError, match=r"memory for 20,000 units.* reduce the population"):
        plan.check()
