"""Tests of options that are invalid or incompatible: they are refused before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from conf.check import problems_of
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError, SpaceError
from swarm.evaluation.crossval import CrossValidation
from swarm.strategies.bpso import BinaryPso
from tests.selecting import WINE
from tests.small_run import Bench

SFS = {"strategy": {"name": "sfs", "params": {}}}


def stepped(**step: Any) -> dict[str, Any]:
    return {"model": {"estimator": "sklearn.linear_model.LogisticRegression", "steps": [step]}}


def timed(**sections: Any) -> dict[str, Any]:
    """Return the keys of a run whose rows have a time by which they are split."""
    data = {"time": "when", "drop": ["number", "kind", "who", "side", "fold"]}
    data |= sections.pop("data", {})
    return {"data": data, "split": {"kind": "time"}, **sections}


IMPUTER = "sklearn.impute.SimpleImputer"
STOP = 3
BAYES = "sklearn.naive_bayes.GaussianNB"
ROUNDS = {"estimator": "lightgbm.LGBMClassifier", "params": {"early_stopping_rounds": 5}}
SECTIONS: list[tuple[dict[str, Any], str]] = [
    ({**SFS, "warm": [["x0"]]}, "'sfs'"),
    (timed(folds={"kind": "stratified", "gap": 3}), "folds.gap 3"),
    (timed(split={"kind": "random", "gap": 3}), "split.gap 3"),
    (timed(data={"group": "when"}), "data.time 'when' is also data.group"),
    (stepped(transformer="sklearn.decomposition.PCA"), "model.steps.0.transformer"),
    (stepped(transformer=IMPUTER, params={"stratgy": "a"}), "'model.steps.0.params.stratgy'"),
    (stepped(transformer=IMPUTER, params={"strategy": "a"}), "model.steps.0.params.strategy"),
    ({"model": {"estimator": BAYES, "early_stopping": STOP}}, "model.early_stopping"),
    ({"model": {**ROUNDS, "early_stopping": STOP}}, "model.params.early_stopping_rounds"),
]


@pytest.mark.parametrize(("sections", "words"), SECTIONS, ids=[words for _, words in SECTIONS])
def test_the_keys_of_a_configuration_are_checked(
    sections: dict[str, Any], words: str, tmp_path: Path
) -> None:
    try:
        (message,) = problems_of(Bench(tmp_path, "sqlite:///never.db").config(**sections))
    except ConfigError as error:
        message = str(error)
    assert words in message


FORWARD = {"strategy": "sfs"}
# Each case has the options and the name that the message has to contain.
REFUSED: dict[type[Exception], list[tuple[dict[str, Any], str]]] = {
    ConfigError: [
        # These options are incompatible.
        ({"warm": [["ash"]], "strategy": "sfs"}, "strategy"),
        ({"budget": {"epoch": 3}}, "epochs"),
        ({"size": "parsimonious"}, "size"),
        ({**FORWARD, "size": 3, "strategy_params": {"size": 4}}, "size"),
        ({**FORWARD, "strategy_params": {"tol": 0.1}}, "tol"),
        # These values are invalid by themselves.
        ({"estimator": GaussianNB}, "estimator"),
        ({"strategy": "multiswam"}, "strategy"),
        ({"strategy": BinaryPso}, "strategy"),
        ({"strategy_params": {"particles": 3}}, "particles"),
        ({"random_state": np.random.RandomState(0)}, "random_state"),
        ({"budget": None}, "budget"),
        ({"budget": {"fits": 0}}, "fits"),
        ({"cv": iter([])}, "cv"),
        ({"size": 0}, "size"),
        ({"size": (5, 3)}, "size"),
        ({"size": (None, 0)}, "size"),
        ({**FORWARD, "size": "auto", "strategy_params": {"tol": -1}}, "tol"),
        ({"pick": "smallest"}, "pick"),
        ({"proxy": {"params": {"var_smothing": 1}}}, "proxy"),
        ({"proxy": {"best": 3}}, "proxy"),
        ({"proxy": {"rows": 0.01}}, "rows"),
        ({"confirm": {"best": 0}}, "best"),
        ({"confirm": {"margin": -0.1}}, "margin"),
        ({"prefilter": {"least": 0}}, "least"),
        ({"callbacks": ["bar"]}, "callbacks"),
        ({"scoring": ["accuracy", "f1_macro"]}, "scoring"),
        ({"scoring": f1_score}, "scoring"),
        ({"prefilter": "yes"}, "prefilter"),
        ({"prefilter": {"most": 3}}, "most"),
        ({"prefilter": {"when": "never"}}, "when"),
        ({"warm": [["prolin"]]}, "warm"),
        ({"warm": [[True, False]]}, "warm"),
        ({"warm": [[]]}, "warm"),
        ({"warm": [[1.5]]}, "warm"),
        ({"cv": KFold}, "cv"),
        ({"confirm": {"repeats": 0}}, "repeats"),
        ({"confirm": {"rankings": "x"}}, "rankings"),
        ({"estimator": KMeans(3)}, "KMeans"),
        ({"estimator": KMeans(3), "scoring": "adjusted_rand_score"}, "KMeans"),
    ],
    DataError: [({"cv": 200}, "folds")],
    SpaceError: [
        ({"size": (None, 14)}, "size"),
        ({"fixed": ["asch"]}, "fixed"),
        ({"fixed": [13]}, "fixed"),
        ({"fixed": [True]}, "fixed"),
        ({"fixed": "ash"}, "fixed"),
        ({"groups": [["ash", 99]]}, "group"),
        ({"groups": {"two": 1}}, "group"),
        ({"groups": [[0, 1], [1, 2]]}, "groups"),
    ],
}


@pytest.mark.parametrize(
    ("error", "options", "name"),
    [(error, *case) for error, cases in REFUSED.items() for case in cases],
)
def test_a_selector_refuses_before_training_and_names_the_parameter(
    error: type[Exception], options: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a model was trained")

    monkeypatch.setattr(CrossValidation, "evaluate", never)
    selector = SubsetSelector(**{"estimator": GaussianNB(), "cv": 3, "budget": 20, **options})
    with pytest.raises(error, match=rf"\b{name}\b"):
        selector.fit(*WINE)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"y": "target"}, "target is 'target'; pass a value for each row"),
        ({"y": csr_matrix(np.eye(len(WINE[1])))}, r"pass an array, y\.toarray\(\)"),
        ({"sample_weight": ["a"] * len(WINE[1])}, "weights must be numbers"),
        ({"groups": 1}, "groups must have a value for each row, got 1"),
    ],
)
def test_arguments_of_fit_that_have_no_value_for_each_row_are_refused(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        SubsetSelector(GaussianNB(), budget=2).fit(**{"X": WINE[0], "y": WINE[1], **given})


def test_options_may_be_numbers_of_numpy_or_none_at_all() -> None:
    params = {"n_particles": np.int64(8), "local_search_prob": np.float32(0.5)}
    python_params = {"n_particles": 8, "local_search_prob": 0.5}
    selectors = [
        SubsetSelector(GaussianNB(), budget=2, strategy_params=strategy_params).fit(*WINE)
        for strategy_params in (params, python_params)
    ]
    assert selectors[0].results_.equals(selectors[1].results_)
    default = SubsetSelector(GaussianNB(), budget=2, confirm={}).fit(*WINE)
    assert default.confirmation_.n_folds == 25
