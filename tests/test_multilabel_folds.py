"""Claims on folds and scorers of targets with several labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import hamming_loss

from swarm import MLkNN, Problem
from swarm.errors import ConfigError
from swarm.problem.folds import Fold, make_folds
from swarm.problem.scoring import resolve_scoring, scorer_names
from tests.fakes import calm


def labels(seed: int, n_rows: int, n_labels: int) -> np.ndarray[Any, Any]:
    """Labels from common to rare that often come together."""
    rng = np.random.default_rng(seed)
    common = rng.random((n_rows, 1))
    score = common + rng.random((n_rows, n_labels))
    ranks = score.argsort(axis=0).argsort(axis=0)
    return (ranks < n_rows * np.geomspace(0.6, 0.08, n_labels)).astype(int)


def uneven(folds: list[Fold], target: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far the share of each label in the folds is from that in the whole: (n_labels,)."""
    whole = target.mean(axis=0)
    apart = [np.abs(target[test].mean(axis=0) - whole) for _, test in folds]
    return np.asarray(np.mean(apart, axis=0))


@calm
@given(
    seed=st.integers(0, 999),
    n_rows=st.integers(12, 90),
    n_labels=st.integers(2, 8),
    n_folds=st.integers(2, 6),
    shuffle=st.booleans(),
)
def test_every_row_is_tested_once_and_sizes_differ_by_little(
    seed: int, n_rows: int, n_labels: int, n_folds: int, shuffle: bool
) -> None:
    target = labels(seed, n_rows, n_labels)
    folds = make_folds(
        "stratified", target, "multilabel", n_folds=n_folds, seed=seed, shuffle=shuffle
    )
    assert len(folds) == n_folds
    assert sorted(row for _, test in folds for row in test) == list(range(n_rows))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(n_rows))
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 2 * n_labels


def test_every_label_is_shared_out_more_evenly_than_by_chance() -> None:
    target = labels(3, 600, 6)
    gains = []
    for seed in range(5):
        ours, chance = (
            uneven(make_folds(kind, target, "multilabel", n_folds=10, seed=seed), target)
            for kind in ("stratified", "random")
        )
        assert (ours < chance).all()
        gains.append(ours.mean() / chance.mean())
    assert np.mean(gains) < 0.4


def test_a_label_that_is_rarer_than_folds_is_spread_as_far_as_it_goes() -> None:
    target = np.zeros((40, 2), dtype=int)
    target[:3, 0], target[:20, 1] = 1, 1
    folds = make_folds("stratified", target, "multilabel", n_folds=5, seed=1)
    assert sorted(target[test, 0].sum() for _, test in folds) == [0, 0, 1, 1, 1]
    assert [target[test, 1].sum() for _, test in folds] == [4] * 5
    assert [len(test) for _, test in folds] == [8] * 5


def test_folds_follow_the_seed_and_nothing_else() -> None:
    target = labels(0, 80, 4)

    def made(seed: int, shuffle: bool = True) -> list[list[int]]:
        folds = make_folds("stratified", target, "multilabel", seed=seed, shuffle=shuffle)
        return [test.tolist() for _, test in folds]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert made(1, shuffle=False) == made(2, shuffle=False)


def test_a_number_of_folds_means_stratified_for_labels() -> None:
    target = labels(0, 60, 3)
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4))).add_prefix("x")
    problem = Problem.build(table, target, MLkNN(3), folds=4, seed=5)
    expected = make_folds("stratified", target, "multilabel", n_folds=4, seed=5)
    for found, wanted in zip(problem.folds, expected, strict=True):
        assert [part.tolist() for part in found] == [part.tolist() for part in wanted]


@pytest.mark.parametrize(("task", "words"), [("multilabel", "multilabel"), ("regression", "regr")])
def test_stratified_groups_need_classes(task: str, words: str) -> None:
    target = labels(0, 40, 3) if task == "multilabel" else np.arange(40.0)
    with pytest.raises(ConfigError, match=f"need classes but the target is {words}") as caught:
        make_folds("stratified_group", target, task, groups=np.arange(40) // 4)
    assert "\n" not in str(caught.value)


class Constant(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict no label at all, or every one."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.classes_ = [np.array([0, 1])] * 4

    def predict(self, X: Any) -> Any:
        return np.full((len(X), 4), self.value)


TARGET = labels(1, 30, 4)
FEATURES = np.zeros((30, 1))


def cost(name: str, value: int) -> float:
    scoring = resolve_scoring(name, None, TARGET, "multilabel")
    return scoring.cost(Constant(value), FEATURES, TARGET)


def test_the_costs_of_labels_are_these_figures() -> None:
    for name in ("subset_accuracy", "accuracy"):
        assert cost(name, 0) == pytest.approx(1 - (TARGET == 0).all(axis=1).mean())
    assert cost("neg_hamming_loss", 1) == pytest.approx(hamming_loss(TARGET, np.ones((30, 4))))
    assert cost("f1_micro", 0) == 1.0
    assert resolve_scoring(None, None, TARGET, "multilabel").name == "accuracy"
    assert all(
        resolve_scoring(name, None, TARGET, "multilabel").bounded
        for name in ("subset_accuracy", "neg_hamming_loss", "f1_samples", "jaccard_samples")
    )


@pytest.mark.parametrize("kind", ["f1", "jaccard", "precision", "recall"])
@pytest.mark.parametrize("average", ["samples", "macro"])
def test_nothing_to_divide_by_is_zero_and_no_warning(kind: str, average: str) -> None:
    scoring = resolve_scoring(f"{kind}_{average}", None, TARGET, "multilabel")
    for value in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet = cost(scoring.name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert quiet == 1.0 - scoring.scorer(Constant(value), FEATURES, TARGET)


def test_scorers_of_labels_are_refused_elsewhere_and_listed_everywhere() -> None:
    assert {"subset_accuracy", "neg_hamming_loss"} <= set(scorer_names())
    with pytest.raises(ConfigError, match="a multi-label target but the target is binary; use"):
        resolve_scoring("subset_accuracy", None, np.array([0, 1]), "binary")
    with pytest.raises(ConfigError, match=r"did you mean 'subset_accuracy'"):
        resolve_scoring("subset_acuracy", None, TARGET, "multilabel")
