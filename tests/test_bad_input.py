"""Bad input, whatever it is, ends in one sentence before anything is trained.

The sentence names the thing, the value and the remedy; the exit status is 2, and no run is left
behind. What is wrong without a table is in ``test_config.py``, what a source refuses in
``test_sources.py``. Prefect is passed by here, as it takes longer to start a flow than to refuse
its input; ``test_cli.py`` goes through it.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conf.load import render
from swarm.errors import ConfigError
from swarm.problem.hints import Hints
from swarm.search.budget import Budget
from swarm.search.plan import SearchPlan
from swarm.strategies.random import RandomSearch
from tests.command import Swarm
from tests.small_run import Bench, table

BAYES = "model={estimator: sklearn.naive_bayes.GaussianNB}"
LIGHT = "model={estimator: lightgbm.LGBMClassifier, params: {%s}}"
REGRESSOR = "model={estimator: lightgbm.LGBMRegressor, params: {n_estimators: 5}}"
RANDOM = "split.kind=random; folds.kind=random"
# A target of numbers, or of three classes.
NUMBERS = f"data.target=number; data.drop=[kind, who, when, side, fold, y]; {RANDOM}"
KINDS = "data.target=kind; data.drop=[number, who, when, side, fold, y]"
WEIGHTS = "data.weight=number; data.drop=[kind, who, when, fold]"
PARQUET = "data.path=table.parquet"
HUGE = np.where(table()["x0"] > 0, 1e308, -1e308)
CELLS = [[1], [0]] * 60

# What is set, and what the sentence has to say.
INPUTS = {
    "no such file": ("data.path=no/such.csv", "'no/such.csv'.* no such file"),
    "classes of numbers": (
        "data.target=number; data.drop=[kind, who, when, side, fold, y]",
        "'number' is continuous.*LGBMClassifier.*model.estimator: lightgbm.LGBMRegressor",
    ),
    "weights of nothing in a fold": (
        f"{WEIGHTS}; data.part=side; split.kind=column",
        "training row of fold.*sample weight 0.*1 of 90 rows.*other folds",
    ),
    "weights without a sum": (
        f"{WEIGHTS}; data.drop=[kind, who, when, side, fold]",
        "weight.*1e\\+308.*float32.*divide all weights by their mean",
    ),
    "text": (BAYES, "'x4'.*str values"),
    "text for LightGBM": ("seed=0", "'x4'.*categorical"),
    "gaps": (BAYES, "'x4'.*missing.*GaussianNB"),
    "squares": (BAYES, "'x3'.*1e\\+308.*float32.*rescale the column, clip it or drop it"),
    "scaled squares": (f"{BAYES}; model.scaling=standard", "'x3'.*1e\\+308.*float32"),
    "beyond float32": (
        "model={estimator: sklearn.tree.DecisionTreeClassifier}",
        "'x3'.*1e\\+39.*float32",
    ),
    "target beyond any square": (
        f"{NUMBERS}; {REGRESSOR}",
        "target.*1e\\+308.*float32.*take logarithms",
    ),
    "target of lists": (PARQUET, "target column 'y'.*\\[1\\].*row 0.*one value per row"),
    "group of lists": (
        f"{PARQUET}; data.group=who; data.drop=[number, kind, when, side, fold]",
        "group column 'who'.*several values in one cell",
    ),
    "category of lists": (
        f"{PARQUET}; data.categorical=[x3]",
        "categorical column 'x3'.*several values in one cell",
    ),
    "no name": (PARQUET, "column 4.*table.parquet.*has no name.*give it one"),
    "pipe": ("data.path=pipe.csv", "pipe.csv.*a pipe.*write its rows to a file"),
    "size beyond the table": ("strategy={name: sfs, params: {size: 9}}", "size.*9.*8"),
    "classes of whole numbers": (
        "data.target=number; data.drop=[kind, who, when, side, fold, y]",
        "'number' has whole numbers, with 120 different values.*lightgbm.LGBMRegressor",
    ),
    "model of numbers": (
        f"{REGRESSOR}; {RANDOM}",
        "'accuracy' is for classes but LGBMRegressor.*LGBMClassifier",
    ),
    "scorer of classes": (f"{NUMBERS}; {REGRESSOR}; scoring=accuracy", "'accuracy'.*regre.*'r2'"),
    "scorer of two classes": (f"{KINDS}; scoring=roc_auc", "'roc_auc'.*multiclass.*'roc_auc_ovr'"),
    "variable that is not set": (
        "archive.url=sqlite:///${NOT_SET_ANYWHERE}/a.db",
        "'NOT_SET_ANYWHERE'.*archive.*set it",
    ),
    "archive without a driver or a server": (
        "archive.url=postgresql+psycopg://ann:${DB_SECRET}@127.0.0.1:9/db",
        "archive.*postgresql.*\\*\\*\\*",
    ),
    "archive of another kind": ("archive.url=mysql://h/db", "'mysql.*SQLite"),
}
# Refused by the model or the scorer themselves, once they are tried.
MODELS = {
    "one leaf": (
        LIGHT % "n_estimators: 5, num_leaves: 1",
        "LGBMClassifier cannot be fitted on the 56 training rows.*all 8 features.*num_leaves",
    ),
    "fewer than no trees": (
        LIGHT % "n_estimators: -5",
        "LGBMClassifier cannot be fitted.*greater than 0.*correct model.params",
    ),
    "unknown objective": (LIGHT % "objective: nonsense", "cannot be fitted.*nonsense"),
    "more neighbours than rows": (
        "model={estimator: sklearn.neighbors.KNeighborsClassifier, params: {n_neighbors: 1000}}",
        "KNeighborsClassifier.*n_neighbors = 1000.*choose another",
    ),
    "negative counts": (
        "model={estimator: sklearn.naive_bayes.MultinomialNB}",
        "MultinomialNB cannot be fitted.*Negative values",
    ),
    "words": (f"{REGRESSOR}; {RANDOM}", "'y' holds text, but LGBMRegressor.*use a classifier"),
    "probabilities that there are not": (
        "model={estimator: sklearn.linear_model.RidgeClassifier}; scoring=neg_log_loss",
        "'neg_log_loss'.*RidgeClassifier.*predict_proba.*choose another scorer",
    ),
    "logarithm of negative numbers": (
        f"{NUMBERS}; {REGRESSOR}; scoring=neg_mean_squared_log_error",
        "'neg_mean_squared_log_error'.*LGBMRegressor.*choose another scorer",
    ),
    "one model of several labels": (
        "data.target=[y, number]; data.drop=[kind, who, when, side, fold]; split.kind=random",
        "the target has 2 columns, but LGBMClassifier predicts one; use an estimator",
    ),
    "cheaper model that cannot be": (
        "proxy={params: {num_leaves: 1}}",
        "LGBMClassifier cannot be fitted.*num_leaves",
    ),
}
# Columns that are not those of the small table.
CHANGED: dict[str, dict[str, Any]] = {
    "weights of nothing in a fold": {
        "number": [1.0, *[0.0] * 119],
        "side": ["train"] * 90 + ["test"] * 30,
    },
    "weights without a sum": {"number": 1e308},
    "classes of whole numbers": {"number": np.arange(120) * 3},
    "text": {"x4": "a"},
    "text for LightGBM": {"x4": "a"},
    "gaps": {"x4": table()["x4"].where(table()["when"] >= 40)},
    "squares": {"x3": HUGE},
    "scaled squares": {"x3": HUGE},
    "beyond float32": {"x3": np.where(table()["x0"] > 0, 1e39, 1.0)},
    "target beyond any square": {"number": HUGE},
    "target of lists": {"y": CELLS},
    "group of lists": {"who": CELLS},
    "category of lists": {"x3": CELLS},
    "words": {"y": np.where(table()["y"] == 1, "yes", "no")},
    "one model of several labels": {"number": 1 - table()["y"]},
}


@pytest.fixture
def direct(swarm: Swarm, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Swarm:
    """The command without Prefect, in the folder of the bench, where nothing may be trained."""
    from prefect import Flow

    def trained(*_: Any, **__: Any) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr(Flow, "__call__", lambda self, *args, **opts: self.fn(*args, **opts))
    server = SimpleNamespace(starting=lambda verbosity: nullcontext())
    monkeypatch.setattr("flows.cli_options.launch_prefect", lambda: nullcontext(server))
    monkeypatch.setattr("swarm.evaluation.workers.fit_mask", trained)
    monkeypatch.setenv("DB_SECRET", "s3cret")
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    monkeypatch.chdir(bench.folder)
    return swarm


def options(settings: str) -> list[str]:
    return [part for each in settings.split("; ") for part in ("--set", each)]


@pytest.mark.parametrize("case", [*INPUTS, *MODELS])
def test_bad_data_a_bad_store_or_a_bad_model_is_one_sentence(
    direct: Swarm, bench: Bench, case: str
) -> None:
    settings, words = {**INPUTS, **MODELS}[case]
    path = bench.file()
    frame = table().assign(**CHANGED.get(case, {}))
    frame = frame.rename(columns={"x3": ""} if case == "no name" else {})
    frame.to_csv(bench.folder / "table.csv", index=False)
    if PARQUET in settings:
        frame.to_parquet(bench.folder / "table.parquet", index=False)
    os.mkfifo(bench.folder / "pipe.csv")
    line = direct("select", path, *options(settings)).sentence
    assert re.search(words, line), line
    assert "s3cret" not in line
    assert not bench.made_anything()


@pytest.mark.parametrize("settings", ["budget.epoch=3", "model.estimator=os.path.join"])
def test_a_bad_configuration_is_the_same_sentence_for_every_command(
    direct: Swarm, bench: Bench, settings: str
) -> None:
    given = (bench.file(), *options(settings))
    line = direct("config", "check", *given).sentence
    assert settings.partition("=")[2] in line or settings.partition("=")[0] in line
    assert [direct(name, *given).sentence for name in ("select", "plan")] == [line] * 2
    assert not bench.made_anything()


def test_every_command_that_searches_tries_the_model_before_there_is_a_run(
    direct: Swarm, bench: Bench
) -> None:
    model = {"estimator": "sklearn.naive_bayes.MultinomialNB"}
    path = bench.file(model=model)
    for command in ("plan", "nested", "stability"):
        assert "MultinomialNB cannot be fitted" in direct(command, path).sentence
    assert "MultinomialNB cannot be fitted" in direct("check", path).out
    mapping = bench.mapping(model=model, budget={"distinct": 4})
    data = {"small": {"data": mapping.pop("data")}}
    for key in ("strategy", "ensemble", "test", "split"):
        del mapping[key]
    mapping |= {"datasets": data, "strategies": {"random": {}, "full": {}}, "seeds": 1}
    compared = bench.folder / "compare.yaml"
    compared.write_text(render(mapping), encoding="utf-8")
    line = direct("compare", str(compared)).sentence
    assert line.startswith("data set 'small': MultinomialNB cannot be fitted"), line
    assert not bench.made_anything()


def test_a_population_beyond_the_memory_is_one_sentence() -> None:
    class Greedy(RandomSearch):
        def start(self, *_: object) -> Any:
            raise MemoryError

    problem: Any = SimpleNamespace(
        space=SimpleNamespace(n_units=20_000), repeats=1, importance="none"
    )
    plan = SearchPlan(problem, Greedy(), Hints(), Budget(epochs=1))
    with pytest.raises(ConfigError, match=r"memory for 20,000 units.* reduce the population"):
        plan.check()
