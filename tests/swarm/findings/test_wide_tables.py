"""Claims on wide tables: what compares pairs of columns is refused, and nothing is quadratic."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from swarm import SubsetSelector
from swarm.ensemble import SubsetEnsemble
from swarm.errors import ConfigError
from swarm.evaluation.crossval import CrossValidation
from swarm.problem.hints import MOST_COLUMNS, prepare_hints
from swarm.problem.space import SearchSpace
from swarm.search.warm_start import warm_masks
from swarm.strategies.catalogue import make


def test_pairs_of_too_many_columns_are_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = pd.DataFrame(np.zeros((12, MOST_COLUMNS + 1)))
    table.iloc[:, 0] = np.arange(12)
    monkeypatch.delattr(CrossValidation, "evaluate")
    with pytest.raises(ConfigError, match=r"5,000 at most, got 5,001; leave the prefilter on"):
        SubsetSelector(GaussianNB(), prefilter=False, cv=2).fit(table, np.arange(12) % 2)
    space = SearchSpace.build(list(table.columns))
    for name in ("bee_colony", "mlaco"):
        with pytest.raises(ConfigError, match="leave the prefilter on"):
            prepare_hints(table, space, np.arange(12) % 2, needs=make(name).needs)
    relevance = prepare_hints(table, space, np.arange(12) % 2, needs=("relevance",)).relevance
    assert relevance is not None
    assert len(relevance) == MOST_COLUMNS + 1


def test_an_ensemble_and_a_warm_start_of_all_columns_of_a_wide_table_take_seconds() -> None:
    names = [f"x{i}" for i in range(100_000)]
    table = pd.DataFrame(np.zeros((4, len(names)), dtype=np.float32), columns=names)
    space = SearchSpace.build(names)
    before = time.process_time()
    fitted = SubsetEnsemble(DummyClassifier(), [names, names]).fit(table, [0, 1, 0, 1])
    (mask,) = warm_masks([names], space)
    # Pairs of the columns would take hours.
    assert time.process_time() - before < 120
    assert [len(subset) for subset in fitted.subsets_] == [len(names)] * 2
    assert mask.all()
