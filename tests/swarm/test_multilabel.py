"""Tests of ML-kNN: the equations of the paper, ties, and the conventions of scikit-learn."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from swarm import MLkNN, SubsetEnsemble
from tests.stored import served

Rows = list[list[int]]


class Slow:
    """Zhang and Zhou (2007), figure 1, step by step, in exact fractions."""

    def __init__(self, X: Rows, Y: Rows, k: int, s: Fraction) -> None:
        self.X, self.Y, self.k = X, Y, k
        m = len(X)
        n_labels = len(Y[0])
        neighbours = [self._neighbours(x, skip=i) for i, x in enumerate(X)]
        self.prior = []
        self.likelihood = []
        for label in range(n_labels):
            having = sum(row[label] for row in Y)
            prior = (s + having) / (2 * s + m)
            c = [0] * (k + 1)
            c_not = [0] * (k + 1)
            for i in range(m):
                delta = sum(Y[a][label] for a in neighbours[i])
                if Y[i][label]:
                    c[delta] += 1
                else:
                    c_not[delta] += 1
            likelihood = [(s + c[j]) / (s * (k + 1) + sum(c)) for j in range(k + 1)]
            likelihood_not = [(s + c_not[j]) / (s * (k + 1) + sum(c_not)) for j in range(k + 1)]
            self.prior.append((prior, 1 - prior))
            self.likelihood.append((likelihood, likelihood_not))

    def _neighbours(self, x: list[int], skip: int = -1) -> list[int]:
        def distance(a: int) -> int:
            return sum((p - q) ** 2 for p, q in zip(x, self.X[a], strict=True))

        rows = [a for a in range(len(self.X)) if a != skip]
        return sorted(rows, key=lambda a: (distance(a), a))[: self.k]

    def proba(self, x: list[int]) -> list[Fraction]:
        neighbours = self._neighbours(x)
        probabilities = []
        for label, (prior, likelihood) in enumerate(zip(self.prior, self.likelihood, strict=True)):
            count = sum(self.Y[a][label] for a in neighbours)
            yes = prior[0] * likelihood[0][count]
            no = prior[1] * likelihood[1][count]
            probabilities.append(yes / (yes + no))
        return probabilities


def draw(seed: int, n: int, values: int, n_labels: int = 4) -> tuple[Rows, Rows]:
    """Return whole numbers, whose distances are exact and, with few values, often equal."""
    rng = np.random.default_rng(seed)
    X = rng.integers(values, size=(n, 3))
    noise = rng.integers(-1, 2, size=(n, n_labels))
    Y = (X[:, [0, 1, 2, 0]][:, :n_labels] + noise > values // 2).astype(int)
    return X.tolist(), Y.tolist()


@pytest.mark.parametrize("values", [2, 10_000])
@pytest.mark.parametrize(("k", "s"), [(1, 1), (4, Fraction(1, 2))])
def test_predictions_are_those_of_the_paper_ties_included(values: int, k: int, s: Any) -> None:
    X, Y = draw(values, 40, values)
    slow = Slow(X, Y, k, Fraction(s))
    model = MLkNN(k, smoothing=s if s == 1 else float(s)).fit(X, Y)
    rows = X[:15] + draw(7, 15, values)[0]
    expected = [slow.proba(x) for x in rows]
    assert model.predict(rows).tolist() == [[int(p > Fraction(1, 2)) for p in e] for e in expected]
    assert np.abs(model.predict_proba(rows) - np.array(expected, dtype=float)).max() < 1e-12


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = draw(3, 50, 4)
    probabilities = MLkNN(5).fit(X, Y).predict_proba(X)
    monkeypatch.setattr("swarm.multilabel._DISTANCE_BYTES", 8 * 50 * 7)
    assert np.array_equal(MLkNN(5).fit(X, Y).predict_proba(X), probabilities)


def test_it_behaves_as_a_classifier_of_scikit_learn() -> None:
    X, Y = draw(1, 60, 50)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = MLkNN(4, smoothing=0.5)
    copy = clone(model)
    assert copy.get_params() == {"n_neighbors": 4, "smoothing": 0.5}
    assert is_classifier(model)
    assert get_tags(model).classifier_tags.multi_label
    assert model.fit(table, pd.DataFrame(Y)) is model
    scores = cross_val_score(make_pipeline(StandardScaler(), copy), table, np.array(Y), cv=3)
    assert (scores > 0).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    ("params", "y", "message"),
    [
        ({"n_neighbors": 0}, None, "'n_neighbors'"),
        ({"smoothing": 0}, None, "'smoothing'"),
        ({"n_neighbors": 30}, None, "30"),
        ({}, [0, 1] * 15, "label"),
        ({}, [[0, 2]] * 30, "0 and 1"),
        ({}, [[0, 1]] * 29, "30 rows .*29"),
    ],
)
def test_what_it_cannot_learn_is_refused(params: dict[str, Any], y: Any, message: str) -> None:
    X, Y = draw(0, 30, 9)
    with pytest.raises(ValueError, match=message):
        MLkNN(**params).fit(X, Y if y is None else y)


def test_an_ensemble_of_it_is_served_from_its_files(tmp_path: Path) -> None:
    X, Y = draw(1, 60, 50)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    ensemble = SubsetEnsemble(MLkNN(4), [["a"], ["a", "c"], ["b", "c"]]).fit(table, Y)
    assert np.array_equal(served(ensemble, table, tmp_path), ensemble.predict(table))
