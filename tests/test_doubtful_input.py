"""Input that is allowed, but odd: it works, or is warned about by a code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from flows.configured import fetched, prepare_as_configured
from swarm import SubsetSelector
from tests.small_run import BAYES, OTHERS, TAKEN, Bench, table

RANDOM_BAYES: dict[str, Any] = {"model": BAYES, "folds": {"kind": "random"}}


def warned(bench: Bench, frame: pd.DataFrame, **sections: Any) -> tuple[str, ...]:
    """What is said of a table before it is searched."""
    config = bench.config(**sections)
    frame.to_csv(bench.folder / "table.csv", index=False)
    found = prepare_as_configured(config, fetched(config), split=False).findings
    return tuple(map(str, found))


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
    (warning,) = warned(bench, frame, **RANDOM_BAYES)
    assert warning.startswith("SWM104: ")
    assert "of 60 classes ('c" in warning
    # Stratified folds need as many rows of a class as there are folds.
    assert "set folds.kind to 'stratified' and folds.n_folds to 2, or merge rare" in warning
    (single,) = warned(
        bench, frame.assign(y=frame["y"].where(frame.index != 9, "c0")), **RANDOM_BAYES
    )
    assert "stratified" not in single
    assert single.endswith("merge rare classes with others or remove their rows, in the table")
    three = table().assign(y=table()["kind"])
    assert warned(bench, three, **RANDOM_BAYES) == ()


def test_a_selector_takes_columns_named_as_those_of_its_results() -> None:
    target = table()["y"]
    options: dict[str, Any] = {"epochs": 3, "cv": 3, "strategy_params": {"n_particles": 4}}
    options["strategy_params"]["n_swarms"] = 2
    given = table()[[f"x{i}" for i in range(8)]]
    rows = given.set_axis(TAKEN, axis=1)
    plain = SubsetSelector(GaussianNB(), **options).fit(given, target)
    taken = SubsetSelector(GaussianNB(), **options).fit(rows, target)
    new = dict(zip([f"x{i}" for i in range(8)], TAKEN, strict=True))
    assert taken.subset_ == [new[name] for name in plain.subset_]
    assert list(taken.results_) == list(plain.results_)
    assert np.array_equal(taken.results_["cost"], plain.results_["cost"], equal_nan=True)
    assert list(taken.transform(rows).shape) == [120, len(taken.subset_)]
