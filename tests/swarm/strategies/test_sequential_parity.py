"""The sequential searches against mlxtend; test_from_mlxtend runs its documentation's examples.

mlxtend is asked from outside only. Where we differ on purpose: what is parsimonious; of sizes
that cost the same the smaller is the answer (mlxtend, going backward, takes the larger); and
costs that differ by rounding alone are equal (to mlxtend the order of a sum may decide).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold

from swarm.search.result import SearchResult
from swarm.strategies.catalogue import make
from swarm.testing.planted import Planted, make_driver, plain_space

mlxtend = pytest.importorskip("mlxtend.feature_selection")

# Name to (forward, floating).
MODES = {
    "sfs": (True, False),
    "sbs": (False, False),
    "sffs": (True, True),
    "sbfs": (False, True),
}
Subset = tuple[int, ...]


def subset(mask: Any) -> Subset:
    return tuple(np.flatnonzero(mask).tolist())


def path(result: SearchResult) -> dict[Subset, float]:
    """Best subset of every size the answer may have, with its score."""
    members = result.state.strategy.members
    return {subset(mask): 1 - cost for mask, cost in zip(members.masks, members.costs, strict=True)}


def scores(selector: Any) -> dict[Subset, float]:
    return {tuple(v["feature_idx"]): float(v["avg_score"]) for v in selector.subsets_.values()}


@dataclass
class Tabled(Planted):
    """A planted score for every subset and fold, without any structure."""

    scores: dict[Subset, Any] = field(default_factory=dict)

    def fold_cost(self, mask: Any, fold: int) -> float:
        return 1.0 - float(self.scores[subset(mask)][fold])


class Silent(ClassifierMixin, BaseEstimator):
    """Learns nothing; what counts is who asks the scorer."""

    def fit(self, X: Any, y: Any) -> Silent:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


def tabled(n_units: int, draw: Callable[[], Any], fixed: Subset = ()) -> Tabled:
    sizes = range(1, n_units + 1)
    subsets = [s for k in sizes for s in itertools.combinations(range(n_units), k)]
    values = {s: np.atleast_1d(draw()) for s in subsets}
    n_folds = len(values[0,])
    space = plain_space(n_units, fixed=[f"x{i}" for i in fixed])
    blank = np.zeros((n_folds, n_units))
    return Tabled(space, blank, np.zeros(n_folds), scores=values)


def asked_of_mlxtend(
    name: str, evaluator: Tabled, size: Any, fixed: Subset
) -> tuple[Any, list[Subset]]:
    """Let mlxtend search the same planted scores; what it asked for, in order."""
    n_units, n_folds = evaluator.space.n_units, evaluator.n_folds
    # A cell tells its column and its row, so the scorer knows the subset and the fold.
    X = np.arange(n_units) + 100.0 * np.arange(4 * n_folds)[:, None]
    y = np.arange(len(X)) % 2
    folds = list(KFold(n_folds).split(X)) if n_folds > 1 else 0
    asked: list[Subset] = []

    def score(model: Any, X: Any, y: Any) -> float:
        row, fold = divmod(np.asarray(X), 100)[0][0, 0], 0
        fold = int(row) // 4 if n_folds > 1 else 0
        units = tuple((np.asarray(X)[0] % 100).astype(int).tolist())
        if fold == 0:
            asked.append(units)
        return float(evaluator.scores[units][fold])

    forward, floating = MODES[name]
    selector = mlxtend.SequentialFeatureSelector(
        Silent(),
        k_features=size,
        forward=forward,
        floating=floating,
        scoring=score,
        cv=folds,
        fixed_features=fixed or None,
    )
    return selector.fit(X, y), asked


def asked_of_ours(name: str, evaluator: Tabled, size: Any) -> tuple[SearchResult, list[Subset]]:
    result = make_driver(make(name, {"size": size}), evaluator, epochs=10_000).run()
    masks = [mask for record in result.records for mask in record.particles["mask"]]
    return result, [subset([bit == "1" for bit in mask]) for mask in masks]


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("levels", [3, 0], ids=["ties", "no ties"])
def test_every_subset_is_asked_for_in_the_order_of_mlxtend(name: str, levels: int) -> None:
    for seed in range(12):
        rng = np.random.default_rng([seed, levels])
        n_units = 4 + seed % 4
        fixed: Subset = ((), (1,), (0, 3))[seed // 4 % 3]
        size: Any = ("best", n_units - 1, (max(2, len(fixed)), n_units - 1), 3)[seed // 3 % 4]

        def draw(rng: Any = rng) -> float:
            return float(rng.random() if levels == 0 else rng.integers(levels) / levels)

        evaluator = tabled(n_units, draw, fixed)
        reference, expected = asked_of_mlxtend(name, evaluator, size, fixed)
        result, asked = asked_of_ours(name, evaluator, size)
        assert asked == expected
        lo, hi = _bounds(size, n_units)
        passed = {s: v for s, v in scores(reference).items() if lo <= len(s) <= hi}
        assert path(result) == pytest.approx(passed, rel=1e-11)
        tied = [s for s, v in passed.items() if v == max(passed.values())]
        assert subset(result.best_mask) == min(tied, key=len)
        assert tuple(reference.k_feature_idx_) == (min if MODES[name][0] else max)(tied, key=len)


@pytest.mark.parametrize("name", ["sfs", "sbs"])
def test_parsimonious_is_the_smallest_within_one_standard_error_on_the_same_path(name: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)

        def draw(rng: Any = rng) -> Any:
            spread = rng.uniform(0, 0.1)
            return 0.8 + rng.uniform(0, 0.05) + rng.normal(0, spread, 5)

        evaluator = tabled(5, draw)
        reference, _ = asked_of_mlxtend(name, evaluator, "parsimonious", ())
        result, _ = asked_of_ours(name, evaluator, "parsimonious")
        passed = sorted(scores(reference), key=len)
        assert sorted(path(result), key=len) == passed
        values = np.array([evaluator.scores[s] for s in passed])
        mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(5)
        best = int(mean.argmax())
        smallest = int(np.argmax(mean >= mean[best] - error[best]))
        assert subset(result.best_mask) == passed[smallest]


def _bounds(size: Any, n_units: int) -> tuple[int, int]:
    if isinstance(size, str):
        return 1, n_units
    return (size, size) if isinstance(size, int) else size
