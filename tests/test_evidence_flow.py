"""The evidence flow: what has a row is not searched again, and a page needs rows alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from conf.problem_sections import SplitSection
from conf.run_sections import StrategySection
from flows.cli import app
from flows.evidence import run as flow
from flows.evidence.bees import bees
from flows.evidence.musk import ablation, musk_runs
from flows.evidence.part import Part, Study
from flows.evidence.pays import pays
from flows.evidence.run import Places, facts_of, run_study
from flows.evidence.two_d import ALGORITHMS, two_d
from swarm.errors import DataError, InputError
from tests.small_study import small_config, small_table

pytestmark = pytest.mark.usefixtures("prefect_server")


def small_study(folder: Path, seeds: int) -> tuple[Study, Places]:
    """All rows with two strategies, and one judged split."""
    config, strategies = small_config(folder)
    whole = Part("all", "small", config, strategies, tuple(range(seeds)), note="made up")
    split = config.model_copy(
        update={"split": SplitSection(kind="stratified", test_size=0.3, seed=0)}
    )
    judged = Part("judged", "small", split, strategies, (0,), resample=0, judged=True)
    return Study("small", [whole, judged]), Places(folder / "out", folder / "work")


def results(table: pd.DataFrame) -> pd.DataFrame:
    """What does not hang on the clock."""
    return table.drop(columns=["seconds_algorithm", "seconds_evaluation"])


def test_a_study_runs_each_search_once_whatever_its_workers(tmp_path: Path) -> None:
    study, places = small_study(tmp_path, 3)
    first = run_study(study, places, workers=2, verbosity=0)
    assert first.groupby(["part", "strategy"]).size().to_dict() == {
        ("all", "bpso"): 3,
        ("all", "full"): 1,
        ("judged", "bpso"): 1,
        ("judged", "full"): 1,
    }
    everything = first[first["strategy"] == "full"]
    assert (everything["size"] == everything["n_available"]).all()
    assert (everything["evaluations"] == 1).all()
    tests = ["test_cost", "test_ensemble", "test_all_ensemble", "test_random"]
    assert first.set_index("part").loc["judged", tests].notna().all(axis=None)
    assert first.set_index("part").loc["all", tests].isna().all(axis=None)
    facts = facts_of(places, "small")
    assert facts["sets"]["small"]["rows"] == 60
    assert set(facts["seconds"]) == {"all", "judged"}
    written = places.rows("small").path.read_bytes()
    run_study(study, places, workers=2, verbosity=0)
    assert places.rows("small").path.read_bytes() == written
    alone = replace(places, out=tmp_path / "alone")
    again = run_study(study, alone, workers=1, verbosity=0)
    pd.testing.assert_frame_equal(results(first), results(again))


def test_a_study_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, places = small_study(tmp_path, 3)
    append, wrote = flow.Rows.append, []

    def dies(self: flow.Rows, row: dict[str, object]) -> None:
        if len(wrote) == 2:
            raise KeyboardInterrupt
        append(self, row)
        wrote.append(row)

    monkeypatch.setattr(flow.Rows, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, places, workers=1, verbosity=0)
    assert len(places.rows("small").read()) == 2
    monkeypatch.setattr(flow.Rows, "append", append)
    rows = run_study(study, places, workers=1, verbosity=0)
    other = replace(places, out=tmp_path / "other")
    pd.testing.assert_frame_equal(
        results(rows), results(run_study(study, other, workers=1, verbosity=0))
    )


def test_other_seeds_add_rows_and_another_budget_replaces_them(tmp_path: Path) -> None:
    study, places = small_study(tmp_path, 1)
    before = run_study(study, places, workers=1, verbosity=0)
    more, _ = small_study(tmp_path, 2)
    after = run_study(more, places, workers=1, verbosity=0)
    assert len(after) == len(before) + 1
    whole = study.parts[0]
    budget = whole.config.budget.model_copy(update={"evaluations": 10})
    fewer = replace(whole, config=whole.config.model_copy(update={"budget": budget}))
    changed = run_study(Study("small", [fewer]), places, workers=1, verbosity=0)
    assert len(changed) == len(after)
    swarm = changed[(changed["part"] == "all") & (changed["strategy"] == "bpso")]
    assert swarm.set_index("seed")["evaluations"].to_dict() == {0: 10, 1: 40}


def tables(folder: Path) -> Path:
    """A folder of data sets: one target, several labels."""
    small_table(80).to_parquet(folder / "wdbc.parquet", index=False)
    labels = small_table(90, 12).rename(columns={"target": "label_a"})
    labels["label_b"] = (labels["x2"] > 0).astype(int)
    labels.to_parquet(folder / "toy.parquet", index=False)
    return folder


def test_the_protocols_are_those_of_the_documents(tmp_path: Path) -> None:
    data, work = tables(tmp_path), tmp_path / "work"
    study = two_d(data, work)
    assert {part.name: len(part.seeds) for part in study.parts} == {
        "nb": 40,
        "knn": 10,
        "nested": 1,
    }
    assert sum(part.name == "nested" for part in study.parts) == 20
    assert set(study.parts[0].strategies) == {*ALGORITHMS, "full"}
    assert study.parts[0].config.budget.evaluations == 6000
    assert "sonar" in study.missing
    several = bees(data, work)
    assert [part.name for part in several.parts] == ["free", "free", "half", "quarter", "tenth"]
    assert {part.dataset for part in several.parts} == {"toy"}
    half = several.parts[2].config.space
    assert (half.min_size, half.max_size) == (6, 6)
    assert {part.name for part in pays(data, work).parts} == {"nb", "knn", "lightgbm"}


def test_the_studies_write_pages_and_write_them_again_without_data(tmp_path: Path) -> None:
    data, out = tables(tmp_path), tmp_path / "out"
    shared = ["--out", str(out), "--work", str(tmp_path / "work"), "--workers", "1", "-q"]
    given = ["--data", str(data), *shared]
    runner = CliRunner()
    commands = {
        "two-d": ["--runs", "2", "--runs-knn", "2", "--resamples", "2", "--evaluations", "40"],
        "bees": ["--runs", "2", "--runs-others", "2", "--evaluations", "30"],
        "pays": [
            *("--resamples", "2", "--resamples-trees", "2"),
            *("--distinct", "20", "--distinct-trees", "6"),
        ],
    }
    for study, options in commands.items():
        ran = runner.invoke(app, ["evidence", study, *given, *options], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        page = (out / f"{study}.md").read_text()
        assert page.startswith("# ")
        for name in (
            line.split("(figures/")[1].split(")")[0]
            for line in page.splitlines()
            if "](figures/" in line
        ):
            assert (out / "figures" / name).read_bytes().startswith(b"<")
        (out / f"{study}.md").unlink()
        again = runner.invoke(app, ["evidence", study, "--page", *shared], catch_exceptions=False)
        assert again.exit_code == 0, again.output
        assert (out / f"{study}.md").read_text() == page
        assert json.loads((out / "results" / f"{study}.json").read_text())["machine"]["cores"] >= 1


def test_a_page_without_rows_and_data_that_are_not_there_say_so(tmp_path: Path) -> None:
    runner = CliRunner()
    with pytest.raises(InputError, match="no rows of the study 'bees'"):
        runner.invoke(
            app, ["evidence", "bees", "--page", "--out", str(tmp_path)], catch_exceptions=False
        )
    small_table().to_parquet(tmp_path / "small.parquet")
    with pytest.raises(DataError, match="no table with columns"):
        bees(None, tmp_path)
    (run,) = musk_runs(None, tmp_path, seeds=1, epochs=1, epochs_group=0, epochs_exact=0)
    assert (run.config.data.source, run.config.data.id) == ("uci", 75)
    with pytest.raises(DataError, match=r"no musk_v2\.parquet"):
        musk_runs(tmp_path, tmp_path, seeds=1, epochs=1, epochs_group=0, epochs_exact=0)


def test_the_ablation_switches_one_part_off_at_a_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    table.assign(target=[0, 1] * 15, group=["m", "n", "o"] * 10).to_parquet(
        tmp_path / "musk_v2.parquet"
    )
    study = ablation(tmp_path, tmp_path, seeds=3, distinct=20)
    (part,) = study.parts
    whole = part.strategies["whole"]
    assert isinstance(whole, StrategySection)
    differ = {
        label: {key for key in one.params if one.params[key] != whole.params.get(key)}
        for label, one in part.strategies.items()
    }
    assert differ == {
        "whole": set(),
        "no_local_search": {"local_search"},
        "no_regrouping": {"regroup_every"},
        "no_shrink": {"shrink"},
        "bernoulli_init": {"init"},
    }
    assert part.config.proxy is None
    assert part.config.model.params["n_estimators"] == 40
    runs = musk_runs(tmp_path, tmp_path, seeds=2, epochs=3, epochs_group=2, epochs_exact=1)
    assert [(run.split, run.mode, run.seed) for run in runs] == [
        ("random", "fast", 0),
        ("group", "fast", 0),
        ("random", "fast", 1),
        ("group", "fast", 1),
        ("random", "exact", 0),
    ]
    assert len({run.digest for run in runs}) == 3
