"""Tests of `n_fits_`: the models that were trained, each on one fold."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from swarm import SubsetSelector
from swarm.evaluation.crossval import CrossValidation

PROXY = {"rows": 0.5, "best": 4, "probes": 2}


@pytest.mark.parametrize(
    ("n_columns", "options"),
    [
        (12, {}),
        (12, {"prefilter": True}),
        (12, {"confirm": True}),
        (12, {"size": 4, "confirm": True}),
        (12, {"proxy": PROXY}),
        (12, {"proxy": PROXY, "confirm": True}),
        # The candidates include all features.
        (3, {"strategy": "exhaustive", "budget": None, "confirm": True}),
    ],
)
def test_every_model_on_a_fold_is_counted_once(
    n_columns: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = make_classification(200, 12, n_informative=4, random_state=0)
    table = pd.DataFrame(X[:, :n_columns]).add_prefix("x")
    trained = 0
    train = CrossValidation._train

    def count_fits(self: CrossValidation, *jobs: Any) -> tuple[int, float]:
        nonlocal trained
        fits, seconds = train(self, *jobs)
        trained += fits
        return fits, seconds

    monkeypatch.setattr(CrossValidation, "_train", count_fits)
    options = {"budget": 4, **options}
    selector = SubsetSelector(DecisionTreeClassifier(max_depth=3), **options).fit(table, y)
    assert selector.n_fits_ == trained > 0
