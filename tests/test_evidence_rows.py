"""The rows of a study survive a kill, and say how long the rest takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.evidence.part import Part
from flows.evidence.tables import binned, complete, find, with_folds
from swarm.errors import DataError, StoreError
from swarm.evidence.page import duration, markdown_table
from swarm.evidence.projection import projected_seconds
from swarm.evidence.rows import COLUMNS, Rows
from tests.small_study import small_config


def row(seed: int, **changed: Any) -> dict[str, Any]:
    """One search."""
    plain: dict[str, Any] = dict.fromkeys(COLUMNS, 0) | {
        "part": "nb",
        "dataset": "wine",
        "resample": -1,
        "strategy": "bpso",
        "seed": seed,
        "cost": 0.1 + 0.2,
        "reason": "evaluations",
        "seconds_algorithm": 0.25,
        "seconds_evaluation": 1.0,
        "test_cost": float("nan"),
        "test_ensemble": float("nan"),
        "test_all_ensemble": float("nan"),
        "test_random": 1 / 3,
        "plan": "0" * 12,
    }
    return plain | changed


def test_rows_come_back_to_the_last_bit(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "deep" / "study.csv")
    assert rows.read().empty
    rows.append(row(1))
    rows.append(row(0, plan="012345678901"))
    table = rows.read()
    assert list(table.columns) == list(COLUMNS)
    assert table["seed"].tolist() == [1, 0]
    assert table["cost"].tolist() == [0.1 + 0.2] * 2
    assert table["test_random"].tolist() == [1 / 3] * 2
    assert table["test_cost"].isna().all()
    # A digest of figures alone is text still.
    assert ("nb", "wine", -1, "bpso", 0, "012345678901") in rows.done()


def test_a_torn_line_costs_its_row_and_no_other(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "study.csv")
    for seed in range(3):
        rows.append(row(seed))
    whole = rows.path.read_bytes()
    for length in range(whole.rfind(b"\n", 0, -1) + 1, len(whole)):
        rows.path.write_bytes(whole[:length])
        assert rows.read()["seed"].tolist() == [0, 1]
        rows.append(row(2))
        assert rows.path.read_bytes() == whole


def test_the_last_row_of_a_search_counts_and_tidying_sorts(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "study.csv")
    for seed, cost in ((1, 0.5), (0, 0.4), (1, 0.3)):
        rows.append(row(seed, cost=cost))
    assert rows.tidy()["cost"].tolist() == [0.4, 0.3]
    assert len(rows.path.read_text().splitlines()) == 3
    assert not list(tmp_path.glob("*.part"))


def test_another_file_is_not_taken_for_rows(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(StoreError, match="other columns than the rows of a study"):
        Rows(path).read()


def test_the_time_of_a_study_is_told_from_what_was_run() -> None:
    table = pd.DataFrame(
        [
            row(0, seconds_evaluation=1.75),
            row(1, seconds_evaluation=3.75),
            row(0, strategy="genetic", seconds_evaluation=0.75),
        ]
    )
    same, other = ("nb", "wine", "bpso"), ("nb", "wine", "two_d")
    assert projected_seconds([same] * 4, table, 2) == pytest.approx(4 * 3.0 / 2)
    assert projected_seconds([other], table, 1) == pytest.approx((2.0 + 4.0 + 1.0) / 3)
    assert projected_seconds([("knn", "zoo", "bpso")], table, 1) == pytest.approx(7 / 3)
    assert projected_seconds([same], table.iloc[:0], 1) == 0.0
    assert [duration(s) for s in (5, 89, 300, 7500)] == ["5 s", "89 s", "5 min", "2 h 05 min"]


def test_a_table_in_markdown_refuses_a_short_row() -> None:
    assert markdown_table(["a", "b"], [["x|y", 1]]).splitlines() == [
        "| a | b |",
        "| :-- | --: |",
        r"| x\|y | 1 |",
    ]
    with pytest.raises(ValueError, match="a row of 1 cells does not fit 2 columns"):
        markdown_table(["a", "b"], [[1]])


def test_tables_are_found_with_a_target_or_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        find(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no Parquet file"):
        find(tmp_path)
    pd.DataFrame({"x": [1.0], "target": [0], "group": ["a"]}).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame({"x": [1.0], "label_a": [0]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "c.parquet")
    assert {name: one.read().shape for name, one in find(None).items()} == {
        "wine": (178, 14),
        "wdbc": (569, 31),
    }
    found = find(tmp_path)
    assert {name: one.several for name, one in found.items()} == {"a": True, "b": False}
    assert list(found["b"].read().columns) == ["x", "target"]
    assert list(find(tmp_path, ["b", "zoo", "a"])) == ["b", "a"]


def test_gaps_cost_few_rows_or_are_filled() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc")).assign(target=1)
    few, many = table.copy(), table.assign(d=np.nan)
    few.loc[[1, 7], "a"] = np.nan
    many.loc[many.index % 2 == 0, "b"] = np.nan
    assert complete(table) == (table, "")
    left, note = complete(few)
    assert len(left) == 38
    assert note == "2 rows with gaps left out"
    filled, note = complete(many)
    assert list(filled.columns) == ["a", "b", "c", "target"]
    assert not filled.isna().any().any()
    assert filled.loc[many["b"].notna(), "b"].equals(many["b"].dropna())
    assert "1 empty or constant columns left out" in note


def test_folds_hold_classes_smaller_than_their_number() -> None:
    table = pd.DataFrame({"target": [0] * 30 + [1] * 4})
    folds = with_folds(table, 10)["fold"]
    assert folds[table["target"] == 1].nunique() == 4
    assert folds.value_counts().between(3, 4).all()


def test_bins_are_ten_of_one_width_and_leave_labels_alone() -> None:
    table = pd.DataFrame({"x": np.linspace(0, 1, 101), "y": [0, 1] * 50 + [0], "label_a": 1})
    cut = binned(table)
    assert cut["x"].value_counts().sort_index().tolist() == [10] * 9 + [11]
    assert cut["x"].iloc[[0, 10, 99, 100]].tolist() == [0, 1, 9, 9]
    assert cut[["y", "label_a"]].equals(table[["y", "label_a"]])


def test_a_row_counts_for_the_very_same_search_alone(tmp_path: Path) -> None:
    config, strategies = small_config(tmp_path)
    part = Part("nb", "small", config, strategies, (0, 1))
    budget = config.budget.model_copy(update={"evaluations": 7})
    elsewhere = config.model_copy(update={"budget": budget})
    other = Part("nb", "small", elsewhere, strategies, (0, 1))
    assert part.digest("bpso", "f") == part.digest("bpso", "f")
    digests = [
        part.digest("bpso", "f"),
        part.digest("full", "f"),
        part.digest("bpso", "g"),
        other.digest("bpso", "f"),
    ]
    assert len(set(digests)) == 4
    assert (part.seeds_of("bpso"), part.seeds_of("full")) == ((0, 1), (0,))
