"""LightGBM with shared bins trains the models of its wrapper, or leaves them to it.

``make fuzz`` tries more of them. A failure names the seed of its case: ``case(seed)``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.early_stopping import EarlyStoppingLGBMClassifier
from swarm.evaluation import boosted, fitting
from swarm.evaluation.boosted import Boosted, boosted_path
from swarm.evaluation.fitting import Job, fit_mask
from swarm.problem.problem import Problem
from swarm.storage.records import Record
from tests.fuzzing import CASES, Rng, failures, random_table
from tests.selecting import TREES, WINE

_SETTINGS: list[dict[str, Any]] = [
    {"num_leaves": 4},
    {"min_child_samples": 1, "min_child_weight": 0},
    {"reg_alpha": 1.0, "reg_lambda": 0.5},
    {"subsample": 0.6, "subsample_freq": 1},
    {"boosting_type": "dart"},
    {"boosting_type": "goss"},
    {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1},
    {"max_bin": 7},
    {"max_bin": 31, "min_data_in_bin": 1},
    {"subsample_for_bin": 50},
    {"colsample_bytree": 0.5},
    {"extra_trees": True},
    {"class_weight": "balanced"},
    {"learning_rate": 0.5},
    {"min_split_gain": 0.2},
    {"importance_type": "gain"},
    {"enable_bundle": False},
    {"path_smooth": 1.0},
    {"zero_as_missing": True},
    {"linear_tree": True},
    {"boost_from_average": False},
    {"max_cat_to_onehot": 2, "cat_smooth": 1},
]
_SCORERS = {
    "binary": ["accuracy", "roc_auc", "neg_log_loss", "average_precision", "f1_macro"],
    "multiclass": ["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"],
    "regression": ["r2", "neg_mean_absolute_error", "neg_max_error"],
}


def case(seed: int, filled: float = 1.0) -> tuple[Problem, NDArray[np.bool_]]:
    """Draw a problem and some masks; about a share of `filled` of its numbers is not 0."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.choice([60, 150, 400]))
    d = int(rng.integers(2, 10))
    task = str(rng.choice(list(_SCORERS)))
    features = random_table(rng, n, d, rng.integers(0, 7, n))
    if rng.random() < 0.4:
        features["x1"] = rng.random(n) < 0.3
        features["x0"] = rng.integers(0, 30, n).astype(np.int8)
    target = _target(rng, features, task)
    if rng.random() < 0.4:
        for name in features:
            if features[name].dtype.kind == "f" and rng.random() < 0.5:
                features.loc[rng.random(n) < rng.choice([0.05, 0.5]), name] = np.nan
    if filled < 1.0:
        features = features.where(rng.random((n, d)) < filled, 0).astype(features.dtypes)
    elif rng.random() < 0.25:
        features["x0"] = pd.Categorical(rng.choice(list("abcdefgh"), n), ordered=rng.random() < 0.3)
    options: dict[str, Any] = {"n_estimators": int(rng.integers(2, 12)), "verbosity": -1}
    for i in rng.choice(len(_SETTINGS), int(rng.integers(0, 3)), replace=False):
        options |= _SETTINGS[i]
    if task == "regression":
        options.pop("class_weight", None)
    model = (LGBMRegressor if task == "regression" else LGBMClassifier)(**options)
    splitter = KFold if task == "regression" else StratifiedKFold
    folds = splitter(int(rng.integers(2, 4)), shuffle=True, random_state=seed)
    problem = Problem.build(
        features,
        target,
        model,
        scoring=str(rng.choice(_SCORERS[task])),
        folds=list(folds.split(features, target)),
        weight=np.round(2 * rng.random(n), 2) + 0.01 if rng.random() < 0.35 else None,
        importance=rng.choice(["auto", "auto", "none"]),
    )
    masks = rng.random((3, d)) < 0.6
    masks[np.arange(3), rng.integers(0, d, 3)] = True
    return problem, np.unique(masks, axis=0)


def _target(rng: Rng, features: pd.DataFrame, task: str) -> NDArray[Any]:
    values = features.to_numpy(dtype=np.float64)
    spread = values.std(axis=0)
    signal = ((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)) @ rng.normal(
        size=values.shape[1]
    ) + rng.normal(size=len(values))
    if task == "regression":
        return signal * 10.0 ** rng.integers(-2, 7)
    if task == "binary":
        codes = (signal > np.quantile(signal, rng.choice([0.5, 0.85]))).astype(np.int64)
        return np.array(["no", "yes"])[codes] if rng.random() < 0.4 else codes
    # There are up to a dozen classes, with at least four rows each.
    shares = np.linspace(0, 1, int(rng.integers(3, 13)) + 1)[1:-1]
    return np.digitize(signal, np.quantile(signal, shares))


def fitted(problem: Problem, mask: NDArray[np.bool_]) -> Record:
    unknown = np.full(problem.n_folds, np.nan)
    record = fit_mask(problem, Job(0, mask, unknown, np.arange(problem.n_folds), np.inf))
    assert isinstance(record, Record)
    return record


