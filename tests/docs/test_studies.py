"""Tests of studies: they lose no finished search, and the page agrees with their rows."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conf.sections import (
    BudgetSection,
    DataSection,
    FoldsSection,
    ModelSection,
    SplitSection,
    StrategySection,
)
from studies import musk
from studies.page import PAGE, render, split_page
from studies.runner import COLUMNS, Part, Rows, configured, facts_of, rows_of, run_study
from tests import ROOT

STUDIES = ROOT / "studies"


@pytest.fixture
def parts(tmp_path: Path) -> list[Part]:
    """Return two parts of a small study: three seeds on all rows, and a split with ensembles."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(60, 6)), columns=[f"x{i}" for i in range(6)])
    table["target"] = (table["x0"] + table["x1"] + 0.5 * rng.normal(size=60) > 0).astype(int)
    table.to_parquet(tmp_path / "small.parquet", index=False)
    config = configured(
        "small",
        data=DataSection(source="file", path=str(tmp_path / "small.parquet"), target="target"),
        model=ModelSection(estimator="sklearn.naive_bayes.GaussianNB"),
        folds=FoldsSection(kind="stratified", n_folds=3, seed=0),
        budget=BudgetSection(epochs=None, evaluations=40),
        split=SplitSection(kind="stratified", test_size=0.3, seed=0),
    )
    strategies = {name: StrategySection(name=name) for name in ("bpso", "full")}
    whole = Part("all", "small", config, strategies, (0, 1, 2))
    return [whole, Part("judged", "small", config, strategies, (0,), resample=0, judged=True)]


def rows_without_times(out: Path) -> pd.DataFrame:
    """Return the rows of a study without the columns that depend on the clock."""
    return rows_of("small", out).read().drop(columns=["seconds_algorithm", "seconds_evaluation"])


def test_a_row_is_back_to_the_last_bit_and_a_torn_one_costs_no_other(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "deep" / "study.csv")
    row: dict[str, Any] = dict.fromkeys(COLUMNS, 0) | {"part": "nb", "dataset": "wine"}
    row |= {"strategy": "bpso", "reason": "x", "plan": "012345678901", "cost": 0.1 + 0.2}
    row |= {"test_random": 1 / 3, "test_cost": float("nan")}
    for seed in (2, 0, 1):
        rows.append(row | {"seed": seed})
    whole = rows.path.read_bytes()
    for length in range(whole.rfind(b"\n", 0, -1) + 1, len(whole), 7):
        rows.path.write_bytes(whole[:length])
        assert rows.read()["seed"].tolist() == [2, 0]
        rows.append(row | {"seed": 1})
        assert rows.path.read_bytes() == whole
    rows.append(row | {"seed": 0, "cost": 0.5})
    rows.tidy()
    table = rows.read()
    assert table["cost"].tolist() == [0.5, 0.1 + 0.2, 0.1 + 0.2]
    assert table["test_random"].tolist() == [1 / 3] * 3
    assert table["test_cost"].isna().all()
    # A digest that consists of digits is read as text.
    assert ("nb", "wine", 0, "bpso", 0, "012345678901") in rows.done()


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.slow
def test_a_study_goes_on_after_a_kill_and_does_not_depend_on_workers(
    parts: list[Part], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Rows.append

    def dies(self: Rows, row: dict[str, Any]) -> None:
        if len(self.done()) == 2:
            raise KeyboardInterrupt
        append(self, row)

    interrupted = tmp_path / "interrupted"
    parallel = tmp_path / "parallel"
    work = tmp_path / "work"
    monkeypatch.setattr(Rows, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        run_study("small", parts, interrupted, work, workers=1, verbosity=0)
    assert len(rows_without_times(interrupted)) == 2
    monkeypatch.setattr(Rows, "append", append)
    run_study("small", parts, interrupted, work, workers=1, verbosity=0)
    run_study("small", parts, parallel, work, workers=2, verbosity=0)
    table = rows_without_times(interrupted)
    pd.testing.assert_frame_equal(table, rows_without_times(parallel))
    # Searches with all features do not depend on the seed, so there is one for all seeds.
    assert table.groupby(["part", "strategy"]).size().tolist() == [3, 1, 1, 1]
    for name in ("test_cost", "test_ensemble", "test_random"):
        assert (table[name].notna() == (table["part"] == "judged")).all()
    assert facts_of("small", interrupted)["sets"]["small"]["rows"] == 60
    before = rows_of("small", interrupted).path.read_bytes()
    run_study("small", parts, interrupted, work, workers=1, verbosity=0)
    assert rows_of("small", interrupted).path.read_bytes() == before
    # Another budget is another search, and the rows of other seeds stay.
    config = parts[0].config.model_copy(update={"budget": BudgetSection(evaluations=10)})
    other = replace(parts[0], config=config, seeds=(0,))
    run_study("small", [other], interrupted, work, workers=1, verbosity=0)
    swarm = rows_without_times(interrupted).query("part == 'all' and strategy == 'bpso'")
    assert swarm["evaluations"].tolist() == [10, 40, 40]


def test_the_stored_run_of_musk_has_the_digest_of_its_configuration() -> None:
    config = musk.config_of(None, Path("work"), "random", "exact", 0, 15)
    runs = pd.read_csv(STUDIES / "results" / "musk-runs.csv").set_index(["split", "mode", "seed"])
    assert musk.digest_of(config) == runs.loc[("random", "exact", 0), "plan"]


@pytest.mark.parametrize("study", ["two-d", "bees", "musk", "pays", "nested"])
def test_a_section_is_what_its_rows_say(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # statsmodels collects garbage with every correction, which takes half a second here.
    monkeypatch.setattr("gc.collect", lambda: 0)
    module = importlib.import_module(f"studies.{study.replace('-', '_')}")
    section = module.section_of(STUDIES)
    command = f"python studies/{module.__name__[8:]}.py --page"
    _, text, _ = split_page(study, PAGE.read_text(encoding="utf-8"))
    assert text == render(study, section), command
    for name, table in section.tables.items():
        stored = pd.read_csv(STUDIES / "results" / f"{name}.csv")
        pd.testing.assert_frame_equal(table.reset_index(drop=True), stored, check_dtype=False)
