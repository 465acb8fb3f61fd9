"""Tests of what findings advise: it removes the finding, and makes a false score honest."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import HuberRegressor, LinearRegression
from sklearn.metrics import mean_absolute_error

from conf.estimator import build_estimator
from conf.schema import SelectConfig
from flows.run.checking import all_findings
from flows.select import select
from tests.small_run import BAYES, Bench

N = 300
RNG = np.random.default_rng(5)
Y = np.arange(N) % 2
NOISE = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd")).assign(y=Y)
DAYS = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d")
# Sixty people have five rows each, which are near copies and of one class.
PEOPLE = NOISE.iloc[np.repeat(np.arange(60), 5)].reset_index(drop=True)
PEOPLE = PEOPLE.assign(patient_id=np.arange(N) // 5)
PEOPLE[list("abcd")] += RNG.normal(scale=0.01, size=(N, 4))
COPIES = pd.concat([NOISE.head(150)] * 2, ignore_index=True)
NEAREST = {"estimator": "sklearn.neighbors.KNeighborsClassifier", "params": {"n_neighbors": 1}}
BY_GROUP = {"split": {"kind": "group"}, "folds": {"kind": "auto"}}
NUMBERS = NOISE.assign(y=2 * NOISE["a"] + RNG.normal(size=N) + 900.0 * (np.arange(N) % 149 == 0))
REGRESSION = {"split": {"kind": "random"}, "scoring": "neg_root_mean_squared_error"}
LIGHTGBM = {"n_estimators": 5, "num_leaves": 4, "verbosity": -1}
SQUARES = {"estimator": "lightgbm.LGBMRegressor", "params": LIGHTGBM}
TREES = {**SQUARES, "estimator": "lightgbm.LGBMClassifier"}
ABSOLUTE = {**SQUARES, "params": {**LIGHTGBM, "objective": "mae"}}


@dataclass(frozen=True)
class Advice:
    """A table that has a finding, and its remedy.

    `before` are the keys that cause the finding; `keys`, or a correction of the table, remove it.
    """

    code: str
    frame: pd.DataFrame
    keys: dict[str, Any] = field(default_factory=dict)
    corrects: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    before: dict[str, Any] = field(default_factory=dict)

    def sections(self, bench: Bench, followed: bool) -> dict[str, Any]:
        """Write the table, and return the keys of its configuration."""
        frame = self.corrects(self.frame) if followed else self.frame
        frame.to_csv(bench.folder / "table.csv", index=False)
        keys = {"model": BAYES, **self.before, **(self.keys if followed else {})}
        return {**keys, "data": {"drop": [], **keys.get("data", {})}}


def drop(name: str) -> dict[str, Any]:
    return {"data": {"drop": [name]}}


FALSE_SCORES = [
    Advice("SWM114", NOISE.assign(refund=Y + RNG.normal(0, 0.1, N)), drop("refund")),
    Advice("SWM118", COPIES, corrects=pd.DataFrame.drop_duplicates, before={"model": NEAREST}),
    Advice(
        "SWM106", PEOPLE, {"data": {"group": "patient_id"}, **BY_GROUP}, before={"model": NEAREST}
    ),
    Advice("SWM101", PEOPLE, BY_GROUP, before={"data": {"group": "patient_id"}, "model": NEAREST}),
]
ADVICE = [
    *FALSE_SCORES,
    Advice(
        "SWM107",
        NOISE.assign(day=DAYS),
        {"data": {"time": "day"}, "split": {"kind": "time"}, "folds": {"kind": "time"}},
        before=drop("day"),
    ),
    Advice(
        "SWM004",
        NOISE.assign(y=(np.arange(N) % 25 == 0).astype(int)),
        {"scoring": "balanced_accuracy"},
        before={"scoring": "accuracy"},
    ),
    Advice("SWM003", NOISE.assign(y=np.where(Y, "won", "lost")), {"pos_label": "won"}),
    Advice(
        "SWM102",
        NOISE.assign(y=np.where(np.arange(N) > 250, 2, Y), when=np.arange(N)),
        {"split": {"kind": "stratified"}, "folds": {"kind": "stratified"}},
        before={
            "data": {"time": "when"},
            "split": {"kind": "time"},
            "folds": {"kind": "time"},
        },
    ),
    Advice("SWM111", NOISE.assign(number=np.arange(N)[::-1] * 7), drop("number")),
    Advice("SWM112", NOISE.assign(country=3.5), drop("country")),
    Advice("SWM113", NOISE.assign(again=NOISE["a"]), drop("again")),
    Advice(
        "SWM115",
        NOISE.assign(day=RNG.permutation(DAYS)),
        {"data": {"dates": {"day": "%Y-%m-%d"}}},
        before={
            "data": {"categorical": ["day"]},
            "model": TREES,
        },
    ),
    Advice(
        "SWM117",
        NOISE.assign(colour=RNG.choice(["red", "blue"], N)),
        {"data": {"categorical": ["colour"]}},
        before={"model": TREES},
    ),
    Advice(
        "SWM119",
        NOISE.assign(y=np.resize(["yes", "yes ", "no"], N)),
        corrects=lambda frame: frame.assign(y=frame["y"].str.strip()),
    ),
    Advice(
        "SWM121",
        NOISE.assign(weight=np.where(RNG.random(N) < 0.1, -99.0, RNG.normal(70, 9, N))),
        corrects=lambda frame: frame.replace({"weight": {-99.0: np.nan}}),
        before={"model": TREES},
    ),
    Advice(
        "SWM123",
        NUMBERS,
        {"scoring": "neg_mean_absolute_error", "model": ABSOLUTE},
        before={**REGRESSION, "model": SQUARES},
    ),
    Advice(
        "SWM123",
        NOISE.assign(y=np.exp(4 * NOISE["a"])),
        corrects=lambda frame: frame.assign(y=np.log(frame["y"])),
        before={**REGRESSION, "model": SQUARES},
    ),
    Advice("SWM211", NOISE.assign(refund=Y * (RNG.random(N) < 0.8)), drop("refund")),
]


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.code)
def test_with_what_a_finding_advises_it_is_gone(advice: Advice, bench: Bench) -> None:
    def codes(followed: bool) -> set[str]:
        file = bench.file(**advice.sections(bench, followed))
        return {finding.code for finding in all_findings(file)[1]}

    assert advice.code in codes(followed=False)
    assert not {advice.code, "SWM001", "SWM002"} & codes(followed=True)


# A finding prints the options that correct it, unless a person has to choose among them.
PASTED = {advice.code for advice in ADVICE if advice.keys} - {"SWM003", "SWM102"} | {"SWM121"}


@pytest.mark.parametrize(
    "advice",
    [advice for advice in ADVICE if advice.code in PASTED],
    ids=lambda advice: f"{advice.code}-{bool(advice.keys)}",
)
def test_a_finding_is_gone_with_its_options_pasted(advice: Advice, bench: Bench) -> None:
    file = bench.file(**advice.sections(bench, followed=False))
    findings = all_findings(file)[1]
    remedies = [finding.remedy for finding in findings if finding.code == advice.code]
    options = shlex.split(" ".join(remedies))
    pasted = [value for flag, value in itertools.pairwise(options) if flag == "--set"]
    assert pasted
    after = {finding.code for finding in all_findings(file, pasted)[1]}
    assert not {advice.code, "SWM001", "SWM002"} & after


@pytest.mark.parametrize(
    ("estimator", "loss"),
    [
        ("lightgbm.LGBMRegressor", {"objective": "mae"}),
        ("sklearn.ensemble.HistGradientBoostingRegressor", {"loss": "absolute_error"}),
        ("sklearn.ensemble.GradientBoostingRegressor", {"loss": "absolute_error"}),
        ("sklearn.ensemble.RandomForestRegressor", {"criterion": "absolute_error"}),
        ("sklearn.linear_model.LinearRegression", {"epsilon": 1.35}),
        ("sklearn.neighbors.KNeighborsRegressor", {}),
    ],
)
def test_another_metric_comes_with_the_loss_of_the_model(
    estimator: str, loss: dict[str, Any], bench: Bench
) -> None:
    NUMBERS.to_csv(bench.folder / "table.csv", index=False)
    file = bench.file(**REGRESSION, data={"drop": []}, model={"estimator": estimator})
    (finding,) = (finding for finding in all_findings(file)[1] if finding.code == "SWM123")
    words = shlex.split(finding.remedy)
    settings = [word for word in words[words.index("--set") :] if word != "--set"]
    config, findings = all_findings(file, settings)
    assert not {"SWM001", "SWM002", "SWM123"} & {finding.code for finding in findings}
    assert isinstance(config, SelectConfig)
    assert config.scoring == "neg_mean_absolute_error"
    assert loss.items() <= build_estimator(config.model).get_params().items()


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("advice", FALSE_SCORES, ids=lambda advice: advice.code)
def test_a_false_score_is_honest_with_what_its_finding_advises(
    advice: Advice, bench: Bench
) -> None:
    """No column of these tables predicts the class of a new row."""

    def accuracy(followed: bool) -> float:
        sections = advice.sections(bench, followed)
        config = bench.config(**sections, budget={"epochs": 1}, confirm=None)
        scores = select.fn(config, None, 0).judgement.table.set_index(["contender", "metric"])
        return float(scores.loc[("best_subset", "accuracy"), "value"])

    assert accuracy(followed=False) > 0.8
    assert accuracy(followed=True) < 0.67


@pytest.mark.parametrize("robust", [LGBMRegressor(objective="mae"), HuberRegressor()])
def test_of_outliers_the_advised_models_beat_guessing(robust: Any) -> None:
    features = NUMBERS[list("abcd")]
    target = NUMBERS["y"]
    # The training rows contain the outliers.
    train = slice(0, 200)
    unseen = slice(200, 290)

    def error(model: Any) -> float:
        model.fit(features[train], target[train])
        return float(mean_absolute_error(target[unseen], model.predict(features[unseen])))

    guess = error(DummyRegressor(strategy="median"))
    assert error(robust) < 0.8 * guess
    assert error(LinearRegression()) > guess