def differences(
    problem: Problem, masks: NDArray[np.bool_], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """List the differences between the models with shared bins and those of the wrapper."""
    if boosted_path(problem) is None:
        return []
    records = [fitted(problem, mask) for mask in masks]
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "boosted_path", lambda problem: None)
        expected_records = [fitted(problem, mask) for mask in masks]
    messages = []
    for record, expected in zip(records, expected_records, strict=True):
        for name in ("fold_costs", "importances", "used"):
            actual_array = np.array(getattr(record, name), dtype=float)
            expected_array = np.array(getattr(expected, name), dtype=float)
            if not np.array_equal(actual_array, expected_array, equal_nan=True):
                messages.append(f"{problem.estimator!r}, {problem.scoring.name}: {name} differ")
        if (record.error is None) != (expected.error is None):
            messages.append(f"{problem.estimator!r}: {record.error or expected.error}")
    path = boosted_path(problem)
    # There is no model to compare with if LightGBM refuses to train.
    if all(record.error is None for record in records) and (path is None or not path.trusted):
        messages.append(f"{problem.estimator!r}: not trusted")
    return messages


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("max_joined", [boosted._MAX_JOINED, 0], ids=["joined", "binned again"])
def test_models_with_shared_bins_are_those_of_the_wrapper(
    max_joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosted, "_MAX_JOINED", max_joined)
    monkeypatch.setattr(
        boosted, "_MAX_JOINED_PER_ROW", min(max_joined, boosted._MAX_JOINED_PER_ROW)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n_cases = max(1, CASES // 5)
        messages = failures(range(n_cases), lambda seed: differences(*case(seed), monkeypatch))
    assert not messages, "\n".join(messages)


@pytest.mark.filterwarnings("ignore")
def test_models_of_a_sparse_matrix_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "_is_small", lambda features: False)
    n_sparse = 0

    def sparse_case(seed: int) -> list[str]:
        nonlocal n_sparse
        problem, masks = case(seed, filled=0.06)
        messages = differences(problem, masks, monkeypatch)
        path = boosted_path(problem)
        n_sparse += path is not None and issparse(path.rows([0], np.arange(3)))
        return messages

    n_cases = max(5, CASES // 5)
    messages = failures(range(n_cases), sparse_case)
    assert not messages, "\n".join(messages)
    assert n_sparse > n_cases // 4


ALL = np.ones(13, dtype=bool)


def problem_of(X: Any = WINE[0], model: Any = TREES, **options: Any) -> Problem:
    return Problem.build(X, WINE[1], model, folds=3, **options)


def test_any_other_model_or_table_is_left_to_the_wrapper() -> None:
    assert boosted_path(problem_of()) is not None
    for model in (
        LGBMClassifier(n_estimators=10, colsample_bytree=0.5),
        LGBMClassifier(n_estimators=10, class_weight="balanced"),
        make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=10)),
        # A subclass may override fit.
        EarlyStoppingLGBMClassifier(n_estimators=10),
        LogisticRegression(),
    ):
        assert boosted_path(problem_of(model=model)) is None
    # Bins of a sample of the rows are not those of a column alone.
    sampled = problem_of(model=clone(TREES).set_params(subsample_for_bin=50))
    fitted(sampled, ALL)
    assert not boosted_path(sampled)._binned_columns
    letters = pd.Categorical(np.random.default_rng(3).choice(list("abcd"), len(WINE[0])))
    assert boosted_path(problem_of(WINE[0].assign(ash=letters))) is None


def test_a_scorer_of_ones_own_gets_the_whole_model() -> None:
    def looks_inside(model: Any, X: Any, y: Any) -> float:
        return float(model.n_features_in_ == X.shape[1] and hasattr(X, "columns"))

    assert fitted(problem_of(scoring=looks_inside), ALL).fold_costs.tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.parametrize("n_compared", [1000, 5])
def test_a_lightgbm_that_answers_otherwise_is_left_to_its_wrapper(
    n_compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosted, "_MAX_COMPARED", n_compared)
    problem = problem_of()
    expected = fitted(problem, ALL).fold_costs.tolist()
    assert boosted_path(problem)._binned_columns, "columns were not binned once"
    original = Boosted._dataset
    monkeypatch.setattr(
        Boosted, "_dataset", lambda self, columns, *rest: original(self, columns[::-1], *rest)
    )
    problem = problem_of()
    assert fitted(problem, ALL).fold_costs.tolist() == expected
    assert boosted_path(problem) is None


def test_a_table_is_joined_from_its_columns_up_to_its_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(boosted, "_MAX_DATASET_BYTES", 800)
    assert boosted._is_small(pd.DataFrame(np.zeros((10, 10))))
    assert not boosted._is_small(pd.DataFrame(np.zeros((11, 10))))
