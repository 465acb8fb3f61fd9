"""Input that is allowed, but odd: it works, or is warned about by a code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from flows.configured import fetched, prepare_as_configured
from flows.select import select
from swarm import SubsetSelector
from swarm.warning_codes import WARNINGS, coded
from tests.small_run import BAYES, OTHERS, Bench, table

# Every column name of a table that a search makes of its own.
TAKEN = ["epoch", "cost", "size", "group", "features", "mask", "fold_0", "feature_cost"]


def warned(bench: Bench, frame: pd.DataFrame, **sections: Any) -> tuple[str, ...]:
    """What is said of a table before it is searched."""
    config = bench.config(**sections)
    frame.to_csv(bench.folder / "table.csv", index=False)
    return prepare_as_configured(config, fetched(config), split=False).warnings


def test_a_fold_column_with_gaps_is_warned_about(bench: Bench) -> None:
    folds = {"kind": "column", "column": "fold"}
    data = {"drop": [name for name in OTHERS if name != "fold"]}
    frame = table()
    assert warned(bench, frame, data=data, folds=folds) == ()
    frame["fold"] = frame["fold"].where(frame.index >= 45)
    (warning,) = warned(bench, frame, data=data, folds=folds)
    assert warning.startswith("SWM103: 45 of 120 rows have no value in the fold column 'fold'")
    assert "never tested" in warning
    assert "fill them, unless this is intended" in warning


def test_classes_of_two_rows_are_warned_about(bench: Bench) -> None:
    frame = table().assign(y=[f"c{i // 2}" for i in range(120)])
    (warning,) = warned(bench, frame, model=BAYES, folds={"kind": "random"})
    assert warning.startswith("SWM104: ")
    assert "of 60 classes ('c" in warning
    assert "stratified" in warning
    assert "drop rare classes" in warning
    three = table().assign(y=table()["kind"])
    assert warned(bench, three, model=BAYES, folds={"kind": "random"}) == ()


def test_every_code_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reliability.md").read_text(encoding="utf-8")
    for code in WARNINGS:
        assert f"| {code} |" in page
    with pytest.raises(KeyError):
        coded("SWM999", "nothing")


def renamed() -> pd.DataFrame:
    return table().rename(columns={f"x{i}": name for i, name in enumerate(TAKEN)})


@pytest.mark.usefixtures("prefect_server")
def test_columns_may_be_named_as_those_of_the_results(bench: Bench) -> None:
    plain = select(bench.config(), None, 0)
    taken = bench.other("taken")
    renamed().to_csv(taken.folder / "table.csv", index=False)
    outcome = select(taken.config(), None, 0)
    assert taken.statuses() == ["FINISHED"]
    new = dict(zip([f"x{i}" for i in range(8)], TAKEN, strict=True))
    assert outcome.result.features == [new[name] for name in plain.result.features]
    assert outcome.result.history.equals(plain.result.history)
    assert outcome.judgement.table["value"].equals(plain.judgement.table["value"])
    head = taken.artifact(outcome.run_id, "subsets.csv").decode().splitlines()[0].split(",")
    assert head[:5] == ["cost", "group", "epoch", "feature_feature_cost", "size"]
    assert len(set(head)) == len(head)
    for file in ("epochs/0001.parquet", "archive.parquet"):
        ours, theirs = (
            pd.read_parquet(each.tracking.download(run.run_id, file))
            for each, run in ((taken, outcome), (bench, plain))
        )
        assert list(ours) == list(theirs)
        assert ours["cost"].equals(theirs["cost"])
    chosen = json.loads(taken.artifact(outcome.run_id, "features.json"))["features"]
    assert set(chosen) <= set(TAKEN)


def test_a_selector_takes_columns_named_as_those_of_its_results() -> None:
    target = table()["y"]
    options: dict[str, Any] = {"epochs": 3, "cv": 3, "strategy_params": {"n_particles": 4}}
    options["strategy_params"]["n_swarms"] = 2
    rows = renamed()[TAKEN]
    plain = SubsetSelector(GaussianNB(), **options).fit(
        table()[[f"x{i}" for i in range(8)]], target
    )
    taken = SubsetSelector(GaussianNB(), **options).fit(rows, target)
    new = dict(zip([f"x{i}" for i in range(8)], TAKEN, strict=True))
    assert taken.subset_ == [new[name] for name in plain.subset_]
    assert list(taken.results_) == list(plain.results_)
    assert np.array_equal(taken.results_["cost"], plain.results_["cost"], equal_nan=True)
    assert list(taken.transform(rows).shape) == [120, len(taken.subset_)]
