"""Tests of hints of wide tables: strategies that compare pairs of columns are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import MAX_COLUMNS, prepare_hints
from swarm.problem.space import SearchSpace
from swarm.strategies.catalogue import make


def test_pairs_of_too_many_columns_are_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = pd.DataFrame(np.zeros((12, MAX_COLUMNS + 1)))
    table.iloc[:, 0] = np.arange(12)
    monkeypatch.delattr(CrossValidation, "evaluate")
    with pytest.raises(ConfigError, match=r"5,000 at most, got 5,001; leave the prefilter on"):
        SubsetSelector(GaussianNB(), strategy="multiswarm", prefilter=False, cv=2).fit(
            table, np.arange(12) % 2
        )
    space = SearchSpace.build(list(table.columns))
    for name in ("bee_colony", "mlaco"):
        with pytest.raises(ConfigError, match="leave the prefilter on"):
            prepare_hints(table, space, np.arange(12) % 2, needs=make(name).needs)
    relevance = prepare_hints(table, space, np.arange(12) % 2, needs=("relevance",)).relevance
    assert relevance is not None
    assert len(relevance) == MAX_COLUMNS + 1
