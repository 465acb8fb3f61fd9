"""Sums of naive Bayes that are formed in the order of the models are theirs to the last bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from swarm.fastpaths.bayes_sums import exact_sums
from swarm.fastpaths.naive_bayes import NaiveBayesPath, moments_are_exact
from swarm.problem.problem import Problem
from tests.fakes import calm
from tests.test_exact_paths import assert_same_costs, fold_costs, path_of


def frame_of(rng: np.random.Generator, n_rows: int, n_columns: int, kind: str) -> pd.DataFrame:
    values = rng.normal(size=(n_rows, n_columns)) * 10.0 ** rng.integers(-3, 4, n_columns)
    whole = rng.integers(0, 2, (n_rows, n_columns))
    columns = {}
    for j in range(n_columns):
        numbers = kind == "whole" or (kind == "mixed" and rng.random() < 0.5)
        columns[f"x{j}"] = whole[:, j] if numbers else values[:, j]
    # As pandas reads it from a file and a split picks its rows.
    return pd.DataFrame(columns).iloc[rng.permutation(n_rows)].reset_index(drop=True)


def masks_of(rng: np.random.Generator, n_columns: int) -> np.ndarray:
    masks = rng.random((8, n_columns)) < rng.random((8, 1))
    masks[0] = True
    masks[1] = np.arange(n_columns) < max(2, n_columns // 2)
    return masks[masks.sum(axis=1) >= 2]


@pytest.mark.parametrize("kind", ["whole", "real", "mixed"])
@settings(calm, max_examples=6)
@given(
    seed=st.integers(0, 2**32),
    n_columns=st.sampled_from([2, 3, 7, 9, 17, 140, 300]),
    n_classes=st.integers(2, 5),
)
def test_log_likelihoods_are_those_of_models(
    kind: str, seed: int, n_columns: int, n_classes: int
) -> None:
    rng = np.random.default_rng(seed)
    features = frame_of(rng, 60, n_columns, kind)
    target = np.arange(60) % n_classes
    problem = Problem.build(features, target, GaussianNB(), folds=3, importance="none")
    assert moments_are_exact(problem)
    path = path_of(problem)
    assert isinstance(path, NaiveBayesPath)
    (block,) = path.blocks
    for mask in masks_of(rng, n_columns):
        columns = np.flatnonzero(mask)
        made = block.smoothed(path.smoothing(mask[None], block)[0])
        joint = exact_sums(block.log_prior, block.squares(), made, columns)
        for fold, (train, test) in enumerate(problem.folds):
            some = problem.features.iloc[:, columns.tolist()]
            model = clone(problem.estimator).fit(some.iloc[train], problem.target[train])
            told = model.predict_joint_log_proba(some.iloc[test])
            assert np.array_equal(joint[fold, :, : len(test)].T, told), (kind, columns)


@settings(calm, max_examples=5)
@given(seed=st.integers(0, 2**32), spread=st.sampled_from([1, 5]))
def test_yes_and_no_features_are_settled_without_models(seed: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    features = pd.DataFrame(
        {f"x{j}": rng.integers(0, 2, 80) * (j % spread + 1) for j in range(9)}
    ).iloc[np.arange(80)]
    target = (features["x0"] > 0) + (features["x1"] > 0).astype(int) * rng.integers(0, 2, 80)
    # Every fold needs a row of every class.
    assume(np.bincount(target).min() >= 4)
    # Columns that never vary within a class are what makes likelihoods huge.
    features["x2"] = (target == 1).astype(int)
    problem = Problem.build(features, target.to_numpy(), GaussianNB(), folds=4, importance="none")
    masks = masks_of(rng, 9)
    assert np.isfinite(fold_costs(path_of(problem), masks)).all()
    assert_same_costs(problem, masks)


def test_arrays_that_lie_otherwise_are_left_to_models() -> None:
    rng = np.random.default_rng(0)
    target = np.arange(30) % 2
    rows = np.asfortranarray(rng.normal(size=(4, 30))).T
    by_row = pd.DataFrame(rows, columns=list("abcd"), copy=False)
    frame = frame_of(rng, 30, 4, "real")
    huge = pd.DataFrame({"a": np.full(30, 2**52), "b": np.arange(30)})
    scaled = make_pipeline(StandardScaler(), GaussianNB())
    for features, model in (
        (by_row, GaussianNB()),
        (frame.astype(np.float32), GaussianNB()),
        (huge, GaussianNB()),
        (frame, scaled),
    ):
        assert not moments_are_exact(Problem.build(features, target, model, folds=3))


def test_folds_worked_on_one_by_one_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    features, target = frame_of(rng, 60, 9, "mixed"), np.arange(60) % 3
    problem = Problem.build(features, target, GaussianNB(), folds=4, scoring="f1_macro")
    masks = masks_of(rng, 9)
    together = path_of(problem)
    monkeypatch.setattr("swarm.fastpaths.naive_bayes._KEPT", 50)
    alone = path_of(problem)
    assert len(alone.blocks) == 4
    assert all(block._squares is None for block in alone.blocks)
    assert np.array_equal(fold_costs(alone, masks), fold_costs(together, masks))
    assert_same_costs(problem, masks)


@pytest.mark.parametrize("smoothing", [0.0, 1e-9])
def test_variances_of_zero_and_folds_of_other_sizes_are_no_trouble(smoothing: float) -> None:
    rng = np.random.default_rng(5)
    features, target = frame_of(rng, 50, 6, "mixed"), np.arange(50) % 2
    features["x1"] = 7
    features["x2"] = 3.0 * target
    folds = [(np.arange(9, 50), np.arange(9)), (np.arange(46), np.arange(46, 50))]
    folds += [(np.r_[0:20, 40:50], np.arange(20, 40))]
    model = GaussianNB(var_smoothing=smoothing)
    problem = Problem.build(features, target, model, folds=folds, importance="none")
    masks = np.vstack([masks_of(rng, 6), np.eye(6, dtype=bool)])
    with np.errstate(all="ignore"):
        assert_same_costs(problem, masks)
