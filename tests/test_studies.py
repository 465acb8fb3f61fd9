"""Studies lose no finished search, and their pages say what their rows say."""

from __future__ import annotations

import importlib
import re
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
from studies import bees, false_selections, musk, pays, two_d
from studies.page import UnsupportedClaimError, render
from studies.runner import COLUMNS, Part, Rows, configured, facts_of, rows_of, run_study, section
from studies.tables import binned, complete, with_folds

DOCS = Path(__file__).parents[1] / "docs" / "evidence"


@pytest.fixture
def parts(tmp_path: Path) -> list[Part]:
    """Two strategies on a small table: three seeds on all rows, and one split with ensembles."""
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


def found(out: Path) -> pd.DataFrame:
    """Rows without what depends on the clock."""
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
    # A digest of digits alone is text still.
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

    one, two, work = tmp_path / "one", tmp_path / "two", tmp_path / "work"
    monkeypatch.setattr(Rows, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        run_study("small", parts, one, work, workers=1, verbosity=0)
    assert len(found(one)) == 2
    monkeypatch.setattr(Rows, "append", append)
    run_study("small", parts, one, work, workers=1, verbosity=0)
    run_study("small", parts, two, work, workers=2, verbosity=0)
    table = found(one)
    pd.testing.assert_frame_equal(table, found(two))
    # All features draw nothing at random: one search stands for all seeds.
    assert table.groupby(["part", "strategy"]).size().tolist() == [3, 1, 1, 1]
    for name in ("test_cost", "test_ensemble", "test_random"):
        assert (table[name].notna() == (table["part"] == "judged")).all()
    assert facts_of("small", one)["sets"]["small"]["rows"] == 60
    before = rows_of("small", one).path.read_bytes()
    run_study("small", parts, one, work, workers=1, verbosity=0)
    assert rows_of("small", one).path.read_bytes() == before
    # Another budget is another search, and the rows of other seeds stay.
    config = parts[0].config.model_copy(update={"budget": BudgetSection(evaluations=10)})
    other = replace(parts[0], config=config, seeds=(0,))
    run_study("small", [other], one, work, workers=1, verbosity=0)
    swarm = found(one).query("part == 'all' and strategy == 'bpso'")
    assert swarm["evaluations"].tolist() == [10, 40, 40]


def test_the_digests_of_stored_rows_stay_what_they_are(parts: list[Part]) -> None:
    assert parts[0].digest("bpso", "f" * 32) == "1314a9ab725c"
    assert parts[1].digest("full", "f" * 32) == "0bcedab9d461"
    # Its defaults were those of the source when the rows were made.
    as_named = replace(parts[0], strategies={"multiswarm": StrategySection(name="multiswarm")})
    as_run = replace(parts[0], strategies={"multiswarm": section("multiswarm")})
    assert as_run.digest("multiswarm", "f" * 32) == as_named.digest("multiswarm", "f" * 32)
    config = musk.config_of(None, Path("work"), "random", "fast", 0, 100)
    runs = pd.read_csv(DOCS / "results" / "musk-runs.csv").set_index(["split", "mode", "seed"])
    assert musk.digest_of(config) == runs.loc[("random", "fast", 0), "plan"]


def test_gaps_are_filled_folds_hold_small_classes_and_bins_leave_labels_alone() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    table["target"] = [0] * 36 + [1] * 4
    few, many = table.copy(), table.assign(d=np.nan)
    few.loc[[1, 7], "a"] = np.nan
    many.loc[many.index % 2 == 0, "b"] = np.nan
    assert len(complete(few)[0]) == 38
    filled, note = complete(many)
    assert (list(filled), filled.isna().any(axis=None)) == (["a", "b", "c", "target"], False)
    assert "1 empty or constant columns left out" in note
    assert with_folds(table, 10).query("target == 1")["fold"].nunique() == 4
    cut = binned(pd.DataFrame({"x": np.linspace(0, 1, 101), "label_a": np.linspace(0, 1, 101)}))
    assert cut["x"].value_counts().sort_index().tolist() == [10] * 9 + [11]
    assert cut["label_a"].nunique() == 101


@pytest.mark.parametrize("study", ["two-d", "bees", "musk", "pays", "false-selections", "nested"])
def test_a_page_is_what_its_rows_say(study: str) -> None:
    module = importlib.import_module(f"studies.{study.replace('-', '_')}")
    page, again = module.page_of(DOCS), f"python studies/{module.__name__[8:]}.py --page"
    text = render(study, page, DOCS)
    assert (DOCS / f"{study}.md").read_text() == text, again
    assert set(re.findall(r"\]\(figures/([^)]+)\.svg\)", text)) == set(page.figures)
    assert all((DOCS / "figures" / f"{name}.svg").exists() for name in page.figures), again
    for name, table in page.tables.items():
        stored = pd.read_csv(DOCS / "results" / f"{name}.csv")
        pd.testing.assert_frame_equal(table.reset_index(drop=True), stored, check_dtype=False)


def test_a_sentence_that_the_rows_no_longer_support_stops_its_page() -> None:
    page = two_d.page_of(DOCS)
    rank = page.values["nb"]["rank"] + 1
    values = {**page.values, "nb": {**page.values["nb"], "rank": rank}}
    with pytest.raises(UnsupportedClaimError, match="first with both"):
        render("two-d", replace(page, values=values), DOCS)


def test_the_protocols_are_those_of_the_papers(parts: list[Part], tmp_path: Path) -> None:
    table = pd.read_parquet(tmp_path / "small.parquet")
    table.to_parquet(tmp_path / "wdbc.parquet")
    table.rename(columns={"target": "label_a"}).to_parquet(tmp_path / "toy.parquet")
    listed = two_d.parts(tmp_path, tmp_path, ["wdbc"])
    assert [len(part.seeds) for part in listed] == [40, 10, *[1] * 20]
    assert listed[0].config.budget.evaluations == 6000
    several = bees.parts(tmp_path, tmp_path)
    assert [part.name for part in several] == ["free", "free", "tenth", "quarter", "half"]
    assert several[4].config.space.max_size == 3
    assert {part.name for part in pays.parts(tmp_path, tmp_path)} == {"nb", "knn", "lightgbm"}
    (ablation,) = musk.parts(None, tmp_path)
    whole = ablation.strategies["whole"].params
    for name, one in ablation.strategies.items():
        changed = [key for key in one.params if one.params[key] != whole.get(key)]
        assert len(changed) == (name != "whole")


def test_a_simulated_target_depends_on_its_columns_alone() -> None:
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(2000, 8)), columns=list("abcdefgh"))
    features["a2"] = features["a"] + 0.1 * rng.normal(size=2000)
    found = false_selections.simulate(features, False, seed=1)
    tells = features.corrwith(found.table.target).abs()
    assert (len(found.true), tells[found.true].min() > 0.1) == (5, True)
    assert tells.drop([*found.true, *found.related]).max() < 0.08
    # A copy is related, unless it is shuffled.
    assert len({"a", "a2"} & {*found.true, *found.related}) != 1
    assert not false_selections.simulate(features, True, seed=1).related
