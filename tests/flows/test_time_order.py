"""Tests of folds and splits in time: the rows of training and test, and of the gap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

from conf.resolve import fold_kind, outer_gap
from flows.run.configured import fetch_as_configured, prepare_as_configured
from swarm import SubsetSelector
from swarm.errors import ConfigError, DataError
from tasks.parts import outer_folds
from tests.command import Swarm
from tests.small_run import BAYES, Bench, table


class Purged:
    """A splitter without a base class: lists of rows, without those next to the test rows."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of each fold."""
        for test in np.array_split(np.arange(len(X)), 3):
            rows = np.arange(len(X))
            yield rows[(rows < test[0] - 7) | (rows > test[-1] + 10)].tolist(), test.tolist()


class SeveralBlocks(Purged):
    """A splitter with two blocks of test rows per fold, such as a combinatorial one."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of each fold."""
        for train, test in super().split(X):
            yield train, np.split(np.asarray(test), 2)


def test_a_selector_takes_purged_folds_of_any_splitter() -> None:
    frame = table()
    X = frame[[f"x{i}" for i in range(8)]]
    y = frame["y"]
    selector = SubsetSelector(GaussianNB(), cv=Purged(), budget=1)
    fitted = clone(selector).fit(X, y)
    listed = clone(selector).set_params(cv=list(Purged().split(X))).fit(X, y)
    joined = [(train, np.concatenate(blocks)) for train, blocks in SeveralBlocks().split(X)]
    assert listed.subset_ == fitted.subset_
    assert listed.cost_ == fitted.cost_
    assert clone(selector).set_params(cv=joined).fit(X, y).cost_ == fitted.cost_
    with pytest.raises(ConfigError, match="confirm"):
        clone(selector).set_params(confirm=True).fit(X, y)
    with pytest.raises(DataError, match=r"SeveralBlocks .* list of positions, got .*\(2, 20\)"):
        clone(selector).set_params(cv=SeveralBlocks()).fit(X, y)


def timed(bench: Bench, **sections: Any) -> Any:
    data = {"time": "when", "drop": ["number", "kind", "who", "side", "fold"]}
    sections["data"] = data | sections.get("data", {})
    return bench.config(**({"model": BAYES, "split": {"kind": "time"}} | sections))


def test_a_gap_of_zero_changes_no_folds_and_no_fingerprint(bench: Bench) -> None:
    config = timed(bench, folds={"kind": "time"})
    problem = prepare_as_configured(config, fetch_as_configured(config)).problem
    folds = tuple(TimeSeriesSplit(3).split(problem.features))
    assert problem.fingerprint() == replace(problem, folds=folds).fingerprint()
    changed = timed(bench, folds={"kind": "time", "gap": 1})
    other = prepare_as_configured(changed, fetch_as_configured(changed)).problem
    assert other.fingerprint() != problem.fingerprint()


GROUPED = {"group": "who", "drop": ["number", "kind", "side", "fold"]}


def test_automatic_folds_follow_the_split_and_groups(bench: Bench) -> None:
    for sections, wanted in (
        ({"split": {"kind": "random"}}, "stratified"),
        ({}, "time"),
        ({"data": GROUPED, "split": {"kind": "random"}}, "stratified_group"),
        ({"data": GROUPED}, "time"),
        ({"folds": {"kind": "random"}}, "random"),
    ):
        assert fold_kind(timed(bench, **sections), GaussianNB()) == wanted


def test_groups_that_folds_in_time_divide_are_a_finding(bench: Bench) -> None:
    config = timed(bench, data=GROUPED)
    findings = prepare_as_configured(config, fetch_as_configured(config)).findings
    assert "SWM101" in {finding.code for finding in findings}


def test_a_gap_applies_to_the_split_and_to_outer_folds(bench: Bench) -> None:
    config = timed(bench, split={"kind": "time", "test_size": 0.25, "gap": 4})
    rows = fetch_as_configured(config)
    model = GaussianNB()
    data = prepare_as_configured(config, rows)
    assert data.train.time is not None
    assert data.test is not None
    assert data.train.time.tolist() == list(range(86))
    assert data.test.time is not None
    assert data.test.time.tolist() == list(range(90, 120))
    first, *_ = outer_folds(rows, "time", 3, 1, 0, model, outer_gap(config))
    assert first.test.tolist() == list(range(30, 60))
    assert first.train.tolist() == list(range(26))
    wide = timed(bench, split={"kind": "time", "test_size": 0.25, "gap": 90})
    with pytest.raises(DataError, match=r"gap 90 leaves out all 90 rows .* smaller gap"):
        prepare_as_configured(wide, rows)
    with pytest.raises(ConfigError, match="--repeats"):
        outer_folds(rows, "time", 3, 2, 0, model)
    # Outer folds have the gap of the folds if the split has none.
    config = timed(bench, split={"kind": "random"}, folds={"kind": "time", "gap": 2})
    assert outer_gap(config) == 2


def test_splits_and_folds_that_ignore_time_are_findings(bench: Bench, swarm: Swarm) -> None:
    days = pd.date_range("2024-01-01", periods=120).strftime("%Y-%m-%d")
    file = bench.folder / "dated.csv"
    table()[[f"x{i}" for i in range(8)] + ["y"]].assign(day=days).to_csv(file, index=False)
    data = {"path": str(file), "time": "day", "drop": []}

    def codes(**sections: Any) -> set[str]:
        config = bench.file(model=BAYES, **({"data": data} | sections))
        findings = json.loads(swarm("check", config, "--json").out)["findings"]
        assert not [finding for finding in findings if finding["severity"] == "error"]
        return {finding["code"] for finding in findings}

    in_time = {"kind": "time"}
    assert "SWM107" not in codes(split=in_time)
    assert "SWM107" in codes(split=in_time, folds={"kind": "random"})
    assert "SWM107" in codes(folds=in_time)
    assert "SWM107" in codes(data={**data, "time": None, "dates": {"day": "%Y-%m-%d"}})
