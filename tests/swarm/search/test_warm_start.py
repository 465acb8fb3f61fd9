"""Tests of warm starts: from subsets of a file, of an earlier run, or of the caller."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from conf.load import as_yaml, from_yaml
from conf.schema import SelectConfig
from flows.run.configured import (
    fetch_as_configured,
    prepare_as_configured,
    refuse_warm_start,
    with_warm_subsets,
)
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError

X, y = load_wine(return_X_y=True, as_frame=True)
SUBSETS = [["proline", "alcohol", "hue"], ["ash", "flavanoids"]]
BASE = {"name": "warm", "data": {"source": "bundled", "name": "wine"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write the artifact of a run: the best subset, which is in its ensemble too, and another."""
    path = tmp_path / "features.json"
    subsets = [{"features": subset, "cost": 0.1} for subset in SUBSETS]
    path.write_text(json.dumps({"features": SUBSETS[0], "subsets": subsets}))
    return path


def config(warm: Any) -> SelectConfig:
    return SelectConfig.model_validate({**BASE, "warm": warm})


def fitted(warm: Any, strategy: str = "bpso") -> SubsetSelector:
    return SubsetSelector(GaussianNB(), strategy=strategy, warm=warm, budget=1, cv=3).fit(X, y)


def test_the_strategy_evaluates_the_subsets_first_however_they_are_given(file: Path) -> None:
    names = list(X.columns)
    positions = [[names.index(name) for name in subset] for subset in SUBSETS]
    masks = np.array([[name in subset for name in names] for subset in SUBSETS])
    results = [fitted(warm).results_ for warm in (SUBSETS, positions, masks, file)]
    assert [set(subset) for subset in results[0]["features"][:2]] == list(map(set, SUBSETS))
    assert all(table.equals(results[0]) for table in results)
    assert not results[0].equals(fitted(None).results_)


class Store:
    """A tracking store with a single run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def run(self, run_id: str) -> Any:
        assert run_id == "abc"
        return SimpleNamespace(info=SimpleNamespace(run_id="abcdef"))

    def download(self, run_id: str, path: str) -> Path:
        assert (run_id, path) == ("abcdef", "features.json")
        return self.file


def test_a_file_and_a_run_become_subsets_of_the_configuration(file: Path) -> None:
    store: Any = Store(file)
    for warm in (str(file), "abc"):
        resolved = with_warm_subsets(config(warm), store)
        assert resolved.warm == SUBSETS
        # The stored configuration needs neither the file nor the other run.
        stored = from_yaml(as_yaml(resolved), "run", (), {})
        assert isinstance(stored, SelectConfig)
        hints = prepare_as_configured(stored, fetch_as_configured(stored), needs=()).hints
        assert hints.warm is not None
        assert hints.warm.sum(axis=1).tolist() == [3, 2]
    with pytest.raises(DataError, match="features"):
        with_warm_subsets(config(str(file) + "x"), store)


def test_subsets_of_another_table_are_refused() -> None:
    other_config = config([["a", "b"]])
    with pytest.raises(ConfigError, match="1 subsets"):
        prepare_as_configured(other_config, fetch_as_configured(other_config), needs=())


def test_procedures_that_test_on_other_rows_refuse_saved_subsets() -> None:
    with pytest.raises(ConfigError, match="swarm nested"):
        refuse_warm_start(config(SUBSETS), "nested")
